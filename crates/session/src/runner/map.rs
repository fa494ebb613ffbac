//! The map of a large repository, given to the model when a session begins. It comes from the host's copy, so it needs no
//! sandbox; where it is not made yet, the model is not kept waiting and gets it as soon as it is.

use agent::history::History;
use protocol::chat::Message;

use super::Runner;
use crate::failure::Failure;
use crate::maps::{Coming, MAP_OPENING, Maps};
use crate::state::TurnState;

/// Most bytes of a map, and how much of what a model reads it may be at most: one part in so many.
const MOST: u64 = 8 * 1024;
const SHARE: u64 = 32;
/// Bytes of a token, roughly.
const TOKEN: u64 = 4;

impl Runner {
    /// Begins to make the map where this session has none yet. Gives what the model reads where it is there already.
    pub(super) async fn orient(&mut self, turn: &TurnState, history: &History) -> Result<bool, Failure> {
        let first = history.earlier().is_empty() && turn.steps() == 0;
        if !first || self.in_rounds || is_oriented(history.messages()) {
            return Ok(false);
        }
        self.map_wanted = true;
        self.begin_map();
        self.give_map(Haste::Moment).await
    }

    /// Begins it, once there is a copy of the repository.
    fn begin_map(&mut self) {
        let Some(maps) = self.context.options.maps.clone() else {
            self.map_wanted = false;
            return;
        };
        let Some(mirrors) = self.context.workspace.copied() else { return };
        self.map_wanted = false;
        if mirrors.parts().all(|(_, mirror)| Maps::is_small(mirror)) {
            return;
        }
        let room = (self.window.request() * TOKEN / SHARE).min(MOST);
        let room = usize::try_from(room).unwrap_or_default();
        self.map_soon = mirrors.parts().all(|(_, mirror)| Maps::has(mirror));
        self.map = Some(Coming::begin(maps, mirrors, self.task.clone(), room));
    }

    /// Tells the model, where the map is ready; whether it was told.
    pub(super) async fn give_map(&mut self, haste: Haste) -> Result<bool, Failure> {
        if self.map_wanted && self.map.is_none() && self.arrival.is_none() {
            self.begin_map();
        }
        let soon = haste == Haste::Moment && self.map_soon;
        let Some(coming) = &mut self.map else { return Ok(false) };
        let Some(text) = coming.ready(soon).await else { return Ok(false) };
        self.map = None;
        match text {
            Some(text) => self.notice(text).await.map(|()| true).map_err(Failure::from),
            None => Ok(false),
        }
    }
}

/// Whether a map that is nearly there is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// For a moment.
    Moment,
    /// Not at all.
    None,
}

/// Whether a map was given already: a server that came before may have done so.
fn is_oriented(messages: &[Message]) -> bool {
    messages.iter().any(|message| match message {
        Message::User { text, .. } => text.starts_with(MAP_OPENING),
        Message::Assistant { .. } | Message::Tools { .. } => false,
    })
}
