//! The memory, as the server has it: one file beside the catalogue, opened when it is first needed. Without it everything
//! else goes on.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use memory::{Bundled, Draft, Memory, Occasion, Query, Recalled};
use protocol::{
    Actor, Code, EditNote, FoundNotes, NewNote, Note, NoteId, NoteScope, NoteSource, Problem, Remembered,
    Timestamp,
};

use tokio::runtime::Handle;

use crate::embedding::{Embedding, Endpoint};
use crate::{Sessions, problem};

/// The name of the file in the data directory.
const FILE: &str = "memory.db";

/// How often it is looked whether notes have no vector yet, where an endpoint makes them.
const MAKING_UP: Duration = Duration::from_secs(30);

/// How sessions use the memory.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// Whether they do.
    pub enabled: bool,
    /// Where texts are embedded; by the bundled model when absent.
    pub embedding: Option<Embedding>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { enabled: true, embedding: None }
    }
}

/// Where the memory is.
pub(crate) struct Shelf {
    path: PathBuf,
    embedding: Option<Embedding>,
    client: llm::Client,
    open: Mutex<Option<Arc<Memory>>>,
}

impl Shelf {
    pub(crate) fn new(store: &store::Store, options: &MemoryOptions, client: llm::Client) -> Self {
        let embedding = options.embedding.clone();
        Self { path: store.dir().join(FILE), embedding, client, open: Mutex::new(None) }
    }

    /// Whether nothing was ever remembered: then nobody need look, and no file is made for it.
    pub(crate) fn is_empty(&self) -> bool {
        let open = self.open.try_lock().map_or(true, |open| open.is_some());
        !open && self.path.try_exists().is_ok_and(|there| !there)
    }

    /// The memory. What could not be opened is tried again the next time. This blocks.
    fn memory(&self) -> Result<Arc<Memory>, memory::Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = &*open {
            return Ok(Arc::clone(memory));
        }
        let memory = match &self.embedding {
            None => {
                let memory = Arc::new(Memory::open(&self.path, Box::new(Bundled))?);
                let made = memory.embed_missing()?;
                if made > 0 {
                    tracing::info!(made, "notes of the memory were embedded anew");
                }
                memory
            }
            Some(embedding) => {
                let runtime = Handle::current();
                let endpoint = Endpoint::new(embedding.clone(), self.client.clone(), runtime.clone());
                let memory = Arc::new(Memory::open(&self.path, Box::new(endpoint))?);
                drop(runtime.spawn(make_up(Arc::downgrade(&memory))));
                memory
            }
        };
        *open = Some(Arc::clone(&memory));
        Ok(memory)
    }

    /// Does something with the memory beside everything else.
    pub(crate) async fn with<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Memory) -> Result<T, memory::Error> + Send + 'static,
    ) -> Result<T, Problem> {
        let this = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&*this.memory()?)).await;
        match done {
            Ok(result) => result.map_err(told),
            Err(error) => {
                tracing::error!(%error, "work on the memory broke off with a fault");
                Err(Problem::new(Code::Internal, "slipway made a mistake and could not go on")
                    .hint("this is a fault of slipway: report it with the server's log"))
            }
        }
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
        self.refuse_secrets(format!("{text}\n{}", subject.as_deref().unwrap_or_default())).await?;
        let draft = Draft { scope, kind, subject, text, source, at: Timestamp::now(), once: None };
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
        let words = [&edit.text, &edit.subject].map(|text| text.clone().unwrap_or_default());
        self.refuse_secrets(words.join("\n")).await?;
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
    ) -> Result<FoundNotes, Problem> {
        let recalled = self.with_memory(move |memory| {
            let scopes = match scopes {
                Some(scopes) => scopes,
                None => {
                    let all: BTreeSet<_> = memory.list(None)?.into_iter().map(|note| note.scope).collect();
                    all.into_iter().collect()
                }
            };
            let (scopes, now) = (&scopes[..], Timestamp::now());
            memory.recall(&Query { text: &text, scopes, kind: None, limit, occasion, now })
        });
        let Recalled { found, words_only } = recalled.await?;
        Ok(FoundNotes { found, words_only: words_only.map(|error| error.to_string()) })
    }

    /// Refuses a text with the value of a secret in it.
    async fn refuse_secrets(&self, text: String) -> Result<(), Problem> {
        let options = Arc::clone(&self.registry.options);
        let found = tokio::task::spawn_blocking(move || crate::secrets::told_in(&options, &[], &text)).await;
        match found.ok().flatten() {
            Some(name) => Err(Problem::new(Code::BadRequest, secret_told(&name))),
            None => Ok(()),
        }
    }

    /// Does something with the memory beside everything else.
    async fn with_memory<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Memory) -> Result<T, memory::Error> + Send + 'static,
    ) -> Result<T, Problem> {
        self.registry.shelf.with(work).await
    }
}

/// Makes the vectors that are missing, because another model made them or the endpoint was down, as long as there is a memory.
async fn make_up(memory: Weak<Memory>) {
    loop {
        let Some(memory) = memory.upgrade() else { return };
        match tokio::task::spawn_blocking(move || memory.embed_missing()).await {
            Ok(Ok(0)) => {}
            Ok(Ok(made)) => tracing::info!(made, "notes of the memory were embedded anew"),
            Ok(Err(error)) => tracing::warn!(%error, "notes of the memory stay without their meaning"),
            // The program ends.
            Err(_) => return,
        }
        tokio::time::sleep(MAKING_UP).await;
    }
}

/// Why a note is refused that tells a secret.
pub(crate) fn secret_told(name: &str) -> String {
    format!(
        "this has the value of {name} in it, and everybody reads notes: tell the name of a secret, never its value"
    )
}

/// A memory's error in the words of the API.
pub(crate) fn told(error: memory::Error) -> Problem {
    use memory::Error;

    let text = error.to_string();
    match error {
        Error::NoNote(_) => Problem::new(Code::NotFound, text),
        Error::Empty | Error::TooLong(_) | Error::Subject | Error::Secret(_) => Problem::new(Code::BadRequest, text),
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
