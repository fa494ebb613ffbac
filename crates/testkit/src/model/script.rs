//! What a scripted model says: replies one after the other, and optionally a function that reacts to each request.

use std::collections::VecDeque;

use serde_json::Value;

use super::reply::Reply;
use super::request::Request;

type Function = Box<dyn FnMut(&Request, usize) -> Reply + Send>;

/// A sequence of replies, one for each request that is in order.
#[derive(Default)]
pub struct Script {
    replies: VecDeque<Reply>,
    end: End,
    given: usize,
}

/// What happens after the last reply.
#[derive(Default)]
enum End {
    #[default]
    Exhausted,
    RepeatLast(Option<Reply>),
    Function(Function),
}

impl Script {
    /// A script without replies.
    pub fn new() -> Self {
        Self::default()
    }

    /// A script that makes each reply from the request and its number, counted from zero.
    pub fn from_fn(function: impl FnMut(&Request, usize) -> Reply + Send + 'static) -> Self {
        Self::new().then(function)
    }

    /// Then says this and ends its turn.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.answer(Reply::text(text))
    }

    /// Then calls this tool.
    #[must_use]
    pub fn call(self, tool: impl Into<String>, arguments: Value) -> Self {
        self.answer(Reply::new().call(tool, arguments))
    }

    /// Then gives this reply.
    #[must_use]
    pub fn answer(mut self, reply: Reply) -> Self {
        self.replies.push_back(reply);
        self
    }

    /// After the last reply, gives it again and again.
    #[must_use]
    pub fn repeat_last(mut self) -> Self {
        self.end = End::RepeatLast(None);
        self
    }

    /// After the last reply, makes each reply from the request and its number, counted from zero for the first of all.
    #[must_use]
    pub fn then(mut self, function: impl FnMut(&Request, usize) -> Reply + Send + 'static) -> Self {
        self.end = End::Function(Box::new(function));
        self
    }

    /// The next reply and its number; `None` when the script is at its end.
    pub(super) fn next(&mut self, request: &Request) -> Option<(usize, Reply)> {
        let number = self.given;
        let reply = match (self.replies.pop_front(), &mut self.end) {
            (Some(reply), End::RepeatLast(last)) => last.insert(reply).clone(),
            (Some(reply), End::Exhausted | End::Function(_)) => reply,
            (None, End::Exhausted) => return None,
            (None, End::RepeatLast(last)) => last.clone()?,
            (None, End::Function(function)) => function(request, number),
        };
        self.given += 1;
        Some((number, reply))
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script")
            .field("replies", &self.replies)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

impl FromIterator<Reply> for Script {
    fn from_iter<I: IntoIterator<Item = Reply>>(replies: I) -> Self {
        replies.into_iter().fold(Self::new(), Self::answer)
    }
}
