//! Server-sent events, decoded as the bytes come. The decoder keeps no more than one event and does not care where the
//! network splits the bytes; an event that never ends is refused.

/// The most bytes of one event.
pub(crate) const EVENT_LIMIT: usize = 4 * 1024 * 1024;

/// One event with data. One whose data is blank is a sign of life, and not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event` field; empty when the server names none.
    pub(crate) name: String,
    /// The `data` lines, joined by line feeds.
    pub(crate) data: String,
}

/// An event was larger than [`EVENT_LIMIT`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Turns bytes into events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The line that is not whole yet.
    line: Vec<u8>,
    /// A carriage return ended the last line, so a line feed right after it belongs to it.
    after_return: bool,
    /// The first line has been seen; only it may begin with a byte order mark.
    begun: bool,
    name: String,
    data: String,
    has_data: bool,
}

impl Decoder {
    /// Takes the next bytes and adds the events that they complete.
    pub(crate) fn push(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLarge> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.keep(&bytes[..end])?;
            let returned = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if returned {
                self.after_return = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            self.end_line(events);
        }
        self.keep(bytes)
    }

    /// What the bytes ended in, where they ended before the empty line that completes an event.
    pub(crate) fn rest(&mut self) -> Option<Event> {
        let mut events = Vec::new();
        self.end_line(&mut events);
        self.end_line(&mut events);
        events.pop()
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if self.line.len() + self.data.len() + bytes.len() > EVENT_LIMIT {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            if std::mem::take(&mut self.has_data) && !data.trim().is_empty() {
                events.push(Event { name, data });
            }
            return;
        }
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(&value);
            }
            b"event" => self.name = value.into_owned(),
            // Comments have an empty field; `id` and `retry` are for browsers that reconnect.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            decoder.push(piece, &mut events).unwrap();
        }
        events
    }

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into() }
    }

    #[test]
    fn reads_what_servers_send() {
        let text = "\u{feff}: hello\r\n\r\nevent: ping\r\ndata: {}\r\n\r\ndata: a\ndata:b\ndata\ndata:  c\n\nid: 7\nevent: lost\n\n\
                    data: é\rretry: 1\r\rdata: cut off";
        let expected = vec![event("ping", "{}"), event("", "a\nb\n\n c"), event("", "é")];
        assert_eq!(decode([text.as_bytes()]), expected);
        for split in 0..text.len() {
            let (head, tail) = text.as_bytes().split_at(split);
            assert_eq!(decode([head, tail]), expected, "split at {split}");
        }
        assert_eq!(decode(text.as_bytes().chunks(1)), expected);
    }

    #[test]
    fn an_event_without_a_word_is_a_sign_of_life() {
        let text =
            "data: a\n\ndata: \n\ndata:\n\ndata\n\nevent: ping\ndata: \n\ndata: \ndata:  \n\ndata: b\n\n";
        assert_eq!(decode([text.as_bytes()]), [event("", "a"), event("", "b")]);
        let mut decoder = Decoder::default();
        decoder.push(b"data: a\n\ndata: ", &mut Vec::new()).unwrap();
        assert_eq!(decoder.rest(), None);
    }

    #[test]
    fn what_the_bytes_end_in_can_be_had() {
        let rest = |text: &str| {
            let mut decoder = Decoder::default();
            decoder.push(text.as_bytes(), &mut Vec::new()).unwrap();
            decoder.rest()
        };
        assert_eq!(rest("data: a\n\nevent: end\ndata: {}"), Some(event("end", "{}")));
        assert_eq!(rest("data: a\n\ndata: b\n"), Some(event("", "b")));
        assert_eq!(rest("data: a\n\ndata: b\r"), Some(event("", "b")));
        assert_eq!([rest("data: a\n\n"), rest("data: a\n\n: bye"), rest("")], [None, None, None]);
    }

    #[test]
    fn bytes_that_are_not_text_do_not_stop_it() {
        assert_eq!(decode([&b"data: \xff\xfe\n\n"[..]]), vec![event("", "\u{fffd}\u{fffd}")]);
    }

    #[test]
    fn an_endless_event_is_refused_in_one_line_or_many() {
        let mut decoder = Decoder::default();
        let piece = vec![b'a'; 1024 * 1024];
        let refused = (0..6).any(|_| decoder.push(&piece, &mut Vec::new()) == Err(TooLarge));
        assert!(refused);
        let mut decoder = Decoder::default();
        let line = [b"data: ", piece.as_slice(), b"\n"].concat();
        let refused = (0..6).any(|_| decoder.push(&line, &mut Vec::new()) == Err(TooLarge));
        assert!(refused);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            lines in proptest::collection::vec(
                prop_oneof![
                    Just(String::new()),
                    "data:[ ]?[a-zé\u{feff}:]{0,6}".prop_map(String::from),
                    "event: [a-z]{0,3}".prop_map(String::from),
                    ":[a-z ]{0,4}".prop_map(String::from),
                    "\u{feff}data: x".prop_map(String::from),
                ],
                0..12,
            ),
            ends in proptest::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r")], 12),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let text: String = lines.iter().zip(&ends).map(|(line, end)| format!("{line}{end}")).collect();
            let bytes = text.as_bytes();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let pieces = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(decode(pieces), decode([bytes]));
        }
    }
}
