//! `shell` in the background: a command that goes on when the call has ended. It has the item's id in the sandbox, so that
//! whoever comes later, also another server, finds it.

use std::time::Duration;

use guest::{Exit, Process};
use protocol::event::Channel;
use protocol::item::BackgroundProcess;

use super::shell::{blob, how_it_ended};
use super::{Done, Scope, ToolEnd};
use crate::failure::Failure;
use crate::process::Live;
use crate::runner::deltas::{Deltas, Pace};
use crate::runner::output::Collector;
use crate::watch::{Look, Seen};

/// How long a command that was just started is looked at: most that cannot run end within this time.
const EARLY: Duration = Duration::from_secs(1);
/// Most commands that run in the background at once.
const MOST: usize = 16;

pub(super) async fn run(scope: &Scope, command: &str, timeout_ms: u64) -> Result<ToolEnd, Failure> {
    let running: Vec<String> = scope.stream.with_state(|state| {
        let all = state.background().into_iter();
        all.filter(|(known, here)| *here && known.running).map(|(known, _)| known.id).collect()
    });
    if running.len() >= MOST {
        return Ok(ToolEnd::Ended(Done::error(format!(
            "Not started: {MOST} commands run in the background already ({}). Look which have ended, and end those that are \
             not needed, with process.",
            running.join(", ")
        ))));
    }
    let limit = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
    let mut spec = sandbox::shell::command(command, limit);
    spec.stdin = true;
    failpoint::hit(failpoint::Point::ToolStarting);
    match scope.sandbox.guest().start(&scope.item.to_string(), &spec).await {
        Ok(process) => {
            failpoint::hit(failpoint::Point::ToolStarted);
            look(scope, process).await
        }
        Err(guest::Error::NotFound(detail) | guest::Error::Refused(detail)) => {
            Ok(ToolEnd::Ended(Done::error(format!("The command could not be started: {detail}"))))
        }
        Err(error @ guest::Error::Unavailable(_)) => Err(error.into()),
    }
}

/// Looks at a command that was just started. A stop ends it: nobody was told yet that it runs.
pub(in crate::runner) async fn look(scope: &Scope, process: Process) -> Result<ToolEnd, Failure> {
    let name = scope.item.to_string();
    let mut look = begin(scope, name.clone(), 0);
    let seen = look.watch(process, EARLY, Some(&scope.stop)).await?;
    let mark = |seen: u64, running: bool| {
        let id = scope.stream.with_state(|state| state.next_background());
        BackgroundProcess { id, item: scope.item, seen, running }
    };
    match seen {
        Seen::Ended(exit) => Ok(ended(scope, look, &exit).await),
        Seen::Stopped => {
            crate::process::kill(&*scope.sandbox, &name).await;
            let text = text(&mut look, scope.most, "(stopped)");
            Ok(ToolEnd::Stopped(look.collector.finish(text).await))
        }
        Seen::Runs => {
            let mark = mark(look.seen(), true);
            let how = format!(
                "(it runs in the background as {}: see what it prints, wait for it, write to it or end it with process)",
                mark.id
            );
            let text = text(&mut look, scope.most, &how);
            let output = look.collector.finish(text).await;
            Ok(ToolEnd::Ended(Done { process: Some(Box::new(mark)), ..Done::of(output) }))
        }
    }
}

/// One that has ended already was like any other.
async fn ended(scope: &Scope, mut look: Look<'_>, exit: &Exit) -> ToolEnd {
    let text = text(&mut look, scope.most, &how_it_ended(exit));
    let is_error = exit.code != 0 || exit.timed_out;
    let output = look.collector.finish(text).await;
    ToolEnd::Ended(Done { is_error, exit_code: Some(exit.code), ..Done::of(output) })
}

/// A look at a command from this byte of its output on.
pub(super) fn begin<'a>(scope: &'a Scope, id: String, from: u64) -> Look<'a> {
    let deltas = |channel| Deltas::new(&scope.stream, scope.item, channel, Pace::Limited);
    Look {
        sandbox: &*scope.sandbox,
        id,
        from,
        collector: Collector::with_blob(scope.dir.clone(), blob(scope)),
        live: Live::new(deltas(Channel::Stdout), deltas(Channel::Stderr)),
    }
}

/// What the model reads of a look.
pub(super) fn text(look: &mut Look<'_>, most: usize, how: &str) -> String {
    let mut text = look.collector.model_text(most);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(how);
    text
}
