//! `runc run`, what Docker, containerd and Kubernetes start containers with. The specification is the one that
//! `runc spec` writes: no user namespace as root, no system-call filter, no limits but the device list.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::tree::Tree;
use super::{ECHO, Missing, Peer};

const NAME: &str = "runc run";

pub(super) fn peer(dir: &Path, tree: &Tree) -> Result<Peer, Missing> {
    let Some(runc) = super::program("runc") else { return Err(Missing::package(NAME, "runc")) };
    let bundle = dir.join("bundle");
    make_bundle(&runc, &bundle, tree).map_err(|error| Missing::because(NAME, &error))?;
    let arguments: [OsString; 6] = [
        "--root".into(),
        dir.join("runc-state").into(),
        "run".into(),
        "--bundle".into(),
        bundle.into(),
        format!("slipway-bench-{}", std::process::id()).into(),
    ];
    Ok(Peer::new(NAME, runc, arguments))
}

fn make_bundle(runc: &Path, bundle: &Path, tree: &Tree) -> anyhow::Result<()> {
    std::fs::create_dir(bundle)?;
    let mut spec = Command::new(runc);
    spec.arg("spec").arg("--bundle").arg(bundle).stdin(Stdio::null()).stdout(Stdio::null());
    if !rustix::process::geteuid().is_root() {
        spec.arg("--rootless");
    }
    ensure!(spec.status()?.success(), "runc spec failed");
    let path = bundle.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    config["process"]["terminal"] = json!(false);
    config["process"]["args"] = json!(ECHO);
    config["root"] = json!({ "path": tree.dir, "readonly": true });
    let mounts = config["mounts"].as_array_mut().context("runc spec wrote no mounts")?;
    for path in &tree.shown {
        mounts
            .push(json!({ "destination": path, "source": path, "type": "bind", "options": ["rbind", "ro"] }));
    }
    std::fs::write(&path, serde_json::to_vec(&config)?)?;
    Ok(())
}
