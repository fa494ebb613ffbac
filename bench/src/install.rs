//! `--install`: gets the alternatives that are missing, from the system's own packages and from npm's. Never done without
//! being asked.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::{harness, peers};

/// Programs and the packages they come in.
const PACKAGES: [(&str, &str); 5] = [
    ("runc", "runc"),
    ("bwrap", "bubblewrap"),
    ("unshare", "util-linux"),
    ("dockerd", "docker.io"),
    ("mmdebstrap", "mmdebstrap"),
];

/// Installs what is missing; says so and goes on where it cannot.
pub(crate) fn missing() -> anyhow::Result<()> {
    system()?;
    harnesses()
}

/// Into a directory of their own, outside of this repository and of the system.
fn harnesses() -> anyhow::Result<()> {
    let mut stderr = std::io::stderr();
    if harness::installed("codex")?.is_some() && harness::installed("opencode")?.is_some() {
        return Ok(());
    }
    let names = harness::PACKAGES.join(" ");
    let Some(npm) = peers::program("npm") else {
        return Ok(writeln!(stderr, "not installed: {names} (with npm, --install can do it)")?);
    };
    let dir = harness::directory()?;
    writeln!(stderr, "installing {names} into {}", dir.display())?;
    std::fs::create_dir_all(&dir)?;
    let mut command = Command::new(npm);
    command
        .args(["install", "--no-save", "--no-fund", "--no-audit", "--loglevel=error", "--prefix"])
        .arg(&dir);
    command.args(harness::PACKAGES).current_dir(&dir);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if !status.success() {
        writeln!(stderr, "npm could not install {names} ({status}); their lines stay empty")?;
    }
    Ok(())
}

fn system() -> std::io::Result<()> {
    let packages: Vec<&str> = PACKAGES
        .iter()
        .filter(|(program, _)| peers::program(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    if packages.is_empty() {
        return Ok(());
    }
    let mut stderr = std::io::stderr();
    let names = packages.join(" ");
    if !rustix::process::geteuid().is_root() || peers::program("apt-get").is_none() {
        return writeln!(
            stderr,
            "not installed: {names} (as root, on Debian or Ubuntu, --install can do it)"
        );
    }
    writeln!(stderr, "installing {names}")?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["--quiet", "--yes"]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        // What apt-get says is no result of ours.
        command.stdin(Stdio::null()).stdout(Stdio::null()).status()
    };
    apt(&["update"])?;
    let mut install = vec!["install", "--no-install-recommends"];
    install.extend(&packages);
    let status = apt(&install)?;
    if !status.success() {
        writeln!(stderr, "apt-get could not install {names} ({status}); their lines stay empty")?;
    }
    Ok(())
}
