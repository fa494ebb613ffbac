//! Whether a call in a text is made or only shown. Who quotes a file that has a call in it, or writes how something is used, does
//! not mean that it be run.

const FENCE: &str = "```";
/// What may stand beside the fence of a call that is made.
const OF_CALLS: [&str; 8] = ["", "json", "jsonc", "tool_call", "tool_calls", "tool_code", "python", "py"];
/// Words of who is about to do something, and of who only shows how it is done.
const INTENDS: [&str; 12] = [
    "i will",
    "i'll",
    "i’ll",
    "i am going to",
    "i'm going to",
    "i need to",
    "let me",
    "let's",
    "let us",
    "we need to",
    "first",
    "next",
];
const SHOWS: [&str; 14] = [
    "you can",
    "you could",
    "example",
    "would",
    "for instance",
    "like this",
    "usage",
    "such as",
    "to use",
    "by hand",
    "says",
    "said",
    "documented",
    "looks like",
];
/// Most bytes of the words before a call that has nothing around it which only calls have.
const LEAD: usize = 600;

/// Whether what stands here is a quotation: on a line that quotes, in marks of code, or in a block of another language beside
/// other words.
pub(crate) fn is_quoted(text: &str, at: usize) -> bool {
    let before = &text[..at];
    let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]).trim_start();
    let in_code = before.ends_with('`') && !before.ends_with(FENCE);
    if in_code || line.starts_with('>') && !line.starts_with(">>>") {
        return true;
    }
    let mut block = None;
    let mut start = 0;
    for line in before.split_inclusive('\n') {
        if let Some(language) = line.trim_start().strip_prefix(FENCE) {
            block = if block.is_some() { None } else { Some((language.trim(), start)) };
        }
        start += line.len();
    }
    // A block that is all of the answer shows nothing to anybody.
    block.is_some_and(|(language, start)| !OF_CALLS.contains(&language) && !before[..start].trim().is_empty())
}

/// Whether the words before tags that only calls have speak of what others wrote.
pub(crate) fn tells_of(lead: &str) -> bool {
    let said = lead.trim().to_lowercase();
    let last = said.lines().next_back().unwrap_or_default();
    has(last, &SHOWS) && !has(last, &INTENDS)
}

/// Whether the words before something that need not be a call announce one: none, one sentence, or what is about to be done.
pub(crate) fn announces(lead: &str) -> bool {
    let said = lead.trim();
    let is_sentence = !["\n\n", ". ", ".\n", "! ", "!\n"].iter().any(|end| said.contains(end));
    said.is_empty() || is_sentence && !has(&said.to_lowercase(), &SHOWS) || intends(said)
}

/// Whether such words say that it is about to be done.
pub(crate) fn intends(lead: &str) -> bool {
    let said = lead.trim().to_lowercase();
    said.len() <= LEAD && !said.contains(FENCE) && has(&said, &INTENDS) && !has(&said, &SHOWS)
}

/// Whether an answer is a call and has no other words.
pub(crate) fn is_alone(answer: &str) -> bool {
    let answer = answer.trim();
    answer.starts_with(['<', '{', '[', '`']) && answer.ends_with(['>', '}', ']', '`'])
}

fn has(text: &str, words: &[&str]) -> bool {
    words.iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_are_told_from_calls() {
        let quoted = |text: &str| is_quoted(text, text.find("<x>").unwrap());
        for text in
            ["> <x>", "It says:\n\n  > so <x>", "the mark `<x>`", "So:\n```xml\n<x>\n```", "a\n```text\n<x>"]
        {
            assert!(quoted(text), "{text}");
        }
        for text in
            ["<x>", "a\n<x>", "```xml\n<x>\n```", "So:\n```json\n<x>", "```xml\na\n```\n<x>", ">>>x\n<x>"]
        {
            assert!(!quoted(text), "{text}");
        }
    }

    #[test]
    fn words_before_a_call_announce_it_or_tell_of_it() {
        for lead in ["", "Sure, here it is:", "It is broken. Let me look.\n"] {
            assert!(announces(lead) && !tells_of(lead), "{lead}");
        }
        for lead in ["I finished. A client sends:", "The README says:", "Call it like this:"] {
            assert!(!announces(lead), "{lead}");
        }
        assert!(tells_of("I am done.\nThe README says:") && !tells_of("I will look what it says."));
    }
}
