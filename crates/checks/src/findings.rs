//! A bounded collection of diagnostics. Errors and the rest have room of their own, so that a flood of warnings costs
//! neither memory nor the one error that counts.

use protocol::{Diagnostic, Severity};

use crate::MAX_ENTRIES;

/// Diagnostics in the order found.
#[derive(Default)]
pub(crate) struct Findings {
    kept: Vec<Diagnostic>,
    errors: usize,
}

impl Findings {
    /// Keeps the diagnostic if there is room for its kind.
    pub(crate) fn push(&mut self, found: Diagnostic) {
        let error = found.severity == Severity::Error;
        let kind = if error { self.errors } else { self.kept.len() - self.errors };
        if kind < MAX_ENTRIES {
            self.errors += usize::from(error);
            self.kept.push(found);
        }
    }

    /// At most [`MAX_ENTRIES`] of them, errors first where not all fit.
    pub(crate) fn into_vec(mut self) -> Vec<Diagnostic> {
        if self.kept.len() > MAX_ENTRIES {
            self.kept.sort_by_key(|found| found.severity);
            self.kept.truncate(MAX_ENTRIES);
        }
        self.kept
    }
}
