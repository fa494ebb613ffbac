//! `slipway completions`: for the shell.

use clap::CommandFactory;

use super::Arguments;
use crate::exit::Exit;

/// Print completions, for example: slipway completions bash > ~/.local/share/bash-completion/completions/slipway
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "slipway", &mut text);
        crate::render::print::text(&String::from_utf8(text)?)?;
        Ok(Exit::Done)
    }
}
