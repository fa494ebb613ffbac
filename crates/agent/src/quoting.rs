//! Whether a call in a text is made or only shown. Who quotes a file that has a call in it, or writes how something is used, does
//! not mean that it be run.

const FENCE: &str = "```";
/// What may stand beside the fence of a call that is made.
const OF_CALLS: [&str; 8] = ["", "json", "jsonc", "tool_call", "tool_calls", "tool_code", "python", "py"];
/// How a sentence begins whose writer is about to do something. Whoever only shows a call has countless other ways to begin, so
/// those are not listed: what does not begin like this is asked about, and that costs a model that meant it one answer.
const INTENDS: [&str; 28] = [
    "i will",
    "i'll",
    "i’ll",
    "i am going to",
    "i'm going to",
    "i need to",
    "i want to",
    "i should",
    "i must",
    "i look",
    "i run",
    "i read",
    "i call",
    "let me",
    "let's",
    "let us",
    "we need to",
    "we will",
    "we should",
    "now i",
    "now let",
    "now, i",
    "first i",
    "first, i",
    "first, let",
    "next i",
    "next, i",
    "next, let",
];
/// Words of who shows how something is done, or what others wrote.
const SHOWS: [&str; 5] = ["example", "for instance", "like this", "such as", "looks like"];
/// Sentences that say nothing.
const INTERJECTIONS: [&str; 9] =
    ["sure", "ok", "okay", "certainly", "of course", "yes", "alright", "all right", "understood"];
/// What models write around calls that is no word of theirs.
const WRAPPERS: [&str; 10] = [
    "<function_calls>",
    "<tool_calls>",
    "<tool_call>",
    "<tools>",
    "<minimax:tool_call>",
    "<｜tool▁calls▁begin｜>",
    "<|tool_calls_section_begin|>",
    "<|channel|>commentary",
    "<|start|>assistant",
    "[",
];

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

/// Whether a call with these words before it is made: there are none, or the last sentence says that it is about to be done.
pub(crate) fn means_it(lead: &str) -> bool {
    let said = words(lead);
    said.is_empty() || intends(said)
}

/// What is left of the words before a call without what models write around calls.
pub(crate) fn words(lead: &str) -> &str {
    let mut said = lead.trim();
    while let Some(rest) = WRAPPERS.iter().find_map(|wrapper| said.strip_suffix(wrapper)) {
        said = rest.trim_end();
    }
    said
}

/// Whether the last sentence of words says that something is about to be done.
pub(crate) fn intends(lead: &str) -> bool {
    let said = lead.trim().trim_end_matches([':', '.', '…', '!']).to_lowercase();
    let ends = said.rmatch_indices(['\n', '.', '!', '?', ':']);
    let start = ends
        .map(|(at, end)| at + end.len())
        .find(|at| said[*at..].starts_with([' ', '\n']) || said[..*at].ends_with('\n'));
    let last = said[start.unwrap_or(0)..].trim();
    INTERJECTIONS.contains(&last) || INTENDS.iter().any(|words| last.starts_with(words)) && !has(last, &SHOWS)
}

/// Whether an answer is a call and has no other words.
pub(crate) fn is_alone(answer: &str) -> bool {
    let answer = answer.trim();
    let begins = answer.starts_with(['<', '{', '[']) || answer.starts_with(FENCE);
    begins && answer.ends_with(['>', '}', ']', '`'])
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
    fn words_before_a_call_intend_it_or_show_it() {
        for lead in [
            "",
            "[",
            "It is broken. Let me look.\n",
            "I will look first:",
            "I look.",
            "Sure!",
            "Version 1.2 is wrong. Now I will run the tests.\n\n",
            "Sure!\nI'll read README.md:",
            "<|channel|>commentary",
        ] {
            assert!(means_it(lead), "{lead}");
        }
        for lead in [
            "I finished. A client sends:",
            "The README says:",
            "Call it like this:",
            "Qwen writes its calls in this form:",
            "Never send this:",
            "| call | ",
            "- ",
            "\"",
            "The first line of demo.py is\n",
            "The fixture has one recorded call:",
            "`README.md` line 3:",
            "I will show it with an example:",
            "I will stop here. The file has this:",
        ] {
            assert!(!means_it(lead), "{lead}");
        }
        assert!(
            is_alone("<x>a</x>")
                && is_alone("```json\n{}\n```")
                && !is_alone("`a` has this:\n```json\n{}\n```")
        );
    }
}
