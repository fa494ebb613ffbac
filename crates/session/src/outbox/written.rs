//! Which text of a pull request is ours as we wrote it. A mark in it that nobody sees has the sum of what stands before; as long as
//! that is right, a later turn writes the text anew. What people changed is theirs.

use sha2::{Digest, Sha256};

use super::links;

/// What the mark begins and ends with.
const BEGIN: &str = "<!-- slipway:text ";
const END: &str = " -->";
/// The line that stands below it.
const TRAILER: &str = "Slipway-Session: ";
/// What a forge adds to a pull request that is not opened by whoever asked for it.
const OPENED_FOR: &str = "Opened for ";

/// A text with its mark.
pub(super) fn marked(text: &str) -> String {
    let (words, trailer) = match text.rfind(TRAILER).filter(|at| *at == 0 || text[..*at].ends_with('\n')) {
        Some(at) => (text[..at].trim_end(), &text[at..]),
        None => (text.trim_end(), ""),
    };
    format!("{words}\n\n{BEGIN}{}{END}\n\n{trailer}", sum(words))
}

/// Whether a text is as we wrote it.
pub(crate) fn is_ours(text: &str) -> bool {
    parts(text).is_some()
}

/// A text that takes the place of another: with what belongs to the pull request and not to the text.
pub(crate) fn instead_of(before: &str, text: &str) -> String {
    let text = links::kept(text, before);
    match parts(before).flatten() {
        Some(end) => format!("{}\n\n{end}", text.trim_end()),
        None => text,
    }
}

/// What the forge added to a text that is ours. None where it is not ours any more.
#[expect(clippy::option_option, reason = "a text is ours or not, and something was added to it or not")]
fn parts(text: &str) -> Option<Option<String>> {
    let text = links::without(&text.replace("\r\n", "\n"));
    let (words, rest) = text.split_once(BEGIN)?;
    let (said, rest) = rest.split_once(END)?;
    if said != sum(words.trim_end()) {
        return None;
    }
    let (trailer, end) = match rest.trim().split_once("\n\n") {
        Some((trailer, end)) => (trailer, Some(end)),
        None => (rest.trim(), None),
    };
    let is_line =
        |line: &str, begin: &str| line.is_empty() || (line.starts_with(begin) && !line.contains('\n'));
    let is_ours = is_line(trailer, TRAILER) && end.is_none_or(|end| is_line(end, OPENED_FOR));
    is_ours.then(|| end.map(str::to_owned))
}

fn sum(words: &str) -> String {
    Sha256::digest(words).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "## What was done\n\nIt.\n\nSlipway-Session: ses_1\n";

    #[test]
    fn a_text_is_ours_until_somebody_changes_it() {
        let text = marked(TEXT);
        assert!(
            text.starts_with("## What was done\n\nIt.\n\n<!-- slipway:text ") && text.ends_with("ses_1\n")
        );
        assert!(is_ours(&text));
        assert!(is_ours(text.trim_end()), "a forge may take the last line end away");
        assert!(is_ours(&text.replace('\n', "\r\n")), "or write them in its own manner");
        assert!(is_ours(&format!("{}\n\nOpened for ann.", text.trim_end())));
        assert!(!is_ours(&text.replace("It.", "It!")));
        assert!(!is_ours(&format!("{text}\nSee #4.\n")));
        assert!(!is_ours(&format!("{}\n\nOpened for ann.\nSee #4.", text.trim_end())));
        assert!(!is_ours(TEXT) && !is_ours(""));
        assert!(is_ours(&marked("No line of the session")));
    }

    #[test]
    fn what_belongs_to_the_pull_request_is_kept() {
        let all = [("api".to_owned(), "https://git.test/1".to_owned())];
        let before = links::with(&format!("{}\n\nOpened for ann.", marked(TEXT).trim_end()), "api", &all);
        assert!(is_ours(&before), "{before}");
        let after = instead_of(&before, &marked(&TEXT.replace("It.", "More.")));
        assert!(after.contains("More.") && after.contains("Belongs together"), "{after}");
        assert!(after.ends_with("Slipway-Session: ses_1\n\nOpened for ann."), "{after}");
        assert!(is_ours(&after), "{after}");
    }
}
