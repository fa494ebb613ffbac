//! A conversation made valid for the server that will read it next, whoever wrote it: each call has one result, directly
//! after it and in its order, ids look as the server wants them, and signatures of others or that it refused before stay away.
//! It is a function of the conversation alone, so what was sent once is sent the same again and caches match.

use std::collections::{HashMap, HashSet};

use protocol::chat::{Call, Message, Part, ToolResult};

use crate::quirks::Ids;

/// What stands for a result that never came.
const NO_RESULT: &str =
    "There is no result: the call was interrupted. Its effects may be partial; look before you go on.";

/// The most characters of an id.
const ID_LIMIT: usize = 64;

/// A conversation that can be sent, and what had to be changed.
pub(crate) struct Converted {
    pub(crate) messages: Vec<Message>,
    pub(crate) notes: Vec<String>,
}

/// Stands before the maker of a signature. No signature of a provider begins with it.
const MAKER_MARK: char = '@';

/// Makes the conversation valid for this maker. `refused` holds the marks of signatures that the server would not take.
pub(crate) fn convert(messages: &[Message], ids: Ids, maker: &str, refused: &HashSet<u64>) -> Converted {
    let mut state = State { ids, ..State::default() };
    for message in messages {
        match message {
            Message::Assistant { parts } => state.assistant(parts, maker, refused),
            Message::Tools { results } => state.results(results),
            Message::User { .. } if state.open.is_empty() => state.sent.push(message.clone()),
            // Results stand directly after their calls, so what a person said in between comes after them.
            Message::User { .. } => state.held.push(message.clone()),
        }
    }
    state.close();
    let notes = [
        (state.missing, "calls had no result; the model is told that they were interrupted"),
        (state.orphans, "results had no call and were left out"),
    ];
    let notes = notes.into_iter().filter(|(count, _)| *count > 0);
    Converted { messages: state.sent, notes: notes.map(|(count, what)| format!("{count} {what}")).collect() }
}

/// Marks the signatures of an answer with who made them.
pub(crate) fn sign(parts: &mut [Part], maker: &str) {
    for part in parts {
        if let Part::Reasoning { signature: Some(signature), .. } = part {
            signature.insert_str(0, &format!("{MAKER_MARK}{maker}:"));
        }
    }
}

/// The signature as this maker gave it; none if another one made it. Where it is not known who did, the format's mark decides.
pub(crate) fn signature_for<'a>(signature: &'a str, maker: &str) -> Option<&'a str> {
    match signature.strip_prefix(MAKER_MARK).map(|marked| marked.split_once(':')) {
        Some(Some((of, signature))) => (of == maker).then_some(signature),
        Some(None) => None,
        None => Some(signature),
    }
}

/// A short name of a maker: of the server's address and its name of the model.
pub(crate) fn maker(address: &str, model: &str) -> String {
    format!("{:016x}", hash(format!("{address}\n{model}").as_bytes(), 0))
}

/// A short name of a signature.
pub(crate) fn mark(signature: &str) -> u64 {
    hash(signature.as_bytes(), 0)
}

#[derive(Debug)]
struct Open {
    /// The id in our log.
    known: String,
    /// The id that is sent.
    sent: String,
    result: Option<ToolResult>,
}

struct State {
    ids: Ids,
    sent: Vec<Message>,
    /// Calls of the last assistant message.
    open: Vec<Open>,
    /// What a person said before their results came.
    held: Vec<Message>,
    /// How often each id was there.
    seen: HashMap<String, u64>,
    missing: usize,
    orphans: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            ids: Ids::Words,
            sent: Vec::new(),
            open: Vec::new(),
            held: Vec::new(),
            seen: HashMap::new(),
            missing: 0,
            orphans: 0,
        }
    }
}

impl State {
    fn assistant(&mut self, parts: &[Part], maker: &str, refused: &HashSet<u64>) {
        self.close();
        let mut sent = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Text { .. } => sent.push(part.clone()),
                Part::Reasoning { signature: None, .. } => sent.push(part.clone()),
                Part::Reasoning { text, signature: Some(signature) } => {
                    let own = signature_for(signature, maker);
                    let is_refused = own.is_some_and(|signature| refused.contains(&mark(signature)));
                    // The words of others may be read by who takes reasoning without a signature.
                    if !is_refused && (own.is_some() || !text.is_empty()) {
                        let signature = own.map(str::to_owned);
                        sent.push(Part::Reasoning { text: text.clone(), signature });
                    }
                }
                Part::Call(call) => {
                    let id = self.id(&call.id);
                    self.open.push(Open { known: call.id.clone(), sent: id.clone(), result: None });
                    sent.push(Part::Call(Call { id, ..call.clone() }));
                }
            }
        }
        self.sent.push(Message::Assistant { parts: sent });
    }

    fn results(&mut self, results: &[ToolResult]) {
        for result in results {
            let open =
                self.open.iter_mut().find(|open| open.known == result.call_id && open.result.is_none());
            match open {
                Some(open) => {
                    open.result = Some(ToolResult { call_id: open.sent.clone(), ..result.clone() });
                }
                None => self.orphans += 1,
            }
        }
        if self.open.iter().all(|open| open.result.is_some()) {
            self.close();
        }
    }

    /// Writes the results of the open calls, and what was held back for them.
    fn close(&mut self) {
        let mut results = Vec::with_capacity(self.open.len());
        for open in self.open.drain(..) {
            results.push(open.result.unwrap_or_else(|| {
                self.missing += 1;
                ToolResult {
                    call_id: open.sent,
                    text: NO_RESULT.to_owned(),
                    is_error: true,
                    images: Vec::new(),
                }
            }));
        }
        if !results.is_empty() {
            self.sent.push(Message::Tools { results });
        }
        self.sent.append(&mut self.held);
    }

    /// An id that the server takes and that no other call has.
    fn id(&mut self, known: &str) -> String {
        let count = self.seen.entry(known.to_owned()).or_insert(0);
        let times = *count;
        *count += 1;
        let word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        match self.ids {
            Ids::Words if times == 0 && (1..=ID_LIMIT).contains(&known.len()) && known.chars().all(word) => {
                known.to_owned()
            }
            Ids::Words => format!("call_{:016x}", hash(known.as_bytes(), times)),
            Ids::Nine => {
                let plain = known.len() == 9 && known.bytes().all(|byte| byte.is_ascii_alphanumeric());
                if plain && times == 0 { known.to_owned() } else { nine(hash(known.as_bytes(), times)) }
            }
        }
    }
}

/// Nine letters and digits.
fn nine(mut number: u64) -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let letters = std::iter::repeat_with(|| {
        let letter = LETTERS[(number % 36) as usize];
        number /= 36;
        char::from(letter)
    });
    letters.take(9).collect()
}

/// FNV-1a: small, and the same on every machine and in every version.
fn hash(bytes: &[u8], times: u64) -> u64 {
    let times = times.to_le_bytes();
    bytes.iter().chain(&times).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(id: &str) -> Part {
        Part::Call(Call { id: id.into(), tool: "shell".into(), arguments: "{}".into() })
    }

    fn calls(ids: &[&str]) -> Message {
        Message::Assistant { parts: ids.iter().map(|id| call(id)).collect() }
    }

    fn results(pairs: &[(&str, &str)]) -> Message {
        let result = |(id, text): &(&str, &str)| ToolResult {
            call_id: (*id).into(),
            text: (*text).into(),
            is_error: false,
            images: Vec::new(),
        };
        Message::Tools { results: pairs.iter().map(result).collect() }
    }

    fn converted(messages: &[Message]) -> Converted {
        convert(messages, Ids::Words, "me", &HashSet::new())
    }

    #[test]
    fn what_is_valid_stays_as_it_is() {
        let messages = [
            Message::user("Go."),
            calls(&["a", "b"]),
            results(&[("a", "1"), ("b", "2")]),
            Message::user("And?"),
        ];
        let converted = converted(&messages);
        assert_eq!(converted.messages, messages);
        assert!(converted.notes.is_empty());
    }

    #[test]
    fn each_call_gets_its_result_in_its_order() {
        let converted = converted(&[
            calls(&["a", "b", "c"]),
            Message::user("Stop that."),
            results(&[("b", "2"), ("nobody", "x")]),
            results(&[("a", "1"), ("b", "again")]),
            Message::user("Next."),
            calls(&["d"]),
        ]);
        let missing = |id: &str| ToolResult {
            call_id: id.into(),
            text: NO_RESULT.into(),
            is_error: true,
            images: Vec::new(),
        };
        let Message::Tools { results: first } = results(&[("a", "1"), ("b", "2")]) else { panic!() };
        assert_eq!(
            converted.messages,
            [
                calls(&["a", "b", "c"]),
                Message::Tools { results: first.into_iter().chain([missing("c")]).collect() },
                Message::user("Stop that."),
                Message::user("Next."),
                calls(&["d"]),
                Message::Tools { results: vec![missing("d")] },
            ]
        );
        assert_eq!(converted.notes.len(), 2, "{:?}", converted.notes);
        assert!(converted.notes[0].starts_with('2') && converted.notes[1].starts_with('2'));
    }

    #[test]
    fn ids_become_what_the_server_takes_and_stay_apart() {
        let long = "x".repeat(100);
        let longer = format!("{long}y");
        let ids = ["toolu_01", "functions.shell:0", "call|fc_1", &long, &longer, "toolu_01", "toolu_01", ""];
        for rule in [Ids::Words, Ids::Nine] {
            let messages: Vec<Message> =
                ids.iter().flat_map(|id| [calls(&[id]), results(&[(id, "ok")])]).collect();
            let converted = convert(&messages, rule, "me", &HashSet::new());
            assert!(converted.notes.is_empty(), "{:?}", converted.notes);
            let sent: Vec<&str> = converted
                .messages
                .iter()
                .filter_map(|message| match message {
                    Message::Tools { results } => Some(results[0].call_id.as_str()),
                    Message::User { .. } | Message::Assistant { .. } => None,
                })
                .collect();
            assert_eq!(sent.len(), sent.iter().collect::<HashSet<_>>().len(), "{sent:?}");
            for id in &sent {
                let fits = match rule {
                    Ids::Words => id.len() <= 64 && !id.is_empty(),
                    Ids::Nine => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
                };
                assert!(fits, "{id:?}");
            }
        }
    }

    #[test]
    fn reasoning_that_was_refused_stays_away() {
        let signed =
            |signature: &str| Part::Reasoning { text: "Hm.".into(), signature: Some(signature.into()) };
        let messages = [Message::Assistant { parts: vec![signed("OLD"), signed("NEW")] }];
        let refused = HashSet::from([mark("OLD")]);
        let converted = convert(&messages, Ids::Words, "me", &refused);
        assert_eq!(converted.messages, [Message::Assistant { parts: vec![signed("NEW")] }]);
    }

    #[test]
    fn a_signature_goes_only_to_whom_it_came_from() {
        let signed = |text: &str, signature: Option<&str>| Part::Reasoning {
            text: text.into(),
            signature: signature.map(Into::into),
        };
        let mut parts = vec![signed("Hm.", Some("gemini:SIG")), signed("", Some("SIG")), signed("Ah.", None)];
        let plain = parts.clone();
        sign(&mut parts, "me");
        let sent = |maker: &str| {
            let messages = [Message::Assistant { parts: parts.clone() }];
            convert(&messages, Ids::Words, maker, &HashSet::new()).messages
        };
        assert_eq!(sent("me"), [Message::Assistant { parts: plain }]);
        let words = vec![signed("Hm.", None), signed("Ah.", None)];
        assert_eq!(sent("you"), [Message::Assistant { parts: words }]);
        let makers = [("a", "m"), ("a", "n"), ("b", "m")].map(|(address, model)| maker(address, model));
        assert_eq!(makers.iter().collect::<HashSet<_>>().len(), 3);
    }

    proptest! {
        #[test]
        fn whatever_the_history_every_call_has_one_result_and_the_beginning_never_changes(
            kinds in proptest::collection::vec((0..3usize, proptest::collection::vec(0..4usize, 0..4)), 0..12),
        ) {
            let ids = ["a", "b.c", "d", "e"];
            let messages: Vec<Message> = kinds
                .iter()
                .map(|(kind, chosen)| {
                    let chosen: Vec<&str> = chosen.iter().map(|index| ids[*index]).collect();
                    match kind {
                        0 => Message::user("x"),
                        1 => calls(&chosen),
                        _ => results(&chosen.iter().map(|id| (*id, "r")).collect::<Vec<_>>()),
                    }
                })
                .collect();
            let sent = converted(&messages).messages;
            let mut seen = HashSet::new();
            let mut open: Vec<String> = Vec::new();
            for message in &sent {
                match message {
                    Message::Tools { results } => {
                        let answered: Vec<String> = results.iter().map(|r| r.call_id.clone()).collect();
                        prop_assert_eq!(&answered, &open);
                        open.clear();
                    }
                    Message::User { .. } | Message::Assistant { .. } => {
                        prop_assert!(open.is_empty());
                        let Message::Assistant { parts } = message else { continue };
                        for part in parts {
                            let Part::Call(call) = part else { continue };
                            prop_assert!(seen.insert(call.id.clone()));
                            open.push(call.id.clone());
                        }
                    }
                }
            }
            prop_assert!(open.is_empty());
        }
    }
}
