//! What one file defines and names.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tree_sitter::{Node, ParseOptions, Parser};

use crate::language::{Reading, reading};

/// A file that takes longer is left out.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most definitions of one file, and most names that it uses. What has more is generated.
const DEFINITIONS: usize = 2_000;
const NAMES: usize = 2_000;
/// Longest name, and longest line that is shown.
const NAME: usize = 80;
const LINE: usize = 120;

/// Something that a file defines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// The line it is on, from 1.
    pub line: u32,
    /// That line, without what is before and after it.
    pub text: String,
}

/// What one file defines and names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSymbols {
    /// The file's place in the repository.
    pub path: String,
    /// The object that has its text.
    pub object: String,
    /// In the order of the file.
    pub definitions: Vec<Definition>,
    /// How often each name is used.
    pub names: BTreeMap<String, u32>,
}

impl FileSymbols {
    /// Reads a file. Nothing is known of one that is not text, takes too long, or is of no language that is read.
    pub(crate) fn of(path: &str, object: &str, text: &[u8]) -> Self {
        let mut symbols = Self { path: path.to_owned(), object: object.to_owned(), ..Self::default() };
        if !text.contains(&0)
            && let Ok(text) = std::str::from_utf8(text)
            && let Some(reading) = reading(path)
        {
            symbols.read(&reading, text);
        }
        symbols
    }

    fn read(&mut self, reading: &Reading, text: &str) {
        let mut parser = Parser::new();
        if parser.set_language(&reading.language).is_err() {
            return;
        }
        let until = Instant::now() + PATIENCE;
        let mut in_time =
            |_: &_| if Instant::now() < until { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        let options = ParseOptions::new().progress_callback(&mut in_time);
        let bytes = text.as_bytes();
        let parsed =
            parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options));
        let Some(tree) = parsed else { return };
        let mut cursor = tree.walk();
        loop {
            self.look_at(reading, cursor.node(), text);
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return self.finish();
                }
            }
        }
    }

    /// What a thing is called is no use of it.
    fn finish(&mut self) {
        self.definitions.sort_by_key(|definition| definition.line);
        for definition in &self.definitions {
            if let Some(used) = self.names.get_mut(&definition.name) {
                *used = used.saturating_sub(1);
            }
        }
        self.names.retain(|_, used| *used > 0);
    }

    fn look_at(&mut self, reading: &Reading, node: Node<'_>, text: &str) {
        if !node.is_named() {
            return;
        }
        if node.child_count() == 0 {
            let kind = node.kind();
            let names = kind.ends_with("identifier") || kind == "constant";
            if let Some(name) = named(node, text).filter(|_| names)
                && (self.names.len() < NAMES || self.names.contains_key(name))
            {
                *self.names.entry(name.to_owned()).or_default() += 1;
            }
            return;
        }
        let Some(name) = defines(reading, node).and_then(|name| named(name, text)) else { return };
        if self.definitions.len() >= DEFINITIONS {
            return;
        }
        let row = node.start_position().row;
        let line = text[..node.start_byte()].rfind('\n').map_or(0, |end| end + 1);
        let line = text[line..].lines().next().unwrap_or_default().trim().trim_end_matches('{').trim_end();
        let shown: String = line.chars().filter(|letter| !letter.is_control()).take(LINE).collect();
        let line = u32::try_from(row + 1).unwrap_or(u32::MAX);
        self.definitions.push(Definition { name: name.to_owned(), line, text: shown });
    }
}

/// A name as the text has it, if it is one that is worth knowing.
fn named<'text>(node: Node<'_>, text: &'text str) -> Option<&'text str> {
    let name = text.get(node.byte_range())?;
    (name.len() <= NAME && !name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// The node with the name of what this one defines.
fn defines<'tree>(reading: &Reading, node: Node<'tree>) -> Option<Node<'tree>> {
    let kind = node.kind();
    if reading.named.contains(&kind) {
        return node.child_by_field_name("name");
    }
    if reading.bodied.contains(&kind) {
        return node.child_by_field_name("body").and_then(|_| node.child_by_field_name("name"));
    }
    if reading.declared.contains(&kind) {
        return declared(node.child_by_field_name("declarator")?);
    }
    // A function that is a value: `const name = () => …`.
    if kind == "variable_declarator" {
        let value = node.child_by_field_name("value")?.kind();
        let function = ["arrow_function", "function_expression", "function"].contains(&value);
        return function.then(|| node.child_by_field_name("name")).flatten();
    }
    None
}

/// The name inside of a declarator of C: pointers, parameters and scopes are around it.
fn declared(mut node: Node<'_>) -> Option<Node<'_>> {
    // More nesting than this nobody wrote.
    for _ in 0..16 {
        if node.child_count() == 0 || node.kind() == "operator_name" || node.kind() == "destructor_name" {
            return Some(node);
        }
        node = node
            .child_by_field_name("declarator")
            .or_else(|| node.child_by_field_name("name"))
            .or_else(|| node.named_child(0))?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn defined(path: &str, text: &str) -> Vec<String> {
        let symbols = FileSymbols::of(path, "", text.as_bytes());
        symbols.definitions.into_iter().map(|found| format!("{} {}", found.line, found.name)).collect()
    }

    #[test]
    fn each_language_defines_in_its_own_way() {
        let rust = "pub struct A;\nimpl A {\n    pub fn go(&self) {}\n}\nmod b;\nmod c {\n}\nconst D: u8 = 1;\nmacro_rules! e { () => {} }\n";
        assert_eq!(defined("a.rs", rust), ["1 A", "3 go", "6 c", "8 D", "9 e"]);
        let python = "class A:\n    def b(self):\n        pass\n\nasync def c():\n    pass\n";
        assert_eq!(defined("a.py", python), ["1 A", "2 b", "5 c"]);
        let ts = "export interface A { x: B }\nexport class C<T> {\n  d(): void {}\n}\nconst e = (x: number) => x;\ntype F = A;\nenum G { H }\nexport default function i() {}\nconst j = 3;\n";
        assert_eq!(defined("a.ts", ts), ["1 A", "2 C", "3 d", "5 e", "6 F", "7 G", "8 i"]);
        assert_eq!(defined("a.tsx", "export const App = () => <p>hi</p>;\n"), ["1 App"]);
        assert_eq!(
            defined("a.js", "function a() {}\nclass B { c() {} }\nvar d = function () {};\n"),
            ["1 a", "2 B", "2 c", "3 d"]
        );
        let go =
            "package x\ntype A struct{}\nfunc (a *A) B() {}\nfunc C[T any](t T) {}\ntype (\n\tD int\n)\n";
        assert_eq!(defined("a.go", go), ["2 A", "3 B", "4 C", "6 D"]);
        let java =
            "class A {\n  A() {}\n  void b() {}\n  interface C {}\n  enum D { E }\n  record F(int g) {}\n}\n";
        assert_eq!(defined("A.java", java), ["1 A", "2 A", "3 b", "4 C", "5 D", "6 F"]);
        let c = "#define MAX(a) a\nstruct s { int x; };\nstruct s *f(struct s *p) { return p; }\ntypedef struct s t;\nint g(void);\nenum e { ONE };\n";
        assert_eq!(defined("a.c", c), ["1 MAX", "2 s", "3 f", "4 t", "6 e"]);
        let cpp = "class A { public: void b(); ~A(); };\nvoid A::b() {}\nnamespace n { template <class T> T c(T x) { return x; } }\nusing D = A;\n";
        assert_eq!(defined("a.cpp", cpp), ["1 A", "2 b", "3 c", "4 D"]);
        let ruby = "module A\n  class B\n    def c; end\n    def self.d; end\n  end\nend\n";
        assert_eq!(defined("a.rb", ruby), ["1 A", "2 B", "3 c", "4 d"]);
    }

    #[test]
    fn names_are_counted_where_they_are_used() {
        let symbols = FileSymbols::of("a.rs", "1", b"fn a(x: Cart) { b(); b(); x.total(); }\nfn b() {}\n");
        let used = |name: &str| symbols.names.get(name).copied();
        assert_eq!((used("Cart"), used("b"), used("total"), used("a")), (Some(1), Some(2), Some(1), None));
        assert_eq!(symbols.definitions[0].text, "fn a(x: Cart) { b(); b(); x.total(); }");
    }

    #[test]
    fn what_is_no_text_defines_nothing() {
        for bytes in [&b"fn a\0() {}"[..], b"\xff\xfe fn a() {}"] {
            assert_eq!(FileSymbols::of("a.rs", "", bytes).definitions, []);
        }
        assert_eq!(defined("a.txt", "fn a() {}"), [""; 0]);
        let long = format!("fn {}() {{}}\n", "x".repeat(500));
        assert_eq!(defined("a.rs", &long), [""; 0]);
    }

    #[test]
    fn depth_is_no_danger() {
        for (path, open) in [("a.rs", "("), ("a.js", "["), ("a.c", "{"), ("a.py", "(")] {
            FileSymbols::of(path, "", open.repeat(100_000).as_bytes());
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "([a-c{}()=:;<>.#é*\"\n ]|fn |class |def |struct |=> |const ){0,80}", path in "a\\.(rs|py|ts|c|h|go|rb|java|js)") {
            let symbols = FileSymbols::of(&path, "", text.as_bytes());
            prop_assert!(symbols.definitions.len() <= 80);
        }
    }
}
