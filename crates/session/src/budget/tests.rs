use proptest::prelude::*;
use protocol::{Actor, Event, Outcome, Receipt, Status, Timestamp, Usage, VERSION};

use super::*;

fn session() -> SessionId {
    SessionId::from_u128(1)
}

/// A log that is folded as it grows.
struct Log {
    state: State,
    events: Vec<Event>,
    /// When the next event happens.
    at: Timestamp,
}

impl Log {
    fn new(budgets: Budgets) -> Self {
        let at = "2026-11-16T23:59:50Z".parse().unwrap();
        let mut log = Self { state: State::new(session()), events: Vec::new(), at };
        log.add(EventBody::SessionCreated {
            environment: "shop".to_owned(),
            recipe: Box::default(),
            title: "Fix it".to_owned(),
            model: "main".to_owned(),
            forked_from: None,
            budgets,
            origin: protocol::SessionOrigin::default(),
        });
        log
    }

    fn add(&mut self, body: EventBody) {
        let seq = self.state.seq() + 1;
        let event =
            Event { v: VERSION, session: session(), seq, at: self.at, actor: Actor::user("ann"), body };
        self.state.apply(&event);
        self.events.push(event);
        self.at += Duration::from_secs(1);
    }

    /// A prompt, whose turn begins.
    fn begin(&mut self, n: u128) -> TurnId {
        let (turn, prompt) = (TurnId::from_u128(n), PromptId::from_u128(n));
        self.queue(n);
        self.add(EventBody::TurnStarted { turn, prompt });
        turn
    }

    fn queue(&mut self, n: u128) {
        self.add(EventBody::PromptQueued {
            prompt: PromptId::from_u128(n),
            text: n.to_string(),
            now: false,
            images: Vec::new(),
        });
    }

    /// A model call of so many tokens at a tenth of a dollar each.
    fn call(&mut self, turn: TurnId, step: u32, model: &str, tokens: u64) {
        self.add(EventBody::UsageRecorded {
            turn,
            step,
            model: model.to_owned(),
            usage: Usage { input: tokens, ..Usage::default() },
            cost_usd: Some(tokens as f64 / 10.0),
            first_token_ms: 1,
            duration_ms: 1,
            elapsed_ms: 0,
        });
    }

    fn finish(&mut self, turn: TurnId, outcome: Outcome, duration_ms: u64) {
        let reason = (outcome != Outcome::Done).then(|| "a reason".to_owned());
        let receipt = Receipt { duration_ms, ..Receipt::default() };
        self.add(EventBody::TurnFinished { turn, outcome, reason, receipt });
    }

    /// Takes in what follows, as the actor and the runner do.
    fn follow(&mut self, bodies: Vec<EventBody>) -> usize {
        let count = bodies.len();
        bodies.into_iter().for_each(|body| self.add(body));
        count
    }

    fn warn(&mut self, millis: u64) -> usize {
        let warnings = warnings(&self.state, millis);
        self.follow(warnings)
    }

    fn reached(&self, millis: u64) -> Vec<(BudgetScope, BudgetKind)> {
        let (turn, of_session) = self.state.used(millis);
        let lines = reached(self.state.budgets().unwrap(), turn, of_session);
        lines.iter().map(|line| (line.scope, line.kind)).collect()
    }

    fn next(&self) -> Option<&str> {
        self.state.next_prompt().map(|prompt| prompt.text.as_str())
    }

    /// The same session under another server, which has only the log.
    fn restarted(&self) -> State {
        let mut state = State::new(session());
        self.events.iter().for_each(|event| state.apply(event));
        state
    }
}

fn of_turn(turn: Budget) -> Budgets {
    Budgets { turn, session: Budget::default() }
}

fn of_session(session: Budget) -> Budgets {
    Budgets { turn: Budget::default(), session }
}

fn tokens(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), ..Budget::default() }
}

#[test]
fn spend_is_kept_for_the_turn_the_session_and_each_day_and_model() {
    let mut log = Log::new(Budgets::default());
    let turn = log.begin(1);
    log.call(turn, 1, "main", 5);
    log.at = "2026-11-17T00:00:00Z".parse().unwrap();
    log.call(turn, 2, "main", 7);
    log.call(turn, 0, "small", 1);
    log.finish(turn, Outcome::Done, 4_500);
    let turn = log.begin(2);
    log.call(turn, 1, "main", 3);
    let shown = log.state.to_session().unwrap();
    let spent: Vec<(&str, &str, u64)> = shown
        .spent
        .iter()
        .map(|spent| (spent.day.as_str(), spent.model.as_str(), spent.spend.usage.total()))
        .collect();
    assert_eq!(spent, [("2026-11-16", "main", 5), ("2026-11-17", "main", 10), ("2026-11-17", "small", 1)]);
    assert_eq!((shown.spend.usage.total(), shown.spend.calls, shown.turn_spend.usage.total()), (16, 4, 3));
    assert_eq!(shown.used.session, protocol::Used { usd: 1.6, tokens: 16, seconds: 4.5, steps: 3 });
    assert_eq!(shown.used.turn, protocol::Used { usd: 0.3, tokens: 3, seconds: 0.0, steps: 1 });
    log.finish(turn, Outcome::Done, 500);
    assert_eq!(log.state.to_session().unwrap().turn_spend.usage.total(), 3, "the last turn's stays");
    assert_eq!(log.restarted(), log.state);
}

#[test]
fn people_are_warned_once_of_each_limit_and_again_when_it_was_raised() {
    let budgets = Budgets { turn: tokens(10), session: tokens(20) };
    let mut log = Log::new(budgets);
    let turn = log.begin(1);
    log.call(turn, 1, "main", 7);
    assert_eq!(log.warn(0), 0, "70 %");
    log.call(turn, 2, "main", 1);
    assert_eq!(log.warn(0), 1, "80 %");
    let Some(EventBody::BudgetWarned(warning)) = log.events.last().map(|event| &event.body) else {
        panic!("{:?}", log.events.last())
    };
    let seen = (warning.turn, warning.scope, warning.kind, warning.used, warning.limit);
    assert_eq!(seen, (turn, BudgetScope::Turn, BudgetKind::Tokens, 8.0, 10.0));
    assert_eq!(log.warn(0), 0, "it was told");
    assert!(warnings(&log.restarted(), 0).is_empty(), "the next server knows it");
    log.call(turn, 3, "main", 1);
    assert_eq!(log.warn(0), 0);

    let raised = Budgets { turn: tokens(11), session: tokens(20) };
    assert_eq!(log.follow(changed(&log.state, raised, None)), 1);
    assert_eq!(log.warn(0), 1, "it is another limit now");
    log.finish(turn, Outcome::Done, 0);

    let turn = log.begin(2);
    log.call(turn, 1, "main", 9);
    assert_eq!(log.warn(0), 2, "18 of the session's 20, and 9 of the next turn's 11");
    log.finish(turn, Outcome::Done, 0);
    let turn = log.begin(3);
    log.call(turn, 1, "main", 1);
    assert_eq!(log.warn(0), 0, "the session's was told in the turn before");
}

#[test]
fn money_is_warned_of_and_used_up_at_its_number() {
    let mut log = Log::new(of_session(Budget { usd: Some(1.0), ..Budget::default() }));
    let turn = log.begin(1);
    for step in 1..=10 {
        log.call(turn, step, "main", 1);
        assert_eq!(log.warn(0), usize::from(step == 8), "step {step}");
        assert_eq!(log.reached(0).len(), usize::from(step == 10), "step {step}");
    }
    assert_eq!(log.state.to_session().unwrap().used.session.usd, 1.0);
    let written = serde_json::to_value(&log.state).unwrap();
    assert_eq!(serde_json::from_value::<State>(written).unwrap(), log.state);
}

#[test]
fn eighty_percent_are_eighty_percent_of_every_number() {
    for limit in (5..2_000_u64).step_by(5) {
        let mut log = Log::new(of_turn(tokens(limit)));
        let turn = log.begin(1);
        log.call(turn, 1, "main", limit / 5 * 4 - 1);
        assert_eq!(log.warn(0), 0, "{limit}");
        log.call(turn, 2, "main", 1);
        assert_eq!(log.warn(0), 1, "{limit}");
    }
}

#[test]
fn a_limit_that_one_step_uses_up_is_warned_of_too() {
    let mut log = Log::new(of_session(Budget { steps: Some(4), ..tokens(100) }));
    let turn = log.begin(1);
    for step in 1..=3 {
        log.call(turn, step, "main", 1);
        assert_eq!(log.warn(0), 0, "75 %");
    }
    log.call(turn, 4, "main", 200);
    assert_eq!(log.warn(0), 2);
    let told = log.events.iter().filter_map(|event| match &event.body {
        EventBody::BudgetWarned(warning) => Some((warning.kind, warning.used, warning.limit)),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, [(BudgetKind::Tokens, 203.0, 100.0), (BudgetKind::Steps, 4.0, 4.0)]);
    assert_eq!(log.warn(0), 0, "once");
}

#[test]
fn what_is_said_of_very_little_money_can_be_done() {
    let mut log = Log::new(of_session(Budget { usd: Some(0.000_01), ..Budget::default() }));
    let turn = log.begin(1);
    log.add(EventBody::UsageRecorded {
        turn,
        step: 1,
        model: "main".to_owned(),
        usage: Usage::default(),
        cost_usd: Some(0.000_011),
        first_token_ms: 1,
        duration_ms: 1,
        elapsed_ms: 0,
    });
    let (_, used) = log.state.used(0);
    let said = reason(&session_reached(log.state.budgets().unwrap(), used), session());
    assert!(said.contains("used $0.000011 of $0.00001;") && said.ends_with("--usd 0.000022"), "{said}");
}

#[test]
fn each_kind_of_limit_is_reached_at_its_number_and_not_before() {
    let one = |turn: Budget, call: u64, millis: u64| {
        let mut log = Log::new(of_turn(turn));
        let turn = log.begin(1);
        log.call(turn, 1, "main", call);
        log.reached(millis)
    };
    let kind = |kind| vec![(BudgetScope::Turn, kind)];
    let usd = Budget { usd: Some(0.5), ..Budget::default() };
    let seconds = Budget { seconds: Some(3), ..Budget::default() };
    let steps = |steps| Budget { steps: Some(steps), ..Budget::default() };
    assert_eq!((one(usd, 4, 0), one(usd, 5, 0)), (vec![], kind(BudgetKind::Usd)));
    assert_eq!((one(tokens(5), 4, 0), one(tokens(5), 5, 0)), (vec![], kind(BudgetKind::Tokens)));
    assert_eq!((one(seconds, 1, 2_999), one(seconds, 1, 3_000)), (vec![], kind(BudgetKind::Seconds)));
    assert_eq!((one(steps(2), 1, 0), one(steps(1), 1, 0)), (vec![], kind(BudgetKind::Steps)));
    assert_eq!(one(Budget::default(), u64::MAX, u64::MAX), vec![], "nothing is limited");
}

#[test]
fn the_session_counts_what_all_turns_used() {
    let limits = Budget { seconds: Some(10), steps: Some(3), ..Budget::default() };
    let mut log = Log::new(of_session(limits));
    let turn = log.begin(1);
    log.call(turn, 1, "main", 1);
    log.call(turn, 2, "main", 1);
    log.finish(turn, Outcome::Done, 6_000);
    let turn = log.begin(2);
    assert_eq!(log.reached(3_999), []);
    assert_eq!(log.reached(4_000), [(BudgetScope::Session, BudgetKind::Seconds)]);
    log.call(turn, 1, "main", 1);
    assert_eq!(log.reached(0), [(BudgetScope::Session, BudgetKind::Steps)]);
}

#[test]
fn what_waits_stays_after_a_turn_used_its_budget_up_until_somebody_asks_for_more() {
    let mut log = Log::new(of_turn(tokens(10)));
    let turn = log.begin(1);
    log.queue(2);
    log.call(turn, 1, "main", 10);
    log.finish(turn, Outcome::OutOfBudget, 0);
    let shown = log.state.to_session().unwrap();
    assert_eq!(shown.status, Status::OutOfBudget);
    assert!(shown.reason.unwrap().contains("the turn used 10 of 10 tokens"));
    assert!(shown.paused && log.next().is_none());
    assert_eq!(log.restarted(), log.state);
    log.queue(3);
    assert_eq!(log.next(), Some("2"), "each turn has a budget of its own, and the order stays");
    assert_eq!(log.state.to_session().unwrap().status, Status::Queued);
}

#[test]
fn resuming_the_queue_lets_it_go_on_too() {
    let mut log = Log::new(of_turn(tokens(10)));
    let turn = log.begin(1);
    log.queue(2);
    log.finish(turn, Outcome::OutOfBudget, 0);
    log.add(EventBody::QueueResumed { command: None });
    assert_eq!(log.next(), Some("2"));
}

#[test]
fn nothing_begins_once_the_session_used_its_budget_up_and_the_reason_says_how_to_raise_it() {
    let mut log = Log::new(of_session(tokens(10)));
    let turn = log.begin(1);
    log.call(turn, 1, "main", 12);
    log.finish(turn, Outcome::Done, 0);
    assert_eq!(log.state.to_session().unwrap().status, Status::Done, "it came to its end in time");
    log.queue(2);
    let shown = log.state.to_session().unwrap();
    assert_eq!((shown.status, shown.paused, log.next()), (Status::OutOfBudget, true, None));
    let reason = shown.reason.unwrap();
    assert_eq!(
        reason,
        format!("the session used 12 of 10 tokens; to go on: slipway budget {} --tokens 24", session())
    );
    log.add(EventBody::QueueResumed { command: None });
    assert_eq!(log.next(), None, "that is no money");
    assert_eq!(log.follow(changed(&log.state, of_session(tokens(13)), None)), 1, "no work was interrupted");
    assert_eq!(log.next(), Some("2"));
}

#[test]
fn raising_a_budget_goes_on_with_what_it_interrupted_before_what_waits() {
    let mut log = Log::new(of_session(tokens(10)));
    let turn = log.begin(1);
    log.queue(2);
    log.call(turn, 1, "main", 10);
    log.finish(turn, Outcome::OutOfBudget, 0);
    log.queue(3);
    assert_eq!(log.next(), None, "a prompt does not help the session");
    assert_eq!(log.follow(changed(&log.state, of_session(tokens(9)), None)), 1);
    assert_eq!(log.follow(changed(&log.state, of_session(tokens(9)), None)), 0, "it is that already");
    assert_eq!(log.next(), None, "it became less");
    assert_eq!(log.follow(changed(&log.state, of_session(tokens(11)), None)), 2);
    assert_eq!(log.next(), Some(GO_ON));
    let order: Vec<String> = log.state.queue().prompts.into_iter().map(|prompt| prompt.text).collect();
    assert_eq!(order, [GO_ON, "2", "3"]);
    assert_eq!(log.follow(changed(&log.state, of_session(tokens(12)), None)), 1, "it goes on once");
}

#[test]
fn work_that_goes_on_has_what_its_limit_was_raised_by_and_not_the_whole_limit_again() {
    let mut log = Log::new(of_turn(tokens(10)));
    let turn = log.begin(1);
    log.queue(2);
    log.call(turn, 1, "main", 10);
    log.finish(turn, Outcome::OutOfBudget, 3000);
    let go_on = |log: &mut Log, limit, n| {
        assert_eq!(log.follow(changed(&log.state, of_turn(limit), None)), 2);
        let prompt = log.state.next_prompt().unwrap().id;
        let turn = TurnId::from_u128(n);
        log.add(EventBody::TurnStarted { turn, prompt });
        turn
    };
    let turn = go_on(&mut log, tokens(12), 3);
    assert_eq!(log.reached(0), []);
    log.call(turn, 1, "main", 2);
    let by_turn = (BudgetScope::Turn, BudgetKind::Tokens);
    assert_eq!(log.reached(0), [by_turn], "twelve of twelve");
    let shown = log.state.to_session().unwrap();
    assert_eq!((shown.used.turn.tokens, shown.used.session.tokens), (12, 12), "nothing counts twice");
    assert_eq!(shown.turn_spend.usage.total(), 2);
    log.finish(turn, Outcome::OutOfBudget, 1000);
    // A third time: all of it counts, also the time and the steps, and for a server that has only the log.
    let raised = Budget { seconds: Some(6), steps: Some(3), ..tokens(20) };
    let turn = go_on(&mut log, raised, 4);
    assert_eq!(log.reached(1999), []);
    assert_eq!(log.reached(2000), [(BudgetScope::Turn, BudgetKind::Seconds)]);
    log.call(turn, 1, "main", 1);
    assert_eq!(log.reached(0), [(BudgetScope::Turn, BudgetKind::Steps)]);
    assert_eq!(log.restarted().used(0), log.state.used(0));
    assert_eq!(log.state.used(0).1.millis, 4000, "the session has its own account");
    log.finish(turn, Outcome::Done, 0);
    // What waited is another prompt's work.
    log.add(EventBody::TurnStarted { turn: TurnId::from_u128(5), prompt: PromptId::from_u128(2) });
    assert_eq!(log.state.used(0).0, Used::default());
}

#[test]
fn a_prompt_of_a_person_after_a_limit_has_a_budget_of_its_own() {
    let mut log = Log::new(of_turn(tokens(10)));
    let turn = log.begin(1);
    log.call(turn, 1, "main", 10);
    log.finish(turn, Outcome::OutOfBudget, 0);
    log.begin(2);
    assert_eq!(log.state.used(0).0, Used::default());
}

#[test]
fn a_budget_that_is_raised_while_the_turn_ends_for_it_goes_on_too() {
    let mut log = Log::new(of_turn(tokens(10)));
    let turn = log.begin(1);
    log.call(turn, 1, "main", 10);
    assert_eq!(log.follow(changed(&log.state, of_turn(tokens(20)), None)), 1);
    assert!(raised_late(&log.state).is_empty(), "it has not ended");
    log.finish(turn, Outcome::OutOfBudget, 0);
    assert_eq!(log.follow(raised_late(&log.state)), 1);
    assert_eq!(log.next(), Some(GO_ON));
    assert!(raised_late(&log.state).is_empty(), "once");

    let turn = log.begin(2);
    log.follow(changed(&log.state, of_turn(tokens(5)), None));
    log.call(turn, 1, "main", 6);
    log.finish(turn, Outcome::OutOfBudget, 0);
    assert!(raised_late(&log.state).is_empty(), "it was not raised");
}

#[test]
fn a_budget_that_is_raised_too_little_says_what_is_missing_now() {
    let mut log = Log::new(of_turn(tokens(10)));
    let turn = log.begin(1);
    log.call(turn, 1, "main", 30);
    log.finish(turn, Outcome::OutOfBudget, 0);
    assert_eq!(log.follow(changed(&log.state, of_turn(tokens(20)), None)), 1, "nothing goes on");
    let reason = log.state.to_session().unwrap().reason.unwrap();
    assert!(reason.contains("used 30 of 20 tokens") && reason.contains("--turn-tokens 60"), "{reason}");
}

#[test]
fn a_queue_that_a_person_paused_stays_paused() {
    let mut log = Log::new(of_turn(tokens(10)));
    let turn = log.begin(1);
    log.add(EventBody::QueuePaused { reason: "ann paused it".to_owned(), command: None });
    log.call(turn, 1, "main", 10);
    log.finish(turn, Outcome::OutOfBudget, 0);
    log.follow(changed(&log.state, of_turn(tokens(20)), None));
    assert_eq!((log.state.queue().prompts.len(), log.next()), (1, None));
}

#[test]
fn a_fork_does_not_pay_for_what_the_other_session_did() {
    let snapshot = protocol::SnapshotId::from_u128(1);
    let mut log = Log::new(Budgets::default());
    let from = protocol::ForkedFrom { session: SessionId::from_u128(2), snapshot };
    let (environment, title, model) = ("shop".to_owned(), "A fork".to_owned(), "main".to_owned());
    let recipe = Box::default();
    let budgets = of_session(tokens(10));
    log.add(EventBody::SessionCreated {
        environment,
        recipe,
        title,
        model,
        forked_from: Some(from),
        budgets,
        origin: protocol::SessionOrigin::default(),
    });
    let turn = log.begin(1);
    log.call(turn, 1, "main", 50);
    log.finish(turn, Outcome::OutOfBudget, 9_000);
    log.add(EventBody::SnapshotTaken { snapshot, turn, bytes: 1, duration_ms: 1, blurred: false });
    log.queue(2);
    let shown = log.state.to_session().unwrap();
    assert_eq!((shown.spend.calls, shown.used), (0, protocol::BudgetUse::default()));
    assert_eq!(log.next(), Some("2"));
}

#[test]
fn the_clock_rings_at_the_warning_and_at_the_end() {
    let turn = Budget { seconds: Some(100), ..Budget::default() };
    let session = Budget { seconds: Some(1_000), ..Budget::default() };
    let mut log = Log::new(Budgets { turn, session });
    assert_eq!(until_next(&log.state, 0), None, "no turn, no time");
    let turn = log.begin(1);
    assert_eq!(until_next(&log.state, 30_000), Some(Duration::from_secs(50)));
    assert_eq!(until_next(&log.state, 79_999), Some(Duration::from_millis(1)));
    assert_eq!(until_next(&log.state, 80_000), Some(Duration::from_secs(20)), "whether it was told or not");
    assert_eq!(log.warn(80_000), 1);
    assert_eq!(until_next(&log.state, 90_000), Some(Duration::from_secs(10)));
    assert_eq!(until_next(&log.state, 100_000), Some(Duration::ZERO));
    log.follow(changed(&log.state, Budgets::default(), None));
    assert_eq!(until_next(&log.state, 100_000), None);
    let far = of_turn(Budget { seconds: Some(u64::MAX), ..Budget::default() });
    log.follow(changed(&log.state, far, None));
    assert!(until_next(&log.state, u64::MAX).is_some_and(|left| left <= Duration::from_secs(86_400)));
    log.finish(turn, Outcome::Done, 0);
}

#[test]
fn what_nothing_could_be_done_within_is_refused() {
    assert!(validate(&Budgets::default()).is_ok());
    assert!(validate(&Budgets { turn: tokens(1), session: tokens(1) }).is_ok());
    let usd = |usd| Budget { usd: Some(usd), ..Budget::default() };
    for wrong in [
        usd(0.0),
        usd(-1.0),
        usd(f64::NAN),
        usd(f64::INFINITY),
        usd(1e-13),
        tokens(0),
        Budget { seconds: Some(0), ..Budget::default() },
        Budget { steps: Some(0), ..Budget::default() },
    ] {
        for budgets in [of_turn(wrong), of_session(wrong)] {
            let refused = validate(&budgets).unwrap_err();
            assert_eq!(refused.code, Code::BadRequest, "{wrong:?}");
        }
    }
}

#[test]
fn what_was_asked_for_goes_before_the_configuration() {
    let default = Budgets { turn: tokens(5), session: Budget { usd: Some(1.0), ..tokens(6) } };
    let merged = overlaid(&default, &of_session(tokens(9)));
    assert_eq!((merged.turn, merged.session), (tokens(5), Budget { usd: Some(1.0), ..tokens(9) }));
}

proptest! {
    /// The sums by day and model are those of the session, however the calls come, and a fold of the whole log is the one
    /// that grew with it.
    #[test]
    fn sums_agree(calls in proptest::collection::vec((0..3u8, 0..200_000u32, 0..1000u64), 0..30)) {
        let mut log = Log::new(Budgets::default());
        let turn = log.begin(1);
        for (step, (model, later, tokens)) in (1..).zip(calls) {
            log.at += Duration::from_secs(later.into());
            log.call(turn, step, &model.to_string(), tokens);
        }
        let shown = log.state.to_session().unwrap();
        let total: u64 = shown.spent.iter().map(|spent| spent.spend.usage.total()).sum();
        prop_assert_eq!(total, shown.spend.usage.total());
        prop_assert_eq!(shown.turn_spend.usage.total(), total);
        prop_assert!(shown.spent.windows(2).all(|pair| (&pair[0].day, &pair[0].model) < (&pair[1].day, &pair[1].model)));
        prop_assert_eq!(log.restarted(), log.state);
    }
}
