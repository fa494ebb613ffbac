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
    let before = bodies(old);
    // Only where there is a new name can something have been renamed.
    let renames = there.iter().any(|name| before.iter().all(|(known, _)| known != name));
    let kept: Vec<&str> = new.lines().map(str::trim).collect();
    let mut missing: Vec<&str> = before
        .into_iter()
        .filter(|(name, body)| !(there.contains(name) || renames && stayed(body, &kept)))
        .map(|(name, _)| name)
        .collect();
    missing.dedup();
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

/// Whether two texts have a definition of the same name.
pub(crate) fn define_the_same(one: &str, other: &str) -> bool {
    let there = definitions(one);
    definitions(other).iter().any(|name| there.contains(name))
}

/// Whether most of what a definition is made of is still there, under another name.
fn stayed(body: &[&str], kept: &[&str]) -> bool {
    let found = body.iter().filter(|line| kept.contains(line)).count();
    found * 2 > body.len()
}

/// The names that a text defines with the lines that belong to each, in order. Lines that tell nothing are left out.
fn bodies(text: &str) -> Vec<(&str, Vec<&str>)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = definition(line) else { continue };
        let inside = |next: &&&str| next.trim().is_empty() || indent(next) > indent(line);
        let body = lines[index + 1..].iter().take_while(inside).map(|line| line.trim());
        found.push((name, body.filter(|line| line.chars().any(char::is_alphanumeric)).collect()));
    }
    found
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
    fn what_is_renamed_is_not_dropped() {
        let old =
            "def calc(w, h):\n    \"\"\"The area.\"\"\"\n    return w * h\n\n\ndef other():\n    return 1\n";
        assert_eq!(dropped(old, &old.replace("calc", "area")), None);
        // Another function in its place is no new name for it.
        let instead = "def count(w):\n    return len(w)\n\n\ndef other():\n    return 1\n";
        assert!(dropped(old, instead).unwrap().contains("`calc`"));
        let rust = "fn a() {\n    one();\n    two();\n}\n";
        assert_eq!(dropped(rust, &rust.replace("fn a", "fn b")), None);
        assert!(dropped("fn a() {}\nfn b() {}\n", "fn a() {}\n").is_some(), "nothing of it stayed");
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
