//! A range of host ids for each sandbox, so that a process of one is a stranger to the files and processes of another.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use crate::fault::{Context, Fault};
use crate::spec::{FIRST_RANGE, INSIDE_ID, RANGE, RANGES, Stage, files};

/// A range that is ours while this value lives.
pub(crate) struct Range {
    first: u32,
    /// An abstract socket is a lock that spans the host, needs no file, and is gone with its holder.
    _claim: UnixListener,
}

impl Range {
    /// Takes a range that no other sandbox on this host has.
    pub(crate) fn claim() -> Result<Self, Fault> {
        let stage = Stage::UserNamespace;
        let start = std::process::id() % RANGES;
        for number in (start..RANGES).chain(0..start) {
            let first = FIRST_RANGE + number * RANGE;
            let name = SocketAddr::from_abstract_name(format!("slipway-ids-{first}"))
                .at(stage, "naming a range of ids")?;
            match UnixListener::bind_addr(&name) {
                Ok(claim) => return Ok(Self { first, _claim: claim }),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error).at(stage, "claiming a range of ids"),
            }
        }
        Err(Fault::new(stage, "every range of ids is in use: remove sandboxes that are no longer needed"))
    }

    /// The first host id of the range.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }
}

/// Makes the writable layer with the directories that belong to the inside user. The working directory is the
/// sandbox's own.
pub(crate) fn prepare_upper(range: Option<&Range>) -> Result<(), Fault> {
    let upper = Path::new(files::UPPER);
    for directory in [files::UPPER, files::WORK, files::ROOT] {
        make(Path::new(directory))?;
    }
    make(&upper.join("home"))?;
    for own in [upper.join("home/dev"), upper.join("workspace")] {
        make(&own)?;
        if let Some(range) = range {
            let id = range.first + INSIDE_ID;
            std::os::unix::fs::lchown(&own, Some(id), Some(id))
                .at(Stage::Directory, &format!("giving {} to the inside user", own.display()))?;
        }
    }
    Ok(())
}

fn make(path: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::DirBuilderExt;
    match std::fs::DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.at(Stage::Directory, &format!("making {}", path.display())),
    }
}
