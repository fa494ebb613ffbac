//! `web_fetch`: a page from outside. It is fetched by this process over the sandbox's own way out, so that rules, policies and
//! what is told of them are those of any program inside, and what it is made of on the host decides nothing.

use agent::tools::{Response, fetched};
use sandbox::egress::{FetchError, Fetched};

use super::{Done, Scope};
use crate::exits::Exit;
use crate::failure::Failure;

/// Most bytes of a page.
const MOST: usize = 4 * 1024 * 1024;

pub(super) async fn run(scope: &Scope, exit: Option<&Exit>, url: &str) -> Result<Done, Failure> {
    let Some(exit) = exit else {
        return Ok(Done::error("Not fetched: this environment has no network."));
    };
    let answer = tokio::select! {
        biased;
        () = scope.stop.given() => return Err(Failure::Stopped),
        answer = exit.fetch(url, MOST) => answer,
    };
    let Fetched { url, status, content_type, body, cut } = match answer {
        Ok(fetched) => fetched,
        Err(FetchError::Refused(why) | FetchError::Address(why) | FetchError::Failed(why)) => {
            return Ok(Done::error(format!("Not fetched: {}", why.trim_start_matches("slipway: "))));
        }
    };
    let response = Response { url: &url, status, content_type: content_type.as_deref(), body: &body, cut };
    Ok(match fetched(response, &|to| sandbox::egress::resolved(&url, to)) {
        Ok(text) if status < 400 => Done::ok(text),
        Ok(text) | Err(text) => Done::error(text),
    })
}
