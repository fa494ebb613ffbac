//! What sessions spent, by day and model. It is in the rows of the index, so nobody's log is read for it, but for those rows
//! that an older version wrote.

use protocol::{Code, Problem, Session, SessionId, SpendReport, Spent};

use crate::{Sessions, kept_fold, problem};

/// Which part of the spend; all of it where nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpendFilter {
    /// The first day, such as `2026-11-16`, in UTC.
    pub from: Option<String>,
    /// The last day.
    pub to: Option<String>,
    /// Only this session.
    pub session: Option<SessionId>,
    /// Only this model.
    pub model: Option<String>,
}

impl SpendFilter {
    fn check(&self) -> Result<(), Problem> {
        let wrong = [&self.from, &self.to].into_iter().flatten().find(|day| !is_day(day));
        if let Some(day) = wrong {
            return Err(Problem::new(Code::BadRequest, format!("\"{day}\" is not a day"))
                .hint("write it like 2026-11-16; days are in UTC"));
        }
        if let (Some(from), Some(to)) = (&self.from, &self.to)
            && from > to
        {
            return Err(Problem::new(Code::BadRequest, format!("{from} comes after {to}"))
                .hint("give the first day as from, and the last one as to"));
        }
        Ok(())
    }

    fn takes(&self, spent: &Spent) -> bool {
        // Days that are written like this come in the order of their letters.
        self.from.as_ref().is_none_or(|from| *from <= spent.day)
            && self.to.as_ref().is_none_or(|to| spent.day <= *to)
            && self.model.as_ref().is_none_or(|model| *model == spent.model)
    }
}

/// Whether this is a day of the calendar, with all its digits.
fn is_day(text: &str) -> bool {
    let in_place = |(place, letter): (usize, u8)| match place {
        4 | 7 => letter == b'-',
        _ => letter.is_ascii_digit(),
    };
    text.len() == 10 && text.bytes().enumerate().all(in_place) && text.parse::<jiff::civil::Date>().is_ok()
}

impl Sessions {
    /// What was spent, all of it or a part, for each day and model.
    pub async fn spend(&self, filter: SpendFilter) -> Result<SpendReport, Problem> {
        filter.check()?;
        let rows = match filter.session {
            Some(id) => vec![self.get(id).await?],
            None => self.list().await?,
        };
        let mut report = SpendReport::default();
        for row in rows {
            for spent in self.spent(row).await.into_iter().filter(|spent| filter.takes(spent)) {
                report.total += spent.spend;
                add(&mut report.spent, spent);
            }
        }
        Ok(report)
    }

    /// What a session spent. A row of an older version knows only the sum, so then the log is folded.
    async fn spent(&self, row: Session) -> Vec<Spent> {
        let known: u32 = row.spent.iter().map(|spent| spent.spend.calls).sum();
        if known == row.spend.calls {
            return row.spent;
        }
        let store = &self.registry.options.store;
        match kept_fold::fold_stored(store, row.id).await {
            Ok(state) => {
                let Some(folded) = state.to_row() else { return row.spent };
                if let Err(error) = store.index(&folded.session, &folded.words).await {
                    tracing::warn!(session = %row.id, %error, "the index of sessions could not be written");
                }
                folded.session.spent
            }
            Err(error) => {
                tracing::warn!(session = %row.id, problem = %problem::store(error), "what it spent on which day is not known");
                row.spent
            }
        }
    }
}

/// Adds to the sum of its day and model.
fn add(sums: &mut Vec<Spent>, spent: Spent) {
    let order = |known: &Spent| (&known.day, &known.model).cmp(&(&spent.day, &spent.model));
    match sums.binary_search_by(order) {
        Ok(place) => sums[place].spend += spent.spend,
        Err(place) => sums.insert(place, spent),
    }
}

#[cfg(test)]
mod tests {
    use protocol::Spend;

    use super::*;

    fn spent(day: &str, model: &str, usd: f64) -> Spent {
        let spend = Spend { cost_usd: usd.into(), calls: 1, ..Spend::default() };
        Spent { day: day.to_owned(), model: model.to_owned(), spend }
    }

    #[test]
    fn days_are_checked_and_compared() {
        let days = |from: &str, to: &str| SpendFilter {
            from: Some(from.to_owned()),
            to: Some(to.to_owned()),
            ..SpendFilter::default()
        };
        assert!(days("2026-02-27", "2026-03-01").check().is_ok());
        assert!(days("0001-01-01", "9999-12-31").check().is_ok());
        for wrong in ["2026-02-30", "26-02-03", "today", "2026-2-3", "", "2026-11-16T00:00:00Z"] {
            let refused = days(wrong, "2026-03-01").check().unwrap_err();
            assert_eq!(refused.code, Code::BadRequest, "{wrong}");
        }
        assert!(days("2026-03-01", "2026-02-27").check().is_err(), "the wrong way round");
        let february = days("2026-02-01", "2026-02-28");
        assert!(february.takes(&spent("2026-02-28", "m", 1.0)));
        assert!(!february.takes(&spent("2026-03-01", "m", 1.0)));
        assert!(!february.takes(&spent("2026-01-31", "m", 1.0)));
        let one = SpendFilter { model: Some("m".to_owned()), ..february };
        assert!(!one.takes(&spent("2026-02-02", "n", 1.0)));
    }

    #[test]
    fn sums_are_for_each_day_and_model_in_order() {
        let mut sums = Vec::new();
        for (day, model, usd) in [
            ("2026-01-02", "b", 1.0),
            ("2026-01-01", "b", 2.0),
            ("2026-01-02", "a", 4.0),
            ("2026-01-02", "b", 8.0),
        ] {
            add(&mut sums, spent(day, model, usd));
        }
        let seen: Vec<_> = sums
            .iter()
            .map(|sum| (sum.day.as_str(), sum.model.as_str(), sum.spend.cost_usd.dollars()))
            .collect();
        assert_eq!(seen, [("2026-01-01", "b", 2.0), ("2026-01-02", "a", 4.0), ("2026-01-02", "b", 9.0)]);
    }
}
