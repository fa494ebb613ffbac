//! The alternatives that a sandbox is compared with, one file each. A peer is a command line that prints "hi" from
//! inside of whatever walls it builds.

pub(crate) mod bare;
pub(crate) mod bare_loop;
pub(crate) mod bwrap;
pub(crate) mod docker;
pub(crate) mod plain_server;
mod runc;
pub(crate) mod tree;
mod unshare;

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// What every peer runs, as the sandbox does.
pub(crate) const ECHO: [&str; 2] = ["/bin/echo", "hi"];
/// What comes out.
pub(crate) const SAID: &[u8] = b"hi\n";

/// An alternative that can be run here.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// An alternative that cannot.
#[derive(Debug, Clone)]
pub(crate) struct Missing {
    pub(crate) name: &'static str,
    pub(crate) why: String,
}

impl Missing {
    fn package(name: &'static str, package: &str) -> Self {
        Self { name, why: format!("not installed; apt-get install {package}") }
    }

    pub(crate) fn because(name: &'static str, error: &anyhow::Error) -> Self {
        Self { name, why: format!("does not run here: {error:#}") }
    }
}

/// One start, timed from before the first process of it is spawned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// Until the first byte of output.
    pub(crate) first_byte: Duration,
    /// Until it is over and cleaned up.
    pub(crate) whole: Duration,
}

/// Every peer of a sandbox start. What they need is made under `dir`.
pub(crate) fn all(dir: &Path) -> anyhow::Result<Vec<Result<Peer, Missing>>> {
    let tree = tree::Tree::make(&dir.join("tree"))?;
    Ok(vec![
        runc::peer(dir, &tree),
        bwrap::peer(&tree),
        unshare::peer(),
        bare::peer(dir, &tree),
        Ok(Peer::new("no sandbox (spawn)", ECHO[0].into(), [ECHO[1]])),
    ])
}

/// The peers that start from a root file system, beside `docker run`.
pub(crate) fn on_root(dir: &Path, root: &Path) -> Vec<Result<Peer, Missing>> {
    let tree = tree::Tree::of(root);
    vec![runc::peer(dir, &tree), bare::peer(dir, &tree)]
}

impl Peer {
    fn new<A: Into<OsString>>(
        name: &'static str,
        program: PathBuf,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self { name, program, arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// Runs it once.
    pub(crate) fn start(&self) -> anyhow::Result<Start> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn().with_context(|| format!("running {}", self.program.display()))?;
        let mut said = vec![0];
        let (Some(stdout), Some(stderr)) = (&mut child.stdout, &mut child.stderr) else {
            bail!("a child without output");
        };
        let first = stdout.read(&mut said)?;
        let first_byte = began.elapsed();
        said.truncate(first);
        stdout.read_to_end(&mut said)?;
        let mut complaints = String::new();
        stderr.read_to_string(&mut complaints)?;
        let status = child.wait()?;
        let whole = began.elapsed();
        if !status.success() || said != SAID {
            let last = complaints.trim().lines().last().unwrap_or("it said nothing");
            bail!("{status}: {last}");
        }
        Ok(Start { first_byte, whole })
    }
}

/// Finds a program, also where an ordinary user's PATH does not look.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places.into_iter().map(|place| place.join(name)).find(|file| file.is_file())
}
