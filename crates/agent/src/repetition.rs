//! Noticing that a model goes in circles: the same calls with the same results again and again, alone or in a cycle of a
//! few, or calls of one tool that fail whatever it tries. It is told, what it repeats is withheld for a step, and if that
//! does not help the turn ends.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol::EditFormat;
use protocol::chat::{Call, ToolResult};

use crate::tools::{self, Invocation};

/// Longest cycle that is noticed.
const CYCLE: usize = 8;
/// Cycles longer than this have to come round three times: reading a few files again may have its reason.
const SHORT_CYCLE: usize = 4;
/// How much more patience there is with results that differ in numbers: the model may wait for something.
const MORE_PATIENCE: usize = 2;
/// The same with calls of one tool that fail, each in another way: every one may have been worth a try.
const PATIENCE_WITH_FAILURES: usize = 2;
/// How often a model is told within so many calls before the turn ends.
const NUDGES: usize = 3;
const OF_LATE: usize = 100;
/// Characters of a call that a message shows.
const SHOWN: usize = 200;
/// What stands before the name of a file with the rest of an output.
const PLACE: &str = "output:";

/// The last calls of a turn with their results.
#[derive(Debug, Clone)]
pub(crate) struct Repetition {
    seen: VecDeque<Seen>,
    /// How many calls of a tool failed since one of them did not.
    failed: BTreeMap<String, usize>,
    /// Calls so far.
    calls: usize,
    /// Whether the model was told of what it repeats now.
    nudged: bool,
    /// After how many calls it was told, as far as that is not long ago.
    nudges: VecDeque<usize>,
    /// Repetitions after which the model is told.
    nudge: usize,
    /// Repetitions after which the turn ends.
    give_up: usize,
}

#[derive(Debug, Clone)]
struct Seen {
    tool: String,
    arguments: String,
    /// What of the arguments is compared.
    essence: String,
    /// Results can be large and are only compared.
    result: u64,
    /// The result without its numbers: durations, times and addresses say nothing new.
    shape: u64,
}

/// What is repeated at the end of the calls.
struct Circle {
    count: usize,
    period: usize,
    /// Whether the results are the same to the letter.
    exact: bool,
    /// How many times the usual patience there is with it.
    patience: usize,
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
        Self { seen, failed, calls: 0, nudged: false, nudges, nudge, give_up }
    }

    /// Adds a call that was run.
    pub(crate) fn saw(&mut self, call: &Call, result: &ToolResult) {
        let hash = |text: &str| {
            let mut hasher = DefaultHasher::new();
            (text, result.is_error).hash(&mut hasher);
            hasher.finish()
        };
        let text = without_places(&result.text);
        // A command that fails tells something of the work; another call that fails did nothing.
        if result.is_error && !tools::runs_programs(&call.tool) {
            *self.failed.entry(call.tool.clone()).or_default() += 1;
        } else {
            self.failed.remove(&call.tool);
        }
        self.push(Seen {
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            essence: essence(call),
            result: hash(&text),
            shape: hash(&without_numbers(&text)),
        });
    }

    /// Adds a call that was withheld, and so would have given what it gave before.
    pub(crate) fn saw_again(&mut self, call: &Call) {
        let essence = essence(call);
        let same = |seen: &&Seen| seen.tool == call.tool && seen.essence == essence;
        if let Some(seen) = self.seen.iter().rev().find(same).cloned() {
            self.push(seen);
        }
    }

    /// Whether this call was made of late.
    pub(crate) fn knows(&self, call: &Call) -> bool {
        let essence = essence(call);
        self.seen.iter().any(|seen| seen.tool == call.tool && seen.essence == essence)
    }

    fn push(&mut self, seen: Seen) {
        if self.seen.len() == self.give_up * MORE_PATIENCE * CYCLE {
            self.seen.pop_front();
        }
        self.seen.push_back(seen);
        self.calls += 1;
    }

    /// Judges the calls so far.
    pub(crate) fn verdict(&mut self) -> Verdict {
        let circles = [self.circle(true), self.circle(false)];
        let enough = |most: usize| circles.iter().find(|circle| circle.count >= most * circle.patience);
        let Some(circle) = enough(self.give_up).or_else(|| enough(self.nudge)) else {
            return self.verdict_on_failures();
        };
        let Circle { count, period, exact, patience } = *circle;
        let repeated = || self.seen.range(self.seen.len() - period..);
        let calls = repeated().map(Seen::show).collect::<Vec<_>>().join(", then ");
        let tools = repeated().map(|seen| seen.tool.clone()).collect();
        let but = if exact { "" } else { " but for numbers" };
        // Who repeats itself within one answer was not told yet.
        if count >= self.give_up * patience && self.nudged {
            return Verdict::GiveUp(format!(
                "the model repeated itself {count} times with the same result{but}: {calls}"
            ));
        }
        let advice = match exact {
            true => "Repeating it will not help.",
            false => {
                "If you wait for something, wait longer in one command; else repeating it will not help."
            }
        };
        let text = format!(
            "You have made the same call {count} times and got the same result each time{but}: {calls}. {advice} Look at what the result says, then do something else: read another file, change the code, or finish and say what stops you."
        );
        self.tell(text, tools, &calls)
    }

    /// Judges calls that differ and fail one after the other.
    fn verdict_on_failures(&mut self) -> Verdict {
        let last = self.seen.back().and_then(|seen| Some((seen.tool.clone(), *self.failed.get(&seen.tool)?)));
        let Some((tool, count)) = last.filter(|(_, count)| *count >= self.nudge * PATIENCE_WITH_FAILURES)
        else {
            self.nudged = false;
            return Verdict::GoOn;
        };
        let calls = self.seen.back().map(Seen::show).unwrap_or_default();
        if count >= self.give_up * PATIENCE_WITH_FAILURES && self.nudged {
            return Verdict::GiveUp(format!(
                "{count} calls of {tool} failed one after the other, the last one: {calls}"
            ));
        }
        let text = format!(
            "Your last {count} calls of {tool} all failed, so nothing came of them. Do not try another one like them. Read what the last error says, look at the file as it is now, and go another way: a smaller change, another tool, or finish and say what stops you."
        );
        self.tell(text, vec![tool], &calls)
    }

    /// Tells the model once of what it does in vain; ends the turn if it was told too often.
    fn tell(&mut self, text: String, mut tools: Vec<String>, calls: &str) -> Verdict {
        if std::mem::replace(&mut self.nudged, true) {
            return Verdict::GoOn;
        }
        self.nudges.retain(|told| self.calls - told < OF_LATE);
        if self.nudges.len() >= NUDGES {
            return Verdict::GiveUp(format!(
                "the model repeats itself although it was told {NUDGES} times not to: {calls}"
            ));
        }
        self.nudges.push_back(self.calls);
        tools.sort();
        tools.dedup();
        Verdict::Nudge { text, tools }
    }

    /// The cycle that stands most often at the end.
    fn circle(&self, exact: bool) -> Circle {
        let (count, period) = (1..=CYCLE)
            .map(|period| (self.repeats(period, exact), period))
            .filter(|(count, period)| *period <= SHORT_CYCLE || *count > 2)
            // The shortest cycle of equals is the truest description.
            .max_by_key(|(count, period)| (*count, CYCLE - period))
            .unwrap_or_default();
        Circle { count, period, exact, patience: if exact { 1 } else { MORE_PATIENCE } }
    }

    /// How often the last `period` calls stand at the end, one run after the other.
    fn repeats(&self, period: usize, exact: bool) -> usize {
        let length = self.seen.len();
        if length < period {
            return 0;
        }
        let run = |count: usize| {
            let calls = self.seen.range(length - (count + 1) * period..length - count * period);
            calls.map(move |seen| seen.compared(exact))
        };
        1 + (1..length / period).take_while(|count| run(*count).eq(run(0))).count()
    }
}

impl Seen {
    fn compared(&self, exact: bool) -> (&str, &str, u64) {
        (&self.tool, &self.essence, if exact { self.result } else { self.shape })
    }

    fn show(&self) -> String {
        let mut shown: String = self.arguments.chars().take(SHOWN).collect();
        if shown.len() < self.arguments.len() {
            shown.push('…');
        }
        format!("{} {shown}", self.tool)
    }
}

/// What a call does. A command is the same with another time limit or another comment.
fn essence(call: &Call) -> String {
    match tools::parse(EditFormat::default(), &call.tool, &call.arguments) {
        Ok(Invocation::Shell { command, .. }) => {
            command.lines().map(without_comment).collect::<Vec<_>>().join("\n").trim().to_owned()
        }
        // Where the rest of an output is read that came before, each one has another name.
        Ok(_) | Err(_) => without_places(&call.arguments),
    }
}

/// A line of a command without the comment at its end.
fn without_comment(line: &str) -> &str {
    let quoted = |before: &str| ['"', '\''].iter().any(|quote| before.matches(*quote).count() % 2 == 1);
    let begins = |at: &usize| {
        let before = &line[..*at];
        (before.is_empty() || before.ends_with(char::is_whitespace)) && !quoted(before)
    };
    let comment = line.match_indices('#').map(|(at, _)| at).find(begins);
    line[..comment.unwrap_or(line.len())].trim_end()
}

/// A text without the names of files in which the rest of an output is kept: each output has its own, also where it is the same.
fn without_places(text: &str) -> String {
    let mut parts = text.split(PLACE);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(PLACE);
        kept.push_str(
            part.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_'),
        );
    }
    kept
}

/// A text with `0` in the place of each number, and of each word that is a hash.
fn without_numbers(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if end == 0 {
            shape.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(end);
        let numbered = word.contains(|letter: char| letter.is_ascii_digit());
        if numbered && word.len() > 6 && word.chars().all(|letter| letter.is_ascii_hexdigit()) {
            shape.push('0');
        } else {
            let mut in_number = false;
            for letter in word.chars() {
                let digit = letter.is_ascii_digit();
                if !(digit && in_number) {
                    shape.push(if digit { '0' } else { letter });
                }
                in_number = digit;
            }
        }
        rest = after;
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts_of(tool: &str, calls: &[(&str, &str)]) -> String {
        let calls: Vec<_> =
            calls.iter().map(|(arguments, result)| (tool, *arguments, *result, false)).collect();
        verdicts_on(&calls)
    }

    /// The verdicts on calls: the tool, its arguments, the result, and whether it failed.
    fn verdicts_on(calls: &[(&str, &str, &str, bool)]) -> String {
        let mut repetition = Repetition::new((3, 6));
        calls
            .iter()
            .map(|(tool, arguments, result, is_error)| {
                let call = Call { id: "c".into(), tool: (*tool).into(), arguments: (*arguments).into() };
                let result = ToolResult {
                    call_id: "c".into(),
                    text: (*result).into(),
                    is_error: *is_error,
                    images: Vec::new(),
                };
                repetition.saw(&call, &result);
                match repetition.verdict() {
                    Verdict::GoOn => '.',
                    Verdict::Nudge { .. } => 'n',
                    Verdict::GiveUp(_) => 'G',
                }
            })
            .collect()
    }

    fn verdicts(calls: &[(&str, &str)]) -> String {
        verdicts_of("list", calls)
    }

    #[test]
    fn the_same_call_with_the_same_result_is_noticed() {
        assert_eq!(verdicts(&[("a", "1"); 6]), "..n..G");
        assert_eq!(
            verdicts(&[("a", "u"), ("a", "v"), ("a", "w"), ("a", "x"), ("a", "y"), ("a", "z")]),
            "......"
        );
        // A different call in between starts the count again, and the model is told again.
        assert_eq!(
            verdicts(&[("a", "1"), ("a", "1"), ("a", "1"), ("b", "1"), ("a", "1"), ("a", "1"), ("a", "1")]),
            "..n...n"
        );
    }

    #[test]
    fn an_output_that_is_kept_elsewhere_is_the_same_wherever_that_is() {
        let cut = |id: &str| format!("1\n2\n[the whole output: path \"output:itm_{id}.out\"]\n(exit code 0)");
        let outputs: Vec<String> =
            ["01m7q1a", "01m7q2b", "01m7q3c", "01m7q4d", "01m7q5e", "01m7q6f"].map(cut).into();
        let calls: Vec<(&str, &str)> = outputs.iter().map(|output| ("seq", output.as_str())).collect();
        assert_eq!(verdicts(&calls), "..n..G");
        let others =
            [("seq", "1 output:itm_1.out"), ("seq", "2 output:itm_1.out"), ("seq", "x output:itm_1.out")];
        assert_eq!(verdicts(&others), "...");
    }

    #[test]
    fn reading_the_rest_of_one_output_after_the_other_is_the_same_call() {
        let read = |id: &str| format!(r#"{{"path":"output:itm_{id}.out","offset":9}}"#);
        let reads: Vec<String> = ["01m7q1a", "01m7q2b", "01m7q3c"].map(read).into();
        let calls: Vec<(&str, &str)> = reads.iter().map(|call| (call.as_str(), "the rest")).collect();
        assert_eq!(verdicts_of("read", &calls), "..n");
    }

    #[test]
    fn cycles_are_noticed_too() {
        assert_eq!(verdicts(&[("a", "1"), ("b", "1")].repeat(6)), ".....n.....G");
        assert_eq!(verdicts(&[("a", "1"), ("b", "1"), ("c", "1")].repeat(6)), "........n........G");
        let five = ["a", "b", "c", "d", "e"].map(|call| (call, "1"));
        assert_eq!(verdicts(&five.repeat(6)), "..............n..............G");
    }

    #[test]
    fn results_that_differ_in_numbers_are_noticed_later() {
        let outputs: Vec<String> = (0..12).map(|run| format!("1 failed in 0.{}s", 7 * run + 90)).collect();
        let runs: Vec<(&str, &str)> = outputs.iter().map(|output| ("test", output.as_str())).collect();
        assert_eq!(verdicts(&runs), ".....n.....G");
        assert_eq!(
            without_numbers("é 12.5s at 0x7f, 3f2a91c by py3, face"),
            "é 0.0s at 0x0f, 0 by py0, face"
        );
        // Other failures are something new.
        let words = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| format!("{name} failed in 3s"));
        let runs: Vec<(&str, &str)> = words.iter().map(|output| ("test", output.as_str())).collect();
        assert_eq!(verdicts(&runs), "........");
    }

    #[test]
    fn a_command_is_the_same_with_another_time_limit_or_comment() {
        let same = [
            (r#"{"command":"make"}"#, "no"),
            (r#"{"command":"make","timeout_ms":5000}"#, "no"),
            (r#"{"command":"make  # once more\n# and again"}"#, "no"),
        ];
        assert_eq!(verdicts_of("shell", &same), "..n");
        assert_eq!(without_comment("echo '# no' \"a # b\" x#y # yes"), "echo '# no' \"a # b\" x#y");
        let others = ["a", "b", "c"].map(|word| format!(r##"{{"command":"echo '# {word}'"}}"##));
        let others: Vec<(&str, &str)> = others.iter().map(|call| (call.as_str(), "no")).collect();
        assert_eq!(verdicts_of("shell", &others), "...");
    }

    #[test]
    fn calls_of_a_tool_that_all_fail_are_noticed_though_each_is_another_one() {
        let others: Vec<String> = (0..24).map(|count| "x".repeat(count)).collect();
        let failing = |tool| others.iter().map(move |other| (tool, other.as_str(), other.as_str(), true));
        let edits: Vec<_> = failing("edit").take(12).collect();
        assert_eq!(verdicts_on(&edits), ".....n.....G");
        // Looking in between changes nothing, one that works does.
        let mut looked: Vec<_> =
            edits[..6].iter().flat_map(|edit| [("read", edit.1, edit.2, false), *edit]).collect();
        assert_eq!(verdicts_on(&looked), "...........n");
        looked[9].3 = false;
        assert_eq!(verdicts_on(&looked), "............");
        // A command that fails is how work goes.
        assert_eq!(verdicts_on(&failing("shell").collect::<Vec<_>>()), ".".repeat(24));
    }

    #[test]
    fn who_is_told_again_and_again_is_given_up() {
        let mut calls = [("a", "1"), ("a", "1"), ("a", "1"), ("b", "2")].repeat(4);
        // A cycle of all four would be noticed too.
        let others: Vec<String> = (0..4).map(|round| format!("other {}", "x".repeat(round))).collect();
        for (round, other) in others.iter().enumerate() {
            calls[4 * round + 3] = (other, "2");
        }
        assert_eq!(verdicts(&calls), "..n...n...n...G.");
        // Long ago does not count.
        let quiet: Vec<String> = (0..100).map(|step| "y".repeat(step)).collect();
        let mut calls: Vec<(&str, &str)> = calls[..12].to_vec();
        calls.extend(quiet.iter().map(|step| (step.as_str(), "2")));
        calls.extend([("a", "1"); 3]);
        assert!(verdicts(&calls).ends_with("..n"), "{}", verdicts(&calls));
    }
}
