//! One running sandbox of the native driver.

use std::path::{Path, PathBuf};

use launcher::spec::{Cause, Ended, Limited, State, files};
use protocol::SandboxId;
use protocol::event::LimitKind;

use super::cgroups::Counters;
use super::life::monitored;
use super::record::read_json;
use super::{control, launch};
use crate::{End, Error, Network, Sandbox, Stack, Usage, egress};

/// The way to it.
pub(super) struct NativeSandbox {
    pub(super) id: SandboxId,
    pub(super) guest: guest::Client,
    pub(super) dir: PathBuf,
    pub(super) stack: Stack,
    pub(super) network: Network,
    /// For a tied life: closing it ends the sandbox.
    pub(super) _owner: Option<launch::Owner>,
}

impl NativeSandbox {
    fn runs(&self) -> bool {
        // A directory that cannot be looked into is as good as gone.
        monitored(&self.dir).unwrap_or(false)
    }
}

#[async_trait::async_trait]
impl Sandbox for NativeSandbox {
    fn id(&self) -> SandboxId {
        self.id
    }

    fn guest(&self) -> &guest::Client {
        &self.guest
    }

    fn stack(&self) -> &Stack {
        &self.stack
    }

    async fn usage(&self) -> Result<Usage, Error> {
        let Some(state) = read_json::<State>(&self.dir.join(files::STATE)).filter(|_| self.runs()) else {
            return Err(Error::NotFound(self.id));
        };
        let counters = Counters::read(&state.cgroups);
        let disk = control::disk(&self.dir).await?;
        Ok(Usage {
            memory_bytes: counters.memory_bytes,
            processes: counters.processes,
            cpu_ms: counters.cpu_ms,
            disk_bytes: Some(disk.bytes),
            inodes: Some(disk.inodes),
            memory_hits: counters.memory_hits,
            process_hits: counters.process_hits,
            disk_hits: disk.byte_hits,
            inode_hits: disk.inode_hits,
            open_file_hits: disk.open_file_hits,
            shared_memory_hits: disk.shared_hits,
        })
    }

    async fn sockets(&self) -> Result<Option<egress::Sockets>, Error> {
        match self.network {
            Network::None => Ok(None),
            Network::Egress if !self.runs() => Err(Error::NotFound(self.id)),
            Network::Egress => control::sockets(&self.dir).await,
        }
    }

    async fn ended(&self) -> Option<End> {
        ended(&self.dir)
    }
}

/// Why the sandbox of a directory ended; None while it runs.
pub(super) fn ended(dir: &Path) -> Option<End> {
    // In this order: a monitor writes why before it goes. A directory that cannot be looked into is as good as gone.
    let runs = monitored(dir).unwrap_or(false);
    let ended: Option<Ended> = read_json(&dir.join(files::ENDED));
    match ended {
        Some(ended) => Some(why(&ended)),
        None if runs => None,
        None => Some(End::Unknown),
    }
}

fn why(ended: &Ended) -> End {
    match (ended.limit, ended.cause) {
        (Some(Limited::WallClock), _) | (None, Cause::WallClock) => End::Limit(LimitKind::WallClock),
        (Some(Limited::Memory), _) => End::Limit(LimitKind::Memory),
        (Some(Limited::DiskBytes), _) | (None, Cause::DiskBytes) => End::Limit(LimitKind::DiskBytes),
        (Some(Limited::DiskInodes), _) | (None, Cause::DiskInodes) => End::Limit(LimitKind::DiskInodes),
        (None, Cause::OwnerGone) => End::OwnerGone,
        (None, Cause::Removed) => End::Removed,
        (None, Cause::Died) => End::Killed,
    }
}
