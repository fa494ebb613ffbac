//! What each call has of the model's tokens and cost, also over a restart.

use protocol::item::Share;
use protocol::{EventBody, ItemKind, Outcome, Usage};
use serde_json::json;
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, create};

fn share(written: u64, read: u64, cost_usd: f64) -> Share {
    Share { written, read, cost_usd: Some(cost_usd) }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_has_its_share_of_the_answer_and_of_what_its_result_adds() {
    let wait = "echo one; until [ -e /tmp/go ]; do sleep 0.02; done";
    let short = json!({"command": "true"});
    let both = Reply::new()
        .call("shell", short.clone())
        .call("shell", json!({"command": wait}))
        .usage(Usage { input: 1000, output: 100, ..Usage::default() });
    let script = Script::new().answer(both).answer(Reply::new().call("nothing", json!({}))).say("Done.");
    let price = llm::Price { input: 1.0, output: 10.0, cache_read: None, cache_write: None };
    let world = World::new(script).await.price(price);
    let sessions = world.start().await;
    let id = create(&sessions, "Work").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("one").await;
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    drop((sessions, follow));

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let guest = world.driver.adopt(sandbox).await.unwrap();
    guest.guest().write_file("/tmp/go", "".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);

    let weight = |arguments: &serde_json::Value| (5 + arguments.to_string().len()) as u64;
    let (first, second) = (weight(&short), weight(&json!({"command": wait})));
    let written = [100 * first / (first + second), 100 * second / (first + second)];
    let begun: Vec<Share> = follow
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ItemStarted { item, .. } => match &item.kind {
                ItemKind::ToolCall(call) => call.share,
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!((begun[0].written, begun[0].read), (written[0], 0), "it is known when the call begins");
    let calls = follow.calls();
    // "(exit code 0)" is 13 bytes, and with "one" and an end of line before it 17.
    for (call, written, read) in [(calls[0].1, written[0], 4), (calls[1].1, written[1], 5)] {
        let cost = (written * 10 + read) as f64 / 1e6;
        let known = call.share.unwrap();
        assert_eq!((known.written, known.read), (written, read), "{call:?}");
        assert!(
            (known.cost_usd.unwrap() - share(written, read, cost).cost_usd.unwrap()).abs() < 1e-12,
            "{known:?}"
        );
    }
    let refused = calls[2].1.share.unwrap();
    assert!(refused.read > 10, "what is refused is read too: {refused:?}");
    world.end(sessions).await;
}
