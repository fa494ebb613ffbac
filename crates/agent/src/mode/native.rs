//! `native`: the provider's own calls. Calls that were written as text are taken as well.

use protocol::chat::{Completion, Request};

use super::{Mode, View};
use crate::answer::normalise;

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

    fn patience(&self) -> (usize, usize) {
        (3, 6)
    }
}
