//! What is said of a command beside its own output: which connections were refused, and which limits it came to.

use protocol::{Actor, EventBody};

use super::Runner;

/// Most hosts that one line names.
const NAMED: usize = 5;

impl Runner {
    /// Lines for the end of a command's output. Limits are recorded as events too.
    pub(super) async fn remarks(&self, failed: bool, output: &str) -> Result<Vec<String>, store::Error> {
        let mut lines = Vec::new();
        if let Some(exit) = &self.exit {
            lines.extend(refused(&exit.take_refused(), exit.environment()));
        }
        if let Some(sandbox) = self.sandbox.as_ref().filter(|_| failed) {
            let hits = self.context.workspace.reached(&**sandbox, output).await;
            let id = sandbox.id();
            lines.extend(hits.iter().map(|hit| format!("({})", hit.message)));
            let events = hits.into_iter().map(|hit| EventBody::LimitExceeded {
                sandbox: id,
                limit: hit.limit,
                message: hit.message,
            });
            self.append(&Actor::system(), events.collect()).await?;
        }
        Ok(lines)
    }
}

fn refused(hosts: &[(String, u16)], environment: &str) -> Option<String> {
    let (first, port) = hosts.first()?;
    // A rule without a port is for the web's.
    let rule = if matches!(port, 53 | 80 | 443) { first.clone() } else { format!("{first}:{port}") };
    // A question for a name is told with the port of questions, which is not what anybody wanted to connect to.
    let mut named: Vec<String> = Vec::new();
    for (host, port) in hosts {
        let name = if *port == 53 { host.clone() } else { format!("{host}:{port}") };
        if !named.contains(&name) {
            named.push(name);
        }
    }
    let more = if named.len() > NAMED { " and others" } else { "" };
    named.truncate(NAMED);
    Some(format!(
        "(The environment's egress refused: {}{more}. A person can allow it: slipway env allow {environment} {rule})",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn one_line_names_what_was_refused_and_how_to_allow_it() {
        assert_eq!(refused(&[], "shop"), None);
        let hosts: Vec<(String, u16)> = (0..7).map(|n| (format!("h{n}.example"), 443)).collect();
        let line = refused(&hosts, "shop").unwrap();
        assert!(line.contains("h0.example:443, h1.example:443") && line.contains("and others"), "{line}");
        assert!(line.contains("slipway env allow shop h0.example)") && !line.contains("h6"), "{line}");
        assert!(!line.contains('\n'));
        let asked = refused(&[("a.example".to_owned(), 53)], "shop").unwrap();
        assert!(asked.contains("refused: a.example."), "{asked}");
        let other = refused(&[("db.example".to_owned(), 5432)], "shop").unwrap();
        assert!(other.contains("slipway env allow shop db.example:5432)"), "{other}");
    }
}
