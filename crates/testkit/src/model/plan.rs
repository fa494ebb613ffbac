//! How a response is sent: its body, cut into the pieces, waits and breaks that the reply asks for.

use std::io;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use tokio::sync::watch;

use super::reply::{At, Faults, Until};

/// One thing to do while a body is sent.
#[derive(Debug)]
enum Step {
    Send(Bytes),
    Wait(Until),
    Break,
}

/// The body of a response that is going to be sent.
#[derive(Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    /// Plans to send these events with these faults.
    pub(super) fn new(events: Vec<Vec<u8>>, faults: &Faults) -> Self {
        let mut steps = Vec::new();
        let mut pending = Vec::new();
        let flush = |pending: &mut Vec<u8>, steps: &mut Vec<Step>| {
            let bytes = std::mem::take(pending);
            match faults.pieces {
                Some(size) => {
                    steps.extend(bytes.chunks(size).map(|piece| Step::Send(Bytes::copy_from_slice(piece))));
                }
                None if bytes.is_empty() => {}
                None => steps.push(Step::Send(bytes.into())),
            }
        };
        for (index, event) in events.into_iter().enumerate() {
            if faults.cut == Some(index) {
                break;
            }
            for (_, until) in faults.stalls.iter().filter(|(at, _)| *at == At::Event(index)) {
                flush(&mut pending, &mut steps);
                steps.push(Step::Wait(until.clone()));
            }
            pending.extend(event);
            // Pieces of a given size may span events; otherwise each event is a piece.
            if faults.pieces.is_none() {
                flush(&mut pending, &mut steps);
            }
        }
        flush(&mut pending, &mut steps);
        if faults.cut.is_some() {
            steps.push(Step::Break);
        }
        if let Some(delay) = faults.delay {
            steps = steps
                .into_iter()
                .flat_map(|step| match step {
                    Step::Send(_) => vec![Step::Wait(Until::Elapsed(delay)), step],
                    Step::Wait(_) | Step::Break => vec![step],
                })
                .collect();
        }
        Self { steps }
    }

    /// The body as a stream. It breaks when the server stops; the guard lives as long as the body does.
    pub(super) fn stream(
        self,
        stop: watch::Receiver<bool>,
        guard: Guard,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let sending = Sending { steps: self.steps.into_iter(), stop, guard };
        stream::unfold(sending, |mut sending| async move {
            let item = sending.next().await?;
            Some((item, sending))
        })
    }
}

/// A body that is being sent.
struct Sending {
    steps: std::vec::IntoIter<Step>,
    stop: watch::Receiver<bool>,
    guard: Guard,
}

impl Sending {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            match self.steps.next() {
                None => {
                    self.guard.finish();
                    return None;
                }
                Some(Step::Send(bytes)) => {
                    // Lets what came before go out, so that a reader sees the pieces one by one; a break would
                    // otherwise take it along.
                    tokio::task::yield_now().await;
                    return Some(Ok(bytes));
                }
                Some(Step::Wait(until)) => {
                    if wait(&until, &mut self.stop).await == Waited::Stopped {
                        self.guard.finish();
                        return Some(Err(io::Error::other("the scripted model stops")));
                    }
                }
                Some(Step::Break) => {
                    tokio::task::yield_now().await;
                    self.guard.finish();
                    return Some(Err(io::Error::other("the script cuts the answer")));
                }
            }
        }
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Over,
    Stopped,
}

/// Waits until it is over or the server stops.
pub(super) async fn wait(until: &Until, stop: &mut watch::Receiver<bool>) -> Waited {
    let over = async {
        match until {
            Until::Gate(gate) => gate.pass().await,
            Until::Elapsed(time) => tokio::time::sleep(*time).await,
        }
    };
    tokio::select! {
        () = over => Waited::Over,
        // An error means that the server is gone, which is a stop as well.
        _ = stop.wait_for(|stop| *stop) => Waited::Stopped,
    }
}

/// Lives as long as an answer is being sent, and counts it as abandoned if the client went away before its end.
#[derive(Debug)]
pub(super) struct Guard {
    abandoned: watch::Sender<usize>,
    finished: bool,
}

impl Guard {
    pub(super) fn new(abandoned: watch::Sender<usize>) -> Self {
        Self { abandoned, finished: false }
    }

    pub(super) fn finish(&mut self) {
        self.finished = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.finished {
            self.abandoned.send_modify(|count| *count += 1);
        }
    }
}
