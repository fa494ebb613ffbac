//! Noticing that a model goes in circles: the same calls with the same results again and again, alone or in a cycle of a
//! few. It is told, what it repeats is withheld for a step, and if that does not help the turn ends.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol::chat::{Call, ToolResult};

/// Longest cycle that is noticed.
const CYCLE: usize = 4;
/// Characters of a call that a message shows.
const SHOWN: usize = 200;

/// The last calls of a turn with their results.
#[derive(Debug, Clone)]
pub(crate) struct Repetition {
    seen: VecDeque<Seen>,
    nudged: bool,
    /// Repetitions after which the model is told.
    nudge: usize,
    /// Repetitions after which the turn ends.
    give_up: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Seen {
    tool: String,
    arguments: String,
    /// Results can be large and are only compared.
    result: u64,
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
        Self { seen: VecDeque::new(), nudged: false, nudge, give_up }
    }

    /// Adds a call that was run.
    pub(crate) fn saw(&mut self, call: &Call, result: &ToolResult) {
        let mut hasher = DefaultHasher::new();
        (&result.text, result.is_error).hash(&mut hasher);
        self.push(Seen {
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            result: hasher.finish(),
        });
    }

    /// Adds a call that was withheld, and so would have given what it gave before.
    pub(crate) fn saw_again(&mut self, call: &Call) {
        let same = |seen: &&Seen| seen.tool == call.tool && seen.arguments == call.arguments;
        if let Some(seen) = self.seen.iter().rev().find(same).cloned() {
            self.push(seen);
        }
    }

    fn push(&mut self, seen: Seen) {
        if self.seen.len() == self.give_up * CYCLE {
            self.seen.pop_front();
        }
        self.seen.push_back(seen);
    }

    /// Judges the calls so far.
    pub(crate) fn verdict(&mut self) -> Verdict {
        let (count, period) = (1..=CYCLE)
            .map(|period| (self.repeats(period), period))
            // The shortest cycle of equals is the truest description.
            .max_by_key(|(count, period)| (*count, CYCLE - period))
            .unwrap_or_default();
        if count < self.nudge {
            self.nudged = false;
            return Verdict::GoOn;
        }
        let calls: Vec<String> = self.seen.range(self.seen.len() - period..).map(Seen::show).collect();
        let calls = calls.join(", then ");
        // Who repeats itself within one answer was not told yet.
        if count >= self.give_up && self.nudged {
            return Verdict::GiveUp(format!(
                "the model repeated itself {count} times with the same result: {calls}"
            ));
        }
        if self.nudged {
            return Verdict::GoOn;
        }
        self.nudged = true;
        let mut tools: Vec<String> =
            self.seen.range(self.seen.len() - period..).map(|seen| seen.tool.clone()).collect();
        tools.sort();
        tools.dedup();
        let text = format!(
            "You have made the same call {count} times and got the same result each time: {calls}. Repeating it will not help. Look at what the result says, then do something else: read another file, change the code, or finish and say what stops you. For the next step you have no {}.",
            tools.join(" and no ")
        );
        Verdict::Nudge { text, tools }
    }

    /// How often the last `period` calls stand at the end, one run after the other.
    fn repeats(&self, period: usize) -> usize {
        let length = self.seen.len();
        if length < period {
            return 0;
        }
        let run = |count: usize| self.seen.range(length - (count + 1) * period..length - count * period);
        1 + (1..length / period).take_while(|count| run(*count).eq(run(0))).count()
    }
}

impl Seen {
    fn show(&self) -> String {
        let mut shown: String = self.arguments.chars().take(SHOWN).collect();
        if shown.len() < self.arguments.len() {
            shown.push('…');
        }
        format!("{} {shown}", self.tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(calls: &[(&str, &str)]) -> String {
        let mut repetition = Repetition::new((3, 6));
        calls
            .iter()
            .map(|(arguments, result)| {
                let call = Call { id: "c".into(), tool: "shell".into(), arguments: (*arguments).into() };
                let result = ToolResult { call_id: "c".into(), text: (*result).into(), is_error: false };
                repetition.saw(&call, &result);
                match repetition.verdict() {
                    Verdict::GoOn => '.',
                    Verdict::Nudge { .. } => 'n',
                    Verdict::GiveUp(_) => 'G',
                }
            })
            .collect()
    }

    #[test]
    fn the_same_call_with_the_same_result_is_noticed() {
        assert_eq!(verdicts(&[("a", "1"); 6]), "..n..G");
        assert_eq!(
            verdicts(&[("a", "1"), ("a", "2"), ("a", "3"), ("a", "4"), ("a", "5"), ("a", "6")]),
            "......"
        );
        // A different call in between starts the count again, and the model is told again.
        assert_eq!(
            verdicts(&[("a", "1"), ("a", "1"), ("a", "1"), ("b", "1"), ("a", "1"), ("a", "1"), ("a", "1")]),
            "..n...n"
        );
    }

    #[test]
    fn cycles_are_noticed_too() {
        assert_eq!(verdicts(&[("a", "1"), ("b", "1")].repeat(6)), ".....n.....G");
        assert_eq!(verdicts(&[("a", "1"), ("b", "1"), ("c", "1")].repeat(6)), "........n........G");
    }
}
