//! A session's workspace: the sandbox it is in, how it is prepared, how it is read, and how the work is kept on the
//! host, so that a sandbox can go away at any time between turns and nothing is lost.

pub(crate) mod address;
mod catch_up;
mod clones;
mod conflicts;
pub(crate) mod extras;
mod found;
mod freeze;
mod git;
mod ground;
mod keep;
mod moved;
mod one_off;
mod patience;
mod person;
mod prepare;
pub(crate) mod recipe;
mod saved;
pub(crate) mod scratch;
mod services;
mod several;
mod start;
mod sync;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, Weak};

use protocol::event::SandboxState;
use protocol::{Actor, Code, Diff, Egress, Environment, EventBody, Policy, Problem, SandboxId, SessionId};
use sandbox::Sandbox;
use sandbox::egress::{Narrowing, Proxy, Rules};
use tokio::sync::Mutex;

use crate::builds::Builds;
use crate::exits::{Door, Exit, Exits};
use crate::failure::Failure;
use crate::joint::Joint;
use crate::limits::{Hit, Said};
use crate::recorder::Recorder;
use crate::{Duty, Options, environments};
use clones::Clones;
use saved::Record;

pub(crate) use catch_up::Look;
pub(crate) use git::directory;
pub(crate) use keep::{Changed, Keep, Kept};
pub use one_off::{Arrival, SetUp, bring_to_tip};
pub(crate) use patience::Patience;
pub use prepare::prepare;
pub(crate) use recipe::prefix;
pub(crate) use saved::{Frozen, Saved, begin_with, known_with};
pub(crate) use services::Expected;
pub(crate) use start::Ready;
pub(crate) use sync::{Came, Sync, Synced};
pub(crate) use tree::{Reading, Unlike};

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

/// What of an environment says from where extras may come.
struct Away<'a> {
    egress: Egress,
    steps: &'a [protocol::SetupStep],
}

impl Away<'_> {
    fn source<'b>(&'b self, workspace: &'b Workspace) -> extras::Whence<'b> {
        extras::Whence { mirrors: &workspace.copies, egress: &self.egress, steps: self.steps }
    }
}

/// The workspace of one session.
pub(crate) struct Workspace {
    session: SessionId,
    dir: PathBuf,
    options: Arc<Options>,
    /// The host's copies of repositories, which reach those that moved where they are now.
    copies: forge::Mirrors,
    platform: Arc<Platform>,
    /// Name of the environment.
    environment: String,
    recipe: Environment,
    /// Where its repositories lie.
    places: Vec<String>,
    title: String,
    record: Record,
    live: Mutex<Option<Held>>,
    /// The sandbox's way out, for whoever changes what it refuses.
    exit: std::sync::Mutex<Weak<Exit>>,
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
        let places = recipe.places();
        let (live, usage, care) =
            (Mutex::new(None), std::sync::Mutex::default(), std::sync::Mutex::default());
        let copies = options.mirrors.apart();
        let this = Self {
            session,
            dir,
            options,
            copies,
            platform,
            environment,
            recipe,
            places,
            title,
            record,
            live,
            exit: std::sync::Mutex::new(Weak::new()),
            making: Mutex::new(()),
            usage,
            care,
        };
        this.go_on_moved();
        this
    }

    /// What the checks said at the commit that the session began on, as far as they ran on an image of it.
    pub(crate) async fn known_checks(&self) -> Option<(String, Vec<protocol::KnownCheck>)> {
        let Saved { source, base, checks, .. } = self.saved()?;
        let tip = forge::Tip { branch: source, commit: base };
        let builds = &self.platform.builds;
        let known = builds.known_checks(&self.environment, &self.recipe, &tip, &checks).await;
        (!known.is_empty()).then_some((tip.commit, known))
    }

    /// What the session's sandbox may use.
    pub(crate) fn limits(&self) -> sandbox::Limits {
        crate::limits::merge(&self.options.limits, &self.recipe.limits)
    }

    /// Whether the environment lets the agent ask people.
    pub(crate) fn may_ask(&self) -> bool {
        self.recipe.questions
    }

    /// Whether the environment lets sessions know and keep what is remembered.
    pub(crate) fn remembers(&self) -> bool {
        self.recipe.memory && self.options.memory.enabled
    }

    /// Whose notes a session knows: those of its repository, of its environment, and of the author of the prompt.
    pub(crate) fn scopes(&self, author: Option<&str>) -> Vec<protocol::NoteScope> {
        use protocol::NoteScope;
        let of = |repo: &protocol::Repo| NoteScope::repository(forge::public_url(&repo.url));
        let environment = NoteScope::environment(self.environment.clone());
        self.recipe.repos.iter().map(of).chain([environment]).chain(author.map(NoteScope::person)).collect()
    }

    /// How the environment wants its pull requests.
    pub(crate) fn pull_request_rules(&self) -> &protocol::PullRequestRules {
        &self.recipe.pull_request
    }

    /// The secrets of the environment.
    pub(crate) fn secrets(&self) -> &[protocol::Secret] {
        &self.recipe.secrets
    }

    /// Whether the environment allows anything outside.
    pub(crate) fn reaches_out(&self) -> bool {
        match &self.recipe.egress {
            protocol::Egress::None => false,
            protocol::Egress::Open => true,
            protocol::Egress::Allow(rules) => !rules.is_empty(),
        }
    }

    /// The MCP servers that the environment names.
    pub(crate) fn mcp(&self) -> &[protocol::McpUse] {
        &self.recipe.mcp
    }

    /// What a person must approve: what the environment says, and what the repository says beside it.
    pub(crate) fn gates(&self) -> Vec<protocol::Gate> {
        let mut gates = self.recipe.approve.clone();
        gates.extend(self.saved().into_iter().flat_map(|saved| saved.approve));
        gates
    }

    /// The policies that hold: what the environment says, what the repository says beside it, and the session's own.
    pub(crate) fn policies(&self, own: &Policy) -> Vec<Policy> {
        let repositories = self.saved().map(|saved| (saved.policy, saved.policies)).unwrap_or_default();
        let policies = [self.recipe.policy.clone(), repositories.0].into_iter().chain(repositories.1);
        policies.chain([own.clone()]).filter(|policy| !policy.is_empty()).collect()
    }

    /// The hooks: the environment's, then the repository's own.
    pub(crate) fn hooks_with(&self, repository: Vec<protocol::Hook>) -> Vec<protocol::Hook> {
        self.recipe.hooks.iter().cloned().chain(repository).collect()
    }

    /// Where skills come from beside the repository.
    pub(crate) fn skill_sources(&self) -> &[protocol::SkillSource] {
        &self.recipe.skills
    }

    /// What of the network the policies refuse.
    fn narrowing(&self, recorder: &Recorder) -> Result<Narrowing, Failure> {
        let (own, granted) =
            recorder.stream().with_state(|state| (state.policy().clone(), state.granted().to_vec()));
        let policies = self.policies(&own);
        Ok(Narrowing::parse(&policies.iter().collect::<Vec<_>>(), &granted)?)
    }

    /// Puts another policy into force for the sandbox that runs, if one does.
    pub(crate) fn policy_changed(&self, recorder: &Recorder) -> Result<(), Failure> {
        // Held meanwhile, so that of two changes the later one is put into force last.
        let exit = self.exit.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(exit) = exit.upgrade() {
            exit.narrow(self.narrowing(recorder)?);
        }
        Ok(())
    }

    /// Where files of the session are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the host remembers; None before the first sandbox was ready.
    pub(crate) fn saved(&self) -> Option<Saved> {
        self.record.get()
    }

    /// Where the repositories lie in the workspace, in their order.
    pub(crate) fn places(&self) -> &[String] {
        &self.places
    }

    /// The name of a repository in events: where it lies, and nothing where it is the only one.
    pub(crate) fn name_of(&self, number: usize) -> Option<String> {
        self.places.get(number).filter(|_| self.places.len() > 1).cloned()
    }

    /// Which repository that is.
    pub(crate) fn number_of(&self, repository: Option<&str>) -> usize {
        let named = |name: &str| self.places.iter().position(|place| place == name);
        repository.and_then(named).unwrap_or_default()
    }

    /// Where a repository goes, without credentials.
    pub(crate) fn remote_of(&self, number: usize) -> String {
        if let Some(now) = self.saved().and_then(|saved| Some(saved.remote.lines().nth(number)?.to_owned())) {
            return now;
        }
        self.recipe.repos.get(number).map(|repo| forge::public_url(&repo.url)).unwrap_or_default()
    }

    /// The host's copies of the repositories as they are.
    pub(crate) fn copied(&self) -> Option<Joint> {
        Joint::existing(&self.copies, &self.recipe)
    }

    /// The host's copies of the repositories, from the remotes only when there are none.
    pub(crate) async fn mirrors(&self) -> Result<Joint, Failure> {
        Joint::have(&self.copies, &self.recipe).await
    }

    /// The host's copy of one repository; of the only one without a name.
    pub(crate) async fn mirror_of(&self, repository: Option<&str>) -> Result<forge::Mirror, Failure> {
        let number = self.number_of(repository);
        let Some(repo) = self.recipe.repos.get(number) else { return Err(no_repository().into()) };
        let mirrors = &self.copies;
        let mirror = match mirrors.existing(&repo.url) {
            Some(mirror) => mirror,
            None => mirrors.fetch(&repo.url).await?,
        };
        Ok(mirror.placed(self.places.get(number).map_or("", String::as_str)))
    }

    fn git<'a>(&'a self, sandbox: &'a dyn Sandbox) -> Clones<'a> {
        let (author, patience) = (&self.options.author, Patience::default());
        Clones { sandbox, author, patience, places: &self.places }
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

    /// Records the limits that the sandbox came to since it was last looked at, or that the words of something that failed
    /// tell of.
    pub(crate) async fn tell_limits(
        &self,
        recorder: &Arc<Recorder>,
        sandbox: &dyn Sandbox,
        said: &str,
    ) -> Result<Vec<Hit>, store::Error> {
        self.tell_limits_after(recorder, sandbox, &Said::by_failed(said)).await
    }

    /// The same of a command that may not have failed.
    pub(crate) async fn tell_limits_after(
        &self,
        recorder: &Arc<Recorder>,
        sandbox: &dyn Sandbox,
        said: &Said,
    ) -> Result<Vec<Hit>, store::Error> {
        let hits = self.new_limits(sandbox, said).await;
        let events = hits.iter().map(|hit| hit.event(sandbox.id())).collect();
        recorder.append(&Actor::system(), events).await?;
        Ok(hits)
    }

    /// The limits that the sandbox came to since it was last looked at, or that words tell of; nobody is told of them yet.
    async fn new_limits(&self, sandbox: &dyn Sandbox, said: &Said) -> Vec<Hit> {
        match sandbox.usage().await {
            Ok(after) => {
                let before = self.looked(after.clone());
                crate::limits::told(&self.limits(), &before, &after, said)
            }
            Err(error) => {
                tracing::debug!(session = %self.session, %error, "a sandbox's use cannot be read");
                Vec::new()
            }
        }
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
        let rules = (rules, self.narrowing(recorder)?);
        let exit = self.platform.exits.open(name, rules, secrets, id, door, recorder)?;
        *self.exit.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&exit);
        // It may have changed since it was looked at.
        self.policy_changed(recorder)?;
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

    /// From where what a commit needs beside its repository may come.
    async fn whence<'a>(&'a self, steps: &'a [protocol::SetupStep]) -> Away<'a> {
        Away { egress: self.egress().await, steps }
    }

    /// Whether the repository of a submodule has its commit; if not, why.
    pub(crate) async fn submodule(
        &self,
        mirror: &forge::Mirror,
        module: &forge::Submodule,
    ) -> Result<(), String> {
        let rules = Rules::parse(&self.egress().await).map_err(|error| error.to_string())?;
        let reach = |host: &str, port: u16| rules.allows(host, port);
        self.copies.submodule(mirror, module, &reach).await.map(drop)
    }

    fn require(&self) -> Result<Saved, Failure> {
        self.record.get().ok_or_else(|| {
            Problem::new(Code::Internal, "the workspace file of this session is missing")
                .hint("start a new session; the branch, if it was pushed, is on the remote")
                .into()
        })
    }

    fn scratch(&self) -> Result<tempfile::TempDir, Failure> {
        scratch::make(&self.dir).map_err(|error| crate::problem::file(&self.dir, &error).into())
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
            let inside = async {
                let tree = git.tree(&saved, Reading::Look).await?;
                git.diff(&saved.base, &tree.id).await
            };
            match inside.await {
                // Between a sandbox's death and the moment the actor learns of it, the kept work is the answer.
                Err(Failure::Lost(_)) => {}
                result => return result,
            }
        }
        match &saved.kept {
            Some(kept) => Ok(self.mirrors().await?.diff(&saved.base, kept).await?),
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

/// A `sandbox.changed` event of a state that lasts.
fn changed(
    sandbox: SandboxId,
    state: SandboxState,
    detail: Option<String>,
    duration_ms: Option<u64>,
) -> EventBody {
    EventBody::SandboxChanged { sandbox, state, detail, duration_ms, limit_ms: None }
}

fn no_repository() -> Problem {
    Problem::new(Code::BadRequest, "the environment has no repository")
        .hint("add one: repos = [{ url = \"…\" }]")
}

/// Where the work of a session goes, as `workspace.json` has it: a line for each repository.
pub(crate) fn remotes(environment: &Environment) -> String {
    environment.repos.iter().map(|repo| forge::public_url(&repo.url)).collect::<Vec<_>>().join("\n")
}

/// The last eight letters of a session's id: enough to tell its branch from others.
fn short(session: SessionId) -> String {
    let id = session.to_string();
    id[id.len().saturating_sub(8)..].to_owned()
}

/// The name of a session's branch. What has a secret in it is not made public by a name.
pub(crate) async fn branch_name(
    options: &Arc<Options>,
    secrets: &[protocol::Secret],
    title: &str,
    session: SessionId,
) -> String {
    let is_told = crate::secrets::is_told_in(options, secrets, title).await;
    name_of_branch(if is_told { "" } else { title }, session)
}

fn name_of_branch(title: &str, session: SessionId) -> String {
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
        assert_eq!(name_of_branch("Fix the `login` bug!", session), "slipway/fix-the-login-bug-00000007");
        assert_eq!(name_of_branch("../../-x", session), "slipway/x-00000007");
        assert_eq!(name_of_branch("修理", session), "slipway/work-00000007");
    }
}
