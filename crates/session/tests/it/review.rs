//! What people look at before work goes out, and what lists say of work that is done.

use protocol::{Code, EventBody, Outcome, SessionFilter, SessionGroup, TurnId};
use serde_json::json;
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};

#[tokio::test(flavor = "multi_thread")]
async fn each_turn_has_its_own_changes_and_lists_tell_what_was_done() {
    let script = Script::new()
        .call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}))
        .say("Done.")
        .say("Nothing to do.")
        .call("shell", json!({"command": "echo more > more.txt"}))
        .say("Done again.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    for prompt in ["Is it right?", "Add more"] {
        sessions.prompt(id, ann(), prompt.into()).await.unwrap();
        assert_eq!(follow.finished().await.outcome, Outcome::Done, "{prompt}");
    }
    let turns: Vec<TurnId> = follow
        .events
        .iter()
        .filter_map(|event| match event.body {
            EventBody::TurnFinished { turn, .. } => Some(turn),
            _ => None,
        })
        .collect();
    let first = sessions.turn_diff(id, turns[0]).await.unwrap();
    assert!(first.patch.contains("+42") && !first.patch.contains("more.txt"), "{first:?}");
    let idle = sessions.turn_diff(id, turns[1]).await.unwrap_err();
    assert_eq!(idle.code, Code::NotFound, "it changed nothing");
    let last = sessions.turn_diff(id, turns[2]).await.unwrap();
    assert!(last.patch.contains("more.txt") && !last.patch.contains("+42"), "{last:?}");

    let preview = sessions.delivery_preview(id).await.unwrap();
    assert!(preview.problem.is_none() && !preview.pull_request, "{preview:?}");
    assert_eq!((preview.base.as_str(), preview.title.as_str()), ("main", "Correct the answer"));
    assert_eq!(preview.commit, Some(world.repo.tip(&preview.branch)));
    assert!(preview.body.contains("> Add more"), "{}", preview.body);

    let listing = sessions.get(id).await.unwrap().listing;
    assert_eq!(listing.group, SessionGroup::Finished);
    assert_eq!(listing.branch, Some(preview.branch));
    assert_eq!(listing.changes.map(|changes| (changes.files, changes.insertions)), Some((2, 2)));
    assert!(listing.checks.len() == 1 && listing.checks[0].passed, "{listing:?}");
    assert!(listing.done_at.is_some() && listing.delivered_at.is_some() && listing.merged_at.is_none());
    assert_eq!((listing.authors.len(), listing.authors[0].prompts), (1, 3));

    // The columns of the index say the same after a restart, out of what was written.
    drop(follow);
    world.end(sessions).await;
    let sessions = world.start().await;
    let words = SessionFilter { q: Some("ADD more".into()), ..SessionFilter::default() };
    let found = sessions.list_some(&words).await.unwrap();
    assert_eq!((found.sessions.len(), found.counts.finished), (1, 1));
    let sums = sessions.statistics(&session::StatisticsFilter::default()).await.unwrap();
    assert_eq!((sums.funnel.done, sums.funnel.delivered, sums.funnel.opened), (1, 1, 0));
    world.end(sessions).await;
}
