//! What a call is about: the files that it names, or the commands that it runs. Each is judged by itself.

use protocol::{Permission, PolicyRule};

use super::command::{Simple, take_apart};
use super::pattern::{A_NAME, ANYTHING, Fit, Pattern, literal};
use crate::tools::{ChangeKind, Invocation};

/// Where the work is.
pub(super) const WORKSPACE: &str = "/workspace";

/// Programs that run what stands in their arguments or in a file, or that change what a name means.
const RUNNERS: [&str; 47] = [
    ".", "alias", "ash", "at", "awk", "bash", "batch", "builtin", "busybox", "chroot", "command", "csh",
    "dash", "doas", "enable", "env", "eval", "exec", "find", "fish", "flock", "hash", "ionice", "ksh",
    "ld.so", "nice", "nohup", "nsenter", "parallel", "script", "set", "setsid", "sh", "shopt", "source",
    "ssh", "stdbuf", "su", "sudo", "tclsh", "time", "timeout", "trap", "unshare", "watch", "xargs", "zsh",
];
/// Programs that run a text, if one is given to them.
const INTERPRETERS: [&str; 9] = ["bun", "deno", "lua", "node", "perl", "php", "python", "python3", "ruby"];

/// One thing that a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A file or directory, as an absolute path without `..`.
    File(String),
    /// Everything below a directory.
    Tree(String),
    /// A file that cannot be told.
    SomeFile,
    /// A command of a line.
    Command {
        /// The command.
        command: Simple,
        /// Whether the line goes to another directory.
        moves: bool,
    },
    /// A line that cannot be taken apart, or what is written to the input of a program.
    Line,
    /// Neither.
    Nothing,
}

/// The files that a call names, as absolute paths without `..`. Links are not followed.
pub fn paths(call: &Invocation) -> Vec<String> {
    let named: Vec<&str> = match call {
        Invocation::Read { path, .. }
        | Invocation::Write { path, .. }
        | Invocation::Edit { path, .. }
        | Invocation::List { path } => vec![path],
        Invocation::Search { path, .. } => vec![path.as_deref().unwrap_or(WORKSPACE)],
        Invocation::Patch { changes } => changes
            .iter()
            .flat_map(|change| {
                let moved = match &change.kind {
                    ChangeKind::Update { to, .. } => to.as_deref(),
                    ChangeKind::Add(_) | ChangeKind::Delete => None,
                };
                [Some(change.path.as_str()), moved]
            })
            .flatten()
            .collect(),
        Invocation::Shell { .. }
        | Invocation::Process { .. }
        | Invocation::Check { .. }
        | Invocation::Plan { .. }
        | Invocation::Ask { .. }
        | Invocation::WebFetch { .. }
        | Invocation::Remember { .. }
        | Invocation::Recall { .. }
        | Invocation::Skill { .. }
        | Invocation::Mcp { .. }
        | Invocation::McpTools { .. } => Vec::new(),
    };
    named.into_iter().map(absolute).collect()
}

/// What a call is about, with where links lead.
pub(super) fn of(call: &Invocation, real: Option<&[String]>) -> Vec<Target> {
    let is_search = matches!(call, Invocation::Search { .. });
    if let Invocation::Shell { command, .. } = call {
        let Some(commands) = take_apart(command) else { return vec![Target::Line] };
        let goes = |command: &Simple| matches!(program(command), Some("cd" | "pushd" | "popd"));
        let moves = commands.iter().any(goes);
        let targets = commands.into_iter().map(|command| Target::Command { command, moves });
        return some(targets.collect());
    }
    // What is written to a program that runs may be a command to it, and none that can be told.
    if let Invocation::Process { stdin: Some(_), .. } = call {
        return vec![Target::Line];
    }
    let named = paths(call);
    let known = real.filter(|real| real.len() == named.len());
    let mut targets = Vec::new();
    if !named.is_empty() && known.is_none() {
        targets.push(Target::SomeFile);
    }
    for path in named.into_iter().chain(known.into_iter().flatten().map(|path| absolute(path))) {
        let target = if is_search { Target::Tree(path) } else { Target::File(path) };
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    some(targets)
}

/// Something must be there for rules that fit everything.
fn some(targets: Vec<Target>) -> Vec<Target> {
    if targets.is_empty() { vec![Target::Nothing] } else { targets }
}

/// A path of a call as it is decided on: from the workspace, without `.`, `..` and double slashes.
pub fn absolute(path: &str) -> String {
    let path = path.trim();
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{WORKSPACE}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn program(command: &Simple) -> Option<&str> {
    let first = command.words.first()?;
    first.rsplit('/').next()
}

/// Whether a command runs something that its name does not tell.
fn runs_others(command: &Simple) -> bool {
    let Some(program) = program(command) else { return false };
    let inline = |word: &String| {
        let flags = ["-c", "-e", "-p", "--eval", "--print"];
        word == "-" || flags.iter().any(|flag| word.starts_with(flag))
    };
    let text =
        INTERPRETERS.contains(&program) && (command.words.len() == 1 || command.words.iter().any(inline));
    text || RUNNERS.contains(&program)
}

/// Whether a redirection writes a file that matters.
fn writes_file(file: &str) -> bool {
    !matches!(file, "/dev/null" | "/dev/stdout" | "/dev/stderr")
}

impl Target {
    /// Whether a pattern of paths fits.
    pub(super) fn fits_path(&self, pattern: &Pattern, then: Permission) -> Fit {
        match self {
            Self::File(path) => pattern.fits(path),
            // What it shows may be one of them.
            Self::Tree(path) => {
                let (itself, below) = (pattern.fits(path), pattern.fits(&format!("{path}/{ANYTHING}")));
                if then == Permission::Allow { itself.min(below) } else { itself.max(below) }
            }
            Self::SomeFile | Self::Line => Fit::Maybe,
            Self::Nothing => Fit::No,
            // Its words can name a file, and it can reach others: that allows nothing.
            Self::Command { .. } if then == Permission::Allow => Fit::No,
            Self::Command { command, moves } => {
                let words = command.words.iter().skip(1).chain(&command.reads).chain(&command.writes);
                words.map(|word| named(word, *moves, pattern)).max().unwrap_or(Fit::No)
            }
        }
    }

    /// Whether a pattern of commands fits.
    pub(super) fn fits_command(&self, pattern: &str, then: Permission) -> Fit {
        match self {
            Self::Line => Fit::Maybe,
            Self::Command { command, .. } if then == Permission::Allow => allowed(command, pattern),
            Self::Command { command, .. } => feared(command, pattern),
            Self::File(_) | Self::Tree(_) | Self::SomeFile | Self::Nothing => Fit::No,
        }
    }

    /// A rule that allows all of the kind of this target; None where there is none.
    pub(super) fn kind(&self, tool: &str, rule: &PolicyRule) -> Option<PolicyRule> {
        let allow = PolicyRule::tool(Permission::Allow, tool);
        match self {
            Self::File(_) | Self::Tree(_) => Some(PolicyRule { path: rule.path.clone(), ..allow }),
            Self::Nothing => Some(allow),
            Self::SomeFile | Self::Line => None,
            Self::Command { command, .. } => {
                let command = Some(kind_of(command)?);
                Some(PolicyRule { command, ..allow })
            }
        }
    }
}

/// Whether a word of a command names a file. One that is not absolute is elsewhere in a line that goes there.
fn named(word: &str, moves: bool, pattern: &Pattern) -> Fit {
    let value = word.split_once('=').map(|(_, value)| value);
    let names = [Some(word), value].into_iter().flatten().filter(|word| !word.is_empty());
    let fit = |word: &str| {
        let here = if word.starts_with(ANYTHING) { word.to_owned() } else { absolute(word) };
        let elsewhere = format!("{ANYTHING}/{}", word.trim_start_matches("./"));
        let there = if moves && !word.starts_with('/') { pattern.fits(&elsewhere) } else { Fit::No };
        pattern.fits(&here).max(there)
    };
    names.map(fit).max().unwrap_or(Fit::No)
}

/// The words with a space between them.
fn text(command: &Simple) -> String {
    let words = command.variables.iter().chain(&command.words);
    words.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// What allows must fit the command as it is written, with all that is around it.
fn allowed(command: &Simple, pattern: &str) -> Fit {
    let mut text = text(command);
    let writes: Vec<&String> = command.writes.iter().filter(|file| writes_file(file)).collect();
    if !writes.is_empty() && !pattern.contains('>') {
        return Fit::No;
    }
    for file in writes {
        text.push_str(&format!(" > {file}"));
    }
    // The star of a pattern must not take in variables that say how the program runs.
    if !command.variables.is_empty() && !pattern.contains('=') {
        return Fit::No;
    }
    Pattern::words(pattern).fits(&text)
}

/// What asks or denies fits the program by whatever way it is named, and may fit what runs others.
fn feared(command: &Simple, pattern: &str) -> Fit {
    let pattern = Pattern::words(pattern);
    let written = text(command);
    let plain = command.words.join(" ");
    let by_name = match (program(command), command.words.split_first()) {
        (Some(program), Some((_, arguments))) => {
            let words = std::iter::once(program).chain(arguments.iter().map(String::as_str));
            words.collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    };
    let fit = [written, plain, by_name].iter().map(|text| pattern.fits(text)).max().unwrap_or(Fit::No);
    if runs_others(command) { fit.max(Fit::Maybe) } else { fit }
}

/// A pattern for commands like this one: the program with its first word where that is the name of what it does, or else
/// exactly this command.
fn kind_of(command: &Simple) -> Option<String> {
    let unknown = |word: &String| word.contains([ANYTHING, A_NAME]);
    if command.writes.iter().any(|file| writes_file(file)) || !command.variables.is_empty() {
        return None;
    }
    let [program, rest @ ..] = command.words.as_slice() else { return None };
    let is_name = |word: &&String| {
        let letters =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_:".contains(letter);
        word.starts_with(|letter: char| letter.is_ascii_lowercase()) && word.chars().all(letters)
    };
    if !runs_others(command)
        && !program.contains('/')
        && let Some(name) = rest.first().filter(is_name)
    {
        return Some(format!("{} {} *", literal(program), literal(name)));
    }
    if command.words.iter().any(unknown) {
        return None;
    }
    Some(literal(&command.words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_plain() {
        assert_eq!(absolute("a/../b/./c//d"), "/workspace/b/c/d");
        assert_eq!(absolute("../etc/passwd"), "/etc/passwd");
        assert_eq!(absolute("../../../etc"), "/etc");
        assert_eq!(absolute(" /etc/ "), "/etc");
        assert_eq!(absolute("."), "/workspace");
    }

    #[test]
    fn a_kind_is_what_the_program_does_or_the_very_command() {
        let kind = |line: &str| kind_of(&take_apart(line).unwrap()[0]);
        let is = |line: &str, pattern: &str| assert_eq!(kind(line).as_deref(), Some(pattern), "{line}");
        is("git push origin main", "git push *");
        is("npm run build:all -- --x", "npm run *");
        is("cargo test $X", "cargo test *");
        is("ls", "ls");
        is("rm -rf target", "rm -rf target");
        is("./gradlew test", "./gradlew test");
        is("sudo rm x", "sudo rm x");
        is("echo 'a*'", "echo a\\*");
        for none in ["rm *", "A=1 make all", "echo a > b", "X=1", "rm $X"] {
            assert_eq!(kind(none), None, "{none}");
        }
    }

    #[test]
    fn the_lists_are_in_order() {
        assert!(RUNNERS.is_sorted() && INTERPRETERS.is_sorted());
    }
}
