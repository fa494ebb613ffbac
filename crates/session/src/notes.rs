//! The memory, as the server has it: one file beside the catalogue, opened when it is first needed. Without it everything
//! else goes on.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use memory::{Bundled, Draft, Memory, Occasion, Query};
use protocol::{
    Actor, Code, EditNote, FoundNote, NewNote, Note, NoteId, NoteScope, NoteSource, Problem, Remembered,
    Timestamp,
};

use crate::{Sessions, problem};

/// The name of the file in the data directory.
const FILE: &str = "memory.db";

/// Where the memory is.
pub(crate) struct Shelf {
    path: PathBuf,
    open: Mutex<Option<Arc<Memory>>>,
}

impl Shelf {
    pub(crate) fn new(store: &store::Store) -> Self {
        Self { path: store.dir().join(FILE), open: Mutex::new(None) }
    }

    /// The memory. What could not be opened is tried again the next time.
    fn memory(&self) -> Result<Arc<Memory>, memory::Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = &*open {
            return Ok(Arc::clone(memory));
        }
        let memory = Arc::new(Memory::open(&self.path, Box::new(Bundled))?);
        let made = memory.embed_missing()?;
        if made > 0 {
            tracing::info!(made, "notes of the memory were embedded anew");
        }
        *open = Some(Arc::clone(&memory));
        Ok(memory)
    }

    /// All notes, for a backup. This blocks, and makes no file.
    pub(crate) fn saved(&self) -> Result<Vec<Note>, Problem> {
        if !self.path.try_exists().map_err(|error| problem::file(&self.path, &error))? {
            return Ok(Vec::new());
        }
        self.memory().and_then(|memory| memory.list(None)).map_err(told)
    }

    /// Adds the notes of a backup that are not here; tells how many. This blocks.
    pub(crate) fn adopt(&self, notes: Vec<Note>) -> Result<usize, Problem> {
        if notes.is_empty() {
            return Ok(0);
        }
        self.memory().and_then(|memory| memory.adopt(notes)).map_err(told)
    }
}

impl Sessions {
    /// Remembers something.
    pub async fn remember(&self, new: NewNote, source: NoteSource) -> Result<Remembered, Problem> {
        let NewNote { scope, kind, subject, text } = new;
        let draft = Draft { scope, kind, subject, text, source, at: Timestamp::now() };
        self.with_memory(move |memory| memory.remember(draft)).await
    }

    /// The notes of a scope, or of all, the newest first; also those that were replaced.
    pub async fn notes(&self, scope: Option<NoteScope>) -> Result<Vec<Note>, Problem> {
        self.with_memory(move |memory| memory.list(scope.as_ref().map(std::slice::from_ref))).await
    }

    /// One note.
    pub async fn note(&self, id: NoteId) -> Result<Note, Problem> {
        self.with_memory(move |memory| memory.show(id)).await
    }

    /// Changes a note.
    pub async fn edit_note(&self, id: NoteId, edit: EditNote, editor: Actor) -> Result<Note, Problem> {
        self.with_memory(move |memory| memory.edit(id, edit, editor, Timestamp::now())).await
    }

    /// Removes a note; one that is not there is an error, unless the same was asked for before.
    pub async fn remove_note(&self, id: NoteId, again: bool) -> Result<(), Problem> {
        let removed = self.with_memory(move |memory| match memory.remove(id) {
            Err(memory::Error::NoNote(_)) if again => Ok(()),
            result => result,
        });
        removed.await
    }

    /// The notes that fit a text, the best first: of these scopes, or of all.
    pub async fn recall(
        &self,
        text: String,
        scopes: Option<Vec<NoteScope>>,
        occasion: Occasion,
        limit: usize,
    ) -> Result<Vec<FoundNote>, Problem> {
        self.with_memory(move |memory| {
            let scopes = match scopes {
                Some(scopes) => scopes,
                None => {
                    let all: BTreeSet<_> = memory.list(None)?.into_iter().map(|note| note.scope).collect();
                    all.into_iter().collect()
                }
            };
            memory.recall(&Query { text: &text, scopes: &scopes, limit, occasion, now: Timestamp::now() })
        })
        .await
    }

    /// Does something with the memory beside everything else.
    async fn with_memory<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Memory) -> Result<T, memory::Error> + Send + 'static,
    ) -> Result<T, Problem> {
        let registry = Arc::clone(&self.registry);
        let done = tokio::task::spawn_blocking(move || work(&*registry.shelf.memory()?)).await;
        match done {
            Ok(result) => result.map_err(told),
            Err(error) => {
                tracing::error!(%error, "work on the memory broke off with a fault");
                Err(Problem::new(Code::Internal, "slipway made a mistake and could not go on")
                    .hint("this is a fault of slipway: report it with the server's log"))
            }
        }
    }
}

/// A memory's error in the words of the API.
fn told(error: memory::Error) -> Problem {
    use memory::Error;

    let text = error.to_string();
    match error {
        Error::NoNote(_) => Problem::new(Code::NotFound, text),
        Error::Empty | Error::TooLong(_) | Error::Subject => Problem::new(Code::BadRequest, text),
        Error::Replaced(..) => Problem::new(Code::Conflict, text),
        Error::Store(store::Error::Damaged { path, .. }) => {
            Problem::new(Code::StorageDamaged, text).hint(format!(
                "stop the server, move {} and the files beside it with that name away, and start it again: it begins with an \
                 empty memory, and sessions are not affected",
                path.display()
            ))
        }
        Error::Store(error) => problem::store(error),
    }
}
