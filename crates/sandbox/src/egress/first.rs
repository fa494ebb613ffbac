//! What a client's first bytes say it speaks.
//!
//! Being wrong here must never let something through: what begins like HTTP or TLS and does not go on like it is not
//! taken for another protocol.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::rules::Host;
use super::stream::Client;
use super::tls::{self, Hello};

/// A client that says nothing for this long waits for the server to speak.
pub(super) const PATIENCE: Duration = Duration::from_millis(300);

/// First bytes that have begun to come must be whole within this time.
const WHOLE: Duration = Duration::from_secs(10);

/// The longest first line of text.
const LINE: usize = 64 << 10;

/// What a client's first bytes say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum First {
    /// It ended the connection without a byte.
    Closed,
    /// It waits for the server to speak.
    Silence,
    /// TLS, with the name that is asked for.
    Tls(Option<Host>),
    /// HTTP/1.
    Http,
    /// HTTP/2 without TLS.
    Http2,
    /// Something else.
    Other,
    /// It begins like something that is read, and is wrong.
    Bad(&'static str),
}

/// Whether whoever opened the connection may wait for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Shortly,
    Forever,
}

/// Looks at a client's first bytes, until they say enough.
pub(super) async fn first<S: AsyncRead + AsyncWrite + Unpin>(client: &mut Client<S>, wait: Wait) -> First {
    if client.seen().is_empty() {
        let looked = match wait {
            Wait::Forever => client.look().await,
            Wait::Shortly => match tokio::time::timeout(PATIENCE, client.look()).await {
                Ok(looked) => looked,
                Err(_) => return First::Silence,
            },
        };
        // A connection that breaks is closed.
        if !matches!(looked, Ok(1..)) {
            return First::Closed;
        }
    }
    let whole = async {
        loop {
            if let Some(first) = classify(client.seen()) {
                return first;
            }
            if !matches!(client.look().await, Ok(1..)) {
                return at_end(client.seen());
            }
        }
    };
    match tokio::time::timeout(WHOLE, whole).await {
        Ok(first) => first,
        Err(_) => First::Bad("its first bytes did not come whole in time"),
    }
}

/// What bytes say that no others will follow.
fn at_end(bytes: &[u8]) -> First {
    match bytes.first() {
        Some(0x16) => First::Bad("its TLS begins and does not go on"),
        _ => First::Other,
    }
}

/// What bytes say; None if more are needed.
fn classify(bytes: &[u8]) -> Option<First> {
    match tls::client_hello(bytes) {
        Hello::Whole(name) => return Some(First::Tls(name)),
        Hello::Malformed => return Some(First::Bad("its TLS is malformed")),
        Hello::Partial if bytes.len() > 2 * tls::HELLO => return Some(First::Bad("its TLS begins too long")),
        Hello::Partial => return None,
        Hello::Other => {}
    }
    // Servers skip empty lines before a request, so these tell nothing.
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let text = &bytes[blank..];
    // Many servers take bytes above ASCII in a path.
    let is_text = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
    let end = text.iter().position(|byte| !is_text(byte));
    let line = &text[..end.unwrap_or(text.len())];
    let mentions_http = line.windows(5).any(|window| window.eq_ignore_ascii_case(b"HTTP/"));
    match end.map(|end| text[end]) {
        Some(b'\r' | b'\n') | None if line.starts_with(b"PRI * HTTP/2") => Some(First::Http2),
        Some(b'\r' | b'\n') if mentions_http => Some(First::Http),
        // A request line with other bytes in it: some servers take it, so it is not another protocol.
        Some(_) if mentions_http => Some(First::Bad("its request is malformed")),
        Some(_) => Some(First::Other),
        None if bytes.len() > LINE => Some(First::Bad("its first line is too long")),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn protocols_are_told_apart() {
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], Some(First::Http)),
            (b"\r\n\nGET / HTTP/1.1\r\n", Some(First::Http)),
            (b"get\t/\thttp/1.1\n", Some(First::Http)),
            (b"GET /\xc3\xbc HTTP/1.1\r\n", Some(First::Http)),
            (b"GET /\x01 HTTP/1.1\r\n", Some(First::Other)),
            (b"GET / HTTP/1.1 \x01\r\n", Some(First::Bad("its request is malformed"))),
            (b"GET / HT", None),
            (b"G", None),
            (b"\r\n", None),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(First::Http2)),
            (b"SSH-2.0-OpenSSH_9.6 Debian\r\n", Some(First::Other)),
            (b"EHLO me\r\n", Some(First::Other)),
            (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", Some(First::Other)),
            (b"*1\r\n$4\r\nPING\r\n", Some(First::Other)),
            (b"0032git-upload-pack /p.git\0host=x\0", Some(First::Other)),
            (b"\x16\x03", None),
            (b"\x16\x03\x01\x00\x00", Some(First::Bad("its TLS is malformed"))),
        ] {
            assert_eq!(classify(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    proptest! {
        #[test]
        fn more_bytes_do_not_change_what_was_said(bytes in prop::collection::vec(any::<u8>(), 0..80), more in any::<u8>()) {
            if let Some(first) = classify(&bytes) {
                let longer = [bytes.as_slice(), &[more]].concat();
                prop_assert_eq!(classify(&longer), Some(first));
            }
        }
    }
}
