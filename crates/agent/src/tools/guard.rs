//! A guard for whole files: a text that takes the place of another and silently drops functions or types of it is most
//! often a fragment, or a file with "the rest as before" in its middle.

use std::collections::{HashMap, HashSet};

use super::definition::{Definition, definitions};
use super::hollow::{hollowed, is_stub};
use super::keys::Format;

/// Most names that an answer lists.
const NAMED: usize = 8;

/// Fewer lines than these may go from outside of functions: so many come and go in any change.
const FEW: usize = 8;
/// How models write that something was left out.
const ELISIONS: [&str; 13] = [
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
    "[truncated]",
    "truncated for brevity",
    "same implementation as",
];

/// Fewer settings than these may go.
const SEVERAL: usize = 3;
/// What a file would lose by a new text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Loss {
    /// Whatever this line stands for.
    Elided(String),
    /// What the function of this name did; this line stands in its place.
    Hollow(String, String),
    /// So many lines at the end of the file, which stops inside of what has this name.
    End(usize, String),
    /// Functions and types of these names.
    Definitions(Vec<String>),
    /// So many lines of so many, and where they stand: outside of functions, if there are any.
    Lines(usize, usize, &'static str),
    /// Keys, tables or targets of these names.
    Keys(Vec<String>),
}

impl Loss {
    /// What it is, in words.
    pub(super) fn named(&self) -> String {
        match self {
            Self::Elided(line) => format!("what {line:?} stands for"),
            Self::Hollow(name, line) => format!("what {line:?} stands for in `{name}`"),
            Self::End(lost, name) => format!("the last {lost} lines, in `{name}`"),
            Self::Definitions(names) | Self::Keys(names) => {
                let more = names.len().saturating_sub(NAMED);
                let shown: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{}{more}", shown.join(", "))
            }
            Self::Lines(lost, _, place) => format!("{lost} lines{place}"),
        }
    }

    /// Why the file was not written.
    pub(super) fn why(&self) -> String {
        match self {
            Self::End(..) => format!(
                "The file was not written: the new text is the beginning of the file as it is, and {} are missing. Write the whole text of the file, to its last line.",
                self.named()
            ),
            Self::Elided(line) | Self::Hollow(_, line) => format!(
                "The file was not written: the line {line:?} stands for code that is left out, and it would be lost. Write the whole text of the file."
            ),
            Self::Definitions(_) | Self::Keys(_) => format!(
                "The file was not written: the new text leaves out {}, which the file has now. Write the whole text of the file with everything that should stay.",
                self.named()
            ),
            Self::Lines(lost, of, place) => format!(
                "The file was not written: {lost} of the {of} lines that it has{place} are not in the new text, and little takes their place. Write the whole text of the file with everything that should stay; to begin it anew, remove the file first."
            ),
        }
    }
}

/// What the file would lose if the new text took the place of the old one; None when it is fine.
pub(super) fn loss(old: &str, new: &str, format: Format) -> Option<Loss> {
    // A heading of marked text is no comment.
    let marked = |line: &str| format == Format::Plain && line.trim().starts_with('#');
    let elides = |line: &&str| elides(line) && !marked(line) && !old.contains(line.trim());
    if let Some(line) = new.lines().find(elides) {
        return Some(Loss::Elided(line.trim().to_owned()));
    }
    let (old, new) = format.comparable(old, new);
    let end = if format == Format::Code { broken_off(&old, &new) } else { None };
    end.or_else(|| lost(&old, &new, format))
}

/// A text that is the beginning of the old one and ends inside of a function. That one whole line goes at the end may be meant.
pub(super) fn broken_off(old: &str, new: &str) -> Option<Loss> {
    let new = new.trim_end();
    let rest = old.strip_prefix(new).filter(|_| !new.is_empty())?;
    let lost = rest.lines().filter(|line| !line.trim().is_empty()).count();
    let in_line = !rest.starts_with(['\n', '\r']);
    // The first of the lines that are missing, or of which a part is.
    let gap = rest.lines().skip(1).take_while(|line| line.trim().is_empty()).count();
    let at = if in_line { new.lines().count() - 1 } else { new.lines().count() + gap };
    let known = definitions(old).into_iter().rfind(|known| known.function && known.body.contains(&at));
    let known = known.filter(|_| lost > 1 || lost > 0 && in_line && is_open(new.lines().last()))?;
    Some(Loss::End(lost, known.name))
}

/// Whether a line ends where none does: in brackets, or where something has to follow.
fn is_open(line: Option<&str>) -> bool {
    line.is_some_and(|line| {
        let count = |marks: &[char]| line.chars().filter(|letter| marks.contains(letter)).count();
        count(&['(', '[']) > count(&[')', ']']) || line.ends_with(['+', '-', '*', '/', '=', '.', ',', '('])
    })
}

/// The same of texts that can be compared, in which nothing stands for something else.
fn lost(old: &str, new: &str, format: Format) -> Option<Loss> {
    let (before, after) = (Text::new(old, format), Text::new(new, format));
    let renames = Renames::new(&before, &after);
    let lacking = before.lacking_in(&after);
    let new = after.lacking_in(&before).len();
    let mut missing: Vec<String> = lacking
        .into_iter()
        .filter(|known| !renames.explain(known, &before, &after))
        .map(|known| known.name.clone())
        .collect();
    missing.dedup();
    match format {
        Format::Code | Format::Make if !missing.is_empty() => return Some(Loss::Definitions(missing)),
        // Settings are put in other words more often than code, so those that others take the place of are not lost.
        Format::Json | Format::Yaml | Format::Toml | Format::Style | Format::Docker
            if missing.len() > new =>
        {
            return Some(Loss::Keys(missing));
        }
        Format::Code
        | Format::Make
        | Format::Json
        | Format::Yaml
        | Format::Toml
        | Format::Style
        | Format::Docker
        | Format::Plain => {}
    }
    let hollow = if format == Format::Code { hollowed(&before, &after) } else { None };
    hollow.or_else(|| unset(&before, &after)).or_else(|| thinned(&before, &after))
}

/// Several settings that are not there any more, and few others in their place.
fn unset(before: &Text<'_>, after: &Text<'_>) -> Option<Loss> {
    let lacking = |one: &Text<'_>, other: &Text<'_>| {
        let there: HashSet<&str> = other.settings.iter().map(|known| known.name.as_str()).collect();
        let mut names: Vec<String> = one.settings.iter().map(|known| known.name.clone()).collect();
        names.retain(|name| !there.contains(name.as_str()));
        names.dedup();
        names
    };
    let gone = lacking(before, after);
    (gone.len() >= lacking(after, before).len() + SEVERAL).then_some(Loss::Keys(gone))
}

/// Whether the new text is the old one without what is lost, and differs in nothing else that counts: comments and imports
/// may go with the code that they are for.
pub(super) fn only_leaves_out(old: &str, new: &str, loss: &Loss, format: Format) -> bool {
    let (old, new) = format.comparable(old, new);
    let (before, after) = (Text::new(&old, format), Text::new(&new, format));
    let tells = |line: &&str| format.tells(line);
    let there: Vec<&str> = after.lines.iter().copied().filter(tells).collect();
    match loss {
        Loss::Elided(_) | Loss::Hollow(..) => false,
        Loss::Definitions(names) | Loss::Keys(names) => {
            let mut gone = vec![false; before.lines.len()];
            let all = before.definitions.iter().chain(&before.settings);
            for known in all.filter(|known| names.contains(&known.name)) {
                let marks = before.lines[..known.line].iter().rev().take_while(|line| line.starts_with('@'));
                gone[known.line - marks.count()..known.body.end].fill(true);
            }
            let stays = before.lines.iter().zip(gone).filter(|(line, gone)| !gone && tells(line));
            stays.map(|(line, _)| *line).eq(there)
        }
        Loss::Lines(..) | Loss::End(..) => {
            let mut known = before.lines.iter();
            there.iter().all(|line| known.any(|other| other == line))
        }
    }
}

/// What of a loss may go, by name, and what is lost beside it. `goes` is asked with the name of each thing, those that it is
/// in, and its lines.
pub(super) fn spared(
    old: &str,
    new: &str,
    loss: &Loss,
    format: Format,
    goes: impl Fn(&[&str], &[&str]) -> bool,
) -> (Vec<String>, Option<Loss>) {
    let (old, new) = format.comparable(old, new);
    let before = Text::new(&old, format);
    let mut gone = vec![false; before.lines.len()];
    let mut spared: Vec<String> = Vec::new();
    match loss {
        Loss::Elided(_) | Loss::End(..) => return (spared, Some(loss.clone())),
        Loss::Hollow(name, _) => {
            for known in before.definitions.iter().filter(|known| known.name == *name) {
                let body = known.body.clone();
                if goes(&[name], &before.lines[body.clone()]) {
                    gone[body].fill(true);
                    spared.push(name.clone());
                }
            }
        }
        Loss::Definitions(names) | Loss::Keys(names) => {
            for known in before.definitions.iter().chain(&before.settings) {
                let around = before.definitions.iter().filter(|other| other.body.contains(&known.line));
                let chain: Vec<&str> = [known.name.as_str()]
                    .into_iter()
                    .chain(around.map(|other| other.name.as_str()))
                    .collect();
                let range = known.line..known.body.end;
                if names.contains(&known.name) && goes(&chain, &before.lines[range.clone()]) {
                    gone[range].fill(true);
                    spared.push(known.name.clone());
                }
            }
        }
        Loss::Lines(..) => {
            for (index, line) in before.lines.iter().enumerate() {
                gone[index] = says(line) && goes(&[], &[line]);
            }
            if gone.contains(&true) {
                spared.push(loss.named());
            }
        }
    }
    if spared.is_empty() {
        return (spared, Some(loss.clone()));
    }
    let base: String =
        old.lines().zip(gone).filter(|(_, gone)| !gone).map(|(line, _)| format!("{line}\n")).collect();
    let rest = lost(&base, &new, format);
    (spared, rest)
}

/// Whether another text has what these lines are, of something of this name.
pub(super) fn is_in(text: &str, name: Option<&str>, lines: &[&str]) -> bool {
    let there: HashSet<&str> = text.lines().map(str::trim).collect();
    let own = |name: &str| name.rsplit(['.', ':', ' ']).next().unwrap_or_default().to_owned();
    let inside = lines.get(1..).filter(|inside| inside.iter().any(|line| says(line))).unwrap_or(lines);
    let made: Vec<&&str> = inside.iter().filter(|line| says(line)).collect();
    let found = made.iter().filter(|line| there.contains(**line)).count();
    name.is_none_or(|name| text.contains(&own(name))) && found * 2 > made.len()
}

/// Whether two texts are the same in what counts.
pub(super) fn tell_the_same(one: &str, other: &str) -> bool {
    let tells = |line: &&str| Format::Code.tells(line);
    one.lines().map(str::trim).filter(tells).eq(other.lines().map(str::trim).filter(tells))
}

fn elides(line: &str) -> bool {
    let line = line.trim();
    let comment = ["#", "//", "--", "/*", "<!--", ";", "..."].iter().any(|mark| line.starts_with(mark));
    let said = line.to_ascii_lowercase();
    (comment || is_stub(line)) && ELISIONS.iter().any(|words| said.contains(words))
}

/// Whether two texts have a definition of the same name.
pub(crate) fn define_the_same(one: &str, other: &str) -> bool {
    let there = definitions(one);
    definitions(other).iter().any(|found| there.iter().any(|known| known.name == found.name))
}

/// A text with what it defines.
pub(super) struct Text<'a> {
    /// Without the white space around them.
    pub(super) lines: Vec<&'a str>,
    pub(super) set: HashSet<&'a str>,
    pub(super) definitions: Vec<Definition>,
    /// How many definitions have a name.
    names: HashMap<String, usize>,
    /// Keys of one line.
    settings: Vec<Definition>,
    pub(super) format: Format,
}

impl<'a> Text<'a> {
    fn new(text: &'a str, format: Format) -> Self {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let definitions = format.definitions(text);
        let mut names: HashMap<String, usize> = HashMap::new();
        for known in &definitions {
            *names.entry(known.name.clone()).or_default() += 1;
        }
        let settings = format.settings(text);
        Self { set: lines.iter().copied().collect(), lines, definitions, names, settings, format }
    }

    /// What only this text defines. Of several with one name it is as many as there are less in the other, and those of which
    /// the other has the least.
    fn lacking_in(&self, other: &Text<'_>) -> Vec<&Definition> {
        let there = |name: &str| other.names.get(name).copied().unwrap_or_default();
        let mut surplus: HashMap<&str, usize> = self
            .names
            .iter()
            .filter(|(name, own)| there(name) > 0 && **own > there(name) && self.format != Format::Json)
            .map(|(name, own)| (name.as_str(), own - there(name)))
            .collect();
        let mut lacks = |known: &&Definition| {
            let Some(left) = surplus.get_mut(known.name.as_str()) else { return there(&known.name) == 0 };
            let gone = *left > 0 && !self.stays_in(known, other);
            *left -= usize::from(gone);
            gone
        };
        self.definitions.iter().filter(|known| lacks(known)).collect()
    }

    /// Whether another text has most of what a definition is made of.
    fn stays_in(&self, known: &Definition, other: &Text<'_>) -> bool {
        let all = &self.lines[known.line..known.body.end];
        let inside = &self.lines[known.body.clone()];
        let made: Vec<&&str> = if inside.iter().any(|line| says(line)) { inside } else { all }
            .iter()
            .filter(|line| says(line))
            .collect();
        made.iter().filter(|line| other.set.contains(**line)).count() * 2 > made.len()
    }

    /// The first line of a definition without its name.
    fn unnamed(&self, definition: &Definition) -> String {
        let (line, name) = (self.lines[definition.line], definition.name.as_str());
        let own = if line.contains(name) { name } else { name.rsplit('.').next().unwrap_or_default() };
        line.replacen(own, "", 1)
    }
}

/// What may have been given another name.
struct Renames {
    /// Whether there are new names at all.
    any: bool,
    /// How many new names, and how many that are gone, have a first line that is the same but for the name.
    alike: HashMap<String, (usize, usize)>,
}

impl Renames {
    fn new(before: &Text<'_>, after: &Text<'_>) -> Self {
        let mut alike: HashMap<String, (usize, usize)> = HashMap::new();
        for found in after.lacking_in(before) {
            alike.entry(after.unnamed(found)).or_default().0 += 1;
        }
        let any = !alike.is_empty();
        for known in before.lacking_in(after) {
            alike.entry(before.unnamed(known)).or_default().1 += 1;
        }
        Self { any, alike }
    }

    /// Whether a definition is still there under another name: most of what it is made of is, or all of its one line.
    fn explain(&self, known: &Definition, before: &Text<'_>, after: &Text<'_>) -> bool {
        if !self.any {
            return false;
        }
        let body: Vec<&&str> = before.lines[known.body.clone()].iter().filter(|line| says(line)).collect();
        if body.is_empty() {
            // Each new name is one for one of those that are gone.
            return self.alike.get(&before.unnamed(known)).is_some_and(|(new, gone)| new >= gone);
        }
        body.iter().filter(|line| after.set.contains(**line)).count() * 2 > body.len()
    }
}

/// Whether a line tells something.
fn says(line: &str) -> bool {
    line.chars().any(char::is_alphanumeric)
}

/// Why a text is not to be written that has every function of the old one and little of what stands outside of them:
/// constants, settings, statements, fields, prose, and functions of languages that are not known. Functions may become as
/// short as one likes, and lines that others take the place of are not lost. What stands there often is lost when fewer stay.
fn thinned(before: &Text<'_>, after: &Text<'_>) -> Option<Loss> {
    let mut inside = vec![false; before.lines.len()];
    for known in before.definitions.iter().filter(|known| known.function) {
        inside[known.line..known.body.end].fill(true);
    }
    let outside: Vec<&str> = before
        .lines
        .iter()
        .zip(inside)
        .filter(|(line, inside)| !inside && before.format.tells(line))
        .map(|(line, _)| *line)
        .collect();
    let mut left: HashMap<&str, usize> = HashMap::new();
    for line in &after.lines {
        *left.entry(*line).or_default() += 1;
    }
    let is_lost = |line: &&&str| match left.get_mut(**line) {
        Some(left) if *left > 0 => {
            *left -= 1;
            false
        }
        Some(_) | None => true,
    };
    let lost = outside.iter().filter(is_lost).count();
    let new =
        after.lines.iter().filter(|line| before.format.tells(line) && !before.set.contains(**line)).count();
    if lost < FEW || lost * 2 <= outside.len() || new * 2 >= lost {
        return None;
    }
    let functions = before.definitions.iter().any(|known| known.function);
    Some(Loss::Lines(lost, outside.len(), if functions { " outside of functions" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(old: &str, new: &str) -> Option<String> {
        loss(old, new, Format::Code).map(|loss| loss.why())
    }

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
    fn a_function_whose_inside_is_left_out_is_refused() {
        let body: String = (0..12).map(|n| format!("    total += step_{n}(a)\n")).collect();
        let old =
            format!("def add(a):\n    total = 0\n{body}    return total\n\n\ndef other():\n    return 1\n");
        let with = |inside: &str| format!("def add(a):\n{inside}\n\ndef other():\n    return 2\n");
        for inside in [
            "    # ... existing implementation ...\n",
            "    # (unchanged)\n",
            "    # omitted for brevity\n    pass\n",
            "    ...\n",
            "    # keep the existing logic here\n    return total\n",
            "    # Same implementation as above\n",
            "    # ...\n",
            "    total = 0\n    # ... rest of the function ...\n    return total\n",
            "    pass\n",
            "    raise NotImplementedError\n",
        ] {
            let why = dropped(&old, &with(inside)).unwrap_or_else(|| panic!("{inside}"));
            assert!(why.contains("stands for code that is left out"), "{why}");
        }
        for inside in [
            "    return sum(step(a) for step in STEPS)\n",
            "    # The same in one line.\n    return 12 * a\n",
        ] {
            assert_eq!(dropped(&old, &with(inside)), None, "{inside}");
        }
        let rust = "fn a() {\n    one();\n    two();\n    three();\n}\n";
        assert!(dropped(rust, "fn a() {\n    // ... unchanged\n}\n").is_some());
        assert!(dropped(rust, concat!("fn a() {\n    todo", "!()\n}\n")).is_some());
        assert_eq!(dropped(rust, "fn a() {\n    all();\n}\n"), None);
    }

    #[test]
    fn a_file_that_ends_inside_a_function_is_refused() {
        let old = "def one():\n    return 1\n\n\ndef two(a):\n    b = a + 1\n    c = b + 1\n    print(c)\n    return c\n";
        for end in ["    b = a + 1\n", "    b = a + 1\n    c = b", "    print(c", "    c = b + 1\n"] {
            let new = &old[..old.find(end).unwrap() + end.len()];
            let why = dropped(old, new).unwrap_or_else(|| panic!("{new}"));
            assert!(why.contains("in `two` are missing"), "{why}");
        }
        let main = format!("{old}\n\nif __name__ == \"__main__\":\n    two(1)\n");
        assert!(dropped(&main, &old[..old.find("    print").unwrap()]).unwrap().contains("in `two`"));
        assert_eq!(dropped(old, old.trim_end().trim_end_matches('c')), None, "another last line");
        // One line may go, and so may what stands after all functions.
        assert_eq!(dropped(old, old.trim_end().trim_end_matches("    return c")), None);
        assert_eq!(dropped(&format!("{old}\n\nprint(1)\nprint(2)\n"), old), None);
        let rust = "fn a() {\n    one();\n    two();\n}\n";
        assert!(dropped(rust, "fn a() {\n    one();\n").is_some());
        assert_eq!(dropped(rust, rust.trim_end()), None);
    }

    #[test]
    fn the_main_block_of_a_script_is_not_dropped() {
        let main = "\n\nif __name__ == \"__main__\":\n    print(add(1, 2))\n";
        let old = format!("{OLD}{main}");
        assert!(dropped(&old, OLD).unwrap().contains("leaves out `__main__`"));
        assert_eq!(dropped(&old, &old.replace("1, 2", "3, 4").replace('"', "\'")), None);
        let moved = format!("{OLD}\n\ndef main():\n    print(add(1, 2))\n");
        assert_eq!(dropped(&old, &moved), None, "it has another name");
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

    /// Files with several functions, and an answer with one of them only.
    fn fragments() -> Vec<(&'static str, String, &'static str)> {
        let six = |one: fn(char) -> String| ('a'..='f').map(one).collect::<String>();
        vec![
            (
                "c",
                six(|c| format!("int f_{c}(int x) {{\n    return x + {};\n}}\n\n", c as u32)),
                "int f_a(int x) {\n    return 0;\n}\n",
            ),
            (
                "c++",
                six(|c| format!("int T::{c}(int x)\n{{\n    return x;\n}}\n")),
                "int T::a(int x)\n{\n    return 0;\n}\n",
            ),
            (
                "js",
                six(|c| format!("const f_{c} = (x) => {{\n  return x;\n}};\n")),
                "const f_a = (x) => {\n  return 0;\n};\n",
            ),
            (
                "ts",
                format!(
                    "class A {{\n{}}}\n",
                    six(|c| format!("  m_{c}(x: number): number {{\n    return x;\n  }}\n"))
                ),
                "class A {\n  m_a(x: number): number {\n    return 0;\n  }\n}\n",
            ),
            ("sh", six(|c| format!("f_{c}() {{\n  echo {c}\n}}\n")), "f_a() {\n  echo new\n}\n"),
            (
                "go",
                six(|c| format!("func (r *R) M{c}(x int) int {{\n\treturn x\n}}\n")),
                "func (r *R) Ma(x int) int {\n\treturn 0\n}\n",
            ),
            ("sql", six(|c| format!("CREATE TABLE t{c} (id int);\n")), "CREATE TABLE ta (id bigint);\n"),
            ("py", ('a'..='k').map(|c| format!("CONST_{c} = 1\n")).collect(), "CONST_a = 7\n"),
            ("yaml", ('a'..='p').map(|c| format!("{c}:\n  k{c}: 1\n")).collect(), "a:\n  ka: 2\n"),
        ]
    }

    #[test]
    fn fragments_are_refused_in_languages_without_words_for_it() {
        for (language, old, part) in fragments() {
            assert!(dropped(&old, part).is_some(), "{language}");
            assert_eq!(dropped(&old, &old), None, "{language}");
            let more =
                format!("{old}{}", part.replace("_a", "_new").replace("Ma", "Mnew").replace("::a", "::new"));
            assert_eq!(dropped(&old, &more), None, "{language}");
        }
        insta::assert_snapshot!(dropped(&fragments()[5].1, fragments()[5].2).unwrap(), @"The file was not written: the new text leaves out `R.Mb`, `R.Mc`, `R.Md`, `R.Me`, `R.Mf`, which the file has now. Write the whole text of the file with everything that should stay.");
        insta::assert_snapshot!(dropped(&fragments()[7].1, "CONST_a = 7\n").unwrap(), @"The file was not written: 11 of the 11 lines that it has are not in the new text, and little takes their place. Write the whole text of the file with everything that should stay; to begin it anew, remove the file first.");
    }

    #[test]
    fn a_text_that_only_leaves_out_is_told_from_one_that_changes_something() {
        let only = |old: &str, new: &str| {
            only_leaves_out(old, new, &loss(old, new, Format::Code).unwrap(), Format::Code)
        };
        let without_sub = OLD.replace("async def sub(a, b):\n    return a - b\n\n", "");
        assert!(only(OLD, &without_sub));
        assert!(only(OLD, &without_sub.replace("import os\n\n", "# Less.\n")), "imports go with the code");
        assert!(!only(OLD, &without_sub.replace("a + b", "b + a")), "a function is another one");
        assert!(!only(OLD, &format!("{without_sub}x = 1\n")), "something is new");
        let class = "class A:\n    @cached\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n";
        assert!(only(class, "class A:\n    def two(self):\n        return 2\n"));
        let rust = "fn a() {\n    one();\n}\n\n/// Two.\n#[test]\nfn b() {\n    two();\n}\n";
        assert!(only(rust, "fn a() {\n    one();\n}\n"));
        for (language, old, part) in fragments() {
            assert!(!only(&old, part), "{language}: the part has something else in it");
        }
    }

    #[test]
    fn ordinary_rewrites_are_written() {
        for (language, old, _) in fragments() {
            let renamed = old
                .replace("_c", "_see")
                .replace("Mc", "Msee")
                .replace("::c", "::see")
                .replace("tc ", "tsee ");
            assert_eq!(dropped(&old, &renamed), None, "renamed, {language}");
        }
        // Functions become shorter.
        let long = |lines: usize| {
            format!(
                "int f(int x) {{\n{}}}\n",
                (0..lines).map(|n| format!("    x += {n};\n")).collect::<String>()
            )
        };
        assert_eq!(dropped(&long(60), &long(3)), None);
        let body = "  const [a, setA] = useState(0);\n  const handle = () => {\n    setA(1);\n  };\n";
        let component = format!("export default function App() {{\n{body}  return 1;\n}}\n");
        assert_eq!(
            dropped(&component, &component.replace(body, "")),
            None,
            "what is inside of a function is its own"
        );
        // A script becomes a function.
        let script: String = (0..30).map(|n| format!("print({n})\n")).collect();
        let main = format!("def main():\n{}", script.replace("print", "    print"));
        assert_eq!(dropped(&script, &main), None);
        // Every line is another one, and there is a third less of them.
        let shorter: String = (0..20).map(|n| format!("show({n})\n")).collect();
        assert_eq!(dropped(&script, &shorter), None);
        // A third of the file goes.
        assert_eq!(dropped(&script, &script[..script.len() * 2 / 3]), None);
        // Imports and comments go, functions change places.
        let imports: String = (0..20).map(|n| format!("import m{n}\n# about m{n}\n")).collect();
        assert_eq!(dropped(&format!("{imports}{OLD}"), OLD), None);
        assert_eq!(
            dropped("fn a() {\n    1\n}\nfn b() {\n    2\n}\n", "fn b() {\n    2\n}\nfn a() {\n    1\n}\n"),
            None
        );
        assert_eq!(
            dropped("fn a() {}\nfn b() {}\n", "fn a() {}\nfn c() {}\n"),
            None,
            "one line under another name"
        );
        assert!(dropped("mod a;\nmod b;\n", "mod c;\n").is_some(), "one for two is no new name");
    }
}
