//! Merging a fragment into the file that it is a part of. Small models answer with the function that they changed and not with
//! the whole file; where it is plain which functions or types are meant, the others stay as they are, and new ones come last.

use super::definition::{definition, is_comment, is_import};
use super::guard::{broken_off, loss};
use super::keys::Format;

/// The old text with the definitions of a fragment in place of its own; None where it is not plain what is meant.
pub(super) fn merged(old: &str, fragment: &str) -> Option<String> {
    // Half a function would take the place of the whole one.
    if broken_off(old, fragment).is_some() {
        return None;
    }
    let mut pieces = pieces(old);
    let parts = self::pieces(fragment);
    let imports: Vec<&str> = parts
        .iter()
        .filter(|piece| piece.name.is_none())
        .flat_map(|piece| piece.text.lines())
        .filter(|line| !line.trim().is_empty() && !is_comment(line))
        .collect();
    if !imports.iter().all(|line| is_import(line)) {
        return None;
    }
    if parts.iter().all(|part| part.name.is_none()) {
        return None;
    }
    for part in parts.iter().filter(|part| part.name.is_some()) {
        let places: Vec<usize> = (0..pieces.len()).filter(|index| pieces[*index].name == part.name).collect();
        // What is around several of them is closed in the last one, and that may be another here.
        let open = places.first().map_or(0, |place| left_open(&pieces[*place].text));
        if left_open(&part.text) != open {
            return None;
        }
        match places.as_slice() {
            [place] => pieces[*place].text = format!("{}\n", part.text.trim_end()),
            [] => pieces
                .push(Piece { name: part.name.clone(), text: format!("\n\n{}\n", part.text.trim_end()) }),
            _ => return None,
        }
    }
    let mut text: String = pieces.into_iter().map(|piece| piece.text).collect();
    for line in imports.into_iter().rev().filter(|line| !old.lines().any(|known| known == *line)) {
        let at =
            text.lines().take_while(|known| !is_import(known)).map(|known| known.len() + 1).sum::<usize>();
        let at = if at < text.len() { at } else { 0 };
        text.insert_str(at, &format!("{line}\n"));
    }
    loss(old, &text, Format::Code).is_none().then_some(text)
}

/// A text without the definitions of these names at its left margin.
pub(super) fn without(text: &str, names: &[String]) -> String {
    let goes = |piece: &Piece| piece.name.as_ref().is_some_and(|name| names.contains(name));
    pieces(text).into_iter().filter(|piece| !goes(piece)).map(|piece| piece.text).collect()
}

/// How many braces a text opens and does not close.
fn left_open(text: &str) -> isize {
    text.bytes().map(|byte| isize::from(byte == b'{') - isize::from(byte == b'}')).sum()
}

/// A definition at the left margin with what belongs to it, or what stands between two.
struct Piece {
    name: Option<String>,
    text: String,
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = vec![Piece { name: None, text: String::new() }];
    // What stands right before a definition and belongs to it.
    let mut before = String::new();
    let mut gap = String::new();
    for line in text.split_inclusive('\n') {
        let Some(last) = pieces.last_mut() else { return pieces };
        let margin = !line.starts_with(char::is_whitespace) && !line.trim().is_empty();
        if line.trim().is_empty() {
            // What stands apart from a definition is not its own: a licence, the line that names the shell.
            if !before.is_empty() {
                let text = std::mem::take(&mut gap) + &std::mem::take(&mut before);
                pieces.push(Piece { name: None, text });
            }
            gap.push_str(line);
        } else if !margin || line.starts_with(['}', ')', ']']) || line.trim() == "end" {
            // The inside of what was begun.
            last.text.push_str(&std::mem::take(&mut gap));
            last.text.push_str(&std::mem::take(&mut before));
            last.text.push_str(line);
        } else if let Some(name) = definition(line) {
            pieces.push(Piece { name: None, text: std::mem::take(&mut gap) });
            pieces.push(Piece { name: Some(name), text: format!("{}{line}", std::mem::take(&mut before)) });
        } else if line.starts_with('@') || is_comment(line) || line.starts_with("#[") {
            before.push_str(line);
        } else {
            let text = format!("{}{}{line}", std::mem::take(&mut gap), std::mem::take(&mut before));
            pieces.push(Piece { name: None, text });
        }
    }
    pieces.push(Piece { name: None, text: gap + &before });
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD: &str = "import os\n\n\n# Adds.\ndef add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n\n\nif __name__ == \"__main__\":\n    print(add(1, 2))\n";

    #[test]
    fn a_function_takes_the_place_of_its_old_self() {
        let text = merged(OLD, "def add(a, b):\n    return a + b\n").unwrap();
        assert_eq!(text, OLD.replace("# Adds.\n", "").replacen("a - b", "a + b", 1));
        let more =
            merged(OLD, "import sys\ndef add(a, b):\n    return a + b\n\ndef mul(a, b):\n    return a * b\n");
        let more = more.unwrap();
        assert!(
            more.starts_with("import sys\nimport os\n")
                && more.ends_with("def mul(a, b):\n    return a * b\n"),
            "{more}"
        );
        let new = "def mul(a, b):\n    return a * b\n";
        assert_eq!(merged(OLD, new).unwrap(), format!("{OLD}\n\n{new}"));
        let rust = "fn a() {\n    1\n}\n\n/// Two.\nfn b() {\n    2\n}\n";
        assert_eq!(merged(rust, "/// Two.\nfn b() {\n    3\n}").unwrap(), rust.replace("    2", "    3"));
    }

    #[test]
    fn what_has_no_word_for_it_is_merged_too() {
        let c = "#include <a.h>\nint f(int x) {\n    return x;\n}\n\nint g(int x) {\n    return x;\n}\n";
        let part = "#include <a.h>\n\nint f(int x) {\n    return 1;\n}\n";
        assert_eq!(
            merged(c, part).unwrap(),
            c.replacen("return x", "return 1", 1),
            "the file keeps what it includes"
        );
        let sh = "#!/bin/sh\n\na() {\n  echo 1\n}\n\nb() {\n  echo 2\n}\n\na\n";
        assert_eq!(merged(sh, "a() {\n  echo 3\n}\n").unwrap(), sh.replace("echo 1", "echo 3"));
        let js = "const a = (x) => {\n  return 1;\n};\n\nconst b = x => 2;\n";
        assert_eq!(merged(js, "const b = x => 3;\n").unwrap(), js.replace('2', "3"));
        let go = "func (a A) Name() string {\n\treturn \"a\"\n}\n";
        let more = merged(go, "func (b *B) Name() string {\n\treturn \"b\"\n}\n").unwrap();
        assert!(more.starts_with(go) && more.contains("(b *B)"), "it is another type's: {more}");
        let class = "class A {\n  one() {\n    return 1;\n  }\n  two() {\n    return 2;\n  }\n}\n";
        assert_eq!(merged(class, "class A {\n  one() {\n    return 3;\n  }\n}\n"), None, "it would lose two");
    }

    #[test]
    fn what_is_not_plain_is_not_merged() {
        let half = &OLD[..OLD.find("a - b\n\n\ndef sub").unwrap()];
        for fragment in
            [half, "return a + b\n", "import os\n", "x = 1\ndef add(a, b):\n    return a + b\n", ""]
        {
            assert_eq!(merged(OLD, fragment), None, "{fragment}");
        }
        let spaced =
            "namespace m {\n\nint a(int x) {\n  return 1;\n}\n\nint b(int x) {\n  return 2;\n}\n\n}\n";
        let part = "namespace m {\n\nint a(int x) {\n  return 3;\n}\n\n}\n";
        assert_eq!(merged(spaced, part), None, "a brace too many");
        let class = "class A:\n    def one(self):\n        pass\n\n    def two(self):\n        pass\n";
        assert_eq!(
            merged(class, "class A:\n    def one(self):\n        return 1\n"),
            None,
            "it would lose two"
        );
    }

    #[test]
    fn what_is_to_go_goes_with_what_belongs_to_it() {
        let rust = "fn a() {\n    1\n}\n\n/// Two.\nfn b() {\n    2\n}\n";
        assert_eq!(without(rust, &["b".into()]), "fn a() {\n    1\n}\n\n");
        assert_eq!(without(rust, &["c".into()]), rust);
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_whole_text(text in "(def a|fn b|  x|\\}|#|\n|y){0,20}") {
            let whole: String = pieces(&text).into_iter().map(|piece| piece.text).collect();
            prop_assert_eq!(whole, text);
        }
    }
}
