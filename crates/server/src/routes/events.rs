//! `GET /sessions/{id}/events`: the session's events, as a stream that goes on or as a page.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use protocol::{EventPage, Problem};
use serde::Deserialize;
use session::{Feed, Frame};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Params, Segments, session_id};
use crate::negotiate::preferred;
use crate::problem::{Failure, bad_request};

/// A comment is sent after this much silence, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a browser waits before it connects again.
const RECONNECT: Duration = Duration::from_secs(1);
/// Events of a page when the client does not say.
const DEFAULT_LIMIT: usize = 200;
/// Most events of a page.
const MAX_LIMIT: usize = 1000;

/// Where to begin, and how much to give.
#[derive(Debug, Deserialize)]
pub(crate) struct Range {
    after: Option<u64>,
    limit: Option<usize>,
}

/// Gives the events after `after`: a stream that replays and then follows, or, with `Accept: application/json`, one page.
///
/// In the stream `id` is the event's number, `event` its type and `data` the JSON; a `live` event comes once after the
/// replay. `Last-Event-ID` goes before `after`. If the stream breaks off for a reason, a last `problem` event tells it.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/events", tag = "sessions", operation_id = "list_events",
    params(
        ("id" = String, Path, description = "The session"),
        ("after" = Option<u64>, Query, description = "Number of the last event the client has; 0 for all"),
        ("limit" = Option<u64>, Query, description = "Most events of a page, up to 1000; a stream has no limit"),
        ("Last-Event-ID" = Option<u64>, Header, description = "What a browser sends when it connects again")
    ),
    responses((status = 200, content((String = "text/event-stream"), (EventPage = "application/json"))))
)]
pub(crate) async fn events(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(range): Params<Range>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    let after = last_event_id(&headers)?.or(range.after).unwrap_or(0);
    if preferred(&headers, &["text/event-stream", "application/json"]) == 1 {
        let limit = range.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(bad_request(format!("limit must be between 1 and {MAX_LIMIT}")).into());
        }
        return Ok(Json(sessions.events(session, after, limit).await?).into_response());
    }
    let feed = sessions.feed(session, after).await?;
    let ended = app.life().stop.clone().cancelled_owned();
    let first = Event::default().retry(RECONNECT).comment("slipway");
    let events = stream::once(async { first }).chain(frames(feed).map(event)).take_until(Box::pin(ended));
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    let stream = Sse::new(events.map(Ok::<_, Infallible>)).keep_alive(keep_alive);
    // A proxy that collects answers before it passes them on would hold the events back.
    Ok(([("x-accel-buffering", "no")], stream).into_response())
}

/// A feed as a stream. The stream owns the wait for the next frame, so a reader that looks elsewhere meanwhile
/// cannot lose one.
pub(crate) fn frames(feed: Feed) -> impl Stream<Item = Result<Frame, Problem>> {
    stream::unfold(Some(feed), |feed| async {
        let mut feed = feed?;
        match feed.next().await {
            Ok(Some(frame)) => Some((Ok(frame), Some(feed))),
            Ok(None) => None,
            Err(problem) => Some((Err(problem), None)),
        }
    })
}

fn event(frame: Result<Frame, Problem>) -> Event {
    match frame {
        Ok(Frame { seq, kind, json }) => {
            let event = Event::default().event(kind).data(&*json);
            match seq {
                Some(seq) => event.id(seq.to_string()),
                None => event,
            }
        }
        Err(problem) => {
            // A browser fires `error` by itself when the connection breaks, so that name would be ambiguous.
            let data = serde_json::to_string(&problem).unwrap_or_default();
            Event::default().event("problem").data(data)
        }
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(HeaderName::from_static("last-event-id")) else { return Ok(None) };
    match value.to_str() {
        Ok("") => Ok(None),
        Ok(text) => match text.parse() {
            Ok(seq) => Ok(Some(seq)),
            Err(_) => Err(bad_request(format!("Last-Event-ID \"{text}\" is not the number of an event"))),
        },
        Err(_) => Err(bad_request("Last-Event-ID is not the number of an event")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_event_id_is_a_number() {
        let answer = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("last-event-id", value.parse().unwrap());
            last_event_id(&headers).map_err(|problem| problem.title)
        };
        assert_eq!(last_event_id(&HeaderMap::new()), Ok(None));
        assert_eq!(answer("42"), Ok(Some(42)));
        assert_eq!(answer(""), Ok(None));
        assert!(answer("-1").unwrap_err().contains("\"-1\""));
    }
}
