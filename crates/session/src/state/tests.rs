use super::*;
use proptest::prelude::*;
use protocol::NotificationState;
use protocol::event::{DeliveryState, Judgement, Verdict};
use protocol::item::{CheckReport, Output};
use protocol::{Actor, Budgets, Mistake, Status, Usage, VERSION};

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

/// A turn that has taken so many milliseconds, as the log has it.
pub(crate) fn turn_that_took(elapsed_ms: u64) -> TurnState {
    let used = used(1, 1, Usage::default(), None, elapsed_ms);
    fold(vec![created(), queued(1), started(1), used]).turn().unwrap().clone()
}

/// A model call of a turn.
fn used(turn: u128, step: u32, usage: Usage, cost_usd: Option<f64>, elapsed_ms: u64) -> EventBody {
    let (turn, model) = (TurnId::from_u128(turn), "main".to_owned());
    EventBody::UsageRecorded {
        turn,
        step,
        model,
        usage,
        cost_usd,
        first_token_ms: 1,
        duration_ms: 2,
        elapsed_ms,
    }
}

#[test]
fn whoever_changes_a_prompt_is_named_beside_its_author_once() {
    let edited = |text: &str| EventBody::PromptEdited {
        prompt: PromptId::from_u128(1),
        text: text.into(),
        command: None,
    };
    let mut state = fold(vec![created(), queued(1)]);
    for (who, text) in [("ann", "mine"), ("bob", "ours"), ("cid", "theirs"), ("bob", "ours again")] {
        let seq = state.seq() + 1;
        state.apply(&Event { actor: Actor::user(who), ..event(seq, edited(text)) });
    }
    let prompt = &state.to_session().unwrap().queued[0];
    assert_eq!((prompt.author.as_str(), prompt.text.as_str()), ("ann", "ours again"));
    assert_eq!(prompt.editors, ["bob", "cid"]);
    state.apply(&event(state.seq() + 1, started(1)));
    assert_eq!(state.turn().unwrap().authors, ["ann", "bob", "cid"]);
}

#[test]
fn what_a_turn_leaves_open_is_the_next_one_s_unless_it_is_done() {
    let items =
        vec![protocol::event::PlanItem { text: "look".into(), state: protocol::event::PlanState::Pending }];
    for (outcome, left) in [(Outcome::OutOfBudget, 1), (Outcome::Escalated, 1), (Outcome::Done, 0)] {
        let turn = TurnId::from_u128(1);
        let state = fold(vec![
            created(),
            queued(1),
            started(1),
            EventBody::PlanUpdated { turn, items: items.clone() },
            EventBody::MistakeMade { turn, mistake: Mistake::UnknownTool },
            EventBody::TurnFinished { turn, outcome, reason: None, receipt: Receipt::default() },
            queued(2),
            started(2),
        ]);
        let next = state.turn().unwrap();
        assert_eq!(next.plan.len(), left, "{outcome:?}");
        assert!(next.receipt(Outcome::Done, 0).mistakes.is_empty(), "mistakes are of one turn");
    }
}

fn created() -> EventBody {
    EventBody::SessionCreated {
        environment: "shop".into(),
        recipe: Box::default(),
        title: "Fix it".into(),
        model: "main".into(),
        forked_from: None,
        budgets: Budgets::default(),
        origin: protocol::SessionOrigin::default(),
    }
}

fn queued(n: u128) -> EventBody {
    EventBody::PromptQueued {
        prompt: PromptId::from_u128(n),
        text: format!("prompt {n}"),
        now: false,
        images: Vec::new(),
    }
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
        limit_ms: None,
        output: duration_ms.map(|_| Output::default()),
        exit_code: None,
        duration_ms,
        elapsed_ms: None,
        process: None,
        share: None,
        hooks: Vec::new(),
    };
    Item { id: protocol::ItemId::from_u128(n), status, kind: ItemKind::ToolCall(call) }
}

#[test]
fn a_doubt_was_told_once_the_model_made_a_step_after_it() {
    let mut state = State::new(SessionId::from_u128(1));
    let turn = TurnId::from_u128(1);
    let used = |step| EventBody::UsageRecorded {
        turn,
        step,
        model: "main".into(),
        usage: Default::default(),
        cost_usd: None,
        first_token_ms: 0,
        duration_ms: 0,
        elapsed_ms: 0,
    };
    let judged = |verdict| {
        let judgement = Judgement { model: "judge".into(), verdict, words: "b.txt is missing.".into() };
        EventBody::WorkJudged { turn, judgement }
    };
    let retry = EventBody::RetryScheduled {
        turn,
        attempt: 2,
        attempts: 6,
        reason: "busy".into(),
        delay_ms: 1,
        wake_at: None,
    };
    let mut add = |body, actor: Actor| {
        let seq = state.seq() + 1;
        state.apply(&Event { actor, ..event(seq, body) });
        state.turn().map(|turn| (turn.doubt_was_told(), turn.retry.is_some()))
    };
    let judge = || Actor::agent("judge");
    add(created(), Actor::system());
    add(queued(1), Actor::user("ann"));
    add(started(1), Actor::system());
    add(used(1), Actor::agent("main"));
    assert_eq!(add(retry, judge()), Some((false, true)));
    assert_eq!(add(judged(Verdict::Doubtful), judge()), Some((false, false)), "nobody waits for it any more");
    // Another server, which died before it told anybody.
    assert_eq!(add(judged(Verdict::Doubtful), judge()), Some((false, false)));
    assert_eq!(add(used(0), judge()), Some((false, false)), "no step");
    assert_eq!(add(used(2), Actor::agent("main")), Some((true, false)));
    assert_eq!(add(judged(Verdict::Doubtful), judge()), Some((true, false)));
}

#[test]
fn a_command_that_went_on_without_a_server_does_not_count_for_that_time() {
    let ended = |elapsed_ms| {
        let mut item = call(1, ItemStatus::Completed, Some(22_000));
        let ItemKind::ToolCall(call) = &mut item.kind else { unreachable!() };
        call.elapsed_ms = elapsed_ms;
        let turn = TurnId::from_u128(1);
        let used = used(1, 1, Usage::default(), None, 1_000);
        let state =
            fold(vec![created(), queued(1), started(1), used, EventBody::ItemCompleted { turn, item }]);
        let turn = state.turn().unwrap();
        (turn.elapsed_ms, turn.receipt(Outcome::Done, 0).tools_ms)
    };
    assert_eq!(ended(Some(8_000)), (8_000, 7_000));
    assert_eq!(ended(Some(23_000)), (23_000, 22_000));
    assert_eq!(ended(None), (23_000, 22_000), "as older logs have it");
}

/// A notification that is this far.
fn notification(key: &str, turn: TurnId, state: NotificationState) -> Notification {
    Notification {
        key: key.to_owned(),
        state,
        kind: protocol::NotificationKind::TurnFinished,
        turn,
        title: "t".to_owned(),
        outcome: None,
        text: None,
        approval: None,
        branch: None,
        url: None,
        attempts: 0,
        error: None,
    }
}

#[test]
fn what_an_earlier_lineage_had_in_the_backup_is_in_the_log_and_nothing_else_of_it() {
    let restored = |n| EventBody::SessionRestored { lineage: LineageId::from_u128(n) };
    let whole = fold(vec![created(), queued(1), queued(2)]);
    let first = whole.lineage().unwrap();
    assert!(whole.has(first, 3) && whole.has(first, 99), "more than there is, is another question");
    let other = LineageId::from_u128(7);
    assert!(whole.has(other, 0) && !whole.has(other, 1), "who has nothing has nothing wrong");

    let state = fold(vec![created(), queued(1), restored(8), queued(2), restored(9), queued(3)]);
    assert_eq!(state.lineage(), Some(LineageId::from_u128(9)));
    assert_eq!(state.to_session().unwrap().lineage, state.lineage());
    for (lineage, last) in [(first, 2), (LineageId::from_u128(8), 4), (LineageId::from_u128(9), 6)] {
        assert!(state.has(lineage, last), "{lineage}");
    }
    for (lineage, beyond) in [(first, 3), (first, 6), (LineageId::from_u128(8), 5)] {
        assert!(!state.has(lineage, beyond), "{lineage} {beyond}");
    }
    // The same session made at another time.
    let mut again = State::new(SessionId::from_u128(1));
    again.apply(&Event { at: at(5), ..event(1, created()) });
    assert_ne!(again.lineage(), Some(first));
}

#[test]
fn notifications_are_pending_from_their_intent_to_their_end() {
    let turn = TurnId::from_u128(1);
    let told = |key: &str, state| EventBody::NotificationUpdated(notification(key, turn, state));
    let mut state = State::new(SessionId::from_u128(1));
    let mut keys = |body: EventBody| {
        let seq = state.seq() + 1;
        let (id, at) = (state.id(), Timestamp::UNIX_EPOCH);
        state.apply(&Event { v: protocol::VERSION, session: id, seq, at, actor: Actor::system(), body });
        state.notifications().iter().map(|pending| pending.key.clone()).collect::<Vec<_>>()
    };
    assert_eq!(keys(told("a", NotificationState::Intended)), ["a"]);
    assert_eq!(keys(told("b", NotificationState::Intended)), ["a", "b"]);
    assert_eq!(keys(told("a", NotificationState::Intended)), ["a", "b"], "another attempt");
    assert_eq!(keys(told("a", NotificationState::Sent)), ["b"]);
    assert_eq!(keys(told("b", NotificationState::Failed)), Vec::<String>::new());
    assert_eq!(
        keys(told("b", NotificationState::Sent)),
        Vec::<String>::new(),
        "what is not pending cannot end"
    );
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
            ..CheckReport::default()
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
            elapsed_ms: 20,
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
    let receipt = turn.receipt(Outcome::Done, 10_000);
    assert_eq!((receipt.steps, receipt.tools_completed, receipt.tools_skipped), (1, 2, 2));
    assert_eq!(receipt.checks, [CheckOutcome { name: "test".into(), passed: true }]);
    // The first report came from inside a call, whose time it is part of.
    assert_eq!((receipt.model_ms, receipt.tools_ms, receipt.duration_ms), (7, 151, 10_000));
    assert_eq!(receipt.spend.usage.total(), 15);
    assert_eq!((receipt.completed.len(), receipt.skipped.len()), (0, 0), "nobody asks what a done turn left");
    let receipt = turn.receipt(Outcome::Cancelled, 10_000);
    let listed = |work: &[Work]| -> Vec<(String, ItemStatus)> {
        work.iter().map(|work| (work.what.clone(), work.status)).collect()
    };
    let [failed, completed, interrupted] =
        [ItemStatus::Failed, ItemStatus::Completed, ItemStatus::Interrupted]
            .map(|status| ("shell true", status));
    let check = ("check test", ItemStatus::Completed);
    let owned = |list: &[(&str, ItemStatus)]| -> Vec<(String, ItemStatus)> {
        list.iter().map(|(what, status)| ((*what).to_owned(), *status)).collect()
    };
    assert_eq!(listed(&receipt.completed), owned(&[failed, check, completed, check]));
    assert_eq!(listed(&receipt.skipped), owned(&[failed, interrupted]), "refused, and broken off");
}

#[test]
fn a_receipt_lists_a_bounded_number_of_short_lines() {
    let turn = TurnId::from_u128(1);
    let mut bodies = vec![created(), queued(1), started(1)];
    bodies.extend((0..300).map(|n| {
        let mut item = call(n, ItemStatus::Completed, Some(1));
        if let ItemKind::ToolCall(call) = &mut item.kind {
            call.input = serde_json::json!({"command": format!("\n  {}\nsecond line", "ä".repeat(1000))});
        }
        EventBody::ItemCompleted { turn, item }
    }));
    let receipt = fold(bodies).turn().unwrap().receipt(Outcome::Failed, 10_000);
    assert_eq!((receipt.completed.len(), receipt.tools_completed), (LISTED, 300));
    let what = &receipt.completed[0].what;
    assert!(
        what.starts_with("shell ää") && what.ends_with('…') && what.chars().count() == WORDS + 1,
        "{what}"
    );
}

#[test]
fn a_turn_that_waits_goes_on_with_a_decision_and_ends_with_a_stop() {
    let (turn, approval) = (TurnId::from_u128(1), ApprovalId::from_u128(9));
    let asked = EventBody::ApprovalRequested {
        approval,
        turn,
        question: "Push?".into(),
        gate: protocol::Gate::Delivery,
        call: None,
        diff: None,
    };
    let resolved =
        |approved| EventBody::ApprovalResolved { approval, approved, comment: None, input: None, all: false };
    let mut bodies = vec![created(), queued(1), started(1), asked];
    let state = fold(bodies.clone());
    assert!(state.waits());
    assert_eq!(state.to_session().unwrap().status, Status::Waiting);
    bodies.extend([resolved(false), resolved(true)]);
    let state = fold(bodies.clone());
    assert!(!state.waits() && state.turn().unwrap().approval.is_none());
    assert!(!state.decision(approval).unwrap().approved, "the first to decide has decided");
    assert_eq!(state.turn().unwrap().decision.as_ref().map(|known| known.approved), Some(false));
    bodies.push(EventBody::TurnStopping { turn, command: None });
    assert_eq!(fold(bodies).turn().unwrap().stopping, Some(Actor::user("ann")));
}

#[test]
fn calls_that_wait_are_held_until_they_begin_and_what_is_allowed_is_kept() {
    let turn = TurnId::from_u128(1);
    let call = |n: u128| {
        let call = ToolCall {
            call_id: n.to_string(),
            tool: "shell".into(),
            input: serde_json::json!({"command": "ls"}),
            limit_ms: None,
            output: None,
            exit_code: None,
            duration_ms: None,
            elapsed_ms: None,
            process: None,
            share: None,
            hooks: Vec::new(),
        };
        Item { id: ItemId::from_u128(n), status: ItemStatus::InProgress, kind: ItemKind::ToolCall(call) }
    };
    let started_item = |n| EventBody::ItemStarted { turn, item: call(n) };
    let ended = |n: u128| {
        let mut item = Item { status: ItemStatus::Completed, ..call(n) };
        if let ItemKind::ToolCall(call) = &mut item.kind {
            call.duration_ms = Some(1);
        }
        EventBody::ItemCompleted { turn, item }
    };
    let kind = protocol::PolicyRule::tool(protocol::Permission::Allow, "shell");
    let asked = |n: u128, after_every| EventBody::ApprovalRequested {
        approval: ApprovalId::from_u128(n),
        turn,
        question: "Run it?".into(),
        gate: protocol::Gate::Call,
        call: Some(Box::new(protocol::AskedCall {
            item: ItemId::from_u128(n),
            tool: "shell".into(),
            input: serde_json::Value::Null,
            why: String::new(),
            kind: if after_every { Vec::new() } else { vec![kind.clone()] },
            options: Vec::new(),
            diff: None,
            after_every,
        })),
        diff: None,
    };
    let resolved = |n| EventBody::ApprovalResolved {
        approval: ApprovalId::from_u128(n),
        approved: true,
        comment: None,
        input: None,
        all: true,
    };
    let ids = |held: &[ItemId]| held.iter().map(|id| id.to_u128()).collect::<Vec<_>>();
    let begun = vec![created(), queued(1), started(1), started_item(1), started_item(2), started_item(3)];
    let mut state = fold([begun, vec![ended(1), asked(2, false)]].concat());
    let apply = |state: &mut State, body| state.apply(&event(state.seq() + 1, body));
    assert_eq!((ids(&state.turn().unwrap().held), state.actions()), (vec![2, 3], Some(1)));
    apply(&mut state, resolved(2));
    assert_eq!((state.granted(), state.actions()), (&[kind.clone()][..], Some(0)), "somebody looked");
    assert_eq!(state.turn().unwrap().decided.map(|id| id.to_u128()), Some(2));
    // It begins, in its place; the one after it has not.
    apply(&mut state, started_item(2));
    let now = state.turn().unwrap();
    assert_eq!((ids(&now.held), now.open.len(), now.open[0].id.to_u128()), (vec![3], 2, 2));
    for body in [ended(2), asked(3, true), resolved(3)] {
        apply(&mut state, body);
    }
    assert_eq!(state.actions(), None, "nobody wants to be asked after so many any more");
    let policy = protocol::Policy { after_every: Some(2), ..protocol::Policy::default() };
    apply(&mut state, EventBody::PolicyChanged { policy: policy.clone(), command: None });
    assert_eq!((state.actions(), state.policy(), state.granted().len()), (Some(0), &policy, 1));
}

#[test]
fn places_in_the_queue() {
    let moved = |prompt, before: Option<u128>| EventBody::PromptMoved {
        prompt: PromptId::from_u128(prompt),
        before: before.map(PromptId::from_u128),
        command: None,
    };
    let order = |bodies: Vec<EventBody>| -> Vec<String> {
        let begun = [created(), queued(1), queued(2), queued(3)].into_iter().chain(bodies).collect();
        fold(begun).queue().prompts.into_iter().map(|prompt| prompt.text[7..].to_owned()).collect()
    };
    assert_eq!(order(vec![moved(3, Some(1))]), ["3", "1", "2"]);
    assert_eq!(order(vec![moved(1, None)]), ["2", "3", "1"]);
    assert_eq!(order(vec![moved(2, Some(2)), moved(7, Some(1)), moved(2, Some(7))]), ["1", "2", "3"]);
    let now = EventBody::PromptQueued {
        prompt: PromptId::from_u128(4),
        text: "prompt 4".into(),
        now: true,
        images: Vec::new(),
    };
    assert_eq!(order(vec![now]), ["4", "1", "2", "3"]);
}

#[test]
fn a_late_word_of_an_old_sandbox_does_not_hide_the_new_one() {
    let change = |n, state| EventBody::SandboxChanged {
        sandbox: SandboxId::from_u128(n),
        state,
        detail: None,
        duration_ms: None,
        limit_ms: None,
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

/// Every type of event, with few ids, so that they meet.
pub(crate) fn any_body() -> impl Strategy<Value = EventBody> {
    let small = || 0u128..4;
    let prompt = || small().prop_map(PromptId::from_u128);
    let turn = || small().prop_map(TurnId::from_u128);
    let sandbox = || small().prop_map(SandboxId::from_u128);
    let text = || "[a-zäß ]{0,12}";
    let maybe = || proptest::option::of(text());
    let queue = prop_oneof![
        (prompt(), text(), any::<bool>()).prop_map(|(prompt, text, now)| EventBody::PromptQueued {
            prompt,
            text,
            now,
            images: Vec::new(),
        }),
        (prompt(), text()).prop_map(|(prompt, text)| EventBody::PromptEdited { prompt, text, command: None }),
        prompt().prop_map(|prompt| EventBody::PromptRemoved { prompt, command: None }),
        (prompt(), proptest::option::of(prompt())).prop_map(|(prompt, before)| EventBody::PromptMoved {
            prompt,
            before,
            command: None
        }),
        text().prop_map(|reason| EventBody::QueuePaused { reason, command: None }),
        Just(EventBody::QueueResumed { command: None }),
    ];
    let outcome = proptest::sample::select(vec![
        Outcome::Done,
        Outcome::Escalated,
        Outcome::Cancelled,
        Outcome::Failed,
        Outcome::OutOfBudget,
    ]);
    let turns = prop_oneof![
        small().prop_map(started),
        turn().prop_map(|turn| EventBody::TurnStopping { turn, command: None }),
        (small(), outcome).prop_map(|(n, outcome)| finished(n, outcome)),
        (turn(), any_item()).prop_map(|(turn, item)| EventBody::ItemStarted { turn, item }),
        (turn(), any_item()).prop_map(|(turn, item)| EventBody::ItemCompleted { turn, item }),
        (turn(), any::<Option<u16>>(), any::<u64>()).prop_map(|(turn, cost, ms)| EventBody::UsageRecorded {
            turn,
            step: 1,
            model: "main".into(),
            usage: Usage { input: ms, ..Usage::default() },
            cost_usd: cost.map(f64::from),
            first_token_ms: 1,
            duration_ms: ms,
            elapsed_ms: ms,
        }),
        turn().prop_map(|turn| EventBody::PlanUpdated { turn, items: Vec::new() }),
        (turn(), text()).prop_map(|(turn, reason)| EventBody::RetryScheduled {
            turn,
            attempt: 2,
            attempts: 3,
            reason,
            delay_ms: 4,
            wake_at: None,
        }),
        turn().prop_map(|turn| EventBody::MistakeMade { turn, mistake: Mistake::EmptyAnswer }),
        (turn(), text(), any::<bool>()).prop_map(|(turn, name, passed)| EventBody::ChecksKnown {
            turn,
            commit: "c".into(),
            checks: vec![protocol::KnownCheck { name, passed, report: Some(protocol::Report::default()) }],
        }),
        (turn(), text(), any::<bool>()).prop_map(|(turn, words, good)| {
            let verdict = if good { Verdict::Good } else { Verdict::Doubtful };
            EventBody::WorkJudged { turn, judgement: Judgement { model: "m".into(), verdict, words } }
        }),
        (turn(), text(), any::<bool>()).prop_map(|(turn, tree, more)| EventBody::ChecksPassed {
            turn,
            left: more.then(|| tree.clone()),
            tree,
            checks: Vec::new(),
        }),
    ];
    let approvals = prop_oneof![
        (small(), turn(), text()).prop_map(|(n, turn, question)| EventBody::ApprovalRequested {
            approval: ApprovalId::from_u128(n),
            turn,
            question,
            gate: protocol::Gate::Call,
            call: Some(Box::new(protocol::AskedCall {
                item: ItemId::from_u128(n),
                tool: "shell".into(),
                input: serde_json::Value::Null,
                why: String::new(),
                kind: vec![protocol::PolicyRule::tool(protocol::Permission::Allow, "shell")],
                after_every: n % 2 == 0,
                options: Vec::new(),
                diff: None,
            })),
            diff: None,
        }),
        (small(), any::<bool>(), any::<bool>(), maybe()).prop_map(|(n, approved, all, comment)| {
            let approval = ApprovalId::from_u128(n);
            EventBody::ApprovalResolved { approval, approved, comment, input: None, all }
        }),
    ];
    let state = proptest::sample::select(vec![
        SandboxState::Building,
        SandboxState::Creating,
        SandboxState::Preparing,
        SandboxState::Syncing,
        SandboxState::Ready,
        SandboxState::Lost,
        SandboxState::Stopped,
    ]);
    let others = prop_oneof![
        proptest::option::of(small()).prop_map(|from| {
            let mut first = created();
            if let EventBody::SessionCreated { forked_from, .. } = &mut first {
                let from = from.map(SnapshotId::from_u128);
                *forked_from =
                    from.map(|snapshot| protocol::ForkedFrom { session: SessionId::from_u128(2), snapshot });
            }
            first
        }),
        text().prop_map(|title| EventBody::SessionRenamed { title, command: None }),
        small().prop_map(|n| EventBody::SessionRestored { lineage: protocol::LineageId::from_u128(n) }),
        (sandbox(), state, maybe()).prop_map(|(sandbox, state, detail)| EventBody::SandboxChanged {
            sandbox,
            state,
            detail,
            duration_ms: None,
            limit_ms: None,
        }),
        (small(), turn()).prop_map(|(n, turn)| EventBody::SnapshotTaken {
            snapshot: SnapshotId::from_u128(n),
            turn,
            bytes: 1,
            duration_ms: 1,
            blurred: false
        }),
        (
            proptest::sample::select(vec![
                DeliveryState::Intended,
                DeliveryState::Pushed,
                DeliveryState::Opening,
                DeliveryState::Failed
            ]),
            maybe()
        )
            .prop_map(|(state, error)| EventBody::DeliveryUpdated(Delivery {
                repository: None,
                state,
                branch: "b".into(),
                commit: None,
                remote: "r".into(),
                url: None,
                number: None,
                error,
                command: None,
                review: None,
            })),
        (sandbox(), text()).prop_map(|(sandbox, message)| EventBody::LimitExceeded {
            sandbox,
            limit: protocol::event::LimitKind::Memory,
            message
        }),
        (0..3u32, turn(), 0..3usize).prop_map(|(key, turn, state)| {
            let states = [NotificationState::Intended, NotificationState::Sent, NotificationState::Failed];
            EventBody::NotificationUpdated(notification(&key.to_string(), turn, states[state]))
        }),
        text().prop_map(|text| EventBody::MemoryChanged { text, remembered: None }),
        (turn(), text(), any::<bool>()).prop_map(|(turn, name, as_before)| {
            let schema = serde_json::json!({});
            let (server, tool, description) = (name.clone(), name.clone(), name.clone());
            let tools = vec![protocol::McpTool { name, server, tool, description, schema }];
            EventBody::ToolsListed { turn, tools, missing: Vec::new(), as_before }
        }),
        (any::<Option<u16>>(), any::<Option<u16>>()).prop_map(|(tokens, steps)| {
            let limits = |limit: Option<u16>| protocol::Budget {
                tokens: limit.map(u64::from),
                steps: limit.map(u32::from),
                ..protocol::Budget::default()
            };
            let budgets = Budgets { turn: limits(tokens), session: limits(steps) };
            EventBody::BudgetChanged { budgets, command: None }
        }),
        (text(), maybe()).prop_map(|(message, hint)| EventBody::ErrorRaised {
            code: protocol::Code::Internal,
            message,
            hint
        }),
    ];
    prop_oneof![queue, turns, approvals, others]
}

fn any_item() -> impl Strategy<Value = Item> {
    let status = proptest::sample::select(vec![
        ItemStatus::InProgress,
        ItemStatus::Completed,
        ItemStatus::Failed,
        ItemStatus::Interrupted,
        ItemStatus::Cancelled,
    ]);
    (0u128..4, status, any::<Option<u64>>(), 0..6, "\\PC{0,12}").prop_map(|(n, status, ms, kind, text)| {
        let mut item = call(n, status, ms);
        item.kind = match kind {
            0 => ItemKind::Prompt { prompt: PromptId::from_u128(n), text, images: Vec::new() },
            1 => ItemKind::Message { text },
            2 => ItemKind::Reasoning { text, signature: None },
            3 => ItemKind::notice(text),
            4 => ItemKind::Report(CheckReport {
                check: text,
                command: "true".into(),
                passed: ms.map(|ms| ms % 2 == 0),
                exit_code: None,
                duration_ms: ms,
                ..CheckReport::default()
            }),
            _ => return item,
        };
        item
    })
}

proptest! {
    /// Any log, cut anywhere, folds; and what is said of the session fits together.
    #[test]
    fn any_prefix_of_any_log_folds(bodies in proptest::collection::vec(any_body(), 0..60)) {
        let mut state = State::new(SessionId::from_u128(1));
        for (index, body) in bodies.into_iter().enumerate() {
            state.apply(&event(index as u64 + 1, body));
            let turn = state.turn().map(|turn| turn.id);
            if let Some(open) = state.turn() {
                let receipt = open.receipt(Outcome::Cancelled, 0);
                prop_assert!(receipt.completed.len() <= LISTED && receipt.skipped.len() <= LISTED);
                prop_assert!(!(open.approval.is_some() && open.decision.is_some()));
            }
            if let Some(session) = state.to_session() {
                prop_assert_eq!(session.turn, turn);
                let busy = matches!(session.status, Status::Working | Status::Waiting);
                prop_assert_eq!(busy, turn.is_some());
                prop_assert_eq!(session.status == Status::Waiting, session.approval.is_some());
                prop_assert!(session.paused || state.next_prompt().is_some() != session.queued.is_empty());
                prop_assert!(!session.paused || state.next_prompt().is_none());
                prop_assert_eq!(session.seq, index as u64 + 1);
            }
        }
    }
}
