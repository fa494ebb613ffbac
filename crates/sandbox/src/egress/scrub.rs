//! Takes secrets out of what servers answer. A server may say back what it was told; the sandbox must not learn a value
//! that way.
//!
//! In a body a value is covered by bytes of the same number, so lengths and ranges stay true. What a server has turned into
//! something else (encrypted, hashed, spelled backwards) cannot be recognised.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderValue;

/// One thing to be found, and what is put there.
#[derive(Clone)]
struct Needle {
    find: Vec<u8>,
    /// What stands for it in a header.
    placeholder: Vec<u8>,
    /// The same, as long as what is found.
    cover: Vec<u8>,
}

/// What must not be in an answer.
#[derive(Clone, Default)]
pub(super) struct Scrubber {
    needles: Vec<Needle>,
}

impl Scrubber {
    /// Also looks for this value, in the spellings that servers commonly use when they say something back.
    pub(super) fn add(&mut self, value: &[u8], placeholder: &str) {
        let percent = |hex: &dyn Fn(u8) -> String| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            let letters = value.iter().map(|&b| if plain(b) { char::from(b).to_string() } else { hex(b) });
            letters.collect::<String>().into_bytes()
        };
        let escaped = |also: &[u8]| -> Vec<u8> {
            let escape =
                |b: &u8| if b"\"\\".contains(b) || also.contains(b) { vec![b'\\', *b] } else { vec![*b] };
            value.iter().flat_map(escape).collect()
        };
        let spellings = [
            value.to_vec(),
            percent(&|byte| format!("%{byte:02X}")),
            percent(&|byte| format!("%{byte:02x}")),
            escaped(b""),
            escaped(b"/"),
        ];
        for find in spellings {
            if self.needles.iter().all(|known| known.find != find) {
                let cover = placeholder.bytes().chain(std::iter::repeat(b'*')).take(find.len()).collect();
                self.needles.push(Needle { find, placeholder: placeholder.as_bytes().to_vec(), cover });
            }
        }
        // A value that contains another is found first.
        self.needles.sort_by_key(|needle| std::cmp::Reverse(needle.find.len()));
    }

    /// Puts placeholders into headers.
    pub(super) fn headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let mut bytes = value.as_bytes().to_vec();
            for needle in &self.needles {
                while let Some(at) = find(&bytes, &needle.find) {
                    bytes.splice(at..at + needle.find.len(), needle.placeholder.iter().copied());
                    if find(&needle.placeholder, &needle.find).is_some() {
                        break;
                    }
                }
            }
            if bytes != value.as_bytes() {
                // A header that cannot be written any more is better empty than told.
                *value = HeaderValue::from_bytes(&bytes).unwrap_or_else(|_| HeaderValue::from_static(""));
            }
        }
    }

    /// Covers every value that is whole.
    fn cover(&self, bytes: &mut [u8]) {
        for needle in &self.needles {
            let mut from = 0;
            while let Some(at) = find(&bytes[from..], &needle.find) {
                let begin = from + at;
                bytes[begin..begin + needle.find.len()].copy_from_slice(&needle.cover);
                from = begin + needle.find.len();
            }
        }
    }

    /// How many bytes at the end may be the beginning of a value.
    fn open_end(&self, bytes: &[u8]) -> usize {
        let begun = |needle: &Needle| {
            let most = bytes.len().min(needle.find.len().saturating_sub(1));
            (1..=most).rev().find(|&length| bytes.ends_with(&needle.find[..length])).unwrap_or(0)
        };
        self.needles.iter().map(begun).max().unwrap_or(0)
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while from + needle.len() <= bytes.len() {
        let at = from + bytes[from..=bytes.len() - needle.len()].iter().position(|byte| *byte == first)?;
        if bytes[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// A body without secrets. It streams: only bytes that may be the beginning of a value wait for those after them.
pub(super) struct Scrubbed<B> {
    inner: B,
    scrubber: Scrubber,
    held: BytesMut,
    next: VecDeque<Frame<Bytes>>,
    ended: bool,
}

impl<B> Scrubbed<B> {
    pub(super) fn new(inner: B, scrubber: Scrubber) -> Self {
        Self { inner, scrubber, held: BytesMut::new(), next: VecDeque::new(), ended: false }
    }

    fn take(&mut self, keep: usize) {
        let ready = self.held.split_to(self.held.len() - keep).freeze();
        if !ready.is_empty() {
            self.next.push_back(Frame::data(ready));
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
            let frame = match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    this.ended = true;
                    this.take(0);
                    continue;
                }
            };
            match frame.into_data() {
                Ok(data) => {
                    this.held.extend_from_slice(&data);
                    this.scrubber.cover(&mut this.held);
                    let keep = this.scrubber.open_end(&this.held);
                    this.take(keep);
                }
                Err(frame) => {
                    this.take(0);
                    if let Ok(mut trailers) = frame.into_trailers() {
                        this.scrubber.headers(&mut trailers);
                        this.next.push_back(Frame::trailers(trailers));
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_empty() && self.held.is_empty() && (self.ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let waiting: usize =
            self.held.len() + self.next.iter().filter_map(Frame::data_ref).map(Bytes::len).sum::<usize>();
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
    use futures_util::stream;
    use http_body_util::{BodyExt, StreamBody};
    use proptest::prelude::*;

    use super::*;

    fn scrubber(values: &[&str]) -> Scrubber {
        let mut scrubber = Scrubber::default();
        values.iter().for_each(|value| scrubber.add(value.as_bytes(), "slipway-X-0123456789abcdef"));
        scrubber
    }

    fn scrubbed(values: &[&str], chunks: &[&[u8]]) -> Vec<u8> {
        let frames = chunks.iter().map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk))));
        let frames: Vec<Result<_, std::convert::Infallible>> = frames.collect();
        let body = Scrubbed::new(StreamBody::new(stream::iter(frames)), scrubber(values));
        let collected = futures_util::FutureExt::now_or_never(body.collect()).unwrap().unwrap();
        collected.to_bytes().to_vec()
    }

    #[test]
    fn a_value_is_covered_also_across_chunks() {
        assert_eq!(scrubbed(&["canary"], &[b"a canary b"]), b"a slipwa b");
        assert_eq!(scrubbed(&["canary"], &[b"a can", b"a", b"ry b can"]), b"a slipwa b can");
        let text = String::from_utf8(scrubbed(&["a/b+c"], &[b"x=a%2Fb%2Bc&y=a%2fb%2bc z=a\\/b+c"])).unwrap();
        assert_eq!(text, "x=slipway-X&y=slipway-X z=slipwa");
    }

    #[test]
    fn headers_get_the_placeholder() {
        let mut headers = HeaderMap::new();
        headers.insert("x-echo", HeaderValue::from_static("Bearer canary, canary"));
        headers.insert("x-other", HeaderValue::from_static("plain"));
        scrubber(&["canary"]).headers(&mut headers);
        let place = "slipway-X-0123456789abcdef";
        assert_eq!(headers["x-echo"], format!("Bearer {place}, {place}"));
        assert_eq!(headers["x-other"], "plain");
    }

    proptest! {
        #[test]
        fn no_split_of_a_text_lets_the_value_through(
            before in "[abc]{0,20}", after in "[abc]{0,20}", cuts in prop::collection::vec(0usize..60, 0..6),
        ) {
            let text = format!("{before}abcabd{after}").into_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&text[from..cut]);
                from = cut;
            }
            chunks.push(&text[from..]);
            let out = scrubbed(&["abcabd"], &chunks);
            prop_assert_eq!(out.len(), text.len());
            prop_assert_eq!(find(&out, b"abcabd"), None);
        }
    }
}
