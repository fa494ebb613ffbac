//! What a person and the model are told of a repository and its recipe, so that nothing is found out by surprise.

use protocol::{EventBody, ItemKind, Outcome, SetupStep, StepKind};
use testkit::model::Script;
use testkit::repo::Repo;

use crate::support::{Follow, World, create};

/// A repository with a submodule, and one that is only in the list.
fn with_submodule() -> Repo {
    let repo = Repo::plain();
    let list = "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = ../lib.git\n[submodule \"old\"]\n\tpath = gone\n\turl = ../old.git\n";
    let commit = repo.commit("main", &[(".gitmodules", list)]);
    repo.git(&["read-tree", &commit]);
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{},vendor/lib", "1".repeat(40))]);
    let tree = repo.git(&["write-tree"]).trim().to_owned();
    let commit = repo.git(&["commit-tree", &tree, "-p", &commit, "-m", "Add a library"]).trim().to_owned();
    repo.git(&["update-ref", "refs/heads/main", &commit]);
    repo
}

fn notices(follow: &Follow) -> Vec<String> {
    let text = |item: &&protocol::Item| match &item.kind {
        ItemKind::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    follow.items().iter().filter_map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn submodules_that_are_not_fetched_are_told_by_the_build_and_in_the_session() {
    let world = World::with(with_submodule(), Script::new().say("Seen.")).await;
    let sessions = world.start().await;
    let built = sessions.build_and_wait("plain").await.unwrap();
    let clone = built.steps.iter().find(|step| step.kind == StepKind::Clone).unwrap();
    assert_eq!(clone.notes.len(), 1, "{clone:?}");
    let told = "could not be fetched have empty directories:\n- vendor/lib: ";
    assert!(clone.notes[0].contains(told) && !clone.notes[0].contains("gone"), "{clone:?}");
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(notices(&follow), clone.notes);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn submodules_that_a_step_sees_to_are_not_told_of() {
    let world = World::with(with_submodule(), Script::new().say("Seen.")).await.environment(|environment| {
        let run = ": git submodule update --init".to_owned();
        environment.setup = vec![SetupStep { run, ..SetupStep::default() }];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(notices(&follow), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_not_in_the_repository_is_told_by_the_build() {
    let world = World::new(Script::new()).await.environment(|environment| {
        let inputs = ["answer.txt", "lock.txt", "notes/*"].map(str::to_owned).to_vec();
        environment.setup = vec![SetupStep { run: "true".to_owned(), inputs, ..SetupStep::default() }];
    });
    let sessions = world.start().await;
    let built = sessions.build_and_wait("plain").await.unwrap();
    let step = built.steps.iter().find(|step| step.kind == StepKind::Setup).unwrap();
    assert_eq!(
        step.notes,
        [
            "the input \"lock.txt\" is not in the repository, or leads out of it: the step runs again for each commit",
            "the input \"notes/*\" is not in the repository, or leads out of it; patterns do not work, name files or \
             directories: the step runs again for each commit",
        ]
    );
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_step_that_takes_too_long_says_which_key_gives_it_more() {
    let world = World::new(Script::new()).await.environment(|environment| {
        let run = "sleep 600".to_owned();
        let step = SetupStep { run, attempts: Some(1), timeout_s: Some(1), ..SetupStep::default() };
        environment.setup = vec![step];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(finished.reason.is_some_and(|why| why.contains("was not done after 1 s")));
    let hints = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::ErrorRaised { hint, .. } => hint.clone(),
        _ => None,
    });
    assert!(hints.into_iter().any(|hint| hint.contains("`timeout_s`")), "{:?}", follow.events);
    world.end(sessions).await;
}
