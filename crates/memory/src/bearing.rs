//! Whether a note had a bearing on what a model did after it was given: the model wrote something that is in the note and was
//! nowhere before. That is a sign, no proof; it only decides how long an unused note stays young.

use std::collections::BTreeSet;

use crate::words::{content, index};

/// Words of a note that must turn up; one is enough if it is a name.
const WORDS: usize = 2;

/// Whether what a model wrote shows something of a note that what it had read before does not have.
pub fn bears_on(note: &str, before: &str, wrote: &str) -> bool {
    let known: BTreeSet<String> = index(before).into_iter().collect();
    let written: BTreeSet<String> = index(wrote).into_iter().collect();
    let new = |word: &String| !known.contains(word) && written.contains(word);
    if names(note).any(|name| new(&name)) {
        return true;
    }
    let words: BTreeSet<String> = content(note).into_iter().filter(|word| word.len() > 3).collect();
    words.iter().filter(|word| new(word)).count() >= WORDS
}

/// Words with something in them that ordinary words do not have, as the index has them.
fn names(text: &str) -> impl Iterator<Item = String> {
    let odd = |word: &&str| {
        word.contains(|letter: char| letter.is_ascii_digit() || "_`/".contains(letter))
            || word.chars().skip(1).any(char::is_uppercase)
    };
    let words = text.split_whitespace().filter(odd).flat_map(index);
    words.filter(|word| word.len() > 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &str = "The storefront is installed with `pnpm`; npm breaks the lockfile.";

    #[test]
    fn a_name_of_the_note_in_what_was_done_is_a_bearing() {
        assert!(bears_on(NOTE, "Add a package to the storefront", "shell pnpm add zod"));
        assert!(bears_on("The API listens on port 8443", "Start the API", "curl localhost:8443"));
    }

    #[test]
    fn what_was_said_before_or_is_ordinary_is_none() {
        assert!(!bears_on(NOTE, "Add a package with pnpm", "shell pnpm add zod"), "it was asked for");
        assert!(!bears_on(NOTE, "Add a package", "shell npm install zod"));
        assert!(!bears_on(NOTE, "Add a package", "Done."));
        assert!(!bears_on("", "a", "b"));
        let ordinary = "Reviewers want small changes";
        assert!(!bears_on(ordinary, "Fix it", "I made changes."), "one ordinary word says little");
        assert!(bears_on(ordinary, "Fix it", "I kept it small for the reviewers."));
    }
}
