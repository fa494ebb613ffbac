//! Answers that say the same again and again until something cuts them off. What is repeated is told once or twice and not
//! a thousand times: it would fill the context, and invite the model to go on with it.

use protocol::chat::{Completion, Part, Stop};

/// How often something stands at the end before it counts as repeated, and in how many bytes at least.
const TIMES: usize = 8;
const BYTES: usize = 200;
/// The longest piece that is noticed when it is repeated.
const LONGEST: usize = 1024;
/// Stands at the end of a text that was shortened.
const MARK: &str = " [… the same again and again, until it was cut off]";

/// Shortens what an answer repeated until it was cut off. Doing it twice changes nothing.
pub(crate) fn shorten(completion: &mut Completion) {
    if !matches!(completion.stop, Stop::Length | Stop::Window) {
        return;
    }
    for part in &mut completion.parts {
        let text = match part {
            Part::Text { text } | Part::Reasoning { text, signature: None } => text,
            Part::Call(call) if serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_err() => {
                &mut call.arguments
            }
            // What is signed stays as it was signed, and what can be used is meant.
            Part::Reasoning { signature: Some(_), .. } | Part::Call(_) => continue,
        };
        if let Some((begin, piece)) = repeated(text) {
            text.truncate(text.floor_char_boundary(begin + 2 * piece));
            text.truncate(text.trim_end().len());
            text.push_str(MARK);
        }
    }
}

/// Whether this text was shortened.
pub(crate) fn is_shortened(text: &str) -> bool {
    text.ends_with(MARK)
}

/// Where the repetition with which a text ends begins, and the bytes of what is repeated.
fn repeated(text: &str) -> Option<(usize, usize)> {
    [text, text.trim_end()].into_iter().find_map(|text| {
        let bytes = text.as_bytes();
        let piece = (1..=LONGEST).find(|piece| {
            let length = (piece * TIMES).max(BYTES);
            let end = bytes.len().checked_sub(length).map(|start| &bytes[start..]);
            end.is_some_and(|end| end[*piece..] == end[..length - piece])
        })?;
        let same = |index: &usize| bytes[*index] == bytes[index + piece];
        let before = (0..bytes.len() - piece).rev().take_while(same).count();
        Some((bytes.len() - piece - before, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Usage;
    use protocol::chat::Call;

    fn cut_off(part: Part) -> Part {
        let mut completion = Completion { parts: vec![part], stop: Stop::Length, usage: Usage::default() };
        shorten(&mut completion);
        let once = completion.clone();
        shorten(&mut completion);
        assert_eq!(completion, once, "twice is once");
        completion.parts.remove(0)
    }

    fn text(text: &str) -> Part {
        Part::Text { text: text.into() }
    }

    #[test]
    fn what_is_repeated_is_told_twice_and_what_came_before_it_stays() {
        let droning = format!("I will look.\n{}and ag", "and again, and again; ".repeat(50));
        let Part::Text { text: short } = cut_off(text(&droning)) else { panic!() };
        insta::assert_snapshot!(short, @"
        I will look.
        and again, and again; and again, and again; [… the same again and again, until it was cut off]
        ");
        assert!(is_shortened(&short));
        let Part::Text { text: blank } = cut_off(text(&format!("{{\"a\": 1,{}", "\n ".repeat(4000)))) else {
            panic!()
        };
        assert!(blank.len() < 100 && is_shortened(&blank), "{blank:?}");
        let call = Call {
            id: "c".into(),
            tool: "write".into(),
            arguments: format!("{{\"a\":\"{}", "é".repeat(999)),
        };
        let Part::Call(call) = cut_off(Part::Call(call)) else { panic!() };
        assert!(call.arguments.len() < 100, "{}", call.arguments);
    }

    #[test]
    fn what_is_long_or_signed_or_whole_stays() {
        let numbers: String = (1..500).map(|number| format!("line {number}\n")).collect();
        let signed = Part::Reasoning { text: "hm. ".repeat(400), signature: Some("SIG".into()) };
        let whole = Call {
            id: "c".into(),
            tool: "write".into(),
            arguments: format!("{{\"a\":\"{}\"}}", "0".repeat(999)),
        };
        for part in [text(&numbers), text("ha ha ha ha ha ha ha ha"), text(""), signed, Part::Call(whole)] {
            assert_eq!(cut_off(part.clone()), part);
        }
        let parts = vec![text(&"over ".repeat(999))];
        let mut ended = Completion { parts, stop: Stop::End, usage: Usage::default() };
        let before = ended.clone();
        shorten(&mut ended);
        assert_eq!(ended, before, "what the model ended by itself is meant");
    }
}
