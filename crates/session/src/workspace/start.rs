//! Making a workspace ready. An existing sandbox is found again; otherwise one is made from the session's last snapshot,
//! from the environment's image, or, where there is neither, from the bare base and the repository.

use std::sync::Arc;
use std::time::Instant;

use failpoint::Point;
use protocol::event::SandboxState;
use protocol::{Actor, Code, Problem, SandboxId};
use sandbox::egress::Proxy;
use sandbox::image::Image;
use sandbox::snapshot::Snapshot;
use sandbox::{Life, Owner, Sandbox, Spec, Stack, service};

use super::extras;
use super::ground::Index;
use super::prepare::{BUNDLE, Content, Witness, begun, copy_in, remote};
use super::{Held, Saved, Sync, Workspace, branch_name, changed, git, recipe};
use crate::builds::network;
use crate::failure::Failure;
use crate::joint::{self, Joint, of};
use crate::limits::{Hit, Said};
use crate::recorder::Recorder;
use crate::stop::Stop;

/// What is said of a workspace that goes on from a snapshot which may not be of one moment.
const BLURRED: &str = "A process went on that could not be stopped when the snapshot was taken which this workspace goes on \
     from. Files that it wrote at that time can be of different moments: look at them before you rely on them.";

/// How long a look at a workspace that was found may take.
const LOOK: std::time::Duration = std::time::Duration::from_secs(30);

/// A workspace that takes commands.
pub(crate) struct Ready {
    pub(crate) held: Held,
    pub(crate) saved: Saved,
    /// What a person should know of, such as keys of the repository's recipe that were ignored.
    pub(crate) notices: Vec<String>,
    /// Whether it was made just now.
    pub(crate) made: bool,
    /// What is still to be done before anything is written: until then it is only good for reading.
    pub(crate) sync: Option<Sync>,
}

/// What is known of a workspace before it is ready. Bringing it to the tip of its branch may change it.
pub(crate) struct Foreseen {
    pub(crate) instructions: String,
    pub(crate) checks: Vec<protocol::Check>,
    /// Where its skills are, if it has some.
    pub(crate) skills_at: Option<String>,
    pub(crate) mcp: Vec<protocol::McpProgram>,
}

/// What a new sandbox is made from.
enum Origin {
    Snapshot(Box<Snapshot>),
    Image(Box<Image>),
    Repository,
}

/// Why there is no sandbox.
enum Trouble {
    /// What it was to be made from cannot be used; something else may do.
    Origin(String),
    /// Nothing else would do either.
    Failure(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Everything else that ends the work ends it here too.
macro_rules! fatal {
    ($($error:ty),*) => {$(
        impl From<$error> for Trouble {
            fn from(error: $error) -> Self {
                Self::Failure(error.into())
            }
        }
    )*};
}

fatal!(store::Error, Problem, forge::Error, sandbox::Error);

impl Workspace {
    /// The sandbox of this session, made if there is none. Whoever asks holds `making`.
    pub(super) async fn ensure_now(&self, recorder: &Arc<Recorder>, stop: &Stop) -> Result<Ready, Failure> {
        if let Some(ready) = self.find_unsynced(recorder, stop).await? {
            return Ok(ready);
        }
        if let Some(ready) = self.find(recorder).await? {
            return Ok(ready);
        }
        self.platform.builds.refuse_when_crowded().await?;
        let mut live = self.live.lock().await;
        let mut notices = Vec::new();
        let mut made = None;
        if let Some(frozen) = self.saved().and_then(|saved| saved.frozen.filter(|one| one.kept == saved.kept))
        {
            let why = match self.options.snapshots.get(frozen.snapshot) {
                Some(snapshot) => {
                    match self.attempt(recorder, Origin::Snapshot(Box::new(snapshot)), stop).await? {
                        Ok(ready) => {
                            made = Some(ready);
                            None
                        }
                        Err(why) => Some(why),
                    }
                }
                None => Some("it was removed to save disk space".to_owned()),
            };
            notices.extend(why.map(|why| {
                format!(
                    "The workspace's last snapshot could not be used ({why}). It was made again from the work that git \
                     keeps; files that git ignores are gone."
                )
            }));
        }
        if made.is_none()
            && let Some(image) = self.image(recorder, stop).await?
        {
            match self.attempt(recorder, Origin::Image(Box::new(image)), stop).await? {
                Ok(ready) => made = Some(ready),
                Err(why) if self.recipe.base == "host" => {
                    tracing::warn!(session = %self.session, error = %why, "an image could not be used");
                }
                // The host's system is not what this environment asks for.
                Err(why) => {
                    return Err(Problem::new(
                        Code::SandboxUnavailable,
                        format!("the image of {} cannot be used: {why}", self.environment),
                    )
                    .hint(format!("build it again: slipway env build {}", self.environment))
                    .into());
                }
            }
        }
        let mut ready = match made {
            Some(ready) => ready,
            None => match self.attempt(recorder, Origin::Repository, stop).await? {
                Ok(ready) => ready,
                Err(why) => return Err(Problem::new(Code::SandboxUnavailable, why).into()),
            },
        };
        notices.append(&mut ready.notices);
        ready.notices = notices;
        *live = Some(ready.held.clone());
        Ok(ready)
    }

    /// What the model is told of the workspace before that is here; None where it must be waited for.
    pub(crate) async fn foreseen(&self, recorder: &Recorder) -> Option<Foreseen> {
        if let Some(saved) = self.saved() {
            let skills_at = saved.skills_at();
            let Saved { instructions, checks, mcp, running, .. } = saved;
            // That what ran does not run any more is told before anything is asked for.
            let stopped = recorder.stream().with_state(|state| state.sandbox()).is_none();
            let foreseen = Foreseen { instructions, checks, skills_at, mcp };
            return (running.is_empty() || !stopped).then_some(foreseen);
        }
        let image = self.current_image().await?;
        let mirror = Joint::existing(&self.copies, &self.recipe)?;
        let tip = forge::Tip { branch: image.branch, commit: image.commit };
        let completed = self.platform.builds.completed(&self.environment, &self.recipe, &mirror, &tip).await;
        let recipe::Resolved { instructions, checks, has_skills, mcp, .. } = completed.ok()?;
        Some(Foreseen { instructions, checks, skills_at: has_skills.then_some(tip.commit), mcp })
    }

    /// The sandbox that the log says is there, if it answers.
    pub(crate) async fn find(&self, recorder: &Arc<Recorder>) -> Result<Option<Ready>, Failure> {
        let known = recorder.stream().with_state(|state| state.sandbox());
        let (Some((id, state)), saved) = (known, self.saved()) else { return Ok(None) };
        let Some(saved) = saved.filter(|_| state == SandboxState::Ready) else {
            // The server ended while it was being made; nobody knows how far it is.
            self.remove(recorder, "its preparation was interrupted").await?;
            return Ok(None);
        };
        let mut live = self.live.lock().await;
        if live.is_none() {
            *live = self.adopt(id, recorder).await;
        }
        if let Some(held) = live.clone()
            && held.sandbox.guest().ping().await.is_ok()
        {
            return Ok(Some(Ready { held, saved, notices: Vec::new(), made: false, sync: None }));
        }
        drop(live);
        self.lost(recorder, "it did not answer any more").await?;
        Ok(None)
    }

    /// A sandbox that a server before this one was bringing to the branch's tip: nothing was written in it yet, so it is
    /// brought there anew. None when there is no such sandbox, or when it cannot be known how far it came.
    async fn find_unsynced(&self, recorder: &Arc<Recorder>, stop: &Stop) -> Result<Option<Ready>, Failure> {
        let known = recorder.stream().with_state(|state| state.sandbox());
        let mut live = self.live.lock().await;
        let (Some((id, SandboxState::Syncing)), None, None) = (known, live.as_ref(), self.saved()) else {
            return Ok(None);
        };
        let Some(image) = self.current_image().await else { return Ok(None) };
        let Some(held) = self.adopt(id, recorder).await else { return Ok(None) };
        if *held.sandbox.stack() != image.stack || !self.is_whole(&*held.sandbox).await {
            return Ok(None);
        }
        let making = Making { workspace: self, recorder, began: Instant::now(), stop };
        let ready = match making.to_be_synced(held, &image).await {
            Ok(ready) => Ready { made: false, ..ready },
            Err(Trouble::Failure(failure @ (Failure::Store(_) | Failure::Stopped))) => return Err(failure),
            // A new one either has none of it, or tells of it.
            Err(Trouble::Origin(why)) => {
                tracing::info!(session = %self.session, sandbox = %id, error = %why, "a sandbox is made again");
                return Ok(None);
            }
            Err(Trouble::Failure(failure)) => {
                let error = failure.into_problem();
                tracing::info!(session = %self.session, sandbox = %id, %error, "a sandbox is made again");
                return Ok(None);
            }
        };
        *live = Some(ready.held.clone());
        Ok(Some(ready))
    }

    /// Whether nothing is half done in a workspace whose server ended: no set-up step runs, and no git was broken off,
    /// which would have left a lock.
    async fn is_whole(&self, sandbox: &dyn Sandbox) -> bool {
        let of_a_step = |process: &guest::ProcessState| {
            process.exit.is_none() && !process.id.starts_with(service::PREFIX)
        };
        match sandbox.guest().processes().await {
            Ok(processes) if !processes.iter().any(of_a_step) => {}
            Ok(_) | Err(_) => return false,
        }
        let places: Vec<&str> =
            self.places.iter().map(|place| if place.is_empty() { "." } else { place.as_str() }).collect();
        let no_locks = crate::process::Command {
            script: r#"
for at; do
  test -d "$at/.git" || exit 1
  test -z "$(cd "$at" && find .git -path .git/objects -prune -o -name '*.lock' -print)" || exit 1
done
"#,
            args: &places,
            env: Default::default(),
            cwd: sandbox::WORKSPACE,
            timeout: LOOK,
            limit: 0,
        };
        no_locks.run(sandbox, None).await.is_ok_and(|ended| ended.code == 0)
    }

    /// The environment's image, if there is one and it is what this session is to work in.
    async fn current_image(&self) -> Option<Image> {
        let builds = &self.platform.builds;
        let image = builds.current(&self.environment).filter(|image| self.fits(image))?;
        // What the environment was before an edit is not.
        let outdated = builds.outdated(&self.environment, &self.recipe, &image).await;
        (!outdated).then_some(image)
    }

    /// Whether an image has this session's repository and branch.
    fn fits(&self, image: &Image) -> bool {
        let mut wanted = self.recipe.repos.iter().enumerate();
        joint::address(&self.recipe) == image.url
            && wanted.all(|(number, repo)| {
                repo.branch.as_ref().is_none_or(|branch| *branch == of(&image.branch, number))
            })
    }

    /// The image to start from. Where the base is the host's, nobody waits for one that is not built yet.
    async fn image(&self, recorder: &Arc<Recorder>, stop: &Stop) -> Result<Option<Image>, Failure> {
        let builds = &self.platform.builds;
        let current = self.current_image().await;
        if current.is_some() || self.recipe.base == "host" {
            return Ok(current);
        }
        tokio::select! {
            built = builds.run_and_tell(&self.environment, recorder) => {
                if let (Err(_), Some((sandbox, limit))) = (&built, builds.limit_hit(&self.environment)) {
                    let event = Hit::new(&self.limits(), limit).event(sandbox);
                    recorder.append(&Actor::system(), vec![event]).await?;
                }
                built?;
            }
            () = stop.given() => return Err(Failure::Stopped),
        }
        let built = builds.current(&self.environment).filter(|image| self.fits(image));
        built.map(Some).ok_or_else(|| {
            Problem::new(
                Code::SetupFailed,
                "the environment's image is of another repository than this session's",
            )
            .hint("the environment was changed since: start a new session")
            .into()
        })
    }

    /// Makes a sandbox from one origin, or says why that origin will not do.
    async fn attempt(
        &self,
        recorder: &Arc<Recorder>,
        origin: Origin,
        stop: &Stop,
    ) -> Result<Result<Ready, String>, Failure> {
        let mut id = SandboxId::new();
        let trouble = match self.provision(recorder, &mut id, origin, stop).await {
            Ok(ready) => return Ok(Ok(ready)),
            Err(trouble) => trouble,
        };
        // A limit may be the reason; that can only be seen as long as something of the sandbox is there.
        let limits = self.limits_of(recorder, id, &trouble).await?;
        let end = self.options.driver.ended(id).await;
        self.discard(id).await;
        let (why, failure) = match trouble {
            Trouble::Failure(failure @ (Failure::Store(_) | Failure::Waits)) => return Err(failure),
            Trouble::Failure(Failure::Problem(problem)) => {
                let problem = match limits.first() {
                    Some(hit) => problem.hint(hit.message.clone()),
                    None => problem,
                };
                (problem.title.clone(), Some(Failure::Problem(problem)))
            }
            Trouble::Failure(Failure::Stopped) => {
                let by_system = stop.by().is_some_and(|by| by.kind == protocol::ActorKind::System);
                let why =
                    if by_system { "the turn ended before it was ready" } else { "the turn was stopped" };
                (why.to_owned(), Some(Failure::Stopped))
            }
            // A sandbox that dies while it is prepared would die again.
            Trouble::Failure(Failure::Lost(detail)) => {
                let detail = end.map_or(detail, |end| end.to_string());
                let hint =
                    limits.first().map_or("`slipway doctor` says what is missing on this machine", |hit| {
                        hit.message.as_str()
                    });
                let problem = Problem::new(
                    Code::SandboxUnavailable,
                    format!("the sandbox died while it was prepared: {detail}"),
                )
                .hint(hint);
                (detail, Some(Failure::Problem(problem)))
            }
            Trouble::Origin(why) => (why, None),
        };
        let event = changed(id, SandboxState::Stopped, Some(why.clone()), None);
        recorder.append(&Actor::system(), vec![event]).await?;
        failure.map_or(Ok(Err(why)), Err)
    }

    /// Records the limits that a sandbox came to while it was made ready, if its trouble may be due to one.
    async fn limits_of(
        &self,
        recorder: &Arc<Recorder>,
        id: SandboxId,
        trouble: &Trouble,
    ) -> Result<Vec<Hit>, Failure> {
        let (said, known) = match trouble {
            Trouble::Failure(Failure::Problem(problem)) => (problem.title.as_str(), problem.hint.as_deref()),
            Trouble::Failure(Failure::Lost(detail)) => (detail.as_str(), None),
            Trouble::Failure(Failure::Store(_) | Failure::Stopped | Failure::Waits) | Trouble::Origin(_) => {
                return Ok(Vec::new());
            }
        };
        let driver = &self.options.driver;
        let hits = match driver.adopt(id).await {
            Ok(sandbox) => self.new_limits(&*sandbox, &Said::by_failed(said)).await,
            Err(_) => {
                let limit = driver.ended(id).await.and_then(sandbox::End::limit);
                Vec::from_iter(limit.map(|limit| Hit::new(&self.limits(), limit)))
            }
        };
        // Whoever ran the step has told of the limit that it failed of. The sandbox may have come to it once more since,
        // with what was still under way when its processes were ended.
        let untold = hits.iter().filter(|hit| known != Some(hit.message.as_str()));
        let events = untold.map(|hit| hit.event(id)).collect();
        recorder.append(&Actor::system(), events).await?;
        Ok(hits)
    }

    async fn provision(
        &self,
        recorder: &Arc<Recorder>,
        id: &mut SandboxId,
        origin: Origin,
        stop: &Stop,
    ) -> Result<Ready, Trouble> {
        self.looked(sandbox::Usage::default());
        let making = Making { workspace: self, recorder, began: Instant::now(), stop };
        match origin {
            Origin::Snapshot(snapshot) => making.on_snapshot(*id, &snapshot).await,
            Origin::Image(image) => making.on_image(id, *image).await,
            Origin::Repository => making.on_base(*id).await,
        }
    }
}

/// A sandbox in the making.
struct Making<'a> {
    workspace: &'a Workspace,
    recorder: &'a Arc<Recorder>,
    began: Instant,
    stop: &'a Stop,
}

impl Making<'_> {
    async fn tell(&self, id: SandboxId, state: SandboxState) -> Result<(), Trouble> {
        let duration = match state {
            SandboxState::Creating => None,
            _ => u64::try_from(self.began.elapsed().as_millis()).ok(),
        };
        let event = changed(id, state, None, duration);
        self.recorder.append(&Actor::system(), vec![event]).await?;
        Ok(())
    }

    async fn spec(&self, id: SandboxId, stack: Stack) -> Spec {
        let workspace = self.workspace;
        Spec {
            id,
            limits: workspace.limits(),
            network: network(&workspace.egress().await),
            ..Spec::new(stack, Life::Own, Owner::Session(workspace.session))
        }
    }

    /// Makes a sandbox on layers, which may be gone.
    async fn create(&self, id: SandboxId, stack: Stack) -> Result<Arc<dyn Sandbox>, Trouble> {
        let spec = self.spec(id, stack).await;
        let created = self.workspace.options.driver.create(&spec).await;
        failpoint::hit(Point::SandboxMade);
        created.map_err(|error| Trouble::Origin(error.to_string()))
    }

    async fn hold(&self, sandbox: Arc<dyn Sandbox>, proxy: Option<Proxy>) -> Result<Held, Trouble> {
        let exit = self.workspace.connect(&sandbox, proxy, self.recorder).await?;
        Ok(Held { sandbox, exit })
    }

    /// Starts the services, unless the turn is stopped meanwhile.
    async fn serve(&self, held: &Held, services: &[protocol::Service]) -> Result<(), Trouble> {
        tokio::select! {
            up = service::start(&*held.sandbox, services) => up.map(drop)?,
            () = self.stop.given() => return Err(Failure::Stopped.into()),
        }
        if services.is_empty() { Ok(()) } else { self.look(held).await }
    }

    /// Tells of limits that were reached although everything came to its end.
    async fn look(&self, held: &Held) -> Result<(), Trouble> {
        self.workspace.tell_limits(self.recorder, &*held.sandbox, "").await?;
        Ok(())
    }

    /// The workspace as it was, with its untracked files; what ran in it does not run any more.
    async fn on_snapshot(&self, id: SandboxId, snapshot: &Snapshot) -> Result<Ready, Trouble> {
        let workspace = self.workspace;
        let mut saved = workspace.require()?;
        self.tell(id, SandboxState::Creating).await?;
        let sandbox = self.create(id, snapshot.stack.clone()).await?;
        let held = self.hold(sandbox, None).await?;
        if snapshot.session != workspace.session {
            workspace.git(&*held.sandbox).branch(&saved.branch).await?;
        }
        self.serve(&held, &saved.services).await?;
        let running = std::mem::take(&mut saved.running);
        let mut notices = Vec::from_iter((!running.is_empty()).then(|| {
            format!(
                "The sandbox was stopped while it was not used and is back with all files. Processes that ran in it ({}) \
                 are gone: start again what you need. The environment's services run.",
                running.join(", ")
            )
        }));
        if snapshot.blurred {
            notices.push(BLURRED.to_owned());
        }
        workspace.record.put(saved.clone())?;
        self.tell(id, SandboxState::Ready).await?;
        Ok(Ready { held, saved, notices, made: true, sync: None })
    }

    /// A sandbox that was kept ready, or a new one on the image's layers. Work that was kept is put on it at once; a
    /// session that begins can be read from while it is brought to the branch's tip.
    async fn on_image(&self, id: &mut SandboxId, image: Image) -> Result<Ready, Trouble> {
        let workspace = self.workspace;
        let owner = Owner::Session(workspace.session);
        let claimed = workspace.options.pool.claim(&workspace.environment, &image.key, &owner).await;
        let (sandbox, proxy) = match claimed {
            Some(claimed) => {
                *id = claimed.sandbox.id();
                (claimed.sandbox, claimed.proxy)
            }
            None => {
                self.tell(*id, SandboxState::Creating).await?;
                (self.create(*id, image.stack.clone()).await?, None)
            }
        };
        let held = self.hold(sandbox, proxy).await?;
        if workspace.saved().is_some() {
            return self.kept_on_image(*id, held, &image).await;
        }
        let ready = self.to_be_synced(held, &image).await?;
        self.tell(*id, SandboxState::Syncing).await?;
        Ok(ready)
    }

    /// A sandbox on the image's layers, with its services, as it is before it is brought to the branch's tip.
    async fn to_be_synced(&self, held: Held, image: &Image) -> Result<Ready, Trouble> {
        let workspace = self.workspace;
        let mirror = workspace.mirrors().await?;
        let tip = forge::Tip { branch: image.branch.clone(), commit: image.commit.clone() };
        let builds = &workspace.platform.builds;
        let resolved = builds.completed(&workspace.environment, &workspace.recipe, &mirror, &tip).await?;
        // Those that run already are left alone.
        self.serve(&held, &resolved.services).await?;
        let mut notices = resolved.notices.clone();
        let more = image.notes.iter().filter(|note| !resolved.notices.contains(note));
        notices.extend(more.cloned());
        let (options, secrets) = (&workspace.options, &workspace.recipe.secrets);
        let branch = branch_name(options, secrets, &workspace.title, workspace.session).await;
        let saved = begun(resolved, &tip, branch, super::remotes(&workspace.recipe));
        let sandbox = Arc::clone(&held.sandbox);
        let sync = Sync { sandbox, tip, saved: saved.clone(), began: self.began, failed: None };
        Ok(Ready { held, saved, notices, made: true, sync: Some(sync) })
    }

    /// The work as it was kept, on the image instead of a bare base: what the set-up steps made is there.
    async fn kept_on_image(&self, id: SandboxId, held: Held, image: &Image) -> Result<Ready, Trouble> {
        let workspace = self.workspace;
        let content = workspace.content().await?;
        self.tell(id, SandboxState::Preparing).await?;
        let Content { mirrors, saved, commit, .. } = &content;
        let scratch = workspace.scratch()?;
        let bundle = scratch.path().join("in.bundle");
        let clones = workspace.git(&*held.sandbox);
        for ((number, git), (_, mirror)) in clones.each().enumerate().zip(mirrors.parts()) {
            let (branch, commit) = (of(&content.bundled, number), of(commit, number));
            let bundled = mirror.bundle_since(branch, commit, of(&image.commit, number), &bundle).await?;
            if bundled {
                copy_in(&*held.sandbox, &bundle, BUNDLE, self.stop).await?;
            }
            let to = git::Move {
                bundle: bundled.then_some(BUNDLE),
                commit,
                branch: &saved.branch,
                source: of(&saved.source, number),
                base: of(&saved.base, number),
                remote: remote(saved, number),
                unfinished: content.unfinished(number),
            };
            git.go(&to, self.stop).await?;
        }
        let whence = workspace.whence(&saved.setup).await;
        let changes = (mirrors, commit.as_str(), Some(image.commit.as_str()));
        let source = whence.source(workspace);
        let mut notices = content.notices.clone();
        notices.extend(extras::lay_all(&source, &clones, changes, scratch.path(), self.stop).await?);
        let saved = self.on_new_ground(&held, content.saved).await?;
        self.serve(&held, &saved.services).await?;
        self.tell(id, SandboxState::Ready).await?;
        Ok(Ready { held, saved, notices, made: true, sync: None })
    }

    /// What people had configured for git is in a workspace that was made again as it was in the one before: nobody was at
    /// work in it yet. Of one in which no turn began it is looked at then.
    async fn on_new_ground(&self, held: &Held, mut saved: Saved) -> Result<Saved, Trouble> {
        if !saved.grounds.is_empty() {
            saved.grounds = self.workspace.git(&*held.sandbox).grounds(Index::Ours).await?;
            self.workspace.record.put(saved.clone())?;
        }
        Ok(saved)
    }

    /// The bare base, the repository, and the set-up steps.
    async fn on_base(&self, id: SandboxId) -> Result<Ready, Trouble> {
        let workspace = self.workspace;
        self.tell(id, SandboxState::Creating).await?;
        let spec = self.spec(id, Stack::host()).await;
        // The sandbox is made while the repository is fetched. Making it is not given up half-way, so that there is
        // one place that cleans up.
        let fetch = async {
            tokio::select! {
                content = workspace.content() => content,
                () = self.stop.given() => Err(Failure::Stopped),
            }
        };
        let (sandbox, content) = tokio::join!(workspace.options.driver.create(&spec), fetch);
        let mut content = content?;
        let sandbox = sandbox?;
        failpoint::hit(Point::SandboxMade);
        self.tell(id, SandboxState::Preparing).await?;
        let held = self.hold(sandbox, None).await?;
        let scratch = workspace.scratch()?;
        let witness = Witness { workspace, recorder: self.recorder, state: SandboxState::Preparing };
        let egress = workspace.egress().await;
        let source = (&workspace.copies, &egress);
        let git = workspace.git(&*held.sandbox);
        let put = content.put_in(git, scratch.path(), self.stop, source, Some(witness)).await?;
        content.notices.extend(put);
        if !content.saved.setup.is_empty() {
            self.look(&held).await?;
        }
        content.saved = self.on_new_ground(&held, content.saved).await?;
        self.serve(&held, &content.saved.services).await?;
        workspace.record.put(content.saved.clone())?;
        self.tell(id, SandboxState::Ready).await?;
        Ok(Ready { held, saved: content.saved, notices: content.notices, made: true, sync: None })
    }
}
