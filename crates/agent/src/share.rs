//! What each call has of its answer's tokens. Models report tokens for whole answers; a call's share of them is what its
//! bytes are of all bytes that the model wrote.

use protocol::Usage;
use protocol::chat::Part;

/// Bytes of a text that are about one token: what most tokenizers make of code and English.
const BYTES_PER_TOKEN: u64 = 4;

/// The tokens of each call of an answer, in order. What is left, the answer's words and what a division loses, is nobody's.
pub fn written(parts: &[Part], usage: &Usage) -> Vec<u64> {
    let weight = |part: &Part| match part {
        Part::Text { text } => text.len(),
        // Where a server counts it apart, it is no part of what is divided.
        Part::Reasoning { text, .. } if usage.reasoning == 0 => text.len(),
        Part::Reasoning { .. } => 0,
        Part::Call(call) => call.tool.len() + call.arguments.len(),
    };
    let all: u128 = parts.iter().map(|part| weight(part) as u128).sum();
    let share = |part: &Part| {
        let tokens = u128::from(usage.output) * weight(part) as u128 / all.max(1);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    };
    parts.iter().filter(|part| matches!(part, Part::Call(_))).map(share).collect()
}

/// About how many tokens a text is for whoever reads it.
pub fn read(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::chat::Call;

    fn call(arguments: &str) -> Part {
        Part::Call(Call { id: "c".into(), tool: "list".into(), arguments: arguments.into() })
    }

    #[test]
    fn tokens_are_divided_by_what_was_written() {
        let text = |text: &str| Part::Text { text: text.into() };
        let thought = Part::Reasoning { text: "x".repeat(100), signature: None };
        let usage = |output, reasoning| Usage { output, reasoning, ..Usage::default() };
        let both = [text("12345678"), call("{}{}"), call("{}{}{}{}{}{}")];
        assert_eq!(written(&both, &usage(32, 0)), [8, 16], "the words have the rest");
        let thoughtful = [thought, call(&"x".repeat(96))];
        assert_eq!(written(&thoughtful, &usage(200, 0)), [100], "thoughts are in what is reported");
        assert_eq!(written(&thoughtful, &usage(200, 50)), [200], "they are reported apart");
        assert_eq!(written(&[text("hi")], &usage(3, 0)), Vec::<u64>::new());
        assert_eq!(written(&[call("")], &usage(0, 0)), [0]);
        assert_eq!((read(""), read("a"), read("abcde")), (0, 1, 2));
    }

    proptest! {
        #[test]
        fn no_more_is_given_than_there_is(sizes in prop::collection::vec(0_usize..500, 0..20), output in any::<u64>()) {
            let parts: Vec<Part> = sizes.iter().map(|size| call(&"x".repeat(*size))).collect();
            let usage = Usage { output, ..Usage::default() };
            let given: u128 = written(&parts, &usage).into_iter().map(u128::from).sum();
            prop_assert!(given <= u128::from(output));
        }
    }
}
