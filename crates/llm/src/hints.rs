//! How long a server asks us to wait. Providers say it in headers, in the details of an error, or only in its words.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// What a response's headers ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// How long to wait.
    pub(crate) wait: Option<Duration>,
    /// Whether it says that the same call can never succeed, or that it can.
    pub(crate) retry: Option<bool>,
}

/// Reads the headers of a refusal.
pub(crate) fn from_headers(headers: &HeaderMap) -> Hints {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let retry = match text("x-should-retry") {
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) | None => None,
    };
    let milliseconds = text("retry-after-ms").and_then(|text| seconds(text, 1000.0));
    let asked = milliseconds.or_else(|| {
        let value = text("retry-after")?;
        seconds(value, 1.0).or_else(|| until(date(value)?))
    });
    Hints { wait: asked.or_else(|| used_up(headers)), retry }
}

/// The time until a limit that is used up is renewed. The longest counts: a call needs all of them.
fn used_up(headers: &HeaderMap) -> Option<Duration> {
    let waits = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let reset = if let Some(kind) = name.strip_prefix("x-ratelimit-remaining") {
            format!("x-ratelimit-reset{kind}")
        } else if name == "ratelimit-remaining" {
            "ratelimit-reset".to_owned()
        } else {
            let kind = name.strip_prefix("anthropic-ratelimit-")?.strip_suffix("-remaining")?;
            format!("anthropic-ratelimit-{kind}-reset")
        };
        if value.to_str().ok()?.trim() != "0" {
            return None;
        }
        let reset = headers.get(reset)?.to_str().ok()?.trim();
        duration(reset).or_else(|| number(reset)).or_else(|| until(reset.parse().ok()?))
    });
    waits.max()
}

/// A number without a unit: a moment in milliseconds or seconds, or seconds from now. No limit is for so many days that
/// they could be mixed up.
fn number(text: &str) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    let moment = match number {
        1e12.. => number / 1000.0,
        1e9.. => number,
        _ => return seconds(text, 1.0),
    };
    until(jiff::Timestamp::from_second(moment as i64).ok()?)
}

/// A moment in any of the three forms of HTTP.
fn date(text: &str) -> Option<jiff::Timestamp> {
    if let Ok(usual) = jiff::fmt::rfc2822::parse(text) {
        return Some(usual.timestamp());
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, rest) = text.split_once(' ')?;
    let forms = ["%d-%b-%y %H:%M:%S GMT", "%b %d %H:%M:%S %Y"];
    let date = forms.iter().find_map(|form| jiff::civil::DateTime::strptime(form, rest).ok())?;
    Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

/// The headers that OpenRouter passes on in the body of its refusal.
fn passed_on(error: &Value) -> Option<Duration> {
    let pairs = error.pointer("/metadata/headers")?.as_object()?.iter().filter_map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
    });
    from_headers(&pairs.collect()).wait
}

/// Reads the body of a refusal: Google's `retryDelay`, headers that it passes on, and what is only said in words.
pub(crate) fn from_body(error: &Value, message: &str) -> Option<Duration> {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let delay = details.filter_map(|detail| detail.get("retryDelay")?.as_str()).find_map(duration);
    delay.or_else(|| passed_on(error)).or_else(|| {
        let said = message.to_lowercase();
        ["try again in ", "retry in ", "retry after "].iter().find_map(|words| {
            let rest = said.split_once(words)?.1;
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
            let (first, rest) = rest.split_at(end.unwrap_or(rest.len()));
            let first = first.trim_end_matches('.');
            duration(first).or_else(|| {
                let unit = rest.trim_start();
                let number: f64 = first.parse().ok()?;
                let factor = if unit.starts_with("second") {
                    1.0
                } else if unit.starts_with("minute") {
                    60.0
                } else {
                    return None;
                };
                Duration::try_from_secs_f64(number * factor).ok()
            })
        })
    })
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number / unit).ok()
}

fn until(time: jiff::Timestamp) -> Option<Duration> {
    Some(Duration::try_from(time.duration_since(jiff::Timestamp::now())).unwrap_or(Duration::ZERO))
}

/// A duration such as `6m0s`, `7.66s`, `120ms` or `10h17m5.7s`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| letter.is_ascii_alphabetic())?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..].find(|letter: char| !letter.is_ascii_alphabetic());
        let (unit, after) = rest[end..].split_at(unit_end.unwrap_or(rest.len() - end));
        total += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = after;
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(total).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn headers(pairs: &[(&'static str, &str)]) -> Hints {
        from_headers(
            &pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect(),
        )
    }

    fn wait(name: &'static str, value: &str) -> Option<Duration> {
        headers(&[(name, value)]).wait
    }

    #[test]
    fn the_wait_is_read_in_every_form() {
        assert_eq!(wait("retry-after-ms", "1500"), Some(Duration::from_millis(1500)));
        assert_eq!(wait("retry-after", " 7 "), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        for later in
            ["Fri, 31 Dec 2100 23:59:59 GMT", "Tuesday, 31-Dec-68 23:59:59 GMT", "Fri Dec  3 23:59:59 2100"]
        {
            assert!(wait("retry-after", later).unwrap() > Duration::from_secs(86_400), "{later}");
        }
        assert_eq!(wait("retry-after", "Sunday, 06-Nov-94 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("retry-after", "Sun Nov  6 08:49:37 1994"), Some(Duration::ZERO));
        for nonsense in ["soon", "-3", "inf", "NaN", ""] {
            assert_eq!(wait("retry-after", nonsense), None, "{nonsense}");
        }
        assert_eq!(headers(&[("x-should-retry", "false")]).retry, Some(false));
    }

    #[test]
    fn a_limit_that_is_used_up_says_when_it_is_renewed() {
        let both = [
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "120ms"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ];
        assert_eq!(headers(&both).wait, Some(Duration::from_secs(360)));
        let left = [("x-ratelimit-remaining-tokens", "5"), ("x-ratelimit-reset-tokens", "6m0s")];
        assert_eq!(headers(&left).wait, None);
        let past = [
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2015-10-21T07:28:00Z"),
        ];
        assert_eq!(headers(&past).wait, Some(Duration::ZERO));
    }

    #[test]
    fn a_renewal_may_be_a_number_without_a_unit() {
        let nine = Some(Duration::from_secs(9));
        for (remaining, reset) in [
            ("x-ratelimit-remaining", "x-ratelimit-reset"),
            ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
            ("ratelimit-remaining", "ratelimit-reset"),
        ] {
            assert_eq!(headers(&[(remaining, "0"), (reset, "9")]).wait, nine, "{reset}");
            assert_eq!(headers(&[(remaining, "1"), (reset, "9")]).wait, None, "{reset}");
        }
        let then = jiff::Timestamp::now().as_second() + 100;
        for reset in [format!("{then}"), format!("{then}000")] {
            let wait =
                headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)]).wait.unwrap();
            assert!((90..=100).contains(&wait.as_secs()), "{reset}: {wait:?}");
            let passed_on = json!({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset});
            let wait = from_body(&json!({"metadata": {"headers": passed_on}}), "").unwrap();
            assert!((90..=100).contains(&wait.as_secs()), "{reset}: {wait:?}");
        }
    }

    #[test]
    fn what_is_said_only_in_the_body_counts_too() {
        let info = json!({"details": [{"@type": "type.googleapis.com/google.rpc.Help"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "46s"}]});
        assert_eq!(from_body(&info, ""), Some(Duration::from_secs(46)));
        for (said, seconds) in [
            ("Rate limit reached. Please try again in 7.66s. Visit …", 7.66),
            ("Please retry in 10h17m5.5s.", 37_025.5),
            ("Please retry after 20 seconds.", 20.0),
            ("Try again in 2 minutes", 120.0),
        ] {
            assert_eq!(from_body(&Value::Null, said), Some(Duration::from_secs_f64(seconds)), "{said}");
        }
        for said in ["try again in a while", "retry in", "retry after 3", "slow down"] {
            assert_eq!(from_body(&Value::Null, said), None, "{said}");
        }
    }
}
