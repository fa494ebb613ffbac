//! The map of a large repository: made beside the work by a confined process, and given to the model that begins.

use std::fmt::Write as _;

use serde_json::json;
use testkit::model::{Reply, Request, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, environment, models, until};

const OPENING: &str = "A map of the repository at ";

/// A repository with so many modules, each of which uses what `money.py` defines.
fn large(modules: usize) -> Repo {
    let mut files: Vec<(String, String)> = (0..modules)
        .map(|n| {
            let mut text = String::from("from money import amount_in_cents\n\n\n");
            write!(text, "def part_{n}(value):\n    return amount_in_cents(value)\n").unwrap();
            (format!("shop/part_{n}.py"), text)
        })
        .collect();
    files.push(("money.py".into(), "def amount_in_cents(value):\n    return value * 100\n".into()));
    files.push(("answer.txt".into(), "41\n".into()));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    Repo::bare_with(&files)
}

fn maps(request: &Request) -> Vec<String> {
    let said = request.messages.iter().filter_map(|message| match message {
        protocol::chat::Message::User { text, .. } => Some(text.clone()),
        _ => None,
    });
    said.filter(|text| text.contains(OPENING)).collect()
}

#[tokio::test]
async fn a_model_that_begins_in_a_large_repository_has_a_map_of_it() {
    let script = Script::from_fn(|_, _| Reply::text("Nothing to do."));
    let (model, repo) = (Server::start(script).await, large(120));
    let world = World::new();
    world.configure(&format!("{}{}", models(&model), environment(&repo)));
    let serving = world.serve().await;
    let run = ["run", "--env", ENVIRONMENT, "--json", "Why is part_77 wrong?"];
    world.ok(&run).await;
    // It is made beside the first session, which may be over before.
    let made = || {
        let mirrors = std::fs::read_dir(world.data().join("mirrors")).into_iter().flatten().flatten();
        mirrors.into_iter().any(|mirror| mirror.path().join("slipway-map.gz").exists())
    };
    until("the map is made", made).await;
    let before = model.requests().len();
    let events = world.ok(&run).await.events();
    let requests = model.requests();
    let given = maps(&requests[before]);
    assert_eq!(given.len(), 1, "once, before the model is first asked");
    assert!(given[0].contains("which has 122 files"), "{}", given[0]);
    assert!(given[0].contains("money.py\n     1  def amount_in_cents(value):\n"), "{}", given[0]);
    assert!(given[0].contains("shop/part_77.py\n     4  def part_77(value):\n"), "{}", given[0]);
    let notices = events.items("notice");
    assert!(
        notices.iter().any(|item| item["text"].as_str().unwrap().starts_with(OPENING)),
        "people see it, too"
    );

    // The next turn has it in its conversation, and gets no other.
    world.ok(&["prompt", events.session(), "And now?"]).await;
    let last = model.requests();
    assert_eq!(maps(last.last().unwrap()).len(), 1);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_small_repository_has_none_and_neither_has_one_where_nobody_wants_it() {
    let script = Script::from_fn(|request, _| match request.results().is_empty() {
        true => Reply::new().call("shell", json!({"command": "sleep 1"})),
        false => Reply::text("Nothing to do."),
    });
    let model = Server::start(script).await;
    for (modules, key) in [(10, "map_from = 100"), (120, "map_from = 0")] {
        let (world, repo) = (World::new(), large(modules));
        let models = models(&model).replacen("[agent]\n", &format!("[agent]\n{key}\n"), 1);
        world.configure(&format!("{models}{}", environment(&repo)));
        for _ in 0..2 {
            world.ok(&["run", "--env", ENVIRONMENT, "Look around"]).await;
        }
        assert!(model.requests().iter().all(|request| maps(request).is_empty()), "{key}");
        world.finish().await;
    }
}

#[tokio::test]
async fn whoever_reads_the_files_can_do_nothing_else() {
    let world = World::new();
    let mut reading = world.start(&["read-symbols"]);
    reading.write(b"1f 10 a.py\ndef a(): 1\n2f 3").await;
    let status = format!("/proc/{}/status", reading.pid());
    let confined = || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        ["Seccomp:\t2", "NoNewPrivs:\t1", "Threads:\t1"].iter().all(|line| status.contains(line))
    };
    until("it is confined", confined).await;
    reading.close_stdin();
    let output = reading.wait().await;
    assert_ne!(output.code(), 0, "its input was broken off: {output}");
    assert!(output.stderr.contains("not the text of files"), "{output}");
    world.finish().await;
}
