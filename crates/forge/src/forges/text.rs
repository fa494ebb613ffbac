//! Texts on their way to a forge: bounded, marked as a draft where that is a matter of the title, and with what names a
//! comment.

use super::{NewPullRequest, Readiness};

/// Cuts between characters.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    text.char_indices().nth(limit).map_or(text, |(at, _)| &text[..at])
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
    let Some(person) = &wanted.person else { return cut(&wanted.body, limit).to_owned() };
    let name: String = person.name.chars().filter(|c| !c.is_control()).take(100).collect();
    let end = format!("\n\nOpened for {name}.");
    format!("{}{end}", cut(&wanted.body, limit - end.chars().count()).trim_end())
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
