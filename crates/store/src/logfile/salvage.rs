//! What is left of a log that SQLite refuses, or cannot find its way in. The rows of events are looked for on every page,
//! whatever the file's head, its schema and the upper pages of its tables say, and are put in order by their numbers. The
//! checksum chain tells which of them are genuine: they are given out as far as it holds.
//!
//! The promise: every event comes out that has none of its bytes, nor those of an event before it, on a damaged page.

mod pages;
mod record;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use protocol::SessionId;

use self::pages::{Files, Frames, Identity, PageNumbers};
use self::record::{Cell, ON_OVERFLOW, Page};
use super::{LogFile, READ_BYTES};
use crate::Error;
use crate::chain::Chain;
use crate::database::PAGE_SIZE;
use crate::row::Row;

/// Indexes that a thread keeps: a reader comes back for each piece of a log, and looking through the file for each of
/// them would take too long.
const KEPT: usize = 8;

/// Pages that are looked at before the other sessions of the thread have their turn.
const AT_ONCE: u64 = 2048;

thread_local! {
    /// The ones that were used last, the latest at the end.
    static INDEXES: RefCell<Vec<Rc<RefCell<Index>>>> = const { RefCell::new(Vec::new()) };
}

/// Events that follow each other on one page and fit the chain.
#[derive(Debug)]
struct Span {
    first: u64,
    last: u64,
    page: u32,
    /// The checksum before the first.
    before: u64,
}

/// Where the events are. For each page of events it has one [`Span`], so it is small beside the log. It is made piece by
/// piece: first all pages are looked at, then the chain is followed over those that have events.
struct Index {
    session: SessionId,
    identity: Identity,
    frames: Frames,
    /// All pages, those of the file and those that only the write-ahead log has.
    pages: PageNumbers,
    /// How many of them have been looked at.
    looked_at: u64,
    /// Pages of events on which the chain has not been looked for; once there are all of them, the first at the end.
    leaves: Vec<Leaf>,
    /// Those that may have the next event. More than one only when a page that is no longer in use is among them.
    open: Vec<Leaf>,
    spans: Vec<Span>,
    /// The checksum of the last event that was found.
    link: u64,
    budget: Budget,
    whole: bool,
}

/// A log that is read without SQLite.
pub(super) struct Salvage {
    path: PathBuf,
    files: Files,
    index: Rc<RefCell<Index>>,
}

/// A page that looks like one of events.
struct Leaf {
    first: u64,
    last: u64,
    page: u32,
}

/// How many overflow pages may still be read. Each belongs to one event, so a sound log needs no more than it has; damaged
/// numbers could lead round in circles.
struct Budget(u64);

impl Salvage {
    pub(super) fn open(path: &Path, session: SessionId) -> Result<Self, Error> {
        let io = |error: io::Error| Error::io(path, &error);
        let files = Files::open(path).map_err(io)?;
        let kept = INDEXES.with_borrow_mut(|indexes| {
            let place = indexes.iter().position(|index| index.borrow().session == session)?;
            Some(indexes.remove(place)).filter(|index| index.borrow().identity == files.identity)
        });
        let index = match kept {
            Some(index) => index,
            None => Rc::new(RefCell::new(Index::new(&files, session).map_err(io)?)),
        };
        INDEXES.with_borrow_mut(|indexes| {
            indexes.drain(..(indexes.len() + 1).saturating_sub(KEPT));
            indexes.push(index.clone());
        });
        Ok(Self { path: path.to_owned(), files, index })
    }

    /// Looks at some more of the file; false when there is more of it to look at.
    pub(super) fn look(&self) -> Result<bool, Error> {
        let mut index = self.index.borrow_mut();
        if !index.whole {
            index.look(&self.files).map_err(|error| Error::io(&self.path, &error))?;
            if index.whole {
                let (session, events) = (index.session, index.last());
                tracing::warn!(%session, events, path = %self.path.display(), "a log is read without SQLite");
            }
        }
        Ok(index.whole)
    }

    /// The last event that can be read.
    pub(super) fn last(&self) -> u64 {
        self.index.borrow().last()
    }

    /// Hands out events after `after` with their checksums, at most `limit` and not too many bytes at once; gives the last
    /// one's number.
    pub(super) fn rows(
        &self,
        after: u64,
        limit: u64,
        mut each: impl FnMut(Row, u64) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let index = self.index.borrow();
        let end = index.last().min(after.saturating_add(limit));
        let mut last = after;
        let mut bytes = 0;
        let first_span = index.spans.partition_point(|span| span.last <= after);
        for span in &index.spans[first_span..] {
            if last >= end || bytes >= READ_BYTES {
                break;
            }
            let mut result = Ok(());
            // The row before the first that is wanted has been checked, and says how the chain goes on.
            let from = span.first.max(after);
            let mut link = (from == span.first).then_some(span.before);
            let mut budget = Budget::of(&index.pages);
            let walked = index.walk(&self.files, span.page, from, &mut budget, |row, hash| {
                let previous = link.replace(hash);
                if row.seq <= after {
                    return true;
                }
                let fits = row.seq == last + 1 && previous.is_some_and(|previous| row.hash(previous) == hash);
                if !fits || last >= end || bytes >= READ_BYTES {
                    return false;
                }
                last = row.seq;
                bytes += row.data.len();
                result = each(row, hash);
                result.is_ok()
            });
            walked.map_err(|error| Error::io(&self.path, &error))?;
            result?;
            if last < span.last.min(end) && bytes < READ_BYTES {
                return Err(Error::damaged(&self.path, format!("event {} has changed", last + 1)));
            }
        }
        Ok(last)
    }
}

impl Index {
    fn new(files: &Files, session: SessionId) -> io::Result<Self> {
        let frames = files.frames()?;
        let pages = files.numbers(&frames);
        Ok(Self {
            session,
            identity: files.identity.clone(),
            frames,
            budget: Budget::of(&pages),
            pages,
            looked_at: 0,
            leaves: Vec::new(),
            open: Vec::new(),
            spans: Vec::new(),
            link: Chain::genesis(&session.to_string()),
            whole: false,
        })
    }

    fn last(&self) -> u64 {
        self.spans.last().map_or(0, |span| span.last)
    }

    /// Makes some more of the index. Each page is looked at once, and its events are read once, so that in all this takes as
    /// long as the files are long.
    fn look(&mut self, files: &Files) -> io::Result<()> {
        let mut read = 0;
        while read < AT_ONCE && !self.whole {
            let before = self.budget.0;
            match self.pages.get(self.looked_at) {
                Some(number) => self.find(files, number)?,
                None => self.follow(files)?,
            }
            read += 1 + before - self.budget.0;
        }
        Ok(())
    }

    /// Notes a page when it has events.
    fn find(&mut self, files: &Files, number: u32) -> io::Result<()> {
        let mut page = [0; PAGE_SIZE];
        files.read(&self.frames, number, &mut page)?;
        let range = Cell::all(&page).fold(None, |range, Cell { seq, .. }| {
            let (first, last) = range.unwrap_or((seq, seq));
            Some((seq.min(first), seq.max(last)))
        });
        self.leaves.extend(range.map(|(first, last)| Leaf { first, last, page: number }));
        self.looked_at += 1;
        if self.looked_at == self.pages.count() {
            self.leaves.sort_unstable_by_key(|leaf| std::cmp::Reverse((leaf.first, leaf.page)));
        }
        Ok(())
    }

    /// Follows the chain over one page.
    fn follow(&mut self, files: &Files) -> io::Result<()> {
        let next = self.last() + 1;
        while let Some(leaf) = self.leaves.pop_if(|leaf| leaf.first <= next) {
            self.open.push(leaf);
        }
        let Some(leaf) = self.open.pop() else {
            self.leaves = Vec::new();
            self.whole = true;
            return Ok(());
        };
        if leaf.last < next {
            return Ok(());
        }
        let mut span = Span { first: next, last: next - 1, page: leaf.page, before: self.link };
        let mut link = self.link;
        let mut budget = Budget(self.budget.0);
        let walked = self.walk(files, leaf.page, next, &mut budget, |row, hash| {
            let fits = row.seq == span.last + 1 && row.hash(link) == hash;
            if fits {
                (span.last, link) = (row.seq, hash);
            }
            fits
        });
        if walked.is_err() {
            self.open.push(leaf);
            return walked;
        }
        (self.link, self.budget) = (link, budget);
        if span.last >= span.first {
            self.spans.push(span);
        }
        Ok(())
    }

    /// Hands out the events of a page from number `from` on, in order, until one cannot be read or `each` says no.
    fn walk(
        &self,
        files: &Files,
        page: u32,
        from: u64,
        budget: &mut Budget,
        mut each: impl FnMut(Row, u64) -> bool,
    ) -> io::Result<()> {
        let mut leaf = [0; PAGE_SIZE];
        files.read(&self.frames, page, &mut leaf)?;
        let mut cells: Vec<_> = Cell::all(&leaf).filter(|cell| cell.seq >= from).collect();
        cells.sort_by_key(|cell| cell.seq);
        cells.dedup_by_key(|cell| cell.seq);
        for cell in cells {
            let Some(record) = self.record(files, &leaf, &cell, budget)? else { break };
            let Some((row, hash)) = record::decode(cell.seq, &record) else { break };
            if !each(row, hash) {
                break;
            }
        }
        Ok(())
    }

    /// The bytes of an event, those on overflow pages too; None when they do not lead to their end.
    fn record(
        &self,
        files: &Files,
        leaf: &Page,
        cell: &Cell,
        budget: &mut Budget,
    ) -> io::Result<Option<Vec<u8>>> {
        let (local, mut next) = cell.local(leaf);
        let mut record = local.to_vec();
        let mut page = [0; PAGE_SIZE];
        if (cell.length - local.len()).div_ceil(ON_OVERFLOW) as u64 > self.pages.count() {
            return Ok(None);
        }
        while record.len() < cell.length {
            let number = next.filter(|number| self.pages.contains(*number));
            let Some(number) = number.filter(|_| budget.spend()) else { return Ok(None) };
            files.read(&self.frames, number, &mut page)?;
            let wanted = (cell.length - record.len()).min(ON_OVERFLOW);
            record.extend_from_slice(&page[4..4 + wanted]);
            next = record::number(&page);
        }
        Ok(Some(record))
    }
}

impl Budget {
    /// Twice what a sound file can need.
    fn of(pages: &PageNumbers) -> Self {
        Self(2 * pages.count())
    }

    fn spend(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

impl LogFile {
    /// Goes on with a read that met `damage` after event `last`: what SQLite does not find may be there all the same. From
    /// now on nothing is written.
    pub(super) fn beyond(
        &self,
        damage: Error,
        last: u64,
        limit: u64,
        each: impl FnMut(Row, u64) -> Result<(), Error>,
    ) -> Result<(bool, Option<Error>), Error> {
        let damage = self.broken.get_or_init(|| damage).clone();
        // A second descriptor of the file gives up SQLite's locks on it, which no longer matter: nothing is written, and
        // the lock of the data directory keeps other servers out.
        let salvage = Salvage::open(self.database.path(), self.session)?;
        if !salvage.look()? {
            return Ok((true, None));
        }
        let end = salvage.last();
        if salvage.rows(last, limit, each)? < end {
            return Ok((true, None));
        }
        let damage = match damage {
            Error::Damaged { path, detail } if end > last => {
                Error::Damaged { path, detail: format!("{detail}; what is left of it ends with event {end}") }
            }
            other => other,
        };
        Ok((true, Some(damage)))
    }
}

#[cfg(test)]
mod tests;
