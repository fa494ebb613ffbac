//! What a text defines: functions, types, tables. No parser of any language is asked; a line that looks like a definition in
//! one of those that people use most is one.

use std::ops::Range;

/// Words before the name of a function.
const FUNCTIONS: [&str; 8] = ["fn", "def", "func", "function", "macro_rules!", "sub", "fun", "defp"];
/// Words before the name of something that holds other things.
const HOLDERS: [&str; 14] = [
    "class",
    "struct",
    "enum",
    "trait",
    "interface",
    "type",
    "module",
    "mod",
    "impl",
    "record",
    "object",
    "union",
    "namespace",
    "defmodule",
];
/// Words that may stand before those.
const BEFORE: [&str; 22] = [
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
    "local",
    "suspend",
    "readonly",
    "internal",
];
/// Words that begin a variable.
const VARIABLES: [&str; 3] = ["const", "let", "var"];
/// Words before a bracket that make it no definition.
const STATEMENTS: [&str; 38] = [
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
    "else",
    "elif",
    "elseif",
    "foreach",
    "unless",
    "until",
    "match",
    "when",
    "with",
    "do",
    "try",
    "finally",
    "case",
    "new",
    "await",
    "yield",
    "throw",
    "raise",
    "assert",
    "in",
    "of",
    "let",
    "var",
    "go",
    "defer",
    "select",
    "guard",
    "using",
    "lock",
    "synchronized",
    "import",
    "from",
];
/// What SQL makes.
const TABLES: [&str; 12] = [
    "table",
    "view",
    "index",
    "function",
    "procedure",
    "trigger",
    "type",
    "schema",
    "sequence",
    "domain",
    "policy",
    "role",
];
/// What may stand between the words of that.
const OF_TABLES: [&str; 14] = [
    "or",
    "replace",
    "unique",
    "temp",
    "temporary",
    "materialized",
    "global",
    "local",
    "unlogged",
    "virtual",
    "if",
    "not",
    "exists",
    "concurrently",
];
/// Most lines of the head of a function.
const HEAD: usize = 16;

/// Something that a text defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    /// What it is called.
    pub(super) name: String,
    /// Whether it is a function, and not something that holds others.
    pub(super) function: bool,
    /// Its first line, from 0.
    pub(super) line: usize,
    /// The lines that belong to it, without the first.
    pub(super) body: Range<usize>,
}

/// What a line is to the lines that are further in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
    Holder,
    Function,
    Other,
}

/// What a text defines, in order.
pub(super) fn definitions(text: &str) -> Vec<Definition> {
    let lines: Vec<&str> = text.lines().collect();
    let mut around: Vec<(usize, Around)> = Vec::new();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let said = line.trim();
        // These belong to the line that began, wherever they stand.
        if said.is_empty()
            || is_comment(said)
            || said.starts_with(['{', '}', ')', ']', '@'])
            || is_label(said)
        {
            continue;
        }
        while around.last().is_some_and(|(outer, _)| *outer >= indent(line)) {
            around.pop();
        }
        let known = named(&lines[index..], &around);
        let kind = match &known {
            Some((_, true)) => Around::Function,
            Some((_, false)) => Around::Holder,
            None if holds(said) => Around::Holder,
            None => Around::Other,
        };
        if let Some((name, function)) = known {
            found.push(Definition { name, function, line: index, body: body(&lines, index) });
        }
        around.push((indent(line), kind));
    }
    found
}

/// The name that a line at the left margin defines.
pub(super) fn definition(line: &str) -> Option<String> {
    if is_comment(line.trim()) {
        return None;
    }
    named(&[line], &[]).map(|(name, _)| name)
}

/// Whether a line is a comment, or in quotes.
pub(super) fn is_comment(line: &str) -> bool {
    let directive =
        line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|letter: char| letter.is_alphabetic()));
    !directive && line.starts_with(['#', '/', '*', '"', '\''])
}

/// Whether a line brings in what another file has.
pub(super) fn is_import(line: &str) -> bool {
    ["import ", "from ", "use ", "#include", "require", "package ", "using ", "const "]
        .iter()
        .any(|word| line.starts_with(word) && (*word != "const " || line.contains("require(")))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// `public:` and the like, at whatever margin.
fn is_label(line: &str) -> bool {
    line.strip_suffix(':').is_some_and(|word| BEFORE.contains(&word) || word == "default")
}

/// Whether what is further in are the members of something: of an object, a list of exports, a block of a namespace.
fn holds(line: &str) -> bool {
    let first =
        line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
    line.ends_with('{') && !line.contains('(') && !STATEMENTS.contains(&first)
}

fn body(lines: &[&str], index: usize) -> Range<usize> {
    let margin = indent(lines[index]);
    let inside = |line: &&&str| {
        let said = line.trim();
        said.is_empty() || indent(line) > margin || said.starts_with([')', '{'])
    };
    let length = lines[index + 1..].iter().take_while(inside).count();
    index + 1..index + 1 + length
}

/// The name that the first of these lines defines, and whether it is that of a function.
fn named(lines: &[&str], around: &[(usize, Around)]) -> Option<(String, bool)> {
    let line = lines.first()?.trim();
    if let Some(found) = keyword(line) {
        return Some(found);
    }
    // What has no word for what it is counts where a reader would look for it: not inside functions, where calls, variables
    // and blocks look the same and come and go.
    if around.iter().any(|(_, kind)| *kind == Around::Function) {
        return None;
    }
    if let Some(found) = table(line) {
        return Some(found);
    }
    let member = match around.last() {
        None => false,
        Some((_, Around::Holder)) => true,
        Some(_) => return None,
    };
    assigned(line, member).or_else(|| headed(lines, member)).map(|name| (name, true))
}

/// `fn name`, `class Name`, `func (r *R) Name`.
fn keyword(line: &str) -> Option<(String, bool)> {
    let mut words = line.split_whitespace();
    let kind = loop {
        let word = words.next()?;
        let plain = word.split('(').next().unwrap_or(word);
        if !BEFORE.contains(&plain) {
            break word.trim_end_matches('*');
        }
    };
    let function = FUNCTIONS.contains(&kind);
    if !function && !HOLDERS.contains(&kind) {
        return None;
    }
    let rest = words.next()?;
    // `impl<T> Trait for Type` says too little in its first word.
    if kind == "impl" {
        return None;
    }
    if rest.starts_with('(') {
        return (kind == "func").then(|| method(line)).flatten().map(|name| (name, true));
    }
    let name = identifier(rest.trim_start_matches(['*', '&']));
    (!name.is_empty()).then(|| (name.to_owned(), function))
}

/// The name of a method in Go, with its type: several types have methods of one name.
fn method(line: &str) -> Option<String> {
    let (receiver, rest) = line.split_once('(')?.1.split_once(')')?;
    let of = identifier(receiver.split_whitespace().last()?.trim_start_matches('*'));
    let name = identifier(rest.trim_start());
    (!name.is_empty() && !of.is_empty()).then(|| format!("{of}.{name}"))
}

/// `CREATE TABLE name`.
fn table(line: &str) -> Option<(String, bool)> {
    let mut words = line.split_whitespace();
    if !words.next()?.eq_ignore_ascii_case("create") {
        return None;
    }
    let is_one = |list: &[&str], word: &str| list.iter().any(|known| known.eq_ignore_ascii_case(word));
    let kind = words.find(|word| !is_one(&OF_TABLES, word))?;
    if !is_one(&TABLES, kind) {
        return None;
    }
    let name = words.find(|word| !is_one(&OF_TABLES, word))?;
    let name = name.split(['(', ';']).next().unwrap_or_default();
    let name: String = name.chars().filter(|letter| !['"', '`', '[', ']', '\''].contains(letter)).collect();
    (!name.is_empty()).then_some((name, false))
}

/// `const name = (x) => …`, `exports.name = function …`, and in something that holds it `name: (x) => …`.
fn assigned(line: &str, member: bool) -> Option<String> {
    let (left, right) = equals(line).or_else(|| if member { line.split_once(": ") } else { None })?;
    let right = right.trim_start();
    let right = right.strip_prefix("async ").unwrap_or(right).trim_start();
    let after = &right[identifier(right).len()..];
    let function = match right.chars().next()? {
        '(' | '<' => match closed(&[right], right.find('(')?) {
            Some((_, end)) => right[end..].contains("=>"),
            // The head goes on in the next lines.
            None => begins_variable(left) && right.ends_with(['(', ',', '{']),
        },
        _ if identifier(right) == "function" => true,
        _ => after.len() < right.len() && after.trim_start().starts_with("=>"),
    };
    let mut words = left.split(':').next()?.split_whitespace().rev();
    let name = words.next()?;
    let plain = name.chars().all(|letter| letter.is_alphanumeric() || ['_', '$', '.', '#'].contains(&letter));
    let fits = plain && words.all(|word| BEFORE.contains(&word) || VARIABLES.contains(&word));
    (function && fits).then(|| name.to_owned())
}

fn begins_variable(left: &str) -> bool {
    left.split_whitespace().any(|word| VARIABLES.contains(&word))
}

/// A line before and after its first `=` that gives something a value.
fn equals(line: &str) -> Option<(&str, &str)> {
    let bytes = line.as_bytes();
    let at = line.find('=')?;
    let next = bytes.get(at + 1).copied().unwrap_or_default();
    let last = at.checked_sub(1).map_or(b' ', |last| bytes[last]);
    let compares = [b'=', b'>', b'~'].contains(&next) || b"!<>:+-*/|&%^".contains(&last);
    (!compares).then(|| (&line[..at], &line[at + 1..]))
}

/// `int name(int x) {`, `name(x: number): number {`, `name() {`.
fn headed(lines: &[&str], member: bool) -> Option<String> {
    let line = lines.first()?;
    let open = line.find('(')?;
    let before = line[..open].trim();
    let fits =
        |letter: char| letter.is_alphanumeric() || letter.is_whitespace() || "_*&:<>,[]~#$?".contains(letter);
    if !before.chars().all(fits) || before.replace("::", "").contains(':') {
        return None;
    }
    let words: Vec<&str> = before.split_whitespace().collect();
    let excluded =
        |word: &&str| STATEMENTS.contains(word) || FUNCTIONS.contains(word) || HOLDERS.contains(word);
    let directive = words.len() > 1 && before.starts_with('#');
    if directive || words.iter().any(|word| excluded(&word.trim_matches(['*', '&']))) {
        return None;
    }
    let name = words.last()?.trim_start_matches(['*', '&', '#']).split('<').next()?;
    let first = name.chars().next()?;
    let letters =
        name.chars().all(|letter| letter.is_alphanumeric() || ['_', '$', ':', '~'].contains(&letter));
    if !letters || !(first.is_alphabetic() || ['_', '$', '~'].contains(&first)) {
        return None;
    }
    let (last, end) = closed(lines, open)?;
    let given = line[open + 1..].trim_start();
    // Calls with a block after them are given values.
    if given.starts_with(|letter: char| letter.is_ascii_digit() || ['"', '\'', '`'].contains(&letter)) {
        return None;
    }
    // Without a type only the functions of a shell stand at the margin, and those are given nothing.
    if words.len() == 1 && !member && !given.starts_with(')') {
        return None;
    }
    let rest = lines[last][end..].trim();
    let between = match rest.split_once('{') {
        Some((between, _)) => between.trim(),
        None if lines.get(last + 1).is_some_and(|next| next.trim_start().starts_with('{')) => rest,
        None => return None,
    };
    let calls = between.contains(['=', ';']) || between.starts_with(['.', '+', '-', '?', '|', ',', '!', ')']);
    let trailing = between.starts_with("->");
    (!calls || trailing && !between.contains(['=', ';'])).then(|| name.to_owned())
}

/// Where the bracket that opens at this byte of the first line is closed: the line, and the byte after it.
fn closed(lines: &[&str], open: usize) -> Option<(usize, usize)> {
    let mut depth = 0_usize;
    for (index, line) in lines.iter().enumerate().take(HEAD) {
        let from = if index == 0 { open } else { 0 };
        for (at, letter) in line[from..].char_indices() {
            match letter {
                '(' => depth += 1,
                ')' if depth == 1 => return Some((index, from + at + 1)),
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    None
}

/// The letters, digits and underscores that a text begins with.
fn identifier(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        definitions(text).into_iter().map(|definition| definition.name).collect()
    }

    #[test]
    fn words_say_what_is_defined() {
        assert_eq!(names("pub(crate) async fn go<T>(x: T) {}\npub struct A;\nimpl A {"), ["go", "A"]);
        assert_eq!(names("export default function main() {}\nexport class B extends C {"), ["main", "B"]);
        assert_eq!(
            names("func Run(x int) {}\nfunc (r *R[T]) Other() {}\ntype T struct {"),
            ["Run", "R.Other", "T"]
        );
        assert_eq!(names("# def no():\nx = def_y\nreturn function\nfunc() {"), [""; 0]);
        assert_eq!(
            names(
                "CREATE TABLE IF NOT EXISTS \"a\".t1 (id int);\ncreate or replace view v as select 1;\nCreate a table"
            ),
            ["a.t1", "v"]
        );
    }

    #[test]
    fn functions_are_known_without_a_word() {
        let c = "#define MAX(a) {\nstatic int *f(int x) {\n    if (x) {\n    }\n    g(x);\n}\nint main(void)\n{\n}\nint p(int);\nvoid A::run(\n    int x,\n    int y) const {\n}\n";
        assert_eq!(names(c), ["f", "main", "A::run"]);
        let java = "class A {\n    @Test(x)\n    public List<T> one(int x) throws E {\n        for (x : y) {\n        }\n        call(x, new B() {\n            void inner() {\n            }\n        });\n    }\n    A() { }\n}\n";
        assert_eq!(names(java), ["A", "one", "A"]);
        let ts = "export class Cart {\n  private async add(x: number): Promise<void> {\n    list.map((x) => {\n    });\n    const inner = () => 1;\n  }\n  get = async (x) => {\n  };\n}\nexport default {\n  data() {\n  },\n  name: (x) => x,\n};\n";
        assert_eq!(names(ts), ["Cart", "add", "get", "data", "name"]);
        let js = "const a = (x) => {\n};\nlet b = async x => x;\nexports.c = function (x) {\n};\nconst d: F = (\n  x,\n) => x;\nconst e = (1 + 2) * 3;\ndescribe(\"x\", () => {\n});\nif (a(x) == 1) {\n}\napp.get(x, (y) => {\n});\n";
        assert_eq!(names(js), ["a", "b", "exports.c", "d"]);
        assert_eq!(names("one() {\n  two\n}\nthree ()\n{\n}\nfor x in $(ls); do\n"), ["one", "three"]);
        let none = "li:not(.a) {\n}\n@media (x) {\n}\nmatch f(x) {\n    Some(x) => {\n    }\n}\nx = f(y) {\nprint(x)\n__all__ = (\n    \"a\",\n)\n";
        assert_eq!(names(none), [""; 0]);
    }

    #[test]
    fn what_belongs_to_a_definition_is_further_in() {
        let found = definitions("def a(\n    x,\n):\n    one\n\n    two\nb\n");
        assert_eq!((found[0].line, found[0].body.clone()), (0, 1..6));
        assert_eq!(definitions("int f(int x)\n{\n    one;\n}\n")[0].body, 1..3);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "([a-c{}()=:<>.#é*\"\n ]|=> |const |func |create |class ){0,60}") {
            let lines = text.lines().count();
            for found in definitions(&text) {
                prop_assert!(found.line < lines && found.body.end <= lines && !found.name.is_empty());
            }
        }
    }
}
