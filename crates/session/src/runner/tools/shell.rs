//! `shell`: a command in the workspace. The process has the item's id, so that a restarted server finds it again.

use std::time::Duration;

use guest::{Exit, Process};
use protocol::event::Channel;

use super::{Done, Scope, ToolEnd};
use crate::failure::Failure;
use crate::process::{self, Ending, Live};
use crate::runner::deltas::{Deltas, Pace};
use crate::runner::output::Collector;

pub(super) async fn run(scope: &Scope, command: &str, timeout_ms: u64) -> Result<ToolEnd, Failure> {
    let asked = Duration::from_millis(timeout_ms);
    let timeout = if asked.is_zero() { scope.timeout } else { asked.min(scope.timeout) };
    let (guest, id) = (scope.sandbox.guest(), scope.item.to_string());
    failpoint::hit(failpoint::Point::ToolStarting);
    match sandbox::shell::start(guest, &id, command, Some(timeout)).await {
        Ok(process) => {
            failpoint::hit(failpoint::Point::ToolStarted);
            let collector = Collector::with_blob(scope.dir.clone(), blob(scope));
            follow(scope, process, collector).await
        }
        Err(guest::Error::NotFound(detail) | guest::Error::Refused(detail)) => {
            Ok(ToolEnd::Ended(Done::error(format!("The command could not be started: {detail}"))))
        }
        Err(error @ guest::Error::Unavailable(_)) => Err(error.into()),
    }
}

/// Name of the file for a long output.
pub(super) fn blob(scope: &Scope) -> String {
    format!("{}.out", scope.item)
}

/// Follows a command again that an earlier server began: what that one saw and what the guest still holds are joined.
pub(in crate::runner) async fn follow_again(scope: &Scope, process: Process) -> Result<ToolEnd, Failure> {
    let collector = Collector::resume(scope.dir.clone(), blob(scope)).await;
    follow(scope, process, collector).await
}

/// Follows the command to its end.
async fn follow(scope: &Scope, process: Process, mut collector: Collector) -> Result<ToolEnd, Failure> {
    let id = scope.item.to_string();
    let mut live = Live::new(
        Deltas::new(&scope.stream, scope.item, Channel::Stdout, Pace::Limited),
        Deltas::new(&scope.stream, scope.item, Channel::Stderr, Pace::Limited),
    );
    let ending =
        process::follow(&*scope.sandbox, &id, process, &mut collector, Some(&mut live), Some(&scope.stop))
            .await?;
    let mut text = collector.model_text(scope.most);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let exit = match ending {
        Ending::Exited(exit) => exit,
        Ending::Stopped => {
            text.push_str("(stopped)");
            return Ok(ToolEnd::Stopped(collector.finish(text).await));
        }
    };
    text.push_str(&how_it_ended(&exit));
    let is_error = exit.code != 0 || exit.timed_out;
    let output = collector.finish(text).await;
    Ok(ToolEnd::Ended(Done { is_error, exit_code: Some(exit.code), ..Done::of(output) }))
}

/// The words for the end of a command.
pub(super) fn how_it_ended(exit: &Exit) -> String {
    match (exit.timed_out, exit.signal) {
        (true, _) => "(the time limit ended the command: run it on less, give it a longer timeout_ms, or start what should \
                      go on with background)"
            .to_owned(),
        (false, Some(signal)) => format!("(ended by signal {signal}, exit code {})", exit.code),
        (false, None) => format!("(exit code {})", exit.code),
    }
}
