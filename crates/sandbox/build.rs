//! Builds the launcher (with the guest daemon inside) as a small static program and hands its path to the crate, which
//! embeds it. A nested cargo with a target directory of its own keeps `cargo build` the only command there is.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    if let Err(message) = build() {
        println!("cargo::error={message}");
    }
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn build() -> Result<(), String> {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let crates = manifest.parent().ok_or("the crate has no parent directory")?.to_owned();
    for part in ["launcher/src", "launcher/Cargo.toml", "guest/src", "guest/Cargo.toml", "../Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", crates.join(part).display());
    }
    let target = variable("TARGET")?;
    let out = PathBuf::from(variable("OUT_DIR")?);
    // Shared by debug and release builds: <target>/<profile>/build/<crate>/out has the target directory four levels up.
    let shared = out.ancestors().find(|dir| dir.file_name().is_some_and(|name| name == "build"));
    let shared = shared.and_then(Path::parent).and_then(Path::parent).unwrap_or(&out).join("launcher");
    let status = Command::new(variable("CARGO")?)
        .current_dir(&crates)
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "launcher",
            "--features",
            "run",
            "--profile",
            "guest",
        ])
        .args(["--target", &target])
        .arg("--target-dir")
        .arg(&shared)
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_BUILD_TARGET")
        .status()
        .map_err(|error| format!("running cargo for the launcher: {error}"))?;
    if !status.success() {
        return Err("building the launcher failed; see above".to_owned());
    }
    let built = shared.join(&target).join("guest/slipway-launcher");
    let embedded = out.join("slipway-launcher");
    std::fs::copy(&built, &embedded).map_err(|error| format!("copying {}: {error}", built.display()))?;
    println!("cargo::rustc-env=SLIPWAY_LAUNCHER={}", embedded.display());
    Ok(())
}
