//! Snapshots: frozen workspaces of sessions, each a stack of layers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::{SandboxId, SessionId, SnapshotId, Timestamp, TurnId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::native::record::write_json_durably;
use crate::{Driver, Error, LayerId, Sandbox, Save, Stack};

/// A frozen workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// Whose workspace it was.
    pub session: SessionId,
    /// The turn after which it was taken.
    pub turn: TurnId,
    /// What a sandbox that goes on from it stands on.
    pub stack: Stack,
    /// Bytes of its own layer.
    pub bytes: u64,
    /// When it was taken.
    pub taken_at: Timestamp,
    /// Whether its own layer is [`crate::Layer::blurred`].
    #[serde(default)]
    pub blurred: bool,
}

/// How to take one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The sandbox goes on.
    Live,
    /// The sandbox ends with it.
    Stop,
}

/// A stack with more layers than this has those of its session merged before another is put on top.
const DEPTH: usize = 12;

/// Layers that were merged out of a session's own begin like this.
const MERGED: &str = "merged-";

/// What is on disk for each.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    snapshot: Snapshot,
    /// The sandbox it was taken of.
    sandbox: SandboxId,
}

/// The snapshots of all sessions: `<dir>/<id>.json` each.
pub struct Snapshots {
    driver: Arc<dyn Driver>,
    dir: PathBuf,
    records: Mutex<BTreeMap<SnapshotId, Record>>,
    /// Layers that snapshots which are being taken will stand on.
    taking: Mutex<BTreeMap<SnapshotId, Vec<LayerId>>>,
}

impl Snapshots {
    /// Opens the records. One that cannot be read is left out, with a warning.
    pub fn open(dir: &Path, driver: Arc<dyn Driver>) -> Result<Self, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let mut records = BTreeMap::new();
        for entry in std::fs::read_dir(dir).map_err(Error::io(dir))? {
            let path = entry.map_err(Error::io(dir))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match read(&path) {
                Ok(record) => {
                    records.insert(record.snapshot.id, record);
                }
                Err(error) => {
                    let path = path.display();
                    tracing::warn!(%path, %error, "a snapshot's record cannot be read and is left out");
                }
            }
        }
        Ok(Self { driver, dir: dir.to_owned(), records: Mutex::new(records), taking: Mutex::default() })
    }

    /// Freezes a sandbox's workspace. What the session's last snapshot of the same sandbox has is shared.
    pub async fn take(
        &self,
        sandbox: &dyn Sandbox,
        session: SessionId,
        turn: TurnId,
        how: How,
    ) -> Result<Snapshot, Error> {
        let id = SnapshotId::new();
        let layer = Self::layer_of(id)?;
        let like = self.like(sandbox, session).map(|like| Self::layer_of(like.id)).transpose()?;
        // Until there is a record nothing else may speak for these, least of all once the sandbox is stopped.
        let taking = Taking::begin(self, id, sandbox.stack().layers.iter().chain([&layer]).chain(&like));
        let below = self.merge(sandbox.stack()).await?;
        taking.needs(&below.layers);
        let save = match how {
            How::Live => Save::Live { like: like.as_ref() },
            How::Stop => Save::Stop { without: &[] },
        };
        let saved = self.driver.save(sandbox.id(), &layer, save).await?;
        let stack = below.with(layer);
        let taken_at = Timestamp::now();
        let (bytes, blurred) = (saved.bytes, saved.blurred);
        let snapshot = Snapshot { id, session, turn, stack, bytes, taken_at, blurred };
        let record = Record { snapshot: snapshot.clone(), sandbox: sandbox.id() };
        write_json_durably(&self.path(id), &record)?;
        self.records().insert(id, record);
        Ok(snapshot)
    }

    /// The last snapshot of the same sandbox, with which another shares what did not change.
    fn like(&self, sandbox: &dyn Sandbox, session: SessionId) -> Option<Snapshot> {
        self.records()
            .values()
            .rfind(|record| record.snapshot.session == session && record.sandbox == sandbox.id())
            // What may be of different moments is no measure for what has changed since.
            .filter(|record| !record.snapshot.blurred)
            .map(|record| record.snapshot.clone())
    }

    /// How many bytes a snapshot of a running sandbox, which has written so many, will take up, about: what there is more of than
    /// in the last. What was written over since is not seen.
    pub fn estimate(&self, sandbox: &dyn Sandbox, session: SessionId, written: u64) -> u64 {
        written.saturating_sub(self.like(sandbox, session).map_or(0, |like| like.bytes))
    }

    /// Layers that snapshots which are being taken need.
    pub(crate) fn needed(&self) -> BTreeSet<LayerId> {
        self.taking().values().flatten().cloned().collect()
    }

    /// Whether a snapshot that is being taken needs this layer.
    pub(crate) fn needs(&self, layer: &LayerId) -> bool {
        self.taking().values().flatten().any(|needed| needed == layer)
    }

    fn taking(&self) -> MutexGuard<'_, BTreeMap<SnapshotId, Vec<LayerId>>> {
        // As with the records.
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same stack, with the session's own layers merged into one if there are too many. Those of its image stay as
    /// they are: others stand on them too.
    async fn merge(&self, stack: &Stack) -> Result<Stack, Error> {
        let own = stack.layers.iter().take_while(|layer| is_own(layer)).count();
        let (own, image) = stack.layers.split_at(own);
        if stack.layers.len() < DEPTH || own.len() < 2 {
            return Ok(stack.clone());
        }
        // The same layers always merge into the same one, so a sandbox that goes on is not merged again and again.
        let names: Vec<&str> = own.iter().map(LayerId::as_str).collect();
        let digest = Sha256::digest(names.join("\n"));
        let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let merged: LayerId = format!("{MERGED}{hex}").parse()?;
        self.driver.squash(own, &merged).await?;
        let mut layers = vec![merged];
        layers.extend_from_slice(image);
        Ok(Stack { layers, ..stack.clone() })
    }

    /// One by its id, if it is still there.
    pub fn get(&self, id: SnapshotId) -> Option<Snapshot> {
        self.records().get(&id).map(|record| record.snapshot.clone())
    }

    /// Those of a session, oldest first.
    pub fn of(&self, session: SessionId) -> Vec<Snapshot> {
        let records = self.records();
        let own = records.values().filter(|record| record.snapshot.session == session);
        own.map(|record| record.snapshot.clone()).collect()
    }

    /// All of them, oldest first.
    pub fn all(&self) -> Vec<Snapshot> {
        self.records().values().map(|record| record.snapshot.clone()).collect()
    }

    /// Forgets one; its layers are left to the collection of garbage.
    pub fn forget(&self, id: SnapshotId) -> Result<(), Error> {
        let path = self.path(id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::Io { path, source: error });
            }
            _ => {}
        }
        self.records().remove(&id);
        Ok(())
    }

    /// The layer of a snapshot.
    pub fn layer_of(id: SnapshotId) -> Result<LayerId, Error> {
        id.to_string().parse()
    }

    fn path(&self, id: SnapshotId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<SnapshotId, Record>> {
        // Nothing panics while it is held, and every change is one step.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot that is being taken, until it is dropped.
struct Taking<'a> {
    snapshots: &'a Snapshots,
    id: SnapshotId,
}

impl<'a> Taking<'a> {
    fn begin<'b>(
        snapshots: &'a Snapshots,
        id: SnapshotId,
        layers: impl Iterator<Item = &'b LayerId>,
    ) -> Self {
        snapshots.taking().insert(id, layers.cloned().collect());
        Self { snapshots, id }
    }

    fn needs(&self, layers: &[LayerId]) {
        self.snapshots.taking().entry(self.id).or_default().extend_from_slice(layers);
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.snapshots.taking().remove(&self.id);
    }
}

/// Whether a layer is a session's own, and not its image's.
fn is_own(layer: &LayerId) -> bool {
    layer.as_str().parse::<SnapshotId>().is_ok() || layer.as_str().starts_with(MERGED)
}

fn read(path: &Path) -> std::io::Result<Record> {
    let record: Record = serde_json::from_slice(&std::fs::read(path)?)?;
    let name = path.file_stem().and_then(std::ffi::OsStr::to_str);
    if name != Some(record.snapshot.id.to_string().as_str()) {
        return Err(std::io::Error::other("it is the record of another snapshot"));
    }
    Ok(record)
}
