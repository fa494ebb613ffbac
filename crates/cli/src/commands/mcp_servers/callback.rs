//! Where a browser comes back to after somebody allowed something: a port of this machine, or a line that a person pastes.

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Longest request that is read.
const LONGEST: usize = 16 * 1024;
/// Where the browser is sent.
const PATH: &str = "/callback";

/// A port that waits for a browser.
pub(super) struct Callback {
    listener: TcpListener,
    address: String,
}

impl Callback {
    /// On a port of this machine that nobody else can reach.
    pub(super) async fn listen() -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).await.context("no port for the browser to come back to")?;
        let address = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, address })
    }

    /// Where the browser is sent.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The whole address that the browser came back to, or that somebody pasted.
    pub(super) async fn wait(self) -> anyhow::Result<String> {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let mut typed = true;
        // Browsers open connections that they say nothing on: none of them may keep another waiting.
        let mut answered = JoinSet::new();
        loop {
            tokio::select! {
                connection = self.listener.accept() => {
                    answered.spawn(answer(connection?.0));
                }
                Some(target) = answered.join_next() => {
                    if let Ok(Some(target)) = target {
                        return Ok(format!("{}{}", self.address.trim_end_matches(PATH), target));
                    }
                }
                line = lines.next_line(), if typed => match line {
                    Ok(Some(line)) if line.trim().starts_with("http") => return Ok(line.trim().to_owned()),
                    Ok(Some(_)) => {}
                    // There is nobody to paste anything.
                    Ok(None) | Err(_) => typed = false,
                },
            }
        }
    }
}

/// Answers one request; gives what it asks for if it is the one that is waited for.
async fn answer(mut stream: TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST {
        match stream.read(&mut buffer).await {
            Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
            Ok(_) | Err(_) => break,
        }
    }
    let target = wanted(&String::from_utf8_lossy(&request));
    let (status, words) = match &target {
        Some(_) => ("200 OK", "Thank you. You can close this page and go back to slipway."),
        None => ("404 Not Found", "There is nothing here."),
    };
    let page = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{words}",
        words.len()
    );
    // Whoever does not wait for the answer has been here all the same.
    if let Err(error) = stream.write_all(page.as_bytes()).await {
        tracing::debug!(%error, "the browser did not wait for an answer");
    }
    target
}

/// The target of a request that brings an answer.
fn wanted(request: &str) -> Option<String> {
    let target = request.strip_prefix("GET ")?.split(' ').next()?;
    let query = target.strip_prefix(PATH)?.strip_prefix('?')?;
    let has = |key: &str| query.split('&').any(|pair| pair.starts_with(key));
    (has("code=") || has("error=")).then(|| target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_brings_an_answer_is_waited_for() {
        assert_eq!(
            wanted("GET /callback?code=a&state=b HTTP/1.1\r\n").as_deref(),
            Some("/callback?code=a&state=b")
        );
        assert!(wanted("GET /callback?error=access_denied HTTP/1.1\r\n").is_some());
        for other in
            ["GET /favicon.ico HTTP/1.1", "GET /callback HTTP/1.1", "POST /callback?code=a HTTP/1.1", ""]
        {
            assert_eq!(wanted(other), None, "{other}");
        }
    }
}
