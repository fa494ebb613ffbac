//! What people look at before work goes out: what one turn changed, and what a delivery would do.

use protocol::{Code, DeliveryPreview, Diff, Problem, SessionId, TurnId};

use crate::failure::Failure;
use crate::{Sessions, joint, outbox, problem};

impl Sessions {
    /// What one turn changed, as it was kept when that turn ended.
    pub async fn turn_diff(&self, id: SessionId, turn: TurnId) -> Result<Diff, Problem> {
        let handle = self.registry.open(id).await?;
        let commits = handle.recorder().stream().with_state(|state| state.commits().to_vec());
        let workspace = &handle.context().workspace;
        let place = commits.iter().position(|(known, _)| *known == turn);
        let (Some(place), Some(saved)) = (place, workspace.saved()) else {
            let title = format!("the turn {turn} of this session kept no changes");
            return Err(Problem::new(Code::NotFound, title).hint(
                "it may not have changed anything, or is still under way; without turn all changes are shown",
            ));
        };
        let before = place.checked_sub(1).and_then(|place| commits.get(place));
        let before = before.map_or(saved.base.as_str(), |(_, commit)| commit.as_str());
        let mirrors = workspace.mirrors().await.map_err(Failure::into_problem)?;
        mirrors.diff(before, &commits[place].1).await.map_err(|error| problem::forge(&error))
    }

    /// What a delivery would do now.
    pub async fn delivery_preview(&self, id: SessionId) -> Result<DeliveryPreview, Problem> {
        let handle = self.registry.open(id).await?;
        let context = handle.context();
        let delivery = handle.recorder().stream().with_state(|state| state.delivery().cloned());
        let saved = context.workspace.saved();
        let commit = saved.as_ref().and_then(|saved| saved.tip.clone());
        let described = outbox::describe(context, commit.as_deref(), None).await.map_err(problem::store)?;
        let outbox::Described { title, body } = described;
        let why = commit.is_none().then(crate::runner::delivery::nothing);
        let (branch, base, remote) =
            saved.map(|saved| (saved.branch, saved.source, saved.remote)).unwrap_or_default();
        let pull_request = remote.lines().any(|remote| context.options.outbox.forges.of(remote).is_some());
        let remote = remote.replace('\n', ", ");
        let places = context.workspace.places();
        let base = match places.len() {
            0 | 1 => base,
            _ => {
                let named =
                    places.iter().zip(joint::split(&base)).map(|(place, base)| format!("{base} of {place}"));
                named.collect::<Vec<_>>().join(", ")
            }
        };
        Ok(DeliveryPreview {
            branch,
            base,
            remote,
            commit,
            title,
            body,
            pull_request,
            problem: why,
            delivery,
        })
    }
}
