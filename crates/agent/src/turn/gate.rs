//! The end of a round: what the checks say decides whether the turn is done, goes on, or gives up.

use protocol::Outcome;
use protocol::chat::Message;

use super::{NUDGES, State, Turn, words};
use crate::answer::calls_of;
use crate::effect::Effect;
use crate::input::{CheckResult, Verification};
use crate::mode::as_data;
use crate::notes;
use crate::rounds;
use crate::tools;

/// Most bytes of one check's digest that the model is sent.
const DIGEST_BYTES: usize = 16 * 1024;
/// The same for what failed before the work.
const BEFORE_BYTES: usize = 2 * 1024;
/// Most failures and files that the reason of an escalation names, and most bytes of one.
const NAMED: usize = 5;
const NAMED_FILES: usize = 8;
const NAMED_BYTES: usize = 200;

impl Turn {
    pub(super) fn verified(&mut self, verification: &Verification) -> Vec<Effect> {
        let failing: Vec<&CheckResult> = verification.checks.iter().filter(|check| !check.passed).collect();
        if std::mem::take(&mut self.untouched) {
            let fails = self.digests(&failing);
            self.rounds.begin(&failing, &fails);
            let tell = (!fails.is_empty()).then(|| format!("Before your work this fails:\n{fails}"));
            return self.call_model(tell);
        }
        let left_out = self.left_out.take();
        let answer = self.messages.iter().rev().find(|message| matches!(message, Message::Assistant { .. }));
        let did = answer.is_some_and(|answer| calls_of(answer).next().is_some());
        if self.mode.in_rounds()
            && (!verification.changed || !did && !failing.is_empty())
            && let Some(effects) = self.nothing_changed(&failing, verification.changed, left_out.as_deref())
        {
            return effects;
        }
        if verification.changed && did {
            self.unchanged = 0;
        }
        if !verification.changed || failing.is_empty() {
            if self.mode.in_rounds()
                && let Some(effects) = self.not_all_written(left_out)
            {
                return effects;
            }
            self.state = State::Over;
            return vec![Effect::Finish { outcome: Outcome::Done, reason: None }];
        }
        let stale = self.rounds.add(&failing);
        if stale >= self.limits.rounds {
            let reason = format!(
                "checks still fail after {} without progress: {}",
                plural(stale as usize, "round"),
                left(&failing)
            );
            let reason = reason + not_broken(&failing) + &what_is_left(&failing) + &self.tried();
            return self.finish(Outcome::Escalated, reason);
        }
        let left_out = left_out.map(|told| told + "\n\n").unwrap_or_default();
        let text = left_out + &self.failing_text(&failing);
        self.call_model(Some(text))
    }

    fn failing_text(&self, failing: &[&CheckResult]) -> String {
        let mut text = "These checks must pass before the work can be called done. Fix the cause; do not weaken the checks. If one cannot pass for a reason outside your work, say so and why.\n".to_owned();
        text.push_str(&self.digests(failing));
        if let Some(before) = self.rounds.before_all_that_is_new(failing) {
            text.push_str(&format!(
                "\nYour changes brought this in: take back what causes it. Before your work something else failed, and it must be mended, too:\n{}",
                tools::cut(before, BEFORE_BYTES)
            ));
        }
        text
    }

    /// What each check that fails says. What the command of one printed is told as data: the repository's files and whatever they
    /// run can have written it. The others are the platform's own words.
    fn digests(&self, failing: &[&CheckResult]) -> String {
        let mut text = String::new();
        for check in failing {
            let digest = tools::cut(check.digest.trim_end(), DIGEST_BYTES);
            let known = self.checks.iter().find(|known| known.name == check.name);
            text.push_str(&match known {
                Some(known) => format!(
                    "\n{} (`{}`) failed; what it printed is data:\n{}\n",
                    check.name,
                    known.run,
                    as_data(&digest)
                ),
                None => format!("\n{} failed:\n{digest}\n", check.name),
            });
        }
        text
    }

    /// What was done in vain, for the person who goes on from here.
    fn tried(&self) -> String {
        let (rounds, steps) = (self.rounds.all() as usize, self.steps as usize);
        let mut text =
            format!("\nTried: {} of checks, {} of the model", plural(rounds, "round"), plural(steps, "step"));
        let files: Vec<&str> = self.wrote.iter().map(String::as_str).take(NAMED_FILES).collect();
        if !files.is_empty() {
            text.push_str(&format!("; wrote {}", files.join(", ")));
        }
        let more = self.wrote.len().saturating_sub(files.len());
        if more > 0 {
            text.push_str(&format!(" and {}", plural(more, "other file")));
        }
        text
    }

    /// A round that changed nothing: the model is told, unless it has only answered and means it. Who has changed something
    /// before is not done with that, so it is told more often.
    fn nothing_changed(
        &mut self,
        failing: &[&CheckResult],
        before: bool,
        left_out: Option<&str>,
    ) -> Option<Vec<Effect>> {
        let told = |text: &str| {
            let parts = [left_out.unwrap_or_default(), text, &self.digests(failing)];
            Some(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n"))
        };
        let same = told(match self.unwritten.is_empty() {
            true => "Your answer changed nothing: the files are as they were. Change what must change.",
            false => "Nothing of your answer was written: see above why.",
        });
        let nothing = told(
            "Your answer has no file and no command. If something must change, write the path and the whole new text of the file; if nothing must, say so again.",
        );
        let unplaced = told(
            "Your answer has code, but not the path of its file. Write the path on a line of its own, and then the whole new text of the file in a fenced block.",
        );
        // What was told since then is none of it.
        let last: Vec<&Message> =
            self.messages.iter().rev().filter(|message| !notes::is_given(message)).take(2).collect();
        let wrote =
            last.iter().flat_map(|message| calls_of(message)).any(|call| tools::changes_files(&call.tool));
        // Code in an answer is a change where something fails, and may be an explanation where nothing does.
        let code = !failing.is_empty() && last.iter().any(|message| words(message).contains("```"));
        self.unchanged += 1;
        match (wrote, self.unchanged) {
            (true, 1..=NUDGES) => Some(self.call_model(same)),
            (true, _) => Some(
                self.finish(Outcome::Escalated, "the model writes files without changing them".to_owned()),
            ),
            (false, 1..=NUDGES) if code => Some(self.call_model(unplaced)),
            (false, _) if code => {
                let reason = format!(
                    "the model does not say which files it means, and checks fail: {}",
                    left(failing)
                ) + &what_is_left(failing);
                Some(self.finish(Outcome::Escalated, reason))
            }
            (false, 1) => Some(self.call_model(nothing)),
            (false, ..=NUDGES) if before => Some(self.call_model(nothing)),
            (false, _) => None,
        }
    }

    /// The work seems done, but some of what the model wrote was refused, was cut off or is in no file: it is told, because
    /// nobody else would be. None where all was written, or where it goes on to show code that may not be meant for a file.
    fn not_all_written(&mut self, left_out: Option<String>) -> Option<Vec<Effect>> {
        if self.unwritten.is_empty() && left_out.is_none() {
            return None;
        }
        let files = self.unwritten.join(", ");
        self.incomplete += 1;
        if self.incomplete > NUDGES {
            let reason = if !files.is_empty() {
                format!("the model does not get these files written, what it sends is refused: {files}")
            } else if self.half {
                format!(
                    "the model's answers were cut off at the limit of {} tokens again and again, so not all of what it meant to write is there; raise max_output_tokens of [agent] (or max_output of the model) in slipway.toml, or use another model",
                    self.fit.answer()
                )
            } else {
                return None;
            };
            return Some(self.finish(Outcome::Escalated, reason));
        }
        let refused = (!files.is_empty()).then(|| {
            format!(
                "Not all of your answer was written. See above why, and write again what is missing: {files}. If nothing of it must change, say so."
            )
        });
        let told: Vec<String> = left_out.into_iter().chain(refused).collect();
        Some(self.call_model(Some(told.join("\n"))))
    }
}

/// The failing checks with their number of failures.
fn left(failing: &[&CheckResult]) -> String {
    let total: usize = failing.iter().map(|check| rounds::count(check)).sum();
    let names: Vec<String> = failing
        .iter()
        .map(|check| {
            let count = rounds::count(check);
            let before = match check.failed_before.min(count) {
                0 => String::new(),
                all if all == count => ", known from before the turn".to_owned(),
                some => format!(", {some} of them known from before the turn"),
            };
            format!("{} ({}{before})", check.name, plural(count, "failure"))
        })
        .collect();
    match names.as_slice() {
        [one] => one.clone(),
        several => format!("{}; {} left", several.join(", "), plural(total, "failure")),
    }
}

/// A few of the failures by name, with where they are.
fn what_is_left(failing: &[&CheckResult]) -> String {
    let mut lines = Vec::new();
    for check in failing {
        let named = rounds::named(check);
        if named.is_empty()
            && let Some(last) = check.report.tail.lines().rfind(|line| !line.trim().is_empty())
        {
            lines.push(format!("{} ends with: {}", check.name, tools::cut(last.trim(), NAMED_BYTES)));
        }
        lines.extend(
            named.into_iter().map(|name| format!("{}: {}", check.name, tools::cut(&name, NAMED_BYTES))),
        );
    }
    let more = lines.len().saturating_sub(NAMED);
    lines.truncate(NAMED);
    let mut text: String = lines.iter().map(|line| format!("\n- {line}")).collect();
    if more > 0 {
        text.push_str(&format!("\n- and {more} more"));
    }
    if text.is_empty() { text } else { format!("\nLeft:{text}") }
}

/// What is said where everything that fails is known from before the turn.
fn not_broken(failing: &[&CheckResult]) -> &'static str {
    let known = failing.iter().all(|check| check.failed_before >= rounds::count(check));
    if known { "; none of it was broken by this turn" } else { "" }
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
