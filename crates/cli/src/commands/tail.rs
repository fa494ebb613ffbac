//! The last that a command said, which may tell why it failed.

use guest::Output;

/// Complaints are short and come last.
const KEPT: usize = 8 * 1024;

/// The end of a command's standard error; with a terminal, of all that it wrote, since that is one stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    terminal: bool,
    bytes: Vec<u8>,
}

impl Tail {
    /// Of a command with a terminal, or without.
    pub(super) fn new(terminal: bool) -> Self {
        Self { terminal, bytes: Vec::new() }
    }

    pub(super) fn note(&mut self, output: &Output) {
        match output {
            Output::Stdout { data, .. } if self.terminal => self.keep(data),
            Output::Stderr { data, .. } => self.keep(data),
            Output::Stdout { .. } | Output::Exit(_) => {}
        }
    }

    fn keep(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(&data[data.len().saturating_sub(KEPT)..]);
        self.bytes.drain(..self.bytes.len().saturating_sub(KEPT));
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let mut tail = Tail::new(false);
        tail.keep(b"first");
        tail.keep(&vec![b'x'; KEPT - 1]);
        assert!(tail.text().starts_with("tx") && tail.bytes.len() == KEPT);
        tail.keep(&[&vec![b'y'; 3 * KEPT][..], b"last"].concat());
        assert!(tail.text().ends_with("ylast") && tail.bytes.len() == KEPT);
    }
}
