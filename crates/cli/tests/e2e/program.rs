//! What the program says about itself and its machine: help, version, completions, models, and what holds here.

use std::path::Path;

use serde_json::{Value, json};
use testkit::model::{Options, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, environment, mend};

#[tokio::test]
async fn every_command_explains_itself() {
    let world = World::new();
    let help = world.ok(&["--help"]).await.stdout;
    let commands = [
        "demo",
        "serve",
        "run",
        "prompt",
        "attach",
        "ls",
        "show",
        "stop",
        "diff",
        "deliver",
        "env add",
        "env ls",
        "env rm",
        "sandbox run",
        "sandbox ls",
        "sandbox rm",
        "models",
        "mcp",
        "doctor",
        "completions",
    ];
    for command in commands {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let output = world.ok(&words).await;
        assert!(output.stdout.contains(&format!("Usage: slipway {command}")), "{output}");
        assert!(help.contains(words[0]), "{command} is not in the overview");
    }
    let version = world.ok(&["--version"]).await.stdout;
    assert_eq!(version, format!("slipway {}\n", env!("CARGO_PKG_VERSION")));
    let nonsense = world.run(&["fly"]).await.expect_code(2);
    assert!(nonsense.stdout.is_empty() && nonsense.stderr.contains("fly"), "{nonsense}");
    for shell in ["bash", "zsh", "fish"] {
        let script = world.ok(&["completions", shell]).await.stdout;
        assert!(
            commands.iter().all(|command| script.contains(command.split(' ').next().unwrap())),
            "{shell}"
        );
    }
    let left = std::fs::read_dir(world.data()).unwrap().count();
    assert_eq!(left, 0, "asking leaves nothing in the data directory");
    world.finish().await;
}

#[tokio::test]
async fn doctor_says_what_holds() {
    let world = World::new();
    let report = world.json(&["doctor"]).await;
    assert_eq!(report["fine"], true, "{report}");
    let findings = report["findings"].as_array().unwrap();
    let names: Vec<&str> = findings.iter().map(|finding| finding["name"].as_str().unwrap()).collect();
    assert!(["kernel", "git", "models"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(findings.len() > 4, "the sandbox is looked at too: {names:?}");
    for finding in findings {
        let (state, fix) = (finding["state"].as_str().unwrap(), finding["fix"].as_str());
        assert!(["holds", "weaker", "missing"].contains(&state), "{finding}");
        assert!(state == "holds" || fix.is_some(), "what does not hold says how to get it: {finding}");
    }
    let told = world.ok(&["doctor"]).await.stdout;
    assert!(names.iter().all(|name| told.contains(name)), "{told}");
    world.finish().await;
}

#[tokio::test]
async fn environments_are_added_and_removed() {
    let repo = Repo::plain();
    let world = World::new();
    let add = ["env", "add", "plain", "--repo", &repo.url(), "--check", "answer=./check.sh", "--json"];
    let added = world.ok(&add).await.json();
    assert_eq!((&added["name"], &added["source"]), (&json!("plain"), &json!("catalogue")), "{added}");
    let list = world.json(&["env", "ls"]).await;
    let listed = &list["environments"][0];
    assert_eq!(
        listed["checks"],
        json!([{"name": "answer", "run": "./check.sh", "parser": "auto"}]),
        "{list}"
    );
    world.ok(&["env", "rm", "plain"]).await;
    assert_eq!(world.json(&["env", "ls"]).await["environments"], json!([]));
    let output = world.run(&["env", "rm", "plain"]).await.expect_code(2);
    assert!(output.stderr.contains("plain"), "{output}");
    world.finish().await;
}

#[tokio::test]
async fn a_key_in_the_environment_is_enough() {
    let mut world = World::new();
    assert_eq!(world.json(&["models"]).await, json!({"models": []}));
    let key = "sk-canary-5d1e90";
    world.set("OPENAI_API_KEY", key);
    let output = world.ok(&["models", "--json", "-vvv"]).await;
    let models = output.json();
    let [model] = &models["models"].as_array().unwrap()[..] else { panic!("{models}") };
    assert_eq!(
        (&model["name"], &model["provider"], &model["default"]),
        (&json!("openai"), &json!("openai-responses"), &Value::Bool(true)),
        "thoughts go back to it only through responses"
    );
    assert!(!format!("{output}").replace(&format!("OPENAI_API_KEY=\"{key}\""), "").contains(key), "{output}");
    world.set("ANTHROPIC_API_KEY", key);
    let models = world.json(&["models"]).await;
    let defaults: Vec<&Value> =
        models["models"].as_array().unwrap().iter().filter(|model| model["default"] == true).collect();
    assert_eq!((models["models"].as_array().unwrap().len(), defaults.len()), (2, 1), "{models}");
    world.finish().await;
}

/// Whether any file below a directory has this text.
fn anywhere(dir: &Path, text: &str) -> Option<std::path::PathBuf> {
    std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() && !path.is_symlink() {
            return anywhere(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(text).then_some(path)
    })
}

#[tokio::test]
async fn a_key_reaches_the_model_and_nothing_else() {
    let key = "sk-canary-77ab12";
    let options = Options { key: Some(key.to_owned()), ..Options::default() };
    let model = Server::start_with(mend(), options).await.unwrap();
    let repo = Repo::plain();
    let mut world = World::new();
    world.configure(&format!(
        "[models.main]\nprovider = \"openai-compatible\"\nmodel = \"scripted\"\nbase_url = \"{}\"\napi_key_env = \"MY_KEY\"\n\n{}",
        model.url(),
        environment(&repo)
    ));
    world.set("SLIPWAY_LOG", "trace");
    let without = world.run(&["run", "--env", ENVIRONMENT, "Make the answer right"]).await.expect_code(1);
    assert!(
        without.stderr.contains("api_key_env of [models.main]"),
        "it says where the key comes from: {without}"
    );
    world.set("MY_KEY", key);
    let output = world.ok(&["run", "--env", ENVIRONMENT, "--json", "-vv", "Make the answer right"]).await;
    assert!(!output.stdout.contains(key) && !output.stderr.contains(key), "{output}");
    assert_eq!(output.events().only("turn.finished")["outcome"], "done");
    assert_eq!(
        model.requests().last().unwrap().header("authorization"),
        Some(format!("Bearer {key}").as_str())
    );
    assert_eq!(anywhere(&world.data(), key), None, "it is not written down");
    world.finish().await;
}
