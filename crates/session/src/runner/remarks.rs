//! What is said of a command beside its own output: which connections were refused, which limits it came to, and which
//! services ended.

use std::sync::PoisonError;

use protocol::event::LimitKind;
use sandbox::egress::{Narrowing, Refusal};

use super::{Context, Runner};
use crate::limits::Said;
use crate::workspace::Expected;

/// Most hosts that one line names.
const NAMED: usize = 5;
/// Most hosts that a person is asked for at once.
const WANTED: usize = 20;

impl Runner {
    /// Lines for the end of a command's output. Limits are recorded as events too.
    pub(super) async fn remarks(&self, failed: bool, output: &str) -> Result<Vec<String>, store::Error> {
        let mut lines = Vec::new();
        let mut expected = Expected::Any;
        if let Some(exit) = &self.exit {
            let all = exit.take_refused();
            let by_policy =
                |refusal: &&Refusal| [Narrowing::ASKS, Narrowing::DENIED].contains(&refusal.why.as_str());
            let (policy, rest): (Vec<&Refusal>, Vec<&Refusal>) = all.iter().partition(by_policy);
            lines.extend(refused(&rest, exit.environment()));
            lines.extend(self.narrowed(&policy));
        }
        if let Some(sandbox) = &self.sandbox {
            let Context { workspace, recorder, .. } = &*self.context;
            // A shell that goes on after a process was ended has not failed, but the limit was met.
            let said = Said::new(failed, output);
            let hits = workspace.tell_limits_after(recorder, &**sandbox, &said).await?;
            lines.extend(hits.iter().map(|hit| format!("({})", hit.message)));
            // A sandbox whose disk is full is emptied of processes.
            if hits.iter().any(|hit| matches!(hit.limit, LimitKind::DiskBytes | LimitKind::DiskInodes)) {
                expected = Expected::Ended;
            }
        }
        lines.extend(self.tend(expected).await?);
        Ok(lines)
    }
}

impl Runner {
    /// What is said of hosts that a policy refuses. Those that a person may allow are asked for when the call has ended.
    fn narrowed(&self, refused: &[&Refusal]) -> Vec<String> {
        let (asks, denied): (Vec<&Refusal>, Vec<&Refusal>) =
            refused.iter().partition(|refusal| refusal.why == Narrowing::ASKS);
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        for refusal in &asks {
            let host = refusal.host.clone();
            if !wanted.contains(&host) && wanted.len() < WANTED {
                wanted.push(host);
            }
        }
        let denied = names(denied.iter().map(|refusal| refusal.target()));
        let asks = names(asks.iter().map(|refusal| refusal.target()));
        let denied =
            denied.map(|named| format!("(A policy denies connections to {named}. No person is asked.)"));
        let asks =
            asks.map(|named| format!("(A person must allow connections to {named} first, and is asked.)"));
        denied.into_iter().chain(asks).collect()
    }
}

fn refused(all: &[&Refusal], environment: &str) -> Option<String> {
    let named = names(all.iter().map(|refusal| refusal.target()))?;
    let never = names(all.iter().filter(|refusal| refusal.never).map(ToString::to_string));
    let advice = match (all.iter().find_map(|refusal| refusal.rule()), never) {
        (None, never) => format!("No rule can allow {}", never.unwrap_or_default()),
        (Some(rule), None) => format!("A person can allow it: slipway env allow {environment} {rule}"),
        (Some(rule), Some(never)) => {
            format!(
                "A person can allow it: slipway env allow {environment} {rule}; no rule can allow {never}"
            )
        }
    };
    Some(format!("(The environment's egress refused: {named}. {advice})"))
}

/// The first of these; None if there are none.
fn names(all: impl Iterator<Item = String>) -> Option<String> {
    let mut named: Vec<String> = Vec::new();
    for name in all {
        if !named.contains(&name) {
            named.push(name);
        }
    }
    let more = if named.len() > NAMED { " and others" } else { "" };
    named.truncate(NAMED);
    (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::{Refusal, refused};

    fn refusal(host: &str, port: u16, never: bool) -> Refusal {
        Refusal { never, host: host.to_owned(), port, why: "for a reason".to_owned() }
    }

    #[test]
    fn one_line_names_what_was_refused_and_how_to_allow_it() {
        assert_eq!(refused(&[], "shop"), None);
        let refused = |all: &[Refusal], name: &str| refused(&all.iter().collect::<Vec<_>>(), name);
        let hosts: Vec<Refusal> = (0..7).map(|n| refusal(&format!("h{n}.example"), 443, false)).collect();
        let line = refused(&hosts, "shop").unwrap();
        assert!(line.contains("h0.example:443, h1.example:443") && line.contains("and others"), "{line}");
        assert!(line.contains("slipway env allow shop h0.example)") && !line.contains("h6"), "{line}");
        assert!(!line.contains('\n'));
        let asked = refused(&[refusal("a.example", 53, false)], "shop").unwrap();
        assert!(asked.contains("refused: a.example."), "{asked}");
        for (host, port, rule) in [
            ("db.example", 5432, "db.example:5432"),
            ("2001:db8::10", 8080, "[2001:db8::10]:8080"),
            ("2001:db8::10", 443, "[2001:db8::10]"),
        ] {
            let other = refused(&[refusal(host, port, false)], "shop").unwrap();
            assert!(other.contains(&format!("slipway env allow shop {rule})")), "{other}");
        }
    }

    #[test]
    fn nobody_is_told_to_allow_what_cannot_be_allowed() {
        let never = refusal("169.254.169.254", 80, true);
        let line = refused(&[&never], "shop").unwrap();
        assert!(line.contains("No rule can allow 169.254.169.254:80 (for a reason)"), "{line}");
        assert!(!line.contains("env allow"), "{line}");
        let line = refused(&[&refusal("a.example", 443, false), &never], "shop").unwrap();
        assert!(line.contains("slipway env allow shop a.example;"), "{line}");
        assert!(line.ends_with("no rule can allow 169.254.169.254:80 (for a reason))"), "{line}");
    }
}
