//! What files hold that are no code: the keys of JSON and YAML, the tables of TOML and INI, the targets of a Makefile. What is
//! lost of them is told by name like functions; prose has no names, and is judged by its lines.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::definition::{self, Definition, is_import};
use super::head::{rules, with_heads};

/// Fewer lines than these make nothing of a key inside of another that would be missed.
const SMALL: usize = 3;

/// How a file is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// A language, known or not.
    Code,
    Json,
    Yaml,
    /// Also INI, properties and lists of variables: tables, and keys before the first of them.
    Toml,
    Make,
    /// Rules of a style sheet.
    Style,
    /// Stages and what is said once of an OCI image.
    Docker,
    /// Words, lists, tables of values, marked text.
    Plain,
}

impl Format {
    /// What a file of this name is.
    pub(super) fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        match ending {
            "json" | "jsonc" | "json5" | "webmanifest" | "geojson" => Self::Json,
            "yml" | "yaml" => Self::Yaml,
            "toml" | "ini" | "cfg" | "properties" | "env" | "editorconfig" => Self::Toml,
            "mk" | "mak" => Self::Make,
            "css" | "scss" | "less" => Self::Style,
            "dockerfile" | "containerfile" => Self::Docker,
            "md" | "mdx" | "markdown" | "rst" | "adoc" | "txt" | "csv" | "tsv" | "html" | "htm" | "xml"
            | "svg" => Self::Plain,
            _ if ["makefile", "gnumakefile", "justfile"].contains(&name.as_str()) => Self::Make,
            _ if ["dockerfile", "containerfile"].iter().any(|begin| name.starts_with(begin)) => Self::Docker,
            _ if name.starts_with(".env") => Self::Toml,
            _ => Self::Code,
        }
    }

    /// Two texts in a form in which they can be compared line by line. Values in JSON count, and not how they are written.
    pub(super) fn comparable<'a>(self, old: &'a str, new: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
        let pretty = |text: &str| {
            let value: Value = serde_json::from_str(text).ok()?;
            let empty = value == Value::Null || value == Value::Object(Map::new());
            if empty { Some(String::new()) } else { serde_json::to_string_pretty(&value).ok() }
        };
        if self == Self::Json
            && let (Some(old), Some(new)) = (pretty(old), pretty(new))
        {
            let plain = |text: String| text.replace(",\n", "\n");
            return (Cow::Owned(plain(old)), Cow::Owned(plain(new)));
        }
        (Cow::Borrowed(old), Cow::Borrowed(new))
    }

    /// Whether a line, without the white space around it, counts when a text is judged by what it says.
    pub(super) fn tells(self, line: &str) -> bool {
        let starts = |marks: &[&str]| marks.iter().any(|mark| line.starts_with(mark));
        let beside = match self {
            Self::Code => definition::is_comment(line) || is_import(line) || line == "end",
            Self::Json => starts(&["//", "/*"]),
            Self::Style => starts(&["//", "/*", "*/", "* "]),
            Self::Yaml | Self::Docker => starts(&["#"]),
            Self::Toml => starts(&["#", ";"]),
            Self::Make => starts(&["#", ".PHONY"]),
            Self::Plain => false,
        };
        !beside && line.chars().any(char::is_alphanumeric)
    }

    /// What a text has that goes by a name.
    pub(super) fn definitions(self, text: &str) -> Vec<Definition> {
        let lines: Vec<&str> = text.lines().collect();
        match self {
            Self::Code => with_heads(text),
            Self::Json => keys(&lines, self, quoted_key),
            Self::Yaml => {
                let mut found = keys(&lines, self, yaml_key);
                found.extend(items(&lines));
                found.sort_by_key(|known| known.line);
                found
            }
            Self::Toml => tables(&lines),
            Self::Make => targets(&lines),
            Self::Style => rules(text),
            Self::Docker => stages(&lines),
            Self::Plain => Vec::new(),
        }
    }

    /// The keys of one line, wherever they stand, with those that they are in. One of them is seldom missed.
    pub(super) fn settings(self, text: &str) -> Vec<Definition> {
        let key = match self {
            Self::Json => quoted_key,
            Self::Yaml => yaml_key,
            Self::Toml => toml_key,
            Self::Code | Self::Make | Self::Style | Self::Docker | Self::Plain => return Vec::new(),
        };
        let mut around: Vec<(usize, &str)> = Vec::new();
        let mut found = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let said = line.trim();
            if self == Self::Toml && line.starts_with('[') {
                around = vec![(0, said.trim_matches(['[', ']']))];
            }
            let Some(name) = key(said).filter(|_| self.tells(said)) else { continue };
            let margin = indent(line) + usize::from(self == Self::Toml);
            around.retain(|(outer, _)| *outer < margin);
            let name_in: Vec<&str> = around.iter().map(|(_, name)| *name).chain([name]).collect();
            if around.is_empty() || said.ends_with([':', '{', '[']) {
                around.push((margin, name));
                continue;
            }
            let name = name_in.join(".");
            found.push(Definition { name, function: false, line: index, body: index + 1..index + 1 });
        }
        found
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The keys of the outermost level, and those of the next that hold several lines: jobs, services, paths.
fn keys(lines: &[&str], format: Format, key: fn(&str) -> Option<&str>) -> Vec<Definition> {
    let mut found: Vec<Definition> = Vec::new();
    // The margins of the two levels: the first key has the outer one, and the first below it the inner one.
    let mut outer: Option<usize> = None;
    let mut inner: Option<usize> = None;
    let mut holder = "";
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = key(line.trim()).filter(|_| format.tells(line.trim())) else { continue };
        let margin = indent(line);
        let is_outer = margin <= *outer.get_or_insert(margin);
        if is_outer {
            (outer, inner, holder) = (Some(margin), None, name);
        }
        let is_inner = !is_outer && margin == *inner.get_or_insert(margin);
        if !is_outer && !is_inner {
            continue;
        }
        let inside = lines[index + 1..].iter().take_while(|next| {
            let listed =
                format == Format::Yaml && indent(next) == margin && next.trim_start().starts_with("- ");
            next.trim().is_empty() || indent(next) > margin || listed
        });
        let body = index + 1..index + 1 + inside.count();
        let several = lines[body.clone()].iter().filter(|line| format.tells(line.trim())).count() >= SMALL;
        let name = if is_inner { format!("{holder}.{name}") } else { name.to_owned() };
        if is_outer || several {
            found.push(Definition { name, function: false, line: index, body });
        }
    }
    found
}

/// `"name": …`.
fn quoted_key(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix('"')?.split_once('"')?;
    (rest.trim_start().starts_with(':') && !name.is_empty()).then_some(name)
}

/// `name: …`, where the colon ends a word.
fn yaml_key(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(':')?;
    let name = name.trim().trim_matches(['"', '\'']);
    let plain = !name.is_empty() && !name.starts_with(['-', '{', '[', '&', '*', '|', '>', '%']);
    (plain && (rest.is_empty() || rest.starts_with(char::is_whitespace))).then_some(name)
}

/// `name = …`.
fn toml_key(line: &str) -> Option<&str> {
    let name = line.split_once('=')?.0.trim();
    let plain = name.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
    (plain && !name.is_empty()).then_some(name)
}

/// `- name: …` in a list: steps, tasks, containers.
fn items(lines: &[&str]) -> Vec<Definition> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(item) = line.trim_start().strip_prefix("- ") else { continue };
        let Some((key, value)) = item.split_once(": ") else { continue };
        let name = value.trim().trim_matches(['"', '\'']);
        if !["name", "id", "alias", "job_name"].contains(&key.trim()) || name.is_empty() {
            continue;
        }
        let inside = |next: &&&str| next.trim().is_empty() || indent(next) > indent(line);
        let more = lines[index + 1..].iter().take_while(inside).count();
        let body = index + 1..index + 1 + more;
        found.push(Definition { name: name.to_owned(), function: false, line: index, body });
    }
    found
}

/// `FROM image AS name`, with what comes before the next one; and what an image is run with.
fn stages(lines: &[&str]) -> Vec<Definition> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first().map(|word| word.to_ascii_uppercase()) else { continue };
        let stage = |line: &str| line.trim_start().to_ascii_uppercase().starts_with("FROM ");
        let (name, more) = match (first.as_str(), words.as_slice()) {
            ("FROM", [.., name]) => {
                let more = lines[index + 1..].iter().take_while(|line| !stage(line)).count();
                ((*name).to_owned(), more)
            }
            ("ENTRYPOINT" | "CMD" | "HEALTHCHECK" | "USER", _) => (first, 0),
            ("EXPOSE" | "VOLUME", [_, name, ..]) => (format!("{first} {name}"), 0),
            ("ENV" | "ARG", [_, name, ..]) => {
                (format!("{first} {}", name.split('=').next().unwrap_or(name)), 0)
            }
            _ => continue,
        };
        found.push(Definition { name, function: false, line: index, body: index + 1..index + 1 + more });
    }
    found
}

/// `[name]`, with what comes before the next one; and the keys before the first.
fn tables(lines: &[&str]) -> Vec<Definition> {
    let header = |line: &str| {
        line.trim().starts_with('[')
            && line.trim().split('#').next().is_some_and(|head| head.trim_end().ends_with(']'))
    };
    let mut found: Vec<Definition> = Vec::new();
    let mut begun = false;
    for (index, line) in lines.iter().enumerate() {
        let until = |end: fn(&str) -> bool| {
            let more = lines[index + 1..].iter().take_while(|line| !end(line)).count();
            index + 1..index + 1 + more
        };
        if header(line) && indent(line) == 0 {
            begun = true;
            let name = line.trim().split('#').next().unwrap_or_default().trim().trim_matches(['[', ']', ' ']);
            let is_header: fn(&str) -> bool = |line| line.starts_with('[');
            found.push(Definition {
                name: name.to_owned(),
                function: false,
                line: index,
                body: until(is_header),
            });
        } else if !begun
            && indent(line) == 0
            && let Some((name, _)) = line.split_once(['=', ':'])
            && Format::Toml.tells(line)
        {
            let name = name.trim().trim_start_matches("export ").trim_matches(['"', '\'']);
            let over: fn(&str) -> bool = |line| !line.starts_with(char::is_whitespace);
            found.push(Definition { name: name.to_owned(), function: false, line: index, body: until(over) });
        }
    }
    found.retain(|known| !known.name.is_empty());
    found
}

/// `name: …` at the margin, with the commands below it.
fn targets(lines: &[&str]) -> Vec<Definition> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if line.starts_with(char::is_whitespace) || !Format::Make.tells(line) {
            continue;
        }
        let Some((names, rest)) = line.split_once(':') else { continue };
        if names.contains(['=', '"']) || rest.trim_start_matches(':').starts_with('=') {
            continue;
        }
        let commands = lines[index + 1..]
            .iter()
            .take_while(|line| line.starts_with(char::is_whitespace) && !line.trim().is_empty());
        let body = index + 1..index + 1 + commands.count();
        let names = names.split_whitespace().filter(|name| !name.starts_with('.'));
        found.extend(names.map(|name| Definition {
            name: name.to_owned(),
            function: true,
            line: index,
            body: body.clone(),
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(path: &str, text: &str) -> Vec<String> {
        let format = Format::of(path);
        let (text, _) = format.comparable(text, text);
        format.definitions(&text).into_iter().map(|known| known.name).collect()
    }

    #[test]
    fn names_are_those_that_people_would_miss() {
        let json =
            r#"{"name": "x", "on": {"a": {"p": 1, "q": 2, "r": 3}, "b": {"p": 1}}, "list": [{"z": 1}]}"#;
        assert_eq!(names("a/package.json", json), ["list", "name", "on", "on.a"]);
        assert_eq!(
            names("tsconfig.json", "{\n  // Why.\n  \"a\": 1,\n  \"b\": {\n    \"c\": 2,\n  },\n}\n"),
            ["a", "b"]
        );
        let yaml = "# ci\nname: ci\non: [push]\njobs:\n  one:\n    runs-on: x\n    steps:\n      - run: a: b\n  two: {}\nlist:\n- a: 1\n  b: 2\n\"end\": 1\n";
        assert_eq!(names("ci.yml", yaml), ["name", "on", "jobs", "jobs.one", "list", "end"]);
        let toml = "title = \"x\"\nlist = [\n  \"a\",\n]\n[package]\nname = \"x\"\n[[bin]] # one\nname = \"y\"\n[a.b]\n";
        assert_eq!(names("Cargo.toml", toml), ["title", "list", "package", "bin", "a.b"]);
        assert_eq!(names("setup.cfg", "[a]\nx = 1\n; no\n[b]\n"), ["a", "b"]);
        assert_eq!(names(".env.local", "A=1\nexport B=2\n#C=3\n"), ["A", "B"]);
        let make = "CC := gcc\nX ?= a:b\n.PHONY: all clean\nall: a b\n\techo all\n\na b: %.c\n\techo a:b\nclean::\n\trm x\nifeq ($(A),b)\nendif\n";
        assert_eq!(names("Makefile", make), ["all", "a", "b", "clean"]);
        assert_eq!(names("notes.md", "class of things\n"), [""; 0]);
        assert_eq!(names("a.py", "def a():\n    b: 1\n"), ["a"]);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "([a-c{}\\[\\]=:.#é\"\n\t -]|\": |\\[a\\]\n){0,60}") {
            for path in ["a.json", "a.yml", "a.toml", "Makefile", "a.md"] {
                let lines = text.lines().count();
                for found in Format::of(path).definitions(&text) {
                    prop_assert!(found.line < lines && found.body.end <= lines && !found.name.is_empty());
                }
            }
        }
    }
}
