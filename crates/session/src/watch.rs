//! Looking at a command that runs in the background: its new output, for a while or until it ends, and nothing is done to
//! it by that.

use std::time::Duration;

use guest::{Exit, Output, Process};
use sandbox::Sandbox;
use tokio::time::Instant;

use crate::intake::Intake;
use crate::process::{self, CONT, GRACE, LAST, Live, TERM};
use crate::runner::output::Collector;
use crate::stop::Stop;

/// How much longer than was asked for it may take to be given what was there already.
const CATCH_UP: Duration = Duration::from_secs(30);

/// How a look ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The command has ended.
    Ended(Exit),
    /// It runs.
    Runs,
    /// The turn was stopped before.
    Stopped,
}

/// What a look gave.
pub(crate) struct Look<'a> {
    pub(crate) sandbox: &'a dyn Sandbox,
    /// The command's name in the sandbox.
    pub(crate) id: String,
    /// Where in its output the look begins.
    pub(crate) from: u64,
    /// Takes what is new.
    pub(crate) collector: Collector,
    pub(crate) live: Live,
}

impl Look<'_> {
    /// Looks until the command ends or the time is over; what it has printed by now is taken in any case.
    pub(crate) async fn watch(
        &mut self,
        process: Process,
        time: Duration,
        stop: Option<&Stop>,
    ) -> Result<Seen, guest::Error> {
        let now = Instant::now();
        let printed = self.printed().await?;
        let (deadline, patience) = (now + time, now + time + CATCH_UP);
        let (mut pieces, _pump) = process::pump(self.sandbox.guest().clone(), self.id.clone(), process);
        let (mut intake, mut more_at) = (Intake::new(now), None);
        loop {
            let flush = self.live.due();
            let enough = if self.seen() >= printed { deadline } else { patience };
            tokio::select! {
                biased;
                () = given(stop) => return Ok(Seen::Stopped),
                () = process::until(flush) => self.live.flush(),
                () = process::until(more_at), if more_at.is_some() => more_at = None,
                piece = pieces.recv(), if more_at.is_none() => {
                    let lost = || guest::Error::Unavailable("its output broke off".to_owned());
                    match piece.unwrap_or_else(|| Err(lost()))? {
                        Output::Exit(exit) => {
                            self.live.flush();
                            return Ok(Seen::Ended(exit));
                        }
                        Output::Stdout { offset, data } => {
                            let at = self.take(offset, &data).await;
                            self.live.at(at, data.len());
                            self.live.stdout.push_bytes(&data);
                            more_at = intake.took(data.len(), Instant::now());
                        }
                        Output::Stderr { offset, data } => {
                            let at = self.take(offset, &data).await;
                            self.live.at(at, data.len());
                            self.live.stderr.push_bytes(&data);
                            more_at = intake.took(data.len(), Instant::now());
                        }
                    }
                }
                () = tokio::time::sleep_until(enough) => {
                    self.live.flush();
                    return Ok(Seen::Runs);
                }
            }
        }
    }

    /// Ends the command: it is asked to, and killed after a grace, with all that it started.
    pub(crate) async fn end(&mut self, process: Process) -> Result<Seen, guest::Error> {
        let guest = self.sandbox.guest();
        process::signal(guest, &self.id, TERM).await;
        process::signal(guest, &self.id, CONT).await;
        let deadline = Instant::now() + GRACE;
        let seen = self.watch(process, GRACE, None).await?;
        process::end_tree(self.sandbox.guest(), &self.id, deadline).await;
        if seen != Seen::Runs {
            return Ok(seen);
        }
        let again = self.sandbox.guest().attach(&self.id, self.seen()).await?;
        self.watch(again, LAST, None).await
    }

    async fn take(&mut self, offset: u64, data: &[u8]) -> u64 {
        let at = offset.saturating_sub(self.from);
        self.collector.push(at, data).await;
        at
    }

    /// Bytes of the command's output that were taken in, with those before the look.
    pub(crate) fn seen(&self) -> u64 {
        self.from + self.collector.total()
    }

    /// Bytes that it has printed by now.
    async fn printed(&self) -> Result<u64, guest::Error> {
        let all = self.sandbox.guest().processes().await?;
        Ok(all.into_iter().find(|known| known.id == self.id).map_or(0, |known| known.output))
    }
}

async fn given(stop: Option<&Stop>) {
    match stop {
        Some(stop) => stop.given().await,
        None => std::future::pending().await,
    }
}
