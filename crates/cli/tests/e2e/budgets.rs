//! Budgets and spend through the program: exact, the same after a crash, warned of once, and raised while work waits.

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, environment, models, shell};

/// Each answer costs 45 cents. The fourth one's command waits to be let go.
fn costly() -> Script {
    Script::from_fn(|request, call| {
        let asked = request.last_user().unwrap_or_default();
        let reply = match call {
            _ if asked != "Work" => Reply::text(format!("Heard: {asked}")),
            3 => shell("echo held; until [ -e /tmp/go ]; do sleep 0.02; done"),
            _ => shell(&format!("echo {call}")),
        };
        reply.usage(protocol::Usage { input: 40, output: 5, ..protocol::Usage::default() })
    })
}

fn account(session: &Value) -> [&Value; 4] {
    ["spend", "spent", "turn_spend", "budgets"].map(|key| &session[key])
}

#[tokio::test]
async fn spend_is_the_same_after_a_crash_and_a_budget_is_warned_of_once_and_raised() {
    let (model, repo, world) = (Server::start(costly()).await, Repo::plain(), World::new());
    let priced = "price = { input = 10000, output = 10000 }\n\n[models.claude]";
    let models = models(&model).replace("[models.claude]", priced);
    world.configure(&format!("[budget.session]\nusd = 2\n\n{models}{}", environment(&repo)));
    let serving = world.serve().await;
    let id = serving.api.create(ENVIRONMENT, "Work").await;
    let mut watcher = serving.api.watch(&id, 0).await;
    let warned = watcher.until_type("budget.warned").await;
    assert_eq!(warned["data"]["scope"], "session", "{warned}");
    watcher.until(|frame| frame.to_string().contains("held")).await;
    let queued = json!({"prompt": "later"});
    serving.api.post(&format!("/sessions/{id}/prompts"), &queued).await.expect(202);
    let before = world.json(&["show", &id]).await;
    assert_eq!(before["spend"]["calls"], 4, "{before}");
    let cost = before["spend"]["cost_usd"].as_f64().unwrap();
    assert_eq!(cost, 1.8);
    assert_eq!(before["budgets"]["turn"]["steps"], 1000, "what the configuration says by itself");
    serving.crash().await;

    let serving = world.serve().await;
    let after = world.json(&["show", &id]).await;
    assert_eq!(account(&after), account(&before));
    let mut watcher = serving.api.watch(&id, 0).await;
    world.let_go("/tmp/go");
    let finished = watcher.until_type("turn.finished").await;
    assert_eq!(finished["data"]["outcome"], "out_of_budget", "{finished}");
    let log = serving.api.log(&id).await;
    assert_eq!(log.of("budget.warned").len(), 1);
    assert_eq!(model.requests().len(), 5);
    let shown = world.ok(&["show", &id]).await;
    for said in ["out_of_budget", "$2.2500", "the session used $2.2500 of $2", "--usd 4.5", "112 %", "later"]
    {
        assert!(shown.stdout.contains(said), "{said}: {shown}");
    }
    let waits = serving.api.post(&format!("/sessions/{id}/prompts"), &json!({"prompt": "last"})).await;
    let waits = waits.expect(202);
    assert!(waits["waits"].as_str().unwrap().contains("slipway budget"), "{waits}");
    let attached = world.run(&["attach", &id]).await;
    assert_eq!(attached.code(), 1, "it does not wait for ever: {attached}");

    let day = after["spent"][0]["day"].as_str().unwrap().to_owned();
    let spent = world.json(&["spend", "--model", "chat", "--session", &id, "--from", &day]).await;
    assert_eq!(spent["total"]["calls"], 5, "{spent}");
    assert_eq!(world.json(&["spend", "--to", "2020-01-01"]).await["spent"], json!([]));
    let refused = world.run(&["spend", "--from", "yesterday"]).await.expect_code(2);
    assert!(refused.stderr.contains("2026-11-16"), "{refused}");
    world.run(&["budget", &id, "--usd", "0"]).await.expect_code(2);

    let raised = world.ok(&["budget", &id, "--usd", "100", "--no-turn-steps"]).await;
    assert!(raised.stdout.contains("$100") && !raised.stdout.contains("steps"), "{raised}");
    let mut heard = Vec::new();
    while heard.len() < 3 {
        let item = watcher.until(|frame| frame.to_string().contains("Heard: ")).await;
        if item["type"] == "item.completed" {
            heard.push(item["data"]["item"].to_string());
        }
    }
    assert!(
        heard[0].contains("raised") && heard[1].contains("later") && heard[2].contains("last"),
        "{heard:?}"
    );
    watcher.until_type("turn.finished").await;
    let log = serving.api.log(&id).await;
    assert_eq!(log.of("budget.warned").len(), 1);
    let total = world.json(&["show", &id]).await;
    let cents = |usage: &Value| (usage["cost_usd"].as_f64().unwrap() * 100.0).round();
    let sum: f64 = log.of("usage.recorded").into_iter().map(cents).sum();
    assert_eq!(total["spend"]["cost_usd"].as_f64(), Some(sum / 100.0), "to the last digit");
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn limits_can_be_given_with_the_task() {
    let (model, repo, world) = (Server::start(costly()).await, Repo::plain(), World::new());
    world.configure(&format!("{}{}", models(&model), environment(&repo)));
    let arguments = ["run", "--env", ENVIRONMENT, "--turn-steps", "2", "--turn-minutes", "90", "Work"];
    let output = world.run(&arguments).await.expect_code(1);
    for said in ["out_of_budget", "the turn took 2 of 2 steps", "slipway budget", "--turn-steps 4"] {
        assert!(output.stderr.contains(said), "{said}: {output}");
    }
    let listed = world.json(&["ls"]).await;
    let limits = &listed["sessions"][0]["budgets"];
    assert_eq!(limits["turn"], json!({"seconds": 5400, "steps": 2}), "{limits}");
    world.finish().await;
}
