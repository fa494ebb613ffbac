//! Scrubbing what comes in pieces. Whatever the pieces, what goes on is the same as if the whole had been scrubbed at once:
//! bytes wait as long as they may be the beginning of a value, and nothing is covered before it is known how far it goes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Sleep;

use super::scrub::{Run, Scrubber};

/// Bytes that may be the beginning of a value wait this long for those after them. They come at once if they were sent
/// together; and whoever waits for an answer to just these must not wait for ever.
const WAIT: Duration = Duration::from_millis(200);

/// Of a value that is not whole after that time, no more bytes than these are passed on, and not more than half of it. More
/// than these are hardly like a value by chance, so they wait for what follows.
const HARMLESS: usize = 4;

/// Bytes read at a time.
const PIECE: usize = 16 * 1024;

/// What came in and cannot go on yet.
struct Held {
    scrubber: Scrubber,
    bytes: BytesMut,
    /// So many of the first bytes went on after a pause. They are kept to know a value by that they are the beginning of.
    shown: usize,
    /// What is covered and reaches into these bytes from before.
    run: Option<Run>,
}

impl Held {
    fn new(scrubber: Scrubber) -> Self {
        Self { scrubber, bytes: BytesMut::new(), shown: 0, run: None }
    }

    /// How many bytes wait.
    fn waiting(&self) -> usize {
        self.bytes.len() - self.shown
    }

    /// Takes what came, and gives what can go on.
    fn take(&mut self, piece: &[u8]) -> Bytes {
        self.bytes.extend_from_slice(piece);
        let open = self.scrubber.open_end(&self.bytes);
        self.release(self.bytes.len() - open)
    }

    /// Gives everything: nothing follows.
    fn finish(&mut self) -> Bytes {
        self.release(self.bytes.len())
    }

    /// Gives as many bytes, covered. It is known of each of them which values begin there.
    fn release(&mut self, length: usize) -> Bytes {
        let runs = self.scrubber.runs(&self.bytes, length, self.run.take());
        self.run = runs.last().and_then(|run| run.after(length));
        let mut ready = self.bytes.split_to(length);
        self.scrubber.cover(&mut ready, &runs);
        let shown = self.shown.min(length);
        self.shown -= shown;
        ready.split_off(shown).freeze()
    }

    /// What can go on of what waits, if nothing follows for a while; None if that would tell too much of a value.
    fn harmless(&self) -> Option<Bytes> {
        let runs = self.scrubber.runs(&self.bytes, self.bytes.len(), self.run);
        let mut bytes = self.bytes.clone();
        self.scrubber.cover(&mut bytes, &runs);
        let is_covered = |at: &usize| runs.iter().any(|run| run.within(bytes.len()).contains(at));
        let waiting = self.shown..bytes.len();
        let told = self.shown + waiting.clone().filter(|at| !is_covered(at)).count();
        // As they came: a byte that is covered as the end of one value may be the beginning of the next.
        let most =
            self.scrubber.shortest_like(&self.bytes).map_or(HARMLESS, |length| HARMLESS.min(length / 2));
        let length = match told <= most {
            true => waiting.len(),
            // A value that is whole, and may be the beginning of a longer one, is covered whatever follows.
            false => waiting.take_while(is_covered).count(),
        };
        let harmless = bytes.split_off(self.shown).split_to(length).freeze();
        Some(harmless).filter(|harmless| !harmless.is_empty())
    }

    /// Gives what waits although more may follow, if that is harmless.
    fn pause(&mut self) -> Bytes {
        let harmless = self.harmless().unwrap_or_default();
        self.shown += harmless.len();
        harmless
    }
}

/// Moves a server's bytes to a client until they end, without secrets.
pub(super) async fn copy<R, W>(server: &mut R, client: &mut W, scrubber: &Scrubber) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut held = Held::new(scrubber.clone());
    let mut piece = BytesMut::with_capacity(PIECE);
    loop {
        piece.clear();
        let read = match held.harmless() {
            None => server.read_buf(&mut piece).await?,
            Some(_) => match tokio::time::timeout(WAIT, server.read_buf(&mut piece)).await {
                Ok(read) => read?,
                Err(_) => {
                    client.write_all(&held.pause()).await?;
                    client.flush().await?;
                    continue;
                }
            },
        };
        if read == 0 {
            client.write_all(&held.finish()).await?;
            return client.shutdown().await;
        }
        client.write_all(&held.take(&piece)).await?;
        client.flush().await?;
    }
}

/// A body without secrets. It streams: only bytes that may be the beginning of a value wait for those after them.
pub(super) struct Scrubbed<B> {
    inner: B,
    held: Held,
    next: VecDeque<Frame<Bytes>>,
    /// Runs while the server is silent and something waits.
    pause: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl<B> Scrubbed<B> {
    pub(super) fn new(inner: B, scrubber: Scrubber) -> Self {
        Self { inner, held: Held::new(scrubber), next: VecDeque::new(), pause: None, ended: false }
    }

    fn push(&mut self, ready: Bytes) {
        if !ready.is_empty() {
            self.next.push_back(Frame::data(ready));
        }
    }

    /// Waits for as long as what is held must wait while the server is silent.
    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.pause.is_none() && self.held.harmless().is_some() {
            self.pause = Some(Box::pin(tokio::time::sleep(WAIT)));
        }
        match &mut self.pause {
            Some(pause) => pause.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Scrubbed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        loop {
            if let Some(frame) = this.next.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            let polled = Pin::new(&mut this.inner).poll_frame(cx);
            if polled.is_pending() {
                ready!(this.poll_pause(cx));
            }
            this.pause = None;
            let frame = match polled {
                Poll::Pending => {
                    let harmless = this.held.pause();
                    this.push(harmless);
                    continue;
                }
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    this.ended = true;
                    let rest = this.held.finish();
                    this.push(rest);
                    continue;
                }
            };
            match frame.into_data() {
                Ok(data) => {
                    let ready = this.held.take(&data);
                    this.push(ready);
                }
                Err(frame) => {
                    let rest = this.held.finish();
                    this.push(rest);
                    if let Ok(mut trailers) = frame.into_trailers() {
                        this.held.scrubber.headers(&mut trailers);
                        this.next.push_back(Frame::trailers(trailers));
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_empty() && self.held.waiting() == 0 && (self.ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let waiting: usize =
            self.held.waiting() + self.next.iter().filter_map(Frame::data_ref).map(Bytes::len).sum::<usize>();
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + waiting as u64);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + waiting as u64);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};
    use proptest::prelude::*;

    use super::*;

    fn scrubber<S: AsRef<[u8]>>(values: &[S]) -> Scrubber {
        let mut scrubber = Scrubber::default();
        values.iter().for_each(|value| scrubber.add(value.as_ref(), "slipwXy-X-0123456789ABCDEF"));
        scrubber
    }

    fn scrubbed<S: AsRef<[u8]>>(values: &[S], chunks: &[&[u8]]) -> Vec<u8> {
        let frames = chunks.iter().map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk))));
        let frames: Vec<Result<_, std::convert::Infallible>> = frames.collect();
        let body = Scrubbed::new(StreamBody::new(stream::iter(frames)), scrubber(values));
        body.collect().now_or_never().unwrap().unwrap().to_bytes().to_vec()
    }

    #[test]
    fn a_value_is_covered_also_across_chunks() {
        assert_eq!(scrubbed(&["canary"], &[b"a canary b"]), b"a slipwX b");
        assert_eq!(scrubbed(&["canary"], &[b"a can", b"a", b"ry b can"]), b"a slipwX b can");
    }

    #[test]
    fn a_value_that_another_begins_with_does_not_show_the_rest_of_it() {
        let values = ["canaryTOK", "canaryTOKEN-long-tail-9999"];
        let text = b"Bearer canaryTOKEN-long-tail-9999, canaryTOK, canaryTOKE";
        let whole = scrubbed(&values, &[text]);
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(scrubbed(&values, &bytes), whole);
        assert_eq!(whole, b"Bearer slipwXy-X-0123456789ABCDEF, slipwXy-X, slipwXy-XE");
    }

    #[test]
    fn a_value_that_reaches_into_another_does_not_show_the_rest_of_it() {
        let text = b"abcdefgh-defgh";
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(scrubbed(&["abcde", "defgh"], &bytes), b"slipwXy--slipw");
    }

    #[test]
    fn a_value_that_begins_with_the_end_of_another_is_not_told_in_a_pause() {
        let mut held = Held::new(scrubber(&["abbba"]));
        assert_eq!(held.take(b"abbbabbb"), &b"slip"[..]);
        assert_eq!(held.pause(), &b"w"[..], "three of five bytes are more than half");
        assert_eq!(held.take(b"ac"), &b"Xy-Xc"[..]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_pauses_does_not_stall_and_a_value_is_still_known() {
        let (server, pieces) = tokio::sync::mpsc::unbounded_channel::<&'static [u8]>();
        let pieces = stream::unfold(pieces, async |mut pieces| {
            let piece = pieces.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(piece))), pieces))
        });
        let body = Scrubbed::new(StreamBody::new(Box::pin(pieces)), scrubber(&["canary-value", "canary"]));
        let mut body = body.into_data_stream();
        let mut next =
            async || body.next().await.map(|piece| String::from_utf8(piece.unwrap().to_vec()).unwrap());
        // It ends like the beginning of the value, and nothing follows until it is answered.
        server.send(b"ping can").unwrap();
        assert_eq!(next().await.unwrap(), "ping ");
        assert_eq!(next().await.unwrap(), "can", "it does not wait for ever");
        server.send(b"ary-va").unwrap();
        assert_eq!(next().await.unwrap(), "pwX", "what is left of a whole value is covered");
        server.send(b"lue").unwrap();
        assert_eq!(next().await.unwrap(), "y-X-01", "and so is the rest of a longer one");
        drop(server);
        assert_eq!(next().await, None);
    }

    #[tokio::test]
    async fn a_connection_is_scrubbed_and_does_not_stall() {
        let (mut server, mut inner) = tokio::io::duplex(64);
        let (mut outer, mut client) = tokio::io::duplex(64);
        let scrubber = scrubber(&["canary"]);
        let copied = tokio::spawn(async move { copy(&mut inner, &mut outer, &scrubber).await });
        // It ends like the beginning of the value, and nothing follows until it is answered.
        server.write_all(b"ping can").await.unwrap();
        let mut first = [0; 8];
        client.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"ping can");
        for part in [&b"x ca"[..], b"na", b"ry y"] {
            server.write_all(part).await.unwrap();
        }
        drop(server);
        let mut rest = String::new();
        client.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "x slipwX y");
        copied.await.unwrap().unwrap();
    }

    /// Each byte of every place where a value stands is covered, whatever else stands there; told without any of the above.
    fn expected(values: &[String], text: &[u8]) -> Vec<bool> {
        let mut covered = vec![false; text.len()];
        for value in values {
            for begin in 0..text.len() {
                if text[begin..].starts_with(value.as_bytes()) {
                    covered[begin..begin + value.len()].fill(true);
                }
            }
        }
        covered
    }

    fn cut<'a>(text: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (text.len() + 1)).chain([text.len()]).collect();
        cuts.sort_unstable();
        let mut from = 0;
        let piece = |to: usize| {
            let piece = &text[from..to];
            from = to;
            piece
        };
        cuts.into_iter().map(piece).collect()
    }

    proptest! {
        #[test]
        fn any_cut_of_a_text_gives_what_the_whole_gives(
            values in prop::collection::vec("[ab]{1,6}", 1..4),
            text in "[abc]{0,60}",
            cuts in prop::collection::vec(0usize..61, 0..12),
        ) {
            let text = text.as_bytes();
            let out = scrubbed(&values, &cut(text, &cuts));
            prop_assert_eq!(&out, &scrubbed(&values, &[text]));
            // The placeholder has none of these letters.
            let covered: Vec<bool> = out.iter().zip(text).map(|(out, before)| out != before).collect();
            prop_assert_eq!(covered, expected(&values, text));
        }

        #[test]
        fn of_a_value_that_comes_with_pauses_no_more_than_its_beginning_is_told(
            value in "[ab]{2,12}",
            before in "[abc]{0,20}",
            pauses in prop::collection::vec(any::<bool>(), 60),
        ) {
            let text = format!("{before}{value}c");
            let mut held = Held::new(scrubber(&[&value]));
            let mut out = Vec::new();
            for (byte, pause) in text.as_bytes().chunks(1).zip(pauses) {
                out.extend_from_slice(&held.take(byte));
                if pause {
                    out.extend_from_slice(&held.pause());
                }
            }
            out.extend_from_slice(&held.finish());
            prop_assert_eq!(out.len(), text.len());
            let told = out[before.len()..before.len() + value.len()].iter().zip(value.as_bytes());
            let told = told.filter(|(out, value)| out == value).count();
            prop_assert!(told <= HARMLESS.min(value.len() / 2), "{told} of {value}: {}", String::from_utf8_lossy(&out));
        }
    }
}
