//! Takes secrets out of what servers answer. A server may say back what it was told; the sandbox must not learn a value
//! that way.
//!
//! In a body, and in what follows it when a connection becomes a WebSocket, a value is covered by bytes of the same number,
//! so lengths and ranges stay true. What a server has turned into something else (encrypted, hashed, spelled
//! backwards, escaped twice, cut into pieces) cannot be recognised.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

pub(super) use super::scrubbed::{Scrubbed, copy};
use super::spelling;
use crate::base64;

/// One thing to be found, and what is put there.
#[derive(Clone)]
struct Needle {
    find: Vec<u8>,
    placeholder: Vec<u8>,
}

/// Bytes that are covered as one: a value, or several that overlap. Places are counted from the beginning of what was
/// searched; it may have begun before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    begin: isize,
    end: usize,
    /// The longest of those that it begins with.
    needle: usize,
}

impl Run {
    /// Its bytes that are among the first so many of what was searched.
    pub(super) fn within(self, length: usize) -> std::ops::Range<usize> {
        usize::try_from(self.begin).unwrap_or(0)..self.end.min(length)
    }

    /// What is left of it once the first so many bytes are gone.
    pub(super) fn after(self, gone: usize) -> Option<Self> {
        (self.end > gone).then(|| Self {
            begin: self.begin - gone.cast_signed(),
            end: self.end - gone,
            needle: self.needle,
        })
    }
}

/// What must not be in an answer.
#[derive(Clone, Default)]
pub(super) struct Scrubber {
    needles: Vec<Needle>,
}

impl Scrubber {
    /// Also looks for this value, in the spellings that servers commonly use when they say something back.
    pub(super) fn add(&mut self, value: &[u8], placeholder: &str) {
        let escaped = |also: &[u8]| -> Vec<u8> {
            let escape =
                |b: &u8| if b"\"\\".contains(b) || also.contains(b) { vec![b'\\', *b] } else { vec![*b] };
            value.iter().flat_map(escape).collect()
        };
        let spellings = [value.to_vec(), escaped(b""), escaped(b"/")];
        let spellings = spellings.into_iter().chain(numbered(value)).chain(spelling::all(value));
        for find in spellings.chain(within_base64(value)) {
            if !find.is_empty() && self.needles.iter().all(|known| known.find != find) {
                self.needles.push(Needle { find, placeholder: placeholder.as_bytes().to_vec() });
            }
        }
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
            let bytes = value.as_bytes();
            let runs = self.runs(bytes, bytes.len(), None);
            if runs.is_empty() {
                continue;
            }
            let mut harmless = Vec::with_capacity(bytes.len());
            let mut from = 0;
            for run in runs {
                let covered = run.within(bytes.len());
                harmless.extend_from_slice(&bytes[from..covered.start]);
                harmless.extend_from_slice(&self.needles[run.needle].placeholder);
                from = covered.end;
            }
            harmless.extend_from_slice(&bytes[from..]);
            // A header that cannot be written any more is better empty than told.
            *value = HeaderValue::from_bytes(&harmless).unwrap_or_else(|_| HeaderValue::from_static(""));
        }
    }

    /// What is to be covered because of values that begin before this place, and of a run that goes on from before. Every
    /// place where a value stands counts, also one that overlaps another: what is left of either would tell of it.
    pub(super) fn runs(&self, bytes: &[u8], before: usize, from_before: Option<Run>) -> Vec<Run> {
        let mut found = Vec::new();
        for (number, needle) in self.needles.iter().enumerate() {
            let mut from = 0;
            while let Some(at) = find(&bytes[from..], &needle.find).map(|at| from + at)
                && at < before
            {
                found.push(Run { begin: at.cast_signed(), end: at + needle.find.len(), needle: number });
                from = at + 1;
            }
        }
        found.sort_unstable_by_key(|run| (run.begin, std::cmp::Reverse(run.end), run.needle));
        let mut runs: Vec<Run> = from_before.into_iter().collect();
        for next in found {
            match runs.last_mut() {
                Some(last) if next.begin < last.end.cast_signed() => last.end = last.end.max(next.end),
                _ => runs.push(next),
            }
        }
        runs
    }

    /// Covers the bytes of these runs.
    pub(super) fn cover(&self, bytes: &mut [u8], runs: &[Run]) {
        for run in runs {
            let placeholder = &self.needles[run.needle].placeholder;
            for at in run.within(bytes.len()) {
                let place = at.saturating_add_signed(-run.begin);
                bytes[at] = placeholder.get(place).copied().unwrap_or(b'*');
            }
        }
    }

    /// How many bytes at the end may be the beginning of a value that is longer.
    pub(super) fn open_end(&self, bytes: &[u8]) -> usize {
        let begun = |needle: &Needle| {
            let most = bytes.len().min(needle.find.len().saturating_sub(1));
            (1..=most).rev().find(|&length| bytes.ends_with(&needle.find[..length])).unwrap_or(0)
        };
        self.needles.iter().map(begun).max().unwrap_or(0)
    }

    /// The length of the shortest value that begins like this.
    pub(super) fn shortest_like(&self, beginning: &[u8]) -> Option<usize> {
        let like = self.needles.iter().filter(|needle| needle.find.starts_with(beginning));
        like.map(|needle| needle.find.len()).min()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubber(values: &[&str]) -> Scrubber {
        let mut scrubber = Scrubber::default();
        values.iter().for_each(|value| scrubber.add(value.as_bytes(), "slipway-X-0123456789abcdef"));
        scrubber
    }

    fn scrubbed(values: &[&str], text: &str) -> String {
        let scrubber = scrubber(values);
        let mut bytes = text.as_bytes().to_vec();
        let runs = scrubber.runs(&bytes, bytes.len(), None);
        scrubber.cover(&mut bytes, &runs);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_value_is_covered_in_each_spelling() {
        assert_eq!(scrubbed(&["canary"], "a canary b"), "a slipwa b");
        let text = scrubbed(&["a/b+c"], "x=a%2Fb%2Bc&y=a%2fb%2bc z=a\\/b+c");
        assert_eq!(text, "x=slipway-X&y=slipway-X z=slipwa");
    }

    #[test]
    fn nothing_is_left_of_values_that_overlap() {
        assert_eq!(scrubbed(&["abcd", "cdef"], "xabcdefx"), "xslipwax");
        assert_eq!(scrubbed(&["abcd", "abcdef", "bc"], "abcdef abcd bc"), "slipwa slip sl");
        assert_eq!(scrubbed(&["aba"], "ababa abaaba"), "slipw slisli");
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
            let cover = &"slipway-X-0123456789abcdef"[..text.len()];
            let out = scrubbed(&[value], &format!("{{\"a\":\"{text}\"}}"));
            assert_eq!(out, format!("{{\"a\":\"{cover}\"}}"), "{text}");
        }
    }

    #[test]
    fn a_value_is_covered_as_html_and_as_numbers() {
        let value = "k&<\"'a/Z-longer";
        let each = |spell: fn(u8) -> String| value.bytes().map(spell).collect::<String>();
        let some = |spell: fn(u8) -> String| -> String {
            let plain = |byte: u8| byte.is_ascii_alphanumeric();
            value.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { spell(b) }).collect()
        };
        let named = |quote: &str, apostrophe: &str| {
            let text = value.replace('&', "&amp;").replace('<', "&lt;");
            text.replace('"', quote).replace('\'', apostrophe)
        };
        for text in [
            named("&quot;", "&#39;"),
            named("&#34;", "&#39;"),
            named("&quot;", "&#x27;"),
            named("&quot;", "&apos;"),
            named("\"", "'"),
            named("&quot;", "'"),
            each(|byte| format!("&#{byte};")),
            each(|byte| format!("&#x{byte:x};")),
            each(|byte| format!("&#x{byte:X};")),
            some(|byte| format!("&#{byte};")),
            some(|byte| format!("&#x{byte:X};")),
            each(|byte| format!("%{byte:02x}")),
            each(|byte| format!("\\x{byte:02x}")),
            each(|byte| format!("{byte:02x}")),
            each(|byte| format!("{byte:02X}")),
        ] {
            let out = scrubbed(&[value], &format!("<p>{text}</p>"));
            let inner = out.strip_prefix("<p>").and_then(|rest| rest.strip_suffix("</p>")).unwrap();
            assert_eq!(inner.len(), text.len());
            let cover = "slipway-X-0123456789abcdef";
            let expected: String = (0..text.len()).map(|at| cover.chars().nth(at).unwrap_or('*')).collect();
            assert_eq!(inner, expected, "{text}");
        }
        assert_eq!(scrubbed(&["ab"], "6162"), "6162", "too short to be told from chance");
    }

    #[test]
    fn a_value_is_covered_as_urls_and_templates_have_it() {
        let value = "CaN-ry/Zq+7&k=Ta'il (x)==";
        for text in [
            "CaN-ry/Zq%2B7%26k%3DTa%27il%20%28x%29%3D%3D",
            "CaN-ry%2FZq%2B7%26k%3DTa%27il+%28x%29%3D%3D",
            "CaN-ry%2fZq%2b7%26k%3dTa'il%20(x)%3d%3d",
            "CaN-ry/Zq+7&k=Ta'il%20(x)==",
            "CaN-ry&#x2F;Zq+7&amp;k&#x3D;Ta&#39;il (x)&#x3D;&#x3D;",
            "CaN-ry/Zq+7&amp;k&#x3D;Ta&#x27;il (x)&#x3D;&#x3D;",
        ] {
            let out = scrubbed(&[value], text);
            assert!(
                out.starts_with("slipway-X") && !out.contains("Zq") && !out.contains("il"),
                "{text}: {out}"
            );
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
                    let out = scrubbed(&[value], &text);
                    let same = out.bytes().zip(text.bytes()).filter(|(one, other)| one == other).count();
                    assert_eq!(out.len(), text.len());
                    assert!(same < text.len() - value.len(), "{before:?} {after:?}: {text} is now {out}");
                    let back = base64::decode(&out.replace('-', "+").replace('_', "/")).unwrap_or_default();
                    assert_eq!(find(&back, b"value/of"), None, "{out}");
                }
            }
        }
        assert_eq!(scrubbed(&["abc"], "YWJj"), "YWJj", "too short to be told from chance");
    }

    #[test]
    fn headers_get_the_placeholder() {
        let mut headers = HeaderMap::new();
        headers.insert("x-echo", HeaderValue::from_static("Bearer canary, canaryTOKEN, naryT"));
        headers.insert("x-other", HeaderValue::from_static("plain"));
        scrubber(&["canary", "canaryTOKEN"]).headers(&mut headers);
        let place = "slipway-X-0123456789abcdef";
        assert_eq!(headers["x-echo"], format!("Bearer {place}, {place}, naryT"));
        assert_eq!(headers["x-other"], "plain");
        headers.insert("x-echo", HeaderValue::from_static("canaryTOKEN"));
        scrubber(&["canaryT", "TOKEN"]).headers(&mut headers);
        assert_eq!(headers["x-echo"], place);
    }

    #[test]
    fn headers_with_a_value_in_their_name_are_removed() {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_bytes(b"X-Ca_Nary-Y").unwrap(), HeaderValue::from_static("1"));
        headers.insert("x-other", HeaderValue::from_static("plain"));
        scrubber(&["Ca_Nary"]).headers(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-other"]);
    }
}
