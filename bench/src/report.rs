//! What a run found: rows of tables, printed for people and written as JSON.

use std::fmt::Write;

use serde::Serialize;

use crate::machine::Machine;
use crate::peers::Missing;
use crate::stats::Summary;

/// A whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
}

/// What one row of the suite found.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) tables: Vec<Table>,
    /// Why there is no result, or only a part of it.
    pub(crate) problem: Option<String>,
}

/// Samples of one quantity, ours and others'.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) lines: Vec<Line>,
}

/// One thing that was measured, or was not.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// Whether it was measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Measured {
        #[serde(flatten)]
        summary: Summary,
        /// Our median divided by this one's: below 1 we need less. Absent for our own lines.
        #[serde(skip_serializing_if = "Option::is_none")]
        ours_divided_by_it: Option<f64>,
        samples: Vec<f64>,
    },
    Missing(String),
}

impl Table {
    /// A table whose ratios refer to these samples of ours. It stays empty when there are none.
    pub(crate) fn new(title: impl Into<String>, unit: &'static str, ours: &str, samples: Vec<f64>) -> Self {
        Self { title: title.into(), unit, lines: Vec::new() }.also(ours, samples)
    }

    /// Adds a line without a ratio: ours, or a part of ours.
    pub(crate) fn also(self, name: impl Into<String>, samples: Vec<f64>) -> Self {
        self.push(name.into(), samples, None)
    }

    /// Adds an alternative.
    pub(crate) fn against(self, name: impl Into<String>, samples: Vec<f64>) -> Self {
        let ours = self.lines.first().and_then(|line| match &line.outcome {
            Outcome::Measured { summary, .. } => Some(summary.median),
            Outcome::Missing(_) => None,
        });
        self.push(name.into(), samples, ours)
    }

    /// Adds an alternative that could not be measured.
    pub(crate) fn without(mut self, missing: &Missing) -> Self {
        self.lines
            .push(Line { name: missing.name.to_owned(), outcome: Outcome::Missing(missing.why.clone()) });
        self
    }

    fn push(mut self, name: String, samples: Vec<f64>, ours: Option<f64>) -> Self {
        if let Some(summary) = Summary::of(&samples) {
            let ours_divided_by_it = ours.map(|ours| ours / summary.median);
            self.lines
                .push(Line { name, outcome: Outcome::Measured { summary, ours_divided_by_it, samples } });
        }
        self
    }

    fn text(&self) -> String {
        let title = format!("{}, {}", self.title, self.unit);
        let names = self.lines.iter().map(|line| line.name.as_str()).chain([title.as_str()]);
        let width = names.map(|name| name.chars().count()).max().unwrap_or(0).max(30);
        let compared = |line: &Line| match &line.outcome {
            Outcome::Measured { ours_divided_by_it, .. } => ours_divided_by_it.is_some(),
            Outcome::Missing(_) => true,
        };
        let ratio = if self.lines.iter().any(compared) { "slipway ÷ it" } else { "" };
        let head = format!("  {title:width$} {:>9} {:>9} {:>9} {:>5}  {ratio}", "median", "min", "p90", "n");
        let mut text = format!("{}\n", head.trim_end());
        for Line { name, outcome } in &self.lines {
            let rest = match outcome {
                Outcome::Measured { summary, ours_divided_by_it, .. } => {
                    let Summary { count, min, median, p90 } = summary;
                    let ratio = ours_divided_by_it.map(|ratio| format!("{ratio:>8.2}")).unwrap_or_default();
                    format!("{median:>9.2} {min:>9.2} {p90:>9.2} {count:>5}  {ratio}")
                }
                Outcome::Missing(why) => format!("  {why}"),
            };
            text.push_str(format!("  {name:width$} {rest}").trim_end());
            text.push('\n');
        }
        text
    }
}

impl Row {
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", self.name);
        if let Some(problem) = &self.problem {
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "  {problem}");
        }
        let tables: Vec<String> = self.tables.iter().map(Table::text).collect();
        text.push_str(&tables.join("\n"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_our_median_over_the_others() {
        let table = Table::new("start", "ms", "slipway", vec![4.0, 6.0, 5.0]).against("other", vec![20.0]);
        let text = table.text();
        assert!(text.lines().nth(2).unwrap().contains("0.25"), "{text}");
    }

    #[test]
    fn what_is_missing_says_how_to_get_it_and_has_no_numbers() {
        let missing = Missing { name: "runc run", why: "not installed; apt-get install runc".to_owned() };
        let table = Table::new("start", "ms", "slipway", vec![4.0]).without(&missing);
        assert!(table.text().ends_with("not installed; apt-get install runc\n"));
        let json = serde_json::to_value(&table).unwrap();
        assert_eq!(json["lines"][1]["missing"], "not installed; apt-get install runc");
        assert_eq!(json["lines"][0]["measured"]["median"], 4.0);
    }
}
