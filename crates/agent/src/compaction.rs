//! Making a context shorter, in levels: old outputs left out, then a summary of the older part, then a fresh window. What
//! each level does to the messages is decided by the event in the log and nothing else, so that a restart gives the same.
//! Calls stay with their results and signed reasoning stays whole: a cut is only ever made before a whole step.

use protocol::TurnId;
use protocol::chat::{Message, Part, Request, ToolResult};
use protocol::event::{Compaction, CompactionLevel, PlanItem, PlanState};
use serde_json::Value;

use crate::answer::calls_of;
use crate::history::{History, seen_again};
use crate::tools::{self, cut, plan_mark, recorded_input};
use crate::window::{Window, message_bytes, messages_bytes};

/// Outputs and arguments up to this many bytes are never left out: it would save nothing.
const SMALL: usize = 320;
/// Bytes of an output that a summary is made from, and of a call's arguments.
const QUOTED_OUTPUT: usize = 2000;
const QUOTED_ARGUMENTS: usize = 600;
/// Bytes that a token has at least, where nothing better is known.
const BYTES_PER_TOKEN: u64 = 3;
/// Bytes that the changed files and the failing checks may have unless the window is very small: without them the model does
/// not know where it is.
const STATE: usize = 1500;
/// Bytes that an item of a long plan has at least, or all that it has.
const PLAN_ITEM: usize = 24;
/// Most tokens of a summary.
const SUMMARY_TOKENS: u64 = 2000;

/// How many times the room of everything else the turn's prompt may have.
pub(crate) const OF_PROMPT: u64 = 3;
/// Bytes that it may have beyond that: estimates are rounded.
const SLACK: u64 = 64;

/// What is put back from the state of the work, never from a summary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkState {
    /// The plan.
    pub plan: Vec<PlanItem>,
    /// What fails now: the name of each check with what it found.
    pub diagnostics: Vec<(String, String)>,
    /// What the turn has changed so far, one file on each line.
    pub diff: String,
    /// The skills that were loaded.
    pub skills: Vec<String>,
}

/// What is to be made shorter, and for which window.
#[derive(Debug, Clone, Copy)]
pub struct Shortening<'a> {
    /// The conversation so far.
    pub history: &'a History,
    /// The turn.
    pub turn: TurnId,
    /// Tokens of the context as it is.
    pub tokens: u64,
    /// Bytes that the conversation may have: what is left of the window without instructions, tools and the prompts in force.
    pub room: u64,
    /// How many of the last prompts are in force: the turn's own, and those of turns before it that were not done.
    pub prompts: usize,
}

impl Shortening<'_> {
    /// Leaves old outputs out; None when that would not be worth it.
    pub fn mask(&self) -> Option<Compaction> {
        let end = self.tail(protected(self.room))?;
        let compaction = self.compaction(CompactionLevel::Masked, end, None);
        (compaction.tokens_after < compaction.tokens_before).then_some(compaction)
    }

    /// What a summary is made from: the part that it takes the place of. None when there is nothing before the end that
    /// is kept.
    pub fn summary_request(&self, window: Window) -> Option<Request> {
        let before = match self.tail(tail(self.room))?.from {
            Some(seq) => self.history.before(seq),
            None => self.history.messages(),
        };
        if before.is_empty() {
            return None;
        }
        let answer = SUMMARY_TOKENS.min(window.answer);
        let most = window.request().saturating_sub(answer).saturating_mul(BYTES_PER_TOKEN);
        let transcript = cut(&transcript(before), usize::try_from(most).unwrap_or(usize::MAX));
        Some(Request {
            system: SUMMARISE.to_owned(),
            messages: vec![Message::user(format!("The work so far:\n\n{transcript}\n\nWrite the summary."))],
            max_output_tokens: u32::try_from(answer).unwrap_or(u32::MAX),
            ..Request::default()
        })
    }

    /// Puts a summary in the place of the older part, with the prompts as they were and the state of the work.
    pub fn summarise(&self, summary: &str, state: &WorkState) -> Option<Compaction> {
        let end = self.tail(tail(self.room))?;
        let summary = summary.trim();
        if summary.is_empty() {
            return None;
        }
        let text = self.opening(end.from, Some(summary), state);
        Some(self.compaction(CompactionLevel::Summarised, end, Some(text)))
    }

    /// Leaves everything behind but the prompts, the state of the work, and results that the model has not read yet.
    pub fn fresh(&self, state: &WorkState) -> Compaction {
        let messages = self.history.messages();
        let results = match unread(messages).and_then(|last| messages.get(last)) {
            Some(Message::Tools { results }) => results.len(),
            Some(Message::User { .. } | Message::Assistant { .. }) | None => 0,
        };
        // Only the step of these results: what it goes back to was given up.
        let (place, unread) = if results > 0 { end_of(messages, 0, self.room) } else { (None, None) };
        let from = place.and_then(|place| self.history.starts().get(place).copied());
        let mut text = self.opening(from, None, state);
        if results > 0 && from.is_none() {
            text.push_str(&format!(
                "\n\nYour last {results} calls were made, but there is no room for what they gave: ask for less at once."
            ));
        }
        self.compaction(CompactionLevel::Fresh, End { from, unread }, Some(text))
    }

    fn compaction(&self, level: CompactionLevel, end: End, text: Option<String>) -> Compaction {
        let (turn, tokens_before) = (self.turn, self.tokens);
        let End { from: keep_from, unread } = end;
        let mut compaction =
            Compaction { turn, level, keep_from, unread, text, tokens_before, tokens_after: 0 };
        let before = messages_bytes(self.history.messages()).max(1);
        let mut after = self.history.clone();
        after.compact(&compaction);
        let saved = before.saturating_sub(messages_bytes(after.messages()));
        // The instructions and tools are a part of the tokens and stay, so this is a little too hopeful.
        let saved = u128::from(tokens_before) * u128::from(saved) / u128::from(before);
        compaction.tokens_after = tokens_before.saturating_sub(u64::try_from(saved).unwrap_or(u64::MAX));
        compaction
    }

    /// The end of at most so many bytes; None when there is nothing before it.
    fn tail(&self, most: u64) -> Option<End> {
        let (place, unread) = end_of(self.history.messages(), most, self.room);
        match place {
            Some(0) => None,
            Some(place) => Some(End { from: Some(self.history.starts().get(place).copied()?), unread }),
            None => Some(End::default()),
        }
    }

    /// What stands at the beginning of a context that was made shorter.
    fn opening(&self, keep_from: Option<u64>, summary: Option<&str>, state: &WorkState) -> String {
        let mut text = String::from(
            "Earlier parts of this conversation are left out to save room. Nothing of the work is lost: the files are as you left them.\n",
        );
        let state = state.text(self.room);
        // The end that is kept may have half of the room, and the prompt has its own.
        let left = bytes(self.room, 45).saturating_sub(state.len());
        let summary =
            summary.map(|text| quoted(text, left.min(bytes(self.room, 12)).max(bytes(self.room, 4))));
        let left = left.saturating_sub(summary.as_ref().map_or(0, String::len)).min(bytes(self.room, 15));
        let (prompts, left_out) = self.prompts(keep_from, left);
        if left_out > 0 {
            text.push_str(&format!("\n({left_out} earlier prompts are left out.)\n"));
        }
        for prompt in &prompts {
            text.push_str(&format!("\nThe user's prompt:\n{}\n", prompt.trim()));
        }
        if let Some(summary) = &summary {
            text.push_str(&format!("\nSummary of what was done:\n{summary}\n"));
        }
        text.push_str(&state);
        text.push_str(match summary {
            Some(_) => "\nGo on from here; do not begin again.",
            None => "\nSome of the work may be done already: look at the files first, then go on from there.",
        });
        text
    }

    /// The prompts that are put back, and how many are not: those in force whole, unless the turn's own is longer than a
    /// context can have it, and earlier ones in at most so many bytes.
    fn prompts(&self, keep_from: Option<u64>, most: usize) -> (Vec<String>, usize) {
        let before = self.history.prompts_before(keep_from);
        let all = self.history.prompts_before(None).len();
        let earlier = all.saturating_sub(self.prompts.max(1)).min(before.len());
        let (earlier, in_force) = before.split_at(earlier);
        let (mut kept, left_out) = last_within(earlier, most);
        kept.extend(in_force.iter().map(|prompt| self.in_force(prompt)));
        (kept, left_out)
    }
}

impl Shortening<'_> {
    /// The turn's prompt, if it is longer than a context can have it, with the name of the file beside the log in which the
    /// model can read all of it.
    pub fn long_prompt(&self) -> Option<(String, &str)> {
        let own = *self.history.prompts_before(None).last()?;
        (own.len() as u64 > self.prompt_room() + SLACK).then(|| (format!("{}.out", self.turn), own))
    }

    fn prompt_room(&self) -> u64 {
        self.room.saturating_mul(OF_PROMPT)
    }

    fn in_force(&self, prompt: &str) -> String {
        let Some((file, _)) = self.long_prompt().filter(|(_, long)| *long == prompt) else {
            return prompt.to_owned();
        };
        let way = format!(
            "[the whole prompt can be read with the read tool: path \"output:{file}\", with offset and limit; search takes this path, too]"
        );
        let most = bytes(self.prompt_room(), 100).saturating_sub(way.len() + 1);
        format!("{}\n{way}", cut(prompt, most))
    }
}

impl WorkState {
    /// The state as the model reads it, in a conversation that may have so many bytes.
    fn text(&self, room: u64) -> String {
        let mut text = String::new();
        if !self.skills.is_empty() {
            text.push_str(&format!(
                "\nSkills that you had loaded: {}. What they say is left out; load those again that you still need.\n",
                cut(&self.skills.join(", "), bytes(room, 4))
            ));
        }
        if !self.plan.is_empty() {
            text.push_str(&format!("\nThe plan:\n{}", plan_within(&self.plan, bytes(room, 20))));
        }
        let most = bytes(room, 12).max(STATE.min(bytes(room, 16)));
        let mut found = String::new();
        if !self.diff.trim().is_empty() {
            found.push_str(&format!("\nFiles changed so far:\n{}\n", cut(self.diff.trim_end(), most / 3)));
        }
        for (check, said) in &self.diagnostics {
            let each = most / 2 / self.diagnostics.len().max(1);
            found.push_str(&format!(
                "\nThe check {check} failed when it last ran:\n{}\n",
                cut(said.trim(), each)
            ));
        }
        text.push_str(&cut(&found, most));
        text
    }
}

/// A plan in at most so many bytes. What is over is left out first, then items lose the end of their words; only in a very
/// small window some are not told, and it says how many.
fn plan_within(items: &[PlanItem], most: usize) -> String {
    let line = |item: &PlanItem, words: usize| {
        let mark = plan_mark(item.state);
        match item.text.len() > words {
            true => format!("{mark} {}…\n", &item.text[..item.text.floor_char_boundary(words)]),
            false => format!("{mark} {}\n", item.text),
        }
    };
    let whole: String = items.iter().map(|item| line(item, usize::MAX)).collect();
    if whole.len() <= most {
        return whole;
    }
    let over = |item: &&PlanItem| matches!(item.state, PlanState::Completed | PlanState::Skipped);
    let (over, open): (Vec<&PlanItem>, Vec<&PlanItem>) = items.iter().partition(over);
    let mut text = if over.is_empty() { String::new() } else { format!("({} items are over)\n", over.len()) };
    let most = most.saturating_sub(text.len());
    let open_items: usize = open.iter().map(|item| line(item, usize::MAX).len()).sum();
    // The mark, the spaces around it and the sign that something is missing.
    let frame = plan_mark(PlanState::Pending).len() + " …\n".len();
    let each = (most / open.len().max(1)).saturating_sub(frame).max(PLAN_ITEM);
    let words = if open_items <= most { usize::MAX } else { each };
    let mut size = 0;
    for (told, item) in open.iter().enumerate() {
        let line = line(item, words);
        size += line.len();
        if size > most.max(PLAN_ITEM + frame) {
            text.push_str(&format!("(and {} more items)\n", open.len() - told));
            break;
        }
        text.push_str(&line);
    }
    text
}

/// The end of a conversation that is kept.
#[derive(Debug, Clone, Copy, Default)]
struct End {
    /// The event that it begins with; None when nothing is kept.
    from: Option<u64>,
    /// The most bytes of each of its results, where they are too long together.
    unread: Option<u64>,
}

/// Where the end of at most so many bytes begins, before a whole step; None when not even the last step fits. Results that
/// the model has not read yet are never left out as a whole, because it would only ask for them again: where they are too
/// long together, each of them loses its middle, and how many bytes it may have comes with the place.
fn end_of(messages: &[Message], most: u64, room: u64) -> (Option<usize>, Option<u64>) {
    let (mut size, mut from, last) = (0, None, unread(messages));
    // The last step is kept even if it is rather long: it is what the model works on.
    let of_last = most.max(room / 2);
    for (index, message) in messages.iter().enumerate().rev() {
        size += message_bytes(message);
        if size > if from.is_none() { of_last } else { most } {
            break;
        }
        // What was said after the last results is nothing without them.
        if !matches!(message, Message::Tools { .. }) && last.is_none_or(|last| index < last) {
            from = Some(index);
        }
    }
    if from.is_some() {
        return (from, None);
    }
    let Some(last) = last else { return (None, None) };
    let (Some(step), Message::Tools { results }) = (last.checked_sub(1), &messages[last]) else {
        return (None, None);
    };
    let mut lengths: Vec<u64> = results.iter().map(|result| result.text.len() as u64).collect();
    let beside = messages_bytes(&messages[step..]).saturating_sub(lengths.iter().sum());
    // More would be in the way of the next step.
    let mut left = most.max(room / 3).saturating_sub(beside);
    // What the short ones do not need is for the long ones.
    lengths.sort_unstable();
    let mut each = u64::MAX;
    for (before, length) in lengths.iter().enumerate() {
        each = left / (lengths.len() - before) as u64;
        if *length > each {
            break;
        }
        left -= length;
    }
    if each < SMALL as u64 { (None, None) } else { (Some(step), Some(each)) }
}

/// Where the results stand that the model has not read yet.
fn unread(messages: &[Message]) -> Option<usize> {
    let last = messages.iter().rposition(|message| !matches!(message, Message::User { .. }))?;
    matches!(messages[last], Message::Tools { .. }).then_some(last)
}

/// Takes the middle out of results that the model has not read yet.
pub(crate) fn shorten_unread(messages: &mut [Message], most: usize) {
    let Some(Message::Tools { results }) = unread(messages).and_then(|last| messages.get_mut(last)) else {
        return;
    };
    for result in results.iter_mut().filter(|result| result.text.len() > most) {
        let text = cut(&result.text, most.saturating_sub(TOO_LONG.len()));
        result.text = text + TOO_LONG;
    }
}

/// What stands below a result that lost its middle because of those beside it.
const TOO_LONG: &str = "\n[cut because the results of this step are too long together: ask for less at once]";

/// Leaves out what is long of the messages before `end`. What is open now stays: plans, what the checks said when they were
/// last run, and skills, which say how the work is done.
pub(crate) fn mask_before(messages: &mut [Message], end: usize) {
    let open = last_check(messages);
    let mut loaded: Vec<String> = Vec::new();
    for (index, message) in messages.iter_mut().enumerate().take(end) {
        let open = open.as_ref().filter(|(place, _)| *place == index).map(|(_, ids)| ids.as_slice());
        loaded.extend(open.unwrap_or_default().iter().cloned());
        mask(message, &loaded);
        let skills = calls_of(message).filter(|call| tools::loads_skill(&call.tool));
        loaded = skills.map(|call| call.id.clone()).collect();
    }
}

/// Where the results of the last call of the checks stand, and the ids of these calls.
fn last_check(messages: &[Message]) -> Option<(usize, Vec<String>)> {
    let ids = |message: &Message| {
        let calls = calls_of(message).filter(|call| tools::runs_checks(&call.tool));
        calls.map(|call| call.id.clone()).collect::<Vec<String>>()
    };
    let found = messages.iter().enumerate().rev().map(|(index, message)| (index + 1, ids(message)));
    found.into_iter().find(|(_, ids)| !ids.is_empty())
}

/// Leaves out what is long of a message: outputs but those of the calls `open`, and arguments where no signature stands
/// beside them.
fn mask(message: &mut Message, open: &[String]) {
    match message {
        Message::User { .. } => {}
        Message::Tools { results } => {
            results.iter_mut().filter(|result| !open.contains(&result.call_id)).for_each(mask_result);
        }
        Message::Assistant { parts } => {
            let signed = |part: &Part| matches!(part, Part::Reasoning { signature: Some(_), .. });
            if parts.iter().any(signed) {
                return;
            }
            for part in parts {
                if let Part::Call(call) = part
                    && !tools::shows_plan(&call.tool)
                    && let Value::Object(mut object) = recorded_input(&call.arguments)
                    && call.arguments.len() > SMALL
                {
                    object.values_mut().for_each(mask_value);
                    call.arguments = Value::Object(object).to_string();
                }
            }
        }
    }
}

fn mask_result(result: &mut ToolResult) {
    if !result.images.is_empty() {
        let images = std::mem::take(&mut result.images);
        let words: Vec<String> = images.iter().map(|image| seen_again(&image.file)).collect();
        result.text = format!("{MASKED} an image, {}]", words.join("; "));
    }
    if result.text.len() > SMALL && !result.text.starts_with(MASKED) {
        let first: String = result.text.lines().next().unwrap_or_default().chars().take(80).collect();
        result.text = format!(
            "{MASKED} {} bytes that began with {first:?}; make the call again if you need it]",
            result.text.len()
        );
    }
}

const MASKED: &str = "[left out to save room:";

fn mask_value(value: &mut Value) {
    if let Value::String(text) = value
        && text.len() > SMALL
    {
        *text = format!("{MASKED} {} bytes]", text.len());
    }
}

/// Bytes that masking the messages before the protected end would save.
pub(crate) fn maskable(messages: &[Message], room: u64) -> u64 {
    let (place, unread) = end_of(messages, protected(room), room);
    let mut masked = messages.to_vec();
    mask_before(&mut masked, place.unwrap_or(messages.len()));
    if let Some(most) = unread {
        shorten_unread(&mut masked, usize::try_from(most).unwrap_or(usize::MAX));
    }
    messages_bytes(messages).saturating_sub(messages_bytes(&masked))
}

/// Bytes at the end that masking leaves alone.
fn protected(room: u64) -> u64 {
    (room * 30 / 100).min(40_000 * BYTES_PER_TOKEN)
}

/// Bytes at the end that a summary leaves alone.
fn tail(room: u64) -> u64 {
    (room * 30 / 100).min(8_000 * BYTES_PER_TOKEN)
}

fn bytes(room: u64, percent: u64) -> usize {
    usize::try_from(room * percent / 100).unwrap_or(usize::MAX)
}

/// A text in at most so many bytes with a mark before each line, so that nothing in it can be taken for a prompt or a plan: a
/// summary may have words of a hostile file in it.
fn quoted(text: &str, most: usize) -> String {
    const MARK: &str = "> ";
    let text = text.replace('\r', "\n");
    let marks = text.lines().count() * MARK.len();
    let kept = cut(&text, most.saturating_sub(marks.min(most / 2)));
    let lines: Vec<String> = kept.lines().map(|line| format!("{MARK}{line}").trim_end().to_owned()).collect();
    lines.join("\n")
}

/// The last of these texts that fit, and how many do not. None is cut: half a prompt says something else.
fn last_within(texts: &[&str], most: usize) -> (Vec<String>, usize) {
    let mut size = 0;
    let fit = texts.iter().rev().take_while(|text| {
        size += text.len();
        size <= most
    });
    let first = texts.len() - fit.count();
    (texts[first..].iter().map(|text| (*text).to_owned()).collect(), first)
}

/// A conversation as text, for whoever sums it up.
fn transcript(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        match message {
            Message::User { text: said, images } => {
                text.push_str(&format!("## User or platform\n{}\n", cut(said.trim(), 2 * QUOTED_OUTPUT)));
                for image in images {
                    text.push_str(&format!("[an image: {}]\n", seen_again(&image.file)));
                }
                text.push('\n');
            }
            Message::Assistant { parts } => {
                text.push_str("## Agent\n");
                for part in parts {
                    match part {
                        Part::Text { text: said } => {
                            text.push_str(&format!("{}\n", cut(said.trim(), QUOTED_OUTPUT)));
                        }
                        Part::Reasoning { .. } => {}
                        Part::Call(call) => {
                            let arguments = cut(&call.arguments, QUOTED_ARGUMENTS);
                            text.push_str(&format!("call {} {arguments}\n", call.tool));
                        }
                    }
                }
                text.push('\n');
            }
            Message::Tools { results } => {
                for result in results {
                    let how = if result.is_error { "failed" } else { "gave" };
                    text.push_str(&format!(
                        "## A call {how}\n{}\n\n",
                        cut(result.text.trim(), QUOTED_OUTPUT)
                    ));
                }
            }
        }
    }
    text
}

const SUMMARISE: &str = "\
You sum up the work of a coding agent, so that it can go on without the conversation. Its instructions, the prompts, the plan, the changed files and the failing checks are given to it anew, so leave those out. Be exact and short: names of files, functions and commands as they are, no advice, nothing that is not in the conversation. If the conversation begins with a summary, carry over what of it still holds.

Write these headings, each with a few lines or \"none\":
Objective
Constraints and what the user asked for
Decisions, and why
Done
Under way
What did not work
Next
Files that matter, and what is in them
Commands that work here
";

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(items: usize, words: &str) -> Vec<PlanItem> {
        let state = |number| if number < 2 { PlanState::Completed } else { PlanState::Pending };
        (0..items)
            .map(|number| PlanItem { text: format!("{number} {words}"), state: state(number) })
            .collect()
    }

    #[test]
    fn a_plan_loses_what_is_over_and_then_the_ends_of_its_items() {
        insta::assert_snapshot!(plan_within(&plan(4, "look"), 100), @"
        [x] 0 look
        [x] 1 look
        [ ] 2 look
        [ ] 3 look
        ");
        insta::assert_snapshot!(plan_within(&plan(4, "look"), 43), @"
        (2 items are over)
        [ ] 2 look
        [ ] 3 look
        ");
        insta::assert_snapshot!(plan_within(&plan(4, &"é".repeat(100)), 120), @"
        (2 items are over)
        [ ] 2 éééééééééééééééééééé…
        [ ] 3 éééééééééééééééééééé…
        ");
        let long = plan_within(&plan(50, &"word ".repeat(50)), 3000);
        assert!(long.len() <= 3000 && long.contains("[ ] 49 word word"), "{long}");
        let tiny = plan_within(&plan(50, &"word ".repeat(50)), 500);
        assert!(tiny.len() < 550 && tiny.ends_with("more items)\n"), "{tiny}");
    }

    #[test]
    fn a_skill_is_never_masked_and_a_fresh_context_names_it() {
        let long = "word ".repeat(500);
        let call = |id: &str, tool: &str| {
            let arguments = r#"{"name":"ship"}"#.to_owned();
            Part::Call(protocol::chat::Call { id: id.to_owned(), tool: tool.to_owned(), arguments })
        };
        let result = |id: &str| ToolResult {
            call_id: id.to_owned(),
            text: long.clone(),
            is_error: false,
            images: Vec::new(),
        };
        let mut messages = vec![
            Message::user("Ship it"),
            Message::Assistant { parts: vec![call("1", "skill"), call("2", "shell")] },
            Message::Tools { results: vec![result("1"), result("2")] },
            Message::Assistant { parts: vec![call("1", "shell")] },
            Message::Tools { results: vec![result("1")] },
        ];
        mask_before(&mut messages, 5);
        let texts: Vec<bool> = messages
            .iter()
            .filter_map(|message| match message {
                Message::Tools { results } => Some(results),
                Message::User { .. } | Message::Assistant { .. } => None,
            })
            .flatten()
            .map(|result| result.text == long)
            .collect();
        assert_eq!(texts, [true, false, false], "an id that comes again is another call");
        let state = WorkState { skills: vec!["ship".to_owned()], ..WorkState::default() };
        assert!(
            state.text(10_000).contains("loaded: ship. What they say is left out"),
            "{}",
            state.text(10_000)
        );
    }

    #[test]
    fn results_that_were_not_read_lose_their_middles_whatever_is_said_after_them() {
        let call = |id: &str| {
            let (id, tool, arguments) = (id.to_owned(), "shell".to_owned(), "{}".to_owned());
            Part::Call(protocol::chat::Call { id, tool, arguments })
        };
        let result = |id: &str, bytes: usize| ToolResult {
            call_id: id.to_owned(),
            text: format!("head {}tail", "line\n".repeat(bytes / 5)),
            is_error: false,
            images: Vec::new(),
        };
        let step = vec![
            Message::user("Look"),
            Message::Assistant { parts: vec![call("1"), call("2"), call("3")] },
            Message::Tools { results: vec![result("1", 100), result("2", 9000), result("3", 9000)] },
        ];
        for said_after in [0, 1, 2] {
            let mut messages = step.clone();
            messages.extend((0..said_after).map(|_| Message::user("You repeat yourself.")));
            let (from, most) = end_of(&messages, 3000, 12_000);
            assert_eq!(from, Some(1), "{said_after}");
            shorten_unread(&mut messages, usize::try_from(most.unwrap()).unwrap());
            let Message::Tools { results } = &messages[2] else { panic!("{messages:?}") };
            assert_eq!(results[0], result("1", 100), "a short one stays");
            for result in &results[1..] {
                assert!((1500..2000).contains(&result.text.len()), "{}", result.text.len());
                assert!(result.text.starts_with("head ") && result.text.contains("tail\n[cut because"));
            }
            assert!(messages_bytes(&messages) <= 6000, "{}", messages_bytes(&messages));
        }
        assert_eq!(end_of(&step, 30_000, 60_000), (Some(0), None), "all of it fits");
    }
}
