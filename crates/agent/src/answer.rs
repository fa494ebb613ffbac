//! A model's answer in the form in which it is kept: calls written as text made into calls, every call with an id of
//! its own, and arguments as the log gives them back. The turn and the log then hold the same conversation.

use std::collections::HashSet;

use protocol::chat::{Call, Completion, Message, Part};

use crate::loose::without_thoughts;
use crate::tools::{recorded_input, replayed_arguments};
use crate::{drone, quoting, salvage};

/// The answer to a request with these messages, in the form in which it is recorded and replayed: calls that the model
/// wrote as text are calls, and every call has an id of its own. Record what this gives: [`crate::Turn`] does the same to
/// the answer it is handed, and doing it twice changes nothing.
///
/// Where calls came in the provider's own way, a call beside other words is one that the model speaks of.
pub fn normalise(messages: &[Message], completion: Completion) -> Completion {
    if called_natively(messages) && !is_alone(&completion) {
        return kept(completion);
    }
    with_calls_in_text(messages, completion)
}

/// Whether a model has called a tool in the provider's own way.
pub(crate) fn called_natively(messages: &[Message]) -> bool {
    messages.iter().flat_map(calls_of).any(|call| !call.id.starts_with(salvage::ID_PREFIX))
}

fn is_alone(completion: &Completion) -> bool {
    let text: Vec<&str> = completion.parts.iter().filter_map(text).collect();
    quoting::is_alone(without_thoughts(&text.join("\n")))
}

/// The same for a model that has no other way to call.
pub(crate) fn with_calls_in_text(messages: &[Message], mut completion: Completion) -> Completion {
    if !completion.parts.iter().any(|part| matches!(part, Part::Call(_))) {
        let text: Vec<&str> = completion.parts.iter().filter_map(text).collect();
        let salvaged = salvage::calls(&text.join("\n"), next_number(messages));
        completion.parts.extend(salvaged.into_iter().map(Part::Call));
    }
    kept(completion)
}

/// The same for an answer whose words are no calls.
pub(crate) fn kept(mut completion: Completion) -> Completion {
    drone::shorten(&mut completion);
    let mut ids = HashSet::new();
    for part in &mut completion.parts {
        let Part::Call(call) = part else { continue };
        call.arguments = replayed_arguments(&recorded_input(&call.arguments));
        // Results are matched to calls by id, so an id that is missing or used twice in one answer is replaced.
        let mut number = 0;
        while call.id.is_empty() || !ids.insert(call.id.clone()) {
            number += 1;
            call.id = format!("call_{number}");
        }
    }
    completion
}

/// The message of these parts; none when they hold neither text nor a call. Providers refuse empty text, and reasoning
/// that led to nothing is of no use to the next step.
pub(crate) fn message(parts: Vec<Part>) -> Option<Message> {
    let parts: Vec<Part> = parts
        .into_iter()
        .filter(|part| match part {
            Part::Text { text } => !text.trim().is_empty(),
            Part::Reasoning { text, signature } => !text.trim().is_empty() || signature.is_some(),
            Part::Call(_) => true,
        })
        .collect();
    let says_something = parts.iter().any(|part| !matches!(part, Part::Reasoning { .. }));
    says_something.then_some(Message::Assistant { parts })
}

/// The calls of a message, in order.
pub(crate) fn calls_of(message: &Message) -> impl Iterator<Item = &Call> {
    let parts: &[Part] = match message {
        Message::Assistant { parts } => parts,
        Message::User { .. } | Message::Tools { .. } => &[],
    };
    parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        Part::Text { .. } | Part::Reasoning { .. } => None,
    })
}

/// The text of a part.
pub(crate) fn text(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Reasoning { .. } | Part::Call(_) => None,
    }
}

/// The number of the next call that is found in text. Numbers go on after the calls that are still in the conversation.
pub(crate) fn next_number(messages: &[Message]) -> usize {
    let number = |call: &Call| call.id.strip_prefix(salvage::ID_PREFIX)?.parse::<usize>().ok();
    1 + messages.iter().flat_map(calls_of).filter_map(number).max().unwrap_or(0)
}

/// A call that was found in text.
pub(crate) fn text_call(number: usize, tool: String, arguments: String) -> Call {
    Call { id: format!("{}{number}", salvage::ID_PREFIX), tool, arguments }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Usage;
    use protocol::chat::Stop;

    fn call(id: &str, arguments: &str) -> Part {
        Part::Call(Call { id: id.into(), tool: "list".into(), arguments: arguments.into() })
    }

    #[test]
    fn calls_get_distinct_ids_and_canonical_arguments() {
        let parts =
            vec![call("a", "{ \"path\" : \"x\" }"), call("a", "{broken"), call("", ""), call("call_1", "{}")];
        let completion = Completion { parts, stop: Stop::Tools, usage: Usage::default() };
        let once = normalise(&[], completion);
        let message = Message::Assistant { parts: once.parts.clone() };
        let seen: Vec<(&str, &str)> =
            calls_of(&message).map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
        assert_eq!(
            seen,
            [("a", r#"{"path":"x"}"#), ("call_1", "{broken"), ("call_2", "{}"), ("call_3", "{}")]
        );
        assert_eq!(normalise(&[], once.clone()), once);
    }
}
