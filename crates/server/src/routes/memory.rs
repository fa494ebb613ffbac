//! `/memory`: notes across sessions, for people to see, search, write, change and remove.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{
    EditNote, FoundNotes, NewNote, Note, NoteId, NoteList, NoteScope, NoteSource, Problem, Remembered,
};
use serde::Deserialize;
use session::Occasion;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Params, Segments};
use crate::idempotency::Made;
use crate::problem::{Failure, bad_request};

/// Notes that a search gives, unless it asks for another number.
const FOUND: usize = 10;
/// Most notes that a search gives.
const MOST_FOUND: usize = 100;

/// Which notes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    scope: Option<String>,
}

/// What is looked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    text: String,
    scope: Option<String>,
    limit: Option<usize>,
}

/// Lists the notes, the newest first; also those that were replaced.
#[utoipa::path(
    get, path = "/api/v1/memory", tag = "memory", operation_id = "list_notes",
    params(("scope" = Option<String>, Query, description = "repository:URL, environment:NAME or person:NAME")),
    responses((status = 200, body = NoteList), (status = 400, description = "A scope that is none"))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<NoteList>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Memory)?;
    Ok(Json(NoteList { notes: sessions.notes(scope(which.scope)?).await? }))
}

/// Finds the notes that fit a text, the best first.
#[utoipa::path(
    get, path = "/api/v1/memory/search", tag = "memory", operation_id = "search_notes",
    params(
        ("text" = String, Query, description = "A question or a prompt"),
        ("scope" = Option<String>, Query, description = "repository:URL, environment:NAME or person:NAME"),
        ("limit" = Option<usize>, Query, description = "At most so many, 10 unless given and 100 at most"),
    ),
    responses((status = 200, body = FoundNotes), (status = 400, description = "A scope that is none"))
)]
pub(crate) async fn search(
    State(app): State<App>,
    caller: Caller,
    Params(wanted): Params<Wanted>,
) -> Result<Json<FoundNotes>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Memory)?;
    let scopes = scope(wanted.scope)?.map(|scope| vec![scope]);
    let limit = wanted.limit.unwrap_or(FOUND).min(MOST_FOUND);
    Ok(Json(sessions.recall(wanted.text, scopes, Occasion::Asked, limit).await?))
}

/// Remembers something. It may become one with a note that says the same, or replace one that says otherwise.
#[utoipa::path(
    post, path = "/api/v1/memory", tag = "memory", operation_id = "remember",
    request_body = NewNote,
    responses((status = 200, body = Remembered), (status = 400, description = "A text that is no note"))
)]
pub(crate) async fn remember(
    State(app): State<App>,
    caller: Caller,
    Body(new): Body<NewNote>,
) -> Result<Json<Remembered>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Memory)?;
    let source = NoteSource::by(caller.0.clone());
    Ok(Json(sessions.remember(new, source).await?))
}

/// Shows a note.
#[utoipa::path(
    get, path = "/api/v1/memory/{id}", tag = "memory", operation_id = "show_note",
    params(("id" = String, Path, description = "The note")),
    responses((status = 200, body = Note), (status = 404, description = "No such note"))
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Result<Json<Note>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Memory)?;
    Ok(Json(sessions.note(note_id(&id)?).await?))
}

/// Changes a note. It is the caller's from then on, so no agent changes it.
#[utoipa::path(
    patch, path = "/api/v1/memory/{id}", tag = "memory", operation_id = "edit_note",
    params(("id" = String, Path, description = "The note")),
    request_body = EditNote,
    responses(
        (status = 200, body = Note),
        (status = 404, description = "No such note"),
        (status = 409, description = "It was replaced by another"),
    )
)]
pub(crate) async fn edit(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Body(edit): Body<EditNote>,
) -> Result<Json<Note>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Memory)?;
    Ok(Json(sessions.edit_note(note_id(&id)?, edit, caller.0.clone()).await?))
}

/// Removes a note for good.
#[utoipa::path(
    delete, path = "/api/v1/memory/{id}", tag = "memory", operation_id = "remove_note",
    params(("id" = String, Path, description = "The note")),
    responses((status = 204), (status = 404, description = "No such note"))
)]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    made: Made,
) -> Result<StatusCode, Failure> {
    let sessions = app.allow(&caller, Action::Remove, Resource::Memory)?;
    sessions.remove_note(note_id(&id)?, made.again()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An id that is none names no note.
fn note_id(text: &str) -> Result<NoteId, Problem> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(64).collect();
        Problem::new(protocol::Code::NotFound, format!("no note \"{shown}\""))
            .hint("`slipway memory ls` lists the notes")
    })
}

/// `scope=` says as little as leaving it out.
fn scope(text: Option<String>) -> Result<Option<NoteScope>, Problem> {
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| text.parse())
        .transpose()
        .map_err(|error: protocol::memory::ParseScopeError| bad_request(error.to_string()))
}
