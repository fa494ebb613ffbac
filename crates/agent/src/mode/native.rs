//! `native`: the provider's own calls. Calls that were written as text are taken as well.

use protocol::chat::{Completion, Request, Stop};

use super::{Mode, View};
use crate::answer::normalise;
use crate::salvage;

const UNREAD: &str = "Your answer seems to have a tool call in its text. It could not be read, and nothing was run. If you mean it, call the tool in the way that you were given, or write nothing but the call, as {\"name\": \"…\", \"arguments\": {…}}. If you only show it, answer again without it.";

const NOT_RUN: &str = "Your answer ends with a command in a fence, which was not run: nobody runs what is only written. If you want it run, call the tool `shell` with it. If you only show it, or if the work is finished, say so without a fence at the end.";

#[derive(Debug)]
pub(super) struct Native;

impl Mode for Native {
    fn request(&self, view: &View<'_>) -> Request {
        Request {
            system: view.system.to_owned(),
            messages: view.messages.to_vec(),
            tools: view.tools.to_vec(),
            max_output_tokens: view.max_output_tokens,
            ..Request::default()
        }
    }

    fn read(&self, view: &View<'_>, completion: Completion) -> Completion {
        normalise(view.messages, completion)
    }

    fn unread(&self, words: &str, _stop: Stop) -> Option<&'static str> {
        let told = salvage::seems_to_call(words).then_some(UNREAD);
        told.or_else(|| salvage::seems_to_run(words).then_some(NOT_RUN))
    }

    fn is_native(&self) -> bool {
        true
    }

    fn patience(&self) -> (usize, usize) {
        (3, 6)
    }
}
