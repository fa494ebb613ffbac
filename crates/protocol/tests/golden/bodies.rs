//! Examples of what requests and answers carry.

use super::*;

fn listing() -> Listing {
    Listing {
        group: SessionGroup::Working,
        origin: SessionOrigin::Web,
        authors: vec![SessionAuthor { name: "ana".to_owned(), prompts: 2, last_prompt_at: at() }],
        turn_started_at: Some(at()),
        turn_ms: Some(30_000),
        changes: Some(ChangeCounts { files: 2, insertions: 42, deletions: 7 }),
        ..Listing::default()
    }
}

pub(super) fn bodies() -> Vec<serde_json::Value> {
    let lineage = LineageId::from_u128(9);
    let session = Session {
        id: SessionId::from_u128(1),
        title: "Fix cart".to_owned(),
        environment: "shop".to_owned(),
        model: "main".to_owned(),
        status: Status::Working,
        reason: None,
        created_at: at(),
        updated_at: at(),
        seq: 24,
        lineage: None,
        spend: spend(),
        spent: vec![Spent { day: "2026-11-15".to_owned(), model: "main".to_owned(), spend: spend() }],
        turn_spend: spend(),
        budgets: budgets(),
        used: BudgetUse {
            turn: Used { usd: 0.0125, tokens: 2175, seconds: 12.5, steps: 1 },
            session: Used { usd: 0.0125, tokens: 2175, seconds: 40.25, steps: 3 },
        },
        queued: vec![QueuedPrompt {
            id: PromptId::from_u128(7),
            text: "and add a test".to_owned(),
            author: "ben".to_owned(),
            editors: Vec::new(),
            images: Vec::new(),
        }],
        paused: false,
        approval: None,
        policy: Policy::default(),
        granted: Vec::new(),
        turn: Some(TurnId::from_u128(2)),
        delivery: Some(delivery()),
        deliveries: Vec::new(),
        notifying: false,
        sandbox: Some(SandboxId::from_u128(5)),
        forked_from: None,
        skills: Vec::new(),
        listing: listing(),
    };
    let create = CreateSession {
        environment: "shop".to_owned(),
        prompt: "Fix the cart".to_owned(),
        images: Vec::new(),
        model: None,
        budgets: None,
        policy: None,
    };
    let named = NamedEnvironment {
        name: "shop".to_owned(),
        source: EnvironmentSource::Config,
        image: None,
        recipe: environment(),
    };
    let problem = Problem::new(Code::EnvironmentNotFound, "there is no environment \"shp\"")
        .hint("did you mean \"shop\"?");
    let diff = Diff {
        base: "0123".to_owned(),
        patch: "--- a/x\n".to_owned(),
        files: 1,
        insertions: 2,
        deletions: 1,
    };
    let model = Model {
        name: "main".to_owned(),
        provider: "openai-compatible".to_owned(),
        model: "some-model".to_owned(),
        default: true,
        key: true,
        context: 200_000,
        context_assumed: false,
        max_output: 50_000,
        tool_mode: ToolMode::Native,
        edit_format: EditFormat::Replace,
        images: true,
        idle_ms: 300_000,
        price: Some(ModelPrice { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: None }),
        fallback: vec!["spare".to_owned()],
        tasks: vec!["title".to_owned()],
    };
    vec![
        round_trip(&create),
        round_trip(&CreatePrompt { prompt: "go on".to_owned(), now: false, images: Vec::new() }),
        round_trip(&CreatePrompt { prompt: "this first".to_owned(), now: true, images: Vec::new() }),
        round_trip(&EditPrompt { prompt: Some("go on".to_owned()), place: Some(Place::First) }),
        round_trip(&EditPrompt { prompt: None, place: Some(Place::Before(PromptId::from_u128(7))) }),
        round_trip(&SetQueue { paused: true }),
        round_trip(&Queue { paused: true, waits: None, prompts: session.queued.clone() }),
        round_trip(&StopSession { pause: true }),
        round_trip(&DeliverSession { allow_secrets: true }),
        round_trip(&Decide { comment: Some("add a test".to_owned()), ..Decide::default() }),
        round_trip(&Decision {
            approval: ApprovalId::from_u128(4),
            approved: true,
            by: "ana".to_owned(),
            comment: None,
            gate: Gate::Delivery,
            input: None,
            all: false,
        }),
        round_trip(&Session {
            status: Status::Waiting,
            paused: true,
            approval: Some(PendingApproval {
                id: ApprovalId::from_u128(4),
                question: "Push?".to_owned(),
                gate: Gate::Call,
                since: at(),
                call: Some(Box::new(asked_call())),
                diff: Some(Box::new(diff_summary())),
            }),
            policy: policy(),
            granted: asked_call().kind,
            ..session.clone()
        }),
        round_trip(&PromptCreated { id: PromptId::from_u128(7), waits: None }),
        round_trip(&SessionList { sessions: vec![session.clone()], ..SessionList::default() }),
        round_trip(&EventPage { events: Vec::new(), next_after: 24, more: false, lineage: None }),
        round_trip(&diff),
        round_trip(&Stopped { turn: Some(TurnId::from_u128(2)), delivery: false }),
        round_trip(&EnvironmentList { environments: vec![named] }),
        round_trip(&ModelList { models: vec![model] }),
        round_trip(&Health {
            status: "ok".to_owned(),
            version: "0.1.0".to_owned(),
            instance: "x".to_owned(),
        }),
        round_trip(&problem),
        round_trip(&NamedEnvironment {
            name: "shop".to_owned(),
            source: EnvironmentSource::Catalogue,
            image: Some(image()),
            recipe: whole_environment(),
        }),
        round_trip(&image()),
        round_trip(&WarmStatus { ready: 1, starting: 2 }),
        round_trip(&ForkSession {
            prompt: "Try it another way".to_owned(),
            images: Vec::new(),
            snapshot: Some(SnapshotId::from_u128(6)),
            model: None,
        }),
        round_trip(&SnapshotList {
            snapshots: vec![SnapshotInfo {
                id: SnapshotId::from_u128(6),
                session: SessionId::from_u128(1),
                turn: TurnId::from_u128(2),
                taken_at: at(),
                bytes: 4096,
                blurred: false,
            }],
        }),
        round_trip(&EgressStatus {
            egress: Egress::Allow(vec!["*.example.com".to_owned()]),
            refused: vec![RefusedHost {
                host: "evil.example".to_owned(),
                port: 443,
                reason: "no rule allows it".to_owned(),
                count: 2,
                last_at: at(),
            }],
            note: None,
        }),
        round_trip(&AllowEgress { allow: vec!["evil.example".to_owned()] }),
        round_trip(&protocol::NoteEgress { decisions: Vec::new() }),
        round_trip(&CollectGarbage { dry_run: true }),
        round_trip(&GarbageReport {
            dry_run: true,
            used_bytes: 10_000,
            budget_bytes: 5000,
            freed_bytes: 6000,
            entries: vec![GarbageEntry {
                kind: "layer".to_owned(),
                id: "setup-3f9c".to_owned(),
                bytes: 6000,
                remove: true,
                reason: "nothing refers to it".to_owned(),
            }],
        }),
        round_trip(&SandboxInfo {
            id: SandboxId::from_u128(5),
            state: "running".to_owned(),
            owner: "pool of shop".to_owned(),
        }),
        round_trip(&Session { lineage: Some(lineage), ..session.clone() }),
        round_trip(&EventPage { events: Vec::new(), next_after: 24, more: true, lineage: Some(lineage) }),
        round_trip(&CreateSession { budgets: Some(budgets()), ..create.clone() }),
        round_trip(&PromptCreated {
            id: PromptId::from_u128(7),
            waits: Some("the session used $10.0100 of $10".to_owned()),
        }),
        round_trip(&EditSession { budgets: Some(budgets()), ..EditSession::default() }),
        round_trip(&SpendReport {
            total: spend(),
            spent: vec![Spent { day: "2026-11-15".to_owned(), model: "main".to_owned(), spend: spend() }],
        }),
        round_trip(&EditSession { policy: Some(policy()), ..EditSession::default() }),
        round_trip(&CreateSession { policy: Some(policy()), ..create.clone() }),
        round_trip(&policy::decide()),
        round_trip(&Session { skills: vec![super::team::skill()], ..session.clone() }),
        round_trip(&Session {
            deliveries: vec![Delivery { repository: Some("apps/web".to_owned()), ..delivery() }],
            ..session.clone()
        }),
        round_trip(&Environment {
            repos: vec![
                Repo::at("https://git.example.com/api.git"),
                Repo { path: Some("apps/web".to_owned()), ..Repo::at("https://git.example.com/web.git") },
            ],
            ..Environment::default()
        }),
    ]
}
