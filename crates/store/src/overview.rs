//! What spans all sessions: lists, what came of them, and who asked.

use protocol::{SessionFilter, SessionId, Timestamp};

use crate::catalogue::{Outline, Page, listing, statistics};
use crate::{Error, Store};

impl Store {
    /// A page of the index: the sessions that fit, the last changed first, and how many there are of each part.
    pub async fn listed(&self, filter: &SessionFilter, limit: usize) -> Result<Page, Error> {
        let filter = filter.clone();
        self.inner.catalogue.call(move |db| listing::page(db, &filter, limit)).await
    }

    /// Whether this is where a page can begin.
    pub fn is_cursor(text: &str) -> bool {
        listing::is_cursor(text)
    }

    /// Sessions whose rows an older version wrote, which lists cannot filter.
    pub async fn unlisted(&self) -> Result<Vec<SessionId>, Error> {
        self.inner.catalogue.call(listing::missing).await
    }

    /// Sessions of which something happened between two moments, the second not included.
    pub async fn outlines(&self, from: Timestamp, to: Timestamp) -> Result<Vec<Outline>, Error> {
        let (from, to) = (from.as_microsecond(), to.as_microsecond());
        self.inner.catalogue.call(move |db| statistics::outlines(db, from, to)).await
    }

    /// Who asked for something since a moment, by name.
    pub async fn prompting(&self, since: Timestamp) -> Result<Vec<String>, Error> {
        self.inner.catalogue.call(move |db| statistics::prompting(db, since.as_microsecond())).await
    }
}
