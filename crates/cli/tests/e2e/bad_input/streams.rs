//! Standard streams that are closed, full, or read by someone who leaves early.

use testkit::model::{Script, Server};
use testkit::repo::Repo;

use super::{program, says};
use crate::harness::{ENVIRONMENT, World, edit};

#[tokio::test]
async fn a_stream_that_nobody_has_is_no_reason_to_fail() {
    let mut world = World::new();
    for (redirected, code) in [("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 1)] {
        world.wrap(&["sh", "-c", &format!("exec \"$@\" {redirected}"), "sh"], program());
        for arguments in
            [&["env", "ls", "--json"][..], &["models", "--json"], &["sandbox", "run", "--", "echo", "hi"]]
        {
            says(&world.run(arguments).await.expect_code(code), &[]);
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn a_reader_that_leaves_ends_a_command_quietly() {
    let mut world = World::new();
    world.wrap(&["sh", "-c", "{ \"$@\"; echo \"exit $?\" >&2; } | head -n 1", "sh"], program());
    for arguments in [&["doctor"][..], &["--help"], &["completions", "bash"], &["ls"]] {
        let output = world.run(arguments).await.expect_code(0);
        says(&output, &["exit 0"]);
        assert!(!output.stderr.contains("Broken pipe"), "{output}");
    }
    // A command that has more to say is ended, as it would be without a sandbox.
    let output = world.run(&["sandbox", "run", "--", "yes"]).await.expect_code(0);
    assert_eq!(output.stdout, "y\n");
    says(&output, &[]);
    world.finish().await;
}

#[tokio::test]
async fn a_turn_goes_on_when_its_reader_leaves() {
    let model = Server::start(Script::new().answer(edit("41", "42")).say("Done.")).await;
    let repo = Repo::plain();
    let mut world = World::with(&model, &repo);
    world.wrap(&["sh", "-c", "{ \"$@\"; echo \"exit $?\" >&2; } | head -n 1", "sh"], program());
    let output = world.run(&["run", "--env", ENVIRONMENT, "--json", "x"]).await.expect_code(0);
    assert_eq!(output.events().durable.len(), 1, "{output}");
    says(&output, &["exit 0"]);
    assert_eq!(repo.branches().len(), 2, "the work was finished and pushed");
    world.finish().await;
}
