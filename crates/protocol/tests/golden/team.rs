//! Examples of skills and hooks.

use protocol::item::{Output, ToolCall};
use protocol::*;
use serde_json::json;

pub(super) fn skill() -> PinnedSkill {
    PinnedSkill {
        name: "ship".to_owned(),
        description: "How we ship.".to_owned(),
        source: "https://git.test/skills.git".to_owned(),
        folder: "team/ship".to_owned(),
        commit: Some("0123".to_owned()),
        tree: "4567".to_owned(),
        place: "/run/slipway/skills/ship".to_owned(),
    }
}

/// An environment with both.
pub(super) fn environment() -> Environment {
    let git = SkillSource {
        url: Some("https://git.test/skills.git".to_owned()),
        revision: Some("v1".to_owned()),
        path: None,
        folder: Some("team".to_owned()),
    };
    let directory = SkillSource { path: Some("/srv/skills".to_owned()), ..SkillSource::default() };
    let hook = Hook {
        on: HookPoint::Before,
        tool: "shell|write".to_owned(),
        run: "./guard.sh".to_owned(),
        timeout_s: Some(5),
    };
    let after = Hook { on: HookPoint::After, tool: "*".to_owned(), timeout_s: None, ..hook.clone() };
    Environment { skills: vec![git, directory], hooks: vec![hook, after], ..super::environment() }
}

/// A call that hooks changed.
fn call() -> Item {
    let run = |on, did| HookRun {
        on,
        run: "./guard.sh".to_owned(),
        did,
        reason: None,
        from: None,
        duration_ms: 12,
    };
    let rewrote = HookRun {
        reason: Some("the old way is gone".to_owned()),
        from: Some(json!({ "command": "make" })),
        ..run(HookPoint::Before, HookDeed::Rewrote)
    };
    let after = [HookDeed::Added, HookDeed::Replaced, HookDeed::Failed].map(|did| run(HookPoint::After, did));
    let before =
        [rewrote, run(HookPoint::Before, HookDeed::Passed), run(HookPoint::Before, HookDeed::Vetoed)];
    let kind = ItemKind::ToolCall(ToolCall {
        call_id: "call_3".to_owned(),
        tool: "shell".to_owned(),
        input: json!({ "command": "just" }),
        limit_ms: None,
        output: Some(Output { text: "ok".to_owned(), bytes: 2, ..Output::default() }),
        exit_code: Some(0),
        duration_ms: Some(3),
        elapsed_ms: None,
        process: None,
        share: None,
        hooks: before.into_iter().chain(after).collect(),
    });
    Item { id: ItemId::from_u128(14), status: ItemStatus::Completed, kind }
}

pub(super) fn events() -> [EventBody; 3] {
    [
        EventBody::SkillsPinned { skills: vec![skill()] },
        EventBody::ItemCompleted { turn: TurnId::from_u128(2), item: call() },
        EventBody::SessionCreated {
            environment: "shop".to_owned(),
            recipe: Box::new(environment()),
            title: "Ship it".to_owned(),
            model: "main".to_owned(),
            forked_from: None,
            budgets: Budgets::default(),
            origin: SessionOrigin::default(),
        },
    ]
}
