//! Content negotiation: which of a route's representations the client wants most.

use axum::http::{HeaderMap, header};

/// Index of the offered media type that the `Accept` headers like best; the first offer when nothing decides.
pub(crate) fn preferred(headers: &HeaderMap, offers: &[&str]) -> usize {
    let ranges: Vec<(&str, f32)> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(range)
        .collect();
    let mut best = (0, 0.0);
    for (index, offer) in offers.iter().enumerate() {
        let quality = quality(&ranges, offer);
        if quality > best.1 {
            best = (index, quality);
        }
    }
    best.0
}

/// A media range with its weight.
fn range(text: &str) -> (&str, f32) {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts
        .find_map(|parameter| parameter.strip_prefix("q="))
        .and_then(|weight| weight.parse::<f32>().ok())
        .unwrap_or(1.0);
    (name, weight)
}

/// The weight of the most specific range that covers the media type.
fn quality(ranges: &[(&str, f32)], media_type: &str) -> f32 {
    let family = media_type.split('/').next().unwrap_or_default();
    let rank = |name: &str| {
        if name.eq_ignore_ascii_case(media_type) {
            3
        } else if name.strip_suffix("/*").is_some_and(|range| range.eq_ignore_ascii_case(family)) {
            2
        } else if name == "*/*" {
            1
        } else {
            0
        }
    };
    ranges
        .iter()
        .map(|&(name, weight)| (rank(name), weight))
        .filter(|&(rank, _)| rank > 0)
        .max_by_key(|&(rank, _)| rank)
        .map_or(0.0, |(_, weight)| weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_liked_offer_wins_and_the_first_is_the_default() {
        let offers = ["text/event-stream", "application/json"];
        let choice = |accept: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            offers[preferred(&headers, &offers)]
        };
        assert_eq!(choice(None), "text/event-stream");
        assert_eq!(choice(Some("*/*")), "text/event-stream");
        assert_eq!(choice(Some("image/png")), "text/event-stream");
        assert_eq!(choice(Some("application/json")), "application/json");
        assert_eq!(choice(Some("application/*, */*;q=0.1")), "application/json");
        assert_eq!(choice(Some("application/json;q=0.2, text/event-stream;q=0.5")), "text/event-stream");
        assert_eq!(choice(Some("text/event-stream;q=0.2, application/json; q=0.9")), "application/json");
        assert_eq!(choice(Some("text/event-stream;q=rubbish, application/json;q=0.5")), "text/event-stream");
    }
}
