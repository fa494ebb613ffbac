//! Commands that are given a directory reach what lies below it. Which files those are is looked up where they lie; here is what
//! to look for, and which commands only look at the directory itself.

use protocol::Policy;
use protocol::policy::alternatives;

use super::command::{Simple, take_apart};
use super::runs::{git_does, possible, program};
use crate::tools::Invocation;

/// Programs that open nothing below a directory that they are given.
const SHALLOW: [&str; 16] = [
    "[", "basename", "cd", "dirname", "echo", "false", "mkdir", "popd", "printf", "pushd", "pwd", "readlink",
    "realpath", "stat", "test", "true",
];

/// Whether a command that is given a directory may reach what lies below.
pub(super) fn reaches_below(command: &Simple) -> bool {
    let Some(name) = program(&command.words) else { return false };
    let short = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains('R');
    let deep = |word: &String| short(word) || word.starts_with("--r");
    !(SHALLOW.contains(&name) || (name == "ls" && !command.words.iter().any(deep)))
}

/// Whether a command reaches everything below where it runs although no word says so.
pub(super) fn takes_everything(command: &Simple) -> bool {
    possible(&command.words).into_iter().any(searches)
}

/// The same of words that are one command and carry no other.
fn searches(words: &[String]) -> bool {
    let Some(name) = program(words) else { return false };
    let arguments = &words[1..];
    let deep = |word: &String| {
        (word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'R']))
            || word.starts_with("--r")
            || word.starts_with("--dereference-r")
    };
    match name {
        "rg" | "ag" | "ack" => !says_where(arguments),
        "grep" | "egrep" | "fgrep" => arguments.iter().any(deep) && !says_where(arguments),
        "git" => git_does(arguments).first().is_some_and(|does| does == "grep" || does == "archive"),
        _ => false,
    }
}

/// Whether a search is certain to be told where, after what it looks for: no option of it can have one of its words as a value.
fn says_where(arguments: &[String]) -> bool {
    let (options, words): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    let plain = |word: &&String| word.chars().skip(1).all(|flag| "EFHRchilnorsvw".contains(flag));
    words.len() > 1 && options.iter().all(plain)
}

/// Whether it matters for a call what lies below the directories that it names.
pub fn needs_below(call: &Invocation) -> bool {
    let Invocation::Shell { command, .. } = call else { return false };
    take_apart(command).into_iter().flatten().any(|command| reaches_below(&command))
}

/// The names, as patterns of the shell, that files have which rules for paths are about. What has another name fits none of
/// them; what has one of these may.
pub fn names_below(policies: &[&Policy]) -> Vec<String> {
    let rules = policies.iter().flat_map(|policy| &policy.rules);
    let patterns = rules.filter_map(|rule| rule.path.as_deref()).flat_map(alternatives);
    let mut names: Vec<String> = patterns.map(|pattern| last_name(&pattern)).collect();
    names.sort();
    names.dedup();
    if names.iter().any(|name| name == "*") { vec!["*".to_owned()] } else { names }
}

/// The last name of a pattern without braces; everything where that cannot be told. A directory stands for what is in it.
fn last_name(pattern: &str) -> String {
    let pattern = pattern.trim();
    let whole = pattern.strip_suffix("/**").or_else(|| pattern.strip_suffix('/')).unwrap_or(pattern);
    let name = whole.rsplit('/').next().unwrap_or(whole);
    if name.is_empty() || name.contains("**") || name.contains('\\') {
        return "*".to_owned();
    }
    name.replace('[', "\\[")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_below_a_directory_has_the_last_name_of_a_pattern() {
        for (pattern, name) in [
            (".env", ".env"),
            ("secrets/**", "secrets"),
            ("secrets/", "secrets"),
            ("*.pem", "*.pem"),
            ("a/b?c", "b?c"),
            ("app/[id]/page", "page"),
            ("app/[id]", "\\[id]"),
            ("src/**/", "*"),
            ("src/a**b", "*"),
            ("**", "*"),
            ("/", "*"),
        ] {
            assert_eq!(last_name(pattern), name, "{pattern}");
        }
    }

    #[test]
    fn the_list_is_in_order() {
        assert!(SHALLOW.is_sorted());
    }
}
