//! What the model is sent over a long turn: it never outgrows the window, keeps its order and what must not be lost, and a
//! restart in the middle changes nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use agent::compaction::{Shortening, WorkState};
use agent::history::History;
use agent::{Effect, Input, Limits, Profile, Setup, Turn, Window};
use protocol::chat::{Completion, Message, Request, Stop, ToolSpec};
use protocol::event::{CompactionLevel, PlanItem, PlanState};
use protocol::{EventBody, ItemStatus, Outcome, Usage};

use crate::recorder::{Recorder, assert_pairs};
use crate::script::*;

const PROMPT: &str = "Rename the parser, and keep the word heliotrope in mind.";
const INSTRUCTIONS: &str = "Write tabs, never spaces.";

/// A model with a small window that checks what it is given, the log of its turn, and the turn.
struct Small {
    context: u64,
    /// Tokens for a thousand bytes.
    rate: u64,
    prompt: String,
    plan: Vec<PlanItem>,
    recorder: Recorder,
    turn: Turn,
    levels: Vec<CompactionLevel>,
    largest: u64,
    /// Requests before the next overflow.
    overflow_in: Option<u32>,
    signed: bool,
}

impl Small {
    fn new(context: u64, rate: u64) -> Self {
        let plan = vec![PlanItem { text: "rename it".into(), state: PlanState::InProgress }];
        Self::with(context, rate, PROMPT, plan)
    }

    fn with(context: u64, rate: u64, prompt: &str, plan: Vec<PlanItem>) -> Self {
        let mut recorder = Recorder::new();
        recorder.prompt(prompt);
        let items: Vec<&str> = plan.iter().map(|item| item.text.as_str()).collect();
        let items = serde_json::json!({"items": items.join("\n")}).to_string();
        recorder.answer(&completion(vec![call("p", "plan", &items)], Stop::Tools));
        recorder.result("p", ItemStatus::Completed, Some("The plan is written down."));
        let prompt = prompt.to_owned();
        let turn = Turn::new(Self::setup(context, &recorder, &prompt));
        let (levels, largest, overflow_in, signed) = (Vec::new(), 0, None, false);
        Self { context, rate, prompt, plan, recorder, turn, levels, largest, overflow_in, signed }
    }

    fn setup(context: u64, recorder: &Recorder, prompt: &str) -> Setup {
        let history = recorder.history();
        Setup {
            instructions: INSTRUCTIONS.into(),
            limits: Limits { steps: 1000, rounds: 2, max_output_tokens: 8192 },
            profile: Profile { context, ..Profile::default() },
            task: prompt.into(),
            measured: history.measured(),
            ..setup(history.into_messages())
        }
    }

    fn tokens(&self, request: &Request) -> u64 {
        let bytes = serde_json::to_string(request).unwrap().len() as u64;
        bytes * self.rate / 1000
    }

    fn check(&mut self, request: &Request) -> u64 {
        let tokens = self.tokens(request);
        self.largest = self.largest.max(tokens);
        let whole = tokens + u64::from(request.max_output_tokens);
        assert!(whole <= self.context, "{whole} tokens do not fit {}", self.context);
        assert!(request.system.contains(INSTRUCTIONS));
        assert_eq!(request.messages, self.turn.messages());
        assert_pairs(&request.messages);
        let begin = serde_json::to_string(&request.messages[0]).unwrap();
        assert!(begin.contains("heliotrope"), "the prompt is gone: {begin}");
        tokens
    }

    /// Works through effects until a tool is to be run or the turn is over. The calls that are to be run.
    fn perform(&mut self, effects: Vec<Effect>, answer: &mut dyn FnMut() -> Completion) -> Vec<String> {
        let mut calls = Vec::new();
        for effect in effects {
            let input = match effect {
                Effect::CallModel(request) => {
                    if let Some(0) = self.overflow_in {
                        self.overflow_in = None;
                        Input::Overflowed { message: "too long".into() }
                    } else {
                        self.overflow_in = self.overflow_in.map(|left| left - 1);
                        let usage = Usage { input: self.check(&request), ..Usage::default() };
                        let completion = self.turn.read(Completion { usage, ..answer() });
                        self.recorder.answer(&completion);
                        Input::Answered(completion)
                    }
                }
                Effect::Compact { level, tokens, room } => self.compact(level, tokens, room),
                Effect::RunTool { call_id, .. } => {
                    calls.push(call_id);
                    continue;
                }
                Effect::Tell { text } => {
                    self.recorder.notice(&text);
                    continue;
                }
                Effect::Mistake { .. } | Effect::Note { .. } => continue,
                Effect::Verify => return vec!["verify".into()],
                Effect::Finish { outcome, reason } => panic!("finished {outcome:?}: {reason:?}"),
                Effect::RejectTool { .. } | Effect::Survey { .. } | Effect::ChangeModel { .. } => {
                    panic!("{effect:?}")
                }
            };
            let more = self.turn.handle(input);
            calls.extend(self.perform(more, answer));
        }
        calls
    }

    fn compact(&mut self, level: CompactionLevel, tokens: u64, room: u64) -> Input {
        let history = self.recorder.history();
        let shortening = Shortening { history: &history, turn: self.recorder.turn, tokens, room };
        let plan = self.plan.clone();
        let open = plan.iter().filter(|item| item.state != PlanState::Completed);
        let open: Vec<String> = open.map(|item| item.text.chars().take(16).collect()).collect();
        let diagnostics = vec![("test".to_owned(), "parser.rs:3: unknown name".to_owned())];
        let state = WorkState { plan, diagnostics, diff: " parser.rs | 2 +-\n".into() };
        let compaction = match level {
            CompactionLevel::Masked => shortening.mask(),
            CompactionLevel::Summarised => {
                let request = shortening.summary_request(Window::new(self.context, 8192)).unwrap();
                let tokens = self.tokens(&request) + u64::from(request.max_output_tokens);
                assert!(tokens <= self.context, "{tokens}");
                // A summary that is far too long, and says wrong things about the state.
                shortening.summarise(&"The plan is empty. ".repeat(2000), &state)
            }
            CompactionLevel::Fresh => Some(shortening.fresh(&state)),
        };
        let Some(compaction) = compaction else { return Input::Compacted { messages: None } };
        assert!(compaction.tokens_after < compaction.tokens_before, "{compaction:?}");
        self.levels.push(level);
        self.recorder.push(EventBody::ContextCompacted(compaction));
        let messages = self.recorder.history().into_messages();
        if level != CompactionLevel::Masked {
            let Message::User { text, .. } = &messages[0] else { panic!("{messages:?}") };
            let kept = [self.prompt.as_str(), "parser.rs | 2", "unknown name"];
            for kept in kept.into_iter().chain(open.iter().map(String::as_str)) {
                assert!(text.contains(kept), "{kept} is not in {text}");
            }
        }
        Input::Compacted { messages: Some(messages) }
    }

    /// A turn of so many steps, each with outputs of a few kilobytes; the server restarts now and then.
    fn work(&mut self, steps: usize, restart_every: usize) {
        let mut effects = self.turn.handle(Input::Begin);
        for step in 0..steps {
            let signed = self.signed;
            let mut answer = || {
                let command = format!(r#"{{"command":"step {step} {}"}}"#, "x".repeat(step % 7 * 40));
                let mut parts = vec![call("a", "shell", &command)];
                if step % 5 == 0 {
                    parts.push(call("b", "read", &format!(r#"{{"path":"file{step}"}}"#)));
                }
                if signed {
                    let thought = format!("thought {step}");
                    let signature = Some(format!("signature {step}"));
                    parts.insert(0, protocol::chat::Part::Reasoning { text: thought, signature });
                }
                completion(parts, Stop::Tools)
            };
            let calls = self.perform(effects, &mut answer);
            effects = Vec::new();
            for id in &calls {
                let text = format!("output of step {step}\n{}", "line of output\n".repeat(step % 11 * 35));
                self.recorder.result(id, ItemStatus::Completed, Some(&text));
                effects.extend(self.turn.handle(ended(id, &text)));
            }
            if step % 13 == 0 {
                assert_eq!(self.recorder.history().into_messages(), self.turn.messages());
            }
            if step % restart_every == restart_every - 1 {
                self.turn = Turn::new(Self::setup(self.context, &self.recorder, &self.prompt));
                effects = self.turn.handle(Input::Begin);
            }
        }
        let last = self.perform(effects, &mut || completion(vec![text("Renamed.")], Stop::End));
        assert_eq!(last, ["verify"]);
        assert_eq!(lines(&self.turn.handle(verified(vec![passing("test")]))), ["finish done"]);
    }

    fn times(&self, level: CompactionLevel) -> usize {
        self.levels.iter().filter(|known| **known == level).count()
    }
}

#[test]
fn a_turn_of_hundreds_of_steps_fits_a_small_window_and_ends() {
    let mut small = Small::new(16_384, 330);
    small.work(300, 1000);
    assert!(small.times(CompactionLevel::Masked) > 5, "{:?}", small.levels);
    assert!(small.times(CompactionLevel::Summarised) > 1, "{:?}", small.levels);
    assert!(small.levels.len() < 110, "too often: {:?}", small.levels.len());
    assert!(small.largest > 8_000, "the window is used: {}", small.largest);
}

/// A prompt with what matters in its middle, and a plan of fifty items.
fn long_prompt_and_plan(lines: usize) -> (String, Vec<PlanItem>) {
    let line = |number: usize| {
        format!("Requirement {number}: keep line {number} as it was, and mind the details.\n")
    };
    let mut prompt: String = (0..lines).map(line).collect();
    let middle = prompt.len() / 2;
    prompt.insert_str(middle, " Keep the word heliotrope in mind. ");
    let item = |number: usize| {
        let state = if number < 3 { PlanState::Completed } else { PlanState::Pending };
        PlanItem { text: format!("plan item {number:02}: {}", "word ".repeat(40)), state }
    };
    (prompt.trim().to_owned(), (0..50).map(item).collect())
}

#[test]
fn a_long_prompt_and_every_open_item_of_a_long_plan_are_put_back() {
    // A third of the room, nearly all that a prompt may have, and a language in which words are more tokens.
    for (lines, rate) in [(140, 300), (190, 300), (140, 454)] {
        let (prompt, plan) = long_prompt_and_plan(lines);
        let mut small = Small::with(16_384, rate, &prompt, plan);
        small.work(120, 50);
        assert!(small.times(CompactionLevel::Summarised) > 1, "{:?}", small.levels);
        // What is left of the room is a few steps; they are not lost before the model has seen them.
        assert!(small.times(CompactionLevel::Summarised) < 70, "too often: {:?}", small.levels);
        assert_eq!(small.times(CompactionLevel::Fresh), 0, "{:?}", small.levels);
    }
}

#[test]
fn earlier_prompts_are_put_back_as_far_as_there_is_room() {
    let mut recorder = Recorder::new();
    let long = "An old and long one. ".repeat(100);
    for prompt in ["First.", &long, "Third."] {
        recorder.prompt(prompt);
        recorder.answer(&completion(vec![text("Yes.")], Stop::End));
    }
    recorder.prompt(&"Now this. ".repeat(700));
    let history = recorder.history();
    let shortening = Shortening { history: &history, turn: recorder.turn, tokens: 9_000, room: 9_000 };
    let opening = shortening.fresh(&WorkState::default()).text.unwrap();
    assert!(opening.contains("Now this. ".repeat(700).trim()), "{opening}");
    assert!(opening.contains("\nThe user's prompt:\nThird.\n"), "{opening}");
    assert!(opening.contains("(2 earlier prompts are left out.)"), "{opening}");
}

#[test]
fn restarts_in_the_middle_change_nothing_for_the_model() {
    let mut small = Small::new(16_384, 250);
    small.work(150, 7);
    assert!(small.times(CompactionLevel::Summarised) > 0, "{:?}", small.levels);
}

#[test]
fn signed_reasoning_stays_with_its_calls() {
    let mut small = Small::new(16_384, 250);
    small.signed = true;
    small.work(120, 1000);
    let signatures = |message: &Message| match message {
        Message::Assistant { parts } => {
            let signed = |part: &protocol::chat::Part| {
                matches!(part, protocol::chat::Part::Reasoning { signature: Some(_), .. })
            };
            Some(signed(&parts[0]) || parts.len() == 1)
        }
        Message::User { .. } | Message::Tools { .. } => None,
    };
    assert!(small.turn.messages().iter().filter_map(signatures).all(|signed| signed));
}

#[test]
fn a_model_that_can_read_less_than_was_thought_is_given_less() {
    let mut small = Small::new(200_000, 250);
    small.overflow_in = Some(30);
    small.work(60, 1000);
    assert_eq!(small.levels.first(), Some(&CompactionLevel::Masked), "{:?}", small.levels);
    // One that refuses whatever it is sent makes way for another one.
    let mut turn = begun();
    let mut inputs = 0;
    let mut effects = turn.handle(Input::Overflowed { message: "too long".into() });
    while !matches!(effects.last(), Some(Effect::ChangeModel { .. })) {
        inputs += 1;
        assert!(inputs < 20, "{effects:?}");
        effects = match effects.last() {
            Some(Effect::Compact { level: CompactionLevel::Fresh, .. }) => {
                turn.handle(Input::Compacted { messages: Some(vec![user("Fix it.")]) })
            }
            Some(Effect::Compact { .. }) => turn.handle(Input::Compacted { messages: None }),
            _ => turn.handle(Input::Overflowed { message: "too long".into() }),
        };
    }
    assert_eq!(texts(&effects), "too long");
    let profile = Profile { context: 200_000, ..Profile::default() };
    assert_eq!(lines(&turn.clone().handle(Input::ModelChanged { profile })), ["call model"]);
    assert_eq!(lines(&turn.handle(Input::ModelFailed { message: "no".into() })), ["finish failed"]);
}

#[test]
fn a_server_that_drops_what_it_cannot_read_is_noticed_and_given_less() {
    let profile = Profile { context: 32_768, cuts_in_silence: true, ..Profile::default() };
    let mut turn = Turn::new(Setup { profile, ..setup(vec![user(PROMPT)]) });
    let mut effects = turn.handle(Input::Begin);
    let (mut beyond, mut notes) = (0, Vec::new());
    for step in 0..60 {
        let Some(Effect::CallModel(request)) = effects.last() else { panic!("{effects:?}") };
        let tokens = prompt_bytes(request).len() as u64 * 2 / 7;
        beyond += u32::from(tokens > 8192);
        let usage = Usage { input: tokens.min(8192), output: 30, ..Usage::default() };
        let parts = vec![call("c", "shell", &format!(r#"{{"command":"step {step}"}}"#))];
        let answered = turn.handle(Input::Answered(Completion { parts, stop: Stop::Tools, usage }));
        notes.extend(answered.iter().filter(|effect| matches!(effect, Effect::Note { .. })).cloned());
        effects = turn.handle(ended("c", &format!("{step} {}", "some output\n".repeat(110))));
        while let Some(Effect::Compact { .. }) = effects.last() {
            let messages = vec![user(PROMPT), user("Summary.")];
            effects = turn.handle(Input::Compacted { messages: Some(messages) });
        }
    }
    assert!((1..=3).contains(&beyond), "{beyond} requests were cut");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(texts(&notes).contains("reads only 8192 tokens"), "{}", texts(&notes));
}

#[test]
fn a_server_that_always_reports_the_same_is_believed_to_read_everything() {
    let mut turn = Turn::new(setup(vec![user(PROMPT)]));
    let mut effects = turn.handle(Input::Begin);
    for step in 0..60 {
        assert_eq!(lines(&effects), ["call model"], "step {step}");
        let usage = Usage { input: 2048, output: 30, ..Usage::default() };
        let parts = vec![call("c", "shell", &format!(r#"{{"command":"step {step}"}}"#))];
        let answered = turn.handle(Input::Answered(Completion { parts, stop: Stop::Tools, usage }));
        assert!(!answered.iter().any(|effect| matches!(effect, Effect::Note { .. })), "step {step}");
        effects = turn.handle(ended("c", &format!("{step} {}", "some output\n".repeat(20))));
    }
}

#[test]
fn a_prompt_that_no_window_can_hold_is_cut_and_instructions_that_do_not_fit_need_another_model() {
    let mut recorder = Recorder::new();
    recorder.prompt(&"heliotrope ".repeat(10_000));
    let profile = Profile { context: 16_384, ..Profile::default() };
    let mut turn = Turn::new(Setup { profile, ..setup(recorder.fold()) });
    assert_eq!(lines(&turn.handle(Input::Begin)), ["compact summarised"]);
    assert_eq!(lines(&turn.handle(Input::Compacted { messages: None })), ["compact fresh"]);
    let history = recorder.history();
    let room = 20_000;
    let shortening = Shortening { history: &history, turn: recorder.turn, tokens: 50_000, room };
    recorder.push(EventBody::ContextCompacted(shortening.fresh(&WorkState::default())));
    let effects = turn.handle(Input::Compacted { messages: Some(recorder.fold()) });
    assert_eq!(lines(&effects), ["call model"]);

    let instructions = "Do this. ".repeat(10_000);
    let mut turn = Turn::new(Setup { profile, instructions, ..setup(vec![user("Go.")]) });
    let mut effects = turn.handle(Input::Begin);
    while let Some(Effect::Compact { .. }) = effects.last() {
        effects = turn.handle(Input::Compacted { messages: Some(vec![user("Go.")]) });
    }
    assert_eq!(lines(&effects), ["change model"], "another one may read more");
    insta::assert_snapshot!(texts(&effects), @"the instructions and the prompt alone are longer than the 16384 tokens that the model can read: shorten them, or choose a model with a larger context");
}

/// The prompt as bytes, in the order in which providers read it.
fn prompt_bytes(request: &Request) -> Vec<u8> {
    let tools = serde_json::to_string::<Vec<ToolSpec>>(&request.tools).unwrap();
    let messages = request.messages.iter().map(|message| serde_json::to_string(message).unwrap());
    [request.system.clone(), tools].into_iter().chain(messages).collect::<String>().into_bytes()
}

#[test]
fn most_of_each_prompt_is_the_prompt_before() {
    let mut recorder = Recorder::new();
    recorder.prompt(PROMPT);
    let mut turn = Turn::new(setup(recorder.fold()));
    let mut effects = turn.handle(Input::Begin);
    let (mut same, mut all, mut before) = (0, 0, Vec::new());
    for step in 0..50 {
        let Some(Effect::CallModel(request)) = effects.last() else { panic!("{effects:?}") };
        let bytes = prompt_bytes(request);
        if step > 0 {
            same += bytes.iter().zip(&before).take_while(|(a, b)| a == b).count();
            all += bytes.len();
        }
        before = bytes;
        turn.handle(calls(&[("c", "shell", &format!(r#"{{"command":"step {step}"}}"#))]));
        let text = "some output\n".repeat(step * 37 % 200);
        effects = turn.handle(ended("c", &format!("{step} {text}")));
    }
    assert!(same * 100 >= all * 95, "{same} of {all} bytes");
}

#[test]
fn the_plan_and_what_the_checks_said_last_are_never_masked() {
    let mut recorder = Recorder::new();
    recorder.prompt("Go.");
    let step = |recorder: &mut Recorder, tool: &str, arguments: serde_json::Value, output: &str| {
        recorder.answer(&completion(vec![call("c", tool, &arguments.to_string())], Stop::Tools));
        recorder.result("c", ItemStatus::Completed, Some(output));
    };
    let plan = serde_json::json!({"items": format!("[x] look\n[>] rename {}", "it ".repeat(200))});
    let filler = |recorder: &mut Recorder| {
        for _ in 0..12 {
            step(recorder, "shell", serde_json::json!({"command": "make"}), &"z".repeat(900));
        }
    };
    step(&mut recorder, "check", serde_json::json!({}), &format!("first check {}", "f".repeat(900)));
    step(&mut recorder, "plan", plan, "The plan is written down.");
    step(&mut recorder, "check", serde_json::json!({}), &format!("second check {}", "s".repeat(900)));
    filler(&mut recorder);
    let mask = |recorder: &mut Recorder| {
        let history = recorder.history();
        let shortening = Shortening { history: &history, turn: recorder.turn, tokens: 12_000, room: 8_000 };
        let compaction = shortening.mask().unwrap();
        recorder.push(EventBody::ContextCompacted(compaction));
        serde_json::to_string(&recorder.fold()).unwrap()
    };
    let sent = mask(&mut recorder);
    assert!(sent.contains("[>] rename it it it"), "{sent}");
    assert!(sent.contains(&"s".repeat(900)) && !sent.contains(&"f".repeat(900)), "{sent}");
    assert!(sent.contains("left out to save room"), "{sent}");
    // Once they ran again, what they said before is old.
    step(&mut recorder, "check", serde_json::json!({}), "passed");
    filler(&mut recorder);
    let sent = mask(&mut recorder);
    assert!(sent.contains("[>] rename it it it") && !sent.contains(&"s".repeat(900)), "{sent}");
}

#[test]
fn a_compaction_masks_old_results_and_leaves_new_ones() {
    let mut recorder = Recorder::new();
    recorder.prompt("Go.");
    for step in 0..20 {
        let write = serde_json::json!({"path": "a", "content": "y".repeat(900)}).to_string();
        recorder.answer(&completion(vec![call("c", "write", &write)], Stop::Tools));
        recorder.result("c", ItemStatus::Completed, Some(&format!("result {step}\n{}", "z".repeat(900))));
    }
    let history: History = recorder.history();
    let shortening = Shortening { history: &history, turn: recorder.turn, tokens: 12_000, room: 30_000 };
    let compaction = shortening.mask().unwrap();
    recorder.push(EventBody::ContextCompacted(compaction));
    let messages = recorder.fold();
    assert_eq!(messages.len(), 41);
    let json: Vec<String> = messages.iter().map(|message| serde_json::to_string(message).unwrap()).collect();
    assert!(json[1].contains("left out to save room: 900 bytes") && !json[1].contains("yyyy"), "{}", json[1]);
    assert!(json[2].contains(r#"909 bytes that began with \"result 0\""#), "{}", json[2]);
    assert!(json[39].contains("yyyy") && json[40].contains("zzzz"));
    assert_pairs(&messages);
    // A second one over the same part changes nothing more.
    let history = recorder.history();
    assert_eq!(history.messages(), messages);
    recorder.finished(Outcome::Done);
    assert_eq!(recorder.fold(), messages);
}
