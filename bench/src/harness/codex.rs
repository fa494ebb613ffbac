//! `codex exec`. Its own sandbox is off: where it cannot be built every command fails, and without it codex is fastest.

use std::path::Path;

use crate::harness::{Harness, installed};
use crate::peers::Missing;

pub(super) const PACKAGE: &str = "@openai/codex@0.166.0";
const NAME: &str = "codex exec";

pub(super) fn harness(dir: &Path, model: &str) -> anyhow::Result<Result<Harness, Missing>> {
    let Some(program) = installed("codex")? else { return Ok(Err(Harness::missing(NAME))) };
    let mut harness = Harness::new(NAME, program, dir)?;
    let config = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{model}\"\nwire_api = \"responses\"\n"
    );
    std::fs::write(harness.home.join("config.toml"), config)?;
    harness.arguments = vec!["exec", "--json", "--dangerously-bypass-approvals-and-sandbox"];
    harness.variables = vec![("CODEX_HOME", harness.home.display().to_string())];
    Ok(Ok(harness))
}
