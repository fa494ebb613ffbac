//! The model's to-do list, and what else is put back from the state of the work whatever is left out of the conversation.

use std::sync::{Arc, Mutex};

use protocol::event::{CompactionLevel, PlanItem, PlanState};
use protocol::{EventBody, Outcome};
use serde_json::json;
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, create};

fn plans(follow: &Follow) -> Vec<Vec<PlanItem>> {
    let plan = |body: &EventBody| match body {
        EventBody::PlanUpdated { items, .. } => Some(items.clone()),
        _ => None,
    };
    follow.events.iter().filter_map(|event| plan(&event.body)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_an_item_and_an_event() {
    let script = Script::new()
        .call("plan", json!({"items": "[>] look\n[ ] correct it"}))
        .call("plan", json!({"items": "[x] look\n[-] correct it"}))
        .call("plan", json!({"items": ""}))
        .say("Nothing to do.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let item = |text: &str, state| PlanItem { text: text.into(), state };
    let expected = [
        vec![item("look", PlanState::InProgress), item("correct it", PlanState::Pending)],
        vec![item("look", PlanState::Completed), item("correct it", PlanState::Skipped)],
    ];
    assert_eq!(plans(&follow), expected);
    let outputs: Vec<String> =
        follow.calls().iter().map(|(_, call)| call.output.as_ref().unwrap().text.clone()).collect();
    assert_eq!(outputs[0], "The plan is written down: 2 of 2 items are left.");
    assert_eq!(outputs[1], "The plan is written down: 0 of 2 items are left.");
    assert!(outputs[2].contains("has no line"), "{}", outputs[2]);
    assert_eq!(finished.receipt.mistakes.broken_arguments, 1);
    world.end(sessions).await;
}

/// What must be in a request after each level, and which levels were seen with all of it.
#[derive(Default)]
struct Looked {
    masked: usize,
    shortened: usize,
    missing: Vec<String>,
}

impl Looked {
    fn look(&mut self, json: &str) {
        let mut wanted = vec!["[>] correct the answer", "Write tabs", "heliotrope"];
        if json.contains("Earlier parts of this conversation are left out") {
            self.shortened += 1;
            wanted.extend([
                "answer.txt | 2 +-",
                "The check test failed when it last ran",
                "expected 42, found 40",
            ]);
        } else if json.contains("[left out to save room") {
            self.masked += 1;
        }
        let missing = wanted.into_iter().filter(|text| !json.contains(text));
        self.missing.extend(missing.map(str::to_owned));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_level_the_state_of_the_work_is_in_the_request() {
    let looked = Arc::new(Mutex::new(Looked::default()));
    let seen = Arc::clone(&looked);
    let (mut step, mut summaries) = (0, 0);
    let script = Script::from_fn(move |request, _| {
        if request.tools.is_empty() {
            summaries += 1;
            // Without a summary everything is left behind. What it says of the plan is wrong.
            return Reply::text(if summaries == 1 {
                ""
            } else {
                "Done\nThere is no plan, and all checks pass."
            });
        }
        if step > 3 {
            seen.lock().unwrap().look(&request.json.to_string());
        }
        step += 1;
        match step {
            1 => Reply::new().call("plan", json!({"items": "[x] look\n[>] correct the answer"})),
            2 => Reply::new().call("edit", json!({"path": "answer.txt", "old": "41", "new": "40"})),
            3 => Reply::new().call("check", json!({})),
            60 => Reply::new().call("edit", json!({"path": "answer.txt", "old": "40", "new": "42"})),
            61.. => Reply::text("The answer is 42 now."),
            step => {
                let command = format!("echo step {step}; seq {} | sed 's/^/some line /'", step * 53 % 300);
                // What a model says is never masked, so that more must be given up.
                Reply::text("I think aloud. ".repeat(70)).call("shell", json!({"command": command}))
            }
        }
    });
    let overrides = llm::Overrides { context: Some(16_384), ..llm::Overrides::default() };
    let world = World::new(script).await.profile(overrides);
    let world = world.environment(|environment| environment.instructions = Some("Write tabs.".into()));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer, heliotrope").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let levels: Vec<CompactionLevel> = follow
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ContextCompacted(compaction) => Some(compaction.level),
            _ => None,
        })
        .collect();
    for level in [CompactionLevel::Masked, CompactionLevel::Summarised, CompactionLevel::Fresh] {
        assert!(levels.contains(&level), "{level:?} is not in {levels:?}");
    }
    world.end(sessions).await;
    let looked = looked.lock().unwrap();
    assert_eq!(looked.missing, Vec::<String>::new(), "{levels:?}");
    assert!(looked.masked > 0 && looked.shortened > 1, "{} {}", looked.masked, looked.shortened);
}
