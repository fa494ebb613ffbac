//! Whether a call of the model may run. One that a person must decide on parks the turn: it is in the log and nowhere else
//! until then, with the call, its reason and what was changed so far.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use agent::policy::{self, Decision, Known, Word};
use agent::tools::Invocation;
use protocol::item::ToolCall;
use protocol::{
    Actor, ApprovalId, AskedCall, Code, DiffSummary, EventBody, Gate, Item, ItemKind, ItemStatus, Permission,
    Policy, PolicyRule, Problem,
};
use sandbox::WORKSPACE;

use super::Runner;
use super::approval::Asked;
use super::hooks::{self, Hooked};
use crate::failure::Failure;
use crate::process::Command;
use crate::state::{TurnState, broken_off};
use crate::workspace::Patience;

/// How long it may take to see where links lead.
const LOOK: Duration = Duration::from_secs(10);
/// Most bytes of what that says.
const LOOK_BYTES: usize = 1024 * 1024;
/// Most characters of a call in a question.
const WORDS: usize = 200;

/// Prints where each path leads, also where it does not exist, and a NUL after each.
const LEADS: &str = r#"exec realpath -m -z -- "$@""#;

/// Prints where all files lead that fit a pattern, with a NUL after each and one more after the last. The pattern is not split.
const FITTING: &str = r#"
IFS=
for pattern do
  for path in $pattern; do realpath -m -z -- "$path" || exit 1; done
  printf '\0'
done
"#;

/// Prints what lies below those of the paths that are directories and has one of the names, with a NUL after each. The paths come
/// first, and after a bracket the expression.
const BELOW: &str = r#"
past=
for word do
  shift
  [ "$word" != '(' ] || past=1
  if [ "$past" ] || [ -d "$word" ]; then set -- "$@" "$word"; fi
done
[ "$1" != '(' ] || exit 0
exec find "$@"
"#;

/// Directories that are not walked through: everything is below them, or nothing that ends.
const ENDLESS: [&str; 3] = ["/", "/proc", "/sys"];

/// What becomes of a call.
pub(super) enum Permit {
    /// It runs, as hooks left it. The note is for the model.
    Run { item: Box<Item>, tool: Invocation, note: Option<String> },
    /// It does not, and the model reads why.
    Refused { item: Box<Item>, text: String },
}

impl Runner {
    /// Decides on a call that the model made, or that waited behind one that a person decided on: hooks are asked first, so
    /// that what is decided on is what would run. What they did is to be in the log before the call begins.
    pub(super) async fn clear(&mut self, item: Item, tool: Invocation) -> Result<Permit, Failure> {
        match Box::pin(self.ask_hooks(item, tool)).await? {
            Hooked::Go { item, tool } => self.permit(item, tool).await,
            Hooked::Vetoed { item, text } => Ok(Permit::Refused { item: Box::new(item), text }),
        }
    }

    /// Decides by the policies. Where a person must, they are asked, and the turn waits.
    pub(super) async fn permit(&mut self, item: Item, tool: Invocation) -> Result<Permit, Failure> {
        let ItemKind::ToolCall(call) = &item.kind else {
            return Err(Problem::new(Code::Internal, "an item that is no call is to run").into());
        };
        match self.judge(&tool).await? {
            Decision::Allow => {
                let note = hooks::rewritten(call);
                Ok(Permit::Run { item: Box::new(item), tool, note })
            }
            Decision::Deny { why } => Ok(Permit::Refused { item: Box::new(item), text: why }),
            Decision::Ask { why, kind, after_every } => {
                let diff = self.preview(item.id, &tool).await;
                let (tool, input) = (call.tool.clone(), call.input.clone());
                let options = Vec::new();
                let asked = AskedCall { item: item.id, tool, input, why, kind, after_every, options, diff };
                let as_it_is = (!call.hooks.is_empty()).then(|| item.clone());
                self.ask_for(Gate::Call, asked, as_it_is, question).await
            }
        }
    }

    pub(super) async fn judge(&self, tool: &Invocation) -> Result<Decision, Failure> {
        let stream = self.context.recorder.stream();
        let (own, granted, actions) =
            stream.with_state(|state| (state.policy().clone(), state.granted().to_vec(), state.actions()));
        let policies = self.context.workspace.policies(&own);
        let policies: Vec<&Policy> = policies.iter().collect();
        let lead = |leads: Vec<(String, String)>| {
            *self.leads.lock().unwrap_or_else(PoisonError::into_inner) = leads;
        };
        lead(Vec::new());
        if policies.is_empty() {
            return Ok(Decision::Allow);
        }
        let named = policy::paths(tool);
        let words = policy::words(tool);
        let (mut leads, mut below) = (None, None);
        let real = match policy::is_about_files(&policies) {
            true if !named.is_empty() => {
                let real = self.where_they_lead(&named).await?;
                lead(real.iter().flat_map(|real| named.iter().cloned().zip(real.iter().cloned())).collect());
                real
            }
            true => {
                leads = self.where_words_lead(&words).await?;
                if let Some(leads) = leads.as_ref().filter(|_| policy::needs_below(tool)) {
                    below = self.what_lies_below(leads, &policy::names_below(&policies)).await?;
                }
                Some(named)
            }
            // Nobody asks.
            false => Some(named),
        };
        let known = Known {
            granted: &granted,
            real: real.as_deref(),
            leads: leads.as_deref(),
            below: below.as_deref(),
            actions,
        };
        Ok(policy::decide(&policies, tool, known))
    }

    /// Where links lead now; None where that cannot be told.
    async fn where_they_lead(&self, paths: &[String]) -> Result<Option<Vec<String>>, Failure> {
        if paths.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let said = self.ask_sandbox(LEADS, paths).await?;
        let real: Option<Vec<String>> =
            said.map(|said| said.split_terminator('\0').map(str::to_owned).collect());
        Ok(real.filter(|real| real.len() == paths.len()))
    }

    /// The same for the words of a command, of which some are patterns.
    async fn where_words_lead(&self, words: &[Word]) -> Result<Option<Vec<(Word, Vec<String>)>>, Failure> {
        let (mut paths, mut patterns) = (Vec::new(), Vec::new());
        for word in words {
            match word {
                Word::Path(path) => paths.push(path.clone()),
                Word::Pattern(pattern) => patterns.push(pattern.clone()),
            }
        }
        let Some(real) = self.where_they_lead(&paths).await? else { return Ok(None) };
        let real = real.into_iter().map(|real| vec![real]);
        let mut leads: Vec<(Word, Vec<String>)> = paths.into_iter().map(Word::Path).zip(real).collect();
        if patterns.is_empty() {
            return Ok(Some(leads));
        }
        let Some(said) = self.ask_sandbox(FITTING, &patterns).await? else { return Ok(None) };
        let mut fitting: Vec<Vec<String>> = vec![Vec::new()];
        for path in said.split_terminator('\0') {
            match fitting.last_mut() {
                Some(last) if !path.is_empty() => last.push(path.to_owned()),
                _ => fitting.push(Vec::new()),
            }
        }
        // One begins after the last.
        fitting.pop();
        if fitting.len() != patterns.len() {
            return Ok(None);
        }
        leads.extend(patterns.into_iter().map(Word::Pattern).zip(fitting));
        Ok(Some(leads))
    }

    /// What lies below the directories that words lead to and has one of these names; None where that cannot be told.
    async fn what_lies_below(
        &self,
        leads: &[(Word, Vec<String>)],
        names: &[String],
    ) -> Result<Option<Vec<String>>, Failure> {
        let mut asked: Vec<String> = leads.iter().flat_map(|(_, real)| real.iter().cloned()).collect();
        asked.sort();
        asked.dedup();
        if asked.iter().any(|path| ENDLESS.contains(&path.as_str())) {
            return Ok(None);
        }
        asked.push("(".to_owned());
        for (place, name) in names.iter().enumerate() {
            let or = (place > 0).then_some("-o");
            asked.extend(or.into_iter().chain(["-name", name]).map(str::to_owned));
        }
        asked.extend([")", "-print0"].map(str::to_owned));
        let said = self.ask_sandbox(BELOW, &asked).await?;
        Ok(said.map(|said| said.split_terminator('\0').map(str::to_owned).collect()))
    }

    /// What a script says of paths in the sandbox; None where it does not come to its end.
    async fn ask_sandbox(&self, script: &str, paths: &[String]) -> Result<Option<String>, Failure> {
        let args: Vec<&str> = paths.iter().map(String::as_str).collect();
        let look = Command {
            script,
            args: &args,
            env: BTreeMap::new(),
            cwd: WORKSPACE,
            timeout: LOOK,
            limit: LOOK_BYTES,
        };
        // A path with a NUL in it is none that can be told.
        if paths.iter().any(|path| path.contains('\0')) {
            return Ok(None);
        }
        let captured = match look.run(&*self.sandbox()?, Some(&self.stop)).await {
            Ok(captured) => captured,
            Err(Failure::Problem(problem)) => {
                tracing::debug!(error = %problem, "where links lead cannot be told");
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        };
        let whole = captured.code == 0 && !captured.timed_out && !captured.cut;
        Ok(whole.then(|| String::from_utf8_lossy(&captured.stdout).into_owned()))
    }

    /// Asks a person for a call, which is recorded as it is now where hooks were asked before. What was done so far is kept
    /// first, so that it can be looked at, and waits safely.
    pub(super) async fn ask_for<T>(
        &mut self,
        gate: Gate,
        call: AskedCall,
        as_it_is: Option<Item>,
        words: impl FnOnce(&AskedCall, Option<&DiffSummary>) -> String,
    ) -> Result<T, Failure> {
        // What brings the workspace to its branch's tip ends with this task.
        if let Some(note) = self.settled().await? {
            self.notice(note).await?;
        }
        let diff = self.so_far().await?;
        let body = EventBody::ApprovalRequested {
            approval: ApprovalId::new(),
            turn: self.turn,
            question: words(&call, diff.as_ref()),
            gate,
            call: Some(Box::new(call)),
            diff: diff.map(Box::new),
        };
        let turn = self.turn;
        let begun = as_it_is.map(|item| EventBody::ItemStarted { turn, item });
        match self.put(begun.into_iter().chain([body]).collect()).await? {
            Asked::Waiting => Err(Failure::Waits),
            Asked::Stopped | Asked::Nobody | Asked::Refused(_) => Err(Failure::Stopped),
        }
    }

    /// Asks for the hosts that a call was refused, if a person may allow them. The call has ended.
    pub(super) async fn ask_for_hosts(&mut self, item: &Item) -> Result<(), Failure> {
        let hosts = std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        let ItemKind::ToolCall(call) = &item.kind else { return Ok(()) };
        if hosts.is_empty() {
            return Ok(());
        }
        let diff = self.so_far().await?;
        let rule = |host: &String| PolicyRule {
            then: Permission::Allow,
            tool: None,
            path: None,
            command: None,
            host: Some(host.clone()),
            reason: None,
        };
        let asked = AskedCall {
            item: item.id,
            tool: call.tool.clone(),
            input: call.input.clone(),
            why: format!("it was refused to {}", hosts.join(", ")),
            kind: hosts.iter().map(rule).collect(),
            after_every: false,
            options: Vec::new(),
            diff: None,
        };
        let words = about(&asked);
        let body = EventBody::ApprovalRequested {
            approval: ApprovalId::new(),
            turn: self.turn,
            question: format!(
                "Allow connections to {} for this session? {words} wanted them.",
                hosts.join(", ")
            ),
            gate: Gate::Host,
            call: Some(Box::new(asked)),
            diff: diff.map(Box::new),
        };
        match self.put(vec![body]).await? {
            Asked::Waiting => Err(Failure::Waits),
            Asked::Stopped | Asked::Nobody | Asked::Refused(_) => Err(Failure::Stopped),
        }
    }

    /// Asks, unless the turn was stopped before.
    pub(super) async fn put(&self, question: Vec<EventBody>) -> Result<Asked, store::Error> {
        let system = Actor::system();
        let asked = self.context.recorder.append_if(&system, move |state| match state.turn() {
            Some(turn) if turn.stopping.is_none() => (question, Asked::Waiting),
            Some(_) | None => (Vec::new(), Asked::Stopped),
        });
        let (_, asked) = asked.await?;
        if matches!(asked, Asked::Waiting) {
            self.context.stopwatch.rest();
        }
        Ok(asked)
    }

    /// What was changed since the session began, kept on the host. Where git cannot read it, that is told, and nobody knows.
    async fn so_far(&self) -> Result<Option<DiffSummary>, Failure> {
        let patience = Patience::unless(&self.stop);
        let summary = async {
            self.keep_progress(patience).await?;
            self.context.workspace.summary(&*self.sandbox()?, patience).await
        };
        match summary.await {
            Ok(summary) => Ok(Some(summary)),
            Err(Failure::Problem(problem)) => {
                self.context.raise(&problem).await?;
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Goes on with a call that has not begun because a person was asked for it, or for one before it.
    pub(super) async fn run_held(&mut self, turn: &TurnState, item: &Item) -> Result<(), Failure> {
        let ItemKind::ToolCall(call) = &item.kind else {
            return Err(Problem::new(Code::Internal, "an item that is no call waits for a person").into());
        };
        let answered = turn.decision.as_ref().filter(|decision| decision.gate == Gate::Question);
        if let Some(decision) = answered.filter(|_| turn.decided == Some(item.id)) {
            return self.take_answer(item, decision).await;
        }
        let permit = if turn.decided == Some(item.id) {
            self.decided(turn, item, call).await?
        } else {
            match self.reread(call, &call.input)? {
                Ok(tool) => self.clear(item.clone(), tool).await?,
                Err(text) => Permit::Refused { item: Box::new(item.clone()), text },
            }
        };
        self.run_if(permit).await
    }

    /// Runs a call that may run, and closes one that may not.
    pub(super) async fn run_if(&mut self, permit: Permit) -> Result<(), Failure> {
        match permit {
            Permit::Run { item, tool, note } => {
                // From here on it may have done something.
                self.start(self.with_limit(&item, &tool)).await?;
                self.run_permitted(*item, tool, note).await.map(drop)
            }
            Permit::Refused { item, text } => {
                Ok(self.complete(broken_off(&item, ItemStatus::Failed, &text)).await?)
            }
        }
    }

    /// A call that a person approved and that is in the log as they want it, unless that is forbidden.
    pub(super) async fn allowed(
        &self,
        item: &Item,
        tool: Invocation,
        decision: &protocol::Decision,
    ) -> Result<Permit, Failure> {
        let mut notes = said_of(decision);
        if let (ItemKind::ToolCall(call), None) = (&item.kind, &decision.input) {
            notes.extend(hooks::rewritten(call));
        }
        // Whoever decides on a call does not decide on what is forbidden.
        if let Decision::Deny { why } = self.judge(&tool).await? {
            let changed = decision.input.as_ref().map(|edited| {
                let by = &decision.by;
                format!("{by} changed this call to {edited}, and that is denied, whoever approves it.\n")
            });
            let text = changed.unwrap_or_default() + &why;
            return Ok(Permit::Refused { item: Box::new(item.clone()), text });
        }
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        Ok(Permit::Run { item: Box::new(item.clone()), tool, note })
    }

    /// The call that a person decided on, as they want it; or what the model reads instead.
    async fn decided(&mut self, turn: &TurnState, item: &Item, call: &ToolCall) -> Result<Permit, Failure> {
        let refused = |text: String| Permit::Refused { item: Box::new(item.clone()), text };
        let Some(decision) = &turn.decision else {
            return Ok(refused(agent::history::INTERRUPTED.to_owned()));
        };
        let (by, said) = (&decision.by, decision.comment.as_deref());
        if !decision.approved {
            let words = said.map(|said| format!(" and said: {said}")).unwrap_or_default();
            return Ok(refused(format!(
                "Not run: {by} did not approve this call{words}\nGo on without it, in the way that is wanted."
            )));
        }
        let mut item = item.clone();
        let input = decision.input.as_ref().unwrap_or(&call.input);
        if let (Some(edited), ItemKind::ToolCall(call)) = (&decision.input, &mut item.kind) {
            call.input = edited.clone();
        }
        let mut tool = match self.reread(call, input)? {
            Ok(tool) => tool,
            Err(text) => return Ok(refused(text)),
        };
        if decision.input.is_some() {
            // Hooks have not seen this one. What they make of it nobody has decided on.
            let before = tool.clone();
            (item, tool) = match Box::pin(self.ask_hooks(item, tool)).await? {
                Hooked::Go { item, tool } if tool == before => (item, tool),
                Hooked::Go { item, tool } => return self.permit(item, tool).await,
                Hooked::Vetoed { item, text } => return Ok(Permit::Refused { item: Box::new(item), text }),
            };
        }
        self.allowed(&item, tool, decision).await
    }

    /// A call with this input, as the turn's model has its tools. The inner error is what the model reads.
    pub(super) fn reread(
        &self,
        call: &ToolCall,
        input: &serde_json::Value,
    ) -> Result<Result<Invocation, String>, Failure> {
        let format = self.find_model()?.profile().edit_format;
        Ok(agent::tools::parse_with(&self.mcp.tools(), format, &call.tool, &input.to_string()))
    }

    /// Closes a call whose sandbox died before anybody could be asked.
    pub(super) async fn lost_before(&mut self, item: Item, detail: String) -> Result<agent::Input, Failure> {
        self.close_call(item, Instant::now(), Err(Failure::Lost(detail))).await
    }
}

/// What the model is told of an approval.
fn said_of(decision: &protocol::Decision) -> Vec<String> {
    let (by, mut notes) = (&decision.by, Vec::new());
    if let Some(edited) = &decision.input {
        notes.push(format!("{by} changed this call before it ran. It ran with: {edited}"));
    }
    let said = decision.comment.as_deref();
    notes.extend(said.map(|said| format!("{by} approved this call and said: {said}")));
    notes
}

/// The files that a patch would change.
fn changed_files(call: &AskedCall) -> String {
    let heads =
        call.diff.iter().flat_map(|diff| diff.lines().filter_map(|line| line.strip_prefix("diff --git a/")));
    heads.filter_map(|names| Some(names.split_once(" b/")?.1)).collect::<Vec<_>>().join(", ")
}

/// A call in a few words.
fn about(call: &AskedCall) -> String {
    let keys = ["command", "path", "file_path", "file", "pattern", "name", "stdin", "url", "id"];
    let about = keys.iter().find_map(|key| call.input.get(*key)?.as_str().map(str::to_owned));
    let about = about.unwrap_or_else(|| changed_files(call));
    let line = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut words: String = line.chars().take(WORDS).collect();
    if words.len() < line.len() {
        words.push('…');
    }
    format!("{} {words}", call.tool).trim_end().to_owned()
}

/// What a person is asked.
fn question(call: &AskedCall, diff: Option<&DiffSummary>) -> String {
    let changed = match diff {
        Some(DiffSummary { count: 0, .. }) => "Nothing is changed so far.".to_owned(),
        Some(DiffSummary { count, insertions, deletions, .. }) => {
            let plural = if *count == 1 { "" } else { "s" };
            format!("So far {count} file{plural} changed (+{insertions} −{deletions}).")
        }
        None => "What is changed so far cannot be told.".to_owned(),
    };
    format!("Run {}? ({}) {changed}", about(call), call.why)
}

#[cfg(test)]
mod tests {
    use protocol::ItemId;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_is_one_line_with_the_call_its_reason_and_the_changes() {
        let call = AskedCall {
            item: ItemId::from_u128(1),
            tool: "shell".to_owned(),
            input: json!({"command": format!("git push\n{}", "x".repeat(500))}),
            why: "ask tool \"shell\"".to_owned(),
            kind: Vec::new(),
            after_every: false,
            options: Vec::new(),
            diff: None,
        };
        let diff = DiffSummary { count: 1, insertions: 2, deletions: 3, files: Vec::new() };
        let asked = question(&call, Some(&diff));
        assert!(
            asked.starts_with("Run shell git push xxx")
                && asked.contains("…? (ask tool \"shell\") So far 1 file ")
        );
        assert!(asked.ends_with("changed (+2 −3).") && asked.lines().count() == 1, "{asked}");
        assert!(question(&call, None).ends_with("cannot be told."));
        let bare = AskedCall { tool: "check".to_owned(), input: json!({}), ..call };
        assert!(question(&bare, Some(&DiffSummary::default())).starts_with("Run check? ("));
    }
}
