//! The `slipway` program: reads the command line, runs one command, and turns its end into an exit code.
//!
//! Data goes to standard output, progress and talk to standard error; `--json` makes the data JSON. One file for each
//! command is in `commands`; what they share is the connection to a server (`connect`) and the terminal (`render`).

mod api;
mod background;
mod commands;
mod config;
mod connect;
mod demo;
mod exit;
mod interrupt;
mod memory;
mod node;
mod render;

use clap::Parser;

/// What the program is called with to read the files of a repository for its map, by itself only.
pub(crate) const READ_SYMBOLS: &str = "read-symbols";

fn main() -> std::process::ExitCode {
    // Before there are threads: what is given up then is given up by each of them on its own.
    if std::env::args_os().nth(1).is_some_and(|word| word == READ_SYMBOLS) {
        return read_symbols();
    }
    let arguments = commands::Arguments::parse();
    render::log::start(arguments.global.verbose);
    // Fails only when a provider is installed already, which is as good.
    let _installed_already = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&anyhow::anyhow!("cannot start: {error}")),
    };
    let result = runtime.block_on(commands::run(arguments));
    // What still reads standard input must not keep the program from ending.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    match result {
        Ok(code) => code.into(),
        Err(error) => exit::report(&error),
    }
}

/// Reads files from standard input in a process that can do nothing else.
fn read_symbols() -> std::process::ExitCode {
    let done =
        repomap::confine().and_then(|()| repomap::serve(std::io::stdin().lock(), std::io::stdout().lock()));
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            // To look what kind of a terminal there is would be one call of the system too many.
            let _nobody_listens =
                std::io::Write::write_all(&mut std::io::stderr(), format!("error: {error}\n").as_bytes());
            std::process::ExitCode::FAILURE
        }
    }
}
