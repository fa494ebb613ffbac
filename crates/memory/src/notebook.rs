//! The memory: what is written into it, and what comes of it.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use protocol::{
    Actor, ActorKind, EditNote, NOTE_LIMIT, Note, NoteId, NoteKind, NoteScope, NoteSource, Remembered,
    SUBJECT_LIMIT, Timestamp,
};
use store::{Mark, NoteKeys, Notes};

use crate::Error;
use crate::credentials::credential_in;
use crate::embedder::Embedder;
use crate::likeness::{Likeness, Told, compare};
use crate::recall::{Query, Recalled, recall};
use crate::words::index;

/// How many notes are embedded in one call of a model.
const BATCH: usize = 64;

/// Something to be remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// What it is about.
    pub scope: NoteScope,
    /// What sort of thing it is.
    pub kind: NoteKind,
    /// What it answers, in a word or two.
    pub subject: Option<String>,
    /// The note.
    pub text: String,
    /// Where it comes from.
    pub source: NoteSource,
    /// The time.
    pub at: Timestamp,
    /// What it is done for: whoever asks again under this name is given the answer, and nothing is done.
    pub once: Option<String>,
}

/// All notes, in one file.
pub struct Memory {
    notes: Notes,
    embedder: Box<dyn Embedder>,
    /// Who reads notes to decide what to write has this.
    writing: Mutex<()>,
}

impl Memory {
    /// Opens the file, and makes it when there is none. Vectors that another model made are not used: they are made again by
    /// [`Memory::embed_missing`].
    pub fn open(path: &Path, embedder: Box<dyn Embedder>) -> Result<Self, Error> {
        Ok(Self { notes: Notes::open(path)?, embedder, writing: Mutex::new(()) })
    }

    /// Remembers something: as a new note, as one that was known, or in the place of what it contradicts.
    ///
    /// It contradicts a note of its scope with the same subject, unless both say the same; and, of facts and decisions, a
    /// note with the same words but for a value, a "not", or one of two things of which only one can be. Two notes with two
    /// subjects do not contradict each other, and only people contradict people.
    pub fn remember(&self, draft: Draft) -> Result<Remembered, Error> {
        let draft = checked(draft)?;
        // Before anybody waits: a model may be far away.
        let vector = self.vector(&draft.text);
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = self.answered(draft.once.as_deref())? {
            return Ok(answer);
        }
        let mut contrary = Vec::new();
        for note in self.notes.list(Some(std::slice::from_ref(&draft.scope)))? {
            match relation(&note, &draft) {
                _ if note.replaced_by.is_some() => {}
                Likeness::Same => return self.merge(note, draft, vector),
                Likeness::Contrary => contrary.push(note),
                Likeness::Other => {}
            }
        }
        if draft.source.author.kind != ActorKind::User
            && let Some(note) = contrary.iter().find(|note| note.source.author.kind == ActorKind::User)
        {
            let refused = Remembered::Refused { by: note.id };
            self.write(&[], draft.once.as_deref().map(|once| (once, &refused)), draft.at)?;
            return Ok(refused);
        }
        let id = NoteId::new();
        let old: Vec<NoteId> = contrary.iter().map(|note| note.id).collect();
        contrary.iter_mut().for_each(|note| note.replaced_by = Some(id));
        let note = Note {
            id,
            scope: draft.scope,
            kind: draft.kind,
            subject: draft.subject,
            text: draft.text,
            source: draft.source,
            made_at: draft.at,
            changed_at: draft.at,
            uses: 0,
            useful: 0,
            used_at: None,
            replaced_by: None,
        };
        let answer = if old.is_empty() { Remembered::New { id } } else { Remembered::Replaced { id, old } };
        let keys = self.keys_with(&note, vector);
        let old = contrary.iter().map(|old| (old, None));
        let notes: Vec<_> = old.chain([(&note, Some(&keys))]).collect();
        self.write(&notes, draft.once.as_deref().map(|once| (once, &answer)), draft.at)?;
        Ok(answer)
    }

    /// What came of it when the same was asked for before.
    fn answered(&self, once: Option<&str>) -> Result<Option<Remembered>, Error> {
        let Some(once) = once else { return Ok(None) };
        // What cannot be read is of a later version, which asked for something else.
        Ok(self.notes.done(once)?.and_then(|answer| serde_json::from_str(&answer).ok()))
    }

    /// Writes notes, and what was asked for with the answer.
    fn write(
        &self,
        notes: &[(&Note, Option<&NoteKeys>)],
        done: Option<(&str, &Remembered)>,
        at: Timestamp,
    ) -> Result<(), Error> {
        let answer = done.and_then(|(_, answer)| serde_json::to_string(answer).ok()).unwrap_or_default();
        let mark = done.map(|(key, _)| Mark { key, answer: &answer, at: at.as_second() });
        Ok(self.notes.write_all(notes.iter().copied(), mark.as_slice())?)
    }

    /// Told again: the newer wording counts, except that an agent does not change a person's.
    fn merge(&self, mut note: Note, draft: Draft, vector: Vec<f32>) -> Result<Remembered, Error> {
        let answer = Remembered::Merged { id: note.id };
        let done = draft.once.as_deref().map(|once| (once, &answer));
        note.changed_at = note.changed_at.max(draft.at);
        let agent_on_person =
            note.source.author.kind == ActorKind::User && draft.source.author.kind != ActorKind::User;
        if agent_on_person || note.text == draft.text {
            self.write(&[(&note, None)], done, draft.at)?;
            return Ok(answer);
        }
        note.subject = draft.subject.or(note.subject);
        note.text = draft.text;
        note.source = draft.source;
        let keys = self.keys_with(&note, vector);
        self.write(&[(&note, Some(&keys))], done, draft.at)?;
        Ok(answer)
    }

    /// Finds what fits, the best first.
    pub fn recall(&self, query: &Query<'_>) -> Result<Recalled, Error> {
        recall(&self.notes, self.embedder.as_ref(), query)
    }

    /// All notes of these scopes, or of all, the newest first; also those that were replaced.
    pub fn list(&self, scopes: Option<&[NoteScope]>) -> Result<Vec<Note>, Error> {
        let mut notes = self.notes.list(scopes)?;
        notes.sort_by_key(|note| std::cmp::Reverse((note.changed_at, note.id)));
        Ok(notes)
    }

    /// One note.
    pub fn show(&self, id: NoteId) -> Result<Note, Error> {
        self.notes.get(id)?.ok_or(Error::NoNote(id))
    }

    /// Changes a note. It is the editor's from then on.
    pub fn edit(&self, id: NoteId, edit: EditNote, editor: Actor, at: Timestamp) -> Result<Note, Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut note = self.show(id)?;
        if let Some(newer) = note.replaced_by.take()
            && self.notes.get(newer)?.is_some()
        {
            return Err(Error::Replaced(id, newer));
        }
        if let Some(text) = edit.text {
            note.text = checked_text(&text)?;
        }
        if let Some(subject) = edit.subject {
            note.subject = checked_subject(Some(subject))?;
        }
        note.kind = edit.kind.unwrap_or(note.kind);
        note.source.author = editor;
        note.changed_at = at;
        self.notes.put(&note, Some(&self.keys(&note)))?;
        Ok(note)
    }

    /// Removes a note. What it had replaced counts again, or is replaced by what replaced the note itself.
    pub fn remove(&self, id: NoteId) -> Result<(), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = self.show(id)?;
        let mut older = self.notes.list(Some(std::slice::from_ref(&removed.scope)))?;
        older.retain(|note| note.replaced_by == Some(id));
        older.iter_mut().for_each(|note| note.replaced_by = removed.replaced_by);
        let keys: Vec<_> =
            older.iter().map(|note| note.replaced_by.is_none().then(|| self.keys(note))).collect();
        // Before the removal: who dies between the two leaves a note too many, and none that nobody finds.
        self.notes.write_all(older.iter().zip(keys.iter().map(Option::as_ref)), &[])?;
        if self.notes.remove(id)? { Ok(()) } else { Err(Error::NoNote(id)) }
    }

    /// Counts that notes were given to a model, each once for whatever `occasion` names. One that was removed meanwhile
    /// is passed over.
    pub fn used(&self, ids: &[NoteId], occasion: &str, at: Timestamp) -> Result<(), Error> {
        self.count(ids, &format!("{occasion} used"), at, |note| {
            note.uses = note.uses.saturating_add(1);
            note.used_at = Some(at);
        })
    }

    /// Counts that notes were of use, in the same way.
    pub fn useful(&self, ids: &[NoteId], occasion: &str, at: Timestamp) -> Result<(), Error> {
        self.count(ids, &format!("{occasion} useful"), at, |note| {
            note.useful = note.useful.saturating_add(1);
        })
    }

    fn count(
        &self,
        ids: &[NoteId],
        what: &str,
        at: Timestamp,
        change: impl Fn(&mut Note),
    ) -> Result<(), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut notes, mut keys) = (Vec::new(), Vec::new());
        for id in ids {
            let key = format!("{what} {id}");
            if keys.contains(&key) || self.notes.done(&key)?.is_some() {
                continue;
            }
            if let Some(mut note) = self.notes.get(*id)? {
                change(&mut note);
                notes.push(note);
                keys.push(key);
            }
        }
        if notes.is_empty() {
            return Ok(());
        }
        let marks: Vec<Mark<'_>> =
            keys.iter().map(|key| Mark { key, answer: "", at: at.as_second() }).collect();
        Ok(self.notes.write_all(notes.iter().map(|note| (note, None)), &marks)?)
    }

    /// Makes the vectors that are missing because another model was in use, or none could be asked; tells how many.
    pub fn embed_missing(&self) -> Result<usize, Error> {
        let mut made = 0;
        loop {
            let notes = self.notes.without_vector(self.embedder.name(), BATCH)?;
            if notes.is_empty() {
                return Ok(made);
            }
            let texts: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
            let vectors = match self.embedder.embed(&texts) {
                Ok(vectors) => vectors,
                Err(error) => {
                    tracing::warn!(%error, "notes stay without their meaning");
                    return Ok(made);
                }
            };
            let before = made;
            // Only now, since a model may take its time.
            let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            for (note, vector) in notes.iter().zip(vectors).filter(|(_, vector)| !vector.is_empty()) {
                // Somebody may have changed or counted it meanwhile.
                if let Some(now) = self.notes.get(note.id)?.filter(|now| now.text == note.text) {
                    self.notes.put(&now, Some(&self.keys_with(&now, vector)))?;
                    made += 1;
                }
            }
            if notes.len() < BATCH || made == before {
                return Ok(made);
            }
        }
    }

    /// Adds notes of another memory, as they are, unless they are here; tells how many.
    pub fn adopt(&self, notes: Vec<Note>) -> Result<usize, Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut added = 0;
        for note in notes {
            if self.notes.get(note.id)?.is_none() {
                self.notes.add(&note, &self.keys(&note), &[])?;
                added += 1;
            }
        }
        Ok(added)
    }

    /// What a note is found by. Without a model it is found by its words.
    fn keys(&self, note: &Note) -> NoteKeys {
        self.keys_with(note, self.vector(&note.text))
    }

    /// What a text means; empty where no model can be asked, until [`Memory::embed_missing`] makes up for it.
    fn vector(&self, text: &str) -> Vec<f32> {
        match self.embedder.embed(&[text]) {
            Ok(mut vectors) => vectors.pop().unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "a note is kept without its meaning");
                Vec::new()
            }
        }
    }

    fn keys_with(&self, note: &Note, vector: Vec<f32>) -> NoteKeys {
        let subject = note.subject.as_deref().unwrap_or_default();
        let words = index(&format!("{subject} {}", note.text)).join(" ");
        NoteKeys { words, model: self.embedder.name().to_owned(), vector }
    }
}

/// What a note is to something new of its scope.
fn relation(note: &Note, draft: &Draft) -> Likeness {
    let old = Told { kind: note.kind, subject: note.subject.as_deref(), text: &note.text };
    compare(&old, &Told { kind: draft.kind, subject: draft.subject.as_deref(), text: &draft.text })
}

fn checked(draft: Draft) -> Result<Draft, Error> {
    Ok(Draft { text: checked_text(&draft.text)?, subject: checked_subject(draft.subject)?, ..draft })
}

fn checked_text(text: &str) -> Result<String, Error> {
    let text = text.trim();
    if !text.contains(char::is_alphanumeric) {
        return Err(Error::Empty);
    }
    if text.len() > NOTE_LIMIT {
        return Err(Error::TooLong(text.len()));
    }
    if let Some(what) = credential_in(text) {
        return Err(Error::Secret(what));
    }
    Ok(text.to_owned())
}

fn checked_subject(subject: Option<String>) -> Result<Option<String>, Error> {
    let Some(subject) = subject else { return Ok(None) };
    let subject = subject.trim();
    if subject.is_empty() {
        return Ok(None);
    }
    if subject.len() > SUBJECT_LIMIT || subject.contains('\n') || !subject.contains(char::is_alphanumeric) {
        return Err(Error::Subject);
    }
    if let Some(what) = credential_in(subject) {
        return Err(Error::Secret(what));
    }
    Ok(Some(subject.to_owned()))
}
