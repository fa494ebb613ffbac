//! Numbers and texts in a form for people.

use protocol::event::{Judgement, Verdict};
use protocol::{Mistakes, Spend, Timestamp};

/// How long ago.
pub(crate) fn age(at: Timestamp) -> String {
    let seconds = Timestamp::now().as_second().saturating_sub(at.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A size.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => format!("{}m{:02}s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// A time of day.
pub(crate) fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S UTC").to_string()
}

/// How often a model did something that could not be used; nothing when it did not.
pub(crate) fn mistakes(mistakes: &Mistakes) -> Option<String> {
    let Mistakes { unknown_tool, broken_arguments, empty_answer, endless_answer, repeated_calls } = *mistakes;
    let counts = [
        (unknown_tool, "unknown tool"),
        (broken_arguments, "broken arguments"),
        (empty_answer, "empty answer"),
        (endless_answer, "endless answer"),
        (repeated_calls, "repeated calls"),
    ];
    let told: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{what} {count}×"))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// Money; unknown prices are said, not guessed.
pub(crate) fn cost(spend: &Spend) -> String {
    match (spend.calls, spend.unpriced_calls) {
        (0, _) => "-".to_owned(),
        (calls, unpriced) if calls == unpriced => "no price known".to_owned(),
        (_, 0) => format!("${:.4}", spend.cost_usd),
        (_, unpriced) => format!("${:.4} + {unpriced} calls without a known price", spend.cost_usd),
    }
}

/// What a model that had no part in the work says of it.
pub(crate) fn judgement(judgement: &Judgement) -> String {
    let verdict = match judgement.verdict {
        Verdict::Good => "finds it good",
        Verdict::Doubtful => "doubts it",
    };
    let words = judgement.words.split_whitespace().collect::<Vec<_>>().join(" ");
    harmless(&format!("{} {verdict}: {words}", judgement.model))
}

/// Tokens and money.
pub(crate) fn spend(spend: &Spend) -> String {
    let usage = &spend.usage;
    let cached =
        if usage.cache_read > 0 { format!(" ({} from cache)", usage.cache_read) } else { String::new() };
    let estimated = match usage.estimated {
        0 => String::new(),
        estimated => format!(" (about {estimated} of all tokens are estimated: their server did not tell)"),
    };
    format!(
        "{} tokens in{cached}, {} out, {} model calls, {}{estimated}",
        usage.prompt(),
        usage.output + usage.reasoning,
        spend.calls,
        cost(spend)
    )
}

/// The first line, shortened.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or("");
    if line.chars().count() > 100 { line.chars().take(99).chain(['…']).collect() } else { line.to_owned() }
}

/// Without what could move the cursor, change colours or ring a bell: text from models and tools is data.
pub(crate) fn harmless(text: &str) -> String {
    // Marks that turn the direction of writing around can make a line look like another.
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| *c == '\n' || *c == '\t' || !(c.is_control() || turns(*c))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\x1b]52;c;evil\x07b\r\nc\x1b[2J"), "a]52;c;evilb\nc[2J");
    }

    #[test]
    fn sizes_have_one_unit() {
        assert_eq!([bytes(5), bytes(1536), bytes(50 << 30)], ["5 B", "1.5 KiB", "50.0 GiB"]);
    }

    #[test]
    fn durations_are_short() {
        assert_eq!([duration(5), duration(1500), duration(61_000)], ["5 ms", "1.5 s", "1m01s"]);
    }

    #[test]
    fn mistakes_are_told_where_there_are_some() {
        assert_eq!(mistakes(&Mistakes::default()), None);
        let some = Mistakes { unknown_tool: 2, repeated_calls: 1, ..Mistakes::default() };
        assert_eq!(mistakes(&some).as_deref(), Some("unknown tool 2×, repeated calls 1×"));
        assert_eq!(clock("2026-11-15T10:02:00.123Z".parse().unwrap()), "10:02:00 UTC");
    }

    #[test]
    fn an_unknown_price_is_said() {
        let mut spend = Spend::default();
        spend.record(protocol::Usage::default(), None);
        assert_eq!(cost(&spend), "no price known");
        spend.record(protocol::Usage::default(), Some(0.5));
        assert_eq!(cost(&spend), "$0.5000 + 1 calls without a known price");
    }
}
