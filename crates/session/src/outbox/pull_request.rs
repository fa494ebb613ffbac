//! A pull request, once. Branch and commit name it; the forge is asked for it before it is opened, and again whenever
//! nobody knows what became of the request.

use forge::{
    Change, Forge, Marks, NewPullRequest, Person, PullRequest, Readiness, Refusal, Repository, State,
    open_once,
};
use protocol::{Actor, Code, EventBody, Item, ItemId, ItemKind, ItemStatus, Problem};

use super::{Attempts, Described, describe, written};
use crate::joint::of;
use crate::runner::Context;
use crate::stop::Stop;

/// What came of it.
pub(crate) enum Opened {
    /// It is there; and what it lacks of its labels and reviewers, which the next delivery puts on it.
    There(PullRequest, Option<String>),
    /// It is not there, and this is why.
    Failed(String),
    /// It was asked for, and nobody knows whether it is there.
    Unknown(String),
}

/// Finds the pull request of a commit, or opens it.
pub(crate) async fn open(
    context: &Context,
    stop: &Stop,
    forge: &dyn Forge,
    (repository, name): (Repository, Option<&str>),
    branch: &str,
    commit: &str,
) -> Result<Opened, store::Error> {
    let Some(saved) = context.workspace.saved() else {
        return Ok(Opened::Failed("the workspace file of this session is missing".to_owned()));
    };
    let Described { title, body } = describe(context, Some(commit), name).await?;
    let rules = context.workspace.pull_request_rules();
    // A session can have several one after the other: each is new once.
    let known = context.recorder.stream().with_state(|state| {
        let of_it = state.all_deliveries().iter().find(|one| one.repository.as_deref() == name);
        of_it.and_then(|one| one.number)
    });
    let number = context.workspace.number_of(name);
    let wanted = NewPullRequest {
        repository,
        branch: branch.to_owned(),
        commit: commit.to_owned(),
        base: of(&saved.source, number).to_owned(),
        title,
        body,
        readiness: if rules.draft { Readiness::Draft } else { Readiness::Ready },
        person: person(context, &context.workspace.remote_of(number)).await,
    };
    let mut attempts = Attempts::new(context, stop);
    let mut asked = false;
    loop {
        let refusal = match attempts.make(open_once(forge, &wanted, &mut asked)).await {
            None => {
                let why = "it was stopped, and no answer came".to_owned();
                return Ok(if asked { Opened::Unknown(why) } else { Opened::Failed(why) });
            }
            Some(Ok(pull_request)) => {
                failpoint::hit(failpoint::Point::PullRequestOpened);
                let number = pull_request.number;
                let is_new = known != Some(number);
                if !is_new {
                    describe_anew(context, forge, &wanted, &pull_request).await?;
                }
                let is_unmarked =
                    || context.recorder.stream().with_state(|state| state.is_unmarked(name, number));
                let missing = match is_new || is_unmarked() {
                    true => mark(context, stop, forge, (&wanted.repository, number)).await?,
                    false => None,
                };
                return Ok(Opened::There(pull_request, missing));
            }
            Some(Err(refusal)) => refusal,
        };
        if !attempts.again(&refusal).await? {
            let why = refusal.to_string();
            return Ok(if asked { Opened::Unknown(why) } else { Opened::Failed(why) });
        }
    }
}

/// Brings the text of one that was there before up to date, as long as it is as we wrote it: it tells of the branch as it is now.
/// The branch is delivered without, so a failure is told and changes nothing else.
async fn describe_anew(
    context: &Context,
    forge: &dyn Forge,
    wanted: &NewPullRequest,
    there: &PullRequest,
) -> Result<(), store::Error> {
    let body = written::instead_of(&there.body, &wanted.body);
    if there.state != State::Open || body.trim_end() == there.body.replace("\r\n", "\n").trim_end() {
        return Ok(());
    }
    let session = context.recorder.session();
    if !written::is_ours(&there.body) {
        let text = format!(
            "The text of {} was changed by people and stays as it is; it does not tell of this turn. `slipway pr {session} \
             --describe` writes it anew.",
            there.url
        );
        return notice(context, text).await;
    }
    let change = Change { body: Some(body), ..Change::default() };
    let Err(refusal) = forge.update(&wanted.repository, there.number, &change).await else { return Ok(()) };
    let title = format!("the text of the pull request is not up to date: {refusal}");
    let hint = format!("write it anew with: slipway pr {session} --describe");
    context.raise(&Problem::new(Code::DeliveryFailed, title).hint(hint)).await
}

/// Tells people something in the turn under way; without one, whoever delivers sees the pull request.
async fn notice(context: &Context, text: String) -> Result<(), store::Error> {
    let Some(turn) = context.turn() else { return Ok(()) };
    let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind: ItemKind::notice(text) };
    let body = EventBody::ItemCompleted { turn: turn.id, item };
    context.recorder.append(&Actor::system(), vec![body]).await.map(drop)
}

/// Whose pull request it is: those whose prompt caused it, with the token of the first of them who signed in at the forge.
async fn person(context: &Context, remote: &str) -> Option<Person> {
    let authors = context.recorder.stream().with_state(|state| match state.turn() {
        Some(turn) => turn.authors.clone(),
        None => state.last_author().map(|author| author.name.clone()).into_iter().collect(),
    });
    let mut token = None;
    for author in &authors {
        token = context.logins.token(remote, author).await;
        if token.is_some() {
            break;
        }
    }
    let name = authors.join(", ");
    (!name.is_empty()).then_some(Person { name, token })
}

/// Puts the environment's labels and reviewers on a new pull request. It is there without them, so a failure is told and the
/// delivery is made all the same. Gives what could not be done now and is left for the next delivery.
async fn mark(
    context: &Context,
    stop: &Stop,
    forge: &dyn Forge,
    (repository, number): (&Repository, u64),
) -> Result<Option<String>, store::Error> {
    let rules = context.workspace.pull_request_rules();
    let marks = Marks { labels: rules.labels.clone(), reviewers: rules.reviewers.clone() };
    if marks == Marks::default() {
        return Ok(None);
    }
    let mut attempts = Attempts::new(context, stop);
    let (why, is_left) = loop {
        match attempts.make(forge.mark(repository, number, &marks)).await {
            None => break ("it was stopped".to_owned(), true),
            Some(Ok(())) => return Ok(None),
            Some(Err(refusal)) => {
                if !attempts.again(&refusal).await? {
                    break (refusal.to_string(), matches!(refusal, Refusal::Later { .. }));
                }
            }
        }
    };
    let title = format!("the pull request has not all of its labels and reviewers: {why}");
    let session = context.recorder.session();
    let hint = match is_left {
        true => format!("the next delivery puts them on it; for one now: slipway deliver {session}"),
        false => format!("put them on it with: slipway pr {session}"),
    };
    context.raise(&Problem::new(Code::DeliveryFailed, title.clone()).hint(hint)).await?;
    Ok(is_left.then_some(title))
}
