//! A tool of an MCP server. What comes back is somebody else's text, and is named so; whatever the server does, the turn loses
//! no more than this call.

use mcp::{Called, Error, Place};
use protocol::IMAGE_LIMIT;
use serde_json::Value;

use super::{Done, Scope};
use crate::failure::Failure;
use crate::pictures::Picture;
use crate::runner::Runner;

/// Most images of one answer.
const IMAGES: usize = 8;

pub(super) async fn call(
    runner: &Runner,
    scope: &Scope,
    server: &str,
    tool: &str,
    arguments: Value,
) -> Result<Done, Failure> {
    let Value::Object(arguments) = arguments else {
        return Ok(Done::error("Not called: the arguments are no object."));
    };
    let Some(known) = runner.mcp.server(server) else {
        return Ok(Done::error(format!("Not called: there is no MCP server {server} any more.")));
    };
    let asked = async {
        let answer = match runner.connect(&known).await? {
            Ok(connection) => {
                failpoint::hit(failpoint::Point::ToolStarted);
                connection.call(tool, arguments).await.map_err(|error| (Made::Yes, error))
            }
            Err(error) => Err((Made::No, error)),
        };
        Ok::<_, Failure>(answer)
    };
    let answer = tokio::select! {
        biased;
        // Dropping the call tells the server that nobody waits for it.
        () = scope.stop.given() => return Err(Failure::Stopped),
        answer = asked => answer?,
    };
    match answer {
        Ok(called) => Ok(shown(scope, server, tool, called).await),
        Err((made, error)) => {
            // A program that went with its sandbox is the sandbox's loss.
            if matches!((&known.place, &error), (Place::Sandbox(_), Error::Gone(_))) {
                scope.sandbox.guest().ping().await?;
            }
            Ok(Done::error(failed(server, made, &error)))
        }
    }
}

/// Whether a call came to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Yes,
    No,
}

/// What the model is told of a call without an answer.
fn failed(server: &str, made: Made, error: &Error) -> String {
    let effect = match (made, error) {
        (Made::No, _) => " The call was not made.",
        // An answer that was lost, or that nobody can read, may have been the answer to a call that did its work.
        (Made::Yes, Error::Gone(_) | Error::Slow { .. } | Error::Unreachable(_) | Error::Rubbish(_)) => {
            " Whether the call had an effect is not known: look before you make it again."
        }
        (Made::Yes, Error::Refused(_) | Error::SignIn(_) | Error::Key(_)) => "",
    };
    let next = if error.may_pass() { "" } else { " Go on without it, or call it in another way." };
    format!("The MCP server {server} gave no answer: {error}.{effect}{next}")
}

async fn shown(scope: &Scope, server: &str, tool: &str, called: Called) -> Done {
    let Called { text, images, is_error } = called;
    let mut text = if is_error { format!("(The tool says that it failed.)\n{text}") } else { text };
    let mut kept = Vec::new();
    for (number, bytes) in (1..).zip(images) {
        let why = match (number <= IMAGES, bytes.len() <= IMAGE_LIMIT) {
            (false, _) => format!("only {IMAGES} are shown"),
            (true, false) => format!("it has {} bytes, and {IMAGE_LIMIT} are shown at most", bytes.len()),
            (true, true) => match Picture::recognise(bytes) {
                Some(picture) => match picture.keep(&scope.dir).await {
                    Ok(file) => {
                        text.push_str(&format!("\n{}", file.describe()));
                        kept.push(file);
                        continue;
                    }
                    Err(problem) => problem.title,
                },
                None => "it is no PNG, JPEG, GIF or WebP".to_owned(),
            },
        };
        text.push_str(&format!("\n(image {number} is not shown: {why})"));
    }
    let answered = agent::tools::mcp_answered(server, tool, &text);
    let mut done = if is_error { Done::error(answered) } else { Done::ok(answered) };
    done.output.images = kept;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_an_answer_says_what_is_known() {
        let gone = failed("shop", Made::Yes, &Error::Gone("; it said: oh".into()));
        assert!(
            gone.contains("shop gave no answer: it ended; it said: oh.") && gone.contains("is not known"),
            "{gone}"
        );
        let early = failed("shop", Made::No, &Error::Gone(" before it was ready".into()));
        assert!(early.ends_with("before it was ready. The call was not made."), "{early}");
        let unreadable = failed("shop", Made::Yes, &Error::Rubbish("a list".into()));
        assert!(unreadable.contains("is not known") && unreadable.contains("Go on without"), "{unreadable}");
        let refused = failed("shop", Made::Yes, &Error::Refused("no such id".into()));
        assert!(
            refused.contains("it refused: no such id.") && !refused.contains("is not known"),
            "{refused}"
        );
    }
}
