//! Chores of this repository: `cargo xtask tidy` checks what a machine can check.

mod project;
mod tidy;

use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy    check the rules of this repository";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(),
        ["help" | "--help" | "-h"] => {
            writeln!(std::io::stdout(), "{USAGE}")?;
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            writeln!(std::io::stderr(), "{USAGE}")?;
            Ok(ExitCode::from(2))
        }
    }
}
