//! Builds that do not end well.

use std::sync::Arc;
use std::time::Duration;

use protocol::{ImageState, StepState};
use sandbox::image::Step;
use sandbox::{Driver, Life, Owner, Spec, Stack};

use crate::world::{World, step};

#[tokio::test]
async fn a_failed_build_keeps_the_old_image_and_tells_why() {
    let world = World::new();
    assert_eq!(world.images.status("app").state, ImageState::None);
    let good = world.images.build(&world.recipe()).await.unwrap();
    assert_eq!(world.images.status("app").state, ImageState::Ready);
    let mut recipe = world.recipe();
    recipe.setup = vec![step("true"), step("echo 'cannot find left-pad' >&2; exit 7"), step("true")];
    let error = world.images.build(&recipe).await.unwrap_err().to_string();
    for part in ["the set-up step `echo", "(2 of 3)", "exited with 7", "\ncannot find left-pad\n"] {
        assert!(error.contains(part), "{error}");
    }
    for images in [Arc::clone(&world.images), world.reopened()] {
        assert_eq!(images.current("app").as_ref(), Some(&good));
        let status = images.status("app");
        assert_eq!((status.state, status.error), (ImageState::Failed, Some(error.clone())));
        assert_eq!(status.current.unwrap().key, good.key);
        let states: Vec<StepState> = status.steps.iter().map(|step| step.state).collect();
        use StepState::{Built, Cached, Failed, Pending};
        assert_eq!(states, [Cached, Cached, Built, Failed, Pending]);
    }
    assert!(world.log().contains("the build failed"));
    recipe.setup.truncate(1);
    world.images.build(&recipe).await.unwrap();
    assert_eq!(world.images.status("app").error, None);
}

#[tokio::test]
async fn every_attempt_begins_where_the_step_before_ended() {
    let world = World::new();
    let mut recipe = world.recipe();
    let run = "if [ -e deps ]; then echo dirty; fi; mkdir deps; echo tried; exit 1";
    recipe.setup = vec![Step { attempts: 3, ..step(run) }];
    world.images.build(&recipe).await.unwrap_err();
    let log = world.log();
    assert_eq!(log.lines().filter(|line| *line == "tried").count(), 3, "{log}");
    assert_eq!(log.lines().filter(|line| *line == "dirty").count(), 0, "{log}");
    assert_eq!(world.images.status("app").steps[2].attempts, 3);
}

#[tokio::test]
async fn a_step_that_takes_too_long_is_ended() {
    let world = World::new();
    let mut recipe = world.recipe();
    recipe.setup = vec![Step { timeout: Duration::from_secs(1), ..step("echo waiting; sleep 600") }];
    let error = world.images.build(&recipe).await.unwrap_err().to_string();
    assert!(error.contains("was not done after 1 s") && error.contains("waiting"), "{error}");
    assert!(error.contains("raise the step's `timeout_s`"), "{error}");
}

#[tokio::test]
async fn a_commit_that_the_bundle_lacks_is_an_error() {
    let world = World::new();
    let mut recipe = world.recipe();
    recipe.repo.commit = "1".repeat(40);
    let error = world.images.build(&recipe).await.unwrap_err().to_string();
    assert!(error.contains("the clone of https://git.example.com/app.git"), "{error}");
    assert_eq!(world.images.current("app"), None);
}

#[tokio::test]
async fn a_build_that_nobody_waits_for_leaves_nothing() {
    let world = World::new();
    let mut recipe = world.recipe();
    recipe.setup = vec![step("echo begun; sleep 600")];
    let images = Arc::clone(&world.images);
    let build = tokio::spawn(async move { images.build(&recipe).await });
    loop {
        let status = world.images.status("app");
        if status.steps.get(2).is_some_and(|step| step.output == "begun") {
            assert_eq!(status.state, ImageState::Building);
            assert_eq!(status.steps[2].state, StepState::Running);
            break;
        }
        assert!(!build.is_finished(), "{status:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.images.sweep().await.unwrap();
    assert_eq!(world.driver.list().await.unwrap().len(), 1, "a build under way is left alone");
    build.abort();
    assert!(build.await.unwrap_err().is_cancelled());
    let status = world.images.status("app");
    assert_eq!(status.state, ImageState::Failed);
    assert!(status.error.unwrap().contains("broken off"));
    for _ in 0..1000 {
        if world.driver.list().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(world.driver.list().await.unwrap().is_empty());
    world.images.build(&world.recipe()).await.unwrap();
}

/// Whatever a build was at when it was broken off: its sandbox may have been about to start.
#[tokio::test(flavor = "multi_thread")]
async fn after_the_end_nothing_of_a_build_is_left() {
    let world = World::new();
    let mut recipe = world.recipe();
    recipe.setup = vec![step("sleep 600")];
    for round in 0..60 {
        let images = world.reopened();
        let build = tokio::spawn({
            let (images, recipe) = (Arc::clone(&images), recipe.clone());
            async move { images.build(&recipe).await }
        });
        tokio::time::sleep(Duration::from_micros(round * 700)).await;
        build.abort();
        assert!(build.await.is_err_and(|error| error.is_cancelled()), "round {round} was not broken off");
        images.close().await.unwrap();
        assert_eq!(world.left(), Vec::<std::path::PathBuf>::new(), "round {round}");
    }
}

#[tokio::test]
async fn what_a_server_left_that_is_gone_is_swept() {
    let world = World::new();
    let mut ids = Vec::new();
    for owner in [Owner::Build("app".to_owned()), Owner::OneOff] {
        let sandbox = world.driver.create(&Spec::new(Stack::host(), Life::Own, owner)).await.unwrap();
        ids.push(sandbox.id());
    }
    world.images.sweep().await.unwrap();
    let left: Vec<_> = world.driver.list().await.unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!(left, [ids[1]], "only builds are swept");
    world.driver.remove(ids[1]).await.unwrap();
}

#[tokio::test]
async fn names_that_could_lead_elsewhere_are_refused() {
    let world = World::new();
    for name in ["", "..", "../app", "a/b", "a\nb", ".app", "-app"] {
        let mut recipe = world.recipe();
        recipe.environment = name.to_owned();
        let error = world.images.build(&recipe).await.unwrap_err().to_string();
        assert!(error.contains("is no name for an environment"), "{error}");
        assert_eq!(world.images.status(name).state, ImageState::None);
        assert!(world.images.log(name).starts_with(world.images_dir()));
    }
    assert!(std::fs::read_dir(world.images_dir()).unwrap().next().is_none());
}

#[tokio::test]
async fn what_is_forgotten_is_gone_and_can_be_built_again() {
    let world = World::new();
    let image = world.images.build(&world.recipe()).await.unwrap();
    world.images.forget("app").unwrap();
    assert_eq!(world.images.current("app"), None);
    assert_eq!(world.images.status("app").state, ImageState::None);
    assert_eq!(world.reopened().current("app"), None);
    assert_eq!(world.images.build(&world.recipe()).await.unwrap().key, image.key);
}
