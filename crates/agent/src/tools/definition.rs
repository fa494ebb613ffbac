//! What a text defines: functions, types, tables. No parser of any language is asked; a line that looks like a definition in
//! one of those that people use most is one.

use std::ops::Range;

/// Words before the name of a function.
const FUNCTIONS: [&str; 12] = [
    "fn",
    "def",
    "func",
    "function",
    "macro_rules!",
    "sub",
    "fun",
    "defp",
    "defmacro",
    "defmacrop",
    "proc",
    "subroutine",
];
/// Those of them after which signs can be a name.
const OPERATORS: [&str; 4] = ["def", "func", "fun", "defp"];
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
const BEFORE: [&str; 38] = [
    "pub",
    "typedef",
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
    "sealed",
    "case",
    "implicit",
    "operator",
    "infix",
    "mutating",
    "fileprivate",
    "partial",
    "virtual",
    "constexpr",
    "companion",
    "lazy",
    "external",
    "tailrec",
    "nonisolated",
];
/// Words that begin a variable.
const VARIABLES: [&str; 3] = ["const", "let", "var"];
/// Words before a bracket that make it no definition.
pub(super) const STATEMENTS: [&str; 38] = [
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
/// Those of them that can be names as well, where a type or a holder says that something is defined.
const NAMES_TOO: [&str; 19] = [
    "match", "when", "with", "raise", "assert", "in", "of", "let", "var", "go", "defer", "select", "guard",
    "using", "lock", "import", "from", "sub", "do",
];
/// Types in C that can stand before the name of a function.
const TAGGED: [&str; 3] = ["struct", "union", "enum"];
/// Lines for a preprocessor, which stand at the margin whatever is around them.
const DIRECTIVES: [&str; 13] = [
    "#if",
    "#ifdef",
    "#ifndef",
    "#elif",
    "#else",
    "#endif",
    "#define",
    "#undef",
    "#pragma",
    "#error",
    "#line",
    "#region",
    "#endregion",
];
/// What SQL makes.
const TABLES: [&str; 13] = [
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
    "extension",
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
#[derive(Debug, Clone, PartialEq, Eq)]
enum Around {
    /// With its name, if it has one.
    Holder(String),
    Function,
    Other,
}

/// What a text defines, in order.
pub(super) fn definitions(text: &str) -> Vec<Definition> {
    let lines: Vec<&str> = text.lines().collect();
    let mut around: Vec<(usize, Around)> = Vec::new();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let said = without_annotations(line.trim());
        // These belong to the line that began, wherever they stand.
        if said.is_empty()
            || is_comment(said)
            || said.starts_with(['{', '}', ')', ']', '@'])
            || is_label(said)
            || is_directive(said)
        {
            continue;
        }
        while around.last().is_some_and(|(outer, _)| *outer >= indent(line)) {
            around.pop();
        }
        let head: Vec<&str> =
            [said].into_iter().chain(lines[index + 1..].iter().copied().take(HEAD)).collect();
        let known = named(&head, &around);
        let kind = match &known {
            Some((_, true)) => Around::Function,
            Some((name, false)) => Around::Holder(name.clone()),
            None if holds(said) => Around::Holder(String::new()),
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

/// A line without `@Override` and the like before what they are about; whole where nothing comes after them.
fn without_annotations(line: &str) -> &str {
    let mut rest = line;
    while let Some(annotation) = rest.strip_prefix('@') {
        let end = annotation
            .find(|letter: char| !letter.is_alphanumeric() && !['_', '.'].contains(&letter))
            .unwrap_or(annotation.len());
        let after = &annotation[end..];
        let after = match closed(&[after], 0).filter(|_| after.starts_with('(')) {
            Some((_, end)) => &after[end..],
            None => after,
        };
        rest = after.trim_start();
        if !after.starts_with(' ') || rest.starts_with('(') {
            return line;
        }
    }
    if rest.is_empty() { line } else { rest }
}

fn is_directive(line: &str) -> bool {
    line.starts_with('#') && line.split_whitespace().next().is_some_and(|word| DIRECTIVES.contains(&word))
}

pub(super) fn indent(line: &str) -> usize {
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

pub(super) fn body(lines: &[&str], index: usize) -> Range<usize> {
    let margin = indent(lines[index]);
    let inside = |line: &&&str| {
        let said = line.trim();
        let beside = said.starts_with([')', '{']) || is_label(said) || is_directive(said);
        said.is_empty() || indent(line) > margin || beside
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
    let holder = match around.last() {
        None => None,
        Some((_, Around::Holder(name))) => Some(name),
        Some((_, Around::Function | Around::Other)) => return None,
    };
    let member = holder.is_some();
    let name = assigned(line, member)
        .or_else(|| operator(lines))
        .or_else(|| if member { remote(line).or_else(|| getter(line)) } else { None })
        .or_else(|| headed(lines, member))?;
    // What makes one of a class has its name, and is not the class.
    let makes = holder.is_some_and(|holder| *holder == name);
    Some((if makes { format!("{name}.{name}") } else { name }, true))
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
    // `struct node *find(…) {` and `struct stat now;` are not about the type; `enum class` is two words for one.
    let plain = identifier(rest) == rest;
    let rest = match words.next() {
        Some(next) if plain && TAGGED.contains(&kind) && HOLDERS.contains(&rest) => next,
        Some(next) if plain && TAGGED.contains(&kind) && uses(next) => return None,
        Some(_) | None => rest,
    };
    // `impl<T> Trait for Type` says too little in its first word.
    if kind == "impl" {
        return None;
    }
    if rest.starts_with('(') {
        return (kind == "func").then(|| method(line)).flatten().map(|name| (name, true));
    }
    let name =
        if function { function_name(kind, line)? } else { dotted(rest.trim_start_matches(['*', '&'])) };
    (!name.is_empty()).then(|| (name.to_owned(), function))
}

/// The name after the word for a function, with what it belongs to: `self.name`, `M:name`, `String.name`. What types it is for
/// may stand before it.
fn function_name<'a>(kind: &str, line: &'a str) -> Option<&'a str> {
    let at = line
        .match_indices(kind)
        .map(|(at, _)| at + kind.len())
        .find(|end| line[*end..].starts_with(|letter: char| letter.is_whitespace() || letter == '*'))?;
    let mut rest = line[at..].trim_start_matches(['*', '&', ' ', '\t']);
    if rest.starts_with('<') {
        rest = rest.split_once("> ")?.1.trim_start();
    }
    if let Some(quoted) = rest.strip_prefix('`') {
        return quoted.split('`').next();
    }
    let mut name = dotted(rest);
    if let Some(of) = rest[name.len()..].strip_prefix(':').map(identifier)
        && !of.is_empty()
        && !name.is_empty()
    {
        name = &rest[..name.len() + 1 + of.len()];
    }
    while kind == "function"
        && let Some(more) = rest[name.len()..].strip_prefix('-').map(identifier)
        && !more.is_empty()
    {
        name = &rest[..name.len() + 1 + more.len()];
    }
    let after = &rest[name.len()..];
    let marked = after.starts_with(['?', '!']) || after.starts_with("=(");
    if kind == "def" && marked && !name.is_empty() {
        return Some(&rest[..=name.len()]);
    }
    if name.is_empty() && OPERATORS.contains(&kind) {
        let end = rest.find(|letter: char| letter == '(' || letter.is_whitespace()).unwrap_or(rest.len());
        let signs = rest[..end].chars().all(|letter| letter.is_ascii_punctuation() && letter != '{');
        return Some(if signs { &rest[..end] } else { "" });
    }
    Some(name)
}

/// An identifier with those that it is in: `Shop.Cart`, `Shop::Cart`.
fn dotted(text: &str) -> &str {
    let mut end = identifier(text).len();
    loop {
        let rest = &text[end..];
        let mark = if rest.starts_with("::") { 2 } else { usize::from(rest.starts_with('.')) };
        let more = identifier(&rest[mark..]).len();
        if mark == 0 || more == 0 || end == 0 {
            return &text[..end];
        }
        end += mark + more;
    }
}

/// `rpc Name(…)`.
fn remote(line: &str) -> Option<String> {
    let name = identifier(line.strip_prefix("rpc ")?.trim_start());
    (!name.is_empty()).then(|| name.to_owned())
}

/// `double get area => …`.
fn getter(line: &str) -> Option<String> {
    let (before, rest) = line.split_once("get ")?;
    let name = identifier(rest);
    let opens = ["=>", "{", "async"].iter().any(|mark| rest[name.len()..].trim_start().starts_with(mark));
    let typed = before.is_empty() || before.ends_with(' ') && !before.contains(['(', '=', '.']);
    (opens && typed && !name.is_empty()).then(|| format!("get {name}"))
}

/// `bool operator==(const A& other) {`.
fn operator(lines: &[&str]) -> Option<String> {
    let line = lines.first()?;
    let at = line.find("operator")?;
    let before = &line[..at];
    let signs = &line[at + "operator".len()..];
    let begins = before.is_empty() || before.ends_with([' ', ':', '&', '*']);
    if !begins
        || before.contains(['=', '(', ';'])
        || signs.starts_with(|letter: char| letter == '_' || letter.is_alphanumeric())
    {
        return None;
    }
    let from = if signs.trim_start().starts_with("()") { signs.find(')')? + 1 } else { 0 };
    let open = from + signs[from..].find('(')?;
    let (last, end) = closed(lines, at + "operator".len() + open)?;
    let rest = lines[last][end..].trim();
    let opens =
        rest.contains('{') || lines.get(last + 1).is_some_and(|next| next.trim_start().starts_with('{'));
    let of = before.rsplit([' ', '&', '*']).next().unwrap_or_default();
    (opens || is_given(rest)).then(|| format!("{of}operator{}", signs[..open].trim()))
}

/// Whether what comes after the head of a function says that the compiler, or whoever takes it over, gives the rest.
fn is_given(rest: &str) -> bool {
    let words: Vec<&str> = rest.split_whitespace().collect();
    words.ends_with(&["=", "default;"]) || words.ends_with(&["=", "delete;"]) || words.ends_with(&["=", "0;"])
}

/// Whether a word after the name of a type makes it one that is used.
fn uses(word: &str) -> bool {
    word.starts_with(['*', '&', '_'])
        || word.starts_with(char::is_alphabetic)
            && !["final", "where", "extends", "implements", "is", "of", "with"].contains(&word)
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
    let (left, right) = equals(line)
        .or_else(|| line.split_once("<- "))
        .or_else(|| if member { line.split_once(": ") } else { None })?;
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
    let given = line[open + 1..].trim_start();
    let words: Vec<&str> = before.split_whitespace().collect();
    let (name, types) = words.split_last()?;
    // The functions of a shell are given nothing, and their names have almost any letters.
    let shell = types.is_empty() && given.starts_with(')') && !member;
    let fits = |letter: char| {
        letter.is_alphanumeric()
            || letter.is_whitespace()
            || "_*&:<>,[]~#$?".contains(letter)
            || shell && "-.".contains(letter)
            // A constructor with a name of its own.
            || letter == '.' && member && name.starts_with(char::is_uppercase)
    };
    if !before.chars().all(fits) || before.replace("::", "").contains(':') {
        return None;
    }
    let reserved = |word: &str| STATEMENTS.contains(&word) || FUNCTIONS.contains(&word);
    let is_type = |word: &&str| {
        let word = word.trim_matches(['*', '&']);
        (!reserved(word) || word == "synchronized") && (TAGGED.contains(&word) || !HOLDERS.contains(&word))
    };
    let directive = !types.is_empty() && before.starts_with('#');
    if directive || !types.iter().all(is_type) {
        return None;
    }
    let name = name.trim_start_matches(['*', '&', '#']).split('<').next()?;
    let (last, end) = closed(lines, open)?;
    let rest = lines[last][end..].trim();
    // Where the type stands in the line before, the braces have lines of their own, and what is given has types.
    let said = !types.is_empty() || member || shell || rest.is_empty() && is_typed(given);
    if reserved(name) && !NAMES_TOO.contains(&name) || !said {
        return None;
    }
    let first = name.chars().next()?;
    let letter =
        |letter: char| letter.is_alphanumeric() || "_$:~.".contains(letter) || shell && letter == '-';
    if !name.chars().all(letter) || !(first.is_alphabetic() || ['_', '$', '~'].contains(&first)) {
        return None;
    }
    // Calls with a block after them are given values.
    if given.starts_with(|letter: char| letter.is_ascii_digit() || ['"', '\'', '`'].contains(&letter)) {
        return None;
    }
    let name = match types {
        // Two functions of one name: one gives a value and the other takes it.
        [.., word] if member && ["get", "set"].contains(word) => format!("{word} {name}"),
        _ => name.to_owned(),
    };
    if !types.is_empty() && rest.starts_with("=>") || member && is_given(rest) {
        return Some(name);
    }
    let between = match rest.split_once('{') {
        Some((between, _)) => between.trim(),
        None if lines.get(last + 1).is_some_and(|next| next.trim_start().starts_with('{')) => rest,
        None => return None,
    };
    let calls = between.contains(['=', ';']) || between.starts_with(['.', '+', '-', '?', '|', ',', '!', ')']);
    let trailing = between.starts_with("->");
    (!calls || trailing && !between.contains(['=', ';'])).then_some(name)
}

/// Whether the first of what a function is given has a type before its name, as in C.
fn is_typed(given: &str) -> bool {
    let first = given.split([',', ')']).next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let plain = first.chars().all(|letter| letter.is_alphanumeric() || " _*&:<>[]".contains(letter));
    plain && (words == ["void"] || words.len() > 1)
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
        assert_eq!(names(java), ["A", "one", "A.A"]);
        let ts = "export class Cart {\n  private async add(x: number): Promise<void> {\n    list.map((x) => {\n    });\n    const inner = () => 1;\n  }\n  get = async (x) => {\n  };\n}\nexport default {\n  data() {\n  },\n  name: (x) => x,\n};\n";
        assert_eq!(names(ts), ["Cart", "add", "get", "data", "name"]);
        let js = "const a = (x) => {\n};\nlet b = async x => x;\nexports.c = function (x) {\n};\nconst d: F = (\n  x,\n) => x;\nconst e = (1 + 2) * 3;\ndescribe(\"x\", () => {\n});\nif (a(x) == 1) {\n}\napp.get(x, (y) => {\n});\n";
        assert_eq!(names(js), ["a", "b", "exports.c", "d"]);
        assert_eq!(names("one() {\n  two\n}\nthree ()\n{\n}\nfor x in $(ls); do\n"), ["one", "three"]);
        let none = "li:not(.a) {\n}\n@media (x) {\n}\nmatch f(x) {\n    Some(x) => {\n    }\n}\nx = f(y) {\nprint(x)\n__all__ = (\n    \"a\",\n)\n";
        assert_eq!(names(none), [""; 0]);
    }

    #[test]
    fn ordinary_code_of_many_languages_is_seen() {
        for (text, expected) in [
            ("int sub(int a, int b)\n{\n\treturn a - b;\n}\n", vec!["sub"]),
            ("static int\nsub(int a, int b)\n{\n}\n\nvoid\nnone(void)\n{\n}\n", vec!["sub", "none"]),
            ("struct node *find(struct node *n) {\n    struct stat st;\n    return n;\n}\n", vec!["find"]),
            ("static struct node *\nfind(struct node *n)\n{\n}\n", vec!["find"]),
            ("typedef struct node {\n    int x;\n} node;\nint select(int n) {\n}\n", vec!["node", "select"]),
            (
                "template <typename T>\nT sub(T a, T b) {\n}\ntemplate<class T> T mul(T a) {\n}\n",
                vec!["sub", "mul"],
            ),
            (
                "class A {\n public:\n  A(int x) : x_(x) {}\n  ~A() {}\n#ifdef X\n  int sub() const { return 1; }\n#endif\n};\n",
                vec!["A", "A.A", "~A", "sub"],
            ),
            (
                "public class C {\n    public C(int x) {\n    }\n    static <T> List<T> sub(List<T> a) {\n    }\n    public <K, V extends Comparable<V>> Map<K, V> of(K k) throws E {\n    }\n    @Override public String with(String x) {\n    }\n}\n",
                vec!["C", "C.C", "sub", "of", "with"],
            ),
            (
                "class C\n{\n    public int Sub(int a) => a;\n    public C(int a) : base(a)\n    {\n    }\n}\n",
                vec!["C", "Sub", "C.C"],
            ),
            (
                "sub() {\n  echo\n}\nbuild-all() {\n  x\n}\nfunction mul {\n}\nf ()\n{\n}\n",
                vec!["sub", "build-all", "mul", "f"],
            ),
            (
                "export class A {\n  async sub(a: number) {\n  }\n  static async *all() {\n  }\n  get x() { return 1; }\n  set x(v) {\n  }\n  #hid(a) {\n  }\n  from(a) {\n  }\n}\n",
                vec!["A", "sub", "all", "get x", "set x", "hid", "from"],
            ),
            // What only looks so.
            ("if (a) {\n}\nelse if (b)\n{\n}\nwith (x) {\n}\nselect (x) {\n}\nfoo(a, b)\n{\n}\n", vec![]),
            (
                "struct P<A, B> {\n}\nenum class E {\n}\npub struct Q<'a, T> where T: X {\n}\n",
                vec!["P", "E", "Q"],
            ),
            ("class A {\n    public synchronized void type(int x) {\n    }\n}\n", vec!["A", "type"]),
            ("struct stat now;\nenum color c = RED;\nreturn match(x) {\n", vec![]),
            ("android {\n    if (x) {\n    }\n}\n", vec![]),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
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
