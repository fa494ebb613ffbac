//! What is built again and what is not.

use protocol::StepKind::{Base, Clone, Setup, Warm};
use protocol::StepState::{Built, Cached};
use sandbox::image::{Reason, Wanted};

use crate::world::{World, step};

/// Leaves the lock file's content and something that is different at each run.
const INSTALL: &str = "mkdir -p deps && cp lock deps/lock && cat /proc/sys/kernel/random/uuid > deps/run";
const LOOK: &str =
    "git status --porcelain; git log --format=%s; git rev-parse --abbrev-ref HEAD; cat main deps/lock";

#[tokio::test]
async fn a_push_takes_the_dependencies_along_and_a_new_lock_file_does_not() {
    let world = World::new();
    let first = world.images.build(&world.recipe_with_lock(INSTALL)).await.unwrap();
    assert_eq!(world.states(), [(Base, Cached), (Clone, Built), (Setup, Built)]);
    let run = world.show(&first, "cat deps/run").await;

    let commit = world.commit(&[("main", "two\n"), ("new/file", "new\n")]);
    let second = world.images.build(&world.recipe_with_lock(INSTALL)).await.unwrap();
    assert_eq!(world.states(), [(Base, Cached), (Clone, Built), (Setup, Cached)]);
    assert_ne!(second.key, first.key);
    assert_eq!(second.commit, commit);
    assert_eq!(world.show(&second, "cat deps/run").await, run, "the step did not run again");
    let seen = world.show(&second, LOOK).await;
    assert_eq!(seen, "changed main\nchanged .gitignore\nmain\ntwo\nleft-pad 1");
    let refs =
        "cat new/file; git rev-parse HEAD origin/main; git remote get-url origin; git fsck --no-progress";
    let seen = world.show(&second, refs).await;
    assert_eq!(seen, format!("new\n{commit}\n{commit}\nhttps://git.example.com/app.git"));

    world.commit(&[("lock", "left-pad 2\n")]);
    let third = world.images.build(&world.recipe_with_lock(INSTALL)).await.unwrap();
    assert_eq!(world.states(), [(Base, Cached), (Clone, Built), (Setup, Built)]);
    assert_ne!(world.show(&third, "cat deps/run").await, run);
    let seen = world.show(&third, LOOK).await;
    assert_eq!(seen, "changed lock\nchanged main\nchanged .gitignore\nmain\ntwo\nleft-pad 2");
    assert_eq!(world.show(&first, "cat main deps/lock").await, "one\nleft-pad 1", "the old one is as it was");
}

#[tokio::test]
async fn what_is_there_is_not_built_again_also_after_a_restart() {
    let world = World::new();
    let mut recipe = world.recipe_with_lock(INSTALL);
    recipe.setup.push(step("echo more > deps/more"));
    recipe.warm = vec![step("cp deps/more deps/warm")];
    let first = world.images.build(&recipe).await.unwrap();
    assert!(first.bytes > 0);
    let all = [(Base, Cached), (Clone, Built), (Setup, Built), (Setup, Built), (Warm, Built)];
    assert_eq!(world.states(), all);
    assert_eq!(world.show(&first, "cat deps/warm").await, "more");

    let images = world.reopened();
    assert_eq!(images.current("app"), Some(first.clone()));
    let again = images.build(&recipe).await.unwrap();
    assert!(images.status("app").steps.iter().all(|step| step.state == Cached && step.attempts == 0));
    assert_eq!((&again.key, &again.stack, again.duration_ms), (&first.key, &first.stack, first.duration_ms));
    assert!(again.built_at > first.built_at, "it was confirmed");
    for layer in &first.stack.layers {
        assert!(images.layers().contains(layer));
    }
}

#[tokio::test]
async fn a_step_without_inputs_runs_for_each_commit_and_so_does_what_stands_on_it() {
    let world = World::new();
    let recipe = || {
        let mut recipe = world.recipe_with_lock(INSTALL);
        recipe.setup.insert(0, step("mkdir -p deps; cp main deps/main"));
        recipe
    };
    world.images.build(&recipe()).await.unwrap();
    world.commit(&[("main", "two\n")]);
    let image = world.images.build(&recipe()).await.unwrap();
    assert_eq!(world.states(), [(Base, Cached), (Clone, Built), (Setup, Built), (Setup, Built)]);
    assert_eq!(world.show(&image, "cat deps/main deps/lock").await, "two\nleft-pad 1");
}

#[tokio::test]
async fn a_step_that_changes_the_repository_is_for_one_commit() {
    for (run, look, expected) in [
        ("mkdir -p deps; echo changed >> main", "cat main", "two\nchanged"),
        ("git config app.set up", "git config app.set; cat main", "up\ntwo"),
        ("git update-index --assume-unchanged main; echo hidden >> main", "cat main", "two\nhidden"),
    ] {
        let world = World::new();
        let first = world.recipe_with_lock(run);
        world.images.build(&first).await.unwrap();
        assert!(world.log().contains("it is for this commit only"), "{run}: {}", world.log());
        world.images.build(&first).await.unwrap();
        assert_eq!(world.states(), [(Base, Cached), (Clone, Cached), (Setup, Cached)], "{run}");
        world.commit(&[("main", "two\n")]);
        let image = world.images.build(&world.recipe_with_lock(run)).await.unwrap();
        assert_eq!(world.states(), [(Base, Cached), (Clone, Built), (Setup, Built)], "{run}");
        assert_eq!(world.show(&image, look).await, expected);
    }
}

#[tokio::test]
async fn a_step_that_only_looks_at_the_repository_is_for_any_commit() {
    let world = World::new();
    let run =
        "git status > /dev/null; touch main; git update-index --refresh; mkdir deps; git log > deps/log";
    world.images.build(&world.recipe_with_lock(run)).await.unwrap();
    world.commit(&[("README", "two\n")]);
    let image = world.images.build(&world.recipe_with_lock(run)).await.unwrap();
    assert_eq!(world.states(), [(Base, Cached), (Clone, Built), (Setup, Cached)], "{}", world.log());
    assert_eq!(world.show(&image, "git status --porcelain").await, "");
}

#[tokio::test]
async fn a_layer_that_would_hide_files_of_a_new_commit_is_made_anew() {
    let world = World::new();
    let run = "[ -e deps/x ] || { mkdir -p deps; echo made > deps/x; }";
    let first = world.images.build(&world.recipe_with_lock(run)).await.unwrap();
    assert_eq!(world.show(&first, "cat deps/x").await, "made");
    world.commit(&[("deps/x", "tracked\n")]);
    for clone in [Built, Cached] {
        let image = world.images.build(&world.recipe_with_lock(run)).await.unwrap();
        assert_eq!(world.states()[1], (Clone, clone));
        assert_eq!(world.show(&image, "git status --porcelain; cat deps/x").await, "tracked");
    }
    assert_eq!(world.states()[2], (Setup, Cached));
}

#[tokio::test]
async fn environments_share_what_is_the_same_and_callers_wait_for_each_other() {
    let world = World::new();
    let recipe = world.recipe_with_lock(INSTALL);
    let mut other = recipe.clone();
    other.environment = "other".to_owned();
    let (one, two, three) =
        tokio::join!(world.images.build(&recipe), world.images.build(&recipe), world.images.build(&other));
    let (one, two, three) = (one.unwrap(), two.unwrap(), three.unwrap());
    assert_eq!((&one.key, &one.stack), (&two.key, &two.stack));
    assert_eq!(one.stack, three.stack);
    let runs = |environment: &str| {
        let steps = world.images.status(environment).steps;
        steps.iter().map(|step| step.attempts).sum::<u32>()
    };
    assert_eq!(runs("app"), 0, "the second caller found everything");
    assert!(runs("other") <= 2);
    let names: Vec<String> = world.images.all().into_iter().map(|image| image.environment).collect();
    assert_eq!(names, ["app", "other"]);
}

#[tokio::test]
async fn repositories_share_no_dependencies() {
    let world = World::new();
    let run = "mkdir -p deps && cat main > deps/copy";
    let first = world.images.build(&world.recipe_with_lock(run)).await.unwrap();
    assert_eq!(world.show(&first, "cat deps/copy").await, "one");
    // Another repository with the same lock file and the same step, and other files beside.
    world.commit(&[("main", "another\n")]);
    let mut other = world.recipe_with_lock(run);
    other.repo.url = "https://git.example.com/other.git".to_owned();
    let image = world.images.build(&other).await.unwrap();
    assert_eq!(world.states(), [(Base, Cached), (Clone, Built), (Setup, Built)]);
    assert_eq!(world.show(&image, "cat deps/copy").await, "another");
}

#[tokio::test]
async fn many_steps_become_few_layers() {
    let world = World::new();
    let mut recipe = world.recipe();
    recipe.setup = (0..12).map(|number| step(&format!("mkdir -p deps; echo {number} >> deps/all"))).collect();
    let image = world.images.build(&recipe).await.unwrap();
    assert!(image.stack.layers.len() <= 10, "{:?}", image.stack.layers);
    let expected: Vec<String> = (0..12).map(|number| number.to_string()).collect();
    assert_eq!(world.show(&image, "cat deps/all").await, expected.join("\n"));
    assert!(world.images.layers().len() > 12, "the steps' own layers are still of use");
    let again = world.images.build(&recipe).await.unwrap();
    assert_eq!(again.key, image.key);
}

#[tokio::test]
async fn an_image_is_due_when_something_changed_or_it_is_old() {
    use std::time::Duration;
    let world = World::new();
    let recipe = world.recipe_with_lock(INSTALL);
    let digest = recipe.digest();
    let commit = recipe.repo.commit.clone();
    let hour = Duration::from_secs(3600);
    let wanted = Wanted { commit: &commit, recipe: &digest, max_age: hour };
    assert_eq!(world.images.needs_build("app", &wanted), Some(Reason::NeverBuilt));
    world.images.build(&recipe).await.unwrap();
    assert_eq!(world.images.needs_build("app", &wanted), None);
    let moved = Wanted { commit: "another", ..wanted };
    assert_eq!(world.images.needs_build("app", &moved), Some(Reason::BranchMoved));
    let old = Wanted { max_age: Duration::ZERO, ..wanted };
    assert_eq!(world.images.needs_build("app", &old), Some(Reason::TooOld));
    let changed = world.recipe_with_lock("true").digest();
    let changed = Wanted { recipe: &changed, ..wanted };
    assert_eq!(world.images.needs_build("app", &changed), Some(Reason::RecipeChanged));

    let failing = world.recipe_with_lock("false");
    world.images.build(&failing).await.unwrap_err();
    let digest = failing.digest();
    let failed = Wanted { recipe: &digest, ..wanted };
    assert_eq!(world.images.needs_build("app", &failed), None, "it would only fail again");
    let old = Wanted { max_age: Duration::ZERO, ..failed };
    assert_eq!(world.images.needs_build("app", &old), Some(Reason::RecipeChanged));
}
