//! The way out of a step's sandbox. What was decided is in the build's log; what was refused, in the error of a step that
//! fails.

use std::sync::Arc;

use protocol::EgressDecision;

use super::log::Log;
use super::{Egress, inside};
use crate::{Error, Sandbox, egress};

/// Refused destinations that an error shows.
const REFUSED: usize = 10;

/// The way out of one step. Dropping it ends every connection.
pub(super) struct WayOut {
    /// Tells of its connections when it goes, so it goes first.
    _proxy: egress::Proxy,
    decisions: egress::Log,
    refused: Arc<egress::Refusals>,
}

impl WayOut {
    /// Takes up the sandbox's connections; None if it has no network.
    pub(super) async fn open(
        egress: Option<&Egress>,
        sandbox: &dyn Sandbox,
        log: &Arc<Log>,
    ) -> Result<Option<Self>, Error> {
        let Some(way_out) = egress else { return Ok(None) };
        let Some(sockets) = sandbox.sockets().await? else { return Ok(None) };
        let log = Arc::clone(log);
        let decisions = egress::Log::new(sandbox.id(), move |decisions| {
            decisions.iter().for_each(|decision| log.line(&line(decision)));
        });
        let refused = Arc::new(egress::Refusals::new(REFUSED));
        let sink: egress::Sink = {
            let (outer, refused, decided) =
                (Arc::clone(&way_out.sink), Arc::clone(&refused), decisions.sink());
            Arc::new(move |decision: egress::Decision| {
                refused.note(&decision);
                decided(decision.clone());
                outer(decision);
            })
        };
        let outside = Arc::clone(&way_out.outside);
        let proxy = egress::Proxy::start(sockets, way_out.rules.clone(), outside, sink)?;
        proxy.set_secrets(way_out.secrets.clone())?;
        inside::connect(sandbox, &proxy.variables(), proxy.ca_bundle()).await?;
        Ok(Some(Self { _proxy: proxy, decisions, refused }))
    }

    /// What was refused and what to do about it; None if nothing was.
    pub(super) fn hint(&self) -> Option<String> {
        self.decisions.flush();
        let refused = self.refused.list();
        if refused.is_empty() {
            return None;
        }
        let list: Vec<String> = refused.iter().map(ToString::to_string).collect();
        let advice = if refused.iter().any(|refusal| !refusal.never) {
            "allow it in the environment's egress if it is needed"
        } else {
            "no rule can allow that"
        };
        Some(format!("it was refused {}; {advice}", list.join(", ")))
    }
}

/// A decision as a line of the log.
fn line(decision: &EgressDecision) -> String {
    let EgressDecision { host, port, allowed, rule, connections, sent, received, .. } = decision;
    let target = egress::with_port(host, *port);
    if *allowed {
        format!(
            "=== let through: {target} (rule {rule}), connections {connections}, bytes out {sent}, in {received}"
        )
    } else {
        format!("=== refused: {target} ({rule}), times {connections}")
    }
}
