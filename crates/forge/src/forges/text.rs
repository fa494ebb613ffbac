//! Texts on their way to a forge: bounded, marked as a draft where that is a matter of the title, and with what names a
//! comment.

use super::{NewPullRequest, Readiness};

/// Cuts between characters.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    text.char_indices().nth(limit).map_or(text, |(at, _)| &text[..at])
}

/// A body that is too long keeps its last lines, which say where it comes from, and says that it was cut.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    const NOTE: &str = "\n\n(What is left out here is more than the forge takes.)\n\n";
    if text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    let end = text.trim_end().rsplit_once("\n\n").map_or("", |(_, end)| end);
    let end = if end.chars().nth(300).is_none() && super::open_fence(end).is_none() { end } else { "" };
    let room = limit - NOTE.len() - end.chars().count();
    let fence = |head: &str| super::open_fence(head).map(|line| format!("\n{line}")).unwrap_or_default();
    let head = cut(text, room);
    let head = cut(head, room - fence(head).len());
    format!("{head}{}{NOTE}{end}", fence(head))
}

/// What marks a comment of ours; people do not see it.
pub(super) fn marker(key: &str) -> String {
    let plain: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
    format!("<!-- slipway:{plain} -->")
}

/// A title with the prefix that makes a draft, or without any such.
pub(super) fn titled(title: &str, readiness: Readiness, prefixes: &[&str], limit: usize) -> String {
    let plain = plain_title(title, prefixes);
    match (readiness, prefixes) {
        (Readiness::Draft, [first, ..]) => cut(&format!("{first} {plain}"), limit).to_owned(),
        _ => cut(plain, limit).to_owned(),
    }
}

/// A title without what marks a draft.
pub(super) fn plain_title<'a>(title: &'a str, prefixes: &[&str]) -> &'a str {
    let mut rest = title.trim_start();
    while let Some(after) = prefixes.iter().find_map(|prefix| without(rest, prefix)) {
        rest = after.trim_start();
    }
    rest
}

/// Whether a title says that this is a draft.
pub(super) fn readiness(title: &str, prefixes: &[&str]) -> Readiness {
    match prefixes.iter().any(|prefix| without(title.trim_start(), prefix).is_some()) {
        true => Readiness::Draft,
        false => Readiness::Ready,
    }
}

fn without<'a>(title: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = title.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The body of a pull request that is opened with our own key: it names whose it is.
pub(super) fn body_by_us(wanted: &NewPullRequest, limit: usize) -> String {
    let Some(person) = &wanted.person else { return shortened(&wanted.body, limit) };
    let name: String = person.name.chars().filter(|c| !c.is_control()).take(100).collect();
    let end = format!("\n\nOpened for {name}.");
    format!("{}{end}", shortened(&wanted.body, limit - end.chars().count()).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIXES: [&str; 2] = ["Draft:", "[Draft]"];

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!((cut("äöü", 2), cut("äöü", 3)), ("äö", "äöü"));
    }

    #[test]
    fn a_body_that_is_too_long_ends_as_it_did() {
        let long = format!("one\n```\n{}\n```\n\nSlipway-Session: ses_1\n", "ä".repeat(900));
        let short = shortened(&long, 500);
        assert_eq!(short.chars().count(), 500, "{short}");
        assert!(
            short.contains("ä\n```\n\n(What is left out") && short.ends_with("\n\nSlipway-Session: ses_1"),
            "{short}"
        );
        assert_eq!(shortened(&long, 5000), long);
        assert_eq!(shortened(&"ö".repeat(600), 500).chars().count(), 500);
    }

    #[test]
    fn a_title_is_marked_once() {
        let draft = titled("Mend", Readiness::Draft, &PREFIXES, 255);
        assert_eq!(draft, "Draft: Mend");
        assert_eq!(titled(&draft, Readiness::Draft, &PREFIXES, 255), draft);
        assert_eq!(titled("draft: [DRAFT] Mend", Readiness::Ready, &PREFIXES, 255), "Mend");
        assert_eq!(readiness("drafty", &PREFIXES), Readiness::Ready);
        assert_eq!(titled(&"ä".repeat(300), Readiness::Draft, &PREFIXES, 255).chars().count(), 255);
        assert_eq!(titled("Mend", Readiness::Draft, &[], 255), "Mend");
    }

    #[test]
    fn a_key_cannot_end_its_marker() {
        assert_eq!(marker("ses_1.trn-2 -->x"), "<!-- slipway:ses_1.trn_2____x -->");
    }
}
