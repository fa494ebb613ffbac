//! Patches whose sections touch the same file, or one that is there already: nothing is lost in silence.

use protocol::{EditFormat, ItemStatus, Outcome, ToolMode};
use serde_json::{Value, json};
use testkit::model::Script;

use crate::support::{Follow, World, create};

const CALC: &str = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n";

fn patch(sections: &str) -> Value {
    json!({"patch": format!("*** Begin Patch\n{sections}*** End Patch")})
}

/// What each patch gave, and the files afterwards.
async fn patched(patches: &[&str], shown: &str) -> (Vec<(ItemStatus, String)>, String) {
    let files = json!({"path": "calc.py", "content": CALC});
    let run = json!({"command": "chmod +x calc.py; echo 'B = 1' > b.py"});
    let mut script = Script::new().call("write", files).call("shell", run);
    for sections in patches {
        script = script.call("apply_patch", patch(sections));
    }
    let script = script
        .call("shell", json!({"command": shown}))
        .call("write", json!({"path": "answer.txt", "content": "42\n"}))
        .say("That is all.");
    let profile = llm::Overrides {
        tool_mode: Some(ToolMode::Native),
        edit_format: Some(EditFormat::Patch),
        ..llm::Overrides::default()
    };
    let world = World::new(script).await.profile(profile);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.events);
    let given = |(item, call): &(&protocol::Item, &protocol::item::ToolCall)| {
        (item.status, call.output.as_ref().map(|output| output.text.clone()).unwrap_or_default())
    };
    let mut calls: Vec<(ItemStatus, String)> = follow.calls().iter().map(given).collect();
    let shown = calls.remove(2 + patches.len()).1;
    let patches = calls.drain(2..2 + patches.len()).collect();
    world.end(sessions).await;
    (patches, shown)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_deleted_and_added_again_is_there() {
    let rewrite = "*** Delete File: ./calc.py\n*** Add File: calc.py\n+def add(a, b):\n+    return a + b\n+\n+def sub(a, b):\n+    return a - b\n";
    let same = "*** Update File: calc.py\n*** Move to: ./calc.py\n@@\n-    return a + b\n+    return b + a\n";
    let twice = "*** Update File: b.py\n*** Move to: d.py\n@@\n-B = 1\n+B = 2\n*** Update File: d.py\n@@\n-B = 2\n+B = 3\n";
    let (given, shown) = patched(&[rewrite, same, twice], "cat calc.py; ls *.py; cat d.py").await;
    assert!(given.iter().all(|(status, _)| *status == ItemStatus::Completed), "{given:?}");
    assert!(given[0].1.contains("Replaced calc.py"), "{given:?}");
    assert!(shown.contains("return b + a") && shown.contains("def sub"), "{shown}");
    assert!(shown.contains("calc.py\nd.py\n") && shown.contains("B = 3"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_not_written_over_in_silence() {
    let fragment = "*** Add File: calc.py\n+def add(a, b):\n+    return a + b\n";
    let over = "*** Update File: b.py\n*** Move to: calc.py\n@@\n-B = 1\n+B = 2\n";
    let after = "*** Delete File: b.py\n*** Update File: b.py\n@@\n-B = 1\n+B = 2\n";
    let moved = "*** Update File: calc.py\n*** Move to: sums.py\n@@\n-    return a - b\n+    return a + b\n \n \n def sub(a, b):\n";
    let shown = "cat b.py; ls *.py; cat sums.py; test -x sums.py && echo executable";
    let (given, shown) = patched(&[fragment, over, after, moved], shown).await;
    let status: Vec<ItemStatus> = given.iter().map(|(status, _)| *status).collect();
    assert_eq!(
        status,
        [ItemStatus::Failed, ItemStatus::Failed, ItemStatus::Failed, ItemStatus::Completed],
        "{given:?}"
    );
    assert!(given[0].1.contains("sub") && given[0].1.contains("exists"), "{given:?}");
    assert!(given[1].1.contains("calc.py, which exists"), "{given:?}");
    assert!(given[2].1.contains("deleted by a section before"), "{given:?}");
    assert!(shown.starts_with("B = 1\nb.py\nsums.py\n"), "{shown}");
    assert!(shown.contains("def sub") && shown.contains("executable"), "{shown}");
}
