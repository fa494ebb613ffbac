//! `GET /sessions/{id}/events`: the session's events, as a stream that goes on or as a page.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::{self, Stream, StreamExt};
use protocol::{Ephemeral, EphemeralBody, EventPage, LineageId, Problem, SessionId};
use serde::Deserialize;
use session::{Feed, Frame, Position};

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
    lineage: Option<LineageId>,
    limit: Option<usize>,
}

/// The header that tells the lineage of the log.
const LINEAGE: HeaderName = HeaderName::from_static("slipway-lineage");

/// Media type of JSON lines.
const JSON_LINES: &str = "application/x-ndjson";

/// Gives the events after `after`: a stream that replays and then follows, or, with `Accept: application/json`, one page.
///
/// In a `text/event-stream`, which is the default, `id` is the event's number and, after an `@`, the lineage of the log,
/// `event` its type and `data` the JSON; a last `problem` event tells why a stream breaks off, if there is a reason. With
/// `Accept: application/x-ndjson` there is one JSON text in each line: the same, with a `ping` where nothing happens for 15
/// seconds. In both a `live` event, which tells the lineage, comes once after the replay. `Last-Event-ID`, an `id` or only its
/// number, goes before `after`, and its lineage before `lineage`.
///
/// A client that asks for what comes after more than there is has lost its state, or the server was restored from a backup:
/// the problem `after_end` has the real end as `last_seq`. After a restore there can also be other events under the numbers
/// that a client has. So every answer tells the log's lineage, in the header `Slipway-Lineage`, and in a page and in
/// `GET /sessions/{id}` as `lineage`; a client sends it back with `after` (a browser does so by itself, with `Last-Event-ID`).
/// If what it has is of another lineage, the problem is `other_lineage`: it forgets what it has and begins after 0. A browser
/// does not connect again after that answer, which is no stream: its `EventSource` is then `CLOSED`, and the page makes
/// another. Of a damaged log the events before the damage are given.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/events", tag = "sessions", operation_id = "list_events",
    params(
        ("id" = String, Path, description = "The session"),
        ("after" = Option<u64>, Query, description = "Number of the last event the client has; 0 for all"),
        ("lineage" = Option<LineageId>, Query, description = "The lineage that the events up to `after` are of"),
        ("limit" = Option<u64>, Query, description = "Most events of a page, up to 1000; a stream has no limit"),
        ("Last-Event-ID" = Option<String>, Header, description = "What a browser sends when it connects again: the last \
            `id` that it has. The number alone will do")
    ),
    responses(
        (status = 200,
            headers(("Slipway-Lineage" = LineageId, description = "The lineage of the log")),
            content(
                (String = "text/event-stream"),
                (String = "application/x-ndjson"),
                (EventPage = "application/json")
            )
        ),
        (status = 416, description = "There are fewer events than `after` says, or other ones", body = Problem),
        (status = 429, description = "The user has too many open streams"),
    )
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
    let resumed = last_event_id(&headers)?;
    let position = Position {
        after: resumed.map(|last| last.after).or(range.after).unwrap_or(0),
        // The address is as it was when the page was made; a restore may have begun another lineage since then.
        lineage: resumed.and_then(|last| last.lineage).or(range.lineage),
    };
    let form = preferred(&headers, &["text/event-stream", "application/json", JSON_LINES]);
    if form == 1 {
        let limit = range.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(bad_request(format!("limit must be between 1 and {MAX_LIMIT}")).into());
        }
        let page = sessions.events(session, position, limit).await?;
        return Ok(with_lineage(page.lineage, Json(page)));
    }
    let seat = app.seat(&caller)?;
    let feed = sessions.watch(session, position, &caller.0.id).await?;
    let lineage = feed.lineage();
    let ended = Box::pin(app.life().stop.clone().cancelled_owned());
    // The seat is taken as long as the stream is.
    let frames = frames(feed).map(move |frame| {
        let _taken = &seat;
        frame
    });
    // A proxy that collects answers before it passes them on would hold the events back.
    let unbuffered = ("x-accel-buffering", "no");
    if form == 2 {
        let body = Body::from_stream(lines(session, frames.take_until(ended)));
        return Ok(with_lineage(lineage, ([(header::CONTENT_TYPE.as_str(), JSON_LINES), unbuffered], body)));
    }
    let first = Event::default().retry(RECONNECT).comment("slipway");
    let events =
        stream::once(async { first }).chain(frames.map(move |frame| event(frame, lineage))).take_until(ended);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    let stream = Sse::new(events.map(Ok::<_, Infallible>)).keep_alive(keep_alive);
    Ok(with_lineage(lineage, ([unbuffered], stream)))
}

/// An answer that tells the lineage, where that is known.
fn with_lineage(lineage: Option<LineageId>, answer: impl IntoResponse) -> Response {
    let mut answer = answer.into_response();
    let value = lineage.and_then(|lineage| HeaderValue::try_from(lineage.to_string()).ok());
    if let Some(value) = value {
        answer.headers_mut().insert(LINEAGE, value);
    }
    answer
}

/// A feed as a stream. The stream owns the wait for the next frame, so a reader that looks elsewhere meanwhile
/// cannot lose one.
fn frames(feed: Feed) -> impl Stream<Item = Result<Frame, Problem>> {
    stream::unfold(Some(feed), |feed| async {
        let mut feed = feed?;
        match feed.next().await {
            Ok(Some(frame)) => Some((Ok(frame), Some(feed))),
            Ok(None) => None,
            Err(problem) => Some((Err(problem), None)),
        }
    })
}

/// One line for each frame, and one where nothing happens for long.
fn lines(
    session: SessionId,
    frames: impl Stream<Item = Result<Frame, Problem>>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let frames = Box::pin(frames);
    stream::unfold(frames, move |mut frames| async move {
        let line = match tokio::time::timeout(KEEP_ALIVE, frames.next()).await {
            Ok(Some(Ok(frame))) => line(&frame.json),
            Ok(Some(Err(problem))) => line(
                &serde_json::json!({ "type": "problem", "session": session, "data": problem }).to_string(),
            ),
            Ok(None) => return None,
            Err(_) => line(
                &serde_json::to_string(&Ephemeral::new(session, EphemeralBody::Ping {})).unwrap_or_default(),
            ),
        };
        Some((Ok(line), frames))
    })
}

fn line(json: &str) -> Bytes {
    let mut line = BytesMut::with_capacity(json.len() + 1);
    line.put(json.as_bytes());
    line.put_u8(b'\n');
    line.freeze()
}

fn event(frame: Result<Frame, Problem>, lineage: Option<LineageId>) -> Event {
    match frame {
        Ok(Frame { seq, kind, json }) => {
            let event = Event::default().event(kind).data(&*json);
            match (seq, lineage) {
                // It is all that a browser sends back, so it has to tell which events those are.
                (Some(seq), Some(lineage)) => event.id(format!("{seq}@{lineage}")),
                (Some(seq), None) => event.id(seq.to_string()),
                (None, _) => event,
            }
        }
        Err(problem) => {
            // A browser fires `error` by itself when the connection breaks, so that name would be ambiguous.
            let data = serde_json::to_string(&problem).unwrap_or_default();
            Event::default().event("problem").data(data)
        }
    }
}

/// Reads what [`event`] writes as `id`, and a number alone.
fn last_event_id(headers: &HeaderMap) -> Result<Option<Position>, Problem> {
    let Some(value) = headers.get(HeaderName::from_static("last-event-id")) else { return Ok(None) };
    let text = value.to_str().map_err(|_| bad_request("Last-Event-ID is not the id of an event"))?;
    if text.is_empty() {
        return Ok(None);
    }
    let (after, lineage) = text.split_once('@').map_or((text, None), |(seq, lineage)| (seq, Some(lineage)));
    match (after.parse(), lineage.map(str::parse).transpose()) {
        (Ok(after), Ok(lineage)) => Ok(Some(Position { after, lineage })),
        _ => Err(bad_request(format!("Last-Event-ID \"{text}\" is not the id of an event"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_event_id_is_a_number_and_perhaps_a_lineage() {
        let answer = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("last-event-id", value.parse().unwrap());
            last_event_id(&headers).map_err(|problem| problem.title)
        };
        assert_eq!(last_event_id(&HeaderMap::new()), Ok(None));
        assert_eq!(answer("42"), Ok(Some(Position::from(42))));
        let lineage = LineageId::new();
        assert_eq!(
            answer(&format!("42@{lineage}")),
            Ok(Some(Position { after: 42, lineage: Some(lineage) }))
        );
        assert_eq!(answer(""), Ok(None));
        for wrong in
            ["-1", "42@", "@", "42@rubbish", &format!("@{lineage}"), &format!("42@{lineage}@{lineage}")]
        {
            assert!(answer(wrong).unwrap_err().contains(&format!("\"{wrong}\"")), "{wrong}");
        }
    }
}
