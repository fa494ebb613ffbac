//! `opencode run`, which has no sandbox.

use std::path::Path;

use serde_json::json;

use crate::harness::{Harness, installed};
use crate::peers::Missing;

pub(super) const PACKAGE: &str = "opencode-ai@1.18.33";
const NAME: &str = "opencode run";

pub(super) fn harness(dir: &Path, model: &str) -> anyhow::Result<Result<Harness, Missing>> {
    let Some(program) = installed("opencode")? else { return Ok(Err(Harness::missing(NAME))) };
    let mut harness = Harness::new(NAME, program, dir)?;
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": model, "apiKey": "none" },
        "models": { "scripted": {} },
    });
    let config = json!({
        "model": "local/scripted",
        "small_model": "local/scripted",
        "enabled_providers": ["local"],
        "provider": { "local": provider },
        "share": "disabled",
        "autoupdate": false,
    });
    std::fs::write(harness.repository.join("opencode.json"), config.to_string())?;
    harness.arguments = vec!["run", "--format", "json"];
    // It would look for newer versions and fetch lists otherwise, which is no part of a turn.
    let off =
        ["OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD"];
    harness.variables = off.map(|name| (name, "1".to_owned())).into();
    Ok(Ok(harness))
}
