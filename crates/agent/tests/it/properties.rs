//! Whatever happens in whatever order, a turn finishes at most once, and a stop always ends it.

use agent::{CheckResult, Effect, Input, Limits, Setup, Turn, Verification};
use proptest::collection::vec;
use proptest::prelude::*;
use protocol::chat::{Part, Stop};

use crate::script::*;

pub(crate) fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        prop_oneof![
            Just(""),
            Just(" "),
            Just("Done."),
            Just("<tool_call>{\"name\": \"list\", \"arguments\": {\"path\": \"src\"}}</tool_call>"),
            Just("```json\n{\"name\": \"check\", \"arguments\": {}}\n```"),
            Just("<tool_call>{broken"),
        ]
        .prop_map(text),
        (prop_oneof![Just(""), Just("hm")], proptest::option::of("s[0-9]"))
            .prop_map(|(words, signature)| Part::Reasoning { text: words.into(), signature }),
        (
            prop_oneof![Just(""), Just("c1"), Just("c2"), Just("c3")],
            prop_oneof![Just("shell"), Just("list"), Just("edit"), Just("bash")],
            prop_oneof![
                Just(""),
                Just("{ }"),
                Just("{\"command\" : \"ls\"}"),
                Just("{\"cmd\": 5"),
                Just("\"text\""),
                Just("\"{\\\"path\\\": 1}\""),
                Just("[1, 2]"),
            ],
        )
            .prop_map(|(id, tool, arguments)| call(id, tool, arguments)),
    ]
}

pub(crate) fn stop() -> impl Strategy<Value = Stop> {
    prop_oneof![6 => Just(Stop::End), 6 => Just(Stop::Tools), 2 => Just(Stop::Length), 1 => Just(Stop::Refusal)]
}

pub(crate) fn verification() -> impl Strategy<Value = Verification> {
    let check = prop_oneof![
        Just(passing("test")),
        Just(failing("test", &["a"])),
        Just(failing("test", &["a", "b"])),
        Just(failing("lint", &[])),
    ];
    (prop::bool::weighted(0.9), vec(check, 0..3))
        .prop_map(|(changed, checks): (bool, Vec<CheckResult>)| Verification { changed, checks })
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        2 => Just(Input::Begin),
        8 => (vec(part(), 0..4), stop()).prop_map(|(parts, stop)| Input::Answered(completion(parts, stop))),
        1 => Just(Input::ModelFailed { message: "down".into() }),
        8 => ("(c|call_|text_)[1-3]", "[xy]", any::<bool>())
            .prop_map(|(call_id, text, is_error)| Input::ToolEnded { call_id, text, is_error, images: Vec::new() }),
        4 => verification().prop_map(Input::Verified),
        1 => Just(Input::Stop),
    ]
}

fn finishes(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Finish { .. })).count()
}

proptest! {
    #[test]
    fn a_turn_finishes_at_most_once_and_a_stop_always_ends_it(inputs in vec(input(), 0..40)) {
        let limits = Limits { rounds: 1, max_output_tokens: 10 };
        let mut turn = Turn::new(Setup { limits, ..setup(vec![user("Go.")]) });
        let mut effects = Vec::new();
        let begin = std::iter::once(Input::Begin);
        for input in begin.chain(inputs).chain([Input::Stop, Input::Begin, says("more"), ended("c1", "late")]) {
            effects.extend(turn.handle(input));
        }
        prop_assert_eq!(finishes(&effects), 1);
        prop_assert_eq!(finishes(&effects[effects.len() - 1..]), 1, "nothing follows the end");
        // One thing is waited for at a time: a model call and a running tool never go together.
        for pair in effects.windows(2) {
            let waits_for_model = matches!(pair[0], Effect::CallModel(_) | Effect::Verify);
            prop_assert!(!(waits_for_model && matches!(pair[1], Effect::CallModel(_))));
        }
    }
}
