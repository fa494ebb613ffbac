//! `remember`: writes a note into the memory. It has the item's id, so that a server that comes after one that died does it
//! again and nothing is done twice; what became of it is in the log with the call's end.

use memory::Draft;
use protocol::{EventBody, ItemId, NoteKind, NoteScope, NoteSource, Remembered, ScopeKind, Timestamp};

use super::Done;
use crate::failure::Failure;
use crate::notes::secret_told;
use crate::runner::Runner;

/// What is to be remembered.
pub(super) struct Wanted {
    pub(super) about: ScopeKind,
    pub(super) kind: NoteKind,
    pub(super) subject: String,
    pub(super) text: String,
}

pub(super) async fn run(runner: &Runner, item: ItemId, wanted: Wanted) -> Result<Done, Failure> {
    let Wanted { about, kind, subject, text } = wanted;
    let Some(scopes) = runner.scopes() else { return Ok(Done::error(super::recall::NO_MEMORY)) };
    let Some(scope) = scopes.into_iter().find(|scope| scope.kind == about) else {
        return Ok(Done::error(format!(
            "Not remembered: it is not known which {} this turn is of.",
            about.as_str()
        )));
    };
    let options = std::sync::Arc::clone(&runner.context.options);
    let (recipes, words) = (runner.context.workspace.secrets().to_vec(), format!("{subject}\n{text}"));
    let told = tokio::task::spawn_blocking(move || crate::secrets::told_in(&options, &recipes, &words)).await;
    if let Some(name) = told.ok().flatten() {
        return Ok(Done::error(format!("Not remembered: {}.", secret_told(&name))));
    }
    let seq = runner.context.recorder.stream().with_state(|state| state.seq());
    let source = NoteSource {
        author: runner.agent.clone(),
        session: Some(runner.context.recorder.session()),
        seq: Some(seq),
        turn: Some(runner.turn),
    };
    let event = changed(&scope, kind, &subject, &text);
    let (subject, once, at) = (Some(subject), Some(item.to_string()), Timestamp::now());
    let draft = Draft { scope, kind, subject, text, source, at, once };
    let became = match runner.context.shelf.with(move |memory| memory.remember(draft)).await {
        Ok(became) => became,
        Err(problem) => return runner.without_memory(problem).await,
    };
    let said = agent::tools::remembered(&became);
    Ok(match became {
        Remembered::Refused { .. } => Done::error(said),
        became => {
            let changed = EventBody::MemoryChanged { text: event, remembered: Some(became) };
            Done { also: Some(Box::new(changed)), ..Done::ok(said) }
        }
    })
}

/// What people read of it.
fn changed(scope: &NoteScope, kind: NoteKind, subject: &str, text: &str) -> String {
    format!("{} of {scope} ({subject}): {text}", kind.as_str().replace('_', " "))
}
