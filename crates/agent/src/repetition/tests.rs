use super::seen::{without_comment, without_numbers};
use super::*;

fn verdicts_of(tool: &str, calls: &[(&str, &str)]) -> String {
    let calls: Vec<_> = calls.iter().map(|(arguments, result)| (tool, *arguments, *result, false)).collect();
    verdicts_on(&calls)
}

/// The verdicts on calls: the tool, its arguments, the result, and whether it failed.
fn verdicts_on(calls: &[(&str, &str, &str, bool)]) -> String {
    let mut repetition = Repetition::new((3, 6));
    calls
        .iter()
        .map(|(tool, arguments, result, is_error)| {
            let call = Call { id: "c".into(), tool: (*tool).into(), arguments: (*arguments).into() };
            let result = ToolResult {
                call_id: "c".into(),
                text: (*result).into(),
                is_error: *is_error,
                images: Vec::new(),
            };
            repetition.saw(&call, &result);
            match repetition.verdict() {
                Verdict::GoOn => '.',
                Verdict::Nudge { .. } => 'n',
                Verdict::GiveUp(_) => 'G',
            }
        })
        .collect()
}

fn verdicts(calls: &[(&str, &str)]) -> String {
    verdicts_of("list", calls)
}

#[test]
fn the_same_call_with_the_same_result_is_noticed() {
    assert_eq!(verdicts(&[("a", "1"); 6]), "..n..G");
    assert_eq!(verdicts(&[("a", "u"), ("a", "v"), ("a", "w"), ("a", "x"), ("a", "y"), ("a", "z")]), "......");
    // A different call in between starts the count again, and the model is told again.
    assert_eq!(
        verdicts(&[("a", "1"), ("a", "1"), ("a", "1"), ("b", "1"), ("a", "1"), ("a", "1"), ("a", "1")]),
        "..n...n"
    );
}

#[test]
fn an_output_that_is_kept_elsewhere_is_the_same_wherever_that_is() {
    let cut = |id: &str| format!("1\n2\n[the whole output: path \"output:itm_{id}.out\"]\n(exit code 0)");
    let outputs: Vec<String> =
        ["01m7q1a", "01m7q2b", "01m7q3c", "01m7q4d", "01m7q5e", "01m7q6f"].map(cut).into();
    let calls: Vec<(&str, &str)> = outputs.iter().map(|output| ("seq", output.as_str())).collect();
    assert_eq!(verdicts(&calls), "..n..G");
    let others =
        [("seq", "1 output:itm_1.out"), ("seq", "2 output:itm_1.out"), ("seq", "x output:itm_1.out")];
    assert_eq!(verdicts(&others), "...");
}

#[test]
fn reading_the_rest_of_one_output_after_the_other_is_the_same_call() {
    let read = |id: &str| format!(r#"{{"path":"output:itm_{id}.out","offset":9}}"#);
    let reads: Vec<String> = ["01m7q1a", "01m7q2b", "01m7q3c"].map(read).into();
    let calls: Vec<(&str, &str)> = reads.iter().map(|call| (call.as_str(), "the rest")).collect();
    assert_eq!(verdicts_of("read", &calls), "..n");
}

#[test]
fn cycles_are_noticed_too() {
    assert_eq!(verdicts(&[("a", "1"), ("b", "1")].repeat(6)), ".....n.....G");
    assert_eq!(verdicts(&[("a", "1"), ("b", "1"), ("c", "1")].repeat(6)), "........n........G");
    let five = ["a", "b", "c", "d", "e"].map(|call| (call, "1"));
    assert_eq!(verdicts(&five.repeat(6)), "..............n..............G");
}

#[test]
fn results_that_differ_in_numbers_are_noticed_later() {
    let outputs: Vec<String> = (0..12).map(|run| format!("1 failed in 0.{}s", 7 * run + 90)).collect();
    let runs: Vec<(&str, &str)> = outputs.iter().map(|output| ("test", output.as_str())).collect();
    assert_eq!(verdicts(&runs), ".....n.....G");
    assert_eq!(without_numbers("é 12.5s at 0x7f, 3f2a91c by py3, face"), "é 0.0s at 0x0f, 0 by py0, face");
    // Other failures are something new.
    let words = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| format!("{name} failed in 3s"));
    let runs: Vec<(&str, &str)> = words.iter().map(|output| ("test", output.as_str())).collect();
    assert_eq!(verdicts(&runs), "........");
}

#[test]
fn a_command_is_the_same_with_another_time_limit_or_comment() {
    let same = [
        (r#"{"command":"make"}"#, "no"),
        (r#"{"command":"make","timeout_ms":5000}"#, "no"),
        (r#"{"command":"make  # once more\n# and again"}"#, "no"),
    ];
    assert_eq!(verdicts_of("shell", &same), "..n");
    assert_eq!(without_comment("echo '# no' \"a # b\" x#y # yes"), "echo '# no' \"a # b\" x#y");
    let others = ["a", "b", "c"].map(|word| format!(r##"{{"command":"echo '# {word}'"}}"##));
    let others: Vec<(&str, &str)> = others.iter().map(|call| (call.as_str(), "no")).collect();
    assert_eq!(verdicts_of("shell", &others), "...");
}

#[test]
fn calls_of_a_tool_that_all_fail_are_noticed_though_each_is_another_one() {
    let others: Vec<String> = (0..24).map(|count| "x".repeat(count)).collect();
    let failing = |tool| others.iter().map(move |other| (tool, other.as_str(), other.as_str(), true));
    let edits: Vec<_> = failing("edit").take(12).collect();
    assert_eq!(verdicts_on(&edits), ".....n.....G");
    // Looking in between changes nothing, one that works does.
    let mut looked: Vec<_> =
        edits[..6].iter().flat_map(|edit| [("read", edit.1, edit.2, false), *edit]).collect();
    assert_eq!(verdicts_on(&looked), "...........n");
    looked[9].3 = false;
    assert_eq!(verdicts_on(&looked), "............");
    // A command that fails is how work goes.
    assert_eq!(verdicts_on(&failing("shell").collect::<Vec<_>>()), ".".repeat(24));
}

#[test]
fn who_is_told_again_and_again_is_given_up() {
    let mut calls = [("a", "1"), ("a", "1"), ("a", "1"), ("b", "2")].repeat(4);
    // A cycle of all four would be noticed too.
    let others: Vec<String> = (0..4).map(|round| format!("other {}", "x".repeat(round))).collect();
    for (round, other) in others.iter().enumerate() {
        calls[4 * round + 3] = (other, "2");
    }
    assert_eq!(verdicts(&calls), "..n...n...n...G.");
    // Long ago does not count.
    let quiet: Vec<String> = (0..100).map(|step| "y".repeat(step)).collect();
    let mut calls: Vec<(&str, &str)> = calls[..12].to_vec();
    calls.extend(quiet.iter().map(|step| (step.as_str(), "2")));
    calls.extend([("a", "1"); 3]);
    assert!(verdicts(&calls).ends_with("..n"), "{}", verdicts(&calls));
}

/// The verdicts on shell commands with their results, some of them several in a step.
fn verdicts_on_steps(steps: usize, step: impl Fn(usize) -> Vec<(String, String)>) -> String {
    let mut repetition = Repetition::new((3, 6));
    let mut verdicts = String::new();
    for number in 0..steps {
        for (command, text) in step(number) {
            let tool = if command.starts_with('{') { "write" } else { "shell" };
            let arguments = match tool {
                "write" => command,
                _ => serde_json::json!({ "command": command }).to_string(),
            };
            let call = Call { id: "c".into(), tool: tool.into(), arguments };
            let result = ToolResult { call_id: "c".into(), text, is_error: false, images: Vec::new() };
            repetition.saw(&call, &result);
        }
        verdicts.push(match repetition.verdict() {
            Verdict::GoOn => '.',
            Verdict::Nudge { .. } => 'n',
            Verdict::GiveUp(_) => 'G',
        });
    }
    verdicts
}

/// After how many steps the model is told first, and after how many the turn ends.
fn told_and_ended(verdicts: &str) -> (Option<usize>, Option<usize>) {
    (verdicts.find('n').map(|place| place + 1), verdicts.find('G').map(|place| place + 1))
}

/// Something else each time, without a digit in it.
fn letters(number: usize) -> String {
    number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'g')).collect()
}

#[test]
fn the_same_call_is_noticed_also_where_it_gives_something_else_each_time() {
    let same = |command: &'static str| {
        verdicts_on_steps(200, move |step| vec![(command.to_owned(), format!("/tmp/tmp.{}", letters(step)))])
    };
    assert_eq!(told_and_ended(&same("mktemp -u")), (Some(18), Some(36)));
    // What really changes may be waited for.
    assert_eq!(told_and_ended(&same("sleep 5; tail log")), (Some(36), Some(72)));
    let waits = |step| format!("line {}", letters(step));
    let waited = verdicts_on_steps(30, |step| vec![("sleep 5; tail log".to_owned(), waits(step))]);
    assert_eq!(waited, ".".repeat(30));
    let by_turns = ["mktemp -u", "mktemp -du"];
    let by_turns = verdicts_on_steps(200, |step| {
        vec![(by_turns[step % 2].to_owned(), format!("/tmp/{}", letters(step)))]
    });
    assert_eq!(told_and_ended(&by_turns), (Some(36), Some(72)));
}

#[test]
fn the_same_result_beside_new_calls_is_noticed() {
    let beside = |others: usize| {
        verdicts_on_steps(200, move |step| {
            let new = (0..others).map(|other| (format!("echo {step} {other}"), letters(step)));
            std::iter::once(("cat a.txt".to_owned(), "a".to_owned())).chain(new).collect()
        })
    };
    assert_eq!(told_and_ended(&beside(1)), (Some(25), Some(81)));
    assert_eq!(told_and_ended(&beside(2)).0, Some(25));
    // One after the other it is the same.
    let apart = verdicts_on_steps(200, |step| match step % 2 {
        0 => vec![("cat a.txt".to_owned(), "a".to_owned())],
        _ => vec![(format!("echo {step}"), letters(step))],
    });
    assert_eq!(told_and_ended(&apart), (Some(49), Some(161)));
}

#[test]
fn a_check_after_each_change_is_how_work_goes() {
    let write = |step| (format!(r#"{{"path":"a.rs","content":"{step}"}}"#), "written".to_owned());
    let work = verdicts_on_steps(300, |step| match step % 3 {
        0 => vec![write(step)],
        1 => vec![("cargo check -q".to_owned(), "(exit code 0)".to_owned())],
        _ => vec![(format!("grep -n x{step} a.rs"), letters(step))],
    });
    assert_eq!(work, ".".repeat(300));
    // Where the shell changes files that cannot be seen; and now and then something is looked at again.
    let work = verdicts_on_steps(300, |step| match step % 4 {
        0 => vec![(format!("sed -i s/a/{step}/ a.rs"), String::new())],
        1 => vec![("cargo check -q".to_owned(), "(exit code 0)".to_owned())],
        2 => vec![(format!("sed -n {step}p a.rs"), letters(step))],
        _ => vec![("cargo test".to_owned(), format!("failed: {}", letters(step)))],
    });
    assert!(!work.contains('G'), "{work}");
}

#[test]
fn going_round_in_a_long_cycle_is_noticed() {
    for period in [9, 12, 20, 40] {
        let round = |step: usize| vec![(format!("cat {}", letters(step % period)), letters(step % period))];
        let told = told_and_ended(&verdicts_on_steps(300, round));
        assert_eq!(told, (Some(period + 30), Some(period + 60)), "{period}");
    }
    // In no order at all.
    let shuffled = |step: usize| vec![(format!("cat {}", step * step % 37 % 11), "same".to_owned())];
    assert!(told_and_ended(&verdicts_on_steps(200, shuffled)).1.is_some_and(|ended| ended < 100));
    // Who reads two dozen files once more is not told.
    let again = verdicts_on_steps(48, |step| vec![(format!("cat {}", letters(step % 24)), "x".to_owned())]);
    assert_eq!(again, ".".repeat(48));
}
