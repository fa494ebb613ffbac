//! Single lines of pytest's output that carry results: the counts at the end, verbose progress, the short summary.

use crate::scan;

/// The numbers of the last line.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u32,
    pub(super) failed: u32,
    pub(super) errors: u32,
    pub(super) skipped: u32,
}

impl Counts {
    /// Adds to the number that this word stands for; other words count nothing.
    pub(super) fn add(&mut self, outcome: &str, count: u32) {
        let field = match outcome {
            "PASSED" | "XPASS" | "passed" | "xpassed" => &mut self.passed,
            "FAILED" | "failed" => &mut self.failed,
            "ERROR" | "error" | "errors" => &mut self.errors,
            "SKIPPED" | "XFAIL" | "skipped" | "xfailed" => &mut self.skipped,
            _ => return,
        };
        *field = field.saturating_add(count);
    }
}

/// Reads `14 failed, 4 passed in 0.06s`, with or without a frame of equals signs.
pub(super) fn counts(line: &str) -> Option<Counts> {
    let text = line.trim_matches('=').trim();
    let (list, duration) = text.rsplit_once(" in ")?;
    let (_, unit) = scan::number(duration)?;
    if !unit.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit()).starts_with('s') {
        return None;
    }
    let mut found = Counts::default();
    if list == "no tests ran" {
        return Some(found);
    }
    for part in list.split(", ") {
        let (count, word) = scan::number(part)?;
        let word = word.strip_prefix(' ')?;
        let known = ["passed", "failed", "error", "errors", "skipped", "xfailed", "xpassed", "deselected"];
        if !known.contains(&word)
            && !word.starts_with("warning")
            && !word.starts_with("subtests")
            && word != "rerun"
        {
            return None;
        }
        found.add(word, count);
    }
    Some(found)
}

/// Reads `path::test FAILED  [ 4%]`, and `[gw0] [ 4%] FAILED path::test` of a parallel run.
pub(super) fn verbose_result(line: &str) -> Option<(&str, &str)> {
    const OUTCOMES: [&str; 6] = ["PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS"];
    if let Some(rest) = line.strip_prefix("[gw") {
        let (outcome, id) = rest.split_once("%] ")?.1.split_once(' ')?;
        return OUTCOMES.contains(&outcome).then_some((id.trim_end(), outcome));
    }
    let (head, _) = line.rsplit_once("[")?;
    let (id, outcome) = OUTCOMES.iter().find_map(|outcome| {
        let (id, rest) = head.rsplit_once(outcome)?;
        (rest.starts_with(' ') && id.ends_with(' ')).then_some((id.trim_end(), *outcome))
    })?;
    id.contains("::").then_some((id, outcome))
}

/// Splits `path::test[a - b] - why` into node id and reason; a parameter may hold the separator too.
pub(super) fn split_summary(text: &str) -> (&str, &str) {
    let plain = text.split_once(" - ").unwrap_or((text, ""));
    if !plain.0.contains('[') || plain.0.ends_with(']') {
        return plain;
    }
    match text.split_once("] - ") {
        Some((id, message)) => (&text[..=id.len()], message),
        None if text.ends_with(']') => (text, ""),
        None => plain,
    }
}

/// The heading that pytest gives the block of this node: `path::Class::test[a]` is shown as `Class.test[a]`.
pub(super) fn title_of(id: &str) -> String {
    let name = id.split_once("::").map_or(id, |(_, name)| name);
    let (name, parameters) = name.split_at(name.find('[').unwrap_or(name.len()));
    format!("{}{parameters}", name.replace("::", "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_counted() {
        let found = counts(
            "==== 1 failed, 2 passed, 3 skipped, 1 xfailed, 2 warnings, 1 error in 61.02s (0:01:01) ====",
        );
        assert_eq!(found, Some(Counts { passed: 2, failed: 1, errors: 1, skipped: 4 }));
        assert_eq!(counts("no tests ran in 0.00s"), Some(Counts::default()));
        assert_eq!(counts("2 apples fell in 3s"), None);
        assert_eq!(counts("finished in 3s"), None);
    }

    #[test]
    fn a_parameter_may_hold_the_separator() {
        assert_eq!(split_summary("a.py::t[a b - c-4] - why - so"), ("a.py::t[a b - c-4]", "why - so"));
        assert_eq!(split_summary("a.py::t[a - b]"), ("a.py::t[a - b]", ""));
        assert_eq!(split_summary("a.py::t - assert [1] == [2]"), ("a.py::t", "assert [1] == [2]"));
        assert_eq!(title_of("a.py::C::t[x::y]"), "C.t[x::y]");
    }
}
