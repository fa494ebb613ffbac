//! The performance suite. Each row is a ratio against a named alternative in the same run, because a number alone tells
//! more of the machine than of the program.

mod fixture;
mod harness;
mod install;
mod interrupt;
mod life;
mod load;
mod machine;
mod peers;
mod process;
mod report;
mod rows;
mod served;
mod stats;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::interrupt::{Interrupt, Interrupted};
use crate::machine::Machine;
use crate::report::{Report, Row};
use crate::rows::{Name, Settings, Skipped};

/// Measure, and print a table: medians of interleaved rounds, ours beside alternatives of the same run.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Rows to measure [default: all]
    #[arg(value_name = "ROW")]
    rows: Vec<Name>,
    /// Write the whole result, every sample too, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Rounds of each row [default: the row's own]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// List the rows
    #[arg(long)]
    list: bool,
    /// Install the alternatives that are missing, with apt-get and npm
    #[arg(long)]
    install: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    // Before there is a second thread: the floor of sandbox-start is this program, run again.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == peers::bare::ARGUMENT) {
        return peers::bare::main(arguments.collect());
    }
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == peers::plain_server::ARGUMENT) {
        return peers::plain_server::main(arguments.collect());
    }
    let mut arguments = std::env::args().skip(1);
    if arguments.next().is_some_and(|first| first == load::ARGUMENT) {
        return load::main(&arguments.next().unwrap_or_default());
    }
    let arguments = Arguments::parse();
    raise_open_files()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // A task, as everything is that the server does: what the first thread waits for is told to it by another.
    let ran = runtime.block_on(runtime.spawn(run(arguments)));
    match ran.unwrap_or_else(|error| Err(error.into())) {
        Err(error) if error.is::<Interrupted>() => Ok(ExitCode::from(interrupt::EXIT_CODE)),
        other => other,
    }
}

/// The rows with a thousand sockets need more files than a shell usually allows.
fn raise_open_files() -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut stdout = std::io::stdout();
    if arguments.list {
        for row in Name::all() {
            writeln!(stdout, "{:16} {}", row.as_str(), row.about())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.install {
        install::missing()?;
    }
    let settings = Settings { rounds: arguments.rounds, interrupt: Interrupt::listen()? };
    let mut report = Report { machine: Machine::look(), rows: Vec::new() };
    writeln!(stdout, "{}", report.machine.text())?;
    if cfg!(debug_assertions) {
        writeln!(stdout, "This is a debug build: its numbers mean nothing. Use cargo run --release.\n")?;
    }
    let wanted = if arguments.rows.is_empty() { Name::all() } else { &arguments.rows };
    let mut code = ExitCode::SUCCESS;
    for row in wanted {
        writeln!(std::io::stderr(), "measuring {}: {}", row.as_str(), row.about())?;
        let (tables, problem) = match row.run(&settings).await {
            // A child that was interrupted together with us is no failure of the row.
            Err(_) if settings.interrupt.came() => return Err(Interrupted.into()),
            Err(error) if error.is::<Skipped>() => (Vec::new(), Some(error.to_string())),
            Err(error) => {
                code = ExitCode::FAILURE;
                (Vec::new(), Some(format!("failed: {error:#}")))
            }
            Ok(tables) => (tables, None),
        };
        let row = Row { name: row.as_str(), tables, problem };
        writeln!(stdout, "{}", row.text())?;
        report.rows.push(row);
    }
    if let Some(path) = arguments.json {
        let json = serde_json::to_vec_pretty(&report)?;
        std::fs::write(&path, json).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(code)
}
