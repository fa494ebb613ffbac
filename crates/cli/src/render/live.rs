//! A session as it happens, in a terminal or as JSON lines, until its turn is over.

use std::collections::HashMap;
use std::io::IsTerminal;

use protocol::event::{
    Channel, Compaction, CompactionLevel, DeliveryState, SandboxState, ServiceState, Verdict,
};
use protocol::item::{CheckReport, ToolCall};
use protocol::{
    Changes, Code, Ephemeral, EphemeralBody, Event, EventBody, Gate, Item, ItemId, ItemKind, ItemStatus,
    KnownCheck, LineageId, NotificationState, Outcome, SessionId, Status,
};

use sandbox::egress::with_port;

use super::style::{Paint, say, stderr};
use super::{approval, budget, plan, print, summary, text};
use crate::api::{Api, Meaning};
use crate::exit::Exit;
use crate::interrupt::Interrupts;

/// Lines of a command's output that are shown while it runs.
const OUTPUT_LINES: usize = 12;

/// Follows a session.
pub(crate) struct Watch<'a> {
    pub(crate) api: &'a Api,
    pub(crate) session: SessionId,
    pub(crate) after: u64,
    pub(crate) lineage: Option<LineageId>,
    pub(crate) on_interrupt: OnInterrupt,
    pub(crate) json: bool,
}

/// What an interrupt does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// The turn is stopped, and its end is awaited.
    Stop,
    /// The session goes on without us.
    Leave,
}

impl Watch<'_> {
    /// Until nothing is being worked on.
    pub(crate) async fn run(self, interrupts: &mut Interrupts) -> anyhow::Result<Exit> {
        let mut stream = self.api.follow(self.session, self.after, self.lineage);
        let mut view = View::new(stderr());
        let mut progress = Progress::default();
        let mut interrupted = false;
        loop {
            let frame = tokio::select! {
                frame = stream.next() => frame?,
                _signal = interrupts.next() => {
                    if interrupted || self.on_interrupt == OnInterrupt::Leave {
                        return Ok(Exit::Interrupted);
                    }
                    interrupted = true;
                    super::style::note("stopping; interrupt again to leave at once");
                    self.api.stop(self.session, false).await?;
                    continue;
                }
            };
            if self.json {
                print::line(&frame.text)?;
            }
            match frame.meaning {
                Some(Meaning::Event(event)) => {
                    progress.event(&event);
                    if !self.json {
                        view.event(&event);
                    }
                }
                Some(Meaning::Ephemeral(ephemeral)) => {
                    progress.ephemeral(&ephemeral);
                    if !self.json {
                        view.ephemeral(&ephemeral);
                    }
                }
                Some(Meaning::StartOver) => {
                    (view, progress) = (View::new(stderr()), Progress::default());
                    super::style::note(
                        "the session was restored from a backup: what was shown is not what it has now, so it is shown \
                         again from its beginning",
                    );
                }
                None => {}
            }
            if progress.asks_for_a_look() {
                let session = self.api.session(self.session).await?;
                if session.status == Status::OutOfBudget {
                    progress.held = true;
                    super::style::note(&text::harmless(session.reason.as_deref().unwrap_or("out of budget")));
                }
            }
            if let Some(exit) = progress.over() {
                // On a terminal the words were seen already; a program that reads them has not.
                if !self.json
                    && !std::io::stdout().is_terminal()
                    && let Some(words) = &view.last_message
                {
                    print::line(words)?;
                }
                return Ok(if interrupted { Exit::Interrupted } else { exit });
            }
        }
    }
}

/// Whether there is still something to wait for.
#[derive(Debug, Default)]
struct Progress {
    live: bool,
    working: bool,
    queued: u32,
    waiting: bool,
    paused: bool,
    /// What waits stays, because a budget is used up.
    held: bool,
    /// The last frame may be followed by nothing although something waits.
    at_rest: bool,
    outcome: Option<Outcome>,
}

impl Progress {
    fn event(&mut self, event: &Event) {
        self.at_rest = matches!(event.body, EventBody::TurnFinished { .. } | EventBody::PromptQueued { .. });
        match &event.body {
            EventBody::PromptQueued { .. } => {
                self.queued += 1;
                self.held = false;
            }
            EventBody::PromptRemoved { .. } => self.queued = self.queued.saturating_sub(1),
            EventBody::TurnStarted { .. } => {
                self.queued = self.queued.saturating_sub(1);
                self.working = true;
            }
            EventBody::TurnFinished { outcome, .. } => {
                self.working = false;
                self.outcome = Some(*outcome);
                self.held = *outcome == Outcome::OutOfBudget;
            }
            EventBody::ApprovalRequested { .. } => self.waiting = true,
            // What waited is a turn, also where its beginning was not seen.
            EventBody::ApprovalResolved { .. } => (self.waiting, self.working) = (false, true),
            EventBody::QueuePaused { .. } => self.paused = true,
            EventBody::QueueResumed { .. } => (self.paused, self.held) = (false, false),
            _ => {}
        }
    }

    fn ephemeral(&mut self, ephemeral: &Ephemeral) {
        if let EphemeralBody::Live { .. } = ephemeral.body {
            self.live = true;
            self.at_rest = true;
        } else {
            self.at_rest = false;
        }
    }

    /// Whether only the session can tell if something comes: a budget of its own may be used up.
    fn asks_for_a_look(&self) -> bool {
        self.live && self.at_rest && !self.working && !self.held && self.queued > 0
    }

    fn over(&self) -> Option<Exit> {
        if !self.live {
            return None;
        }
        if self.waiting {
            return Some(Exit::Waiting);
        }
        if self.held && !self.working {
            return Some(Exit::Failed);
        }
        if self.paused && !self.working && self.queued > 0 {
            // What waits may stay because a turn failed.
            let failed = self.outcome == Some(Outcome::Failed);
            return Some(if failed { Exit::Failed } else { Exit::Waiting });
        }
        let idle = !self.working && self.queued == 0;
        // A stream that begins after the last turn has no outcome to show.
        idle.then(|| self.outcome.map_or(Exit::Done, Exit::from))
    }
}

/// What has been shown.
struct View {
    paint: Paint,
    outputs: HashMap<ItemId, Shown>,
    /// What a person was asked for last.
    asks: Gate,
    last_message: Option<String>,
}

/// Output of one command.
#[derive(Default)]
struct Shown {
    partial: String,
    lines: usize,
    /// Where each of its texts ends so far.
    ends: HashMap<Channel, u64>,
}

impl Shown {
    /// What of a piece was not shown yet: after a connection broke, or was too slow, the text comes anew.
    fn new_part<'a>(&mut self, channel: Channel, offset: u64, piece: &'a str) -> &'a str {
        let end = self.ends.entry(channel).or_default();
        let known = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        *end = (*end).max(offset + piece.len() as u64);
        piece.get(known..).unwrap_or_default()
    }
}

impl View {
    fn new(paint: Paint) -> Self {
        Self { paint, outputs: HashMap::new(), asks: Gate::default(), last_message: None }
    }

    fn event(&mut self, event: &Event) {
        let paint = self.paint;
        match &event.body {
            EventBody::SessionCreated { environment, model, .. } => {
                say(&paint.dim(&format!("session  {} in {environment}, model {model}", event.session)));
            }
            EventBody::PromptQueued { text: words, images, .. } => {
                say(&format!("{} {}", paint.work("❯"), paint.bold(&text::harmless(words))));
                for image in images {
                    say(&paint.dim(&format!("  with an image: {}", text::harmless(&image.describe()))));
                }
            }
            EventBody::SandboxChanged { state, detail, duration_ms, .. } => {
                self.sandbox(*state, detail.as_deref(), *duration_ms)
            }
            EventBody::ItemStarted { item, .. } => self.started(item),
            EventBody::ItemCompleted { item, .. } => self.completed(item),
            EventBody::WorkJudged { judgement, .. } => {
                let told = format!("  {}", text::judgement(judgement));
                match judgement.verdict {
                    Verdict::Good => say(&paint.dim(&told)),
                    Verdict::Doubtful => say(&paint.warn(&told)),
                }
            }
            EventBody::RetryScheduled { attempt, attempts, reason, delay_ms, wake_at, .. } => {
                let at = wake_at.map(|at| format!(", at {}", text::clock(at))).unwrap_or_default();
                say(&paint.warn(&format!(
                    "  {}; try {attempt} of {attempts} in {}{at}",
                    text::harmless(reason.trim_end_matches('.')),
                    text::duration(*delay_ms)
                )))
            }
            EventBody::ChecksKnown { checks, .. } => {
                for known in checks.iter().filter(|known| !known.passed) {
                    let name = text::harmless(&known.name);
                    say(&paint.dim(&format!("  check {name} failed before this turn began{}", failures(known))));
                }
            }
            EventBody::PlanUpdated { items, .. } => say(&plan::lines(items, paint)),
            EventBody::MemoryChanged { .. } => {
                let line = super::memory::line(&event.body).unwrap_or_default();
                say(&paint.dim(&format!("  memory: {line}")));
            }
            EventBody::ModelChanged { model, from, turn, reason, .. } => {
                let words = match (turn, reason) {
                    (Some(_), Some(reason)) => {
                        let reason = text::harmless(reason.trim_end_matches('.'));
                        format!("{from} failed: {reason}; {model} takes over for this turn")
                    }
                    (Some(_), None) => format!("{model} takes over from {from} for this turn"),
                    (None, _) => format!("{} chose {model} instead of {from}", text::harmless(&event.actor.id)),
                };
                say(&paint.warn(&format!("  {words}")));
            }
            EventBody::SessionRenamed { title, .. } => {
                say(&paint.dim(&format!("  it is called: {}", text::harmless(title))));
            }
            EventBody::ContextCompacted(compaction) => say(&paint.dim(&format!("  {}", compacted(compaction)))),
            EventBody::DeliveryUpdated(delivery) => match delivery.state {
                DeliveryState::Intended | DeliveryState::Opening => {}
                DeliveryState::Opened => say(&format!(
                    "{} opened {}",
                    paint.good("✓"),
                    text::harmless(delivery.url.as_deref().unwrap_or("a pull request"))
                )),
                DeliveryState::Pushed => {
                    let commit: String =
                        delivery.commit.iter().flat_map(|commit| commit.chars().take(10)).collect();
                    say(&format!(
                        "{} pushed {} at {commit} to {}",
                        paint.good("✓"),
                        paint.bold(&delivery.branch),
                        delivery.remote
                    ));
                }
                DeliveryState::Failed | DeliveryState::Unknown => say(&format!(
                    "{} not delivered: {}{}",
                    paint.bad("✗"),
                    delivery.repository.as_ref().map(|name| format!("{name}: ")).unwrap_or_default(),
                    text::harmless(delivery.error.as_deref().unwrap_or("unknown reason"))
                )),
            },
            EventBody::NotificationUpdated(told) if told.state == NotificationState::Failed => {
                say(&paint.warn(&format!(
                    "  not notified: {}",
                    text::harmless(told.error.as_deref().unwrap_or("unknown reason"))
                )));
            }
            EventBody::EgressDecided(decision) if !decision.allowed => say(&paint.warn(&format!(
                "  refused {}: {}",
                text::harmless(&with_port(&decision.host, decision.port)),
                text::harmless(&decision.rule)
            ))),
            EventBody::SnapshotTaken { snapshot, blurred: true, .. } => say(&paint.warn(&format!(
                "  {snapshot} was taken while a process went on that could not be stopped: files that it wrote can be of \
                 different moments"
            ))),
            EventBody::LimitExceeded { message, .. } => {
                say(&paint.warn(&format!("  {}", text::harmless(message))))
            }
            EventBody::ServiceChanged { service, state, detail, .. } => {
                let words = match state {
                    ServiceState::Down => "is down",
                    ServiceState::Up => "runs again",
                };
                let detail = detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
                say(&paint.warn(&format!("  service {service} {words}{}", text::harmless(&detail))));
            }
            EventBody::ApprovalRequested { question, gate, call, .. } => {
                let question: Vec<String> = question.lines().map(text::harmless).collect();
                say(&format!("{} {}", paint.warn("?"), paint.bold(&question.join("\n"))));
                call.iter().flat_map(|call| approval::options(call)).for_each(|option| say(&option));
                self.asks = *gate;
                if *gate != Gate::Question {
                    let look = format!("look at it with: slipway approve {} --show", event.session);
                    say(&paint.dim(&format!("  {look}")));
                }
                say(&paint.dim(&format!("  {}", approval::how(event.session, *gate, call.as_deref()))));
            }
            EventBody::PolicyChanged { .. } => {
                say(&paint.dim(&format!("  {} changed the policy", text::harmless(&event.actor.id))));
            }
            EventBody::ApprovalResolved { approved, .. } => {
                let mark = if *approved { paint.good("✓") } else { paint.bad("✗") };
                let word = approval::word(self.asks, *approved);
                say(&format!("{mark} {word} by {}", text::harmless(&event.actor.id)));
            }
            EventBody::TurnStopping { .. } => {
                say(&paint.warn(&format!("  {} stops the turn", text::harmless(&event.actor.id))));
            }
            EventBody::QueuePaused { reason, .. } => {
                say(&paint.warn(&format!("  the queue is paused: {}", text::harmless(reason))));
            }
            EventBody::SessionRestored { .. } => say(&paint.warn("  the session was restored from a backup")),
            EventBody::BudgetWarned(warning) => {
                say(&paint.warn(&format!("  {}", budget::warning(warning))));
            }
            EventBody::BudgetChanged { .. } => {
                say(&paint.dim(&format!("  {} changed the budget", text::harmless(&event.actor.id))));
            }
            EventBody::QueueResumed { .. } => say(&paint.dim("  the queue goes on")),
            EventBody::ErrorRaised { code: Code::ModelAdapted, message, .. } => {
                say(&paint.dim(&format!("  note: {}", text::harmless(message))));
            }
            EventBody::ErrorRaised { message, hint, .. } => {
                say(&format!("{} {}", paint.bad("error:"), text::harmless(message)));
                if let Some(hint) = hint {
                    say(&format!("  {}", text::harmless(hint)));
                }
            }
            EventBody::TurnFinished { outcome, reason, receipt, .. } => {
                say(&summary::turn(*outcome, reason.as_deref(), receipt, paint));
            }
            _ => {}
        }
    }

    fn sandbox(&self, state: SandboxState, detail: Option<&str>, duration_ms: Option<u64>) {
        let took = duration_ms.map(|ms| format!(" in {}", text::duration(ms))).unwrap_or_default();
        let words = match state {
            SandboxState::Creating => return,
            SandboxState::Building => {
                let so_far =
                    duration_ms.map(|ms| format!("; {} so far", text::duration(ms))).unwrap_or_default();
                format!("building {}{so_far}", text::harmless(detail.unwrap_or("the image")))
            }
            SandboxState::Syncing => {
                format!("sandbox ready{took}; fetching the branch, reads are served meanwhile")
            }
            SandboxState::Preparing => format!("sandbox started{took}; preparing the workspace"),
            SandboxState::Ready => format!("workspace ready{took}"),
            SandboxState::Stopped => match detail {
                Some(detail) => format!("sandbox stopped: {}", text::harmless(detail)),
                None => "sandbox stopped; the work is kept".to_owned(),
            },
            SandboxState::Lost => {
                format!("the sandbox was lost: {}", text::harmless(detail.unwrap_or("unknown reason")))
            }
        };
        say(&self.paint.dim(&format!("  {words}")));
    }

    fn started(&mut self, item: &Item) {
        match &item.kind {
            ItemKind::ToolCall(call) if call.tool == "shell" => {
                say(&format!("{} {}", self.paint.work("▸"), describe(call)))
            }
            ItemKind::Report(report) => {
                say(&format!(
                    "{} check {}: {}",
                    self.paint.work("▸"),
                    report.check,
                    self.paint.dim(&text::harmless(&report.command))
                ));
            }
            _ => {}
        }
    }

    fn completed(&mut self, item: &Item) {
        let paint = self.paint;
        match &item.kind {
            ItemKind::Message { text: words } if !words.trim().is_empty() => {
                say(&text::harmless(words.trim()));
                self.last_message = Some(words.trim().to_owned());
            }
            ItemKind::ToolCall(call) => self.tool(item, call),
            ItemKind::Report(report) => {
                self.outputs.remove(&item.id);
                say(&check(report, paint));
            }
            ItemKind::Notice { text: words, .. } => say(&paint.dim(&indent(&text::harmless(words), 6))),
            _ => {}
        }
    }

    fn tool(&mut self, item: &Item, call: &ToolCall) {
        let paint = self.paint;
        let mark = match item.status {
            ItemStatus::Completed if call.exit_code.unwrap_or(0) == 0 => paint.good("✓"),
            ItemStatus::Cancelled => paint.warn("■"),
            _ => paint.bad("✗"),
        };
        let shown = self.outputs.remove(&item.id).unwrap_or_default();
        if shown.lines > OUTPUT_LINES {
            // How many is not known: what streams too fast is left out on the way.
            say(&paint.dim("  │ … and more"));
        }
        let took = text::duration(call.duration_ms.unwrap_or(0));
        let what = match (call.tool.as_str(), call.exit_code) {
            ("shell", Some(code)) => format!("exit {code}"),
            ("shell", None) => match &call.process {
                Some(process) => format!("runs in the background as {}", process.id),
                None => "ended".to_owned(),
            },
            _ => describe(call),
        };
        // What a check says has been shown as its report, and a plan as itself.
        if call.tool == "check" && call.output.is_some()
            || call.tool == "plan" && item.status == ItemStatus::Completed
        {
            return;
        }
        say(&format!("{mark} {what} {}", paint.dim(&took)));
        for line in hooked(call) {
            say(&paint.dim(&indent(&line, 6)));
        }
        // A command that ran has shown its output; one that was refused has only its reason.
        let ran = call.tool == "shell" && call.exit_code.is_some();
        let failed = !matches!(item.status, ItemStatus::Completed);
        if failed
            && !ran
            && let Some(output) = &call.output
        {
            say(&paint.dim(&indent(&text::harmless(&output.text), 6)));
        }
    }

    fn ephemeral(&mut self, ephemeral: &Ephemeral) {
        let EphemeralBody::Delta { item, channel, offset, text: piece } = &ephemeral.body else { return };
        if !matches!(channel, Channel::Stdout | Channel::Stderr) {
            return;
        }
        let shown = self.outputs.entry(*item).or_default();
        let new = shown.new_part(*channel, *offset, piece);
        shown.partial.push_str(new);
        while let Some(end) = shown.partial.find('\n') {
            let line: String = shown.partial.drain(..=end).collect();
            shown.lines += 1;
            if shown.lines <= OUTPUT_LINES {
                say(&self.paint.dim(&format!("  │ {}", text::harmless(line.trim_end()))));
            }
        }
        // A line without an end must not grow without one.
        if shown.partial.len() > 64 * 1024 {
            shown.partial.clear();
        }
    }
}

/// A tool call in one line.
pub(crate) fn describe(call: &ToolCall) -> String {
    let argument = ["command", "path", "pattern", "name", "url", "id", "question", "subject", "query"]
        .iter()
        .find_map(|key| call.input.get(*key)?.as_str());
    match (call.tool.as_str(), argument) {
        ("shell", Some(command)) => format!("$ {}", text::first_line(&text::harmless(command))),
        (tool, Some(argument)) => {
            format!("{} {}", tool_name(tool), text::first_line(&text::harmless(argument)))
        }
        (tool, None) => tool_name(tool),
    }
}

/// What hooks did to a call, a line for each that did something.
pub(crate) fn hooked(call: &ToolCall) -> Vec<String> {
    let did = call.hooks.iter().filter(|run| run.did != protocol::HookDeed::Passed);
    let line = |run: &protocol::HookRun| {
        let reason = run.reason.as_ref().map(|reason| format!(": {}", text::first_line(reason)));
        let name = text::first_line(&text::harmless(&run.run));
        text::harmless(&format!("hook {name} {} it{}", run.did.as_str(), reason.unwrap_or_default()))
    };
    did.map(line).collect()
}

/// The name of a tool, which the model may have made up.
fn tool_name(tool: &str) -> String {
    text::first_line(&text::harmless(tool))
}

/// How the context became shorter.
fn compacted(compaction: &Compaction) -> String {
    let how = match compaction.level {
        CompactionLevel::Masked => "old outputs are left out",
        CompactionLevel::Summarised => "the older part is a summary now",
        CompactionLevel::Fresh => "it begins afresh from the state of the work",
    };
    let Compaction { tokens_before, tokens_after, .. } = compaction;
    format!("context made shorter, about {tokens_before} to {tokens_after} tokens: {how}")
}

/// A check's result: passed in one line, failed with what is wrong.
fn check(report: &CheckReport, paint: Paint) -> String {
    let took = paint.dim(&text::duration(report.duration_ms.unwrap_or(0)));
    let Some(parsed) = &report.report else {
        return format!("{} check {} {took}", paint.warn("■"), report.check);
    };
    let digest = match report.passed {
        Some(false) => checks::digest_failed(parsed),
        Some(true) | None => checks::digest(parsed),
    };
    let mut lines = digest.lines();
    let mut head = lines.next().unwrap_or("").to_owned();
    if let Some(changes) = &report.changes {
        head.push_str(&since(changes));
    }
    let part = if report.partial { " (the part that the changes touch)" } else { "" };
    match report.passed {
        Some(true) => format!("{} check {}{part} passed: {head} {took}", paint.good("✓"), report.check),
        _ => {
            let rest: Vec<&str> = lines.take(30).collect();
            let mark = paint.bad("✗");
            let head =
                format!("{mark} check {}{part} failed: {} {took}", report.check, text::harmless(&head));
            if rest.is_empty() {
                head
            } else {
                format!("{head}\n{}", indent(&text::harmless(&rest.join("\n")), 30))
            }
        }
    }
}

/// How many failures a check is known to have had.
fn failures(known: &KnownCheck) -> String {
    match known.report.as_ref().map_or(0, checks::count) {
        0 => String::new(),
        1 => ", with 1 failure".to_owned(),
        many => format!(", with {many} failures"),
    }
}

/// What changed since the run before, in a few words.
fn since(changes: &Changes) -> String {
    let old = changes.new.iter().chain(&changes.remaining).filter(|finding| finding.before_turn).count();
    let counts = [
        (changes.new.len(), "new"),
        (changes.fixed.len(), "fixed"),
        (changes.remaining.len(), "remaining"),
        (old, "known from before the turn"),
    ];
    let told: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

fn indent(words: &str, most: usize) -> String {
    let total = words.lines().count();
    let mut lines: Vec<String> = words.lines().take(most).map(|line| format!("    {line}")).collect();
    if total > most {
        lines.push(format!("    … {} more lines", total - most));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_the_model_made_up_cannot_reach_the_terminal() {
        let call = |input| ToolCall {
            call_id: "c".into(),
            tool: "no\x1b]52;c;evil\x07\x1b[34mtool\nx".into(),
            input,
            limit_ms: None,
            output: None,
            exit_code: None,
            duration_ms: None,
            elapsed_ms: None,
            process: None,
            share: None,
            hooks: Vec::new(),
        };
        assert_eq!(describe(&call(serde_json::json!({}))), "no]52;c;evil[34mtool");
        assert_eq!(describe(&call(serde_json::json!({"path": "a\x1b[2J"}))), "no]52;c;evil[34mtool a[2J");
    }
}
