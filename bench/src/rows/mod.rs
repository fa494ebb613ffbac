//! The rows of the suite, one file each. A row interleaves its rounds (ours, theirs, ours, theirs, …), so that what else
//! happens on the machine meets all of them alike.

mod appends;
mod density;
mod exec;
mod fan_out;
mod first_token;
mod idle_sockets;
mod image_start;
mod loop_overhead;
mod noisy;
mod pool_claim;
mod restart;
mod sandbox_memory;
mod sandbox_start;
mod snapshot;
mod token_stream;
mod turn;

use std::time::Duration;

use clap::ValueEnum;

use crate::interrupt::Interrupt;
use crate::report::Table;

/// Which row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Sandbox: create to the first byte of output, and until nothing is left
    SandboxStart,
    /// Image: to the first byte of output, also with 50,000 files more in it
    ImageStart,
    /// Warm pool: a claimed sandbox against a fresh one
    PoolClaim,
    /// Snapshot: taken live, gone on from, forked
    Snapshot,
    /// Sandbox: a command in one that runs
    Exec,
    /// Agent loop: what we add to each step of a scripted turn of 20
    LoopOverhead,
    /// Turn: 20 steps from the shell, against other harnesses
    Turn,
    /// Model: from the prompt to the first token, against a bare client
    FirstToken,
    /// Model: 100 turns at once, 50 tokens a second each
    TokenStream,
    /// Log: durable appends, of one session and of 200
    Appends,
    /// Feed: 100 sessions with three readers each
    FanOut,
    /// Feed: one noisy session beside others
    Noisy,
    /// Feed: 1,000 idle sessions with a socket each
    IdleSockets,
    /// Sandbox: memory of an idle one
    SandboxMemory,
    // Last, because the kernel is busy for seconds with what so many sandboxes leave it to clean up.
    /// Sandbox: 300 at once, memory and the start of the last
    Density,
    /// Restart: with 1,000 turns under way, and with 1,000 sessions that are done
    Restart,
}

/// How a row is run.
pub(crate) struct Settings {
    /// Rounds, where the row's own number is not wanted.
    pub(crate) rounds: Option<usize>,
    pub(crate) interrupt: Interrupt,
}

/// The row cannot be measured here, and why; the rest of the run is as good without it.
#[derive(Debug)]
pub(crate) struct Skipped(pub(crate) &'static str);

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Skipped {}

impl Settings {
    fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(usual).max(1)
    }
}

impl Name {
    /// Every row, in the order of a run.
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// What it measures.
    pub(crate) fn about(self) -> String {
        let value = self.to_possible_value();
        value.and_then(|value| value.get_help().map(ToString::to_string)).unwrap_or_default()
    }

    /// As it is written on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::SandboxStart => "sandbox-start",
            Self::ImageStart => "image-start",
            Self::PoolClaim => "pool-claim",
            Self::Snapshot => "snapshot",
            Self::Exec => "exec",
            Self::Density => "density",
            Self::Appends => "appends",
            Self::FanOut => "fan-out",
            Self::Noisy => "noisy",
            Self::IdleSockets => "idle-sockets",
            Self::Restart => "restart",
            Self::LoopOverhead => "loop-overhead",
            Self::Turn => "turn",
            Self::FirstToken => "first-token",
            Self::TokenStream => "token-stream",
            Self::SandboxMemory => "sandbox-memory",
        }
    }

    /// Measures.
    pub(crate) async fn run(self, settings: &Settings) -> anyhow::Result<Vec<Table>> {
        match self {
            Self::SandboxStart => sandbox_start::run(settings).await,
            Self::ImageStart => image_start::run(settings).await,
            Self::PoolClaim => pool_claim::run(settings).await,
            Self::Snapshot => snapshot::run(settings).await,
            Self::Exec => exec::run(settings).await,
            Self::Density => density::run(settings).await,
            Self::Appends => appends::run(settings).await,
            Self::FanOut => fan_out::run(settings).await,
            Self::Noisy => noisy::run(settings).await,
            Self::IdleSockets => idle_sockets::run(settings).await,
            Self::Restart => restart::run(settings).await,
            Self::LoopOverhead => loop_overhead::run(settings).await,
            Self::Turn => turn::run(settings).await,
            Self::FirstToken => first_token::run(settings).await,
            Self::TokenStream => token_stream::run(settings).await,
            Self::SandboxMemory => sandbox_memory::run(settings).await,
        }
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_on_the_command_line_and_every_row_says_what_it_measures() {
        for row in Name::all() {
            assert_eq!(Name::from_str(row.as_str(), false), Ok(*row));
            assert!(!row.about().is_empty());
        }
    }
}
