//! What a sandbox is launched with: its specification, turned into the launcher's words.

use std::path::PathBuf;

use launcher::spec::{Disk, Launch};

use super::{Native, cgroups};
use crate::{Base, Life, Limits, Network, Spec, Stack};

impl Native {
    pub(super) fn launch(&self, spec: &Spec) -> Launch {
        let hostname = "sandbox".to_owned();
        let mut layers: Vec<PathBuf> =
            spec.stack.layers.iter().map(|layer| self.layers.root(layer)).collect();
        let (binds, hidden) = match spec.stack.base {
            Base::Host => {
                layers.push(self.base.layer.clone());
                (self.base.binds.clone(), self.base.hidden.clone())
            }
            Base::Scratch => Default::default(),
        };
        Launch {
            dir: self.sandbox_dir(spec.id),
            storage: self.dir.clone(),
            layers,
            furnish: spec.stack.base == Base::Scratch,
            ids: self.ids,
            binds,
            hidden,
            shm_bytes: spec.limits.shared_bytes(),
            env: self.env(&spec.stack, &hostname),
            hostname,
            cgroups: self.cgroups.plan(spec.id, &spec.limits),
            rlimits: rlimits(&spec.limits, &self.cgroups),
            cwd: crate::WORKSPACE.to_owned(),
            wall_clock_ms: spec
                .limits
                .wall_clock
                .map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            network: spec.network == Network::Egress,
            disk: Disk { bytes: spec.limits.disk_bytes, inodes: spec.limits.inodes },
            user_namespaces: spec.limits.user_namespaces,
            life: match spec.life {
                Life::Own => launcher::spec::Life::Own,
                Life::Tied => launcher::spec::Life::Tied,
            },
        }
    }

    /// Variables: the base's, over them what comes with the layers, and last what is the sandbox's own.
    fn env(&self, stack: &Stack, hostname: &str) -> Vec<(String, String)> {
        let mut env = match stack.base {
            Base::Host => self.base.env.clone(),
            Base::Scratch => super::base::env(SCRATCH_PATH),
        };
        let own = [("HOSTNAME".to_owned(), hostname.to_owned())];
        for (name, value) in stack.env.iter().cloned().chain(own) {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        env
    }
}

/// Where programs are on a system that says nothing about it.
const SCRATCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// With 0 the kernel still runs a handler that is configured as a pipe, outside; with 1 it does not.
const NO_CORE: u64 = 1;

/// Limits of each process. Where no control group limits memory and the number of processes of all together, these
/// are the next best thing.
fn rlimits(limits: &Limits, cgroups: &cgroups::Support) -> Vec<(launcher::spec::Rlimit, u64)> {
    use launcher::spec::Rlimit;
    let mut rlimits = vec![(Rlimit::OpenFiles, limits.open_files), (Rlimit::Core, NO_CORE)];
    // One more than the control group allows, so that it is the group that refuses, and counts it.
    let spare = u64::from(!cgroups.missing().contains(&"pids"));
    rlimits.push((Rlimit::Processes, limits.processes.saturating_add(spare)));
    rlimits.push((Rlimit::FileSize, limits.disk_bytes));
    if !cgroups.limits_memory() {
        rlimits.push((Rlimit::Data, limits.memory_bytes));
    }
    rlimits
}
