//! What is said of a command beside its own output: which connections were refused, which limits it came to, and which
//! services ended.

use protocol::event::LimitKind;

use super::{Context, Runner};
use crate::exits::Refusal;
use crate::workspace::Expected;

/// Most hosts that one line names.
const NAMED: usize = 5;

impl Runner {
    /// Lines for the end of a command's output. Limits are recorded as events too.
    pub(super) async fn remarks(&self, failed: bool, output: &str) -> Result<Vec<String>, store::Error> {
        let mut lines = Vec::new();
        let mut expected = Expected::Any;
        if let Some(exit) = &self.exit {
            lines.extend(refused(&exit.take_refused(), exit.environment()));
        }
        if let Some(sandbox) = &self.sandbox {
            let Context { workspace, recorder, .. } = &*self.context;
            // A shell that goes on after a process was ended has not failed, but the limit was met. What only the output
            // tells of is believed where something failed.
            let output = if failed { output } else { "" };
            let hits = workspace.tell_limits(recorder, &**sandbox, output).await?;
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

fn refused(all: &[Refusal], environment: &str) -> Option<String> {
    let named = names(all.iter())?;
    let advice = match all.iter().find(|refusal| refusal.can_be_allowed) {
        None => "No rule can allow that: such addresses are refused whatever the rules are".to_owned(),
        Some(Refusal { host, port, .. }) => {
            // A rule without a port is for the web's.
            let rule = if matches!(port, 53 | 80 | 443) { host.clone() } else { format!("{host}:{port}") };
            let never = names(all.iter().filter(|refusal| !refusal.can_be_allowed));
            let never = never.map(|names| format!("; no rule can allow {names}")).unwrap_or_default();
            format!("A person can allow it: slipway env allow {environment} {rule}{never}")
        }
    };
    Some(format!("(The environment's egress refused: {named}. {advice})"))
}

/// The first of these; None if there are none.
fn names<'a>(refusals: impl Iterator<Item = &'a Refusal>) -> Option<String> {
    let mut named: Vec<String> = Vec::new();
    for Refusal { host, port, .. } in refusals {
        // A question for a name is told with the port of questions, which is not what anybody wanted to connect to.
        let name = if *port == 53 { host.clone() } else { format!("{host}:{port}") };
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

    fn refusal(host: &str, port: u16, can_be_allowed: bool) -> Refusal {
        Refusal { host: host.to_owned(), port, can_be_allowed }
    }

    #[test]
    fn one_line_names_what_was_refused_and_how_to_allow_it() {
        assert_eq!(refused(&[], "shop"), None);
        let hosts: Vec<Refusal> = (0..7).map(|n| refusal(&format!("h{n}.example"), 443, true)).collect();
        let line = refused(&hosts, "shop").unwrap();
        assert!(line.contains("h0.example:443, h1.example:443") && line.contains("and others"), "{line}");
        assert!(line.contains("slipway env allow shop h0.example)") && !line.contains("h6"), "{line}");
        assert!(!line.contains('\n'));
        let asked = refused(&[refusal("a.example", 53, true)], "shop").unwrap();
        assert!(asked.contains("refused: a.example."), "{asked}");
        let other = refused(&[refusal("db.example", 5432, true)], "shop").unwrap();
        assert!(other.contains("slipway env allow shop db.example:5432)"), "{other}");
    }

    #[test]
    fn nobody_is_told_to_allow_what_cannot_be_allowed() {
        let never = refusal("169.254.169.254", 80, false);
        let line = refused(std::slice::from_ref(&never), "shop").unwrap();
        assert!(line.contains("No rule can allow") && !line.contains("env allow"), "{line}");
        let line = refused(&[never, refusal("a.example", 443, true)], "shop").unwrap();
        assert!(line.contains("slipway env allow shop a.example;"), "{line}");
        assert!(line.ends_with("no rule can allow 169.254.169.254:80)"), "{line}");
    }
}
