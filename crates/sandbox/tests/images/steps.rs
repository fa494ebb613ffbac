//! What a step finds, and what its layer keeps.

use protocol::{Probe, Service};
use sandbox::image::Step;

use crate::world::{World, step};

#[tokio::test]
async fn a_step_finds_what_the_ones_before_it_left_and_passing_files_do_not_stay() {
    let world = World::new();
    let mut recipe = world.recipe();
    recipe.setup = vec![
        step("pwd; id -u; echo home > ~/kept; echo x > /tmp/passing; rm main"),
        step("ls ~ /tmp; test ! -e main && mkdir -p deps && cp ~/kept deps/found"),
    ];
    let image = world.images.build(&recipe).await.unwrap();
    let steps = world.images.status("app").steps;
    assert_eq!(steps[2].output, "/workspace\n1000");
    assert!(!steps[3].output.contains("passing"), "{}", steps[3].output);
    assert!(steps[2].bytes > 0 && steps[2].attempts == 1);
    assert_eq!(
        world.show(&image, "cat deps/found; ls -A /tmp; git status --porcelain").await,
        "home\n D main"
    );
}

#[tokio::test]
async fn the_repository_layer_is_the_workspace_and_nothing_else() {
    let world = World::new();
    let image = world.images.build(&world.recipe()).await.unwrap();
    let [repo] = image.stack.layers.as_slice() else { panic!("{:?}", image.stack) };
    assert!(repo.as_str().starts_with("repo-"));
    let root = world.layer_root(repo);
    let names: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["workspace"]);
    assert_eq!(world.images.status("app").steps[1].output, "", "git has nothing to say about it");
}

#[tokio::test]
async fn what_a_person_should_know_is_shown_with_its_step_and_is_in_the_log() {
    let world = World::new();
    let mut recipe = world.recipe();
    recipe.notes = vec!["it has submodules".to_owned()];
    recipe.setup = vec![Step { notes: vec!["an input is not there".to_owned()], ..step("true") }];
    for images in ["first", "all cached"] {
        world.images.build(&recipe).await.unwrap();
        let steps = world.images.status("app").steps;
        assert_eq!(steps[1].notes, ["it has submodules"], "{images}");
        assert_eq!(steps[2].notes, ["an input is not there"], "{images}");
        let log = world.log();
        assert!(log.contains("=== the clone: it has submodules\n"), "{log}");
        assert!(log.contains("=== the set-up step `true` (1 of 1): an input is not there\n"), "{log}");
    }
}

#[tokio::test]
async fn a_large_repository_arrives_whole() {
    let world = World::new();
    // Not compressible, and longer than one piece.
    let mut state = 1u64;
    let text: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        format!("{:08x}", state >> 32)
    })
    .take(2_500_000)
    .collect();
    let commit = world.commit(&[("large", &text)]);
    let recipe = world.recipe();
    assert!(std::fs::metadata(&recipe.repo.bundle).unwrap().len() > 8 << 20);
    let image = world.images.build(&recipe).await.unwrap();
    let seen = world.show(&image, "git rev-parse HEAD; wc -c < large; git status --porcelain; ls /tmp").await;
    assert_eq!(seen, format!("{commit}\n{}", text.len()));
}

#[tokio::test]
async fn warm_steps_have_the_services_and_services_end_in_order() {
    let world = World::new();
    let mut recipe = world.recipe();
    let run = "mkdir -p deps; trap 'echo ended > deps/ended; exit 0' TERM; touch deps/up; while :; do sleep 0.05; done";
    let ready = Probe { run: Some("test -e deps/up".to_owned()), ..Probe::default() };
    recipe.services =
        vec![Service { name: "db".to_owned(), run: run.to_owned(), ready, ..Service::default() }];
    recipe.setup = vec![step("test ! -e deps/up")];
    recipe.warm = vec![step("cp deps/up deps/seen")];
    let image = world.images.build(&recipe).await.unwrap();
    assert_eq!(world.show(&image, "ls deps; cat deps/ended").await, "ended\nseen\nup\nended");
}

#[tokio::test]
async fn output_is_shown_while_the_step_runs_and_kept_in_the_log() {
    let world = World::new();
    let mut recipe = world.recipe();
    recipe.setup = vec![
        Step { attempts: 2, ..step("seq 1 20000; echo at the end; echo to the other >&2") },
        step("echo second"),
    ];
    world.images.build(&recipe).await.unwrap();
    let log = world.log();
    for part in ["the clone", "`seq 1 20000", "\n12345\n", "at the end", "to the other", "second", "is ready"]
    {
        assert!(log.contains(part), "{part} is not in the log");
    }
    let steps = world.images.status("app").steps;
    assert!(steps[2].output.contains("at the end") && steps[2].output.len() <= 4096);
    assert!(!steps[2].output.contains("12345"));
}
