//! `slipway memory`: what is remembered across sessions, for people to see and to correct.

use protocol::{EditNote, FoundNote, FoundNotes, NewNote, Note, NoteId, NoteKind, NoteScope, Remembered};

use super::Context;
use crate::exit::Exit;
use crate::render::{print, style, table, text};

/// Memory: facts, decisions and errors that sessions of a repository, an environment or a person know of.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Memory {
    /// List the notes, the newest first
    Ls {
        /// Only of this: repository:URL, environment:NAME or person:NAME
        #[arg(long)]
        scope: Option<NoteScope>,
        /// Also those that a newer note replaced
        #[arg(long)]
        all: bool,
    },
    /// Show a note: its text, where it comes from, how often it was used
    Show {
        /// The note
        note: NoteId,
    },
    /// Find the notes that fit a text, the best first
    Search {
        /// A question or a prompt
        text: String,
        /// Only of this: repository:URL, environment:NAME or person:NAME
        #[arg(long)]
        scope: Option<NoteScope>,
    },
    /// Remember something
    ///
    /// It becomes one with a note that says the same, and replaces one that says otherwise: that has the same subject, or
    /// the same words but for a number or a "not".
    Add {
        /// The note, in a sentence or two
        text: String,
        /// What it is about: repository:URL, environment:NAME or person:NAME
        #[arg(long)]
        scope: NoteScope,
        /// What sort of thing it is: fact, decision or error_pattern
        #[arg(long, default_value = "fact", value_parser = kind)]
        kind: NoteKind,
        /// What it answers, in a word or two, such as "package manager"
        #[arg(long)]
        subject: Option<String>,
    },
    /// Change a note; it is yours from then on
    #[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["text", "kind", "subject"])))]
    Edit {
        /// The note
        note: NoteId,
        /// What it says
        #[arg(long)]
        text: Option<String>,
        /// What sort of thing it is: fact, decision or error_pattern
        #[arg(long, value_parser = kind)]
        kind: Option<NoteKind>,
        /// What it answers; an empty text takes the subject away
        #[arg(long)]
        subject: Option<String>,
    },
    /// Remove a note for good
    Rm {
        /// The note
        note: NoteId,
    },
}

impl Memory {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let link = context.look().await?;
        let api = &link.api;
        let done = match self {
            Self::Ls { scope, all } => api.notes(scope.as_ref()).await.map(|list| {
                let notes = list.notes.into_iter().filter(|note| all || note.replaced_by.is_none());
                Answer::Notes(notes.collect())
            }),
            Self::Show { note } => api.note(note).await.map(|note| Answer::Note(Box::new(note))),
            Self::Search { text, scope } => api.search_notes(&text, scope.as_ref()).await.map(Answer::Found),
            Self::Add { text, scope, kind, subject } => {
                api.remember(&NewNote { scope, kind, subject, text }).await.map(Answer::Remembered)
            }
            Self::Edit { note, text, kind, subject } => api
                .edit_note(note, &EditNote { text, kind, subject })
                .await
                .map(|note| Answer::Note(Box::new(note))),
            Self::Rm { note } => api.remove_note(note).await.map(|()| Answer::Removed(note)),
        };
        link.close_now().await?;
        done?.print(context.json)?;
        Ok(Exit::Done)
    }
}

/// What is printed.
enum Answer {
    Notes(Vec<Note>),
    Note(Box<Note>),
    Found(FoundNotes),
    Remembered(Remembered),
    Removed(NoteId),
}

impl Answer {
    fn print(&self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::Notes(notes) if json => print::json(&serde_json::json!({ "notes": notes })),
            Self::Note(note) if json => print::json(note.as_ref()),
            Self::Found(found) if json => print::json(found),
            Self::Remembered(remembered) if json => print::json(remembered),
            Self::Removed(id) if json => print::json(&serde_json::json!({ "removed": id })),
            Self::Notes(notes) if notes.is_empty() => {
                style::note(
                    "nothing is remembered; add something with: slipway memory add --scope SCOPE TEXT",
                );
                Ok(())
            }
            Self::Notes(notes) => {
                let head = ["note", "kind", "scope", "by", "changed", "used", "text"];
                Ok(print::line(&table::format(&head, notes.iter().map(row)))?)
            }
            Self::Note(note) => Ok(print::line(&whole(note))?),
            Self::Found(FoundNotes { found, words_only }) => {
                if let Some(why) = words_only {
                    style::note(&format!("only words were compared: {}", text::harmless(why)));
                }
                if found.is_empty() {
                    style::note("nothing fits");
                }
                found.iter().try_for_each(|found| Ok(print::line(&hit(found))?))
            }
            Self::Remembered(remembered) => {
                style::note(&told(remembered));
                Ok(())
            }
            Self::Removed(id) => {
                style::note(&format!("removed {id}"));
                Ok(())
            }
        }
    }
}

fn kind(text: &str) -> Result<NoteKind, String> {
    let known = NoteKind::ALL.into_iter().find(|kind| kind.as_str() == text);
    known.ok_or_else(|| "it is fact, decision or error_pattern".to_owned())
}

fn row(note: &Note) -> Vec<String> {
    let state = if note.replaced_by.is_some() { " (replaced)" } else { "" };
    vec![
        note.id.to_string(),
        format!("{}{state}", note.kind.as_str()),
        text::harmless(&note.scope.to_string()),
        text::harmless(&note.source.author.id),
        format!("{} ago", text::age(note.changed_at)),
        format!("{}/{}", note.useful, note.uses),
        text::harmless(&text::first_line(&note.text)),
    ]
}

fn whole(note: &Note) -> String {
    let mut lines = vec![
        text::harmless(&note.text),
        String::new(),
        format!("{} of {}", note.kind.as_str(), text::harmless(&note.scope.to_string())),
    ];
    if let Some(subject) = &note.subject {
        lines.push(format!("about {}", text::harmless(subject)));
    }
    let place = match (note.source.session, note.source.seq) {
        (Some(session), Some(seq)) => format!(" in {session}, event {seq}"),
        (Some(session), None) => format!(" in {session}"),
        (None, _) => String::new(),
    };
    lines.push(format!("by {}{place}, {}", text::harmless(&note.source.author.id), note.made_at));
    if note.changed_at != note.made_at {
        lines.push(format!("changed or told again {}", note.changed_at));
    }
    let last = note.used_at.map(|at| format!(", last {at}")).unwrap_or_default();
    lines.push(format!("given to a model {} times, of use {} times{last}", note.uses, note.useful));
    if let Some(newer) = note.replaced_by {
        lines.push(format!("replaced by {newer}"));
    }
    lines.join("\n")
}

fn hit(found: &FoundNote) -> String {
    let FoundNote { note, relevance, why } = found;
    format!("{}  {relevance:.2}  {}\n    {}", note.id, text::harmless(why), text::harmless(&note.text))
}

fn told(remembered: &Remembered) -> String {
    match remembered {
        Remembered::New { id } => format!("remembered as {id}"),
        Remembered::Merged { id } => format!("{id} says that already; it is as new"),
        Remembered::Replaced { id, old } => {
            let old: Vec<String> = old.iter().map(ToString::to_string).collect();
            format!("remembered as {id}, in the place of {}", old.join(", "))
        }
        Remembered::Refused { by } => format!("not taken: {by}, which a person wrote, says otherwise"),
    }
}

#[cfg(test)]
mod tests {
    use protocol::{Actor, NoteSource, Timestamp};

    use super::*;

    #[test]
    fn a_note_is_told_with_its_source() {
        let note = Note {
            id: NoteId::from_u128(1),
            scope: NoteScope::environment("shop"),
            kind: NoteKind::Decision,
            subject: Some("package manager".to_owned()),
            text: "pnpm only\u{1b}[31m".to_owned(),
            source: NoteSource {
                author: Actor::agent("main"),
                session: Some(protocol::SessionId::from_u128(2)),
                seq: Some(7),
                turn: None,
            },
            made_at: Timestamp::UNIX_EPOCH,
            changed_at: Timestamp::UNIX_EPOCH,
            uses: 3,
            useful: 1,
            used_at: None,
            replaced_by: Some(NoteId::from_u128(9)),
        };
        let shown = whole(&note);
        for part in [
            "pnpm only",
            "decision of environment:shop",
            "about package manager",
            "event 7",
            "3 times, of use 1",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains('\u{1b}') && !row(&note).concat().contains('\u{1b}'));
        assert!(row(&note)[1].contains("replaced"));
        assert_eq!(kind("error_pattern"), Ok(NoteKind::ErrorPattern));
        assert!(kind("rumour").is_err());
    }
}
