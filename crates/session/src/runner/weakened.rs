//! What the session's work does to its own checks: tests that are gone or skipped, rules that ask for less. People are told,
//! because the checks that passed cannot tell it.

use protocol::Weakening;

use super::Runner;

/// Most of them that are told in words; the receipt has more.
const TOLD: usize = 10;
/// How the notice for people begins. Whoever describes the work finds it by this.
pub(crate) const HEAD: &str =
    "The checks passed, and the changes make them say less. A person should look at this:";

impl Runner {
    /// Looks at what the work changed since the session began. It is for people to judge, so a failure costs only that.
    pub(super) async fn look_for_weakened(&mut self, commit: Option<&str>) {
        self.weakened = Vec::new();
        let (Some(saved), Some(commit)) = (self.context.workspace.saved(), commit) else { return };
        let Ok(mirror) = self.context.workspace.mirror().await else { return };
        match mirror.diff(&saved.base, commit).await {
            Ok(diff) => self.weakened = ::checks::weakened(&diff.patch),
            Err(error) => {
                tracing::warn!(%error, "it could not be looked for tests and checks that were weakened");
            }
        }
    }

    /// Says what was found, before anybody is asked to approve it.
    pub(super) async fn tell_weakened(&self) -> Result<(), store::Error> {
        if self.weakened.is_empty() {
            return Ok(());
        }
        self.record_notice(words(&self.weakened)).await
    }
}

/// The findings as people read them.
fn words(found: &[Weakening]) -> String {
    let mut text = HEAD.to_owned();
    for Weakening { file, line, what, .. } in found.iter().take(TOLD) {
        let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
        text.push_str(&format!("\n- {place}: {what}"));
    }
    if found.len() > TOLD {
        text.push_str(&format!("\n… and {} more in the receipt", found.len() - TOLD));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::WeakeningKind;

    #[test]
    fn places_are_named_and_a_flood_is_cut() {
        let one = |line| Weakening {
            kind: WeakeningKind::TestSkipped,
            file: "test_a.py".into(),
            line,
            what: "test_total is not run".into(),
        };
        let text = words(&[one(Some(3)), one(None)]);
        assert!(
            text.ends_with("\n- test_a.py:3: test_total is not run\n- test_a.py: test_total is not run"),
            "{text}"
        );
        assert!(words(&vec![one(None); 13]).ends_with("\n… and 3 more in the receipt"));
    }
}
