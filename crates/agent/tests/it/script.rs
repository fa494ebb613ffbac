//! Short words for writing turns down: what the model answers, and effects as one line each.

use agent::{CheckResult, Effect, Input, Limits, Profile, Setup, Turn, Verification};
use protocol::chat::{Call, Completion, Message, Part, Stop};
use protocol::{Check, Diagnostic, Mistake, Report, Severity, TestCase, TestStatus, Usage};

pub(crate) fn setup(messages: Vec<Message>) -> Setup {
    Setup {
        messages,
        instructions: String::new(),
        checks: vec![Check { name: "test".into(), run: "make test".into(), parser: "auto".into() }],
        limits: Limits { rounds: 2, max_output_tokens: 1000 },
        profile: Profile::default(),
        task: "Fix it.".into(),
        earlier: Vec::new(),
        unfinished: Vec::new(),
        offers: agent::tools::Offers::default(),
        measured: None,
        mcp: Vec::new(),
    }
}

pub(crate) fn user(text: &str) -> Message {
    Message::user(text)
}

/// A turn that waits for its first answer.
pub(crate) fn begun() -> Turn {
    begun_with(setup(vec![user("Fix it.")]))
}

pub(crate) fn begun_with(setup: Setup) -> Turn {
    let mut turn = Turn::new(setup);
    assert_eq!(lines(&turn.handle(Input::Begin)), ["call model"]);
    turn
}

pub(crate) fn completion(parts: Vec<Part>, stop: Stop) -> Completion {
    Completion { parts, stop, usage: Usage::default() }
}

pub(crate) fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

pub(crate) fn call(id: &str, tool: &str, arguments: &str) -> Part {
    Part::Call(Call { id: id.into(), tool: tool.into(), arguments: arguments.into() })
}

pub(crate) fn says(words: &str) -> Input {
    Input::Answered(completion(vec![text(words)], Stop::End))
}

pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Input {
    let parts = calls.iter().map(|(id, tool, arguments)| call(id, tool, arguments)).collect();
    Input::Answered(completion(parts, Stop::Tools))
}

pub(crate) fn stopped(words: &str, stop: Stop) -> Input {
    Input::Answered(completion(vec![text(words)], stop))
}

pub(crate) fn ended(id: &str, text: &str) -> Input {
    Input::ToolEnded { call_id: id.into(), text: text.into(), is_error: false, images: Vec::new() }
}

pub(crate) fn verified(checks: Vec<CheckResult>) -> Input {
    Input::Verified(Verification { changed: true, checks })
}

pub(crate) fn passing(name: &str) -> CheckResult {
    CheckResult { name: name.into(), passed: true, ..CheckResult::default() }
}

pub(crate) fn failing(name: &str, tests: &[&str]) -> CheckResult {
    let case = |name: &&str| TestCase {
        name: (*name).into(),
        status: TestStatus::Failed,
        file: None,
        line: None,
        message: "boom".into(),
        ..TestCase::default()
    };
    let report = Report { tests: tests.iter().map(case).collect(), ..Report::default() };
    let digest = format!("failed: {}", tests.join(", "));
    CheckResult { name: name.into(), report, digest, ..CheckResult::default() }
}

pub(crate) fn not_compiling(name: &str, message: &str, line: u32) -> CheckResult {
    let error = Diagnostic {
        severity: Severity::Error,
        file: Some("src/lib.rs".into()),
        line: Some(line),
        message: message.into(),
        ..Diagnostic::default()
    };
    let report = Report { diagnostics: vec![error], ..Report::default() };
    CheckResult { name: name.into(), report, digest: message.into(), ..CheckResult::default() }
}

/// Effects as text, one line each, without the long texts and without what is only counted.
pub(crate) fn lines(effects: &[Effect]) -> Vec<String> {
    let told = |effect: &&Effect| !matches!(effect, Effect::Mistake { .. });
    effects.iter().filter(told).map(line).collect()
}

/// The mistakes that the effects count.
pub(crate) fn mistakes(effects: &[Effect]) -> Vec<Mistake> {
    let mistake = |effect: &Effect| match effect {
        Effect::Mistake { mistake } => Some(*mistake),
        _ => None,
    };
    effects.iter().filter_map(mistake).collect()
}

fn line(effect: &Effect) -> String {
    match effect {
        Effect::CallModel(_) => "call model".into(),
        Effect::RunTool { call_id, tool } => format!("run {call_id} {}", tool.tool()),
        Effect::RejectTool { call_id, tool, .. } => format!("reject {call_id} {tool}"),
        Effect::Mistake { mistake } => format!("mistake {mistake:?}"),
        Effect::Tell { .. } => "tell".into(),
        Effect::Note { .. } => "note".into(),
        Effect::Verify => "verify".into(),
        Effect::Compact { level, .. } => format!("compact {level:?}").to_lowercase(),
        Effect::Survey { .. } => "survey".into(),
        Effect::ChangeModel { .. } => "change model".into(),
        Effect::Finish { outcome, .. } => format!("finish {}", outcome.as_str()),
    }
}

/// The texts that the effects carry: what the model is told, and why a turn ended.
pub(crate) fn texts(effects: &[Effect]) -> String {
    let texts = effects.iter().filter_map(|effect| match effect {
        Effect::RejectTool { text, .. } | Effect::Tell { text } | Effect::Note { text } => {
            Some(text.as_str())
        }
        Effect::Finish { reason, .. } => reason.as_deref(),
        Effect::ChangeModel { reason } => Some(reason.as_str()),
        Effect::CallModel(_)
        | Effect::Mistake { .. }
        | Effect::RunTool { .. }
        | Effect::Verify
        | Effect::Compact { .. }
        | Effect::Survey { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n---\n")
}
