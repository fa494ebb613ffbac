//! Fenced blocks in an answer: which are files, which are commands. Models name a file before the block, beside the fence or
//! in the block's first line; where they name none and only one file is in question, that one is meant.

use super::lead;
use crate::salvage;

/// A block that means something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    /// The whole text of a file.
    File {
        /// Relative to the workspace.
        path: String,
        /// Its text.
        text: String,
    },
    /// A command.
    Command(String),
}

const SHELLS: [&str; 6] = ["sh", "bash", "shell", "zsh", "console", "terminal"];

/// Languages of blocks that say what to change in a file.
const DIFFS: [&str; 2] = ["diff", "patch"];

/// What seems to be meant for a file and is in none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    /// The answer ends in this file, if it has a name.
    Half(Option<String>),
    /// Code that does not say whose text it is.
    Unnamed(String),
}

/// The blocks of an answer. [`blocks_and_missing`] says more.
#[cfg(test)]
fn read(text: &str, known: &[&str], cut_off: bool) -> Vec<Block> {
    blocks_and_missing(text, known, cut_off).0
}

/// The blocks of an answer, in order, and what else seems to be meant for files. `known` are the files that the model was shown. A file that is there twice counts as
/// it was written last; the last block of an answer that was cut off does not count. Paths and texts that cannot be meant are
/// among them, so that the model is told: [`refusal`] says why.
pub(super) fn blocks_and_missing(text: &str, known: &[&str], cut_off: bool) -> (Vec<Block>, Vec<Missing>) {
    let mut missing: Vec<Missing> = Vec::new();
    let mut found: Vec<Block> = Vec::new();
    let mut unnamed: Vec<Unnamed> = Vec::new();
    let mut before = String::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut next = 0;
    while let Some(&line) = lines.get(next) {
        next += 1;
        let Some((fence, info)) = opening(line).filter(|(fence, _)| is_fence(*fence, &lines[next..])) else {
            if !line.trim().is_empty() {
                before = line.to_owned();
            }
            continue;
        };
        // What belongs to an item of a list is indented as a whole.
        let indent = line.len() - line.trim_start().len();
        let language = info.split([':', ' ', ',', '{']).next().unwrap_or_default().to_ascii_lowercase();
        let name = named(info, &before, "", known);
        let markdown = is_markdown(&language, name.as_deref());
        let rest = &lines[next..];
        let end = end(rest, fence, markdown, known).or_else(|| {
            let first = rest.iter().position(|line| closes(line, fence)).filter(|_| !markdown)?;
            Some((first, first + 1))
        });
        let mut content = String::new();
        for line in &rest[..end.map_or(rest.len(), |(end, _)| end)] {
            let blank = line.len() - line.trim_start_matches(' ').len();
            content.push_str(&line[blank.min(indent)..]);
            content.push('\n');
        }
        next += end.map_or(rest.len(), |(_, after)| after);
        // Half a file is worse than none; but the closing fence is often lost because it is a stop word of the model.
        if end.is_none() && cut_off {
            let name = name.or_else(|| named(info, &before, &content, known));
            missing.push(Missing::Half(name.or_else(|| lead::named(&before, &language, known))));
            break;
        }
        // A name in a block of its own is the name of the next block.
        let shell = SHELLS.contains(&language.as_str());
        if !shell
            && name.is_none()
            && let Some(path) = only_a_name(&content, known)
        {
            before = path;
            continue;
        }
        let unusual = || patched(&language, &content, known).or_else(|| outside(info, &before));
        let named = named(info, &before, &content, known);
        // A sentence that names a file is a weaker sign than the name alone: a part of that file may follow it.
        let is_new = |path: &String| {
            !found.iter().any(|block| matches!(block, Block::File { path: other, .. } if other == path))
        };
        let in_words = || {
            let script = !shell || content.starts_with("#!");
            lead::named(&before, &language, known)
                .filter(|path| script && !lead::is_output(&content) && is_new(path))
        };
        if let Some(path) = named.or_else(|| if shell { None } else { unusual() }).or_else(in_words) {
            let text = if is_diff(&content) { content } else { without_name(&content, &path) };
            found.retain(|block| !matches!(block, Block::File { path: other, .. } if *other == path));
            found.push(Block::File { path, text });
        } else if shell {
            found.extend(command(&content).map(Block::Command));
        } else if salvage::calls(&format!("```json\n{content}```"), 1).is_empty() {
            let code = lead::is_code(&before, &language, &content);
            unnamed.push(Unnamed {
                place: found.len(),
                language,
                content,
                above: with_blanks(&before),
                code,
            });
        }
        before = String::new();
    }
    // One block without a name, and one file that it can be; or a name that cannot be one.
    let files = found.iter().any(|block| matches!(block, Block::File { .. }));
    if let ([Unnamed { place, language, content, above, .. }], false) = (unnamed.as_slice(), files)
        && let Some(path) = only(known, language).map(str::to_owned).or_else(|| above.clone())
    {
        found.insert(*place, Block::File { path, text: content.clone() });
        return (found, missing);
    }
    missing
        .extend(unnamed.into_iter().filter(|block| block.code).map(|block| Missing::Unnamed(block.content)));
    (found, missing)
}

/// A block that does not say whose text it is.
struct Unnamed {
    /// Where it comes among the others.
    place: usize,
    language: String,
    content: String,
    /// What stands above it and would be a path, if it had no blanks.
    above: Option<String>,
    /// Whether it is neither what something prints nor an example.
    code: bool,
}

/// Why a file is not written, for a path or a text that cannot be meant; None where it can.
pub(super) fn refusal(path: &str, text: &str) -> Option<String> {
    let inner = path.strip_prefix("/workspace/").unwrap_or(path);
    let parts = || inner.split('/');
    let why = if inner.starts_with(['/', '~']) || parts().any(|part| part == "..") {
        "it is outside of the workspace. Write the path of a file in the workspace, relative to it"
    } else if parts().any(|part| part.eq_ignore_ascii_case(".git")) {
        "what is in .git belongs to git. Use git commands for that"
    } else if inner.starts_with("./") && inner.contains(char::is_whitespace) {
        "a path has no blanks here. Write the path alone on its line, and give new files names without blanks"
    } else if is_diff(text) && !DIFFS.contains(&ending(inner)) {
        "a diff is not applied. Write the whole new text of the file, from its first line to its last"
    } else {
        return None;
    };
    Some(format!("{path} was not written: {why}."))
}

fn is_diff(text: &str) -> bool {
    let begins = |mark: &str| text.lines().take(8).any(|line| line.starts_with(mark));
    text.starts_with("diff --git ")
        || begins("@@ ") && (begins("--- ") || text.starts_with("@@ -"))
        || begins("*** Begin Patch")
}

/// The file that a diff is for.
fn patched(language: &str, content: &str, known: &[&str]) -> Option<String> {
    if !DIFFS.contains(&language) && !is_diff(content) {
        return None;
    }
    let marks = ["+++ ", "--- ", "*** Update File: "];
    let names = marks.iter().flat_map(|mark| content.lines().filter_map(|line| line.strip_prefix(*mark)));
    let mut paths = names.filter_map(|name| {
        let name = name.split('\t').next().unwrap_or_default().trim();
        path(name.strip_prefix("b/").or_else(|| name.strip_prefix("a/")).unwrap_or(name), known)
    });
    paths.next()
}

/// A path beside or above a block that no file may have.
fn outside(info: &str, before: &str) -> Option<String> {
    let is_path = |word: &&str| {
        let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/+@~".contains(&byte));
        let named =
            word.rsplit('/').next().is_some_and(|name| name.bytes().any(|byte| byte.is_ascii_alphanumeric()));
        plain && named && word.contains('/') && refusal(word, "").is_some()
    };
    let mut beside = info.split([':', ' ', '=', '"', ',']);
    beside.find(is_path).or_else(|| Some(bare(before)).filter(is_path)).map(str::to_owned)
}

/// A line that is a path but for its blanks. It may as well be words that end with a path, so it is no file's: no path that is
/// taken begins with a dot and a slash.
fn with_blanks(before: &str) -> Option<String> {
    let line = bare(before);
    let words: Vec<&str> = line.split(' ').collect();
    let plain = words
        .iter()
        .all(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/+@".contains(&byte)));
    let is_path = (2..=3).contains(&words.len()) && plain && path(words.last()?, &[]).is_some();
    is_path.then(|| format!("./{line}"))
}

/// A fence that the text does not have.
pub(super) fn fence_for(text: &str) -> String {
    let longest =
        text.lines().map(|line| line.trim_start().bytes().take_while(|byte| *byte == b'`').count()).max();
    "`".repeat(longest.unwrap_or(0).max(2) + 1)
}

/// What a block begins and ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: u8,
    length: usize,
}

/// The fence that a line begins with, and what stands beside it.
fn opening(line: &str) -> Option<(Fence, &str)> {
    let line = line.trim();
    let mark = line.bytes().next().filter(|mark| [b'`', b'~'].contains(mark))?;
    let length = line.bytes().take_while(|byte| *byte == mark).count();
    let info = line[length..].trim();
    (length >= 3 && !info.contains('`')).then_some((Fence { mark, length }, info))
}

/// Whether a fence before these lines is one: what is underlined with tildes is no block.
fn is_fence(fence: Fence, lines: &[&str]) -> bool {
    fence.mark == b'`' || lines.iter().any(|line| closes(line, fence))
}

/// Whether a line begins a block inside one with this fence.
fn opens_in(line: &str, fence: Fence) -> bool {
    opening(line).is_some_and(|(inner, info)| {
        inner.mark == fence.mark && inner.length >= fence.length && !info.is_empty()
    })
}

fn closes(line: &str, fence: Fence) -> bool {
    let line = line.trim();
    line.len() >= fence.length && line.bytes().all(|byte| byte == fence.mark)
}

/// Where a block ends whose lines begin here, and where the text goes on: at its own fence, not at those of blocks inside it.
/// Where that is missing, the next file ends it.
fn end(lines: &[&str], fence: Fence, markdown: bool, known: &[&str]) -> Option<(usize, usize)> {
    let mut inside = 0_usize;
    let mut next_file = None;
    let mut closed = None;
    for (index, line) in lines.iter().enumerate() {
        let opens = opens_in(line, fence);
        match inside {
            0 if opens => {
                next_file = next_file.or_else(|| name_above(&lines[..index], known));
                inside = 1;
            }
            _ if opens => inside += 1,
            _ if !closes(line, fence) => {}
            // No block begins on the line after another one ends, where a name follows.
            0 if markdown
                && !(closed == Some(index) && is_named_after(&lines[index + 1..], known))
                && begins_another(&lines[index + 1..], fence, known) =>
            {
                inside = 1;
            }
            0 => return Some((index, index + 1)),
            _ => {
                inside -= 1;
                closed = Some(index + 1);
            }
        }
    }
    next_file.map(|name| (name, name))
}

/// Whether the line above the next fence names a file.
fn is_named_after(lines: &[&str], known: &[&str]) -> bool {
    let above = lines.iter().take_while(|line| opening(line).is_none());
    above
        .filter(|line| !line.trim().is_empty())
        .last()
        .is_some_and(|line| named("", line, "", known).is_some() || lead::named(line, "", known).is_some())
}

/// Whether a bare fence before these lines begins a block inside a Markdown file rather than ending the file: another bare
/// one that belongs to it comes next, and one more after that, to end the file.
fn begins_another(lines: &[&str], fence: Fence, known: &[&str]) -> bool {
    let fences = lines.iter().enumerate().filter(|(_, line)| {
        opening(line).is_some_and(|(inner, info)| {
            inner.mark == fence.mark && (inner.length >= fence.length || !info.is_empty())
        })
    });
    match fences.take(2).collect::<Vec<_>>().as_slice() {
        [(next, line), _] => closes(line, fence) && name_above(&lines[..*next], known).is_none(),
        _ => false,
    }
}

/// The line that names the file whose block follows. It stands by itself: in a block there may be names as well.
fn name_above(lines: &[&str], known: &[&str]) -> Option<usize> {
    let at = lines.iter().rposition(|line| !line.trim().is_empty())?;
    // Right below a fence a name in marks is none of the lines of a block.
    let marked = at == 0 && lines[at].trim().starts_with(['*', '#', '`']);
    let alone = marked || at > 0 && lines[at - 1].trim().is_empty();
    (alone && named("", lines[at], "", known).is_some()).then_some(at)
}

fn is_markdown(language: &str, path: Option<&str>) -> bool {
    const ENDINGS: [&str; 3] = ["md", "mdx", "markdown"];
    ENDINGS.contains(&language) || path.is_some_and(|path| ENDINGS.contains(&ending(path)))
}

/// Words of a sentence that has the new text of a file follow.
const FOLLOWS: [&str; 15] = [
    "new",
    "update",
    "updated",
    "fixed",
    "corrected",
    "changed",
    "modified",
    "complete",
    "whole",
    "full",
    "create",
    "write",
    "replace",
    "content",
    "contents",
];

/// Whether what follows this sentence is the text of the file that it names, and not what the file prints.
pub(super) fn announces(sentence: &str) -> bool {
    let lead = sentence.split('`').next().unwrap_or_default().trim_end();
    let mut words = sentence.split(|letter: char| !letter.is_ascii_alphabetic());
    lead.ends_with(" is")
        || lead.ends_with("'s")
        || words.any(|word| FOLLOWS.contains(&word.to_ascii_lowercase().as_str()))
}

/// The file that a block names.
fn named(info: &str, before: &str, content: &str, known: &[&str]) -> Option<String> {
    let beside = info.split([':', ' ', '=', '"', ',']).find_map(|word| path(word, known));
    let above = || {
        path(bare(before), known).or_else(|| {
            // "Here is the new `calc.py`:"
            let quoted: Vec<&str> = before.split('`').skip(1).step_by(2).collect();
            match quoted.as_slice() {
                [one] if !info.is_empty() || announces(before) => path(one, known),
                _ => None,
            }
        })
    };
    let inside = || path(comment(content.lines().next()?)?, known);
    beside.or_else(above).or_else(inside)
}

/// A line above a block without the marks around what it says.
fn bare(line: &str) -> &str {
    let line = line.trim();
    // The number of an item of a list.
    let numbered = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let line = numbered.strip_prefix(". ").unwrap_or(line);
    let line = line.trim_matches(['*', '#', '`', ':', ' ', '-', '>']);
    let line = ["File", "file", "Path", "path", "Filename", "filename"]
        .iter()
        .find_map(|word| line.strip_prefix(word)?.trim_start().strip_prefix(':'))
        .unwrap_or(line);
    line.trim().trim_matches(['*', '`', ':', '\'', '"'])
}

/// The file that a block names when it holds nothing else.
fn only_a_name(content: &str, known: &[&str]) -> Option<String> {
    let line = content.trim();
    let line = comment(line).unwrap_or(line);
    if line.contains('\n') { None } else { path(line, known) }
}

/// A word that is the name of a file.
pub(super) fn path(word: &str, known: &[&str]) -> Option<String> {
    let word = word.trim();
    let word = word.strip_prefix("/workspace/").unwrap_or(word);
    let word = word.strip_prefix("./").unwrap_or(word);
    if known.contains(&word) {
        return Some(word.to_owned());
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    let extension = name.rsplit_once('.').is_some_and(|(stem, end)| {
        !stem.is_empty()
            && (1..=5).contains(&end.len())
            && end.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/+@".contains(&byte));
    let inside = !word.starts_with('/') && !word.split('/').any(|part| part == "..");
    // A number such as 1.5 and a name such as e.g. are no files.
    let letters = name.bytes().filter(u8::is_ascii_alphabetic).count() > 1;
    (extension && plain && inside && letters).then(|| word.to_owned())
}

/// What a line says that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim();
    let inner = ["#", "//", "--", ";", "/*", "<!--"].iter().find_map(|mark| line.strip_prefix(mark))?;
    let inner = inner.trim().trim_end_matches("*/").trim_end_matches("-->").trim();
    let inner = ["File:", "file:", "Path:", "path:", "filename:"]
        .iter()
        .find_map(|word| inner.strip_prefix(word))
        .unwrap_or(inner);
    Some(inner.trim())
}

/// The text without a first line that only names the file.
fn without_name(content: &str, path: &str) -> String {
    match content.split_once('\n') {
        Some((first, rest)) if comment(first).is_some_and(|name| name.ends_with(path)) => rest.to_owned(),
        _ => content.to_owned(),
    }
}

/// The command of a block: prompts and comments aside.
fn command(content: &str) -> Option<String> {
    let prompted = content.lines().any(|line| line.starts_with("$ "));
    let lines: Vec<&str> = content
        .lines()
        // Where commands have a prompt, the other lines are what they would print.
        .filter(|line| !prompted || line.starts_with("$ "))
        .map(|line| line.strip_prefix("$ ").unwrap_or(line))
        .collect();
    let command = lines.join("\n").trim().to_owned();
    (!command.is_empty()).then_some(command)
}

/// What stands beside fences, and the endings of files that it stands for. The first that fits is the usual one.
const LANGUAGES: [(&[&str], &[&str]); 11] = [
    (&["python", "py"], &["py"]),
    (&["rust", "rs"], &["rs"]),
    (&["javascript", "js", "node"], &["js", "mjs", "cjs", "jsx"]),
    (&["typescript", "ts"], &["ts", "tsx"]),
    (&["go", "golang"], &["go"]),
    (&["c"], &["c", "h"]),
    (&["cpp", "c++"], &["cpp", "cc", "hpp", "h"]),
    (&["java"], &["java"]),
    (&["ruby", "rb"], &["rb"]),
    (&["html"], &["html"]),
    (&["css"], &["css"]),
];

/// What stands beside the fence of this file; nothing where it is not plain. Never a shell: that would be a command.
pub(super) fn language(path: &str) -> &'static str {
    let ending = ending(path);
    let found = LANGUAGES.iter().find(|(_, endings)| endings.contains(&ending));
    found.and_then(|(names, _)| names.first()).copied().unwrap_or_default()
}

/// Whether a block in this language can be a file with this path.
pub(super) fn is_in(language: &str, path: &str) -> bool {
    let ending = ending(path);
    match LANGUAGES.iter().find(|(names, _)| names.contains(&language)) {
        Some((_, endings)) => endings.contains(&ending),
        None => language.is_empty() || !is_known(ending),
    }
}

/// Whether files with this ending are in a language that is known.
pub(super) fn is_known(ending: &str) -> bool {
    LANGUAGES.iter().any(|(_, endings)| endings.contains(&ending))
}

pub(super) fn ending(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// The one file that a block in this language can be.
fn only<'a>(known: &[&'a str], language: &str) -> Option<&'a str> {
    let (_, endings) = LANGUAGES.iter().find(|(names, _)| names.contains(&language))?;
    let fits = |path: &&&str| {
        // Tests are rarely what is to be changed.
        endings.contains(&ending(path)) && !path.to_ascii_lowercase().contains("test")
    };
    let mut fitting = known.iter().filter(fits);
    fitting.next().filter(|_| fitting.next().is_none()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Block {
        Block::File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_file_is_named_before_beside_or_in_its_block() {
        for text in [
            "calc.py\n```python\nx = 1\n```",
            "**calc.py**:\n\n```\nx = 1\n```",
            "### File: `calc.py`\n```py\nx = 1\n```\nThat is all.",
            "Here is the new `calc.py`:\n```python\nx = 1\n```",
            "2. **calc.py**\n   ```python\n   x = 1\n   ```\nThat is all.",
            "```python:calc.py\nx = 1\n```",
            "```python title=\"calc.py\"\nx = 1\n```",
            "```python\n# calc.py\nx = 1\n```",
            "````\n# ./calc.py\nx = 1\n````",
            "/workspace/calc.py\n```python\nx = 1\n```",
            "Only one file is there.\n```python\nx = 1\n```",
            "```\ncalc.py\n```\n```python\nx = 1\n```\n\n```\ncalc.py\n```",
            "calc.py\n```python\nold\n```\nBetter:\ncalc.py\n```python\nx = 1\n```",
        ] {
            assert_eq!(
                read(text, &["calc.py", "test_calc.py"], false),
                [file("calc.py", "x = 1\n")],
                "{text}"
            );
        }
    }

    #[test]
    fn commands_lose_their_prompts_and_what_they_would_print() {
        assert_eq!(read("```bash\n$ make test\nok\n```", &[], false), [Block::Command("make test".into())]);
        let both = "```sh\ncd src\nls\n```\nThen\na/new.txt\n```\nhello\n```";
        assert_eq!(
            read(both, &[], false),
            [Block::Command("cd src\nls".into()), file("a/new.txt", "hello\n")]
        );
    }

    #[test]
    fn a_name_in_a_block_is_content_where_a_file_or_a_shell_is_named() {
        assert_eq!(read("files.in\n```\ncalc.py\n```", &["calc.py"], false), [file("files.in", "calc.py\n")]);
        assert_eq!(read("```sh\nrun.sh\n```", &["run.sh"], false), [Block::Command("run.sh".into())]);
    }

    #[test]
    fn what_is_not_meant_as_a_file_is_left_alone() {
        for text in [
            "Like this:\n```python\nx = 1\n```\nor\n```python\nx = 2\n```",
            "```\nsome output\n```",
            "Look at /etc/hosts:\n```\nx\n```",
            "Title\n~~~~~\nwords",
            "No blocks at all.",
        ] {
            assert_eq!(read(text, &["a.py"], false), [], "{text}");
        }
    }

    #[test]
    fn tildes_are_fences_as_well() {
        let text = "calc.py\n~~~python\nx = 1\n~~~\n\n~~~sh\nmake\n~~~\n";
        assert_eq!(read(text, &[], false), [file("calc.py", "x = 1\n"), Block::Command("make".into())]);
        for (text, path, content) in [
            ("a.md\n~~~\n```sh\nls\n```\n~~~\n", "a.md", "```sh\nls\n```\n"),
            ("b.md\n```\n~~~\nx\n~~~\n```\n", "b.md", "~~~\nx\n~~~\n"),
        ] {
            assert_eq!(read(text, &[], false), [file(path, content)], "{text}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_found_and_refused_with_a_reason() {
        let diff = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n";
        for (text, path, reason) in [
            ("../../etc/evil.txt\n```\nx\n```", "../../etc/evil.txt", "outside of the workspace"),
            ("**/etc/evil3**\n```\nx\n```", "/etc/evil3", "outside of the workspace"),
            ("```python:/etc/evil.py\nx\n```", "/etc/evil.py", "outside of the workspace"),
            (".git/config\n```\n[core]\n```", ".git/config", "belongs to git"),
            ("my file.py\n```\nx = 1\n```", "./my file.py", "no blanks"),
            (&format!("```diff\n{diff}```"), "a.py", "a diff is not applied"),
            (&format!("a.py\n```\n{diff}```"), "a.py", "a diff is not applied"),
            (&format!("Here:\n```\ndiff --git a/a.py b/a.py\n{diff}```"), "a.py", "a diff is not applied"),
        ] {
            let found = read(text, &["a.py", "b.py"], false);
            let [Block::File { path: found, text: content }] = found.as_slice() else {
                panic!("{text}: {found:?}")
            };
            let why = refusal(found, content).unwrap_or_default();
            assert!(found == path && why.contains(reason), "{text}: {found}: {why}");
        }
        assert_eq!(refusal("fix.diff", diff), None);
        assert_eq!(refusal("/workspace/a.py", "--- a\n"), None);
        assert_eq!(refusal(".github/workflows/ci.yml", "---\non: push\n"), None);
    }

    #[test]
    fn blocks_inside_a_file_belong_to_it() {
        let inside = [
            "# Hi\n\n```sh\nmake all\n```\n\nmore\n\n## End\nlast words\n",
            "# Hi\n\n```\nmake all\n```\n\nmore\n\n```sh\nls\n```\nlast words\n",
            "# Hi\n\n```sh\nls\n```\nmore\n```\nmake all\n```\nlast words\n",
            "# Files\n\n```\nsrc/a.rs\nsrc/b.rs\n```\nlast words\n",
        ];
        for content in inside {
            for opened in ["README.md\n```markdown", "README.md\n```", "````md:README.md"] {
                let fence = if opened.contains("````") { "````" } else { "```" };
                let text = format!("{opened}\n{content}{fence}\nThat is all.");
                assert_eq!(read(&text, &[], false), [file("README.md", content)], "{text}");
                let two = format!("{text}\n\nb.py\n```\ny = 1\n```\n\n```sh\nmake\n```");
                let both =
                    [file("README.md", content), file("b.py", "y = 1\n"), Block::Command("make".into())];
                assert_eq!(read(&two, &[], false), both, "{two}");
            }
            // The last fence is often lost.
            let open = format!("README.md\n```markdown\n{}", inside[0]);
            assert_eq!(read(&open, &[], false), [file("README.md", inside[0])]);
        }
        let documented = "def f():\n    \"\"\"\n    ```python\n    f()\n    ```\n    \"\"\"\n    return 1\n";
        let text = format!("a.py\n```python\n{documented}```\n\nb.py\n```python\ny = 1\n```");
        assert_eq!(read(&text, &[], false), [file("a.py", documented), file("b.py", "y = 1\n")]);
        for name in ["greet.txt", "**greet.txt**", "\ngreet.txt", "And greet.txt:", "Then:\ngreet.txt"] {
            for inner in ["# A\n\n```sh\nls\n```\n", "# A\n```sh\nls\n```\n\n```\nmake\n```\n"] {
                let text = format!("README.md\n```markdown\n{inner}```\n{name}\n```\nhello\n```\n");
                let both = [file("README.md", inner), file("greet.txt", "hello\n")];
                assert_eq!(read(&text, &[], false), both, "{text}");
            }
        }
        let never_closed = "README.md\n```md\n# A\n```sh\nls\n```\n\nb.py\n```python\ny = 1\n```";
        let both = [file("README.md", "# A\n```sh\nls\n```\n\n"), file("b.py", "y = 1\n")];
        assert_eq!(read(never_closed, &[], false), both);
        let longer = "a.md\n````\n```sh\nnever closed\n````\n\n```sh\nmake\n```";
        let both = [file("a.md", "```sh\nnever closed\n"), Block::Command("make".into())];
        assert_eq!(read(longer, &[], false), both);
    }

    #[test]
    fn what_a_file_prints_is_not_its_text() {
        let known = ["util.sh"];
        let prints = "Run it and you will see in `util.sh`:\n```\none\n```";
        assert_eq!(read(prints, &known, false), []);
        for sentence in ["The new `util.sh`:", "Here is `util.sh`:", "Create `util.sh` with this:"] {
            let text = format!("{sentence}\n```\necho one\n```");
            assert_eq!(read(&text, &known, false), [file("util.sh", "echo one\n")], "{text}");
        }
    }

    #[test]
    fn half_a_file_counts_only_when_the_model_meant_to_end() {
        let text = "a.py\n```python\nx = 1\n```\nb.py\n```python\ny";
        assert_eq!(read(text, &[], true), [file("a.py", "x = 1\n")]);
        assert_eq!(read(text, &[], false), [file("a.py", "x = 1\n"), file("b.py", "y\n")]);
    }

    #[test]
    fn a_sentence_names_a_file_beside_others() {
        let greet = "greet.txt\n```\nhello\n```\n\n";
        for sentence in [
            "And calc.py:",
            "Here is the updated calc.py:",
            "Then, change calc.py to:",
            "calc.py (updated)",
            "calc.py - swap operands",
            "<calc.py>",
            "[calc.py]",
        ] {
            let text = format!("{greet}{sentence}\n```python\nx = 1\n```");
            let both = [file("greet.txt", "hello\n"), file("calc.py", "x = 1\n")];
            assert_eq!(read(&text, &["calc.py", "util.py"], false), both, "{text}");
        }
        for shown in [
            "Running calc.py gives:\n```text\n3\n```",
            "In calc.py:\n```python\nTraceback (most recent call last):\n  File \"calc.py\"\n```",
            "This is what calc.py prints:\n```\n3\n```",
        ] {
            let text = format!("{greet}{shown}");
            let found = blocks_and_missing(&text, &["calc.py"], false);
            assert_eq!(found, (vec![file("greet.txt", "hello\n")], vec![]), "{text}");
        }
        let both =
            format!("{greet}And calc.sh:\n```sh\n./calc.sh\n```\nThe new run.sh:\n```sh\n#!/bin/sh\nls\n```");
        let found = [
            file("greet.txt", "hello\n"),
            Block::Command("./calc.sh".into()),
            file("run.sh", "#!/bin/sh\nls\n"),
        ];
        assert_eq!(read(&both, &[], false), found);
    }

    #[test]
    fn what_is_in_no_file_is_known() {
        let missing = |text: &str, cut_off| blocks_and_missing(text, &["calc.py"], cut_off).1;
        let half = |name: Option<&str>| vec![Missing::Half(name.map(str::to_owned))];
        let greet = "greet.txt\n```\nhello\n```\n\n";
        for (begun, name) in [
            ("calc.py\n```python\ndef", Some("calc.py")),
            ("The new calc.py:\n```python\ndef", Some("calc.py")),
            ("```python\n# calc.py\ndef", Some("calc.py")),
            ("```python\ndef", None),
        ] {
            assert_eq!(missing(&format!("{greet}{begun}"), true), half(name), "{begun}");
        }
        assert_eq!(missing(greet, true), []);
        let unnamed = |text: &str| vec![Missing::Unnamed(text.to_owned())];
        assert_eq!(missing(&format!("{greet}```python\nx = 1\n```"), false), unnamed("x = 1\n"));
        let twice = "calc.py\n```python\nx = 1\ny = 2\n```\nThe change in calc.py:\n```python\ny = 2\n```";
        assert_eq!(read(twice, &["calc.py"], false), [file("calc.py", "x = 1\ny = 2\n")]);
        assert_eq!(missing(twice, false), unnamed("y = 2\n"));
    }

    #[test]
    fn files_are_shown_in_their_language() {
        assert_eq!(["a.py", "b/c.h", "d.sh", "Makefile", "e."].map(language), ["python", "c", "", "", ""]);
    }

    #[test]
    fn a_fence_inside_a_file_needs_a_longer_one() {
        assert_eq!(fence_for("plain"), "```");
        assert_eq!(fence_for("a\n  ```` \n"), "`````");
    }
}
