//! Memory: what is known across sessions about a repository, an environment or a person, in notes that people can see,
//! change and remove.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Actor, NoteId, SessionId, Timestamp, TurnId};

/// What a note may have at most, in bytes. A note is a sentence or two: what is longer belongs into the repository.
pub const NOTE_LIMIT: usize = 2000;

/// What a note's subject may have at most, in bytes.
pub const SUBJECT_LIMIT: usize = 120;

/// What sort of thing is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum NoteKind {
    /// How something is.
    Fact,
    /// What was decided, and so is to be kept to.
    Decision,
    /// An error that came before, and what helped.
    ErrorPattern,
}

impl NoteKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fact, Self::Decision, Self::ErrorPattern];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Decision => "decision",
            Self::ErrorPattern => "error_pattern",
        }
    }
}

/// What a note is about: sessions see the notes of their repository, their environment and the person who asks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoteScope {
    /// A repository, an environment or a person.
    pub kind: ScopeKind,
    /// The repository's URL, the environment's name or the person's name.
    pub name: String,
}

/// What a scope names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ScopeKind {
    /// A repository, by its URL.
    Repository,
    /// An environment, by its name.
    Environment,
    /// A person, by their name.
    Person,
}

impl ScopeKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Repository, Self::Environment, Self::Person];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Environment => "environment",
            Self::Person => "person",
        }
    }
}

impl NoteScope {
    /// A repository's.
    pub fn repository(url: impl Into<String>) -> Self {
        Self { kind: ScopeKind::Repository, name: url.into() }
    }

    /// An environment's.
    pub fn environment(name: impl Into<String>) -> Self {
        Self { kind: ScopeKind::Environment, name: name.into() }
    }

    /// A person's.
    pub fn person(name: impl Into<String>) -> Self {
        Self { kind: ScopeKind::Person, name: name.into() }
    }
}

impl fmt::Display for NoteScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.as_str(), self.name)
    }
}

/// Why a text names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a scope: write repository:URL, environment:NAME or person:NAME")]
pub struct ParseScopeError(String);

impl FromStr for NoteScope {
    type Err = ParseScopeError;

    fn from_str(text: &str) -> Result<Self, ParseScopeError> {
        let error = || ParseScopeError(text.chars().take(64).collect());
        let (kind, name) = text.split_once(':').ok_or_else(error)?;
        let kind = ScopeKind::ALL.into_iter().find(|known| known.as_str() == kind).ok_or_else(error)?;
        if name.is_empty() { Err(error()) } else { Ok(Self { kind, name: name.to_owned() }) }
    }
}

/// Where a note comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoteSource {
    /// Who wrote it.
    pub author: Actor,
    /// The session that it was written in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub session: Option<SessionId>,
    /// The event of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The turn of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub turn: Option<TurnId>,
}

impl NoteSource {
    /// Somebody, outside of any session.
    pub fn by(author: Actor) -> Self {
        Self { author, session: None, seq: None, turn: None }
    }
}

/// One thing that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Note {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: NoteId,
    /// What it is about.
    pub scope: NoteScope,
    /// What sort of thing it is.
    pub kind: NoteKind,
    /// What it answers, in a word or two, such as "package manager". A newer note of the same scope with the same subject
    /// replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The note.
    pub text: String,
    /// Where it comes from.
    pub source: NoteSource,
    /// When it was first written.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub made_at: Timestamp,
    /// When it was last changed, or told again.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub changed_at: Timestamp,
    /// How often it was given to a model.
    pub uses: u64,
    /// How often that was of use.
    pub useful: u64,
    /// When it was last given to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub used_at: Option<Timestamp>,
    /// The note that says otherwise since. A replaced note is kept to be looked at, and given to nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub replaced_by: Option<NoteId>,
}

/// `POST /memory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewNote {
    /// What it is about.
    pub scope: NoteScope,
    /// What sort of thing it is.
    pub kind: NoteKind,
    /// What it answers, in a word or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The note: 1 to 2000 bytes.
    pub text: String,
}

/// `PATCH /memory/{id}`. What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EditNote {
    /// The note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What sort of thing it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<NoteKind>,
    /// What it answers; an empty text takes the subject away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// What became of a note that was to be remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Remembered {
    /// It is a new one.
    New {
        /// The note.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        id: NoteId,
    },
    /// It was known: the two are one note now.
    Merged {
        /// The note.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        id: NoteId,
    },
    /// It says otherwise than older notes, which it replaces.
    Replaced {
        /// The note.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        id: NoteId,
        /// Those that it replaces.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
        old: Vec<NoteId>,
    },
    /// It says otherwise than a person did, so it was not taken: only people change what people wrote.
    Refused {
        /// What the person wrote.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        by: NoteId,
    },
}

/// A note that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FoundNote {
    /// The note.
    pub note: Note,
    /// How well it fits: the higher, the better.
    pub relevance: f64,
    /// What made it fit, for people.
    pub why: String,
}

/// `GET /memory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoteList {
    /// The newest first.
    pub notes: Vec<Note>,
}

/// `GET /memory/search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FoundNotes {
    /// The best first.
    pub found: Vec<FoundNote>,
    /// Why only words were compared, where the embedding model could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words_only: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_reads_what_it_writes() {
        for text in ["repository:https://forge.example/shop.git", "environment:shop", "person:ana"] {
            assert_eq!(text.parse::<NoteScope>().unwrap().to_string(), text);
        }
        for text in ["", "shop", "person:", "team:harbour"] {
            assert!(text.parse::<NoteScope>().is_err(), "{text}");
        }
    }
}
