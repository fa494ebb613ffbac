//! Words that say nothing about what a text is about.

/// English words that every text has.
const GLUE: &[&str] = &[
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "both", "but", "by", "can", "could", "did", "do", "does", "done",
    "down", "during", "each", "every", "few", "for", "from", "had", "has", "have", "having", "he", "her",
    "here", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "may", "me", "might", "more",
    "most", "must", "my", "need", "no", "nor", "not", "of", "off", "on", "once", "only", "or", "other",
    "our", "out", "over", "own", "please", "same", "shall", "she", "should", "so", "some", "such", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "under",
    "until", "up", "us", "very", "want", "was", "we", "were", "what", "when", "where", "which", "while",
    "who", "whom", "whose", "why", "will", "with", "without", "would", "you", "your",
];

/// Words that ask for something to be done: they are in every prompt, and say nothing about what it is about.
const ASKING: &[&str] = &[
    "add",
    "build",
    "change",
    "convert",
    "create",
    "explain",
    "extract",
    "fix",
    "get",
    "give",
    "help",
    "how",
    "implement",
    "let",
    "like",
    "make",
    "move",
    "new",
    "put",
    "remove",
    "rename",
    "replace",
    "run",
    "set",
    "show",
    "support",
    "try",
    "update",
    "use",
    "using",
    "write",
];

/// Whether every text may have this word, in lower case.
pub(crate) fn is_glue(word: &str) -> bool {
    GLUE.binary_search(&word).is_ok()
}

/// Whether this word, in lower case, only asks for something.
pub(crate) fn is_asking(word: &str) -> bool {
    ASKING.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_order() {
        assert!(GLUE.is_sorted() && ASKING.is_sorted());
        assert!(is_glue("the") && is_glue("your") && !is_glue("order"));
        assert!(is_asking("add") && !is_asking("address"));
    }
}
