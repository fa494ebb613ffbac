//! Images in the conversation: they come from the log by name, cost what images cost, and are left out like other results.

use agent::history::{History, fold};
use protocol::chat::{Image, Message};
use protocol::event::{Compaction, CompactionLevel};
use protocol::item::{Output, ToolCall};
use protocol::{
    Actor, Event, EventBody, ImageFile, Item, ItemId, ItemKind, ItemStatus, PromptId, SessionId, Timestamp,
    TurnId, Usage,
};

fn file(digit: &str) -> ImageFile {
    let (name, media_type) = (format!("img_{}.png", digit.repeat(32)), "image/png".to_owned());
    ImageFile { name, media_type, bytes: 5_000_000, width: 640, height: 480 }
}

fn completed(number: u128, kind: ItemKind) -> EventBody {
    let item = Item { id: ItemId::from_u128(number), status: ItemStatus::Completed, kind };
    EventBody::ItemCompleted { turn: TurnId::from_u128(1), item }
}

/// A prompt with an image, a read of another one, and an answer.
#[allow(clippy::expect_used, reason = "a helper of tests fails as tests do")]
fn events(more: Vec<EventBody>) -> Vec<Event> {
    let prompt = PromptId::from_u128(1);
    let output = Output { text: file("2").describe(), bytes: 9, blob: None, images: vec![file("2")] };
    let input = serde_json::json!({"path": "a.png"});
    let call = serde_json::json!({"call_id": "c1", "tool": "read", "input": input, "output": output});
    let call: ToolCall = serde_json::from_value(call).expect("a call as the log has it");
    let bodies = vec![
        completed(1, ItemKind::Prompt { prompt, text: "Look".into(), images: vec![file("1")] }),
        completed(2, ItemKind::ToolCall(call)),
        EventBody::UsageRecorded {
            turn: TurnId::from_u128(1),
            step: 1,
            model: "main".into(),
            usage: Usage::default(),
            cost_usd: None,
            first_token_ms: 0,
            duration_ms: 0,
            elapsed_ms: 0,
        },
    ];
    let events = (1..).zip(bodies.into_iter().chain(more));
    let session = SessionId::from_u128(1);
    let event =
        |(seq, body)| Event { v: 1, session, seq, at: Timestamp::UNIX_EPOCH, actor: Actor::system(), body };
    events.map(event).collect()
}

fn compacted(level: CompactionLevel, text: Option<String>) -> EventBody {
    let (turn, keep_from) = (TurnId::from_u128(1), None);
    EventBody::ContextCompacted(Compaction {
        turn,
        level,
        keep_from,
        unread: None,
        text,
        tokens_before: 9,
        tokens_after: 1,
    })
}

#[test]
fn the_log_gives_images_by_name_and_a_kept_history_gives_the_same() {
    let events = events(Vec::new());
    let messages = fold(&events);
    let [Message::User { text, images }, Message::Assistant { .. }, Message::Tools { results }] =
        &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!((text.as_str(), images.as_slice()), ("Look", &[Image::from(&file("1"))][..]));
    assert_eq!(results[0].text, "image/png, 640×480, 4.8 MiB");
    assert_eq!(results[0].images, [Image::from(&file("2"))]);

    let mut history = History::default();
    events.iter().for_each(|event| history.apply(event));
    let kept = serde_json::to_string(&history).unwrap();
    assert!(kept.len() < 3000, "{kept}");
    assert_eq!(serde_json::from_str::<History>(&kept).unwrap().into_messages(), messages);
}

#[test]
fn a_masked_image_is_told_of_once_with_the_way_to_see_it_again() {
    let masked = || compacted(CompactionLevel::Masked, None);
    let once = fold(&events(vec![masked()]));
    let Some(Message::Tools { results }) = once.last() else { panic!("{once:?}") };
    assert!(results[0].images.is_empty());
    let way = format!("path \"image:{}\"", file("2").name);
    assert!(results[0].text.contains(&way) && results[0].text.contains("640×480"), "{}", results[0].text);
    let Message::User { images, .. } = &once[0] else { panic!("{once:?}") };
    assert_eq!(images.len(), 1, "what a person gave stays");
    assert_eq!(fold(&events(vec![masked(), masked()])), once, "masking twice changes nothing");
}

#[test]
fn a_fresh_context_names_the_images_of_its_prompts() {
    let mut history = History::default();
    events(Vec::new()).iter().for_each(|event| history.apply(event));
    let turn = TurnId::from_u128(1);
    let shortening =
        agent::compaction::Shortening { history: &history, turn, tokens: 9000, room: 100_000, prompts: 1 };
    let text = shortening.fresh(&agent::compaction::WorkState::default()).text.unwrap();
    let way = format!("path \"image:{}\"", file("1").name);
    assert!(text.contains("Look\n[With it came an image: image/png") && text.contains(&way), "{text}");
}
