//! Numbers in what servers say: how many tokens they take. They stand in sentences, because no two servers have a field for
//! them.

/// Words right before the tokens of request and answer that a model can read.
const WINDOW: &[&str] = &[
    "maximum context length is",
    "maximum context length of",
    "context size",
    "context window of",
    "tokens allowed",
    "tokens >",
    "maximum model length of",
    "model token limit",
    "max length",
    "`max_new_tokens` must be <=",
    "exceeds the limit of",
];

/// Words right before the most tokens of an answer.
const LONGEST_ANSWER: &[&str] = &[
    "supports at most",
    "less than or equal to",
    "max_tokens is [1",
    "must be at most",
    "which is the maximum",
];

/// Fewer tokens than any model reads; such a number counts something else.
const LEAST: u64 = 1024;

/// How many tokens a key may send in a time, and how many this request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AtOnce {
    pub(super) limit: u64,
    pub(super) requested: u64,
}

/// What is said, in lower case, of a limit and of what was asked for, such as `limit 30000, requested 41000`.
pub(super) fn at_once(said: &str) -> Option<AtOnce> {
    let (limit, requested) = (after(said, "limit")?, after(said, "requested")?);
    said.contains("token").then_some(AtOnce { limit, requested })
}

/// The tokens that a model can read, where that is said, in lower case.
pub(super) fn window(said: &str) -> Option<u64> {
    WINDOW.iter().find_map(|words| after(said, words)).filter(|tokens| *tokens >= LEAST)
}

/// The most tokens of an answer, where that is said, in lower case.
pub(super) fn longest_answer(said: &str) -> Option<u32> {
    let told = LONGEST_ANSWER.iter().find_map(|words| match *words {
        // It stands before them, after what was asked for.
        "which is the maximum" => after(said.split_once(words)?.0, " >"),
        words => after(said, words),
    });
    told.and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0)
}

/// The first number that stands right after these words.
fn after(said: &str, words: &str) -> Option<u64> {
    said.match_indices(words).find_map(|(place, _)| {
        let rest = said[place + words.len()..].trim_start_matches([' ', ':', '=', '(', '`', ',']);
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != ',').unwrap_or(rest.len());
        rest[..end].replace(',', "").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_and_what_was_asked_for_are_found_in_every_wording() {
        for (said, limit, requested) in [
            ("tokens per min (tpm): limit 30000, requested 41000. the input", 30_000, 41_000),
            (
                "large (for limit gpt-4.1) on tokens per min (tpm): limit 30000, requested 37313.",
                30_000,
                37_313,
            ),
            ("tokens per minute (tpm): limit 6000, used 5034, requested 1443. please", 6000, 1443),
            ("tokens per min. limit: 40,000 / min. requested: 41,000. visit", 40_000, 41_000),
        ] {
            assert_eq!(at_once(said), Some(AtOnce { limit, requested }), "{said}");
        }
        for said in [
            "requests per min (rpm): limit 3, used 3, requested 1",
            "limit of tokens reached, requested",
            "token limit 18446744073709551616, requested 5",
        ] {
            assert_eq!(at_once(said), None, "{said}");
        }
    }

    #[test]
    fn the_longest_answer_is_found_in_every_wording() {
        for (said, tokens) in [
            (
                "max_tokens is too large: 8192. this model supports at most 4096 completion tokens, whereas you provided 8192.",
                4096,
            ),
            ("`max_completion_tokens` must be less than or equal to `8192`, the maximum value for", 8192),
            ("invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
            (
                "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude",
                64_000,
            ),
        ] {
            assert_eq!(longest_answer(said), Some(tokens), "{said}");
        }
        for said in ["max_tokens is too large: 8192", "supports at most 0 tokens", "at most 9999999999"] {
            assert_eq!(longest_answer(said), None, "{said}");
        }
    }

    #[test]
    fn what_a_model_can_read_is_found_in_every_wording() {
        for (said, tokens) in [
            ("this model's maximum context length is 8192 tokens. however, you requested 9000", 8192),
            ("this endpoint's maximum context length is 131,072 tokens", 131_072),
            ("request (20012 tokens) exceeds the available context size (16384 tokens), try", 16_384),
            ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
            ("prompt (length 36001) is longer than the maximum model length of 6000. make sure", 6000),
            ("your request exceeded model token limit: 262144 (requested: 269030)", 262_144),
            ("model max length exceeded, max length:8192", 8192),
            ("`inputs` tokens + `max_new_tokens` must be <= 4096. given: 4000 `inputs` tokens", 4096),
            ("prompt token count of 140000 exceeds the limit of 128000", 128_000),
            (
                "the input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                1_048_576,
            ),
        ] {
            assert_eq!(window(said), Some(tokens), "{said}");
        }
        for said in ["the context size is too small", "context size 7", "too long"] {
            assert_eq!(window(said), None, "{said}");
        }
    }
}
