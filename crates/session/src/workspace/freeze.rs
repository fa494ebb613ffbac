//! Snapshots of the workspace: at the end of a turn while the sandbox goes on, and when it is stopped because nothing
//! uses it.

use std::sync::Arc;
use std::time::Instant;

use protocol::event::SandboxState;
use protocol::{Actor, EventBody, TurnId};
use sandbox::Sandbox;
use sandbox::snapshot::{How, Snapshot};

use super::{Frozen, Workspace, changed, saved};
use crate::failure::Failure;
use crate::recorder::Recorder;

/// Most processes that are named when they end with their sandbox.
const NAMED: usize = 10;

impl Workspace {
    /// Freezes the workspace as a turn left it. That it cannot be done is told, and costs nothing that git keeps.
    pub(crate) async fn freeze(&self, recorder: &Arc<Recorder>, turn: TurnId) -> Result<(), Failure> {
        let ready = recorder.stream().with_state(|state| state.sandbox());
        let Some((_, SandboxState::Ready)) = ready else { return Ok(()) };
        let (Some(held), Some(mut known)) = (self.attached(recorder).await, self.saved()) else {
            return Ok(());
        };
        let began = Instant::now();
        let (builds, snapshots) = (&self.platform.builds, &self.options.snapshots);
        let taken = match builds.room_for_snapshot(&*held.sandbox, self.session).await {
            Ok(()) => snapshots
                .take(&*held.sandbox, self.session, turn, How::Live)
                .await
                .map_err(|error| crate::problem::sandbox(&error)),
            Err(problem) => Err(problem),
        };
        match taken {
            Ok(snapshot) => {
                builds.snapshot_taken(snapshot.bytes);
                failpoint::hit(failpoint::Point::SnapshotTaken);
                let event = self.remember(&snapshot, began)?;
                recorder.append(&Actor::system(), vec![event]).await?;
            }
            Err(problem) => {
                known.frozen = None;
                self.record.put(known)?;
                let event = EventBody::ErrorRaised {
                    code: problem.code,
                    message: format!("no snapshot was taken: {}", problem.title),
                    hint: problem.hint,
                };
                recorder.append(&Actor::system(), vec![event]).await?;
            }
        }
        Ok(())
    }

    /// Writes down a snapshot beside the log; gives the event that tells of it.
    fn remember(&self, snapshot: &Snapshot, began: Instant) -> Result<EventBody, Failure> {
        let mut known = self.require()?;
        known.frozen = Some(Frozen { snapshot: snapshot.id, kept: known.kept.clone() });
        saved::keep_with(&self.dir, snapshot.id, &known)?;
        self.record.put(known)?;
        Ok(EventBody::SnapshotTaken {
            snapshot: snapshot.id,
            turn: snapshot.turn,
            bytes: snapshot.bytes,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            blurred: snapshot.blurred,
        })
    }

    /// Stops a sandbox that nothing uses; the next prompt finds everything but its processes again.
    pub(crate) async fn stop(&self, recorder: &Arc<Recorder>, why: &str) -> Result<(), Failure> {
        // A turn that waits for a person is not finished, and its work is in here.
        let turn = recorder
            .stream()
            .with_state(|state| state.turn().map(|turn| turn.id).or_else(|| state.last_turn()));
        let (Some(held), Some(turn), Some(mut known)) = (self.attached(recorder).await, turn, self.saved())
        else {
            return self.remove(recorder, why).await;
        };
        known.running = running(&*held.sandbox).await;
        self.record.put(known)?;
        let began = Instant::now();
        let taken = self.options.snapshots.take(&*held.sandbox, self.session, turn, How::Stop).await;
        let snapshot = match taken {
            Ok(snapshot) => snapshot,
            Err(error) => {
                tracing::warn!(session = %self.session, %error, "a sandbox is removed without a snapshot");
                return self.remove(recorder, why).await;
            }
        };
        self.live.lock().await.take();
        let event = self.remember(&snapshot, began)?;
        let stopped = changed(held.sandbox.id(), SandboxState::Stopped, Some(why.to_owned()), None);
        recorder.append(&Actor::system(), vec![event, stopped]).await?;
        Ok(())
    }
}

/// The names of the processes in a sandbox, but its first. What cannot be read has just ended.
async fn running(sandbox: &dyn Sandbox) -> Vec<String> {
    let guest = sandbox.guest();
    let mut names = std::collections::BTreeSet::new();
    for entry in guest.list("/proc").await.unwrap_or_default() {
        let is_process = entry.name.parse::<u32>().is_ok_and(|pid| pid > 1);
        if is_process
            && let Ok((name, _)) = guest.read_file(&format!("/proc/{}/comm", entry.name), 0, 64).await
        {
            names.insert(String::from_utf8_lossy(&name).trim().to_owned());
        }
    }
    names.retain(|name| !name.is_empty());
    names.into_iter().take(NAMED).collect()
}
