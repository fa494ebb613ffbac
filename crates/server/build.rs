//! Puts the web app into the program, if it was built: every file of `web/dist`, with the compressed copy beside it. Without
//! it there is a simple page in its place, so nothing here needs Node.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    if let Err(message) = embed() {
        println!("cargo::error={message}");
    }
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn embed() -> Result<(), String> {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let web = manifest.join("../../web");
    let dist = web.join("dist");
    println!("cargo::rerun-if-changed=build.rs");
    // Cargo runs this again at every build while a path is missing, so there is an empty directory where nothing was built. In
    // a tree that cannot be written there is no app either.
    if dist.is_dir() || (web.is_dir() && std::fs::create_dir(&dist).is_ok()) {
        println!("cargo::rerun-if-changed={}", dist.display());
    }
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        collect(&dist, &dist, &mut files)?;
    }
    files.sort();
    let mut code = String::from("&[\n");
    for (name, path) in &files {
        let content = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let compressed = with_suffix(path, ".br");
        let brotli = if compressed.is_file() {
            format!("Some(include_bytes!({:?}))", text(&compressed)?)
        } else {
            "None".to_owned()
        };
        writeln!(
            code,
            "    File {{ name: {name:?}, sum: \"{:016x}\", content: include_bytes!({:?}), brotli: {brotli} }},",
            sum(&content),
            text(path)?
        )
        .map_err(|error| error.to_string())?;
    }
    code.push_str("]\n");
    let out = PathBuf::from(variable("OUT_DIR")?).join("site.rs");
    std::fs::write(&out, code).map_err(|error| format!("{}: {error}", out.display()))
}

/// Every file that is served, by its name from the root, with its path.
fn collect(root: &Path, dir: &Path, files: &mut Vec<(String, PathBuf)>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
            continue;
        }
        let name = path.strip_prefix(root).map_err(|error| error.to_string())?;
        let name = text(name)?.replace('\\', "/");
        // Compressed copies go with their files, and what is for debugging stays at home.
        let companion = name.strip_suffix(".br").is_some_and(|whole| root.join(whole).is_file());
        if !companion && !name.ends_with(".map") && !name.starts_with('.') {
            files.push((name, path));
        }
    }
    Ok(())
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{} has a name that is not text", path.display()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A number that changes with the content (FNV-1a).
fn sum(content: &[u8]) -> u64 {
    content
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
