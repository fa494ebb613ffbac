use super::*;
use proptest::prelude::*;
use protocol::event::DeliveryState;
use protocol::item::{CheckReport, Output};
use protocol::{Actor, Usage, VERSION};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

fn event(seq: u64, body: EventBody) -> Event {
    let at = at(1_000 * seq as i64);
    Event { v: VERSION, session: SessionId::from_u128(1), seq, at, actor: Actor::user("ann"), body }
}

fn fold(bodies: Vec<EventBody>) -> State {
    let mut state = State::new(SessionId::from_u128(1));
    for (index, body) in bodies.into_iter().enumerate() {
        state.apply(&event(index as u64 + 1, body));
    }
    state
}

fn created() -> EventBody {
    EventBody::SessionCreated {
        environment: "shop".into(),
        recipe: Box::default(),
        title: "Fix it".into(),
        model: "main".into(),
        forked_from: None,
    }
}

fn queued(n: u128) -> EventBody {
    EventBody::PromptQueued { prompt: PromptId::from_u128(n), text: format!("prompt {n}") }
}

fn started(n: u128) -> EventBody {
    EventBody::TurnStarted { turn: TurnId::from_u128(n), prompt: PromptId::from_u128(n) }
}

fn finished(n: u128, outcome: Outcome) -> EventBody {
    let turn = TurnId::from_u128(n);
    EventBody::TurnFinished { turn, outcome, reason: Some("because".into()), receipt: Receipt::default() }
}

fn call(n: u128, status: ItemStatus, duration_ms: Option<u64>) -> Item {
    let call = ToolCall {
        call_id: format!("call_{n}"),
        tool: "shell".into(),
        input: serde_json::json!({"command": "true"}),
        output: duration_ms.map(|_| Output::default()),
        exit_code: None,
        duration_ms,
    };
    Item { id: protocol::ItemId::from_u128(n), status, kind: ItemKind::ToolCall(call) }
}

#[test]
fn the_status_follows_the_queue_and_the_last_turn() {
    let mut bodies = vec![created(), queued(1), queued(2)];
    let status = |bodies: &[EventBody]| fold(bodies.to_vec()).to_session().unwrap().status;
    assert_eq!(status(&bodies), Status::Queued);
    bodies.push(started(1));
    assert_eq!(status(&bodies), Status::Working);
    bodies.push(finished(1, Outcome::Cancelled));
    assert_eq!(status(&bodies), Status::Queued, "the next prompt waits");
    bodies.extend([started(2), finished(2, Outcome::Escalated)]);
    let session = fold(bodies).to_session().unwrap();
    assert_eq!((session.status, session.reason.as_deref()), (Status::Escalated, Some("because")));
    assert_eq!((session.turn, session.queued.len(), session.seq), (None, 0, 7));
}

#[test]
fn the_receipt_is_a_fold_over_the_turn() {
    let turn = TurnId::from_u128(1);
    let begin = |item| EventBody::ItemStarted { turn, item };
    let end = |item| EventBody::ItemCompleted { turn, item };
    let report = |passed| {
        let report = CheckReport {
            check: "test".into(),
            command: "make test".into(),
            passed: Some(passed),
            exit_code: Some(i32::from(!passed)),
            duration_ms: Some(40),
            report: None,
        };
        end(Item {
            id: protocol::ItemId::new(),
            status: ItemStatus::Completed,
            kind: ItemKind::Report(report),
        })
    };
    let state = fold(vec![
        created(),
        queued(1),
        started(1),
        EventBody::UsageRecorded {
            turn,
            step: 1,
            model: "main".into(),
            usage: Usage { input: 10, output: 5, ..Usage::default() },
            cost_usd: Some(0.5),
            first_token_ms: 1,
            duration_ms: 7,
        },
        begin(call(1, ItemStatus::InProgress, None)),
        begin(call(2, ItemStatus::InProgress, None)),
        begin(call(3, ItemStatus::InProgress, None)),
        begin(call(4, ItemStatus::InProgress, None)),
        end(call(1, ItemStatus::Failed, Some(100))),
        end(call(2, ItemStatus::Failed, None)),
        report(false),
        end(call(3, ItemStatus::Interrupted, Some(10))),
        end(call(4, ItemStatus::Completed, Some(1))),
        report(true),
    ]);
    let turn = state.turn().unwrap();
    assert!(turn.open.is_empty());
    let receipt = turn.receipt(at(10_000));
    assert_eq!((receipt.steps, receipt.tools_completed, receipt.tools_skipped), (1, 2, 2));
    assert_eq!(receipt.checks, [CheckOutcome { name: "test".into(), passed: true }]);
    // The first report came from inside a call, whose time it is part of.
    assert_eq!((receipt.model_ms, receipt.tools_ms, receipt.duration_ms), (7, 151, 7_000));
    assert_eq!(receipt.spend.usage.total(), 15);
}

#[test]
fn a_late_word_of_an_old_sandbox_does_not_hide_the_new_one() {
    let change = |n, state| EventBody::SandboxChanged {
        sandbox: SandboxId::from_u128(n),
        state,
        detail: None,
        duration_ms: None,
    };
    let state = fold(vec![
        created(),
        queued(1),
        started(1),
        change(1, SandboxState::Ready),
        change(2, SandboxState::Creating),
        change(1, SandboxState::Lost),
    ]);
    assert_eq!(state.sandbox(), Some((SandboxId::from_u128(2), SandboxState::Creating)));
    assert_eq!(state.turn().unwrap().losses, 1);
}

fn any_body() -> impl Strategy<Value = EventBody> {
    let small = 0u128..4;
    let turn = TurnId::from_u128;
    let outcome = prop_oneof![Just(Outcome::Done), Just(Outcome::Cancelled), Just(Outcome::Failed)];
    let sandbox = prop_oneof![
        Just(SandboxState::Creating),
        Just(SandboxState::Ready),
        Just(SandboxState::Lost),
        Just(SandboxState::Stopped)
    ];
    prop_oneof![
        Just(created()),
        small.clone().prop_map(queued),
        small.clone().prop_map(|n| EventBody::PromptRemoved { prompt: PromptId::from_u128(n) }),
        small.clone().prop_map(started),
        (small.clone(), outcome).prop_map(|(n, outcome)| finished(n, outcome)),
        (small.clone(), small.clone()).prop_map(move |(t, n)| EventBody::ItemStarted {
            turn: turn(t),
            item: call(n, ItemStatus::InProgress, None)
        }),
        (small.clone(), small.clone(), any::<Option<u64>>()).prop_map(move |(t, n, ms)| {
            EventBody::ItemCompleted { turn: turn(t), item: call(n, ItemStatus::Completed, ms) }
        }),
        (small.clone(), sandbox).prop_map(|(n, state)| EventBody::SandboxChanged {
            sandbox: SandboxId::from_u128(n),
            state,
            detail: None,
            duration_ms: None
        }),
        any::<bool>().prop_map(|pushed| EventBody::DeliveryUpdated(Delivery {
            state: if pushed { DeliveryState::Pushed } else { DeliveryState::Intended },
            branch: "b".into(),
            commit: None,
            remote: "r".into(),
            url: None,
            error: None,
        })),
    ]
}

proptest! {
    /// Any log, cut anywhere, folds; and the status is consistent with what is open.
    #[test]
    fn any_prefix_of_any_log_folds(bodies in proptest::collection::vec(any_body(), 0..40)) {
        let mut state = State::new(SessionId::from_u128(1));
        for (index, body) in bodies.into_iter().enumerate() {
            state.apply(&event(index as u64 + 1, body));
            let turn = state.turn().map(|turn| turn.id);
            if let Some(session) = state.to_session() {
                prop_assert_eq!(session.turn, turn);
                prop_assert_eq!(session.status == Status::Working, turn.is_some());
                prop_assert_eq!(session.seq, index as u64 + 1);
            }
        }
    }
}
