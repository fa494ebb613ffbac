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
        let mut recorder = Recorder::new();
        recorder.prompt(PROMPT);
        let turn = Turn::new(Self::setup(context, &recorder));
        let (levels, largest, overflow_in, signed) = (Vec::new(), 0, None, false);
        Self { context, rate, recorder, turn, levels, largest, overflow_in, signed }
    }

    fn setup(context: u64, recorder: &Recorder) -> Setup {
        let history = recorder.history();
        Setup {
            instructions: INSTRUCTIONS.into(),
            limits: Limits { steps: 1000, rounds: 2, max_output_tokens: 8192 },
            profile: Profile { context, ..Profile::default() },
            task: PROMPT.into(),
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
                Effect::Mistake { .. } => continue,
                Effect::Verify => return vec!["verify".into()],
                Effect::Finish { outcome, reason } => panic!("finished {outcome:?}: {reason:?}"),
                Effect::RejectTool { .. } | Effect::Survey { .. } => panic!("{effect:?}"),
            };
            let more = self.turn.handle(input);
            calls.extend(self.perform(more, answer));
        }
        calls
    }

    fn compact(&mut self, level: CompactionLevel, tokens: u64, room: u64) -> Input {
        let history = self.recorder.history();
        let shortening = Shortening { history: &history, turn: self.recorder.turn, tokens, room };
        let plan = vec![PlanItem { text: "rename it".into(), state: PlanState::InProgress }];
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
            for kept in [PROMPT, "[>] rename it", "parser.rs | 2", "unknown name"] {
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
                self.turn = Turn::new(Self::setup(self.context, &self.recorder));
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
    // One that refuses whatever it is sent ends the turn with what it said.
    let mut turn = begun();
    let mut inputs = 0;
    let mut effects = turn.handle(Input::Overflowed { message: "too long".into() });
    while !matches!(effects.last(), Some(Effect::Finish { .. })) {
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
}

#[test]
fn a_prompt_that_no_window_can_hold_is_cut_and_instructions_that_do_not_fit_end_the_turn() {
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
    assert_eq!(lines(&effects), ["finish failed"]);
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
