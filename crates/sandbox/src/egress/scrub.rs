//! Takes secrets out of what servers answer. A server may say back what it was told; the sandbox must not learn a value
//! that way.
//!
//! In a body, and in what follows it when a connection becomes a WebSocket, a value is covered by bytes of the same number,
//! so lengths and ranges stay true. What a server has turned into something else (encrypted, hashed, spelled backwards, cut
//! into pieces) cannot be recognised.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::base64;

/// Bytes of a connection that may be the beginning of a value wait this long for those after them. They come at once
/// if they were sent together; and whoever waits for an answer to just these must not wait for ever.
const WAIT: Duration = Duration::from_millis(200);

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
        for find in spellings.into_iter().chain(numbered(value)).chain(within_base64(value)) {
            if self.needles.iter().all(|known| known.find != find) {
                let cover = placeholder.bytes().chain(std::iter::repeat(b'*')).take(find.len()).collect();
                self.needles.push(Needle { find, placeholder: placeholder.as_bytes().to_vec(), cover });
            }
        }
        // A value that contains another is found first.
        self.needles.sort_by_key(|needle| std::cmp::Reverse(needle.find.len()));
    }

    /// Puts placeholders into headers. Those with a value in their name are removed.
    pub(super) fn headers(&self, headers: &mut HeaderMap) {
        // Names have small letters only, whatever the server wrote.
        let small: Vec<_> = self.needles.iter().map(|needle| needle.find.to_ascii_lowercase()).collect();
        let told =
            |name: &HeaderName| small.iter().any(|value| find(name.as_str().as_bytes(), value).is_some());
        let telling: Vec<_> = headers.keys().filter(|name| told(name)).cloned().collect();
        for name in telling {
            headers.remove(name);
        }
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

/// How a value looks in JSON whose writer gives characters by number: all of them, all but letters and digits, or those that
/// mean something in HTML.
fn numbered(value: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = std::str::from_utf8(value) else { return Vec::new() };
    let number = |char: char, hex: fn(u16) -> String| -> String {
        char.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{}", hex(*unit))).collect()
    };
    let number_some = |which: fn(char) -> bool, hex: fn(u16) -> String| -> Vec<u8> {
        let spell = |char: char| match char {
            _ if which(char) => number(char, hex),
            '"' | '\\' => format!("\\{char}"),
            _ => char.to_string(),
        };
        text.chars().map(spell).collect::<String>().into_bytes()
    };
    let which: [fn(char) -> bool; 3] =
        [|_| true, |char| !char.is_ascii_alphanumeric(), |char| "<>&'".contains(char)];
    let hex: [fn(u16) -> String; 2] = [|unit| format!("{unit:04x}"), |unit| format!("{unit:04X}")];
    which.iter().flat_map(|which| hex.iter().map(|hex| number_some(*which, *hex))).collect()
}

/// How a value looks within base64 of a longer text, such as a user's name and a password: the characters that are of the
/// value alone, for each of the three places where it can begin, in both alphabets. Too few would be found by chance.
fn within_base64(value: &[u8]) -> Vec<Vec<u8>> {
    const FEWEST: usize = 8;
    let mut all = Vec::new();
    for before in 0..3 {
        let text = [&[0; 2][..before], value].concat();
        let encoded = base64::encode(&text);
        let whole = encoded.trim_end_matches('=');
        // A character has six bits, so those at both ends share theirs with what is beside the value.
        let begin = (before * 8).div_ceil(6);
        let end = text.len() * 8 / 6;
        if let Some(core) = whole.get(begin..end).filter(|core| core.len() >= FEWEST) {
            let core = core.as_bytes().to_vec();
            let url_safe = core.iter().map(|byte| match byte {
                b'+' => b'-',
                b'/' => b'_',
                other => *other,
            });
            all.push(url_safe.collect());
            all.push(core);
        }
    }
    all
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

/// Moves a server's bytes to a client until they end, without secrets.
pub(super) async fn copy<R, W>(server: &mut R, client: &mut W, scrubber: &Scrubber) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut held = BytesMut::new();
    loop {
        let read = match held.is_empty() {
            true => server.read_buf(&mut held).await?,
            false => match tokio::time::timeout(WAIT, server.read_buf(&mut held)).await {
                Ok(read) => read?,
                Err(_) => {
                    client.write_all_buf(&mut held).await?;
                    client.flush().await?;
                    continue;
                }
            },
        };
        if read == 0 {
            client.write_all_buf(&mut held).await?;
            return client.shutdown().await;
        }
        scrubber.cover(&mut held);
        let keep = scrubber.open_end(&held);
        let mut ready = held.split_to(held.len() - keep);
        client.write_all_buf(&mut ready).await?;
        client.flush().await?;
    }
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
    fn a_value_is_covered_when_json_gives_its_characters_by_number() {
        for (value, text) in [
            ("c/K", r"\u0063\u002f\u004b"),
            ("c/K", r"\u0063\u002F\u004B"),
            ("c/K", r"c\u002fK"),
            ("c&\"K", r#"c\u0026\"K"#),
            ("cü😀", r"\u0063\u00fc\ud83d\ude00"),
        ] {
            let (half, rest) = text.as_bytes().split_at(5);
            let out = scrubbed(&[value], &[b"{\"a\":\"", half, rest, b"\"}"]);
            let cover = &"slipway-X-0123456789abcdef"[..text.len()];
            assert_eq!(String::from_utf8(out).unwrap(), format!("{{\"a\":\"{cover}\"}}"), "{text}");
        }
    }

    #[test]
    fn a_value_within_base64_is_covered_wherever_it_begins() {
        let value = "canary+value/of?a>secret";
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                let text = base64::encode(format!("{before}{value}{after}").as_bytes());
                let url_safe = text.replace('+', "-").replace('/', "_");
                for text in [text, url_safe] {
                    let out = String::from_utf8(scrubbed(&[value], &[text.as_bytes()])).unwrap();
                    let same = out.bytes().zip(text.bytes()).filter(|(one, other)| one == other).count();
                    assert_eq!(out.len(), text.len());
                    assert!(same < text.len() - value.len(), "{before:?} {after:?}: {text} is now {out}");
                    let back = base64::decode(&out.replace('-', "+").replace('_', "/")).unwrap_or_default();
                    assert_eq!(find(&back, b"value/of"), None, "{out}");
                }
            }
        }
        assert_eq!(scrubbed(&["abc"], &[b"YWJj"]), b"YWJj", "too short to be told from chance");
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
        assert_eq!(rest, "x slipwa y");
        copied.await.unwrap().unwrap();
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

    #[test]
    fn headers_with_a_value_in_their_name_are_removed() {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_bytes(b"X-Ca_Nary-Y").unwrap(), HeaderValue::from_static("1"));
        headers.insert("x-other", HeaderValue::from_static("plain"));
        scrubber(&["Ca_Nary"]).headers(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-other"]);
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
