//! A scripted model with a small context that checks what it is given: a request that does not fit is refused as real
//! servers refuse it, and what must always be there is looked for.

use std::sync::{Arc, Mutex, PoisonError};

use super::reply::Reply;
use super::request::Request;
use super::script::Script;

/// What a small model saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Requests for the next step.
    pub steps: usize,
    /// Requests for a summary.
    pub summaries: usize,
    /// Tokens of the largest request.
    pub largest: u64,
    /// Requests that did not fit.
    pub refused: usize,
    /// Texts that should have been in a request and were not.
    pub missing: Vec<String>,
}

/// A model that reads so many tokens, counted as a token for every four bytes.
#[derive(Debug, Clone, Default)]
pub struct Small {
    context: u64,
    wanted: Vec<String>,
    seen: Arc<Mutex<Seen>>,
}

impl Small {
    /// A model with a context of so many tokens.
    pub fn new(context: u64) -> Self {
        Self { context, ..Self::default() }
    }

    /// Looks for this text in each request for a step.
    #[must_use]
    pub fn wants(mut self, text: &str) -> Self {
        self.wanted.push(text.to_owned());
        self
    }

    /// What it saw so far.
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A script that answers each step, counted from zero, and sums up when it is asked to.
    pub fn script(&self, mut step: impl FnMut(&Request, usize) -> Reply + Send + 'static) -> Script {
        let this = self.clone();
        Script::from_fn(move |request, _| match this.look(request) {
            Looked::TooLong(tokens) => Reply::status(
                400,
                format!("This model's maximum context length is {} tokens, not {tokens}.", this.context),
            ),
            Looked::Summary => Reply::text("Objective\nGo on.\nDone\nSome steps."),
            Looked::Step(number) => step(request, number),
        })
    }

    fn look(&self, request: &Request) -> Looked {
        let json = request.json.to_string();
        let tokens = (json.len() as u64).div_ceil(4);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.largest = seen.largest.max(tokens);
        let answer = request.max_output_tokens.unwrap_or(0);
        if tokens + answer > self.context {
            seen.refused += 1;
            return Looked::TooLong(tokens + answer);
        }
        // Whoever sums up has no tools.
        if request.tools.is_empty() {
            seen.summaries += 1;
            return Looked::Summary;
        }
        let missing = self.wanted.iter().filter(|text| !json.contains(text.as_str())).cloned();
        seen.missing.extend(missing);
        seen.steps += 1;
        Looked::Step(seen.steps - 1)
    }
}

enum Looked {
    TooLong(u64),
    Summary,
    Step(usize),
}
