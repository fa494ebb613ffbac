//! A session's workspace: the sandbox it is in, how it is prepared, how it is read, and how the work is kept on the
//! host, so that a sandbox can go away at any time between turns and nothing is lost.

pub(crate) mod address;
mod freeze;
mod git;
mod one_off;
mod person;
mod prepare;
pub(crate) mod recipe;
mod saved;
mod services;
mod start;
mod sync;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use forge::Mirror;
use protocol::event::SandboxState;
use protocol::{Actor, Code, Diff, Egress, Environment, EventBody, Problem, SandboxId, SessionId, TurnId};
use sandbox::egress::{Proxy, Rules};
use sandbox::{Sandbox, WORKSPACE};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

use crate::builds::Builds;
use crate::exits::{Door, Exit, Exits};
use crate::failure::Failure;
use crate::limits::Hit;
use crate::recorder::Recorder;
use crate::{Duty, Options, environments};
use git::{Commit, Git};
use saved::{Found, Record};

pub use one_off::{Arrival, SetUp, bring_to_tip};
pub use prepare::prepare;
pub(crate) use recipe::prefix;
pub(crate) use saved::{Frozen, Saved, begin_with, known_with};
pub(crate) use services::Expected;
pub(crate) use start::Ready;
pub(crate) use sync::{Came, Sync, Synced};

/// How long an archive of a workspace may take that git cannot keep. A person waits for the end of the turn, and there are
/// trees that no program gets to the end of; the snapshot has them anyway.
const RESCUE: std::time::Duration = std::time::Duration::from_secs(30);
/// Largest bundle that is read out of a sandbox.
const BUNDLE_LIMIT: u64 = forge::BUNDLE_LIMIT;
/// Bytes of one piece of a file that goes in or out.
const PIECE: u64 = 8 * 1024 * 1024;

/// How the work is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// As a commit on the session's branch, which can be delivered.
    Commit,
    /// As work in progress, which becomes uncommitted changes again.
    Progress,
}

/// What was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) commit: String,
    pub(crate) files: u32,
    pub(crate) insertions: u32,
    pub(crate) deletions: u32,
}

/// A sandbox with its way out.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    /// None without a network.
    pub(crate) exit: Option<Arc<Exit>>,
}

/// What the workspaces of all sessions share.
pub(crate) struct Platform {
    pub(crate) options: Arc<Options>,
    pub(crate) exits: Arc<Exits>,
    pub(crate) builds: Arc<Builds>,
}

/// The workspace of one session.
pub(crate) struct Workspace {
    session: SessionId,
    dir: PathBuf,
    options: Arc<Options>,
    platform: Arc<Platform>,
    /// Name of the environment.
    environment: String,
    recipe: Environment,
    title: String,
    record: Record,
    live: Mutex<Option<Held>>,
    /// Held by whoever makes a sandbox, so that a turn and a person do not make one each.
    making: Mutex<()>,
    /// The sandbox's use when it was last looked at.
    usage: std::sync::Mutex<sandbox::Usage>,
    /// What is known of the sandbox's services.
    care: std::sync::Mutex<services::Care>,
}

impl Workspace {
    /// The workspace of a session whose log was folded.
    pub(crate) fn open(
        session: SessionId,
        platform: Arc<Platform>,
        environment: String,
        recipe: Environment,
        title: String,
    ) -> Self {
        let options = Arc::clone(&platform.options);
        let dir = options.store.session_dir(session);
        let record = Record::open(&dir, session);
        let recipe = address::put_back(&dir, session, recipe);
        let (live, usage, care) =
            (Mutex::new(None), std::sync::Mutex::default(), std::sync::Mutex::default());
        Self {
            session,
            dir,
            options,
            platform,
            environment,
            recipe,
            title,
            record,
            live,
            making: Mutex::new(()),
            usage,
            care,
        }
    }

    /// What the session's sandbox may use.
    pub(crate) fn limits(&self) -> sandbox::Limits {
        crate::limits::merge(&self.options.limits, &self.recipe.limits)
    }

    /// What a person must approve: what the environment says, and what the repository says beside it.
    pub(crate) fn gates(&self) -> Vec<protocol::Gate> {
        let mut gates = self.recipe.approve.clone();
        gates.extend(self.saved().into_iter().flat_map(|saved| saved.approve));
        gates
    }

    /// Where files of the session are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the host remembers; None before the first sandbox was ready.
    pub(crate) fn saved(&self) -> Option<Saved> {
        self.record.get()
    }

    fn url(&self) -> Result<&str, Problem> {
        repository_url(&self.recipe)
    }

    /// The host's copy of the repository, from the remote only when there is none.
    pub(crate) async fn mirror(&self) -> Result<Mirror, Failure> {
        let url = self.url()?;
        match self.options.mirrors.existing(url) {
            Some(mirror) => Ok(mirror),
            None => Ok(self.options.mirrors.fetch(url).await?),
        }
    }

    fn git<'a>(&'a self, sandbox: &'a dyn Sandbox) -> Git<'a> {
        Git { sandbox, author: &self.options.author }
    }

    /// The sandbox if there is one that answers, without making one and without waiting for one that is being made.
    pub(crate) async fn attached(&self, recorder: &Arc<Recorder>) -> Option<Held> {
        let mut live = self.live.try_lock().ok()?;
        if live.is_none()
            && let Some((id, SandboxState::Ready)) = recorder.stream().with_state(|state| state.sandbox())
        {
            *live = self.adopt(id, recorder).await;
        }
        live.clone()
    }

    /// Finds a sandbox again that an earlier server made, lets that server's helpers in it end, and serves its
    /// connections, which have waited.
    async fn adopt(&self, id: SandboxId, recorder: &Arc<Recorder>) -> Option<Held> {
        let session = self.session;
        let adopted = self.options.driver.adopt(id).await;
        let adopted =
            adopted.inspect_err(|error| tracing::info!(%session, sandbox = %id, %error, "a sandbox is gone"));
        let sandbox = adopted.ok()?;
        // A guest that does not answer shows when it is next asked for something.
        if let Err(error) = crate::process::settle_helpers(&*sandbox).await {
            tracing::debug!(%session, sandbox = %id, %error, "the helpers of an earlier server were not settled");
        }
        // What happened under an earlier server was told by it.
        self.looked(sandbox.usage().await.unwrap_or_default());
        let exit = self.connect(&sandbox, None, recorder).await.unwrap_or_else(|failure| {
            let error = failure.into_problem();
            tracing::warn!(%session, sandbox = %id, %error, "a sandbox found again has no way out");
            None
        });
        Some(Held { sandbox, exit })
    }

    /// Remembers what the sandbox uses; gives what it used when it was last looked at.
    fn looked(&self, usage: sandbox::Usage) -> sandbox::Usage {
        std::mem::replace(&mut *self.usage.lock().unwrap_or_else(PoisonError::into_inner), usage)
    }

    /// Records the limits that the sandbox came to since it was last looked at, or that an output tells of.
    pub(crate) async fn tell_limits(
        &self,
        recorder: &Arc<Recorder>,
        sandbox: &dyn Sandbox,
        output: &str,
    ) -> Result<Vec<Hit>, store::Error> {
        let hits = match sandbox.usage().await {
            Ok(after) => {
                let before = self.looked(after.clone());
                crate::limits::reached(&self.limits(), &before, &after, output)
            }
            Err(error) => {
                tracing::debug!(session = %self.session, %error, "a sandbox's use cannot be read");
                Vec::new()
            }
        };
        let events = hits.iter().map(|hit| hit.event(sandbox.id())).collect();
        recorder.append(&Actor::system(), events).await?;
        Ok(hits)
    }

    /// Opens the sandbox's way out and tells the processes inside where it is. Only now are secrets there.
    async fn connect(
        &self,
        sandbox: &Arc<dyn Sandbox>,
        proxy: Option<Proxy>,
        recorder: &Arc<Recorder>,
    ) -> Result<Option<Arc<Exit>>, Failure> {
        // Who only looks leaves the connections to whoever works.
        if self.options.duty == Duty::Look {
            return Ok(None);
        }
        let door = match proxy {
            Some(proxy) => Door::Proxy(proxy),
            None => match sandbox.sockets().await? {
                Some(sockets) => Door::Sockets(sockets),
                None => return Ok(None),
            },
        };
        let rules = Rules::parse(&self.egress().await)?;
        let (name, secrets, id) = (&self.environment, &self.recipe.secrets, sandbox.id());
        let exit = self.platform.exits.open(name, rules, secrets, id, door, recorder)?;
        exit.put_in(&**sandbox).await?;
        Ok(Some(exit))
    }

    /// What of the network is open: the environment's word as it is now, so that what is allowed later counts, and what
    /// the session began with once the environment is gone.
    async fn egress(&self) -> Egress {
        match environments::find(&self.options, &self.environment).await {
            Ok(environment) => environment.recipe.egress,
            Err(_) => self.recipe.egress.clone(),
        }
    }

    /// Remembers the working tree as a turn found it; a resumed turn keeps what it found first.
    pub(crate) async fn begin(&self, sandbox: &dyn Sandbox, turn: TurnId) -> Result<(), Failure> {
        let mut saved = self.require()?;
        if saved.found.as_ref().is_some_and(|found| found.turn == turn) {
            return Ok(());
        }
        let git = self.git(sandbox);
        if saved.products.is_none() && saved.kept.is_none() {
            saved.products = Some(git.products().await?);
        }
        let tree = git.tree(saved.products.as_deref()).await?;
        saved.found = Some(Found { turn, tree });
        Ok(self.record.put(saved)?)
    }

    fn require(&self) -> Result<Saved, Failure> {
        self.record.get().ok_or_else(|| {
            Problem::new(Code::Internal, "the workspace file of this session is missing")
                .hint("start a new session; the branch, if it was pushed, is on the remote")
                .into()
        })
    }

    /// The working tree, if it differs from how the turn found it.
    pub(crate) async fn changed(
        &self,
        sandbox: &dyn Sandbox,
        turn: TurnId,
    ) -> Result<Option<String>, Failure> {
        let saved = self.require()?;
        let tree = self.git(sandbox).tree(saved.products.as_deref()).await?;
        let found = saved.found.filter(|found| found.turn == turn);
        Ok(Some(tree).filter(|tree| found.is_none_or(|found| found.tree != *tree)))
    }

    /// Keeps a tree of the workspace on the host. None when it is as the session began: there is nothing to keep.
    pub(crate) async fn keep(
        &self,
        sandbox: &dyn Sandbox,
        tree: &str,
        keep: Keep,
        message: &str,
    ) -> Result<Option<Kept>, Failure> {
        let mut saved = self.require()?;
        let git = self.git(sandbox);
        let short = short(self.session);
        let bundle = format!("/tmp/slipway-{short}-out.bundle");
        let bundled = format!("slipway-kept-{short}");
        let committed = git
            .commit(&Commit {
                tree,
                tip: saved.tip.as_deref().unwrap_or(&saved.base),
                base: &saved.base,
                branch: match keep {
                    Keep::Commit => Some(&saved.branch),
                    Keep::Progress => None,
                },
                bundled: &bundled,
                bundle: &bundle,
                message,
            })
            .await?;
        if committed.commit == saved.base {
            return Ok(None);
        }
        let (files, insertions, deletions) = git.counts(&saved.base, tree).await?;
        let scratch = self.scratch()?;
        let out = scratch.path().join("out.bundle");
        self.read_out(sandbox, &bundle, &out).await?;
        let mirror = self.mirror().await?;
        let commit = mirror.take(&out, &bundled, &saved.base, &self.session.to_string()).await?;
        failpoint::hit(failpoint::Point::WorkKept);
        saved.kept = Some(commit.clone());
        saved.unfinished = keep == Keep::Progress && committed.commit != committed.parent;
        if keep == Keep::Commit {
            saved.tip = Some(commit.clone());
        }
        self.record.put(saved)?;
        Ok(Some(Kept { commit, files, insertions, deletions }))
    }

    /// Saves everything in the workspace but git's own files as an archive beside the log.
    pub(crate) async fn rescue(&self, sandbox: &dyn Sandbox) -> Result<PathBuf, Failure> {
        let inside = "/tmp/slipway-rescue.tar";
        let archive = crate::process::Command {
            // What may not be read is left out, and the rest is still worth having.
            script: r#"tar -cf "$1" --exclude=./.git --ignore-failed-read . || test -s "$1""#,
            args: &[inside],
            env: Default::default(),
            cwd: WORKSPACE,
            timeout: RESCUE,
            limit: 0,
        };
        let archived = archive.run(sandbox, None).await?;
        if archived.code != 0 {
            let problem = Problem::new(
                Code::DeliveryFailed,
                format!("an archive of the workspace was not made within {} s", RESCUE.as_secs()),
            );
            return Err(problem.hint("the snapshot of this turn has every file: fork it, or go on").into());
        }
        let path = self.dir.join("rescued.tar");
        self.read_out(sandbox, inside, &path).await?;
        Ok(path)
    }

    /// Files, lines added and lines removed since the session began.
    pub(crate) async fn counts(&self, sandbox: &dyn Sandbox) -> Result<(u32, u32, u32), Failure> {
        let (git, saved) = (self.git(sandbox), self.require()?);
        let tree = git.tree(saved.products.as_deref()).await?;
        git.counts(&saved.base, &tree).await
    }

    fn scratch(&self) -> Result<tempfile::TempDir, Failure> {
        let made = tempfile::Builder::new().prefix("tmp-").tempdir_in(&self.dir);
        made.map_err(|error| crate::problem::file(&self.dir, &error).into())
    }

    /// Copies a file of the sandbox to the host, in pieces, and removes it there.
    async fn read_out(&self, sandbox: &dyn Sandbox, from: &str, to: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::Problem(crate::problem::file(to, &error));
        let mut file = tokio::fs::File::create(to).await.map_err(failed)?;
        let mut offset = 0;
        loop {
            let (data, size) = sandbox.guest().read_file(from, offset, PIECE).await?;
            if size > BUNDLE_LIMIT {
                return Err(Failure::Problem(
                    Problem::new(
                        Code::DeliveryFailed,
                        format!("the work has {size} bytes, which is too much to keep"),
                    )
                    .hint("take large generated files out of the workspace, or list them in .gitignore"),
                ));
            }
            offset += data.len() as u64;
            file.write_all(&data).await.map_err(failed)?;
            if data.is_empty() || offset >= size {
                break;
            }
        }
        file.flush().await.map_err(failed)?;
        let remove = crate::process::Command {
            script: r#"rm -f "$1""#,
            args: &[from],
            env: std::collections::BTreeMap::new(),
            cwd: "/",
            timeout: std::time::Duration::from_secs(30),
            limit: 0,
        };
        remove.run(sandbox, None).await.map(drop)
    }

    /// The diff from the commit the session began from: of the workspace while there is a sandbox, else of what was
    /// kept.
    pub(crate) async fn diff(&self, recorder: &Arc<Recorder>) -> Result<Diff, Failure> {
        let empty = |base: &str| Diff {
            base: base.to_owned(),
            patch: String::new(),
            files: 0,
            insertions: 0,
            deletions: 0,
        };
        let Some(saved) = self.saved() else { return Ok(empty("")) };
        if let Some(held) = self.attached(recorder).await {
            let git = self.git(&*held.sandbox);
            let inside = async { git.diff(&saved.base, &git.tree(saved.products.as_deref()).await?).await };
            match inside.await {
                // Between a sandbox's death and the moment the actor learns of it, the kept work is the answer.
                Err(Failure::Lost(_)) => {}
                result => return result,
            }
        }
        match &saved.kept {
            Some(kept) => Ok(self.mirror().await?.diff(&saved.base, kept).await?),
            None => Ok(empty(&saved.base)),
        }
    }

    /// Records that the sandbox died and removes what is left of it. Gives the reason.
    pub(crate) async fn lost(&self, recorder: &Arc<Recorder>, detail: &str) -> Result<String, Failure> {
        let taken = self.live.lock().await.take();
        let id = match &taken {
            Some(held) => Some(held.sandbox.id()),
            None => recorder.stream().with_state(|state| state.sandbox()).map(|(id, _)| id),
        };
        let end = match (&taken, id) {
            (Some(held), _) => how_it_ended(&*held.sandbox).await,
            // It ended while nobody held it, such as between two servers; its remains still say why.
            (None, Some(id)) => self.options.driver.ended(id).await,
            (None, None) => None,
        };
        let reason = end.map_or_else(|| detail.to_owned(), |end| end.to_string());
        if let Some(id) = id {
            self.discard(id).await;
            let mut events = vec![changed(id, SandboxState::Lost, Some(reason.clone()), None)];
            let limit = end.and_then(sandbox::End::limit);
            events.extend(limit.map(|limit| Hit::new(&self.limits(), limit).event(id)));
            recorder.append(&Actor::system(), events).await?;
        }
        Ok(reason)
    }

    /// Ends the sandbox on purpose. Work that no turn kept goes with it.
    pub(crate) async fn remove(&self, recorder: &Arc<Recorder>, why: &str) -> Result<(), Failure> {
        let taken = self.live.lock().await.take();
        let known = recorder.stream().with_state(|state| state.sandbox()).map(|(id, _)| id);
        let Some(id) = taken.map(|held| held.sandbox.id()).or(known) else { return Ok(()) };
        self.options.driver.remove(id).await?;
        let event = changed(id, SandboxState::Stopped, Some(why.to_owned()), None);
        recorder.append(&Actor::system(), vec![event]).await?;
        Ok(())
    }

    /// Removes a sandbox that is of no use any more.
    async fn discard(&self, id: SandboxId) {
        if let Err(error) = self.options.driver.remove(id).await {
            tracing::warn!(session = %self.session, sandbox = %id, %error, "a sandbox could not be removed");
        }
    }
}

/// Why a sandbox that does not answer ended. A monitor needs a moment to write that down.
async fn how_it_ended(sandbox: &dyn Sandbox) -> Option<sandbox::End> {
    for _ in 0..100 {
        let end = sandbox.ended().await;
        if end.is_some() || sandbox.guest().ping().await.is_ok() {
            return end;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    None
}

/// A `sandbox.changed` event.
fn changed(
    sandbox: SandboxId,
    state: SandboxState,
    detail: Option<String>,
    duration_ms: Option<u64>,
) -> EventBody {
    EventBody::SandboxChanged { sandbox, state, detail, duration_ms }
}

/// The address of the environment's repository.
pub(crate) fn repository_url(environment: &Environment) -> Result<&str, Problem> {
    environment.repos.first().map(|repo| repo.url.as_str()).ok_or_else(|| {
        Problem::new(Code::BadRequest, "the environment has no repository")
            .hint("add one: repos = [{ url = \"…\" }]")
    })
}

/// The last eight letters of a session's id: enough to tell its branch from others.
fn short(session: SessionId) -> String {
    let id = session.to_string();
    id[id.len().saturating_sub(8)..].to_owned()
}

/// The name of a session's branch.
pub(crate) fn branch_name(title: &str, session: SessionId) -> String {
    let mut slug = String::new();
    for letter in title.chars() {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= 40 {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    let slug = if slug.is_empty() { "work" } else { slug };
    format!("slipway/{slug}-{}", short(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names_are_safe_whatever_the_title() {
        let session = SessionId::from_u128(7);
        assert_eq!(branch_name("Fix the `login` bug!", session), "slipway/fix-the-login-bug-00000007");
        assert_eq!(branch_name("../../-x", session), "slipway/x-00000007");
        assert_eq!(branch_name("修理", session), "slipway/work-00000007");
    }
}
