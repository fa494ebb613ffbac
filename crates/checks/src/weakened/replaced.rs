//! What a test calls by itself, and what is put in its place: then the test tests the stand-in. What the tested code calls may be
//! replaced, as most stand-ins are there for that.

use std::collections::{HashMap, HashSet};

use super::diff::{Change, File, Line};

/// Modules that come with Python or speak to the world: tests replace these with good reason, also where they use them.
const WORLD: [&str; 24] = [
    "asyncio",
    "builtins",
    "datetime",
    "http",
    "httpx",
    "io",
    "json",
    "logging",
    "os",
    "pathlib",
    "random",
    "requests",
    "secrets",
    "shutil",
    "smtplib",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
    "warnings",
];

/// The added line that replaces what was called in the tests of a Python file.
pub(super) fn in_python<'a, 'b>(file: &'b File<'a>) -> Option<&'b Line<'a>> {
    let before = Before::of(file, &["import ", "from "]);
    added(file).find(|line| {
        let path = assigned(line.text).or_else(|| patched(line.text));
        path.is_some_and(|path| {
            let (owner, name) = path.rsplit_once('.').unwrap_or(("", path.as_str()));
            let first = owner.split('.').next().unwrap_or_default();
            let last = owner.rsplit('.').next().unwrap_or_default();
            let ours = !WORLD.contains(&first) && !matches!(first, "self" | "cls");
            let by_owner = !last.is_empty() && before.calls(&format!("{last}.{name}"));
            ours && (by_owner || before.imports(name) && before.calls(name))
        })
    })
}

/// The same of JavaScript and TypeScript.
pub(super) fn in_script<'a, 'b>(file: &'b File<'a>) -> Option<&'b Line<'a>> {
    let before = Before::of(file, &["import ", "const ", "let ", "var "]);
    // A module of which the rest stays as it is: only what is named is replaced.
    let partly = added(file).any(|line| {
        ["importActual", "requireActual", "importOriginal"].iter().any(|word| line.text.contains(word))
    });
    let named: HashSet<&str> = added(file).flat_map(|line| keys(line.text)).collect();
    added(file).find(|line| {
        if let Some(path) = quoted_after(line.text, &["vi.mock(", "jest.mock(", "vi.doMock(", "mock.module("])
        {
            // What has no path is a package of others.
            return path.starts_with(['.', '@', '~', '/'])
                && before.names_from(path).iter().any(|name| {
                    (before.calls(name) || before.calls_of(name)) && (!partly || named.contains(name))
                });
        }
        let spied = ["spyOn(", "mock.method("].iter().find_map(|call| line.text.split_once(call));
        spied.is_some_and(|(_, rest)| {
            let mut parts = rest.split([',', ')']);
            let owner = parts.next().unwrap_or_default().trim();
            let name = parts.next().unwrap_or_default().trim().trim_matches(['\'', '"', '`']);
            let replaces = rest.contains(".mock") || line.text.contains("mock.method(");
            let ours = before.imports(owner);
            replaces && ours && !name.is_empty() && before.calls(&format!("{owner}.{name}"))
        })
    })
}

fn added<'a, 'b>(file: &'b File<'a>) -> impl Iterator<Item = &'b Line<'a>> {
    file.hunks.iter().flatten().filter(|line| {
        let text = line.text.trim_start();
        line.change == Change::Added && !text.starts_with('#') && !text.starts_with("//")
    })
}

/// The names on a line that could be those of properties: what it begins with, and what stands before a colon.
fn keys(line: &str) -> impl Iterator<Item = &str> {
    let text = line.trim_start().trim_start_matches("...").trim_start_matches("({").trim_start();
    let length = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    let first = text[length..].starts_with([':', ',', '(']).then(|| &text[..length]);
    let before = line.match_indices(':').filter_map(|(at, _)| {
        let begin = line[..at].rfind(|c: char| !is_word(c))?;
        line[begin..].starts_with(' ').then(|| &line[begin + 1..at])
    });
    first.into_iter().chain(before).filter(|name| !name.is_empty())
}

/// The lines that were there before, as what is looked for in them: each is read once, however much is asked.
struct Before<'a> {
    /// The words of the lines that import something.
    imports: HashSet<&'a str>,
    /// The names that are imported, by the path in quotes.
    paths: HashMap<&'a str, Vec<&'a str>>,
    /// The names of what is called in the others: each as it stands there, and without what is before its last dot but one.
    calls: HashSet<&'a str>,
    /// The first names of those with dots.
    owners: HashSet<&'a str>,
}

impl<'a> Before<'a> {
    fn of(file: &'a File<'_>, begin: &[&str]) -> Self {
        let lines = file.lines().filter(|line| line.change != Change::Added).map(|line| line.text.trim());
        let is_import = |line: &&str| {
            begin.iter().any(|word| line.starts_with(word))
                && (line.contains("import ") || line.contains("require("))
        };
        let (imports, rest): (Vec<&str>, Vec<&str>) = lines.partition(is_import);
        let (mut calls, mut owners) = (HashSet::new(), HashSet::new());
        for line in rest.iter().filter(|line| !line.starts_with("def ") && !line.starts_with("function ")) {
            for (at, _) in line.match_indices('(') {
                let word = |c: char| is_word(c) || c == '.';
                let begin = line[..at]
                    .rfind(|c: char| !word(c))
                    .map_or(0, |before| before + line[before..].chars().next().map_or(1, char::len_utf8));
                let call = &line[begin..at];
                calls.insert(call);
                let mut dots = call.rmatch_indices('.');
                let last_but_one = (dots.next(), dots.next()).1;
                calls.extend(last_but_one.map(|(dot, _)| &call[dot + 1..]));
                owners.extend(call.split_once('.').map(|(owner, _)| owner));
            }
        }
        let mut paths: HashMap<&str, Vec<&str>> = HashMap::new();
        let keyword =
            |word: &&str| !matches!(*word, "import" | "from" | "as" | "const" | "let" | "var" | "type");
        for line in &imports {
            let mut parts = line.splitn(3, ['\'', '"', '`']);
            if let (Some(names), Some(path)) = (parts.next(), parts.next()) {
                paths.entry(path).or_default().extend(words(names).filter(keyword));
            }
        }
        Self { imports: imports.iter().flat_map(|line| words(line)).collect(), paths, calls, owners }
    }

    fn calls(&self, name: &str) -> bool {
        self.calls.contains(name)
    }

    /// Whether something of this object is called.
    fn calls_of(&self, owner: &str) -> bool {
        self.owners.contains(owner)
    }

    fn imports(&self, name: &str) -> bool {
        self.imports.contains(name)
    }

    /// The names that are imported from a path.
    fn names_from(&self, path: &str) -> &[&'a str] {
        self.paths.get(path).map_or(&[], Vec::as_slice)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').filter(|word| !word.is_empty())
}

/// What a line of Python puts a stand-in in the place of: `shop.total = Mock(return_value=3)`.
fn assigned(line: &str) -> Option<String> {
    let (target, value) = line.split_once('=')?;
    let (target, value) = (target.trim(), value.trim());
    let plain = target.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    let made = value.split('(').next().unwrap_or_default().rsplit('.').next().unwrap_or_default();
    let stands_in =
        matches!(made, "Mock" | "MagicMock" | "AsyncMock" | "NonCallableMock" | "create_autospec")
            || value.starts_with("lambda") && target.contains('.');
    (plain && !target.is_empty() && stands_in).then(|| target.to_owned())
}

/// What a line of Python patches: `@patch("shop.total")`, `patch.object(shop, "total")`, `monkeypatch.setattr(shop, "total", f)`.
fn patched(line: &str) -> Option<String> {
    if let Some(path) = quoted_after(line, &["patch(", "monkeypatch.setattr("]) {
        return Some(path.to_owned());
    }
    let (_, rest) =
        ["patch.object(", "monkeypatch.setattr("].iter().find_map(|call| line.split_once(call))?;
    let mut parts = rest.split([',', ')']);
    let owner = parts.next()?.trim();
    let name = parts.next()?.trim().trim_matches(['\'', '"']);
    Some(format!("{owner}.{name}"))
}

/// The quoted text that is the first argument of one of these calls.
fn quoted_after<'a>(line: &'a str, calls: &[&str]) -> Option<&'a str> {
    let (_, rest) = calls.iter().find_map(|call| line.split_once(call))?;
    let rest = rest.trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    rest[1..].split(quote).next().filter(|text| !text.is_empty())
}
