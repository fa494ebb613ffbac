//! What one command was refused, for whoever ran it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::{Decision, bracketed, dns, rule_for, with_port};

/// What is collected, once each. Those that a rule could let through come first, and are kept when there are too many.
#[derive(Debug)]
pub struct Refusals {
    most: usize,
    all: Mutex<BTreeSet<Refusal>>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Whether no rule could let it through.
    pub never: bool,
    /// The host that was asked for.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Why.
    pub why: String,
}

impl Refusals {
    /// None yet, and never more than this.
    pub fn new(most: usize) -> Self {
        Self { most, all: Mutex::default() }
    }

    /// Takes up a decision, if it was a refusal.
    pub fn note(&self, decision: &Decision) {
        if decision.allowed {
            return;
        }
        let Decision { host, port, can_be_allowed, rule, .. } = decision.clone();
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(Refusal { never: !can_be_allowed, host, port, why: rule });
        if all.len() > self.most {
            all.pop_last();
        }
    }

    /// Those that can be allowed first.
    pub fn list(&self) -> Vec<Refusal> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Refusal {
    /// The host and the port. A question for a name is told with the port of questions, which is not what anybody wanted to
    /// connect to.
    pub fn target(&self) -> String {
        if self.port == dns::PORT { bracketed(&self.host) } else { with_port(&self.host, self.port) }
    }

    /// The rule that would let it through; None if none would.
    pub fn rule(&self) -> Option<String> {
        let port = if self.port == dns::PORT { 443 } else { self.port };
        (!self.never).then(|| rule_for(&self.host, port))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.target(), self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_allowed_comes_first_and_stays() {
        let refusals = Refusals::new(3);
        let note = |host: &str, port: u16, can_be_allowed: bool, allowed: bool| {
            refusals.note(&Decision {
                host: host.to_owned(),
                port,
                allowed,
                can_be_allowed,
                rule: "why".to_owned(),
                connections: 1,
                sent: 0,
                received: 0,
            });
        };
        note("127.0.0.1", 80, false, false);
        note("good.test", 443, true, true);
        note("z.test", 53, true, false);
        note("2001:db8::1", 8080, true, false);
        note("2001:db8::1", 8080, true, false);
        note("y.test", 443, true, false);
        let list = refusals.list();
        let shown: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["[2001:db8::1]:8080 (why)", "y.test:443 (why)", "z.test (why)"]);
        let rules: Vec<_> = list.iter().filter_map(Refusal::rule).collect();
        assert_eq!(rules, ["[2001:db8::1]:8080", "y.test", "z.test"]);
        let never = Refusal { never: true, ..list[0].clone() };
        assert_eq!(never.rule(), None);
    }
}
