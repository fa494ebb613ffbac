//! Results beside those of a baseline, as a table and as JSON.

use protocol::Spend;
use serde::Serialize;
use serde_json::{Value, json};

use super::trial::{Results, TaskResult, Trial};
use crate::render::{table, text};

/// How results stand to a baseline.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    /// The model of the baseline.
    pub(super) model: String,
    pub(super) tasks: Vec<Compared>,
    /// Tasks of the baseline that were not tried, or are other ones by now.
    pub(super) left_out: Vec<String>,
    /// Solved tries by each task's number of tries, summed, of what can be compared.
    pub(super) solved: f64,
    /// The same of the baseline.
    pub(super) solved_before: f64,
}

/// How one task stands.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    pub(super) task: String,
    pub(super) change: Change,
    /// Solved, of so many tries, in the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<(usize, usize)>,
}

/// Better or worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    Better,
    Same,
    Worse,
    /// The baseline does not have the task as it is now.
    New,
}

impl Comparison {
    pub(super) fn of(results: &Results, baseline: &Results) -> Self {
        let mut compared = Vec::new();
        let (mut solved, mut solved_before) = (0.0, 0.0);
        for result in &results.tasks {
            let before = baseline.of(&result.task, &result.fingerprint);
            let change = before.map_or(Change::New, |before| {
                solved += rate(result);
                solved_before += rate(before);
                change(result, before)
            });
            let before = before.map(|before| (before.solved(), before.trials.len()));
            compared.push(Compared { task: result.task.clone(), change, before });
        }
        let is_left_out = |old: &&TaskResult| results.of(&old.task, &old.fingerprint).is_none();
        let left_out = baseline.tasks.iter().filter(is_left_out).map(|old| old.task.clone()).collect();
        Self { model: baseline.model.clone(), tasks: compared, left_out, solved, solved_before }
    }

    /// Whether fewer are solved than the baseline says.
    pub(super) fn is_worse(&self) -> bool {
        // Sums of the same fractions in another order differ by less.
        self.solved + 1e-9 < self.solved_before
    }
}

/// Solved, of all tries.
fn rate(result: &TaskResult) -> f64 {
    result.solved() as f64 / result.trials.len().max(1) as f64
}

fn change(result: &TaskResult, before: &TaskResult) -> Change {
    // Exactly: two fractions with their denominators crossed.
    let (now, then) = (result.solved() * before.trials.len(), before.solved() * result.trials.len());
    match now.cmp(&then) {
        std::cmp::Ordering::Greater => Change::Better,
        std::cmp::Ordering::Equal => Change::Same,
        std::cmp::Ordering::Less => Change::Worse,
    }
}

/// What several tries used.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    tries: u64,
    solved: u64,
    steps: u64,
    wall_ms: u64,
    spend: Spend,
}

impl Sum {
    fn of<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Self {
        let mut sum = Self::default();
        for trial in trials {
            sum.tries += 1;
            sum.solved += u64::from(trial.solved);
            sum.steps += u64::from(trial.steps);
            sum.wall_ms = sum.wall_ms.saturating_add(trial.wall_ms);
            sum.spend += trial.spend;
        }
        sum
    }

    fn cells(&self, name: &str, divisor: u64) -> Vec<String> {
        let divisor = divisor.max(1);
        let mean = |total: u64| {
            if divisor == 1 { total.to_string() } else { format!("{:.1}", total as f64 / divisor as f64) }
        };
        let Spend { usage, calls, unpriced_calls, cost_usd } = &self.spend;
        let cost = match (calls, unpriced_calls) {
            (0, _) => "-".to_owned(),
            (_, 0) => format!("${:.4}", cost_usd.dollars() / divisor as f64),
            _ => "not known".to_owned(),
        };
        vec![
            name.to_owned(),
            format!("{} of {}", self.solved, self.tries),
            cost,
            (usage.prompt() / divisor).to_string(),
            ((usage.output + usage.reasoning) / divisor).to_string(),
            mean(self.steps),
            text::duration(self.wall_ms / divisor),
        ]
    }
}

/// The results for people: a row for each task with the mean of its tries, and one with the sum of all.
pub(super) fn table(results: &Results, comparison: Option<&Comparison>) -> String {
    let mut head = vec!["task", "solved", "cost", "tokens in", "tokens out", "steps", "time"];
    let mut rows: Vec<Vec<String>> = results
        .tasks
        .iter()
        .map(|result| Sum::of(&result.trials).cells(&result.task, result.trials.len() as u64))
        .collect();
    rows.push(Sum::of(results.tasks.iter().flat_map(|result| &result.trials)).cells("all together", 1));
    let mut notes = vec![format!("model {}", results.model)];
    if results.repeat > 1 {
        notes.push("each row but the last is the mean of a task's tries".to_owned());
    }
    if let Some(comparison) = comparison {
        head.push("baseline");
        for (row, compared) in rows.iter_mut().zip(&comparison.tasks) {
            row.push(word(compared));
        }
        if comparison.model != results.model {
            notes.push(format!("the baseline is of the model {}", comparison.model));
        }
        if !comparison.left_out.is_empty() {
            notes.push(format!("not compared: {}", comparison.left_out.join(", ")));
        }
        let Comparison { solved, solved_before, .. } = comparison;
        notes.push(format!("solved {solved:.2} of what can be compared, {solved_before:.2} in the baseline"));
    }
    format!("{}\n{}", table::format(&head, rows), text::harmless(&notes.join("; ")))
}

fn word(compared: &Compared) -> String {
    let word = match compared.change {
        Change::Better => "better",
        Change::Same => "same",
        Change::Worse => "worse",
        Change::New => "new",
    };
    match compared.before {
        Some((solved, tries)) => format!("{word} (was {solved} of {tries})"),
        None => word.to_owned(),
    }
}

/// The results for programs.
pub(super) fn as_json(results: &Results, comparison: Option<&Comparison>) -> Value {
    json!({ "results": results, "comparison": comparison })
}

#[cfg(test)]
mod tests {
    use protocol::{SessionId, Status, Timestamp};

    use super::*;

    fn result(task: &str, fingerprint: &str, tries: &[bool]) -> TaskResult {
        let trial = |&solved: &bool| Trial {
            session: SessionId::new(),
            model: "m".to_owned(),
            solved,
            status: Status::Done,
            why: None,
            steps: 3,
            spend: Spend::default(),
            wall_ms: 1500,
        };
        TaskResult {
            task: task.to_owned(),
            fingerprint: fingerprint.to_owned(),
            trials: tries.iter().map(trial).collect(),
        }
    }

    fn results(tasks: Vec<TaskResult>) -> Results {
        let (version, model) = ("0".to_owned(), "m".to_owned());
        Results { format: 1, version, model, at: Timestamp::now(), repeat: 2, tasks }
    }

    #[test]
    fn tasks_are_compared_by_their_share_of_solved_tries() {
        let before = results(vec![
            result("a", "1", &[true, false]),
            result("b", "1", &[true, true, true]),
            result("c", "1", &[true]),
            result("d", "old", &[true]),
            result("gone", "1", &[true]),
        ]);
        let now = results(vec![
            result("a", "1", &[true, true, true, false]),
            result("b", "1", &[true]),
            result("c", "1", &[false, true]),
            result("d", "new", &[false]),
        ]);
        let comparison = Comparison::of(&now, &before);
        let changes: Vec<Change> = comparison.tasks.iter().map(|task| task.change).collect();
        assert_eq!(changes, [Change::Better, Change::Same, Change::Worse, Change::New]);
        assert_eq!(comparison.left_out, ["d", "gone"]);
        assert!(comparison.is_worse(), "{comparison:?}");
        assert!(!Comparison::of(&before, &now).is_worse());
        assert!(!Comparison::of(&now, &now).is_worse());
        let shown = table(&now, Some(&comparison));
        for said in
            ["a             3 of 4", "better (was 1 of 2)", "all together  5 of 8", "not compared: d, gone"]
        {
            assert!(shown.contains(said), "{said}: {shown}");
        }
    }

    #[test]
    fn what_is_saved_can_be_read_again() {
        let results = results(vec![result("a", "1", &[true, false])]);
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
        assert!(results.of("a", "1").is_some() && results.of("a", "2").is_none());
    }
}
