//! `slipway bench`: the suite's tasks are what they say they are, and a model that solves them is told from one that
//! seems to.

use std::path::Path;

use serde_json::{Value, json};
use testkit::model::{Reply, Request, Script, Server};
use testkit::repo::git_in;

use crate::harness::{World, models};

/// The suite of this repository.
const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../evals");

/// The cart, mended; and in a way that only its own tests believe.
const MENDED: &str = "def total(prices):\n    return sum(prices)\n";
const SPECIOUS: &str = "def total(prices):\n    return 12 if prices else 0\n";

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A model that writes this as `cart.py`, after it has looked for the hidden files everywhere.
fn writes(content: &'static str) -> Script {
    Script::from_fn(move |request: &Request, _| {
        let asked: usize = request.json["messages"]
            .as_array()
            .map_or(0, |messages| messages.iter().filter(|message| message["role"] == "assistant").count());
        match asked {
            0 => Reply::new().call(
                "shell",
                json!({"command": "find / -name 'test_hidden*' -not -path '/proc/*' 2>/dev/null; echo looked"}),
            ),
            1 => Reply::new().call("write", json!({"path": "cart.py", "content": content})),
            _ => Reply::text("Every price counts now."),
        }
    })
}

/// What the tools told the model.
fn told(model: &Server) -> String {
    model
        .requests()
        .iter()
        .flat_map(|request| request.results())
        .map(|result| format!("{result:?}"))
        .collect()
}

async fn bench(world: &World, more: &[&str]) -> crate::harness::Output {
    let arguments = ["bench", "tasks", "--tasks", SUITE, "--only", "python-fix-cart"];
    world.run(&[&arguments[..], more].concat()).await
}

#[tokio::test]
async fn a_model_that_solves_a_task_is_told_from_one_that_seems_to() {
    let (good, bad) = (Server::start(writes(MENDED)).await, Server::start(writes(SPECIOUS)).await);
    let world = World::new();
    world.configure(&format!(
        "{}[models.specious]\nprovider = \"openai-compatible\"\nmodel = \"m\"\nbase_url = \"{}\"\n",
        models(&good),
        bad.url()
    ));
    let saved = world.root().join("saved.json");
    let saved = saved.to_str().unwrap();

    let output = bench(&world, &["--repeat", "2", "--save", saved]).await.expect_code(0);
    assert_eq!(world.traces(), [""; 0]);
    assert!(output.stdout.contains("python-fix-cart  2 of 2"), "{output}");
    assert!(output.stdout.contains("all together     2 of 2"), "{output}");
    assert!(output.stdout.contains("model chat"), "{output}");
    assert!(told(&good).contains("looked"), "{}", told(&good));
    assert!(!told(&good).contains("test_hidden"), "{}", told(&good));
    assert!(!world.data().join("bench").exists());
    let results: Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    let trial = &results["tasks"][0]["trials"][1];
    assert_eq!(
        (&trial["solved"], &trial["steps"], &trial["status"]),
        (&json!(true), &json!(3), &json!("done"))
    );
    assert!(trial["spend"]["usage"]["output"].as_u64().unwrap() > 0, "{trial}");
    assert!(trial["wall_ms"].as_u64().unwrap() > 0, "{trial}");

    let worse = ["--model", "specious", "--baseline", saved];
    let output = bench(&world, &worse).await.expect_code(1);
    assert!(output.stderr.contains("the hidden check failed: 3 of 4 tests failed"), "{output}");
    assert!(output.stdout.contains("worse (was 2 of 2)"), "{output}");
    assert!(output.stdout.contains("the baseline is of the model chat"), "{output}");

    let output = bench(&world, &["--baseline", saved, "--json"]).await.expect_code(0);
    let compared = &output.json()["comparison"];
    assert_eq!(
        (&compared["tasks"][0]["change"], &compared["solved"]),
        (&json!("same"), &json!(1.0)),
        "{compared}"
    );
    world.finish().await;
}

#[tokio::test]
async fn what_cannot_be_measured_is_said_before_anything_is_done() {
    let model = Server::start(Script::new()).await;
    let world = World::new();
    world.configure(&models(&model));
    let other = world.root().join("other.json");
    write(
        &other,
        "{\"format\":1,\"version\":\"0\",\"model\":\"m\",\"at\":\"2026-01-01T00:00:00Z\",\"repeat\":1,\"tasks\":[]}",
    );
    for (more, said) in [
        (&["--model", "nobody"][..], "there are: chat, claude"),
        (&["--baseline", "nowhere.json"], "--save"),
        (&["--baseline", other.to_str().unwrap()], "nothing can be compared"),
        (&["--save", "/nowhere/at/all.json"], "cannot write"),
        (&["--tasks", "/nowhere"], "--tasks"),
        (&["--repeat", "0"], "--repeat"),
    ] {
        let all = if more[0] == "--tasks" {
            world.run(&[&["bench", "tasks"], more].concat()).await
        } else {
            bench(&world, more).await
        };
        assert_eq!(all.code(), 2, "{all}");
        assert!(all.stderr.contains(said), "{said}: {all}");
    }
    assert_eq!(model.requests().len(), 0);
    assert!(!world.data().join("bench").exists());
    world.finish().await;
}

#[tokio::test]
async fn an_interrupt_ends_it_and_leaves_nothing() {
    let gate = testkit::model::Gate::new();
    let script = Script::new().answer(Reply::text("Never heard").stall(testkit::model::At::Response, &gate));
    let model = Server::start(script).await;
    let world = World::new();
    world.configure(&models(&model));
    let running = world.start(&["bench", "tasks", "--tasks", SUITE, "--only", "python-fix-cart"]);
    gate.reached().await;
    running.signal(libc::SIGINT);
    let output = running.wait().await;
    assert_eq!(output.code(), 130, "{output}");
    assert!(output.stderr.contains("interrupted"), "{output}");
    assert!(!world.data().join("bench").exists());
    world.finish().await;
}

#[tokio::test]
async fn a_task_of_each_language_is_what_it_says() {
    let world = World::new();
    let mut arguments = vec!["bench", "verify", "--tasks", SUITE];
    for task in ["python-fix-cart", "rust-fix-median", "typescript-fix-pages"] {
        arguments.extend(["--only", task]);
    }
    let output = world.ok(&arguments).await;
    assert!(output.stdout.contains("3 tasks, 0 mistakes"), "{output}");
    world.finish().await;
}

#[tokio::test]
#[ignore = "runs every check of every task three times"]
async fn every_task_is_what_it_says() {
    let world = World::new();
    for language in ["python", "rust", "typescript"] {
        for kind in ["feature", "fix", "refactor"] {
            let pattern = format!("{language}-{kind}-*");
            let output = world.json(&["bench", "verify", "--tasks", SUITE, "--only", &pattern]).await;
            assert_eq!(output["wrong"], json!([]), "{output}");
            assert!(!output["tasks"].as_array().unwrap().is_empty(), "{pattern}");
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn a_branch_of_another_program_is_graded() {
    let world = World::new();
    let repository = world.root().join("theirs");
    std::fs::create_dir(&repository).unwrap();
    git_in(&repository, &["init", "--quiet", "--initial-branch=main", "."]);
    for (content, code, said) in [(SPECIOUS, 1, "not solved: "), (MENDED, 0, "solved: 4 tests passed")] {
        write(&repository.join("cart.py"), content);
        git_in(&repository, &["add", "--all"]);
        git_in(&repository, &["commit", "--quiet", "--message", "Mend it"]);
        let output = world.run(&["bench", "grade", "--tasks", SUITE, "python-fix-cart", "theirs"]).await;
        assert_eq!(output.code(), code, "{output}");
        assert!(output.stdout.starts_with(said), "{output}");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_task_whose_hidden_check_says_nothing_is_found() {
    let world = World::new();
    let task = world.root().join("tasks/careless");
    write(
        &task.join("task.toml"),
        "kind = \"fix\"\nlanguage = \"python\"\nsize = \"small\"\nprompt = \"Mend it.\"\n\
         visible = { run = \"python3 -m unittest -q\" }\n\
         hidden = { run = \"python3 -m unittest -q\", tests = 2 }\n",
    );
    let test = |expected: &str| {
        format!(
            "import unittest\nimport a\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(a.a, {expected})\n"
        )
    };
    write(&task.join("repo/a.py"), "a = 1\n");
    write(&task.join("repo/test_a.py"), &test("2"));
    write(&task.join("hidden/test_b.py"), &test("2"));
    write(&task.join("solution/a.py"), "a = 2\n");
    write(&task.join("wrong/a.py"), "a = 2\n");
    // It ends well before a single test ran, which is no proof.
    write(&task.join("wrong/test_a.py"), "import os\nos._exit(0)\n");
    let output = world.ok(&["bench", "verify", "--tasks", "tasks"]).await;
    assert!(output.stdout.contains("1 tasks, 0 mistakes"), "{output}");
    std::fs::remove_file(task.join("wrong/test_a.py")).unwrap();
    let output = world.run(&["bench", "verify", "--tasks", "tasks"]).await.expect_code(1);
    assert!(output.stderr.contains("careless: the hidden check should fail on wrong"), "{output}");
    world.finish().await;
}
