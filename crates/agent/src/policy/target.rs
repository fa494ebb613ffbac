//! What a call is about: the files that it names, or the commands that it runs. Each is judged by itself.

use protocol::{Permission, PolicyRule};

use super::command::{Simple, take_apart};
use super::pattern::{A_NAME, ANYTHING, Fit, Pattern, literal};
use super::runs::{carried, git_does, goes, hides_files, program, runs_others};
use super::tree::{reaches_below, takes_everything};
use crate::tools::{ChangeKind, Invocation};

/// Where the work is.
pub(super) const WORKSPACE: &str = "/workspace";

/// Most bytes of a name of a file, and of a path: what is longer is none.
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 4000;
/// Programs whose first word is what they do. Those that take several things to do in one line are not among them.
const WITH_SUBCOMMANDS: [&str; 28] = [
    "apk",
    "apt",
    "apt-get",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "deno",
    "dnf",
    "docker",
    "dotnet",
    "git",
    "go",
    "helm",
    "kubectl",
    "mix",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "rustup",
    "swift",
    "systemctl",
    "terraform",
    "tox",
    "uv",
    "yarn",
];

/// First words that do not say what is done: the next one does, or is what is run. Whoever has looked at one such command has not
/// looked at others.
const OPEN_ENDED: [&str; 56] = [
    "access",
    "auth",
    "bisect",
    "bundle",
    "cache",
    "component",
    "compose",
    "config",
    "container",
    "context",
    "create",
    "dist-tag",
    "dlx",
    "do",
    "env",
    "exec",
    "explore",
    "global",
    "image",
    "init",
    "lfs",
    "make",
    "mod",
    "network",
    "node",
    "notes",
    "nuget",
    "org",
    "owner",
    "package",
    "pip",
    "pkg",
    "plugin",
    "python",
    "reflog",
    "registry",
    "remote",
    "repo",
    "rum",
    "run",
    "run-script",
    "self",
    "sparse-checkout",
    "stash",
    "state",
    "submodule",
    "system",
    "task",
    "token",
    "tool",
    "toolchain",
    "urn",
    "volume",
    "workspace",
    "worktree",
    "x",
];

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
        /// Whether the line goes to another directory, or the command takes its files from one.
        moves: bool,
        /// Where its words lead that may be files; None where that cannot be told.
        real: Option<Vec<String>>,
        /// What lies below those of them that are directories and may be meant by a rule; None where that cannot be told.
        below: Option<Vec<String>>,
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

/// A word of a command that may be a file, as the shell takes it. Links are not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// An absolute path, as it is written.
    Path(String),
    /// A pattern for absolute paths as shells have it, in which only `*` stands for something.
    Pattern(String),
}

/// The words of a call's commands that may be files, in order to see where links lead.
pub fn words(call: &Invocation) -> Vec<Word> {
    let Invocation::Shell { command, .. } = call else { return Vec::new() };
    let mut all = Vec::new();
    for word in take_apart(command).into_iter().flatten().flat_map(|command| files(&command)) {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    all
}

/// The words of one command that may be files.
fn files(command: &Simple) -> Vec<Word> {
    let words = named_by(command).flat_map(|word| names(word));
    let here = takes_everything(command).then(|| Word::Path(WORKSPACE.to_owned()));
    words.filter_map(from_workspace).chain(here).collect()
}

/// What may name a file.
fn named_by(command: &Simple) -> impl Iterator<Item = &String> {
    let Simple { variables, words, reads, writes } = command;
    words.iter().skip(1).chain(variables).chain(reads).chain(writes)
}

/// As many options are looked at that stand together in a word.
const OPTIONS: usize = 8;

/// What a word may name: itself, and what stands in it after an option or a sign that programs put before a file.
fn names(word: &str) -> Vec<&str> {
    let mut names = vec![word];
    if word.starts_with('-') && !word.starts_with("--") {
        // Several options can stand together, as in `sort -uo.env`, and the last of them has the file.
        names.extend(word.char_indices().skip(2).take(OPTIONS).map(|(at, _)| &word[at..]));
    }
    names.extend(word.match_indices(['=', ':', '@', ',']).map(|(at, sign)| &word[at + sign.len()..]));
    names.retain(|name| !name.is_empty());
    names
}

fn from_workspace(name: &str) -> Option<Word> {
    let is_file = name.len() <= LONGEST_PATH && name.split('/').all(|part| part.len() <= LONGEST_NAME);
    if !is_file || name.contains([ANYTHING, '\0']) {
        return None;
    }
    let whole = if name.starts_with('/') { name.to_owned() } else { format!("{WORKSPACE}/{name}") };
    if !whole.contains(A_NAME) {
        return Some(Word::Path(whole));
    }
    let mut pattern = String::new();
    for letter in whole.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(if letter == A_NAME { '*' } else { letter });
    }
    Some(Word::Pattern(pattern))
}

/// What a call is about, with where links lead.
pub(super) fn of(
    call: &Invocation,
    real: Option<&[String]>,
    leads: Option<&[(Word, Vec<String>)]>,
    below: Option<&[String]>,
) -> Vec<Target> {
    let is_search = matches!(call, Invocation::Search { .. });
    if let Invocation::Shell { command, .. } = call {
        let Some(commands) = take_apart(command) else { return vec![Target::Line] };
        let moves = commands.iter().any(|command| changes_directory(command) && goes(command));
        let targets = commands.into_iter().map(|command| {
            let moves = moves || goes(&command);
            let real = leads.and_then(|leads| {
                let lead =
                    |word: &Word| leads.iter().find(|(known, _)| known == word).map(|(_, real)| real.clone());
                let real: Option<Vec<Vec<String>>> = files(&command).iter().map(lead).collect();
                Some(real?.concat())
            });
            let below = below.zip(real.as_ref()).map(|(below, real)| {
                let lies = |path: &&String| real.iter().any(|directory| is_below(path, directory));
                below.iter().filter(lies).cloned().collect()
            });
            Target::Command { command, moves, real, below }
        });
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

/// The files that a call gives another name, with where links lead.
pub(super) fn moved(call: &Invocation, real: Option<&[String]>) -> Vec<Target> {
    let Invocation::Patch { changes } = call else { return Vec::new() };
    let named = paths(call);
    let mut targets = Vec::new();
    for change in changes {
        let ChangeKind::Update { to: Some(_), .. } = &change.kind else { continue };
        let path = absolute(&change.path);
        let leads = named.iter().position(|known| *known == path).and_then(|at| real?.get(at));
        targets.push(leads.map_or(Target::SomeFile, |real| Target::File(absolute(real))));
        targets.push(Target::File(path));
    }
    targets
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

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
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
            Self::Command { command, moves, real, below } => {
                let words = named_by(command).map(|word| named(word, *moves, pattern));
                let leads = match real {
                    Some(real) => real.iter().map(|path| pattern.fits(path)).max().unwrap_or(Fit::No),
                    None => Fit::Maybe,
                };
                let hidden = if hides_files(command) { Fit::Maybe } else { Fit::No };
                let reached = match (real, below) {
                    _ if !reaches_below(command) => Fit::No,
                    (_, Some(below)) => below.iter().map(|path| pattern.fits(path)).max().unwrap_or(Fit::No),
                    (Some(real), None) => {
                        let any = |path: &String| {
                            pattern.fits(&format!("{}/{ANYTHING}", path.trim_end_matches('/')))
                        };
                        real.iter().map(any).max().unwrap_or(Fit::No)
                    }
                    (None, None) => Fit::Maybe,
                };
                // Whether it takes all that lies there is not known.
                let reached = reached.min(Fit::Maybe);
                words.max().unwrap_or(Fit::No).max(leads).max(hidden).max(reached)
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

    /// Whether a kind of commands that a person allowed has this in it.
    pub(super) fn is_of_kind(&self, kind: &str) -> Fit {
        match self {
            Self::Command { command, .. } => is_of_kind(command, kind),
            _ => Fit::No,
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

/// Whether a word of a command names a file. One that is not absolute is elsewhere in a line that goes there, what is not
/// known can lead up and down, and what lies below a process is where that process is.
fn named(word: &str, moves: bool, pattern: &Pattern) -> Fit {
    let fit = |name: &str| {
        let here = if name.starts_with(ANYTHING) { name.to_owned() } else { absolute(name) };
        let elsewhere = moves && !name.starts_with('/');
        let of_process = here.strip_prefix("/proc/").is_some_and(|below| below.contains('/'));
        let anywhere = elsewhere || of_process || name.contains(ANYTHING);
        let there = if anywhere { pattern.fits(&ANYTHING.to_string()) } else { Fit::No };
        pattern.fits(&here).max(there)
    };
    names(word).into_iter().map(fit).max().unwrap_or(Fit::No)
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
    let within = carried(command).map_or(Fit::No, |carried| feared(&carried, pattern));
    let pattern = Pattern::words(pattern);
    let mut texts = vec![text(command), command.words.join(" ")];
    if let (Some(program), Some((_, arguments))) = (program(&command.words), command.words.split_first()) {
        texts.push(format!("{program} {}", arguments.join(" ")).trim_end().to_owned());
        // Options of git itself do not hide what it does.
        if program == "git" {
            texts.push(format!("{program} {}", git_does(arguments).join(" ")).trim_end().to_owned());
        }
    }
    let fit = texts.iter().map(|text| pattern.fits(text)).max().unwrap_or(Fit::No).max(within);
    if runs_others(command) { fit.max(Fit::Maybe) } else { fit }
}

/// A pattern for commands like this one: the program with what it does and the options that it has, for programs that do
/// several things, or else exactly this command.
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
        && WITH_SUBCOMMANDS.contains(&program.as_str())
        && !rest.iter().any(|word| may_be_option(word) && unknown(word))
        && let Some(name) = rest.first().filter(is_name)
        && !OPEN_ENDED.contains(&name.as_str())
    {
        let options = rest.iter().filter(|word| is_option(word)).map(|word| literal(word) + " ");
        return Some(format!("{} {} {}*", literal(program), literal(name), options.collect::<String>()));
    }
    if command.words.iter().any(unknown) {
        return None;
    }
    Some(literal(&command.words.join(" ")))
}

fn is_option(word: &str) -> bool {
    word.starts_with('-')
}

fn may_be_option(word: &str) -> bool {
    word.starts_with(['-', ANYTHING, A_NAME])
}

/// Whether a command is of a kind that a person allowed. The star of a kind takes in words and no options: those can make a
/// command that looks write or run something. Only the ones that the approved command had may be there, in any place.
fn is_of_kind(command: &Simple, kind: &str) -> Fit {
    let Some(kind) = kind.strip_suffix(" *") else { return allowed(command, kind) };
    if runs_others(command) {
        return Fit::No;
    }
    let (options, names): (Vec<&str>, Vec<&str>) = kind.split(' ').partition(|word| is_option(word));
    let known = |word: &String| options.iter().any(|option| *option == literal(word));
    let is_strange = |word: &String| may_be_option(word) && !known(word);
    if command.words.iter().skip(1).any(is_strange) {
        return Fit::No;
    }
    let words = command.words.iter().filter(|word| !is_option(word)).cloned().collect();
    allowed(&Simple { words, ..command.clone() }, &format!("{} *", names.join(" ")))
}

/// Whether a command is one after which the others of its line are elsewhere.
fn changes_directory(command: &Simple) -> bool {
    command.words.iter().any(|word| matches!(word.as_str(), "cd" | "pushd" | "popd"))
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
        is("npm install a", "npm install *");
        // One script, target or subcommand says nothing of the others.
        for same in [
            "npm run build:all -- --x",
            "npm exec tsc",
            "pnpm dlx a",
            "uv run pytest",
            "make build",
            "just build",
            "rake build",
            "gradle build",
            "git stash list",
            "git remote show origin",
            "git config --get user.name",
            "git config user.name x",
            "gh pr view 1",
            "docker compose ps",
        ] {
            is(same, same);
        }
        is("git log --oneline", "git log --oneline *");
        is("cp a b", "cp a b");
        is("cargo test a$X", "cargo test *");
        is("ls", "ls");
        is("rm -rf target", "rm -rf target");
        is("./gradlew test", "./gradlew test");
        is("sudo rm x", "sudo rm x");
        is("echo 'a*'", "echo a\\*");
        for none in ["cargo test $X", "rm *", "A=1 make all", "echo a > b", "X=1", "rm $X"] {
            assert_eq!(kind(none), None, "{none}");
        }
    }

    #[test]
    fn a_kind_takes_in_words_and_no_options() {
        let fits = |kind: &str, line: &str| is_of_kind(&take_apart(line).unwrap()[0], kind) == Fit::Yes;
        for line in ["git log", "git log main", "git log --oneline", "git log main --oneline src/a.py"] {
            assert!(fits("git log --oneline *", line), "{line}");
        }
        for line in [
            "git log -p --output=src/a.py",
            "git log --oneline --output=src/a.py",
            "git log $X",
            "git log *",
            "git --no-pager log",
            "git logs",
            "git log > x",
            "A=1 git log",
        ] {
            assert!(!fits("git log --oneline *", line), "{line}");
        }
        assert!(fits("rm -rf target", "rm -rf target") && !fits("rm -rf target", "rm -rf target src"));
    }

    #[test]
    fn the_lists_are_in_order() {
        assert!(WITH_SUBCOMMANDS.is_sorted() && OPEN_ENDED.is_sorted());
    }
}
