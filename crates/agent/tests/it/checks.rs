//! The gate before `done`: failing checks go back to the model until they pass or nothing moves any more.

use agent::{Effect, Input, Limits, Setup, Turn, Verification};

use crate::script::*;

/// A turn that waits for its gate.
fn verifying() -> Turn {
    let mut turn = begun();
    assert_eq!(lines(&turn.handle(says("Done."))), ["verify"]);
    turn
}

/// Gives the gate's result; when the model is called again, it says that it is done.
fn round(turn: &mut Turn, check: agent::CheckResult) -> Vec<Effect> {
    let effects = turn.handle(verified(vec![check]));
    if effects.iter().any(|effect| matches!(effect, Effect::CallModel(_))) {
        assert_eq!(lines(&turn.handle(says("Done now."))), ["verify"]);
    }
    effects
}

#[test]
fn nothing_changed_or_nothing_to_check_is_done() {
    let unchanged = Verification { changed: false, checks: vec![] };
    assert_eq!(lines(&verifying().handle(Input::Verified(unchanged))), ["finish done"]);
    assert_eq!(lines(&verifying().handle(verified(vec![]))), ["finish done"]);
    assert_eq!(lines(&verifying().handle(verified(vec![passing("test"), passing("lint")]))), ["finish done"]);
}

#[test]
fn what_fails_is_told_and_what_passes_is_not() {
    let mut turn = verifying();
    let effects = turn.handle(verified(vec![passing("lint"), failing("test", &["adds", "subtracts"])]));
    assert_eq!(lines(&effects), ["tell", "call model"]);
    insta::assert_snapshot!(texts(&effects), @"
    These checks must pass before the work can be called done. Fix the cause; do not weaken the checks. If one cannot pass for a reason outside your work, say so and why.

    test (`make test`) failed:
    failed: adds, subtracts
    ");
    assert_eq!(turn.messages().last(), Some(&user(&texts(&effects))));
}

#[test]
fn rounds_without_progress_escalate_and_say_what_is_left() {
    let mut turn = verifying();
    assert_eq!(lines(&round(&mut turn, failing("test", &["a", "b"]))), ["tell", "call model"]);
    assert_eq!(lines(&round(&mut turn, failing("test", &["a", "b"]))), ["tell", "call model"]);
    let effects = round(&mut turn, failing("test", &["a", "c"]));
    assert_eq!(lines(&effects), ["finish escalated"]);
    insta::assert_snapshot!(texts(&effects), @"checks still fail after 2 rounds without progress: test (2 failures)");
}

#[test]
fn progress_starts_the_count_again() {
    let mut turn = verifying();
    for left in [&["a", "b", "c"][..], &["a", "b", "c"], &["a", "b"], &["a", "b"], &["b"], &["b"]] {
        assert_eq!(lines(&round(&mut turn, failing("test", left))), ["tell", "call model"], "{left:?}");
    }
    assert_eq!(lines(&round(&mut turn, passing("test"))), ["finish done"]);
}

#[test]
fn an_error_that_only_moved_to_another_line_is_no_progress() {
    let mut turn = verifying();
    assert_eq!(
        lines(&round(&mut turn, not_compiling("build", "cannot find `x`", 3))),
        ["tell", "call model"]
    );
    assert_eq!(
        lines(&round(&mut turn, not_compiling("build", "cannot find `x`", 9))),
        ["tell", "call model"]
    );
    assert_eq!(lines(&round(&mut turn, not_compiling("build", "cannot find `x`", 7))), ["finish escalated"]);
}

#[test]
fn several_failing_checks_are_counted_together() {
    let mut turn = verifying();
    let both = || verified(vec![failing("test", &["a", "b"]), failing("lint", &[])]);
    for _ in 0..2 {
        assert_eq!(lines(&turn.handle(both())), ["tell", "call model"]);
        turn.handle(says("Done."));
    }
    insta::assert_snapshot!(texts(&turn.handle(both())), @"checks still fail after 2 rounds without progress: test (2 failures), lint (1 failure); 3 failures left");
}

#[test]
fn no_rounds_means_that_failing_checks_are_not_given_back() {
    let limits = Limits { rounds: 0, max_output_tokens: 10 };
    let mut turn = begun_with(Setup { limits, ..setup(vec![user("Go.")]) });
    turn.handle(says("Done."));
    assert_eq!(lines(&turn.handle(verified(vec![failing("test", &["a"])]))), ["finish escalated"]);
}
