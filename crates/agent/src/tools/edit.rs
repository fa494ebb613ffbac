//! `edit`: replaces a piece of text in a file. Exact text first; where the model's copy differs only in white space or
//! punctuation the edit is made all the same, and where it is ambiguous or missing the answer helps to get it right.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};
use super::matching::{Replacement, find};
use super::nearest::nearest;

pub(super) const TOOL: Tool = Tool {
    name: "edit",
    about: "Replaces text in a file. `old` must be in the file exactly once, so give enough lines around the change; with `all` every match is replaced.",
    fields: &[
        Field {
            name: "path",
            kind: Kind::String,
            need: Need::Required,
            about: "The file, relative to /workspace or absolute.",
        },
        Field {
            name: "old",
            kind: Kind::String,
            need: Need::Required,
            about: "The text that is there, without line numbers.",
        },
        Field {
            name: "new",
            kind: Kind::String,
            need: Need::Required,
            about: "The text that takes its place; empty to delete.",
        },
        Field {
            name: "all",
            kind: Kind::Boolean,
            need: Need::Optional,
            about: "Replace every match; false unless given.",
        },
    ],
    aliases: &[
        ("file_path", "path"),
        ("file", "path"),
        ("filename", "path"),
        ("old_string", "old"),
        ("old_str", "old"),
        ("old_text", "old"),
        ("new_string", "new"),
        ("new_str", "new"),
        ("new_text", "new"),
        ("replace_all", "all"),
    ],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    Ok(Invocation::Edit { path: said("path", args.path)?, old: args.old, new: args.new, all: args.all })
}

/// Most places that an error names.
const PLACES: usize = 10;

/// Replaces `old` by `new` in a file's text: exactly one match unless `all`. The error helps: nearest match, white space, how many.
pub fn edit(content: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
    if old.is_empty() {
        return Err("`old` is empty. To make a file or to replace the whole of one, use write.".to_owned());
    }
    // Models write \n whatever the file has, so everything is compared and inserted with the file's own line ends.
    let old = old.replace("\r\n", "\n");
    let new = new.replace("\r\n", "\n");
    if old == new {
        return Err("`old` and `new` are the same, so there is nothing to change.".to_owned());
    }
    let line_end = line_end(content);
    let found = find(content, &old, &new, line_end);
    match found.len() {
        0 => Err(missing(content, &old, &new, line_end)),
        1 => changed(content, &found),
        _ if all => changed(content, &found),
        count => Err(ambiguous(content, &found, count)),
    }
}

pub(super) fn line_end(content: &str) -> &'static str {
    let both = content.matches("\r\n").count();
    if both > 0 && both * 2 >= content.matches('\n').count() { "\r\n" } else { "\n" }
}

fn changed(content: &str, found: &[Replacement]) -> Result<String, String> {
    let mut text = String::with_capacity(content.len());
    let mut done = 0;
    for replacement in found {
        // Matches can overlap; the first of two that do is the one replaced.
        if replacement.range.start < done {
            continue;
        }
        text.push_str(&content[done..replacement.range.start]);
        text.push_str(&replacement.text);
        done = replacement.range.end;
    }
    text.push_str(&content[done..]);
    if text == content {
        return Err("The file has the text of `new` there already; nothing was changed.".to_owned());
    }
    Ok(text)
}

fn ambiguous(content: &str, found: &[Replacement], count: usize) -> String {
    let line = |at: usize| content[..at].matches('\n').count() + 1;
    let mut places: Vec<String> =
        found.iter().take(PLACES).map(|replacement| line(replacement.range.start).to_string()).collect();
    if count > PLACES {
        places.push("…".to_owned());
    }
    format!(
        "`old` is in the file {count} times, at lines {}. Give more of the lines around the one you mean, or set `all` to replace every one.",
        places.join(", ")
    )
}

fn missing(content: &str, old: &str, new: &str, line_end: &str) -> String {
    let mut text = "`old` is not in the file, so nothing was changed.".to_owned();
    if copied_with_numbers(old) {
        text.push_str(
            " It begins each line with a line number from read; leave the numbers and the tab out.",
        );
    }
    if !new.trim().is_empty() && content.contains(&new.replace('\n', line_end)) {
        text.push_str(" The file already has the text of `new`; perhaps the edit was made before.");
    }
    match nearest(content, old) {
        Some(block) => text.push_str(&format!(" The nearest lines are:\n{block}")),
        None => text.push_str(" Nothing in it is similar; read the file and copy the text from there."),
    }
    text
}

fn copied_with_numbers(old: &str) -> bool {
    old.lines().all(|line| {
        line.split_once('\t').is_some_and(|(number, _)| {
            let number = number.trim();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse_any as parse;
    use super::*;
    use proptest::prelude::*;

    const CODE: &str = "fn main() {\n    let a = 1;\n    if a > 0 {\n        print(a);\n    }\n}\n\nfn other() {\n    let a = 1;\n}\n";

    #[test]
    fn names_of_other_harnesses_are_understood() {
        let call =
            parse("edit", r#"{"file_path": "a", "old_string": "b", "new_string": "", "replace_all": true}"#)
                .unwrap();
        let expected = Invocation::Edit { path: "a".into(), old: "b".into(), new: String::new(), all: true };
        assert_eq!(call, expected);
    }

    #[test]
    fn one_exact_match_is_replaced_even_within_a_line() {
        let edited = edit(CODE, "print(a)", "print(a + 1)", false).unwrap();
        assert_eq!(edited, CODE.replace("print(a)", "print(a + 1)"));
        assert_eq!(
            edit(CODE, "\n\nfn other() {\n    let a = 1;\n}", "", false).unwrap(),
            CODE.split_once("\nfn other").unwrap().0
        );
    }

    #[test]
    fn several_matches_are_refused_with_their_lines_or_all_replaced() {
        insta::assert_snapshot!(edit(CODE, "let a = 1;", "let a = 2;", false).unwrap_err(), @"`old` is in the file 2 times, at lines 2, 9. Give more of the lines around the one you mean, or set `all` to replace every one.");
        assert_eq!(edit(CODE, "let a = 1;", "let a = 2;", true).unwrap(), CODE.replace("a = 1", "a = 2"));
        let many = "x\n".repeat(12);
        insta::assert_snapshot!(edit(&many, "x", "y", false).unwrap_err(), @"`old` is in the file 12 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …. Give more of the lines around the one you mean, or set `all` to replace every one.");
        // Matches that overlap are as ambiguous as others.
        assert!(edit("}\n}\n}\n", "}\n}\n", "}\n", false).unwrap_err().contains("2 times"));
    }

    #[test]
    fn an_empty_old_and_an_unchanged_new_are_refused() {
        assert!(edit(CODE, "", "x", false).unwrap_err().contains("use write"));
        assert!(edit(CODE, "let", "let", false).unwrap_err().contains("the same"));
    }

    #[test]
    fn white_space_at_the_ends_of_lines_does_not_matter() {
        let content = "a = 1  \nb = 2\t\nc = 3\n";
        assert_eq!(edit(content, "a = 1\nb = 2", "a = 9", false).unwrap(), "a = 9\nc = 3\n");
        assert_eq!(edit("a\nb\n", "a  \nb ", "c", false).unwrap(), "c\n");
    }

    #[test]
    fn another_indentation_is_found_and_given_to_the_new_text() {
        let old = "if a > 0 {\n    print(a);\n}";
        let new = "if a > 1 {\n    for b in a {\n        print(b);\n    }\n\n}";
        let edited = edit(CODE, old, new, false).unwrap();
        insta::assert_snapshot!(edited, @"
        fn main() {
            let a = 1;
            if a > 1 {
                for b in a {
                    print(b);
                }

            }
        }

        fn other() {
            let a = 1;
        }
        ");
        let deep = "            if a > 0 {\n                print(a);\n            }";
        let edited = edit(CODE, deep, "            stop();", false).unwrap();
        assert!(edited.contains("\n    stop();\n}\n\nfn other"), "{edited}");
    }

    #[test]
    fn tabs_and_spaces_are_translated() {
        let tabs = "func f() {\n\tif a {\n\t\tb()\n\t}\n}\n";
        let edited = edit(
            tabs,
            "    if a {\n        b()\n    }",
            "    if a {\n        c()\n            d()\n    }",
            false,
        );
        assert_eq!(edited.unwrap(), "func f() {\n\tif a {\n\t\tc()\n\t\t\td()\n\t}\n}\n");
        let spaces = "f:\n  a:\n    b: 1\n";
        let edited = edit(spaces, "\ta:\n\t\tb: 1", "\ta:\n\t\tb: 2", false);
        assert_eq!(edited.unwrap(), "f:\n  a:\n    b: 2\n");
    }

    #[test]
    fn curly_quotes_dashes_and_hard_spaces_match_plain_ones() {
        let content = "She said \u{201c}no\u{201d}\u{00a0}\u{2014} twice.\n";
        assert_eq!(edit(content, "\"no\" - twice", "\"yes\"", false).unwrap(), "She said \"yes\".\n");
        // What is not changed stays as it is.
        let page = "<p>It\u{2019}s\u{00a0}here.</p>\r\n<p>One</p>\r\n<p>\u{201c}Two\u{201d}</p>\r\n";
        let old = "<p>It's here.</p>\n<p>One</p>\n<p>\"Two\"</p>";
        let edited = edit(page, old, &old.replace("One", "1\n2"), false).unwrap();
        assert_eq!(edited, page.replace("One", "1\r\n2"));
        // One of several is not chosen.
        let twice = "a\u{2013}b\nc\na\u{2014}b\n";
        assert!(edit(twice, "a-b", "x", false).unwrap_err().contains("2 times, at lines 1, 3"));
        assert_eq!(edit(twice, "a-b", "x", true).unwrap(), "x\nc\nx\n");
    }

    #[test]
    fn many_matches_take_no_more_time_than_the_file_is_long() {
        let many = "\u{2019}tis\n".repeat(200_000);
        let began = std::time::Instant::now();
        assert_eq!(edit(&many, "'tis", "it is", true).unwrap().lines().count(), 200_000);
        assert!(edit(&many, "'tis", "it is", false).unwrap_err().contains("200000 times"));
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn files_keep_their_line_ends() {
        let content = "one\r\ntwo\r\nthree\r\n";
        assert_eq!(edit(content, "one\ntwo", "1\n2\n2.5", false).unwrap(), "1\r\n2\r\n2.5\r\nthree\r\n");
        assert_eq!(edit(content, "two", "2\r\n2.5", false).unwrap(), "one\r\n2\r\n2.5\r\nthree\r\n");
        assert_eq!(edit("a\nb\n", "a\r\nb", "c\r\nd", false).unwrap(), "c\nd\n");
        // A file with both keeps each line as it was, apart from the ones replaced.
        assert_eq!(edit("a\nb\nc\r\nd\r\ne\r\n", "a\nb", "x", false).unwrap(), "x\nc\r\nd\r\ne\r\n");
    }

    #[test]
    fn a_miss_shows_the_nearest_lines() {
        insta::assert_snapshot!(edit(CODE, "    if a > 10 {\n        println(a);", "x", false).unwrap_err(), @"
        `old` is not in the file, so nothing was changed. The nearest lines are:
             1	fn main() {
             2	    let a = 1;
             3	    if a > 0 {
             4	        print(a);
             5	    }
             6	}
        ");
        insta::assert_snapshot!(edit(CODE, "SELECT * FROM users", "x", false).unwrap_err(), @"`old` is not in the file, so nothing was changed. Nothing in it is similar; read the file and copy the text from there.");
        insta::assert_snapshot!(edit(CODE, "     2\tlet b = 1;", "let a = 1;", false).unwrap_err(), @"
        `old` is not in the file, so nothing was changed. It begins each line with a line number from read; leave the numbers and the tab out. The file already has the text of `new`; perhaps the edit was made before. The nearest lines are:
             1	fn main() {
             2	    let a = 1;
             3	    if a > 0 {
             4	        print(a);
        ");
    }

    proptest! {
        #[test]
        fn what_is_found_is_replaced_and_nothing_else(before in "[ab \n]{0,20}", old in "[cd\n]{1,8}", after in "[ab \n]{0,20}") {
            prop_assume!(old.contains(['c', 'd']));
            let content = format!("{before}{old}{after}");
            if let Ok(edited) = edit(&content, &old, "NEW", false) {
                prop_assert_eq!(edited, format!("{before}NEW{after}"));
            }
        }

        #[test]
        fn no_text_makes_it_panic(content in "[a\té\"\u{201c} \r\n]{0,30}", old in "[a\té\" \r\n]{0,8}", new in "[a\té \r\n]{0,8}", all: bool) {
            drop(edit(&content, &old, &new, all));
        }
    }
}
