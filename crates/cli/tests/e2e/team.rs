//! Skills and hooks from the command line: configured, shown, and refused where they cannot be.

use serde_json::json;
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, environment, models, shell};

#[tokio::test]
async fn skills_and_hooks_are_configured_and_shown() {
    let script = Script::new()
        .answer(Reply::new().call("skill", json!({"name": "ship"})))
        .answer(shell("echo forbidden"))
        .answer(shell("echo 42 > answer.txt"))
        .say("Done.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let skills = world.root().join("skills");
    std::fs::create_dir_all(skills.join("ship")).unwrap();
    let text = "---\nname: ship\ndescription: How we ship.\n---\nCarefully.\n";
    std::fs::write(skills.join("ship/SKILL.md"), text).unwrap();
    let team = |tool: &str| {
        let run = "grep -q forbidden && { echo not here >&2; exit 2; }; exit 0";
        format!(
            "{}{}skills = [{{ path = \"{}\" }}]\nhooks = [{{ on = \"before\", tool = \"{tool}\", run = \"{run}\" }}]\n",
            models(&model),
            environment(&repo),
            skills.display(),
        )
    };
    world.configure(&team("shell"));
    let output = world.run(&["run", "--env", ENVIRONMENT, "Ship it"]).await;
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(
        output.stderr.contains("hook grep -q forbidden") && output.stderr.contains("vetoed it: not here"),
        "{output:?}"
    );
    let list = world.json(&["ls"]).await;
    let id = list[0]["id"].as_str().unwrap();
    let session = world.json(&["show", id]).await;
    assert_eq!(session["skills"][0]["name"], "ship", "{session}");
    let tree = session["skills"][0]["tree"].as_str().unwrap();
    let shown = world.ok(&["show", id]).await;
    let line = format!("skill        ship of {}, tree {}", skills.display(), &tree[..12]);
    assert!(shown.stdout.contains(&line), "{shown:?}");
    let calls = world.ok(&["show", id, "--calls"]).await;
    assert!(calls.stdout.contains("failed, hook vetoed"), "{calls:?}");
    assert!(model.requests()[1].json.to_string().contains("Carefully."));

    world.configure(&team("bash"));
    let wrong = world.run(&["run", "--env", ENVIRONMENT, "Ship it"]).await;
    assert_ne!(wrong.code(), 0, "{wrong:?}");
    assert!(
        wrong.stderr.contains("unknown tool, \"bash\"") && wrong.stderr.contains("shell, process"),
        "{wrong:?}"
    );
    world.configure(&team("shell").replace("on = ", "when = \"x\", on = "));
    let wrong = world.run(&["run", "--env", ENVIRONMENT, "Ship it"]).await;
    assert!(wrong.code() != 0 && wrong.stderr.contains("when"), "unknown keys are refused: {wrong:?}");
}
