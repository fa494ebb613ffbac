//! The section of a pull request's text that names those which belong to it, in other repositories. It stands between two marks
//! that nobody sees, so that it can be brought up to date while everything around it stays as people left it.

/// What the section stands between.
const BEGIN: &str = "<!-- slipway:pull-requests -->";
const END: &str = "<!-- /slipway:pull-requests -->";
/// The line that the section stands before where it is new.
const TRAILER: &str = "Slipway-Session: ";

/// A text with the section in it. `all` has each repository with the address of its pull request, `own` among them.
pub(crate) fn with(body: &str, own: &str, all: &[(String, String)]) -> String {
    let mut section = format!("{BEGIN}\n## Belongs together\n\nThis work changes several repositories:\n\n");
    for (name, url) in all {
        let this = if name == own { " (this one)" } else { "" };
        section.push_str(&format!("- {name}: {url}{this}\n"));
    }
    section.push_str(END);
    put(body, &section)
}

/// A text with the section that another one has, if it has one.
pub(crate) fn kept(body: &str, before: &str) -> String {
    match place(before) {
        Some((from, to)) => put(body, &before[from..to]),
        None => body.to_owned(),
    }
}

/// A text without the section.
pub(super) fn without(body: &str) -> String {
    match place(body) {
        Some((from, to)) => format!("{}\n\n{}", body[..from].trim_end(), body[to..].trim_start()),
        None => body.to_owned(),
    }
}

fn put(body: &str, section: &str) -> String {
    if let Some((from, to)) = place(body) {
        return format!("{}{section}{}", &body[..from], &body[to..]);
    }
    let at = body.rfind(TRAILER).filter(|at| *at == 0 || body[..*at].ends_with('\n'));
    match at {
        Some(at) => format!("{}{section}\n\n{}", &body[..at], &body[at..]),
        None if body.trim().is_empty() => format!("{section}\n"),
        None => format!("{}\n\n{section}\n", body.trim_end()),
    }
}

/// Where the section is.
fn place(body: &str) -> Option<(usize, usize)> {
    let from = body.find(BEGIN)?;
    let to = body[from..].find(END)? + from + END.len();
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(String, String)> {
        [("api", "https://git.test/api/1"), ("web", "https://git.test/web/2")]
            .map(|(name, url)| (name.to_owned(), url.to_owned()))
            .to_vec()
    }

    #[test]
    fn the_section_stands_before_the_sessions_line() {
        let text = with("## What was done\n\nIt.\n\nSlipway-Session: ses_1\n", "web", &all());
        assert_eq!(
            text,
            "## What was done\n\nIt.\n\n<!-- slipway:pull-requests -->\n## Belongs together\n\nThis work changes several \
             repositories:\n\n- api: https://git.test/api/1\n- web: https://git.test/web/2 (this one)\n\
             <!-- /slipway:pull-requests -->\n\nSlipway-Session: ses_1\n"
        );
        assert_eq!(with(&text, "web", &all()), text, "it is there once");
    }

    #[test]
    fn what_people_wrote_around_it_stays() {
        let first = with("Mine\n\nSlipway-Session: ses_1\n", "api", &all()[..1]);
        let edited =
            first.replace("Mine", "Edited").replace("Slipway-Session", "Also this.\n\nSlipway-Session");
        let again = with(&edited, "api", &all());
        assert!(
            again.starts_with("Edited\n") && again.contains("Also this.\n\nSlipway-Session: ses_1\n"),
            "{again}"
        );
        assert_eq!(again.matches(BEGIN).count(), 1);
        assert!(again.contains("- web: "));
        assert!(with("", "api", &all()).starts_with(BEGIN));
        assert!(with("Words of a person", "api", &all()).starts_with("Words of a person\n\n<!--"));
    }

    #[test]
    fn a_text_that_is_written_anew_keeps_it() {
        let before = with("Old\n", "api", &all());
        let after = kept("New\n", &before);
        assert!(after.starts_with("New\n\n<!--") && after.contains("- web: "), "{after}");
        assert_eq!(kept("New\n", "Old\n"), "New\n");
    }
}
