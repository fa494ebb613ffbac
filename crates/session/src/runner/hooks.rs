//! Hooks: programs in the sandbox that are asked before a call of the model, and shown it afterwards. Before a call they can
//! veto or rewrite it, and one that fails counts as a veto; afterwards they can replace or add to what the model reads, and one
//! that fails changes nothing. What each did is recorded with the call, before the call runs.

use std::time::{Duration, Instant};

use agent::policy::{Decision, names_call};
use agent::tools::{Invocation, cut, in_place_of};
use protocol::item::ToolCall;
use protocol::{Hook, HookDeed, HookPoint, HookRun, Item, ItemId, ItemKind};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Runner;
use super::tools::Done;
use crate::failure::Failure;
use crate::process::{Call, Captured};

/// How long a hook may take that does not say.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of what a hook says.
const SAID: usize = 1024 * 1024;
/// Most bytes of a reason, and of the arguments in a note.
const WORDS: usize = 2000;
/// Most characters of a hook's command where it is only named.
const NAME: usize = 100;
/// The exit code by which a hook objects, with its standard error for a reason.
const OBJECTS: i32 = 2;

/// What became of a call before it is decided on.
pub(super) enum Hooked {
    /// It goes on, maybe with other arguments.
    Go { item: Item, tool: Invocation },
    /// It does not, and the model reads why.
    Vetoed { item: Item, text: String },
}

/// What a hook can say before a call.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    decision: Option<Word>,
    reason: Option<String>,
    arguments: Option<serde_json::Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Allow,
    Deny,
}

/// What a hook can say after a call.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    /// In the place of what the model would read.
    text: Option<String>,
    /// After it.
    add: Option<String>,
    reason: Option<String>,
}

/// What a hook before a call wants.
#[derive(Debug, PartialEq)]
enum Wish {
    Pass,
    Veto(String),
    Rewrite(Value, Option<String>),
}

/// What a hook after a call wants.
#[derive(Debug, PartialEq)]
enum Remark {
    Nothing,
    Replace(String, Option<String>),
    Add(String, Option<String>),
    Failed(String),
}

impl Runner {
    /// Whether a call that is open has not been decided on: hooks are for it, and none is recorded with it.
    pub(super) fn is_undecided(&self, call: &ToolCall, tool: Option<&Invocation>) -> bool {
        let before = |hook: &&Hook| hook.on == HookPoint::Before;
        let Some(tool) = tool.filter(|_| call.hooks.is_empty()) else { return false };
        self.hooks.iter().filter(before).any(|hook| names_call(&hook.tool, tool))
    }

    /// Asks the hooks before a call. What a policy denies is not shown to them; what they make of the call is decided on by
    /// whoever calls this, and recorded with the item that it gives.
    pub(super) async fn ask_hooks(&mut self, mut item: Item, tool: Invocation) -> Result<Hooked, Failure> {
        let wanted = |hook: &&Hook| hook.on == HookPoint::Before && names_call(&hook.tool, &tool);
        if !self.hooks.iter().any(|hook| wanted(&hook)) {
            return Ok(Hooked::Go { item, tool });
        }
        // They may write, and may be files of the repository.
        if let Some(note) = self.settled().await? {
            self.notice(note).await?;
        }
        if let Decision::Deny { why } = self.judge(&tool).await? {
            return Ok(Hooked::Vetoed { item, text: why });
        }
        let (id, mut tool) = (item.id, tool);
        let ItemKind::ToolCall(call) = &mut item.kind else { return Ok(Hooked::Go { item, tool }) };
        call.hooks.clear();
        for (index, hook) in self.hooks.clone().into_iter().enumerate() {
            if hook.on != HookPoint::Before || !names_call(&hook.tool, &tool) {
                continue;
            }
            let began = Instant::now();
            let shown = json!({"on": "before", "tool": call.tool, "arguments": call.input});
            let mut wish = match self.run_hook(&hook, id, index, &shown).await? {
                Ok(captured) => wish(&captured, self.hook_time(&hook)),
                Err(why) => Wish::Veto(format!("it failed: {why}")),
            };
            // A call that a hook wrote is read as one that the model wrote.
            if let Wish::Rewrite(arguments, _) = &wish {
                match self.reread(call, arguments)? {
                    Ok(rewritten) => tool = rewritten,
                    Err(why) => wish = Wish::Veto(format!("it gave arguments that cannot be used: {why}")),
                }
            }
            let mut run = HookRun {
                on: hook.on,
                run: hook.run.clone(),
                did: HookDeed::Passed,
                reason: None,
                from: None,
                duration_ms: millis(began),
            };
            match wish {
                Wish::Pass => call.hooks.push(run),
                Wish::Rewrite(arguments, reason) => {
                    run.did = HookDeed::Rewrote;
                    run.reason = reason;
                    run.from = Some(std::mem::replace(&mut call.input, arguments));
                    call.hooks.push(run);
                }
                Wish::Veto(why) => {
                    let text = format!(
                        "Not run: the hook `{}` vetoed this call: {why}\nDo the work in a way that it allows.",
                        named(&hook.run)
                    );
                    (run.did, run.reason) = (HookDeed::Vetoed, Some(why));
                    call.hooks.push(run);
                    return Ok(Hooked::Vetoed { item, text });
                }
            }
        }
        Ok(Hooked::Go { item, tool })
    }

    /// Shows the hooks a call that ended. Gives what they did; what the model reads may be another text then.
    pub(super) async fn show_hooks(&self, id: ItemId, call: &ToolCall, done: &mut Done) -> Vec<HookRun> {
        let mut runs = Vec::new();
        let Some(tool) = self.read_again(call) else { return runs };
        for (index, hook) in self.hooks.iter().enumerate() {
            if hook.on != HookPoint::After || !names_call(&hook.tool, &tool) {
                continue;
            }
            let began = Instant::now();
            let result =
                json!({"text": done.output.text, "is_error": done.is_error, "exit_code": done.exit_code});
            let shown = json!({"on": "after", "tool": call.tool, "arguments": call.input, "result": result});
            let remark = match self.run_hook(hook, id, index, &shown).await {
                Ok(Ok(captured)) => remark(&captured, self.hook_time(hook)),
                Ok(Err(why)) => Remark::Failed(why),
                // The call has ended, whatever becomes of the turn.
                Err(Failure::Stopped) => Remark::Failed("the turn was stopped".to_owned()),
                Err(Failure::Lost(_)) => Remark::Failed("the sandbox died".to_owned()),
                Err(failure) => Remark::Failed(failure.into_problem().title),
            };
            let (did, reason) = match remark {
                Remark::Nothing => (HookDeed::Passed, None),
                Remark::Replace(text, reason) => {
                    done.output.text = in_place_of(&done.output.text, text);
                    (HookDeed::Replaced, reason)
                }
                Remark::Add(text, reason) => {
                    done.output.text = format!("{}\n{text}", done.output.text.trim_end());
                    (HookDeed::Added, reason)
                }
                Remark::Failed(why) => {
                    let told = format!("\n(The hook `{}` failed after this call: {why})", named(&hook.run));
                    done.output.text.push_str(&told);
                    (HookDeed::Failed, Some(why))
                }
            };
            let reason = reason.map(|reason| cut(&reason, WORDS));
            let (on, run, duration_ms) = (hook.on, hook.run.clone(), millis(began));
            runs.push(HookRun { on, run, did, reason, from: None, duration_ms });
        }
        runs
    }

    fn hook_time(&self, hook: &Hook) -> Duration {
        let wanted = hook.timeout_s.map_or(TIMEOUT, Duration::from_secs);
        wanted.min(self.context.options.command_timeout)
    }

    /// Runs a hook with what it is shown; why it could not be, where that is not the turn's end. Under a server that comes
    /// after this one the same hook for the same call is followed, and not run a second time.
    async fn run_hook(
        &self,
        hook: &Hook,
        item: ItemId,
        index: usize,
        shown: &Value,
    ) -> Result<Result<Captured, String>, Failure> {
        let sandbox = self.sandbox()?;
        let input = shown.to_string().into_bytes();
        let sum = crate::skills::hex(&Sha256::digest(&input));
        let id = format!("hook-{item}-{index}-{}", &sum[..16]);
        let mut spec = sandbox::shell::command(&hook.run, Some(self.hook_time(hook)));
        spec.stdin = true;
        spec.env.insert("SLIPWAY_HOOK".to_owned(), shown["on"].as_str().unwrap_or_default().to_owned());
        spec.env.insert("SLIPWAY_TOOL".to_owned(), shown["tool"].as_str().unwrap_or_default().to_owned());
        spec.env.insert("SLIPWAY_SESSION".to_owned(), self.context.recorder.session().to_string());
        let call = Call { id: &id, spec: &spec, limit: SAID, input: Some(input.into()) };
        match call.run(&*sandbox, &self.stop).await {
            Ok(captured) if captured.cut => Ok(Err(format!("it said more than {SAID} bytes"))),
            Ok(captured) => Ok(Ok(captured)),
            Err(Failure::Problem(problem)) => Ok(Err(problem.title)),
            Err(failure) => Err(failure),
        }
    }
}

/// What the model is told of a call that hooks rewrote.
pub(super) fn rewritten(call: &ToolCall) -> Option<String> {
    let last = call.hooks.iter().rfind(|run| run.did == HookDeed::Rewrote)?;
    let reason = last.reason.as_ref().map(|reason| format!(" ({})", reason.trim())).unwrap_or_default();
    let ran = cut(&call.input.to_string(), WORDS);
    Some(format!(
        "a hook, `{}`, changed this call before it ran{reason}. It ran with: {ran}",
        named(&last.run)
    ))
}

/// A hook's command in a line.
fn named(run: &str) -> String {
    let line = run.trim().lines().next().unwrap_or_default();
    let mut name: String = line.chars().take(NAME).collect();
    if name.len() < run.trim().len() {
        name.push('…');
    }
    name
}

/// How a hook ended that came to no good end; None where it did, or objects.
fn failure(captured: &Captured, time: Duration) -> Option<String> {
    let well = !captured.timed_out && captured.signal.is_none() && matches!(captured.code, 0 | OBJECTS);
    (!well).then(|| match (captured.timed_out, captured.signal) {
        (true, _) | (_, Some(_)) => captured.trouble(time),
        (false, None) => {
            let said = captured.stderr.trim();
            format!(
                "it exited with {}{}",
                captured.code,
                if said.is_empty() { String::new() } else { format!(": {}", cut(said, WORDS)) }
            )
        }
    })
}

/// What a hook says, or why that cannot be read; None where it says nothing.
fn said<T: for<'de> Deserialize<'de>>(captured: &Captured) -> Result<Option<T>, String> {
    let text = std::str::from_utf8(&captured.stdout).map_err(|_| "it did not say UTF-8".to_owned())?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    serde_json::from_str(text).map(Some).map_err(|error| format!("what it said cannot be read: {error}"))
}

fn objection(captured: &Captured) -> String {
    match captured.stderr.trim() {
        "" => "it gave no reason".to_owned(),
        words => cut(words, WORDS),
    }
}

fn wish(captured: &Captured, time: Duration) -> Wish {
    if let Some(why) = failure(captured, time) {
        return Wish::Veto(format!("it failed: {why}"));
    }
    if captured.code == OBJECTS {
        return Wish::Veto(objection(captured));
    }
    match said::<Before>(captured) {
        Err(why) => Wish::Veto(format!("it failed: {why}")),
        Ok(None) => Wish::Pass,
        Ok(Some(Before { decision: Some(Word::Deny), reason, .. })) => {
            let reason = reason.filter(|reason| !reason.trim().is_empty());
            Wish::Veto(reason.map_or_else(|| "it gave no reason".to_owned(), |why| cut(why.trim(), WORDS)))
        }
        Ok(Some(Before { arguments: Some(arguments), reason, .. })) => {
            Wish::Rewrite(Value::Object(arguments), reason.map(|reason| cut(&reason, WORDS)))
        }
        Ok(Some(Before { decision: Some(Word::Allow) | None, arguments: None, .. })) => Wish::Pass,
    }
}

fn remark(captured: &Captured, time: Duration) -> Remark {
    if let Some(why) = failure(captured, time) {
        return Remark::Failed(why);
    }
    if captured.code == OBJECTS {
        return Remark::Add(objection(captured), None);
    }
    match said::<After>(captured) {
        Err(why) => Remark::Failed(why),
        Ok(None) => Remark::Nothing,
        Ok(Some(After { text: Some(text), add, reason })) => {
            Remark::Replace([Some(text), add].into_iter().flatten().collect::<Vec<_>>().join("\n"), reason)
        }
        Ok(Some(After { text: None, add: Some(add), reason })) => Remark::Add(add, reason),
        Ok(Some(After { text: None, add: None, .. })) => Remark::Nothing,
    }
}

fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    fn ended(code: i32, stdout: &str, stderr: &str) -> Captured {
        let (stdout, stderr) = (stdout.as_bytes().to_vec(), stderr.to_owned());
        Captured { code, signal: None, timed_out: false, stdout, cut: false, stderr }
    }

    #[test]
    fn before_a_call_everything_that_is_no_plain_yes_is_a_veto() {
        let wished = |code, stdout, stderr| wish(&ended(code, stdout, stderr), TIME);
        assert_eq!(wished(0, " \n", "noise"), Wish::Pass);
        assert_eq!(wished(0, r#"{"decision": "allow"}"#, ""), Wish::Pass);
        assert_eq!(wished(0, r#"{"decision": "deny", "reason": "no"}"#, ""), Wish::Veto("no".into()));
        assert_eq!(wished(2, "", "not here\n"), Wish::Veto("not here".into()));
        let rewrite = Wish::Rewrite(json!({"command": "ls"}), None);
        assert_eq!(wished(0, r#"{"arguments": {"command": "ls"}}"#, ""), rewrite);
        let both = r#"{"decision": "deny", "arguments": {"command": "ls"}}"#;
        assert_eq!(wished(0, both, ""), Wish::Veto("it gave no reason".into()));
        let broken = ["yes", "{", "[]", r#"{"decison": "deny"}"#, r#"{"decision": "maybe"}"#];
        for said in broken {
            assert!(matches!(wished(0, said, ""), Wish::Veto(why) if why.starts_with("it failed")), "{said}");
        }
        assert_eq!(wished(1, "", "trace"), Wish::Veto("it failed: it exited with 1: trace".into()));
        let late = Captured { timed_out: true, code: 137, ..ended(0, "", "") };
        assert_eq!(wish(&late, TIME), Wish::Veto("it failed: it was not done after 10 s".into()));
    }

    #[test]
    fn after_a_call_a_hook_that_fails_changes_nothing() {
        let remarked = |code, stdout, stderr| remark(&ended(code, stdout, stderr), TIME);
        assert_eq!(remarked(0, "", ""), Remark::Nothing);
        assert_eq!(remarked(0, r#"{"text": "a"}"#, ""), Remark::Replace("a".into(), None));
        assert_eq!(remarked(0, r#"{"add": "b"}"#, ""), Remark::Add("b".into(), None));
        assert_eq!(remarked(2, "", "look again"), Remark::Add("look again".into(), None));
        assert!(matches!(remarked(0, "words", ""), Remark::Failed(_)));
        assert!(matches!(remarked(7, "", ""), Remark::Failed(why) if why == "it exited with 7"));
    }
}
