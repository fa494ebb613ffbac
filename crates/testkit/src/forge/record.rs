//! What was asked and answered, written down for whoever compares it with the forges' published descriptions
//! (`scripts/check-forges.py`).

use std::io::Write;

use serde_json::{Value, json};

use super::asked::{Asked, Decided};
use super::server::Face;

/// Names the directory that it is written into; nothing is where it is unset.
const VARIABLE: &str = "SLIPWAY_FORGE_RECORD";

/// Writes down a request to an API with its answer, a line of JSON in a file for each process.
pub(super) fn record(face: Face, asked: &Asked<'_>, decided: &Decided) {
    let forge = match face {
        Face::GitHub => "github",
        Face::GitLab => "gitlab",
        Face::Gitea => "gitea",
        Face::Git | Face::Device | Face::Log | Face::Receiver | Face::None => return,
    };
    let Some(directory) = std::env::var_os(VARIABLE) else { return };
    let body: Value = serde_json::from_slice(asked.body).unwrap_or_default();
    let line = json!({
        "forge": forge, "method": asked.method(), "path": asked.path, "query": asked.query, "body": body,
        "status": decided.status, "answer": decided.body,
    });
    let file = std::path::Path::new(&directory).join(format!("{}.jsonl", std::process::id()));
    let written = std::fs::File::options()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    // A comparison that reads nothing says so.
    drop(written);
}
