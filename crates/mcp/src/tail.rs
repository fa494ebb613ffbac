//! The last words that a program wrote to its standard error: what a person needs when it does not start.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::quoted;

/// Bytes that are kept.
const KEPT: usize = 2048;

/// The end of a text that goes on. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// More of the text.
    pub fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        if kept.len() > KEPT {
            let from = kept.len() - KEPT;
            kept.drain(..from);
        }
    }

    /// The end of it as the end of a message; empty where nothing was said.
    pub(crate) fn said(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = quoted(&String::from_utf8_lossy(&kept));
        if text.is_empty() { text } else { format!("; it said: {text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let tail = Tail::default();
        assert_eq!(tail.said(), "");
        tail.push(&[b'x'; 10_000]);
        tail.push(b"\nno such module\n");
        assert!(tail.0.lock().unwrap().len() <= KEPT);
        let short = Tail::default();
        short.push(b"no such\nmodule\n");
        assert_eq!(short.said(), "; it said: no such module");
    }
}
