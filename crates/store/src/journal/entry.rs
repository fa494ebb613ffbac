//! What the journal says: rows of a log, or that an earlier log of a session does not count any more.

use protocol::SessionId;

use crate::row::Row;

const ROWS: u8 = 1;
const FORGET: u8 = 2;

/// Entries that go into the journal together.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    bytes: Vec<u8>,
    sessions: Vec<SessionId>,
}

/// A row that is about to be written, with its checksum.
pub(crate) struct NewRow<'a> {
    pub(crate) seq: u64,
    pub(crate) at: i64,
    pub(crate) hash: u64,
    /// The actor's kind and id, the type and the data.
    pub(crate) texts: [&'a str; 4],
}

impl Entries {
    /// More bytes than the beginning of an entry takes.
    pub(crate) const BEGIN: usize = 64;

    pub(crate) fn forget(session: SessionId) -> Self {
        let mut entries = Self::default();
        entries.begin(FORGET, session);
        entries
    }

    /// Begins the entry of a session; rows follow.
    pub(crate) fn rows_of(&mut self, session: SessionId, rows: usize) {
        self.begin(ROWS, session);
        self.number(rows as u64);
    }

    pub(crate) fn row(&mut self, row: &NewRow<'_>) {
        self.number(row.seq);
        self.number(row.at.cast_unsigned());
        self.number(row.hash);
        row.texts.iter().for_each(|text| self.text(text));
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn sessions(&self) -> &[SessionId] {
        &self.sessions
    }

    /// Takes everything back.
    pub(crate) fn clear(&mut self) {
        const ROOM: usize = 1 << 20;
        self.bytes.clear();
        self.bytes.shrink_to(ROOM);
        self.sessions.clear();
    }

    fn begin(&mut self, kind: u8, session: SessionId) {
        self.bytes.push(kind);
        self.text(&session.to_string());
        self.sessions.push(session);
    }

    fn number(&mut self, number: u64) {
        self.bytes.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }
}

/// One entry, read.
pub(crate) enum Entry {
    /// What was appended to a session's log.
    Rows {
        /// Whose.
        session: SessionId,
        /// In order, each with its checksum.
        rows: Vec<(Row, u64)>,
    },
    /// What was said of a session before does not count.
    Forget {
        /// Whose.
        session: SessionId,
    },
}

impl Entry {
    /// The entries in some bytes, up to what makes no sense.
    pub(crate) fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        let mut reader = Reader(bytes);
        std::iter::from_fn(move || reader.entry())
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn entry(&mut self) -> Option<Entry> {
        let (kind, rest) = self.0.split_first()?;
        self.0 = rest;
        let session = self.text()?.parse().ok()?;
        match *kind {
            FORGET => Some(Entry::Forget { session }),
            ROWS => {
                let count = self.number()?;
                let rows = (0..count).map(|_| self.row()).collect::<Option<_>>()?;
                Some(Entry::Rows { session, rows })
            }
            _ => None,
        }
    }

    fn row(&mut self) -> Option<(Row, u64)> {
        let (seq, at, hash) = (self.number()?, self.number()?.cast_signed(), self.number()?);
        let (actor_kind, actor, name, data) = (self.text()?, self.text()?, self.text()?, self.text()?);
        Some((Row { seq, at, actor_kind, actor, name, data }, hash))
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}
