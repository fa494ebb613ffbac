//! What each check ran when the session began, and when it passed last: by this it shows that one ends well although tests fail, or
//! that it runs fewer of them.

use protocol::{EventBody, ItemKind, ItemStatus, KnownCheck, Report};
use serde::{Deserialize, Serialize};

use super::{State, TurnState};

/// The checks of which something is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counted(Vec<One>);

/// The tests of one check, as a tally.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct One {
    pub(crate) check: String,
    /// As the session began, and whether the check passed then.
    pub(crate) began: Option<(bool, Report)>,
    /// When it passed last.
    pub(crate) last: Option<Report>,
}

impl Counted {
    /// Takes in the next event, before anything else does. `turn` is how the turn was before it, `first` whether none
    /// was before that.
    pub(super) fn apply(&mut self, body: &EventBody, turn: Option<&TurnState>, first: bool) {
        match body {
            EventBody::ChecksKnown { checks, .. } => {
                for KnownCheck { name, passed, report } in checks {
                    if let Some(report) = report {
                        self.of(name).began.get_or_insert_with(|| (*passed, checks::tally(report)));
                    }
                }
            }
            EventBody::ItemCompleted { item, .. } if item.status == ItemStatus::Completed => {
                let ItemKind::Report(ran) = &item.kind else { return };
                let (Some(passed), Some(report), false) = (ran.passed, &ran.report, ran.partial) else {
                    return;
                };
                let untouched = first && turn.is_some_and(|turn| !turn.may_have_changed);
                let one = self.of(&ran.check);
                if untouched {
                    one.began = Some((passed, checks::tally(report)));
                }
                if passed {
                    one.last = Some(checks::tally(report));
                }
            }
            _ => {}
        }
    }

    fn of(&mut self, check: &str) -> &mut One {
        let at = self.0.iter().position(|one| one.check == check).unwrap_or_else(|| {
            self.0.push(One { check: check.to_owned(), ..One::default() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

impl State {
    /// What is known of the tests of each check.
    pub(crate) fn counted(&self) -> &[One] {
        &self.counted.0
    }

    /// Whether nothing can have been changed since the session began.
    pub(crate) fn is_untouched(&self) -> bool {
        self.last_turn.is_none() && self.turn.as_ref().is_some_and(|turn| !turn.may_have_changed)
    }
}
