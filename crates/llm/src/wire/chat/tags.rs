//! Thoughts in tags at the beginning of a text, as servers pass them on that do not know how their model thinks.

use super::{Parts, Sink};

/// The tags around thoughts.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// The most white space that waits for what comes after it; more of it is said as it is.
const MOST_SPACE: usize = 64;

/// Tells thoughts at the beginning of a text from the text, whatever pieces it comes in.
#[derive(Debug, Default)]
pub(super) struct Tags {
    stage: Stage,
    /// What waits for its rest.
    held: String,
}

/// How far the text has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing but what may be the beginning of a tag.
    #[default]
    Before,
    /// The tag was there, and no thought yet; this one ends it.
    Opened(&'static str),
    /// A thought, until this tag.
    Inside(&'static str),
    /// The thought has ended, and the text has not begun.
    After,
    /// Text to the end, whatever is in it.
    Text,
}

impl Tags {
    /// Takes a piece of the text.
    pub(super) fn push(&mut self, piece: &str, parts: &mut Parts, sink: &mut Sink<'_>) {
        if self.stage == Stage::Text {
            return parts.text(piece, sink);
        }
        self.held.push_str(piece);
        while self.step(parts, sink) {}
    }

    /// Takes the next step, as far as what is held allows one.
    fn step(&mut self, parts: &mut Parts, sink: &mut Sink<'_>) -> bool {
        let said = self.held.trim_start();
        let space = self.held.len() - said.len();
        let waits = said.is_empty() && space <= MOST_SPACE;
        match self.stage {
            Stage::Before => {
                if let Some((open, close)) = TAGS.into_iter().find(|(open, _)| said.starts_with(open)) {
                    self.cut(space + open.len());
                    self.stage = Stage::Opened(close);
                    return true;
                }
                let begins = TAGS.iter().any(|(open, _)| open.starts_with(said));
                if space <= MOST_SPACE && begins {
                    return false;
                }
                self.stage = Stage::Text;
                parts.text(&std::mem::take(&mut self.held), sink);
                false
            }
            Stage::Opened(_) | Stage::After if waits => false,
            Stage::Opened(close) => {
                self.cut(space);
                self.stage = Stage::Inside(close);
                true
            }
            Stage::Inside(close) => {
                if let Some(end) = self.held.find(close) {
                    parts.reasoning(&self.held[..end], sink);
                    self.cut(end + close.len());
                    self.stage = Stage::After;
                    return true;
                }
                let begun = (1..close.len()).rev().find(|length| self.held.ends_with(&close[..*length]));
                let rest = self.held.split_off(self.held.len() - begun.unwrap_or(0));
                parts.reasoning(&std::mem::replace(&mut self.held, rest), sink);
                false
            }
            Stage::After => {
                self.cut(space);
                self.stage = Stage::Text;
                parts.text(&std::mem::take(&mut self.held), sink);
                false
            }
            Stage::Text => false,
        }
    }

    /// Gives what waits, because something else comes or nothing more. A thought without an end may go on.
    pub(super) fn flush(&mut self, parts: &mut Parts, sink: &mut Sink<'_>) {
        let held = std::mem::take(&mut self.held);
        match self.stage {
            Stage::Before | Stage::Text => {
                parts.text(&held, sink);
                self.stage = Stage::Text;
            }
            Stage::Inside(_) => parts.reasoning(&held, sink),
            Stage::After => self.stage = Stage::Text,
            Stage::Opened(_) => {}
        }
    }

    fn cut(&mut self, length: usize) {
        self.held.drain(..length);
    }
}
