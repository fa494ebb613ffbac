//! What came of the sessions: sums over what the index knows of each, which follows from its log.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use protocol::{
    Bucket, Code, Durations, Funnel, Problem, Prompting, Statistics, StatisticsBucket, StatisticsPart,
};
use store::Outline;

use crate::{Sessions, problem};

/// Who asked within so many seconds asks just now.
const JUST_NOW: i64 = 300;
/// Days that are shown where nobody says.
const DAYS: i64 = 30;
/// Most buckets of one answer.
const BUCKETS: usize = 800;

/// Which part; all of the last days where nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatisticsFilter {
    /// The first day, in UTC.
    pub from: Option<String>,
    /// The last day.
    pub to: Option<String>,
    /// How time is divided.
    pub bucket: Bucket,
    /// Only this environment.
    pub environment: Option<String>,
    /// Only sessions in which this person asked first.
    pub person: Option<String>,
    /// Only this model.
    pub model: Option<String>,
}

impl StatisticsFilter {
    fn takes(&self, outline: &Outline) -> bool {
        self.environment.as_ref().is_none_or(|name| *name == outline.environment)
            && self.model.as_ref().is_none_or(|name| *name == outline.model)
            && self.person.as_ref().is_none_or(|name| Some(name) == outline.person.as_ref())
    }
}

impl Sessions {
    /// What came of the sessions. Nobody's log is read for it.
    pub async fn statistics(&self, filter: &StatisticsFilter) -> Result<Statistics, Problem> {
        let now = Timestamp::now();
        let today = now.to_zoned(TimeZone::UTC).date();
        let to = filter.to.as_deref().map_or(Ok(today), day)?;
        let from = match &filter.from {
            Some(from) => day(from)?,
            None => to.checked_sub((DAYS - 1).days()).map_err(|_| no_day(&to.to_string()))?,
        };
        if from > to {
            return Err(Problem::new(Code::BadRequest, format!("{from} comes after {to}"))
                .hint("give the first day as from, and the last one as to"));
        }
        let store = &self.registry.options.store;
        let end = to.tomorrow().map_err(|_| no_day(&to.to_string()))?;
        let outlines = store.outlines(moment(from)?, moment(end)?).await.map_err(problem::store)?;
        let since = now.checked_sub(JUST_NOW.seconds()).unwrap_or(Timestamp::UNIX_EPOCH);
        let people = store.prompting(since).await.map_err(problem::store)?;
        let outlines: Vec<Outline> = outlines.into_iter().filter(|outline| filter.takes(outline)).collect();
        let mut sums = summed(&outlines, from, to, filter.bucket)?;
        sums.prompting = Prompting { people, window_s: JUST_NOW.unsigned_abs() };
        Ok(sums)
    }
}

/// The sums over sessions of which something happened from one day to another.
fn summed(outlines: &[Outline], from: Date, to: Date, bucket: Bucket) -> Result<Statistics, Problem> {
    let (begin, end) =
        (moment(from)?.as_microsecond(), moment(to.tomorrow().unwrap_or(to))?.as_microsecond());
    let within = |at: Option<i64>| at.filter(|at| (begin..end).contains(at));
    let mut buckets = empty_buckets(from, to, bucket)?;
    let mut note = |at: Option<i64>, count: &dyn Fn(&mut StatisticsBucket)| {
        let start = within(at).and_then(date).map(|date| start_of(date, bucket).max(from));
        if let Some(found) = start.and_then(|start| buckets.get_mut(&start)) {
            count(found);
        }
    };
    let mut sums = Statistics { from: from.to_string(), to: to.to_string(), bucket, ..Statistics::default() };
    let mut parts: [BTreeMap<String, StatisticsPart>; 3] = Default::default();
    let mut times: Vec<u64> = Vec::new();
    let mut cost = 0i64;
    for outline in outlines {
        note(Some(outline.created_at), &|bucket| {
            bucket.sessions += 1;
            bucket.cost_usd += dollars(outline.cost);
        });
        note(outline.delivered_at, &|bucket| bucket.delivered += 1);
        note(outline.merged_at, &|bucket| bucket.merged += 1);
        note(outline.closed_at.filter(|_| outline.merged_at.is_none()), &|bucket| bucket.closed += 1);
        // How far a session came counts for those that were made in this time.
        if within(Some(outline.created_at)).is_none() {
            continue;
        }
        cost = cost.saturating_add(outline.cost);
        count(&mut sums.funnel, outline);
        if let Some(merged) = outline.merged_at {
            times.push((merged - outline.created_at).max(0).unsigned_abs() / 1_000_000);
        }
        let names = [Some(&outline.environment), outline.person.as_ref(), Some(&outline.model)];
        for (part, name) in parts.iter_mut().zip(names) {
            let Some(name) = name else { continue };
            let part = part.entry(name.clone()).or_default();
            part.sessions += 1;
            part.delivered += u64::from(outline.delivered_at.is_some());
            part.merged += u64::from(outline.merged_at.is_some());
            part.cost_usd += dollars(outline.cost);
        }
    }
    sums.buckets = buckets.into_values().collect();
    sums.cost_usd = dollars(cost);
    let merged = sums.funnel.merged;
    sums.cost_per_merged_usd = (merged > 0).then(|| sums.cost_usd / merged as f64);
    sums.time_to_merge = durations(times);
    let [environments, people, models] = parts.map(sorted);
    (sums.by_environment, sums.by_person, sums.by_model) = (environments, people, models);
    Ok(sums)
}

fn count(funnel: &mut Funnel, outline: &Outline) {
    funnel.sessions += 1;
    funnel.done += u64::from(outline.done_at.is_some());
    funnel.delivered += u64::from(outline.delivered_at.is_some());
    funnel.opened += u64::from(outline.opened_at.is_some());
    funnel.merged += u64::from(outline.merged_at.is_some());
    funnel.closed += u64::from(outline.closed_at.is_some() && outline.merged_at.is_none());
}

fn sorted(parts: BTreeMap<String, StatisticsPart>) -> Vec<StatisticsPart> {
    let mut parts: Vec<_> = parts.into_iter().map(|(name, part)| StatisticsPart { name, ..part }).collect();
    parts.sort_by(|one, other| other.sessions.cmp(&one.sessions).then_with(|| one.name.cmp(&other.name)));
    parts
}

fn durations(mut seconds: Vec<u64>) -> Durations {
    seconds.sort_unstable();
    let at = |part: f64| {
        let place = ((seconds.len() as f64 * part).ceil() as usize).clamp(1, seconds.len().max(1)) - 1;
        seconds.get(place).copied()
    };
    Durations { count: seconds.len() as u64, median_s: at(0.5), p90_s: at(0.9) }
}

fn empty_buckets(from: Date, to: Date, bucket: Bucket) -> Result<BTreeMap<Date, StatisticsBucket>, Problem> {
    let mut buckets = BTreeMap::new();
    let mut start = start_of(from, bucket);
    while start <= to {
        if buckets.len() == BUCKETS {
            return Err(Problem::new(Code::BadRequest, "this is too long a time to be divided so finely")
                .hint("ask for weeks or months, or for fewer days"));
        }
        // The first one may begin before the first day.
        let shown = start.max(from);
        buckets.insert(shown, StatisticsBucket { start: shown.to_string(), ..StatisticsBucket::default() });
        let next = match bucket {
            Bucket::Day => start.tomorrow(),
            Bucket::Week => start.checked_add(1.week()),
            Bucket::Month => start.checked_add(1.month()),
        };
        match next {
            Ok(next) => start = next,
            Err(_) => break,
        }
    }
    Ok(buckets)
}

/// The day that a bucket begins with.
fn start_of(date: Date, bucket: Bucket) -> Date {
    match bucket {
        Bucket::Day => date,
        Bucket::Week => {
            let since = i64::from(date.weekday().to_monday_zero_offset());
            date.checked_sub(since.days()).unwrap_or(date)
        }
        Bucket::Month => date.first_of_month(),
    }
}

fn date(micros: i64) -> Option<Date> {
    Timestamp::from_microsecond(micros).ok().map(|at| at.to_zoned(TimeZone::UTC).date())
}

fn dollars(millionths: i64) -> f64 {
    millionths as f64 / 1e6
}

fn day(text: &str) -> Result<Date, Problem> {
    let whole = text.len() == 10;
    text.parse::<Date>().ok().filter(|_| whole).ok_or_else(|| no_day(text))
}

fn no_day(text: &str) -> Problem {
    Problem::new(Code::BadRequest, format!("\"{text}\" is not a day"))
        .hint("write it like 2026-11-16; days are in UTC")
}

fn moment(date: Date) -> Result<Timestamp, Problem> {
    let zoned = date.to_zoned(TimeZone::UTC).map_err(|_| no_day(&date.to_string()))?;
    Ok(zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_microsecond()
    }

    fn outline(created: &str, person: &str, merged: Option<&str>) -> Outline {
        Outline {
            created_at: at(created),
            environment: "shop".to_owned(),
            model: "main".to_owned(),
            person: Some(person.to_owned()),
            cost: 500_000,
            done_at: Some(at(created)),
            delivered_at: merged.map(at),
            opened_at: merged.map(at),
            merged_at: merged.map(at),
            closed_at: None,
        }
    }

    #[test]
    fn sessions_count_where_they_were_made_and_merges_when_they_happened() {
        let outlines = [
            outline("2026-11-02T10:00:00Z", "ana", Some("2026-11-03T10:00:00Z")),
            outline("2026-11-03T23:59:59Z", "ana", None),
            outline("2026-10-31T00:00:00Z", "ben", Some("2026-11-02T00:00:00Z")),
        ];
        let (from, to) = (day("2026-11-02").unwrap(), day("2026-11-04").unwrap());
        let sums = summed(&outlines, from, to, Bucket::Day).unwrap();
        let days: Vec<_> =
            sums.buckets.iter().map(|day| (day.start.as_str(), day.sessions, day.merged)).collect();
        assert_eq!(days, [("2026-11-02", 1, 1), ("2026-11-03", 1, 1), ("2026-11-04", 0, 0)]);
        assert_eq!((sums.funnel.sessions, sums.funnel.merged, sums.cost_usd), (2, 1, 1.0));
        assert_eq!(sums.cost_per_merged_usd, Some(1.0));
        assert_eq!(sums.time_to_merge, Durations { count: 1, median_s: Some(86_400), p90_s: Some(86_400) });
        assert_eq!(sums.by_person.len(), 1, "ben's session was made before");

        let weeks = summed(&outlines, from, to, Bucket::Week).unwrap();
        assert_eq!((weeks.buckets.len(), weeks.buckets[0].sessions), (1, 2));
        let months = summed(&outlines, day("2026-10-15").unwrap(), to, Bucket::Month).unwrap();
        let starts: Vec<_> =
            months.buckets.iter().map(|month| (month.start.as_str(), month.sessions)).collect();
        assert_eq!(starts, [("2026-10-15", 1), ("2026-11-01", 2)]);
    }

    #[test]
    fn what_is_no_day_is_told() {
        for wrong in ["today", "2026-02-30", "2026-1-1", ""] {
            assert_eq!(day(wrong).unwrap_err().code, Code::BadRequest, "{wrong}");
        }
        assert!(summed(&[], day("1000-01-01").unwrap(), day("2026-01-01").unwrap(), Bucket::Day).is_err());
    }
}
