//! `remember`: a note for sessions that come later, and what the model reads of what became of it.

use protocol::{NOTE_LIMIT, NoteKind, Remembered, SUBJECT_LIMIT, ScopeKind};
use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

/// The subject is required: without one, a newer note that says otherwise is not known to be about the same.
pub(super) const TOOL: Tool = Tool {
    name: "remember",
    about: "Keeps a note for later sessions, which know nothing of this one: a fact that took effort to find, a decision of the user, or an error and what cured it. Not what the repository says itself, not the state of this task, never a secret. A note that says the same becomes one with it; an older one with the same subject is replaced.",
    fields: &[
        Field {
            name: "text",
            kind: Kind::String,
            need: Need::Required,
            about: "One or two sentences that make sense by themselves, with names and commands as they are.",
        },
        Field {
            name: "subject",
            kind: Kind::String,
            need: Need::Required,
            about: "What it answers, in a word or two, such as package manager, or the name of the error.",
        },
        Field {
            name: "kind",
            kind: Kind::String,
            need: Need::Optional,
            about: "fact, decision or error_pattern; fact unless given.",
        },
        Field {
            name: "scope",
            kind: Kind::String,
            need: Need::Optional,
            about: "Whom it is about: repository, environment, or person for what the author of the prompt likes; repository unless given.",
        },
    ],
    aliases: &[
        ("note", "text"),
        ("content", "text"),
        ("fact", "text"),
        ("memory", "text"),
        ("title", "subject"),
        ("topic", "subject"),
        ("key", "subject"),
        ("type", "kind"),
        ("category", "kind"),
    ],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    text: String,
    subject: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    scope: String,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    let text = said("text", args.text)?.trim().to_owned();
    let subject = said("subject", args.subject)?.split_whitespace().collect::<Vec<_>>().join(" ");
    for (name, value, most) in [("text", &text, NOTE_LIMIT), ("subject", &subject, SUBJECT_LIMIT)] {
        if value.len() > most {
            return Err(format!("`{name}` has {} bytes, and {most} is the most", value.len()));
        }
    }
    Ok(Invocation::Remember { text, subject, kind: kind(&args.kind)?, scope: scope(&args.scope)? })
}

fn kind(text: &str) -> Result<NoteKind, String> {
    match text.trim().to_ascii_lowercase().replace([' ', '-'], "_").as_str() {
        "" => Ok(NoteKind::Fact),
        "error" | "errors" | "error_patterns" => Ok(NoteKind::ErrorPattern),
        word => NoteKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| "`kind` is none of fact, decision and error_pattern".to_owned()),
    }
}

fn scope(text: &str) -> Result<ScopeKind, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "repo" => Ok(ScopeKind::Repository),
        "user" => Ok(ScopeKind::Person),
        word => ScopeKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| "`scope` is none of repository, environment and person".to_owned()),
    }
}

/// What the model reads of what became of its note.
pub fn remembered(became: &Remembered) -> String {
    match became {
        Remembered::New { id } => format!("Remembered as {id}."),
        Remembered::Merged { id } => format!("It was known as {id}: the two are one note now."),
        Remembered::Replaced { id, old } => {
            let old: Vec<String> = old.iter().map(ToString::to_string).collect();
            format!("Remembered as {id}. It says otherwise than {}, which it replaces.", old.join(", "))
        }
        Remembered::Refused { by } => format!(
            "Not remembered: it says otherwise than {by}, which a person wrote, and only people change that. Keep to what \
             the person wrote; if it is wrong, say so in your summary."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_any as parse;
    use super::*;
    use protocol::NoteId;
    use serde_json::json;

    fn call(arguments: &Value) -> Result<Invocation, String> {
        parse("remember", &arguments.to_string())
    }

    #[test]
    fn a_note_is_a_fact_of_the_repository_unless_the_call_says_otherwise() {
        let expected = |kind, scope| Invocation::Remember {
            text: "Use pnpm.".into(),
            subject: "package manager".into(),
            kind,
            scope,
        };
        for (arguments, kind, scope) in [
            (
                json!({"text": " Use pnpm. ", "subject": "package\n manager"}),
                NoteKind::Fact,
                ScopeKind::Repository,
            ),
            (
                json!({"note": "Use pnpm.", "topic": "package manager", "kind": "Error pattern", "scope": "user"}),
                NoteKind::ErrorPattern,
                ScopeKind::Person,
            ),
            (
                json!({"text": "Use pnpm.", "subject": "package manager", "type": "decision", "scope": "Environment"}),
                NoteKind::Decision,
                ScopeKind::Environment,
            ),
        ] {
            assert_eq!(call(&arguments).unwrap(), expected(kind, scope), "{arguments}");
        }
    }

    #[test]
    fn what_is_no_note_is_refused_with_what_is_wrong() {
        for (arguments, said) in [
            (json!({"text": "Use pnpm."}), "missing field `subject`"),
            (json!({"text": " ", "subject": "x"}), "`text` is empty"),
            (json!({"text": "x".repeat(2001), "subject": "x"}), "2001 bytes, and 2000 is the most"),
            (json!({"text": "x", "subject": "y".repeat(121)}), "`subject` has 121 bytes"),
            (json!({"text": "x", "subject": "y", "kind": "rumour"}), "fact, decision and error_pattern"),
            (json!({"text": "x", "subject": "y", "scope": "team"}), "repository, environment and person"),
        ] {
            let refused = call(&arguments).unwrap_err();
            assert!(refused.contains(said), "{arguments}: {refused}");
        }
    }

    #[test]
    fn the_model_is_told_what_became_of_it() {
        let (id, old) = (NoteId::from_u128(1), vec![NoteId::from_u128(2)]);
        assert!(remembered(&Remembered::New { id }).starts_with("Remembered as mem_"));
        assert!(remembered(&Remembered::Merged { id }).contains("one note"));
        assert!(remembered(&Remembered::Replaced { id, old }).contains("which it replaces"));
        assert!(remembered(&Remembered::Refused { by: id }).starts_with("Not remembered"));
    }
}
