//! What a tool leaves out of what it found is told, and can be come to.

use protocol::{EditFormat, Outcome, ToolMode};
use serde_json::json;
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, create};

#[tokio::test(flavor = "multi_thread")]
async fn a_search_says_what_it_leaves_out_of_a_file() {
    let script = Script::new()
        .call(
            "shell",
            json!({"command": "seq -f 'match %g' 300 >m.txt; echo match >n.txt; echo 42 >answer.txt"}),
        )
        .call("search", json!({"pattern": "match"}))
        .call("search", json!({"pattern": "match", "path": "m.txt"}))
        .call("shell", json!({"command": "rm m.txt n.txt"}))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let calls = follow.calls();
    let text = |index: usize| calls[index].1.output.as_ref().unwrap().text.clone();
    assert!(text(1).contains("m.txt:50:match 50\n(m.txt: 250 more lines match;"), "{}", text(1));
    assert!(text(1).contains("n.txt:1:match") && !text(1).contains("match 51"), "{}", text(1));
    assert_eq!(text(2).lines().count(), 300, "{}", text(2));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_part_of_an_output_in_one_line_can_be_found_and_read() {
    let make = "seq -f '%06g-' 60000 | tr -d '\\n'; echo 42 >answer.txt";
    let script = Script::new().call("shell", json!({"command": make})).then(|request, number| {
        let last = request.results().last().map(|result| result.text.clone()).unwrap_or_default();
        let all = request.json.to_string();
        let name = all.split_once("output:").and_then(|(_, rest)| rest.split_once(".out")).unwrap().0;
        let path = format!("output:{name}.out");
        match number {
            1 => Reply::new().call("search", json!({"path": path, "pattern": "03000[01]-"})),
            2 => {
                let (column, found) = last.strip_prefix("1:[column ").unwrap().split_once("] ").unwrap();
                assert!(found.contains("-030000-030001-"), "{last}");
                let column: u64 = column.parse().unwrap();
                Reply::new().call("read", json!({"path": path, "column": column}))
            }
            3 => {
                assert!(last.contains("-030000-030001-"), "{last}");
                assert!(last.contains("go on with offset 1 and column "), "{last}");
                assert!(!last.contains("can be read with the read tool"), "it is not cut again: {last}");
                Reply::new().call("shell", json!({"command": "ls -d /tmp/slipway-* 2>/dev/null; echo end"}))
            }
            _ => Reply::text("Done."),
        }
    });
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(follow.last_output(), "end\n(exit code 0)");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_file_in_any_language_does_not_take_the_place_of_the_whole() {
    let make = "printf '#include <a.h>\\n\\nint f(int x) {\\n    return x;\\n}\\n\\nint g(int x) {\\n    return x;\\n}\\n' >a.c";
    let part = "a.c\n```c\nint f(int x) {\n    return 1;\n}\n```\n\nanswer.txt\n```\n42\n```\n";
    let script = Script::new().say(format!("```sh\n{make}\n```")).say(part).say("Done.").repeat_last();
    let overrides = llm::Overrides {
        tool_mode: Some(ToolMode::Fenced),
        edit_format: Some(EditFormat::Whole),
        ..llm::Overrides::default()
    };
    let world = World::new(script).await.profile(overrides);
    let sessions = world.start().await;
    let id = create(&sessions, "Change f").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let text = world.repo.file(&branch, "a.c").unwrap();
    assert_eq!(
        text,
        "#include <a.h>\n\nint f(int x) {\n    return 1;\n}\n\nint g(int x) {\n    return x;\n}\n"
    );
    world.end(sessions).await;
}
