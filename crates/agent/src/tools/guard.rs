//! A guard for whole files: a text that takes the place of another and silently drops functions or types of it is most
//! often a fragment, or a file with "the rest as before" in its middle.

/// Most names that an answer lists.
const NAMED: usize = 8;

/// Words before the name of a definition, in the languages that people use most.
const KINDS: [&str; 17] = [
    "fn",
    "def",
    "class",
    "struct",
    "enum",
    "trait",
    "interface",
    "func",
    "function",
    "type",
    "module",
    "mod",
    "impl",
    "macro_rules!",
    "record",
    "object",
    "sub",
];
/// Words that may stand before those.
const BEFORE: [&str; 18] = [
    "pub",
    "export",
    "default",
    "async",
    "static",
    "public",
    "private",
    "protected",
    "abstract",
    "final",
    "unsafe",
    "const",
    "extern",
    "inline",
    "override",
    "declare",
    "open",
    "data",
];
/// How models write that something was left out.
const ELISIONS: [&str; 10] = [
    "rest of the code",
    "rest of the file",
    "rest of code",
    "existing code",
    "remaining code",
    "code unchanged",
    "unchanged code",
    "same as before",
    "remains the same",
    "rest remains",
];

/// Why the new text of a file is not to be written over the old one; None when it is fine. The error is what the model reads.
pub fn dropped(old: &str, new: &str) -> Option<String> {
    if let Some(line) = new.lines().find(|line| elides(line) && !old.contains(line.trim())) {
        return Some(format!(
            "The file was not written: the line {:?} stands for code that is left out, and it would be lost. Write the whole text of the file.",
            line.trim()
        ));
    }
    let there = definitions(new);
    let mut missing: Vec<&str> = definitions(old).into_iter().filter(|name| !there.contains(name)).collect();
    missing.dedup();
    // What is still called or mentioned was moved or renamed by half; what is a little file may be meant to shrink.
    if missing.is_empty() {
        return None;
    }
    let more = missing.len().saturating_sub(NAMED);
    let mut names = missing.iter().take(NAMED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if more > 0 {
        names.push_str(&format!(" and {more} more"));
    }
    Some(format!(
        "The file was not written: the new text leaves out {names}, which the file has now. Write the whole text of the file with everything that should stay."
    ))
}

fn elides(line: &str) -> bool {
    let line = line.trim();
    let comment = ["#", "//", "--", "/*", "<!--", ";", "..."].iter().any(|mark| line.starts_with(mark));
    let said = line.to_ascii_lowercase();
    comment && ELISIONS.iter().any(|words| said.contains(words))
}

/// The names that a text defines, in order.
fn definitions(text: &str) -> Vec<&str> {
    text.lines().filter_map(definition).collect()
}

/// The name that a line defines.
pub(super) fn definition(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with(['#', '/', '*', '"', '\'']) {
        return None;
    }
    let mut words = line.split_whitespace();
    let kind = loop {
        let word = words.next()?;
        let plain = word.split('(').next().unwrap_or(word);
        if !BEFORE.contains(&plain) {
            break word;
        }
    };
    if !KINDS.contains(&kind) {
        return None;
    }
    let rest = words.next()?;
    // `impl<T> Trait for Type` and Go's `func (r *T) Name()` say too little in their first word.
    if kind == "impl" || rest.starts_with('(') {
        return None;
    }
    let name = rest.trim_start_matches(['*', '&']);
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(name.len());
    let name = &name[..end];
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "import os\n\ndef add(a, b):\n    return a + b\n\nasync def sub(a, b):\n    return a - b\n\nclass Calc:\n    def run(self):\n        pass\n";

    #[test]
    fn a_fragment_is_refused_with_what_it_lacks() {
        insta::assert_snapshot!(dropped(OLD, "def add(a, b):\n    return b + a\n").unwrap(), @"The file was not written: the new text leaves out `sub`, `Calc`, `run`, which the file has now. Write the whole text of the file with everything that should stay.");
        let elided = OLD.replace("import os", "# ... rest of the code");
        assert!(dropped(OLD, &elided).unwrap().contains("stands for code that is left out"));
    }

    #[test]
    fn a_whole_file_is_written_with_whatever_is_new_in_it() {
        assert_eq!(dropped(OLD, &format!("{OLD}\ndef mul(a, b):\n    return a * b\n")), None);
        assert_eq!(dropped("some notes\n", "other notes\n"), None);
        assert_eq!(dropped("", OLD), None);
        // A line that the file has already stands for nothing.
        let with = format!("# existing code\n{OLD}");
        assert_eq!(dropped(&with, &with), None);
    }

    #[test]
    fn definitions_are_known_in_several_languages() {
        let names = |text| definitions(text);
        assert_eq!(names("pub(crate) async fn go<T>(x: T) {}\npub struct A;\nimpl A {"), ["go", "A"]);
        assert_eq!(names("export default function main() {}\nexport class B extends C {"), ["main", "B"]);
        assert_eq!(names("func Run(x int) {}\nfunc (r *R) Other() {}\ntype T struct {"), ["Run", "T"]);
        assert_eq!(names("# def no():\nx = def_y\nreturn function"), [""; 0]);
    }
}
