//! Following a process: frames off the wire become pieces of output.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::Error;
use super::connect::{Answer, Connection};
use crate::frame::{self, Kind};
use crate::wire::Exit;

/// A guest that has nothing to say sends a keepalive four times in this long, so after it the peer is dead.
const SILENCE: Duration = Duration::from_secs(60);

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Standard output (or the terminal).
    Stdout {
        /// Where it begins in the combined output; more than expected when older output was dropped.
        offset: u64,
        /// The bytes, cut anywhere.
        data: Bytes,
    },
    /// Standard error.
    Stderr {
        /// Where it begins in the combined output.
        offset: u64,
        /// The bytes, cut anywhere.
        data: Bytes,
    },
    /// The last thing: it ended.
    Exit(Exit),
}

/// Output of a process as it comes. Dropping it stops following and leaves the process alone.
pub struct Process {
    body: Incoming,
    buffer: BytesMut,
    ended: bool,
    connection: Connection,
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Process").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Process {
    pub(super) fn new(answer: Answer) -> Self {
        Self {
            body: answer.response.into_body(),
            buffer: BytesMut::new(),
            ended: false,
            connection: answer.connection,
        }
    }

    /// The next piece; None after the exit. `Unavailable` when the guest went away first.
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Result<Option<Output>, Error> {
        while !self.ended {
            while let Some(frame) = frame::decode(&mut self.buffer).map_err(Error::Unavailable)? {
                match frame.kind {
                    Kind::Stdout => {
                        return Ok(Some(Output::Stdout { offset: frame.offset, data: frame.payload }));
                    }
                    Kind::Stderr => {
                        return Ok(Some(Output::Stderr { offset: frame.offset, data: frame.payload }));
                    }
                    Kind::Exit => {
                        self.ended = true;
                        let exit = serde_json::from_slice(&frame.payload);
                        let exit = exit.map_err(|error| {
                            Error::Unavailable(format!("its exit is not readable: {error}"))
                        })?;
                        return Ok(Some(Output::Exit(exit)));
                    }
                    Kind::Keepalive => {}
                }
            }
            self.receive().await?;
        }
        Ok(None)
    }

    async fn receive(&mut self) -> Result<(), Error> {
        let piece = self.connection.drive(self.body.frame());
        let piece = tokio::time::timeout(SILENCE, piece).await;
        match piece {
            Ok(Some(Ok(piece))) => {
                if let Ok(data) = piece.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
                Ok(())
            }
            Ok(Some(Err(error))) => Err(Error::Unavailable(format!("the output broke off: {error}"))),
            Ok(None) => Err(Error::Unavailable("the output stopped before the process ended".into())),
            Err(_) => Err(Error::Unavailable(format!("it has been silent for {} s", SILENCE.as_secs()))),
        }
    }
}
