//! Starting from an image: what steps made is there, nothing is prepared again, and the branch's tip is fetched while the
//! agent reads.

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};

use super::{inside, repository, steps, world};
use crate::harness::{ENVIRONMENT, Events, World, edit, shell};

/// The states that the sandboxes of a session were in.
fn states(events: &Events) -> Vec<&str> {
    events.of("sandbox.changed").into_iter().map(|changed| changed["state"].as_str().unwrap()).collect()
}

/// The text of one call's output.
fn text(call: &Value) -> &str {
    call["output"]["text"].as_str().unwrap()
}

#[tokio::test]
async fn a_session_starts_from_the_image_and_sees_the_tip() {
    let script = Script::new()
        .answer(shell("cat deps/stamp cache notes/later.txt; git status --short"))
        .answer(edit("41", "42"))
        .say("The answer is 42 now.");
    let model = Server::start(script).await;
    let repo = repository();
    let world = world(&model, &repo, &steps());
    world.ok(&["env", "build", ENVIRONMENT]).await;
    let made = inside(&world, "cat deps/stamp cache").await;
    repo.commit("main", &[("notes/later.txt", "later\n")]);
    let tip = repo.tip("main");
    let run = ["run", "--env", ENVIRONMENT, "--json", "Make the answer right"];
    let events = world.ok(&run).await.events();
    events.assert_gap_free(0);
    assert_eq!(states(&events)[..3], ["creating", "syncing", "ready"]);
    assert!(events.of("sandbox.changed")[1]["duration_ms"].is_u64(), "{:?}", events.of("sandbox.changed"));
    assert!(
        text(events.calls("shell")[0]).contains(&format!("\n{made}later\n")),
        "no step ran again: {:?}",
        events.calls("shell")
    );
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    let branch = &repo.branches()[1];
    assert_eq!(repo.git(&["rev-parse", &format!("{branch}^")]).trim(), tip);
    world.finish().await;
}

/// From now on git on the host waits before it fetches, as long as there is the file `hold`.
pub(crate) fn slow_fetches(world: &mut World) -> std::path::PathBuf {
    let bin = world.root().join("bin");
    let hold = world.root().join("hold");
    std::fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let wrapper = format!(
        "#!/bin/sh\nPATH={path}\ncase \" $* \" in *\" fetch \"*) while test -e {hold}; do sleep 0.02; done;; esac\n\
         exec git \"$@\"\n",
        hold = hold.display(),
    );
    let git = bin.join("git");
    std::fs::write(&git, wrapper).unwrap();
    std::fs::set_permissions(&git, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.set("PATH", format!("{}:{path}", bin.display()));
    hold
}

#[tokio::test]
async fn reads_are_served_while_the_tip_is_fetched_and_writes_wait() {
    let script = Script::new()
        .answer(Reply::new().call("read", json!({"path": "answer.txt"})))
        .answer(shell("cat answer.txt"))
        .say("It is 43.");
    let model = Server::start(script).await;
    let repo = repository();
    let mut world = world(&model, &repo, "");
    world.ok(&["env", "build", ENVIRONMENT]).await;
    repo.commit("main", &[("answer.txt", "43\n")]);
    let hold = slow_fetches(&mut world);
    std::fs::write(&hold, "").unwrap();
    let running = world.start(&["run", "--env", ENVIRONMENT, "--json", "What is the answer?"]);
    let is = |frame: &Value, state: &str, tool: &str| {
        frame["type"] == format!("item.{state}") && frame["data"]["item"]["tool"] == tool
    };
    let read = running.line(|frame| is(frame, "completed", "read")).await;
    assert!(text(&read["data"]["item"]).contains("41"), "it is the image's: {read}");
    running.line(|frame| is(frame, "started", "shell")).await;
    std::fs::remove_file(&hold).unwrap();
    let events = running.wait().await.expect_code(0).events();
    let order: Vec<&Value> = events
        .durable
        .iter()
        .filter(|event| event["data"]["state"] == "ready" || is(event, "completed", "shell"))
        .map(|event| &event["type"])
        .collect();
    assert_eq!(order, ["sandbox.changed", "item.completed"], "the command waited");
    assert!(text(events.calls("shell")[0]).contains("43"), "{:?}", events.calls("shell"));
    let requests = model.requests();
    let told = format!("{:?}", requests[2].messages);
    assert!(told.contains("answer.txt") && told.contains("brought from commit"), "{told}");
    world.finish().await;
}

#[tokio::test]
async fn services_are_up_before_the_first_prompt() {
    let program = "import socket\ns = socket.create_server((\"127.0.0.1\", 8123))\nwhile True:\n  c, _ = s.accept()\n  \
                   c.sendall(b\"pong\")\n  c.close()\n";
    let ask = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/8123 && cat <&3'";
    let model = Server::start(Script::new().answer(shell(ask)).answer(edit("41", "42")).say("Done.")).await;
    let repo = repository();
    repo.commit("main", &[("server.py", program)]);
    let keys = "services = [{ name = \"echo\", run = \"python3 server.py\", ready = { tcp = 8123 } }]\n";
    let world = world(&model, &repo, keys);
    let run = ["run", "--env", ENVIRONMENT, "--json", "Make the answer right"];
    let events = world.ok(&run).await.events();
    assert!(text(events.calls("shell")[0]).starts_with("pong"), "{:?}", events.calls("shell"));
    // On an image too.
    world.ok(&["env", "build", ENVIRONMENT]).await;
    assert_eq!(inside(&world, ask).await, "pong");
    world.finish().await;
}

#[tokio::test]
async fn a_service_that_does_not_come_up_is_told_with_what_it_said() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let keys = "services = [{ name = \"db\", run = \"echo no room for a database; exit 3\", ready = { tcp = 5432 }, timeout_s = 5 }]\n";
    let world = world(&model, &repo, keys);
    let output = world.run(&["run", "--env", ENVIRONMENT, "Make the answer right"]).await.expect_code(1);
    for said in ["db", "no room for a database"] {
        assert!(output.stderr.contains(said), "{said} is not shown: {output}");
    }
    assert_eq!(model.requests().len(), 0, "the model is not asked in vain");
    world.finish().await;
}
