//! What the rows about images stand on: a small root file system, and a layer with a large dependency tree.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, ensure};
use sandbox::base::{Bases, Source};
use sandbox::native::Native;
use sandbox::{Archive, Driver, LayerId, Stack};

use crate::peers;
use crate::rows::Skipped;

/// Files of the dependency tree, in directories of [`PER_DIRECTORY`].
pub(crate) const FILES: usize = 50_000;
const PER_DIRECTORY: usize = 50;

/// A directory with a driver, and what is stacked in it. Everything goes with it.
pub(crate) struct Fixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) driver: Arc<Native>,
}

impl Fixture {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("slipway-bench-").tempdir()?;
        let driver = Arc::new(Native::open(&dir.path().join("native"))?);
        Ok(Self { dir, driver })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A root file system of Debian's essential packages, as an archive.
    pub(crate) fn root_archive(&self) -> anyhow::Result<PathBuf> {
        let path = self.path().join("root.tar");
        if path.exists() {
            return Ok(path);
        }
        let Some(program) = peers::program("mmdebstrap") else {
            return Err(Skipped("mmdebstrap is not installed, which makes the root file system").into());
        };
        let mut command = Command::new(program);
        command.args(["--variant=essential", "--quiet", "bookworm"]).arg(&path);
        let output = command.stdin(Stdio::null()).output().context("running mmdebstrap")?;
        ensure!(
            output.status.success(),
            "mmdebstrap could not make a root file system: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(path)
    }

    /// The same, unpacked, for those that want a directory.
    pub(crate) fn root_directory(&self) -> anyhow::Result<PathBuf> {
        let path = self.path().join("root");
        if !path.exists() {
            unpack(&self.root_archive()?, &path)?;
        }
        Ok(path)
    }

    /// The same as an image of ours: brought in once, then only stacked.
    pub(crate) async fn root_stack(&self) -> anyhow::Result<Stack> {
        let driver: Arc<dyn Driver> = self.driver.clone();
        let bases = Bases::new(driver, self.path().join("downloads"));
        let quiet = |_line: String| {};
        Ok(bases.resolve(&Source::Tar(self.root_archive()?), None, &quiet).await?.stack)
    }

    /// A layer with [`FILES`] small files below the workspace, and the archive it was made from.
    pub(crate) async fn dependencies(&self) -> anyhow::Result<(LayerId, PathBuf)> {
        let path = self.path().join("dependencies.tar");
        let layer: LayerId = "bench-dependencies".parse()?;
        if !path.exists() {
            write_dependencies(&path).context("writing the dependency tree")?;
            self.driver
                .import(&layer, &Archive { path: path.clone(), whiteouts: false, below: Vec::new() })
                .await?;
        }
        Ok((layer, path))
    }
}

/// Unpacks an archive with `tar`.
pub(crate) fn unpack(archive: &Path, into: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(into)?;
    let status = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(into).status()?;
    ensure!(status.success(), "tar could not unpack {}", archive.display());
    Ok(())
}

/// Like `node_modules`: many small files in many directories.
fn write_dependencies(path: &Path) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(std::io::BufWriter::new(std::fs::File::create(path)?));
    let content = b"module.exports = function () { return 'a small file, as most are' };\n".repeat(12);
    let mut directory = |path: &str| {
        let mut header = header(0o755, 0);
        header.set_entry_type(tar::EntryType::Directory);
        archive.append_data(&mut header, path, std::io::empty())
    };
    directory("workspace/")?;
    directory("workspace/node_modules/")?;
    for package in 0..FILES / PER_DIRECTORY {
        directory(&format!("workspace/node_modules/package-{package}/"))?;
    }
    for file in 0..FILES {
        let name = format!("workspace/node_modules/package-{}/file-{file}.js", file / PER_DIRECTORY);
        archive.append_data(&mut header(0o644, content.len() as u64), name, content.as_slice())?;
    }
    archive.into_inner()?.flush()
}

fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_uid(1000);
    header.set_gid(1000);
    header.set_mtime(1_700_000_000);
    header.set_size(size);
    header
}
