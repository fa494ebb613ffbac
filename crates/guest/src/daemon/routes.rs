//! Requests: which route is meant, and what it needs from the request.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use serde::de::DeserializeOwned;

use super::follow::Follow;
use super::pin::Links;
use super::process::Process;
use super::reply::{self, Reply};
use super::table::Table;
use super::{files, not_found, refused, tree};
use crate::query;
use crate::wire::{FILE_SIZE, Failure, Health, ProcessSpec, PtySize, Signalled, VERSION};

/// Longest JSON body.
const LONGEST_JSON: usize = 1 << 20;

/// Answers one request.
pub(super) async fn handle(
    table: Rc<Table>,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Infallible> {
    let (head, mut body) = request.into_parts();
    let answer = route(&table, &head, &mut body).await;
    Ok(match answer {
        Ok(response) => response,
        Err(failure) => {
            // If we closed with bytes unread, the peer would see a reset connection instead of the reason.
            while let Some(Ok(_)) = body.frame().await {}
            reply::failure(&failure)
        }
    })
}

async fn route(table: &Rc<Table>, head: &Parts, body: &mut Incoming) -> Result<Response<Reply>, Failure> {
    let segments: Vec<String> = head
        .uri
        .path()
        .split('/')
        .skip(1)
        .map(query::decode)
        .collect::<Option<_>>()
        .ok_or_else(|| refused("the path of the request is not percent-encoded UTF-8"))?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match (&head.method, segments.as_slice()) {
        (&Method::GET, ["health"]) => reply::json(&Health { version: VERSION }),
        (&Method::PUT, ["env"]) => {
            let variables: BTreeMap<String, String> = json(body).await?;
            table.set_env(variables).map(|()| reply::done())
        }
        (&Method::GET, ["processes"]) => reply::json(&table.list()),
        (&Method::PUT, ["processes", id]) => {
            let spec: ProcessSpec = json(body).await?;
            let process = table.start(id, &spec)?;
            match parameter(head, "follow")?.as_deref() {
                Some("1") => Ok(reply::raw(Reply::Follow(Follow::new(process, 0)))),
                _ => reply::json(&process.state()),
            }
        }
        (&Method::DELETE, ["processes", id]) => table.forget(id).map(|()| reply::done()),
        (&Method::GET, ["processes", id, "output"]) => {
            follow(table.get(id)?, number(head, "after")?.unwrap_or(0))
        }
        (&Method::POST, ["processes", id, "signal"]) => {
            let process = table.get(id)?;
            let signal = number(head, "n")?.ok_or_else(|| refused("which signal? Give its number as n"))?;
            reply::json(&signal_to(&process, signal)?)
        }
        (&Method::POST, ["processes", id, "stdin"]) => {
            let process = table.get(id)?;
            write_input(&process, body).await
        }
        (&Method::DELETE, ["processes", id, "stdin"]) => {
            table.get(id)?.close_input().await.map(|()| reply::done())
        }
        (&Method::POST, ["processes", id, "resize"]) => {
            let process = table.get(id)?;
            let size: PtySize = json(body).await?;
            process.resize(size).map(|()| reply::done())
        }
        (&Method::GET, ["files"]) => {
            let offset = number(head, "offset")?.unwrap_or(0);
            let limit = number(head, "limit")?.unwrap_or(u64::MAX);
            let (size, file) = files::read(&path(table, head)?, offset, limit, links(head)?)?;
            let mut response = reply::raw(Reply::File(file));
            response.headers_mut().insert(FILE_SIZE, HeaderValue::from(size));
            Ok(response)
        }
        (&Method::PUT, ["files"]) => write_file(&path(table, head)?, links(head)?, body).await,
        (&Method::GET, ["list"]) => reply::json(&files::list(&path(table, head)?, links(head)?)?),
        (&Method::GET, ["stat"]) => reply::json(&files::stat(&path(table, head)?, links(head)?)?),
        (method, _) => Err(not_found(format!("the guest has no {method} {}", head.uri.path()))),
    }
}

fn follow(process: Rc<Process>, after: u64) -> Result<Response<Reply>, Failure> {
    let end = process.ring.borrow().end();
    if after > end {
        return Err(refused(format!("{} has made only {end} bytes of output, not {after}", process.id)));
    }
    Ok(reply::raw(Reply::Follow(Follow::new(process, after))))
}

fn signal_to(process: &Process, signal: u64) -> Result<Signalled, Failure> {
    let signal = i32::try_from(signal).ok().filter(|signal| (1..=libc::SIGRTMAX()).contains(signal));
    let signal = signal.ok_or_else(|| refused("there is no such signal"))?;
    match tree::signal(process.root(), signal) {
        Ok(reached) => Ok(Signalled { reached }),
        Err(error) => Err(refused(format!("{} cannot be signalled: {error}", process.id))),
    }
}

async fn write_input(process: &Process, body: &mut Incoming) -> Result<Response<Reply>, Failure> {
    // Held over the whole body, so that two writers do not interleave; only as fast as the process reads.
    let mut input = process.input.lock().await;
    while let Some(data) = next(body).await? {
        process.write(&mut input, &data).await?;
    }
    Ok(reply::done())
}

async fn write_file(path: &str, links: Links, body: &mut Incoming) -> Result<Response<Reply>, Failure> {
    let mut upload = files::Upload::begin(path, links)?;
    while let Some(data) = next(body).await? {
        upload.write(&data)?;
    }
    upload.finish()?;
    Ok(reply::done())
}

/// The next bytes of a raw body.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => return Err(refused(format!("the request broke off: {error}"))),
        }
    }
}

async fn json<T: DeserializeOwned>(body: &mut Incoming) -> Result<T, Failure> {
    let body = Limited::new(body, LONGEST_JSON).collect().await;
    let body = body.map_err(|error| refused(format!("the request cannot be read: {error}")))?.to_bytes();
    serde_json::from_slice(&body)
        .map_err(|error| refused(format!("the request is not what it should be: {error}")))
}

fn parameter(head: &Parts, name: &str) -> Result<Option<String>, Failure> {
    let Some(value) = query::find(head.uri.query().unwrap_or_default(), name) else { return Ok(None) };
    match query::decode(value) {
        Some(value) => Ok(Some(value)),
        None => Err(refused(format!("{name} is not percent-encoded UTF-8"))),
    }
}

fn number(head: &Parts, name: &str) -> Result<Option<u64>, Failure> {
    let value = parameter(head, name)?;
    let parse =
        |value: String| value.parse().map_err(|_| refused(format!("{name} is not a number: {value}")));
    value.map(parse).transpose()
}

/// Whether links are followed on the way to a path.
fn links(head: &Parts) -> Result<Links, Failure> {
    Ok(match parameter(head, "exact")?.as_deref() {
        Some("1") => Links::Refuse,
        _ => Links::Follow,
    })
}

/// The path of the request; a relative one begins where processes do.
fn path(table: &Table, head: &Parts) -> Result<String, Failure> {
    match parameter(head, "path")? {
        None => Err(refused("which path? Give it as path")),
        Some(path) if path.is_empty() => Err(refused("the path is empty")),
        Some(path) if path.contains('\0') => Err(refused("a path cannot contain a zero byte")),
        Some(path) if path.starts_with('/') => Ok(path),
        Some(path) => Ok(format!("{}/{path}", table.defaults.cwd)),
    }
}
