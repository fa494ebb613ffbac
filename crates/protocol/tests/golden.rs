//! The wire format is a promise. One example of every event, item and body stands in `tests/golden`; a change of the
//! format shows up as a difference there, and what an older version wrote must still be read.
//!
//! `UPDATE_GOLDEN=1 cargo test -p protocol` writes the files anew; read the difference before you commit it.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on has failed the test that called it")]

#[path = "golden/bodies.rs"]
mod bodies;
#[path = "golden/environment.rs"]
mod environment;
#[path = "golden/memory.rs"]
mod memory;
#[path = "golden/policy.rs"]
mod policy;
#[path = "golden/pull_request.rs"]
mod pull_request;
#[path = "golden/secret.rs"]
mod secret;
#[path = "golden/socket.rs"]
mod socket;
#[path = "golden/team.rs"]
mod team;
#[path = "golden/words.rs"]
mod words;

use std::path::PathBuf;

use protocol::event::{
    Channel, CheckOutcome, Compaction, CompactionLevel, Delivery, DeliveryState, EgressDecision, Judgement,
    LimitKind, PlanItem, PlanState, Reply, ReplyState, Review, ReviewState, SandboxState, Verdict,
};
use protocol::item::{CheckReport, Output, ToolCall};
use protocol::*;
use serde::{Serialize, de::DeserializeOwned};

use self::bodies::bodies;
use self::environment::{environment, image, whole_environment};
use self::policy::{asked_call, diff_summary, policy};

fn at() -> Timestamp {
    "2026-11-15T10:02:00.123Z".parse().unwrap()
}

fn event(seq: u64, actor: Actor, body: EventBody) -> Event {
    Event { v: VERSION, session: SessionId::from_u128(1), seq, at: at(), actor, body }
}

fn item(number: u128, status: ItemStatus, kind: ItemKind) -> Item {
    Item { id: ItemId::from_u128(number), status, kind }
}

fn usage() -> Usage {
    Usage { input: 100, cache_read: 2000, cache_write: 30, output: 40, reasoning: 5, estimated: 0 }
}

fn spend() -> Spend {
    Spend { usage: usage(), cost_usd: 0.0125.into(), calls: 1, unpriced_calls: 0 }
}

fn budgets() -> Budgets {
    Budgets {
        turn: Budget { usd: Some(2.5), tokens: None, seconds: Some(3600), steps: Some(100) },
        session: Budget { usd: Some(10.0), tokens: Some(5_000_000), seconds: None, steps: None },
    }
}

fn report() -> Report {
    Report {
        parser: "cargo".to_owned(),
        diagnostics: vec![Diagnostic {
            severity: Severity::Error,
            file: Some("src/lib.rs".to_owned()),
            line: Some(3),
            column: Some(5),
            code: Some("E0308".to_owned()),
            message: "mismatched types".to_owned(),
            ..Diagnostic::default()
        }],
        tests: vec![TestCase {
            name: "cart::total".to_owned(),
            status: TestStatus::Failed,
            file: Some("src/lib.rs".to_owned()),
            line: Some(21),
            message: "assertion failed".to_owned(),
            expected: Some("1001".to_owned()),
            actual: Some("1000".to_owned()),
            source: None,
        }],
        tests_passed: 3,
        tests_failed: 1,
        tests_skipped: 0,
        tail: "test result: FAILED".to_owned(),
    }
}

fn delivery() -> Delivery {
    Delivery {
        repository: None,
        state: DeliveryState::Pushed,
        branch: "slipway/fix-cart-00000001".to_owned(),
        commit: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
        remote: "/srv/git/shop.git".to_owned(),
        url: None,
        number: None,
        error: None,
        command: None,
        review: None,
    }
}

fn opened() -> Delivery {
    Delivery {
        repository: None,
        state: DeliveryState::Opened,
        url: Some("https://github.com/acme/shop/pull/7".to_owned()),
        number: Some(7),
        ..delivery()
    }
}

fn events() -> Vec<Event> {
    let (ana, agent, system) = (Actor::user("ana"), Actor::agent("main"), Actor::system());
    let (turn, prompt, approval) = (TurnId::from_u128(2), PromptId::from_u128(3), ApprovalId::from_u128(4));
    let sandbox = SandboxId::from_u128(5);
    let bodies = vec![
        (
            &ana,
            EventBody::SessionCreated {
                environment: "shop".to_owned(),
                recipe: Box::new(environment()),
                title: "Fix cart".to_owned(),
                model: "main".to_owned(),
                forked_from: None,
                budgets: Budgets::default(),
                origin: SessionOrigin::default(),
            },
        ),
        (&ana, EventBody::SessionRenamed { title: "Fix the cart total".to_owned(), command: None }),
        (
            &ana,
            EventBody::PromptQueued {
                prompt,
                text: "The cart total is off by one cent".to_owned(),
                now: false,
                images: Vec::new(),
            },
        ),
        (
            &ana,
            EventBody::PromptEdited {
                prompt,
                text: "The cart total is off by a cent".to_owned(),
                command: None,
            },
        ),
        (&ana, EventBody::PromptRemoved { prompt, command: None }),
        (&system, EventBody::TurnStarted { turn, prompt }),
        (
            &system,
            EventBody::SandboxChanged {
                sandbox,
                state: SandboxState::Ready,
                detail: None,
                duration_ms: Some(12),
                limit_ms: Some(1_800_000),
            },
        ),
        (
            &ana,
            EventBody::ItemCompleted {
                turn,
                item: item(
                    10,
                    ItemStatus::Completed,
                    ItemKind::Prompt {
                        prompt,
                        text: "The cart total is off by one cent".to_owned(),
                        images: Vec::new(),
                    },
                ),
            },
        ),
        (
            &agent,
            EventBody::ItemCompleted {
                turn,
                item: item(
                    11,
                    ItemStatus::Completed,
                    ItemKind::Reasoning { text: "Rounding?".to_owned(), signature: Some("c2ln".to_owned()) },
                ),
            },
        ),
        (
            &agent,
            EventBody::ItemCompleted {
                turn,
                item: item(
                    12,
                    ItemStatus::Completed,
                    ItemKind::Message { text: "I will run the tests.".to_owned() },
                ),
            },
        ),
        (
            &agent,
            EventBody::ItemStarted {
                turn,
                item: item(
                    13,
                    ItemStatus::InProgress,
                    ItemKind::ToolCall(ToolCall {
                        call_id: "call_1".to_owned(),
                        tool: "shell".to_owned(),
                        input: serde_json::json!({"command": "cargo test"}),
                        limit_ms: Some(120_000),
                        output: None,
                        exit_code: None,
                        duration_ms: None,
                        elapsed_ms: None,
                        process: None,
                        share: None,
                        hooks: Vec::new(),
                    }),
                ),
            },
        ),
        (
            &agent,
            EventBody::UsageRecorded {
                turn,
                step: 1,
                model: "main".to_owned(),
                usage: usage(),
                cost_usd: Some(0.0125),
                first_token_ms: 350,
                duration_ms: 900,
                elapsed_ms: 1300,
            },
        ),
        (
            &agent,
            EventBody::ItemCompleted {
                turn,
                item: item(
                    13,
                    ItemStatus::Failed,
                    ItemKind::ToolCall(ToolCall {
                        call_id: "call_1".to_owned(),
                        tool: "shell".to_owned(),
                        input: serde_json::json!({"command": "cargo test"}),
                        limit_ms: None,
                        output: Some(Output {
                            text: "exit code 101".to_owned(),
                            bytes: 123_456,
                            blob: Some("out".to_owned()),
                            images: Vec::new(),
                        }),
                        exit_code: Some(101),
                        duration_ms: Some(1500),
                        elapsed_ms: None,
                        process: None,
                        share: None,
                        hooks: Vec::new(),
                    }),
                ),
            },
        ),
        (
            &system,
            EventBody::ItemCompleted {
                turn,
                item: item(
                    14,
                    ItemStatus::Failed,
                    ItemKind::Report(CheckReport {
                        check: "test".to_owned(),
                        command: "cargo test".to_owned(),
                        limit_ms: Some(600_000),
                        passed: Some(false),
                        exit_code: Some(101),
                        duration_ms: Some(1500),
                        report: Some(report()),
                        ..CheckReport::default()
                    }),
                ),
            },
        ),
        (
            &system,
            EventBody::ItemCompleted {
                turn,
                item: item(15, ItemStatus::Completed, ItemKind::notice("These checks must pass.")),
            },
        ),
        (
            &agent,
            EventBody::PlanUpdated {
                turn,
                items: vec![PlanItem { text: "find the rounding".to_owned(), state: PlanState::InProgress }],
            },
        ),
        (
            &system,
            EventBody::ApprovalRequested {
                approval,
                turn,
                question: "Push?".to_owned(),
                gate: Gate::Delivery,
                call: None,
                diff: None,
            },
        ),
        (
            &ana,
            EventBody::ApprovalResolved {
                approval,
                approved: true,
                comment: Some("go".to_owned()),
                input: None,
                all: false,
            },
        ),
        (
            &system,
            EventBody::RetryScheduled {
                turn,
                attempt: 2,
                attempts: 6,
                reason: "the model server is overloaded".to_owned(),
                delay_ms: 2000,
                wake_at: None,
            },
        ),
        (
            &system,
            EventBody::SnapshotTaken {
                snapshot: SnapshotId::from_u128(6),
                turn,
                bytes: 4096,
                duration_ms: 3,
                blurred: false,
            },
        ),
        (&system, EventBody::DeliveryUpdated(delivery())),
        (&agent, EventBody::MemoryChanged { text: "Prices are in cents.".to_owned(), remembered: None }),
        (
            &system,
            EventBody::ErrorRaised {
                code: Code::ModelUnavailable,
                message: "cannot reach the model server".to_owned(),
                hint: Some("is it running?".to_owned()),
            },
        ),
        (
            &system,
            EventBody::TurnFinished {
                turn,
                outcome: Outcome::Escalated,
                reason: Some("1 test still fails".to_owned()),
                receipt: Receipt {
                    steps: 4,
                    tools_completed: 6,
                    tools_skipped: 1,
                    files_changed: 1,
                    insertions: 2,
                    deletions: 1,
                    commit: None,
                    completed: Vec::new(),
                    skipped: vec![protocol::event::Work {
                        item: ItemId::from_u128(12),
                        what: "shell npm test".to_owned(),
                        status: ItemStatus::Cancelled,
                    }],
                    checks: vec![CheckOutcome { name: "test".to_owned(), passed: false }],
                    weakened: Vec::new(),
                    judgement: None,
                    mistakes: Mistakes::default(),
                    spend: spend(),
                    duration_ms: 12_000,
                    model_ms: 9000,
                    tools_ms: 2500,
                },
            },
        ),
        (
            &ana,
            EventBody::SessionCreated {
                environment: "shop".to_owned(),
                recipe: Box::new(whole_environment()),
                title: "Another way".to_owned(),
                model: "main".to_owned(),
                forked_from: Some(ForkedFrom {
                    session: SessionId::from_u128(1),
                    snapshot: SnapshotId::from_u128(6),
                }),
                budgets: budgets(),
                origin: SessionOrigin::default(),
            },
        ),
        (&ana, EventBody::SessionArchived { command: None }),
        (&ana, EventBody::SessionUnarchived { command: None }),
        (
            &system,
            EventBody::EgressDecided(EgressDecision {
                sandbox,
                host: "registry.npmjs.org".to_owned(),
                port: 443,
                allowed: true,
                rule: "registry.npmjs.org".to_owned(),
                connections: 3,
                sent: 900,
                received: 120_000,
            }),
        ),
        (
            &system,
            EventBody::LimitExceeded {
                sandbox,
                limit: LimitKind::Memory,
                message: "The sandbox came to its memory limit of 64 MiB.".to_owned(),
            },
        ),
        (
            &system,
            EventBody::ServiceChanged {
                sandbox,
                service: "postgres".to_owned(),
                state: protocol::event::ServiceState::Down,
                detail: Some("it exited with 1".to_owned()),
            },
        ),
        (
            &ana,
            EventBody::PromptQueued {
                prompt,
                text: "Do this first".to_owned(),
                now: true,
                images: Vec::new(),
            },
        ),
        (&ana, EventBody::PromptMoved { prompt, before: Some(PromptId::from_u128(7)), command: None }),
        (&ana, EventBody::PromptMoved { prompt, before: None, command: None }),
        (&ana, EventBody::QueuePaused { reason: "ana paused it".to_owned(), command: None }),
        (&ana, EventBody::QueueResumed { command: None }),
        (&ana, EventBody::TurnStopping { turn, command: None }),
        (&agent, EventBody::DeliveryUpdated(opened())),
        (
            &system,
            EventBody::NotificationUpdated(Notification {
                key: format!("{}.{turn}.finished", SessionId::from_u128(1)),
                state: NotificationState::Failed,
                kind: NotificationKind::TurnFinished,
                turn,
                title: "Fix cart".to_owned(),
                outcome: Some(Outcome::Escalated),
                text: Some("1 test still fails".to_owned()),
                approval: Some(approval),
                branch: Some("slipway/fix-cart-00000001".to_owned()),
                url: Some("https://github.com/acme/shop/pull/7".to_owned()),
                attempts: 10,
                error: Some("the receiver answered 500".to_owned()),
            }),
        ),
        (
            &system,
            EventBody::SnapshotTaken {
                snapshot: SnapshotId::from_u128(8),
                turn,
                bytes: 4096,
                duration_ms: 2003,
                blurred: true,
            },
        ),
        (&system, EventBody::SessionRestored { lineage: LineageId::from_u128(9) }),
        (&ana, EventBody::QueueResumed { command: Some(protocol::CommandId::from_u128(9)) }),
        (
            &system,
            EventBody::ContextCompacted(Compaction {
                turn,
                level: CompactionLevel::Summarised,
                keep_from: Some(7),
                unread: None,
                text: Some("Summary of what was done".to_owned()),
                tokens_before: 90_000,
                tokens_after: 20_000,
            }),
        ),
        (&ana, EventBody::BudgetChanged { budgets: budgets(), command: None }),
        (
            &system,
            EventBody::BudgetWarned(BudgetWarning {
                turn,
                scope: BudgetScope::Session,
                kind: BudgetKind::Usd,
                used: 8.25,
                limit: 10.0,
            }),
        ),
        (
            &ana,
            EventBody::ModelChanged {
                model: "spare".to_owned(),
                from: "main".to_owned(),
                turn: None,
                reason: None,
                command: Some(CommandId::from_u128(8)),
            },
        ),
        (
            &system,
            EventBody::ModelChanged {
                model: "spare".to_owned(),
                from: "main".to_owned(),
                turn: Some(turn),
                reason: Some("main is overloaded".to_owned()),
                command: None,
            },
        ),
        (
            &system,
            EventBody::RetryScheduled {
                turn,
                attempt: 2,
                attempts: 6,
                reason: "the model server is overloaded".to_owned(),
                delay_ms: 2000,
                wake_at: Some(at()),
            },
        ),
        (&system, EventBody::MistakeMade { turn, mistake: Mistake::BrokenArguments }),
        (
            &system,
            EventBody::TurnFinished {
                turn,
                outcome: Outcome::Done,
                reason: None,
                receipt: Receipt {
                    mistakes: Mistakes { unknown_tool: 1, empty_answer: 2, ..Mistakes::default() },
                    ..Receipt::default()
                },
            },
        ),
    ];
    let bodies = bodies.into_iter().chain(policy::events().map(|body| (&ana, body)));
    let bodies = bodies.chain(team::events().map(|body| (&system, body)));
    let bodies = bodies.chain(tools_listed(turn).map(|body| (&system, body)));
    let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned();
    let passed =
        EventBody::ChecksPassed { turn, left: Some(tree.clone()), tree, checks: vec!["test".to_owned()] };
    let known = EventBody::ChecksKnown {
        turn,
        commit: "0123".to_owned(),
        checks: vec![
            KnownCheck { name: "lint".to_owned(), passed: true, report: None },
            KnownCheck { name: "test".to_owned(), passed: false, report: Some(Report::default()) },
        ],
    };
    let judgement = Judgement {
        model: "strong".to_owned(),
        verdict: Verdict::Doubtful,
        words: "src/cart.py still rounds before tax.".to_owned(),
    };
    let judged = EventBody::WorkJudged { turn, judgement };
    let bodies = bodies.chain([(&system, passed), (&system, judged), (&system, known)]);
    let review = Some(Review { state: ReviewState::Merged, at: at(), draft: false });
    let reviewed = EventBody::DeliveryUpdated(Delivery { review, ..opened() });
    let of_one = Delivery { repository: Some("apps/web".to_owned()), ..opened() };
    let of_one = EventBody::DeliveryUpdated(of_one);
    let replied = EventBody::ReplyUpdated(Reply {
        key: format!("{prompt}.answer"),
        state: ReplyState::Failed,
        prompt,
        remote: "https://github.com/acme/shop".to_owned(),
        number: 7,
        thread: Some("41".to_owned()),
        text: "Done.".to_owned(),
        attempts: 2,
        error: Some("github.com answered 500".to_owned()),
    });
    let bodies = bodies.chain([(&system, reviewed), (&system, replied), (&agent, of_one)]);
    bodies.zip(1..).map(|((actor, body), seq)| event(seq, actor.clone(), body)).collect()
}

fn tools_listed(turn: TurnId) -> [EventBody; 2] {
    let tool = McpTool {
        name: "sentry__get_issue".to_owned(),
        server: "sentry".to_owned(),
        tool: "get_issue".to_owned(),
        description: "An issue".to_owned(),
        schema: serde_json::json!({"type": "object", "properties": {}}),
    };
    let missing = McpMissing { server: "linear".to_owned(), reason: "nobody is signed in to it".to_owned() };
    [
        EventBody::ToolsListed { turn, tools: vec![tool], missing: vec![missing], as_before: false },
        EventBody::ToolsListed { turn, tools: Vec::new(), missing: Vec::new(), as_before: true },
    ]
}

fn ephemerals() -> Vec<Ephemeral> {
    [
        EphemeralBody::Delta {
            item: ItemId::from_u128(12),
            channel: Channel::Stdout,
            offset: 7,
            text: "running 4 tests".to_owned(),
        },
        EphemeralBody::Live { seq: 24, lineage: None },
        EphemeralBody::Live { seq: 24, lineage: Some(LineageId::from_u128(9)) },
        EphemeralBody::Presence { people: vec!["ana".to_owned(), "ben".to_owned()] },
        EphemeralBody::Typing { person: "ben".to_owned() },
        EphemeralBody::Ping {},
    ]
    .map(|body| Ephemeral::new(SessionId::from_u128(1), body))
    .into()
}

fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> serde_json::Value {
    let json = serde_json::to_value(value).unwrap();
    assert_eq!(&serde_json::from_value::<T>(json.clone()).unwrap(), value);
    json
}

fn compare(name: &str, lines: Vec<serde_json::Value>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (old, new)) in golden.lines().zip(text.lines()).enumerate() {
        assert_eq!(old, new, "{name} line {} changed: clients rely on this format", number + 1);
    }
    assert_eq!(golden.lines().count(), text.lines().count(), "{name}: examples were added or removed");
}

#[test]
fn events_are_written_as_they_always_were() {
    let events = events();
    compare("events.jsonl", events.iter().map(round_trip).collect());
    for event in &events {
        assert_eq!(
            round_trip(event)["type"],
            event.body.name(),
            "the name in the code and on the wire agree"
        );
    }
}

#[test]
fn ephemeral_events_are_written_as_they_always_were() {
    compare("ephemerals.jsonl", ephemerals().iter().map(round_trip).collect());
}

#[test]
fn bodies_are_written_as_they_always_were() {
    compare("bodies.jsonl", bodies());
}

#[test]
fn every_code_is_spelled_on_the_wire_as_in_the_code() {
    let golden = include_str!("golden/words.jsonl");
    let line = golden.lines().find(|line| line.starts_with("[\"Code\"")).unwrap();
    let (_, words): (String, Vec<Code>) = serde_json::from_str(line).unwrap();
    for code in words {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
    }
}

#[test]
fn an_unknown_key_in_a_command_is_refused() {
    let error =
        serde_json::from_str::<CreateSession>(r#"{"environment":"a","prompt":"b","modle":"c"}"#).unwrap_err();
    assert!(error.to_string().contains("modle"), "{error}");
}
