//! Patterns of paths: what braces in them stand for, and which of them could never fit a file.

/// Most patterns that the braces of one may stand for.
const MOST: usize = 64;

/// The patterns that one with braces stands for: `*.{pem,key}` are two. As in a shell, braces without a comma are letters, and so
/// is what stands after a backslash. One that stands for too many is given back as it is.
pub fn alternatives(pattern: &str) -> Vec<String> {
    expanded(pattern).unwrap_or_else(|| vec![pattern.to_owned()])
}

/// None where there are too many.
fn expanded(pattern: &str) -> Option<Vec<String>> {
    let mut open = vec![pattern.to_owned()];
    let mut found = Vec::new();
    while let Some(next) = open.pop() {
        match outermost(&next).as_slice() {
            marks @ [from, .., to] => {
                let (before, after) = (&next[..*from], &next[to + 1..]);
                let choices = marks.windows(2).rev().map(|marks| &next[marks[0] + 1..marks[1]]);
                open.extend(choices.map(|choice| format!("{before}{choice}{after}")));
            }
            _ => found.push(next),
        }
        if open.len() + found.len() > MOST {
            return None;
        }
    }
    Some(found)
}

/// Where the first braces that have several choices open, are divided and close; nothing where there are none.
fn outermost(pattern: &str) -> Vec<usize> {
    let mut open: Vec<Vec<usize>> = Vec::new();
    let mut first: Vec<usize> = Vec::new();
    let mut letters = pattern.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '{' => open.push(vec![at]),
            ',' => open.last_mut().into_iter().for_each(|marks| marks.push(at)),
            '}' => {
                let closed = open.pop().filter(|marks| marks.len() > 1);
                // What is closed later is around what was closed before, or comes after it.
                if let Some(marks) = closed.filter(|marks| first.is_empty() || marks[0] < first[0]) {
                    first = marks;
                    first.push(at);
                }
            }
            _ => {}
        }
    }
    first
}

/// Whether a pattern can fit a file; the error says what to write instead. Paths are compared as they are without `.`, `..` and
/// double slashes, so a rule with one of them would do nothing, and nobody would notice.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    let Some(alternatives) = expanded(pattern.trim()) else {
        return Err(format!("has a path with braces for more than {MOST} patterns: write several rules"));
    };
    alternatives.iter().try_for_each(|one| match impossible(one.trim()) {
        Some((what, instead)) => Err(format!("has a path {what}, which fits no file: {instead}")),
        None => Ok(()),
    })
}

/// Why a pattern without braces fits no file, and what to write instead.
fn impossible(pattern: &str) -> Option<(String, &'static str)> {
    let said = |what: &str, instead| Some((what.to_owned(), instead));
    match pattern.chars().next() {
        None => return said("with braces that can stand for nothing", "leave the empty choice out"),
        Some('!') => {
            let instead = "put a rule that allows before this one; a name that begins so is written \\!";
            return said("that begins with !", instead);
        }
        Some('~') => {
            let instead = "write the whole path, such as /root/.ssh/**; a name that begins so is written \\~";
            return said("that begins with ~", instead);
        }
        Some(_) => {}
    }
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let escaped = if letter == '\\' { letters.next() } else { None };
        if let Some(plain) = escaped.filter(|next| next.is_alphanumeric() || "._-".contains(*next)) {
            let instead = "write / between directories; a \\ only stands before * ? { } , ! ~ and \\";
            return Some((format!("with \\ before {plain}"), instead));
        }
    }
    if pattern.contains("//") {
        return said("with //", "write one slash");
    }
    let below = pattern.trim_start_matches("./");
    match below.split('/').find(|name| matches!(*name, "." | "..")) {
        Some("..") => said("with ..", "write where it leads, from the workspace or from /"),
        Some(_) if below == "." => said("that is .", "write ** for the whole workspace"),
        Some(_) => said("with a . between slashes", "leave it out"),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_several_patterns() {
        for (pattern, all) in [
            ("*.{pem,key}", &["*.pem", "*.key"][..]),
            ("!{a,b}.{c,d}", &["!a.c", "!a.d", "!b.c", "!b.d"]),
            (".env{,.local}", &[".env", ".env.local"]),
            ("{a,b{c,d}}/x", &["a/x", "bc/x", "bd/x"]),
            ("{{a,b},c}", &["a", "b", "c"]),
            ("{{name}}/{a,b}", &["{{name}}/a", "{{name}}/b"]),
            ("{x{a,b}}", &["{xa}", "{xb}"]),
            ("{a}", &["{a}"]),
            ("a{b,c", &["a{b,c"]),
            ("a{b,{c,d}", &["a{b,c", "a{b,d"]),
            (r"\{a,b}", &[r"\{a,b}"]),
            (r"{a\,b,c}", &[r"a\,b", "c"]),
            ("ä{ö,ü}", &["äö", "äü"]),
            ("*.rs", &["*.rs"]),
        ] {
            assert_eq!(alternatives(pattern), all, "{pattern}");
        }
        let many = "{a,b}".repeat(40);
        assert_eq!(alternatives(&many), [many.as_str()]);
        assert!(check(&many).unwrap_err().contains("write several rules"));
    }

    #[test]
    fn what_fits_no_file_is_told_with_what_to_write() {
        for (pattern, instead) in [
            ("sub/../a", "where it leads"),
            ("../a", "where it leads"),
            ("..", "where it leads"),
            ("{a,..}/b", "where it leads"),
            ("//x", "one slash"),
            ("a//b", "one slash"),
            ("a{/,b}/c", "one slash"),
            (".", "write ** for the whole workspace"),
            ("a/./b", "leave it out"),
            ("a/.", "leave it out"),
            ("!a", "that allows before this one"),
            ("{a,!b}", "that allows before this one"),
            ("~/.ssh/**", "the whole path"),
            (r"config\secret", "/ between directories"),
            (r"config\.env", "/ between directories"),
            ("{,a}", "the empty choice"),
        ] {
            let error = check(pattern).unwrap_err();
            assert!(error.contains(instead), "{pattern}: {error}");
        }
        for pattern in [
            "./a",
            "././a/",
            "/",
            "./",
            "a/.env",
            "a/..b",
            "a/...",
            "**",
            "app/[id]/$x",
            r"\!a",
            r"\~",
            r"a\*b\\c",
            "a~",
            "{{name}}/a",
            ".env{,.local}",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }
}
