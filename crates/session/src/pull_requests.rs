//! What people do to a session's pull request beside its branch: look at it, give it other words, say something below it, mark
//! it, close it.

use std::sync::Arc;

use forge::{Change, CheckState, Comment, Forge, Marks, NewPullRequest, Readiness, Repository, State};
use protocol::event::{Delivery, Review, ReviewState};
use protocol::{
    Actor, Code, EditPullRequest, EventBody, ForgeCheck, ForgeCheckState, Problem, PullRequest, SessionId,
    Timestamp,
};

use crate::command::Cause;
use crate::joint::of;
use crate::logins::refused;
use crate::outbox::{self, Described};
use crate::runner::Context;
use crate::{Sessions, problem};

/// How long a turn waits to be told what became of its pull requests.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
/// Longest text that a person gives.
const TEXT_LIMIT: usize = 60_000;

/// A pull request, and how to reach it.
struct Found {
    forge: Arc<dyn Forge>,
    repository: Repository,
    there: forge::PullRequest,
    branch: String,
    /// Where it goes, without credentials.
    remote: String,
    /// The repository's name among several.
    name: Option<String>,
}

impl Sessions {
    /// The session's pull request, as the forge has it now; that of a repository, where there are several.
    pub async fn pull_request(
        &self,
        id: SessionId,
        repository: Option<&str>,
    ) -> Result<PullRequest, Problem> {
        let handle = self.registry.open(id).await?;
        let found = find(handle.context(), repository).await?;
        shown(found).await
    }

    /// Changes it, and gives it as it is then. What is said below it under the same command is said once.
    pub async fn edit_pull_request(
        &self,
        id: SessionId,
        cause: impl Into<Cause>,
        repository: Option<&str>,
        edit: EditPullRequest,
    ) -> Result<PullRequest, Problem> {
        check(&edit)?;
        let (cause, handle) = (cause.into(), self.registry.open(id).await?);
        let context = handle.context();
        let mut found = find(handle.context(), repository).await?;
        let (forge, repository, number) =
            (Arc::clone(&found.forge), found.repository.clone(), found.there.number);
        let told = |refusal: forge::Refusal| refused(&refusal);
        let mut change = Change {
            title: edit.title,
            body: edit.body,
            readiness: edit.draft.map(|draft| if draft { Readiness::Draft } else { Readiness::Ready }),
        };
        if edit.describe {
            let commit = found.there.commit.clone();
            let described = outbox::describe(context, Some(&commit), found.name.as_deref()).await;
            let Described { body, .. } = described.map_err(problem::store)?;
            change.body = Some(outbox::written::instead_of(&found.there.body, &body));
        } else if let Some(body) = change.body.take() {
            change.body = Some(outbox::redacted(context, body).await);
        }
        if change != Change::default() {
            found.there = forge.update(&repository, number, &change).await.map_err(told)?;
        }
        let marks = Marks { labels: edit.labels, reviewers: edit.reviewers };
        if marks != Marks::default() {
            forge.mark(&repository, number, &marks).await.map_err(told)?;
        }
        if let Some(text) = edit.comment {
            let name = cause.id().unwrap_or_else(protocol::CommandId::new);
            let text = outbox::redacted(context, text).await;
            let comment = Comment { key: format!("{id}.{name}"), text, thread: None };
            forge.comment(&repository, number, &comment).await.map_err(told)?;
        }
        if edit.close {
            found.there = forge.close(&repository, number).await.map_err(told)?;
        }
        note(handle.context(), &cause.actor, &found).await?;
        shown(found).await
    }
}

fn check(edit: &EditPullRequest) -> Result<(), Problem> {
    let refuse = |title: &str, hint: &str| Err(Problem::new(Code::BadRequest, title).hint(hint));
    if *edit == EditPullRequest::default() {
        return refuse(
            "nothing is to be changed",
            "give a title, a body, labels, reviewers, a comment, or close it",
        );
    }
    if edit.describe && edit.body.is_some() {
        return refuse("a body was given, and is to be written anew", "give one of body and describe");
    }
    if edit.title.as_ref().is_some_and(|title| title.trim().is_empty() || title.contains(['\n', '\r'])) {
        return refuse("this is no title", "use one line");
    }
    let long =
        [&edit.title, &edit.body, &edit.comment].into_iter().flatten().any(|text| text.len() > TEXT_LIMIT);
    if long || edit.comment.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return refuse("a text is empty or too long", "give 1 to 60000 bytes");
    }
    let odd = |name: &String| name.trim().is_empty() || name.len() > 100 || name.contains(char::is_control);
    if edit.labels.iter().chain(&edit.reviewers).any(odd) || edit.labels.iter().any(|name| name.contains(','))
    {
        return refuse("a label or a reviewer is no name", "give each by its name, labels without commas");
    }
    Ok(())
}

/// Which of the session's deliveries is meant.
fn chosen(context: &Context, repository: Option<&str>) -> Result<Option<Delivery>, Problem> {
    let all = context.recorder.stream().with_state(|state| state.all_deliveries().to_vec());
    let with_pull_request = || all.iter().filter(|one| one.number.is_some());
    let names =
        || with_pull_request().filter_map(|one| one.repository.clone()).collect::<Vec<_>>().join(", ");
    let Some(wanted) = repository else {
        return match with_pull_request().count() {
            0 | 1 => Ok(with_pull_request().next().or(all.first()).cloned()),
            _ => {
                let title = "the session has pull requests in several repositories";
                Err(Problem::new(Code::Conflict, title).hint(format!("name one: {}", names())))
            }
        };
    };
    match all.iter().find(|one| one.repository.as_deref() == Some(wanted)) {
        Some(one) => Ok(Some(one.clone())),
        None => {
            let title = format!("the session has no pull request in a repository \"{wanted}\"");
            let hint = match names() {
                names if names.is_empty() => "it has one repository: leave its name out".to_owned(),
                names => format!("name one: {names}"),
            };
            Err(Problem::new(Code::NotFound, title).hint(hint))
        }
    }
}

async fn find(context: &Context, repository: Option<&str>) -> Result<Found, Problem> {
    let none = || {
        Problem::new(Code::Conflict, "the session has no pull request")
            .hint("`slipway deliver` opens one where a forge is configured for the repository")
    };
    let delivery = chosen(context, repository)?.ok_or_else(none)?;
    let Delivery { repository: name, branch, commit, remote, number, .. } = delivery;
    number.ok_or_else(none)?;
    // Where the repository is now.
    context.workspace.follow().await;
    let now = context.workspace.remote_of(context.workspace.number_of(name.as_deref()));
    let now = if now.is_empty() { &remote } else { &now };
    let (forge, repository) = context.options.outbox.forges.of(now).ok_or_else(|| {
        Problem::new(Code::Conflict, format!("no forge is configured for {now} any more"))
            .hint("put it back into slipway.toml")
    })?;
    let source = context.workspace.saved().map(|saved| saved.source).unwrap_or_default();
    let base = of(&source, context.workspace.number_of(name.as_deref())).to_owned();
    let wanted = NewPullRequest {
        repository: repository.clone(),
        branch: branch.clone(),
        commit: commit.unwrap_or_default(),
        base,
        title: String::new(),
        body: String::new(),
        readiness: Readiness::Ready,
        person: None,
    };
    let there = forge.look_up(&wanted).await.map_err(|refusal| refused(&refusal))?;
    let there = there.ok_or_else(|| {
        Problem::new(Code::NotFound, format!("the forge has no pull request of {branch} any more"))
            .hint("`slipway deliver` opens it again")
    })?;
    Ok(Found { forge, repository, there, branch, remote, name })
}

async fn shown(found: Found) -> Result<PullRequest, Problem> {
    let Found { forge, repository, there, branch, name, .. } = found;
    let checks = forge.checks(&repository, &there.commit).await.map_err(|refusal| refused(&refusal))?;
    let checks = checks.into_iter().map(|check| ForgeCheck {
        name: check.name,
        state: match check.state {
            CheckState::Passed => ForgeCheckState::Passed,
            CheckState::Pending => ForgeCheckState::Pending,
            CheckState::Failed => ForgeCheckState::Failed,
        },
        url: check.url,
    });
    Ok(PullRequest {
        repository: name,
        number: there.number,
        url: there.url,
        state: state_of(there.state),
        draft: there.readiness == Readiness::Draft,
        title: there.title,
        branch,
        commit: there.commit,
        checks: checks.collect(),
    })
}

/// What became of a pull request, in the words of events.
pub(crate) fn state_of(state: State) -> ReviewState {
    match state {
        State::Open => ReviewState::Open,
        State::Closed => ReviewState::Closed,
        State::Merged => ReviewState::Merged,
    }
}

/// Records what the forge says of it, where that is new.
async fn note(context: &Context, actor: &Actor, found: &Found) -> Result<(), Problem> {
    let (there, remote) = (&found.there, found.remote.clone());
    let review = Review {
        state: state_of(there.state),
        at: Timestamp::now(),
        draft: there.readiness == Readiness::Draft,
    };
    let number = there.number;
    let decide =
        move |state: &crate::state::State| (reviewed(state, &remote, number, (review, Clock::Ours)), ());
    context.recorder.append_if(actor, decide).await.map(drop).map_err(problem::store)
}

/// Asks what became of the session's pull requests that are open as far as is known: webhooks come late, or there are none.
/// What cannot be asked now stays as it is known.
pub(crate) async fn ask_again(context: &Context) {
    let is_open = |one: &&Delivery| {
        one.number.is_some() && one.review.is_none_or(|review| review.state == ReviewState::Open)
    };
    let stream = context.recorder.stream();
    let open: Vec<Option<String>> = stream.with_state(|state| {
        state.all_deliveries().iter().filter(is_open).map(|one| one.repository.clone()).collect()
    });
    let ask = async {
        for name in open {
            let told = match find(context, name.as_deref()).await {
                Ok(found) => note(context, &Actor::system(), &found).await,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = told {
                let session = context.recorder.session();
                tracing::debug!(%session, %problem, "what became of a pull request could not be asked");
            }
        }
    };
    if tokio::time::timeout(PATIENCE, ask).await.is_err() {
        tracing::debug!(session = %context.recorder.session(), "what became of a pull request was not told in time");
    }
}

/// By which clock something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// That of the forge, so that what it tells can be put in order.
    Forge,
    /// That of this machine.
    Ours,
}

/// What is recorded when a forge says what became of a pull request. What is older than what is known changes nothing, and what
/// was merged stays so. What says the same later is recorded for its time: all that is told late and is older than that is old.
pub(crate) fn reviewed(
    state: &crate::state::State,
    remote: &str,
    number: u64,
    (review, clock): (Review, Clock),
) -> Vec<EventBody> {
    let its = |known: &&Delivery| known.remote == remote && known.number.is_none_or(|known| known == number);
    let Some(known) = state.all_deliveries().iter().find(its) else { return Vec::new() };
    // Before the number is known only a delivery that is being opened can be meant.
    if known.number.is_none() && !known.state.is_pending() {
        return Vec::new();
    }
    let is_new = match known.review {
        None => true,
        Some(before) if before.state == ReviewState::Merged => false,
        Some(before) => {
            let same = (before.state, before.draft) == (review.state, review.draft);
            match same {
                true => clock == Clock::Forge && review.at > before.at,
                false => review.at >= before.at || review.state == ReviewState::Merged,
            }
        }
    };
    if !is_new {
        return Vec::new();
    }
    vec![EventBody::DeliveryUpdated(Delivery { review: Some(review), ..known.clone() })]
}

/// A session's commits in one file, for as long as this is kept.
pub struct Bundle {
    path: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl Bundle {
    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }
}

impl Sessions {
    /// The session's branch as a bundle that begins where the session did: what can be delivered, or else what is kept. It is of
    /// one repository.
    pub async fn bundle(&self, id: SessionId, repository: Option<&str>) -> Result<Bundle, Problem> {
        let handle = self.registry.open(id).await?;
        let workspace = &handle.context().workspace;
        let places = workspace.places();
        let known =
            repository.is_none_or(|name| places.len() > 1 && places.iter().any(|place| place == name));
        if !known || (repository.is_none() && places.len() > 1) {
            let title = match repository {
                Some(name) => format!("the session has no repository \"{name}\""),
                None => "the session has several repositories".to_owned(),
            };
            let hint = match places.len() {
                1 => "it has one: leave its name out".to_owned(),
                _ => format!("name one: {}", places.join(", ")),
            };
            return Err(Problem::new(Code::BadRequest, title).hint(hint));
        }
        let number = workspace.number_of(repository);
        let none = || {
            Problem::new(Code::Conflict, "the session has no commits of its own")
                .hint("send it a prompt; when a turn changed something, there is a branch")
        };
        let saved = workspace.saved().ok_or_else(none)?;
        let commit = saved.tip.as_ref().or(saved.kept.as_ref()).ok_or_else(none)?;
        let (commit, base) = (of(commit, number), of(&saved.base, number));
        let mirror = workspace.mirror_of(repository).await.map_err(crate::failure::Failure::into_problem)?;
        let directory = tempfile::tempdir().map_err(|error| problem::file(&std::env::temp_dir(), &error))?;
        let path = directory.path().join("session.bundle");
        let bundled = mirror.bundle_since(&saved.branch, commit, base, &path).await;
        match bundled.map_err(|error| problem::forge(&error))? {
            true => Ok(Bundle { path, _directory: directory }),
            false => Err(none()),
        }
    }
}
