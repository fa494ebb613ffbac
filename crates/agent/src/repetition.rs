//! Noticing that a model goes in circles: the same calls again and again, alone or in a cycle of a few; the same call with the
//! same result beside others; nothing but what it did before; or calls of one tool that fail whatever it tries. It is told, what it
//! repeats is withheld for a step, and if that does not help the turn ends.

mod seen;

use std::collections::{BTreeMap, VecDeque};

use protocol::chat::{Call, ToolResult};

use self::seen::{Alike, Change, Seen, identity};
use crate::tools;

/// Calls that are remembered.
const MEMORY: usize = 400;
/// Longest cycle that is noticed as one.
const CYCLE: usize = 8;
/// Cycles longer than this have to come round three times: reading a few files again may have its reason.
const SHORT_CYCLE: usize = 4;
/// How much more patience there is with results that differ in numbers: the model may wait for something.
const MORE_PATIENCE: usize = 2;
/// The same with results that differ in other ways: something really changes.
const MOST_PATIENCE: usize = 6;
/// And where the call itself waits.
const PATIENCE_WITH_WAITING: usize = 12;
/// The same with calls of one tool that fail, each in another way: every one may have been worth a try.
const PATIENCE_WITH_FAILURES: usize = 2;
/// How many calls in a row, all of them made before with the same result, the model is told of, and after how many the turn ends.
const NOTHING_NEW: (usize, usize) = (30, 60);
/// Among how many of the last calls one is looked for that is made again and again beside others.
const BESIDE: usize = 200;
/// What such a call must amount to before the model is told, and before the turn ends: each time that it gave what it had given
/// before counts for two, or for one where a program ran since then; where a file was written it has its reason.
const IN_VAIN: (usize, usize) = (24, 80);
/// How often a model is told within so many calls before the turn ends.
const NUDGES: usize = 3;
const OF_LATE: usize = 100;

/// The last calls of a turn with their results.
#[derive(Debug, Clone)]
pub(crate) struct Repetition {
    seen: VecDeque<Seen>,
    /// How many of them came since the last verdict.
    fresh: usize,
    /// How many of the last calls in a row were made before, for each measure of that.
    nothing_new: [usize; Alike::ALL.len()],
    /// How many calls of a tool failed since one of them did not.
    failed: BTreeMap<String, usize>,
    /// Calls so far.
    calls: usize,
    /// Whether the model was told of what it repeats now.
    nudged: bool,
    /// After how many calls it was told, as far as that is not long ago.
    nudges: VecDeque<usize>,
    /// Calls that it repeats beside others, and what they amounted to when it was told.
    told_beside: BTreeMap<(u64, u64), usize>,
    /// Repetitions after which the model is told.
    nudge: usize,
    /// Repetitions after which the turn ends.
    give_up: usize,
}

/// What is repeated at the end of the calls.
struct Circle {
    count: usize,
    period: usize,
    /// What the repeated calls have in common.
    alike: Alike,
    /// How many times the usual patience there is with it.
    patience: usize,
}

/// What is done in vain.
struct Vain {
    /// Whether it was done so often that the turn ends, where the model was told.
    enough: bool,
    /// Why it would end.
    reason: String,
    /// What the model is told.
    text: String,
    /// The tools that are used for it, and the calls as they are shown.
    tools: Vec<String>,
    calls: String,
}

/// What the calls of a step amount to.
pub(crate) enum Verdict {
    /// Something new, or something already said.
    GoOn,
    /// The model should be told, and not have these tools in its next step.
    Nudge {
        /// What it is told.
        text: String,
        /// The tools that it repeats.
        tools: Vec<String>,
    },
    /// Telling it did not help; why the turn ends.
    GiveUp(String),
}

impl Repetition {
    /// Nothing seen yet.
    pub(crate) fn new((nudge, give_up): (usize, usize)) -> Self {
        let (seen, failed, nudges) = (VecDeque::new(), BTreeMap::new(), VecDeque::new());
        let (fresh, nothing_new, told_beside) = (0, [0; Alike::ALL.len()], BTreeMap::new());
        Self {
            seen,
            fresh,
            nothing_new,
            failed,
            calls: 0,
            nudged: false,
            nudges,
            told_beside,
            nudge,
            give_up,
        }
    }

    /// Adds a call that was run. The same again within one answer is no repetition: the model had not seen what it gives.
    pub(crate) fn saw(&mut self, call: &Call, result: &ToolResult) {
        if self.is_fresh(identity(call)) {
            return;
        }
        // A command that fails tells something of the work; another call that fails did nothing.
        if result.is_error && !tools::runs_programs(&call.tool) {
            *self.failed.entry(call.tool.clone()).or_default() += 1;
        } else {
            self.failed.remove(&call.tool);
        }
        self.push(Seen::new(call, result));
    }

    /// Adds a call that was withheld, and so would have given what it gave before.
    pub(crate) fn saw_again(&mut self, call: &Call) {
        let call = identity(call);
        let seen = self.seen.iter().rev().find(|seen| seen.call == call).cloned();
        if let Some(seen) = seen.filter(|_| !self.is_fresh(call)) {
            self.push(seen);
        }
    }

    /// Whether a call was seen since the last verdict.
    fn is_fresh(&self, call: u64) -> bool {
        self.seen.iter().rev().take(self.fresh).any(|seen| seen.call == call)
    }

    /// Whether this call was made of late.
    pub(crate) fn knows(&self, call: &Call) -> bool {
        let call = identity(call);
        self.seen.iter().any(|seen| seen.call == call)
    }

    fn push(&mut self, mut seen: Seen) {
        seen.known = self.seen.iter().filter_map(|before| seen.alike(before)).max();
        for (alike, count) in Alike::ALL.into_iter().zip(&mut self.nothing_new) {
            *count = if seen.known.is_some_and(|known| known >= alike) { *count + 1 } else { 0 };
        }
        if self.seen.len() == MEMORY {
            self.seen.pop_front();
        }
        self.seen.push_back(seen);
        self.calls += 1;
        self.fresh += 1;
    }

    /// Judges the calls so far.
    pub(crate) fn verdict(&mut self) -> Verdict {
        let fresh = std::mem::take(&mut self.fresh);
        let vain = self.in_a_circle().or_else(|| self.failing()).or_else(|| self.with_nothing_new());
        match vain {
            // Who does many things in one answer was not told yet.
            Some(vain) if vain.enough && self.nudged => Verdict::GiveUp(vain.reason),
            Some(_) if std::mem::replace(&mut self.nudged, true) => Verdict::GoOn,
            Some(vain) => self.tell(vain),
            None => {
                self.nudged = false;
                self.beside_others(fresh)
            }
        }
    }

    /// Tells the model of what it does in vain; ends the turn if it was told too often.
    fn tell(&mut self, vain: Vain) -> Verdict {
        self.nudges.retain(|told| self.calls - told < OF_LATE);
        if self.nudges.len() >= NUDGES {
            return Verdict::GiveUp(format!(
                "the model repeats itself although it was told {NUDGES} times not to: {}",
                vain.calls
            ));
        }
        self.nudges.push_back(self.calls);
        let Vain { text, mut tools, .. } = vain;
        tools.sort();
        tools.dedup();
        Verdict::Nudge { text, tools }
    }

    /// The same calls one after the other, or a cycle of a few.
    fn in_a_circle(&self) -> Option<Vain> {
        let circles = Alike::ALL.map(|alike| self.circle(alike));
        let enough = |most: usize| circles.iter().find(|circle| circle.count >= most * circle.patience);
        let circle = enough(self.give_up).or_else(|| enough(self.nudge))?;
        let Circle { count, period, alike, patience } = *circle;
        let repeated = || self.seen.range(self.seen.len() - period..);
        let calls = repeated().map(Seen::show).collect::<Vec<_>>().join(", then ");
        let reason = match alike {
            Alike::Call => format!("the model made the same call {count} times, whatever it gave: {calls}"),
            Alike::Shape | Alike::Result => {
                format!("the model repeated itself {count} times with the same result{}: {calls}", but(alike))
            }
        };
        let and = match alike {
            Alike::Call => " and nothing came of it, though it gave something else".to_owned(),
            Alike::Shape | Alike::Result => format!(" and got the same result each time{}", but(alike)),
        };
        let advice = match alike {
            Alike::Result => "Repeating it will not help.",
            Alike::Shape | Alike::Call => {
                "If you wait for something, wait longer in one command; else repeating it will not help."
            }
        };
        let text = format!(
            "You have made the same call {count} times{and}: {calls}. {advice} Look at what the result says, then do something else: read another file, change the code, or finish and say what stops you."
        );
        let tools = repeated().map(|seen| seen.tool.clone()).collect();
        Some(Vain { enough: count >= self.give_up * patience, reason, text, tools, calls })
    }

    /// Calls that differ and fail one after the other.
    fn failing(&self) -> Option<Vain> {
        let last = self.seen.back()?;
        let (tool, count) = (last.tool.clone(), *self.failed.get(&last.tool)?);
        if count < self.nudge * PATIENCE_WITH_FAILURES {
            return None;
        }
        let calls = last.show();
        let reason = format!("{count} calls of {tool} failed one after the other, the last one: {calls}");
        let text = format!(
            "Your last {count} calls of {tool} all failed, so nothing came of them. Do not try another one like them. Read what the last error says, look at the file as it is now, and go another way: a smaller change, another tool, or finish and say what stops you."
        );
        let enough = count >= self.give_up * PATIENCE_WITH_FAILURES;
        Some(Vain { enough, reason, text, tools: vec![tool], calls })
    }

    /// Many calls in a row of which none is new, in whatever order they come.
    fn with_nothing_new(&self) -> Option<Vain> {
        let (told, ends) = NOTHING_NEW;
        let patience = |alike| match alike {
            Alike::Result => 1,
            Alike::Shape => MORE_PATIENCE,
            Alike::Call => MORE_PATIENCE * MORE_PATIENCE,
        };
        let counts = || Alike::ALL.into_iter().zip(self.nothing_new);
        let most = |most: usize| counts().find(|(alike, count)| *count >= most * patience(*alike));
        let (alike, count) = most(ends).or_else(|| most(told))?;
        let recent = || self.seen.range(self.seen.len().saturating_sub(told)..);
        let calls = self.seen.back()?.show();
        let gave = match alike {
            Alike::Call => String::new(),
            Alike::Shape | Alike::Result => format!(" with the same results{}", but(alike)),
        };
        let reason =
            format!("the last {count} calls of the model were all made before{gave}, the last one: {calls}");
        let text = format!(
            "You made all of your last {count} calls before in this turn{gave}, so you go in a circle. The last one: {calls}. Doing the same once more will not help. Say to yourself what you know by now, then do something that you have not done yet: change the code, look somewhere else, or finish and say what stops you."
        );
        let tools = recent().map(|seen| seen.tool.clone()).collect();
        Some(Vain { enough: count >= ends * patience(alike), reason, text, tools, calls })
    }

    /// A call of the last step that was made again and again with the same result while others beside it were new. It is told
    /// anew only when it has become as much again, because the steps between may be good ones.
    fn beside_others(&mut self, fresh: usize) -> Verdict {
        let (told, ends) = IN_VAIN;
        let last = self.seen.range(self.seen.len().saturating_sub(fresh)..);
        let scored = last.map(|seen| (self.in_vain(seen), seen));
        let Some(((score, count), seen)) = scored.max_by_key(|((score, _), _)| *score) else {
            return Verdict::GoOn;
        };
        let key = seen.compared(Alike::Result);
        let before = self.told_beside.get(&key).copied().unwrap_or(0).min(score);
        if score < told {
            self.told_beside.remove(&key);
            return Verdict::GoOn;
        }
        let calls = seen.show();
        if score >= ends && before > 0 {
            return Verdict::GiveUp(format!(
                "the model made the same call {count} times with the same result, beside others: {calls}"
            ));
        }
        if score < before + told {
            return Verdict::GoOn;
        }
        let text = format!(
            "Among your last calls is the same one {count} times, and it gave the same each time: {calls}. You know by now what it says, so leave it out. Do what brings the work on: change the code, look somewhere else, or finish and say what stops you."
        );
        let tools = vec![seen.tool.clone()];
        self.told_beside.insert(key, score);
        self.tell(Vain { enough: false, reason: String::new(), text, tools, calls })
    }

    /// What a call with its result amounts to among the last ones, and how often it is there.
    fn in_vain(&self, call: &Seen) -> (usize, usize) {
        let (mut score, mut count, mut since) = (0, 0, Change::Nothing);
        for seen in self.seen.range(self.seen.len().saturating_sub(BESIDE)..) {
            if seen.compared(Alike::Result) == call.compared(Alike::Result) {
                let again = match since {
                    Change::Nothing => 2,
                    Change::Perhaps => 1,
                    Change::File => 0,
                };
                score += if count > 0 { again } else { 0 };
                (count, since) = (count + 1, Change::Nothing);
            } else if seen.call != call.call {
                since = since.max(seen.change);
            }
        }
        (score, count)
    }

    /// The cycle that stands most often at the end.
    fn circle(&self, alike: Alike) -> Circle {
        let (count, period) = (1..=CYCLE)
            .map(|period| (self.repeats(period, alike), period))
            .filter(|(count, period)| *period <= SHORT_CYCLE || *count > 2)
            // The shortest cycle of equals is the truest description.
            .max_by_key(|(count, period)| (*count, CYCLE - period))
            .unwrap_or_default();
        let waits = self.seen.range(self.seen.len() - period.min(self.seen.len())..).any(|seen| seen.waits);
        let patience = match alike {
            Alike::Result => 1,
            Alike::Shape => MORE_PATIENCE,
            Alike::Call if waits => PATIENCE_WITH_WAITING,
            Alike::Call => MOST_PATIENCE,
        };
        Circle { count, period, alike, patience }
    }

    /// How often the last `period` calls stand at the end, one run after the other.
    fn repeats(&self, period: usize, alike: Alike) -> usize {
        let length = self.seen.len();
        if length < period {
            return 0;
        }
        let run = |count: usize| {
            let calls = self.seen.range(length - (count + 1) * period..length - count * period);
            calls.map(move |seen| seen.compared(alike))
        };
        1 + (1..length / period).take_while(|count| run(*count).eq(run(0))).count()
    }
}

/// How the same results may differ.
fn but(alike: Alike) -> &'static str {
    match alike {
        Alike::Shape => " but for numbers",
        Alike::Call | Alike::Result => "",
    }
}

#[cfg(test)]
mod tests;
