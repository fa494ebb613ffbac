//! What is remembered of a call, and when two of them are the same.

use std::hash::{DefaultHasher, Hash, Hasher};

use protocol::EditFormat;
use protocol::chat::{Call, ToolResult};

use crate::policy;
use crate::tools::{self, Invocation};

/// Characters of a call that a message shows.
const SHOWN: usize = 200;
/// What stands before the name of a file with the rest of an output.
const PLACE: &str = "output:";

/// How much two calls have in common, from less to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alike {
    /// The same call, whatever it gave.
    Call,
    /// With the same result but for its numbers: durations, times and addresses say nothing new.
    Shape,
    /// With the same result to the letter.
    Result,
}

impl Alike {
    pub(super) const ALL: [Self; 3] = [Self::Result, Self::Shape, Self::Call];
}

/// What a call can have changed, so that another one has its reason to be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Nothing,
    /// It ran something, which may have changed anything or nothing.
    Perhaps,
    /// It wrote a file.
    File,
}

/// A call with its result.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) tool: String,
    /// Its arguments, as far as a message shows them.
    shown: String,
    /// The call, without what makes no difference. Calls and results can be large and are only compared.
    pub(super) call: u64,
    result: u64,
    shape: u64,
    pub(super) change: Change,
    /// Whether it waits for something by itself.
    pub(super) waits: bool,
    /// What it has in common with the one before it that is most like it.
    pub(super) known: Option<Alike>,
}

impl Seen {
    pub(super) fn new(call: &Call, result: &ToolResult) -> Self {
        let text = without_places(&result.text);
        let parsed = tools::parse(EditFormat::default(), &call.tool, &call.arguments).ok();
        let change = match () {
            () if tools::changes_files(&call.tool) && !result.is_error => Change::File,
            () if policy::is_action(&call.tool, &tools::recorded_input(&call.arguments)) => Change::Perhaps,
            () => Change::Nothing,
        };
        Self {
            tool: call.tool.clone(),
            shown: shown(&call.arguments),
            call: identity(call),
            result: hash(&(&text, result.is_error)),
            shape: hash(&(without_numbers(&text), result.is_error)),
            change,
            waits: parsed.as_ref().is_some_and(waits),
            known: None,
        }
    }

    /// What is compared where so much must be the same.
    pub(super) fn compared(&self, alike: Alike) -> (u64, u64) {
        let result = match alike {
            Alike::Call => 0,
            Alike::Shape => self.shape,
            Alike::Result => self.result,
        };
        (self.call, result)
    }

    /// What it has in common with another one.
    pub(super) fn alike(&self, other: &Self) -> Option<Alike> {
        Alike::ALL.into_iter().find(|alike| self.compared(*alike) == other.compared(*alike))
    }

    pub(super) fn show(&self) -> String {
        format!("{} {}", self.tool, self.shown)
    }
}

/// A number for what a call does, the same for calls that do the same.
pub(super) fn identity(call: &Call) -> u64 {
    hash(&(&call.tool, essence(call)))
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn shown(arguments: &str) -> String {
    let mut shown: String = arguments.chars().take(SHOWN).collect();
    if shown.len() < arguments.len() {
        shown.push('…');
    }
    shown
}

/// Whether a call waits for something that goes on elsewhere, so that it may well have to be made again. What a server of others is
/// asked may give the next of something each time.
fn waits(call: &Invocation) -> bool {
    match call {
        Invocation::Shell { command, .. } => {
            let words = command.split(|letter: char| !letter.is_ascii_alphanumeric());
            words.into_iter().any(|word| ["sleep", "wait", "watch"].contains(&word))
        }
        Invocation::Process { wait_ms, .. } => *wait_ms > 0,
        Invocation::Mcp { .. } => true,
        _ => false,
    }
}

/// What a call does. A command is the same with another time limit or another comment.
fn essence(call: &Call) -> String {
    match tools::parse(EditFormat::default(), &call.tool, &call.arguments) {
        Ok(Invocation::Shell { command, .. }) => {
            command.lines().map(without_comment).collect::<Vec<_>>().join("\n").trim().to_owned()
        }
        // Where the rest of an output is read that came before, each one has another name.
        Ok(_) | Err(_) => without_places(&call.arguments),
    }
}

/// A line of a command without the comment at its end.
pub(super) fn without_comment(line: &str) -> &str {
    let quoted = |before: &str| ['"', '\''].iter().any(|quote| before.matches(*quote).count() % 2 == 1);
    let begins = |at: &usize| {
        let before = &line[..*at];
        (before.is_empty() || before.ends_with(char::is_whitespace)) && !quoted(before)
    };
    let comment = line.match_indices('#').map(|(at, _)| at).find(begins);
    line[..comment.unwrap_or(line.len())].trim_end()
}

/// A text without the names of files in which the rest of an output is kept: each output has its own, also where it is the same.
fn without_places(text: &str) -> String {
    let mut parts = text.split(PLACE);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(PLACE);
        kept.push_str(
            part.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_'),
        );
    }
    kept
}

/// A text with `0` in the place of each number, and of each word that is a hash.
pub(super) fn without_numbers(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if end == 0 {
            shape.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(end);
        let numbered = word.contains(|letter: char| letter.is_ascii_digit());
        if numbered && word.len() > 6 && word.chars().all(|letter| letter.is_ascii_hexdigit()) {
            shape.push('0');
        } else {
            let mut in_number = false;
            for letter in word.chars() {
                let digit = letter.is_ascii_digit();
                if !(digit && in_number) {
                    shape.push(if digit { '0' } else { letter });
                }
                in_number = digit;
            }
        }
        rest = after;
    }
    shape
}
