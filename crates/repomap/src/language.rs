//! The languages that are read, known by the endings of names, and which of their nodes define something.

use tree_sitter::Language;

/// Words in paths of files that nobody of the repository wrote.
const FOREIGN: [&str; 8] =
    ["vendor/", "node_modules/", "third_party/", "third-party/", "dist/", ".min.", "_pb2.", ".pb."];

/// How a language is read.
pub(crate) struct Reading {
    pub(crate) language: Language,
    /// Nodes that define the name which they have as a field.
    pub(crate) named: &'static [&'static str],
    /// Nodes that define a name somewhere in their declarator, as in C.
    pub(crate) declared: &'static [&'static str],
    /// Nodes that do so only where they have a body; without one they are uses.
    pub(crate) bodied: &'static [&'static str],
}

const C_DECLARED: &[&str] = &["function_definition", "type_definition"];
const C_BODIED: &[&str] = &["struct_specifier", "union_specifier", "enum_specifier"];
const CPP_BODIED: &[&str] = &["struct_specifier", "union_specifier", "enum_specifier", "class_specifier"];
const SCRIPT: &[&str] = &[
    "function_declaration",
    "generator_function_declaration",
    "class_declaration",
    "abstract_class_declaration",
    "method_definition",
    "interface_declaration",
    "type_alias_declaration",
    "enum_declaration",
    "function_signature",
];

/// Whether the file is read at all.
pub fn reads(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    !FOREIGN.iter().any(|word| lower.contains(word))
        && ending(path).is_some_and(|ending| kind(ending).is_some())
}

/// The languages, each file's by its ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    C,
    Cpp,
    Go,
    Java,
    JavaScript,
    Python,
    Ruby,
    Rust,
    Tsx,
    TypeScript,
}

fn ending(path: &str) -> Option<&str> {
    path.rsplit('/').next()?.rsplit_once('.').map(|(_, ending)| ending)
}

fn kind(ending: &str) -> Option<Kind> {
    Some(match ending {
        "c" => Kind::C,
        // A header may be either's, and the larger grammar reads both.
        "h" | "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" => Kind::Cpp,
        "go" => Kind::Go,
        "java" => Kind::Java,
        "js" | "mjs" | "cjs" | "jsx" => Kind::JavaScript,
        "py" | "pyi" => Kind::Python,
        "rb" | "rake" => Kind::Ruby,
        "rs" => Kind::Rust,
        "tsx" => Kind::Tsx,
        "ts" | "mts" | "cts" => Kind::TypeScript,
        _ => return None,
    })
}

/// How the file is read.
pub(crate) fn reading(path: &str) -> Option<Reading> {
    let plain = |language: Language, named| Reading { language, named, declared: &[], bodied: &[] };
    Some(match kind(ending(path)?)? {
        Kind::C => Reading {
            language: tree_sitter_c::LANGUAGE.into(),
            named: &["preproc_function_def"],
            declared: C_DECLARED,
            bodied: C_BODIED,
        },
        Kind::Cpp => Reading {
            language: tree_sitter_cpp::LANGUAGE.into(),
            named: &["preproc_function_def", "alias_declaration", "concept_definition"],
            declared: C_DECLARED,
            bodied: CPP_BODIED,
        },
        Kind::Go => plain(
            tree_sitter_go::LANGUAGE.into(),
            &["function_declaration", "method_declaration", "type_spec", "type_alias"],
        ),
        Kind::Java => plain(
            tree_sitter_java::LANGUAGE.into(),
            &[
                "class_declaration",
                "interface_declaration",
                "enum_declaration",
                "record_declaration",
                "annotation_type_declaration",
                "method_declaration",
                "constructor_declaration",
            ],
        ),
        Kind::JavaScript => plain(tree_sitter_javascript::LANGUAGE.into(), SCRIPT),
        Kind::Python => {
            plain(tree_sitter_python::LANGUAGE.into(), &["class_definition", "function_definition"])
        }
        Kind::Ruby => {
            plain(tree_sitter_ruby::LANGUAGE.into(), &["method", "singleton_method", "class", "module"])
        }
        Kind::Rust => Reading {
            language: tree_sitter_rust::LANGUAGE.into(),
            named: &[
                "function_item",
                "function_signature_item",
                "struct_item",
                "enum_item",
                "union_item",
                "type_item",
                "trait_item",
                "macro_definition",
                "const_item",
                "static_item",
            ],
            declared: &[],
            bodied: &["mod_item"],
        },
        Kind::Tsx => plain(tree_sitter_typescript::LANGUAGE_TSX.into(), SCRIPT),
        Kind::TypeScript => plain(tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(), SCRIPT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_endings() {
        for path in ["a.rs", "src/b.py", "x/y.tsx", "include/z.h", "A.java", "lib.d.ts"] {
            assert!(reads(path), "{path}");
        }
        for path in
            ["README.md", "a", "Makefile", "web/node_modules/x/a.js", "app.min.js", "api_pb2.py", ".rs/x"]
        {
            assert!(!reads(path), "{path}");
        }
    }

    #[test]
    fn every_grammar_can_be_used_and_has_the_nodes_that_are_named() {
        for path in ["a.c", "a.h", "a.go", "a.java", "a.js", "a.py", "a.rb", "a.rs", "a.ts", "a.tsx"] {
            let Reading { language, named, declared, bodied } = reading(path).unwrap();
            tree_sitter::Parser::new().set_language(&language).unwrap();
            for node in named.iter().chain(declared).chain(bodied) {
                // TypeScript's grammar has more kinds than JavaScript's, which they share a list with.
                let only_typed = ["abstract", "interface", "type_alias", "enum_decl", "function_signature"];
                let shared = path.ends_with(".js") && only_typed.iter().any(|word| node.starts_with(word));
                assert!(shared || language.id_for_node_kind(node, true) != 0, "{path}: {node}");
            }
        }
    }
}
