//! One running sandbox of the native driver.

use std::path::PathBuf;

use launcher::spec::{Cause, Ended, State, files};
use protocol::SandboxId;

use super::cgroups::Counters;
use super::life::monitored;
use super::record::read_json;
use super::{control, launch};
use crate::{Error, Network, Sandbox, Stack, Usage, egress};

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
        })
    }

    async fn sockets(&self) -> Result<Option<egress::Sockets>, Error> {
        match self.network {
            Network::None => Ok(None),
            Network::Egress if !self.runs() => Err(Error::NotFound(self.id)),
            Network::Egress => control::sockets(&self.dir).await,
        }
    }

    async fn ended(&self) -> Option<String> {
        // In this order: a monitor writes why before it goes.
        let runs = self.runs();
        let ended: Option<Ended> = read_json(&self.dir.join(files::ENDED));
        match ended {
            Some(ended) => Some(describe(&ended)),
            None if runs => None,
            None => Some("it is gone".to_owned()),
        }
    }
}

fn describe(ended: &Ended) -> String {
    match (ended.cause, ended.oom_kills) {
        (Cause::WallClock, _) => "its time limit was reached".to_owned(),
        (Cause::OwnerGone, _) => "the command it belonged to ended".to_owned(),
        (_, kills) if kills > 0 => "it ran out of memory".to_owned(),
        (Cause::Removed, _) => "it was removed".to_owned(),
        (Cause::Died, _) => "it was ended from outside".to_owned(),
    }
}
