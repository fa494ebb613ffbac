//! `process`: what the session's calls left running in the background. Which there are and how much of them the model has
//! seen is a fold over the log; whether they still run only the sandbox knows.

use std::time::Duration;

use bytes::Bytes;
use guest::ProcessState;
use protocol::item::BackgroundProcess;

use super::background::{begin, text};
use super::shell::how_it_ended;
use super::{Done, Scope, ToolEnd};
use crate::failure::Failure;
use crate::state::Background;
use crate::watch::Seen;

/// How long a program may take to read what is written to it.
const READS: Duration = Duration::from_secs(10);
/// Most characters of a command in a list.
const WORDS: usize = 120;

/// What is wanted of one.
pub(super) struct Wanted {
    pub(super) stdin: Option<String>,
    pub(super) wait: Duration,
    pub(super) kill: bool,
}

pub(super) async fn run(scope: &Scope, id: Option<&str>, wanted: Wanted) -> Result<ToolEnd, Failure> {
    let all = scope.stream.with_state(|state| state.background());
    let Some(id) = id else { return Ok(ToolEnd::Ended(list(scope, &all).await?)) };
    match all.into_iter().find(|(known, _)| known.id == id) {
        Some((known, true)) => one(scope, known, wanted).await,
        Some((known, false)) => Ok(ToolEnd::Ended(gone(&known, "the sandbox that it ran in is gone"))),
        None => Ok(ToolEnd::Ended(Done::error(format!(
            "There is no process {id:?}. Without id, process lists what there is; shell starts one with background."
        )))),
    }
}

async fn one(scope: &Scope, known: Background, wanted: Wanted) -> Result<ToolEnd, Failure> {
    let guest = scope.sandbox.guest();
    let name = known.item.to_string();
    let process = match guest.attach(&name, known.seen).await {
        Ok(process) => process,
        Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) if !known.running => {
            return Ok(ToolEnd::Ended(gone(&known, "it has ended, and you have seen how")));
        }
        Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => {
            return Ok(ToolEnd::Ended(gone(&known, "it has ended, and what it printed is gone")));
        }
        Err(error @ guest::Error::Unavailable(_)) => return Err(error.into()),
    };
    if let Some(input) = wanted.stdin
        && let Some(why) = write(scope, &name, input).await?
    {
        return Ok(ToolEnd::Ended(Done::error(format!("{} did not take the input: {why}.", known.id))));
    }
    let mut look = begin(scope, name.clone(), known.seen);
    let seen = match wanted.kill {
        true => look.end(process).await?,
        false => look.watch(process, wanted.wait, Some(&scope.stop)).await?,
    };
    let nothing = look.collector.total() == 0;
    let mut mark = BackgroundProcess { id: known.id, item: known.item, seen: look.seen(), running: true };
    let (how, code) = match seen {
        Seen::Stopped => {
            let text = text(&mut look, scope.most, "(stopped; the process was left as it is)");
            return Ok(ToolEnd::Stopped(look.collector.finish(text).await));
        }
        Seen::Runs => {
            let ran = crate::process::ran(&*scope.sandbox, &name).await.as_secs();
            let words = if wanted.kill { "does not end" } else { "still runs" };
            (format!("({} {words}, after {ran} s)", mark.id), None)
        }
        Seen::Ended(exit) => {
            mark.running = false;
            (format!("({} has ended) {}", mark.id, how_it_ended(&exit)), Some(exit.code))
        }
    };
    let how = if nothing { format!("(nothing new was printed)\n{how}") } else { how };
    let text = text(&mut look, scope.most, &how);
    let output = look.collector.finish(text).await;
    // Who ends a process gets what was wanted, whatever its code says.
    let is_error = !wanted.kill && code.is_some_and(|code| code != 0);
    Ok(ToolEnd::Ended(Done { is_error, exit_code: code, process: Some(Box::new(mark)), ..Done::of(output) }))
}

/// Writes to a program; gives why it did not take it.
async fn write(scope: &Scope, name: &str, input: String) -> Result<Option<String>, Failure> {
    let written = scope.sandbox.guest().write_stdin(name, Bytes::from(input));
    match tokio::time::timeout(READS, written).await {
        Ok(Ok(())) => Ok(None),
        Ok(Err(guest::Error::NotFound(why) | guest::Error::Refused(why))) => Ok(Some(why)),
        Ok(Err(error @ guest::Error::Unavailable(_))) => Err(error.into()),
        Err(_) => Ok(Some(format!("it has not read all of it within {} s", READS.as_secs()))),
    }
}

/// What is said of one that is not there any more.
fn gone(known: &Background, why: &str) -> Done {
    let (id, item, seen) = (known.id.clone(), known.item, known.seen);
    let command = short(&known.command);
    let text = format!("{id} (`{command}`) does not run any more: {why}. Start it again if you need it.");
    let mark = BackgroundProcess { id, item, seen, running: false };
    Done { process: Some(Box::new(mark)), ..Done::error(text) }
}

/// A line for each.
async fn list(scope: &Scope, all: &[(Background, bool)]) -> Result<Done, Failure> {
    if all.is_empty() {
        return Ok(Done::ok("Nothing was started in the background."));
    }
    let states = scope.sandbox.guest().processes().await?;
    let lines = all.iter().map(|(known, here)| {
        let name = known.item.to_string();
        let state = states.iter().find(|state| *here && state.id == name);
        format!("{}  {}  {}", known.id, state_of(known, state), short(&known.command))
    });
    Ok(Done::ok(lines.collect::<Vec<_>>().join("\n")))
}

fn state_of(known: &Background, state: Option<&ProcessState>) -> String {
    match state {
        None if known.running => "is gone".to_owned(),
        None => "has ended".to_owned(),
        Some(state) => {
            let new = state.output.saturating_sub(known.seen);
            let how = match &state.exit {
                Some(exit) => format!("has ended with exit code {}", exit.code),
                None => format!("runs for {} s", state.ran_ms.unwrap_or_default() / 1000),
            };
            format!("{how}, {new} new bytes")
        }
    }
}

fn short(command: &str) -> String {
    let line = command.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut words: String = line.chars().take(WORDS).collect();
    if words.len() < line.len() {
        words.push('…');
    }
    words
}
