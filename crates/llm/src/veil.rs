//! Keys in answers. A server that repeats the headers of a call as if the model had said them would put the key into logs, and
//! into what other models are told later.

use std::mem::take;

use protocol::chat::Part;

use crate::client::Delta;
use crate::model::Model;
use crate::wire::Sink;

/// Shorter keys are names that people made up, and stand in code by chance.
const SHORTEST: usize = 20;

/// What a key is shown as.
const COVER: &str = "…";

/// Covers keys in the pieces of an answer. What may be the beginning of a key waits for its rest.
#[derive(Debug, Default)]
pub(crate) struct Veil {
    secrets: Vec<String>,
    text: String,
    reasoning: String,
}

impl Veil {
    /// Covers the keys of this model.
    pub(crate) fn over(model: &Model) -> Self {
        let is_random = |secret: &String| {
            let any = |of: fn(&u8) -> bool| secret.bytes().any(|byte| of(&byte));
            secret.len() >= SHORTEST
                && any(u8::is_ascii_digit)
                && any(u8::is_ascii_alphabetic)
                && !any(u8::is_ascii_whitespace)
        };
        Self { secrets: model.keys().into_iter().filter(is_random).collect(), ..Self::default() }
    }

    /// Passes a piece on, without keys.
    pub(crate) fn push(&mut self, delta: Delta, sink: &mut Sink<'_>) {
        if self.secrets.is_empty() {
            return sink(delta);
        }
        match delta {
            Delta::Text(piece) => {
                self.flush_reasoning(sink);
                pass(&mut self.text, piece, &self.secrets, &mut |piece| sink(Delta::Text(piece)));
            }
            Delta::Reasoning(piece) => {
                self.flush_text(sink);
                pass(&mut self.reasoning, piece, &self.secrets, &mut |piece| sink(Delta::Reasoning(piece)));
            }
            Delta::Call { index, tool, arguments } => {
                self.end(sink);
                let tool = tool.map(|tool| covered(tool, &self.secrets));
                let arguments = covered(arguments, &self.secrets);
                sink(Delta::Call { index, tool, arguments });
            }
            delta @ (Delta::Usage(_) | Delta::Accepted { .. }) => sink(delta),
        }
    }

    /// Passes on what waits, because nothing more comes.
    pub(crate) fn end(&mut self, sink: &mut Sink<'_>) {
        self.flush_text(sink);
        self.flush_reasoning(sink);
    }

    fn flush_text(&mut self, sink: &mut Sink<'_>) {
        if !self.text.is_empty() {
            sink(Delta::Text(take(&mut self.text)));
        }
    }

    fn flush_reasoning(&mut self, sink: &mut Sink<'_>) {
        if !self.reasoning.is_empty() {
            sink(Delta::Reasoning(take(&mut self.reasoning)));
        }
    }

    /// Covers the keys in a whole answer.
    pub(crate) fn cover(&self, parts: &mut [Part]) {
        for part in parts.iter_mut().filter(|_| !self.secrets.is_empty()) {
            match part {
                Part::Text { text } => *text = covered(take(text), &self.secrets),
                Part::Reasoning { text, signature } => {
                    let shown = covered(text.clone(), &self.secrets);
                    if shown != *text {
                        // It signs what it was.
                        (*text, *signature) = (shown, None);
                    }
                }
                Part::Call(call) => {
                    for said in [&mut call.id, &mut call.tool, &mut call.arguments] {
                        *said = covered(take(said), &self.secrets);
                    }
                    // It is sent back, and providers take only letters and digits.
                    call.id = call.id.replace(COVER, "hidden");
                }
            }
        }
    }
}

fn covered(text: String, secrets: &[String]) -> String {
    secrets.iter().fold(text, |text, secret| {
        if text.contains(secret.as_str()) { text.replace(secret.as_str(), COVER) } else { text }
    })
}

/// Passes on what waited and a piece, but for an end that may be the beginning of a key.
fn pass(waiting: &mut String, piece: String, secrets: &[String], sink: &mut dyn FnMut(String)) {
    let text = if waiting.is_empty() { piece } else { take(waiting) + &piece };
    let mut text = covered(text, secrets);
    let begun = secrets.iter().map(|secret| begun(&text, secret)).max().unwrap_or(0);
    *waiting = text.split_off(text.len() - begun);
    if !text.is_empty() {
        sink(text);
    }
}

/// How many bytes at the end of a text are the beginning of a secret.
fn begun(text: &str, secret: &str) -> usize {
    let longest = text.len().min(secret.len() - 1);
    let mut lengths = (1..=longest).rev().filter(|length| secret.is_char_boundary(*length));
    lengths.find(|length| text.ends_with(&secret[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::model::sample;
    use crate::provider::Provider;

    const KEY: &str = "sk-ss-0123456789-abcdef";

    fn shown(key: &str, pieces: &[&str]) -> String {
        let model = Model { key: Some(Key::new(key.into())), ..sample(Provider::OpenAi, "m") };
        let mut veil = Veil::over(&model);
        let mut text = String::new();
        let mut sink = |delta: Delta| {
            if let Delta::Text(piece) = delta {
                text.push_str(&piece);
            }
        };
        pieces.iter().for_each(|piece| veil.push(Delta::Text((*piece).to_owned()), &mut sink));
        veil.end(&mut sink);
        text
    }

    #[test]
    fn a_key_is_covered_wherever_the_pieces_are_split() {
        let said = format!("authorization: Bearer {KEY}, and s. sk-ss-");
        for at in (0..said.len()).filter(|at| said.is_char_boundary(*at)) {
            let (before, after) = said.split_at(at);
            assert_eq!(shown(KEY, &[before, after]), "authorization: Bearer …, and s. sk-ss-", "{at}");
        }
        let letters: Vec<String> = said.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(shown(KEY, &letters), "authorization: Bearer …, and s. sk-ss-");
    }

    #[test]
    fn a_key_that_is_a_word_stands_in_code_by_chance() {
        assert_eq!(shown("ollama", &["use ollama here"]), "use ollama here");
        assert_eq!(shown("my-own-team-of-people", &["my-own-team-of-people"]), "my-own-team-of-people");
    }

    #[test]
    fn a_whole_answer_is_covered_and_a_signature_of_what_was_covered_goes() {
        let model = Model { key: Some(Key::new(KEY.into())), ..sample(Provider::OpenAi, "m") };
        let thought = |text: &str| Part::Reasoning { text: text.into(), signature: Some("S".into()) };
        let mut parts = [Part::Text { text: format!("It is {KEY}.") }, thought(KEY), thought("Hm.")];
        Veil::over(&model).cover(&mut parts);
        let covered = Part::Reasoning { text: "…".into(), signature: None };
        assert_eq!(parts, [Part::Text { text: "It is ….".into() }, covered, thought("Hm.")]);
    }
}
