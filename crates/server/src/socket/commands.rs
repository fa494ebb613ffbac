//! Commands over a WebSocket. Each is the request that it stands for, and goes the way that one goes: the same rights, the
//! same keys, the same answer. It runs to its end even if its client hangs up.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use protocol::{ApprovalId, CreatePrompt, Decide, Problem, ServerBody, SessionId, StopSession};
use serde_json::Value;

use crate::authorize::{Caller, Identity};
use crate::problem::{bad_request, internal};

/// Largest answer that is passed on.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// What a command asks for.
pub(super) enum Command {
    Prompt(CreatePrompt),
    Stop(StopSession),
    Approve(ApprovalId, Decide),
}

impl Command {
    fn path(&self, session: SessionId) -> String {
        let what = match self {
            Self::Prompt(_) => "prompts".to_owned(),
            Self::Stop(_) => "stop".to_owned(),
            Self::Approve(approval, _) => format!("approvals/{approval}"),
        };
        format!("/api/v1/sessions/{session}/{what}")
    }

    fn body(&self) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::Prompt(body) => serde_json::to_vec(body),
            Self::Stop(body) => serde_json::to_vec(body),
            Self::Approve(_, body) => serde_json::to_vec(body),
        }
    }
}

/// Does it.
pub(super) async fn run(
    api: Router,
    caller: Caller,
    id: String,
    session: SessionId,
    command: Command,
    key: Option<String>,
) -> ServerBody {
    match ask(api, caller, session, &command, key).await {
        Ok((status, result)) if status < 400 => {
            ServerBody::Reply { id, status, result: Some(result), problem: None }
        }
        Ok((status, problem)) => {
            let problem = serde_json::from_value(problem).unwrap_or_else(|_| internal());
            ServerBody::Reply { id, status, result: None, problem: Some(problem) }
        }
        Err(problem) => {
            ServerBody::Reply { id, status: problem.status, result: None, problem: Some(problem) }
        }
    }
}

async fn ask(
    api: Router,
    caller: Caller,
    session: SessionId,
    command: &Command,
    key: Option<String>,
) -> Result<(u16, Value), Problem> {
    let body = command.body().map_err(|_| internal())?;
    let mut request = Request::post(command.path(session))
        .header(header::CONTENT_TYPE, "application/json")
        .extension(Identity(Some(caller.0)));
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let request = request
        .body(Body::from(body))
        .map_err(|error| bad_request(format!("this cannot be a request: {error}")))?;
    let Ok(response) = TowerToHyperService::new(api).call(request).await;
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, MAX_ANSWER).await.map_err(|error| {
        tracing::error!(%error, "an answer could not be passed on");
        internal()
    })?;
    Ok((parts.status.as_u16(), serde_json::from_slice(&body).unwrap_or(Value::Null)))
}
