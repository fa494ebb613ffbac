//! What policies refuse of what an environment allows. They never allow more than it does.

use protocol::{Permission, Policy, PolicyRule};

use super::rules::{Host, Pattern, parse_port, split_port};
use crate::Error;

/// Rules of policies for hosts, parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// The rules of each policy, in order; the strictest policy holds.
    policies: Vec<Vec<HostRule>>,
    /// What people allowed although a policy wants to be asked.
    granted: Vec<HostRule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct HostRule {
    then: Permission,
    /// None for every host.
    hosts: Option<Pattern>,
    /// None for every port.
    port: Option<u16>,
}

impl Narrowing {
    /// Why a host is refused that a policy denies.
    pub const DENIED: &str = "a policy of the session or its environment denies it";
    /// Why a host is refused that a person must allow first.
    pub const ASKS: &str = "a policy wants a person to allow it first";

    /// Reads the rules for hosts; an error names the rule and says what is wrong with it.
    pub fn parse(policies: &[&Policy], granted: &[PolicyRule]) -> Result<Self, Error> {
        let read = |rules: &[PolicyRule]| -> Result<Vec<HostRule>, Error> {
            let of_hosts = rules.iter().filter_map(|rule| Some((rule.then, rule.host.as_deref()?)));
            of_hosts.map(|(then, host)| HostRule::parse(then, host)).collect()
        };
        let policies = policies.iter().map(|policy| read(&policy.rules)).collect::<Result<_, _>>()?;
        Ok(Self { policies, granted: read(granted)? })
    }

    /// Why a host is refused on a port, or, without one, its name; None where no policy does.
    pub(super) fn refuses(&self, host: &Host, port: Option<u16>) -> Option<&'static str> {
        let fits = |rule: &&HostRule| rule.fits(host, port);
        let strictest =
            self.policies.iter().filter_map(|rules| rules.iter().find(fits)).map(|rule| rule.then).max();
        match strictest? {
            Permission::Allow => None,
            Permission::Deny => Some(Self::DENIED),
            Permission::Ask if self.granted.iter().any(|rule| rule.fits(host, port)) => None,
            Permission::Ask => Some(Self::ASKS),
        }
    }
}

impl HostRule {
    fn parse(then: Permission, text: &str) -> Result<Self, Error> {
        let wrong = |why: String| {
            Error::Build {
            message: format!("the policy's host \"{text}\" cannot be used: {why}"),
            hint: "write a host such as \"registry.npmjs.org\", \"*.example.com\" for every host below a domain, \"*\" for \
                   every host, and a port after a colon for only that one"
                .to_owned(),
        }
        };
        let (host, port) = split_port(text.trim()).map_err(wrong)?;
        let port = match port {
            None | Some("*") => None,
            Some(digits) => {
                Some(parse_port(digits).ok_or_else(|| wrong(format!("\"{digits}\" is no port")))?)
            }
        };
        let read = |text: &str| Host::parse(text).map_err(|why| wrong(why.to_string()));
        let hosts = match (host, host.strip_prefix("*.")) {
            ("*", _) => None,
            (_, Some(domain)) => Some(Pattern::Below(read(domain)?)),
            (one, None) => Some(Pattern::Host(read(one)?)),
        };
        Ok(Self { then, hosts, port })
    }

    /// Whether it is about this host. A name is asked for before a port is known: a rule for one port lets it be.
    fn fits(&self, host: &Host, port: Option<u16>) -> bool {
        let strict = self.then != Permission::Allow;
        // An address can be that of any name.
        let may_be = |hosts: &Pattern| match (hosts, host) {
            (Pattern::Host(Host::Name(_)) | Pattern::Below(_), Host::Address(_)) => strict,
            (Pattern::Host(_) | Pattern::Below(_), _) => hosts.covers(host),
        };
        let hosts = self.hosts.as_ref().is_none_or(may_be);
        hosts
            && match (self.port, port) {
                (None, _) => true,
                (Some(_), None) => !strict,
                (Some(one), Some(port)) => one == port,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &[(Permission, &str)]) -> Policy {
        let rule = |(then, host): &(Permission, &str)| PolicyRule {
            then: *then,
            tool: None,
            path: None,
            command: None,
            host: Some((*host).to_owned()),
            reason: None,
        };
        Policy { rules: rules.iter().map(rule).collect(), after_every: None }
    }

    fn refused(policies: &[&Policy], granted: &[PolicyRule], host: &str, port: Option<u16>) -> bool {
        let narrowing = Narrowing::parse(policies, granted).unwrap();
        narrowing.refuses(&Host::parse(host).unwrap(), port).is_some()
    }

    #[test]
    fn the_first_rule_of_each_policy_and_the_strictest_of_all_hold() {
        use Permission::{Allow, Ask, Deny};
        let few = policy(&[
            (Allow, "a.example.com"),
            (Deny, "*.example.com"),
            (Ask, "b.test:22"),
            (Deny, "10.0.0.7"),
        ]);
        let at = |host: &str, port: u16| refused(&[&few], &[], host, Some(port));
        assert!(!at("a.example.com", 443) && at("b.example.com", 443) && at("x.b.example.com", 80));
        assert!(!at("example.com", 443) && !at("other.test", 1));
        assert!(at("b.test", 22) && !at("b.test", 443));
        assert!(at("10.0.0.7", 5432));
        assert!(at("203.0.113.5", 443), "it can be the address of what is denied");
        let named = policy(&[(Allow, "203.0.113.5"), (Deny, "*.example.com")]);
        assert!(!refused(&[&named], &[], "203.0.113.5", Some(443)));
        assert!(refused(&[&named], &[], "203.0.113.6", Some(443)));
        assert!(!refused(&[&few], &[], "b.test", None), "its name may be asked for");
        assert!(refused(&[&few], &[], "b.example.com", None));
        let every = policy(&[(Deny, "*")]);
        assert!(refused(&[&few, &every], &[], "a.example.com", Some(443)));
        assert!(!refused(&[], &[], "a.example.com", Some(443)));
    }

    #[test]
    fn what_people_allowed_is_let_through_where_it_was_to_be_asked() {
        use Permission::{Allow, Ask, Deny};
        let asks = policy(&[(Ask, "*")]);
        let granted = policy(&[(Allow, "a.test")]).rules;
        assert!(refused(&[&asks], &[], "a.test", Some(443)));
        assert!(!refused(&[&asks], &granted, "a.test", Some(443)));
        assert!(refused(&[&asks], &granted, "b.test", Some(443)));
        assert!(refused(&[&asks, &policy(&[(Deny, "a.test")])], &granted, "a.test", Some(443)));
    }

    #[test]
    fn what_is_no_host_is_told() {
        for wrong in ["https://a.test", "a.test:0", "a b", "*.*", "a.test:99999"] {
            let error = Narrowing::parse(&[&policy(&[(Permission::Deny, wrong)])], &[]).unwrap_err();
            assert!(error.to_string().contains("the policy's host"), "{wrong}: {error}");
        }
    }
}
