//! Budgets and spend, for people.

use protocol::{Budget, BudgetKind, BudgetScope, BudgetWarning, Session, Spend, Spent};

use super::{table, text};

/// The limits of a session with what is used of them; a line that says so where there are none.
pub(crate) fn table(session: &Session) -> String {
    let used = &session.used;
    let rows: Vec<Vec<String>> = rows("session", &session.budgets.session, &used.session)
        .chain(rows("turn", &session.budgets.turn, &used.turn))
        .collect();
    if rows.is_empty() {
        return format!("no limit; it used {}", text::spend(&session.spend));
    }
    let mut shown = table::format(&["of", "limit", "used", ""], rows);
    let unpriced = session.spend.unpriced_calls;
    if unpriced > 0 && (session.budgets.session.usd.is_some() || session.budgets.turn.usd.is_some()) {
        shown.push_str(&format!("\n{unpriced} of {} model calls have no known price", session.spend.calls));
    }
    shown
}

fn rows<'a>(
    scope: &'a str,
    budget: &Budget,
    used: &protocol::Used,
) -> impl Iterator<Item = Vec<String>> + use<'a> {
    let row = move |kind, limit: Option<f64>, used: f64| {
        limit.map(|limit| {
            vec![scope.to_owned(), amount(kind, limit), amount(kind, used), percent(used, limit)]
        })
    };
    [
        row(BudgetKind::Usd, budget.usd, used.usd),
        row(BudgetKind::Tokens, budget.tokens.map(|tokens| tokens as f64), used.tokens as f64),
        row(BudgetKind::Seconds, budget.seconds.map(|seconds| seconds as f64), used.seconds),
        row(BudgetKind::Steps, budget.steps.map(f64::from), used.steps.into()),
    ]
    .into_iter()
    .flatten()
}

fn percent(used: f64, limit: f64) -> String {
    // Rounded down, but 57 of 100 cents are 57 %, although the quotient is less by its last bit.
    format!("{:.0} %", (used / limit * 100.0 + 1e-9).floor())
}

/// So many of what is limited.
fn amount(kind: BudgetKind, number: f64) -> String {
    match kind {
        BudgetKind::Usd => format!("${number:.4}"),
        BudgetKind::Tokens => format!("{number:.0} tokens"),
        BudgetKind::Seconds => text::duration((number * 1000.0) as u64),
        BudgetKind::Steps => format!("{number:.0} steps"),
    }
}

/// A warning in a line.
pub(crate) fn warning(warning: &BudgetWarning) -> String {
    let BudgetWarning { scope, kind, used, limit, .. } = *warning;
    let whose = match scope {
        BudgetScope::Turn => "turn",
        BudgetScope::Session => "session",
    };
    format!(
        "{} of the {whose}'s {} are used ({})",
        amount(kind, used),
        amount(kind, limit),
        percent(used, limit)
    )
}

/// What was spent on each day and model, with the sum below where there is one.
pub(crate) fn spent(spent: &[Spent], total: Option<&Spend>) -> String {
    let row = |day: &str, model: &str, spend: &Spend| {
        let usage = &spend.usage;
        vec![
            day.to_owned(),
            text::harmless(model),
            spend.calls.to_string(),
            usage.prompt().to_string(),
            usage.cache_read.to_string(),
            (usage.output + usage.reasoning).to_string(),
            if usage.estimated > 0 { usage.estimated.to_string() } else { "-".to_owned() },
            text::cost(spend),
        ]
    };
    let rows = spent.iter().map(|line| row(&line.day, &line.model, &line.spend));
    let total = total.map(|total| row("total", "", total));
    let columns = ["day", "model", "calls", "tokens in", "cached", "tokens out", "estimated", "cost"];
    table::format(&columns, rows.chain(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_what_is_nearly_used_up() {
        let turn = protocol::TurnId::from_u128(1);
        let (scope, kind) = (BudgetScope::Session, BudgetKind::Usd);
        let said = warning(&BudgetWarning { turn, scope, kind, used: 8.25, limit: 10.0 });
        assert_eq!(said, "$8.2500 of the session's $10.0000 are used (82 %)");
        assert_eq!(
            [percent(0.57, 1.0), percent(0.29, 1.0), percent(0.9999, 1.0), percent(1.1, 1.0)],
            ["57 %", "29 %", "99 %", "110 %"]
        );
    }
}
