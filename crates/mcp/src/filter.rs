//! Which of a server's tools are offered: those that the list names, without those that the other list names.

/// A choice of tools by their own names; `*` stands for any part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only these; all where it is empty.
    pub only: Vec<String>,
    /// None of these.
    pub without: Vec<String>,
}

impl Filter {
    /// Whether a tool is offered.
    pub fn takes(&self, tool: &str) -> bool {
        let named = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, tool));
        (self.only.is_empty() || named(&self.only)) && !named(&self.without)
    }
}

/// Whether a pattern with `*` fits the whole of a name.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    let mut rest = rest;
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name) in [
            ("a", "a"),
            ("*", ""),
            ("get_*", "get_issue"),
            ("*_issue", "get_issue"),
            ("g*t*e", "get_issue"),
            ("a*a", "aa"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("a", "ab"), ("get_*", "forget_it"), ("a*a", "a"), ("", "a"), ("g*x*e", "get_issue")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_left_out_is_left_out() {
        let filter = Filter { only: vec!["get_*".into(), "find".into()], without: vec!["*_secret".into()] };
        assert!(filter.takes("get_issue") && filter.takes("find"));
        assert!(!filter.takes("get_secret") && !filter.takes("delete"));
        assert!(Filter::default().takes("anything"));
    }
}
