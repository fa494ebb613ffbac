//! What is allowed, as it is written in a recipe, and hosts in the one form in which they are compared.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address;
use super::narrow::Narrowing;
use crate::Error;

/// Domains that are set aside for local use, so that their names lead to no address that is let through; and whose they are.
const LOCAL: [(&str, &str); 7] = [
    ("localhost", "this machine itself"),
    ("localdomain", "this machine itself"),
    ("local", "the local network"),
    ("internal", "private networks and clouds' metadata services"),
    ("home.arpa", "home networks"),
    ("onion", "a network that is not reached by name"),
    ("invalid", "nothing at all"),
];

/// What is allowed, parsed and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    kind: Kind,
    environment: Option<String>,
    narrowing: Narrowing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    None,
    Open,
    Allow(Vec<Rule>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// As it was written.
    text: String,
    hosts: Pattern,
    ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ports {
    Web,
    One(u16),
    Any,
}

impl Ports {
    fn have(&self, port: u16) -> bool {
        match self {
            Self::Web => port == 80 || port == 443,
            Self::One(one) => *one == port,
            Self::Any => true,
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web => f.write_str("web"),
            Self::One(port) => write!(f, "{port}"),
            Self::Any => f.write_str("*"),
        }
    }
}

impl Rules {
    /// Reads the rules of a recipe; an error names the rule and says what is wrong with it.
    pub fn parse(egress: &protocol::Egress) -> Result<Self, Error> {
        let kind = match egress {
            protocol::Egress::None => Kind::None,
            protocol::Egress::Open => Kind::Open,
            protocol::Egress::Allow(rules) => {
                Kind::Allow(rules.iter().map(|text| Rule::parse(text)).collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { kind, environment: None, narrowing: Narrowing::default() })
    }

    /// The same rules with the name of the environment that they are of, for what is said of refusals.
    pub fn of(self, environment: &str) -> Self {
        Self { environment: Some(environment.to_owned()), ..self }
    }

    /// The same rules but for what policies refuse of them.
    pub fn narrowed(self, narrowing: Narrowing) -> Self {
        Self { narrowing, ..self }
    }

    /// Name of the environment, if it was told.
    pub(super) fn environment(&self) -> Option<&str> {
        self.environment.as_deref()
    }

    /// What is allowed, in words that are the same for rules that mean the same, in whatever order.
    pub(crate) fn words(&self) -> Vec<String> {
        match &self.kind {
            Kind::None => vec!["none".to_owned()],
            Kind::Open => vec!["open".to_owned()],
            Kind::Allow(rules) => {
                let mut words: Vec<String> =
                    rules.iter().map(|rule| format!("{} {}", rule.hosts, rule.ports)).collect();
                words.sort_unstable();
                words.dedup();
                words.insert(0, "allow".to_owned());
                words
            }
        }
    }

    /// Whether every public address is allowed.
    pub fn is_open(&self) -> bool {
        self.kind == Kind::Open
    }

    /// Whether a server may go there by itself: like a sandbox, but to no address without a name unless a rule names it.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        let Ok(host) = Host::parse(host) else { return false };
        let named = self.kind != Kind::Open || (host.address().is_none() && host.never().is_none());
        named && host.reserved().is_none_or(|_| self.kind != Kind::Open) && self.allow(&host, port).is_ok()
    }

    /// The rule that allows this host on this port, or why there is none.
    pub(super) fn allow(&self, host: &Host, port: u16) -> Result<&str, &'static str> {
        self.find(host, Some(port), |rule| rule.hosts.covers(host) && rule.ports.have(port))
    }

    /// The rule that allows this host on some port: its name may be asked for.
    pub(super) fn allow_name(&self, host: &Host) -> Result<&str, &'static str> {
        self.find(host, None, |rule| rule.hosts.covers(host))
    }

    /// Whether a rule for this host names this port, and does not only mean those of the web. Then any protocol may be spoken.
    pub(super) fn names_port(&self, host: &Host, port: u16) -> bool {
        let named =
            |rule: &Rule| rule.hosts.covers(host) && rule.ports.have(port) && rule.ports != Ports::Web;
        self.find(host, Some(port), named).is_ok()
    }

    fn find(
        &self,
        host: &Host,
        port: Option<u16>,
        fits: impl Fn(&Rule) -> bool,
    ) -> Result<&str, &'static str> {
        let found = match &self.kind {
            Kind::None => Err("the environment has no network (egress = \"none\")"),
            Kind::Open => Ok("open"),
            Kind::Allow(rules) => rules
                .iter()
                .find(|rule| fits(rule))
                .map(|rule| rule.text.as_str())
                .ok_or("no rule of the environment allows it"),
        };
        // Who may allow more is asked only where that is enough.
        found.and_then(|rule| self.narrowing.refuses(host, port).map_or(Ok(rule), Err))
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| {
            Error::Build {
            message: format!("the egress rule \"{text}\" cannot be used: {why}"),
            hint: "write a host such as \"registry.npmjs.org\", \"*.example.com\" for every host below a domain, and a \
                   port after a colon if it is not 80 or 443: \"db.example.com:5432\", \"example.com:*\""
                .to_owned(),
        }
        };
        let (host, port) = split_port(text).map_err(wrong)?;
        let ports = match port {
            None => Ports::Web,
            Some("*") => Ports::Any,
            Some(digits) => match parse_port(digits) {
                Some(port) => Ports::One(port),
                None => {
                    return Err(wrong(format!(
                        "\"{digits}\" is no port; it is a number from 1 to 65535, or *"
                    )));
                }
            },
        };
        Ok(Self { text: text.to_owned(), hosts: Pattern::parse(host).map_err(wrong)?, ports })
    }
}

/// Only digits: `parse` alone would take a plus sign too.
pub(super) fn parse_port(digits: &str) -> Option<u16> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| plain && *port != 0)
}

/// Splits `host:port`, where the host may be an IPv6 address in brackets.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<&str>), String> {
    if text.contains("://") || text.contains('/') {
        return Err("only a host and a port are compared, so leave out \"https://\" and the path".to_owned());
    }
    if let Some(rest) = text.strip_prefix('[') {
        let Some((host, after)) = rest.split_once(']') else {
            return Err("a bracket is not closed".to_owned());
        };
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err("after the bracket only a colon and a port may follow".to_owned()),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            Err("an IPv6 address stands in brackets: \"[2606:4700::1111]:443\"".to_owned())
        }
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

/// One host, or every host below a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    Host(Host),
    Below(Host),
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Err("write egress = \"open\" to allow every public host".to_owned());
        }
        let host = |text| {
            let host = Host::parse(text).map_err(|why| why.to_string())?;
            match host.reserved() {
                Some(why) => Err(format!("{host} is never let through: {why}")),
                None => Ok(host),
            }
        };
        match text.strip_prefix("*.") {
            Some(domain) => match Host::parse(domain) {
                Ok(Host::Address(_)) => Err("there is nothing below an address".to_owned()),
                Ok(Host::Name(_)) | Err(_) => host(domain).map(Self::Below),
            },
            None if text.contains('*') => {
                Err("a * may stand only at the beginning, as in \"*.example.com\"".to_owned())
            }
            None => host(text).map(Self::Host),
        }
    }

    pub(super) fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Host(one), host) => one == host,
            (Self::Below(Host::Name(domain)), Host::Name(name)) => name
                .strip_suffix(domain.as_str())
                .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
            (Self::Below(_), _) => false,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "{host}"),
            Self::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

/// A host in the one form in which hosts are compared: a lower-case name without a dot at its end, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Reads a name or an address. IPv6 addresses may stand in brackets.
    pub(super) fn parse(text: &str) -> Result<Self, Malformed> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(bare) = bare {
            return bare.parse::<Ipv6Addr>().map(|v6| Self::Address(v6.into())).map_err(|_| Malformed::Name);
        }
        if let Ok(v4) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(v4.into()));
        }
        if let Ok(v6) = text.parse::<Ipv6Addr>() {
            return Ok(Self::Address(v6.into()));
        }
        if !text.is_ascii() {
            return Err(Malformed::NotAscii);
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() > 253 || !name.split('.').all(label) {
            return Err(Malformed::Name);
        }
        // System resolvers read "127.1" and "0x7f000001" as addresses. No public domain ends like that.
        let last = name.rsplit('.').next().unwrap_or_default();
        let hex =
            last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if hex || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Malformed::Number);
        }
        Ok(Self::Name(name))
    }

    /// Reads `host` or `host:port`, as in a Host header or an authority.
    pub(super) fn parse_with_port(text: &str) -> Result<(Self, Option<u16>), Malformed> {
        let (host, port) = split_port(text).map_err(|_| Malformed::Name)?;
        let port = match port {
            None => None,
            Some(digits) => Some(parse_port(digits).ok_or(Malformed::Name)?),
        };
        Ok((Self::parse(host)?, port))
    }

    /// Why no rule can let this host through on this machine; None if one could.
    pub(super) fn never(&self) -> Option<String> {
        match self {
            Self::Address(address) => address::never(*address).map(|why| format!("it is {why}")),
            Self::Name(_) => self.reserved(),
        }
    }

    /// Why no rule can let this host through on any machine. Rules are checked by this alone: one that could be read must
    /// not become an error because the machine got another address.
    fn reserved(&self) -> Option<String> {
        match self {
            Self::Address(address) => {
                address::refused(address.to_canonical()).map(|why| format!("it is {why}"))
            }
            Self::Name(name) => LOCAL.iter().find_map(|(domain, what)| {
                let below = name.strip_suffix(domain)?;
                (below.is_empty() || below.ends_with('.'))
                    .then(|| format!("names below .{domain} are of {what}"))
            }),
        }
    }

    /// The address, if it is one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(_) => None,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// What a sandbox said in place of a host, so that it can be shown: no longer than a host, and without control characters.
pub(super) fn harmless(text: &str) -> String {
    let shown: String = text.chars().take(253).map(|c| if c.is_control() { '?' } else { c }).collect();
    if shown.is_empty() { super::UNKNOWN.to_owned() } else { shown }
}

/// Why something is no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("only ASCII is compared, so write an international name in its xn-- form")]
    NotAscii,
    #[error("it is no host name: letters, digits, - and _ between dots")]
    Name,
    #[error("it ends in a number, which some programs read as an address")]
    Number,
}

impl Malformed {
    /// What is wrong with this text, and what to write.
    pub(super) fn why(self, text: &str) -> String {
        let host = split_port(text).map_or(text, |(host, _)| host);
        match address::spelled(host) {
            Some(address) if self == Self::Number => {
                format!("it is another spelling of an address; write it as {address}")
            }
            _ => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protocol::Egress;

    use super::*;

    fn rules(list: &[&str]) -> Rules {
        Rules::parse(&Egress::Allow(list.iter().map(|&rule| rule.to_owned()).collect())).unwrap()
    }

    fn allows(rules: &Rules, host: &str, port: u16) -> bool {
        rules.allow(&Host::parse(host).unwrap(), port).is_ok()
    }

    #[test]
    fn hosts_domains_and_ports() {
        let rules =
            rules(&["Example.com.", "*.github.com", "db.test:5432", "any.test:*", "93.184.216.34:22"]);
        for (host, port, expected) in [
            ("example.com", 80, true),
            ("EXAMPLE.COM.", 443, true),
            ("example.com", 8080, false),
            ("www.example.com", 443, false),
            ("notexample.com", 443, false),
            ("api.github.com", 443, true),
            ("a.b.github.com", 443, true),
            ("github.com", 443, false),
            ("evilgithub.com", 443, false),
            ("github.com.evil.test", 443, false),
            ("db.test", 5432, true),
            ("db.test", 443, false),
            ("any.test", 1, true),
            ("93.184.216.34", 22, true),
            ("93.184.216.34", 443, false),
            ("93.184.216.35", 22, false),
        ] {
            assert_eq!(allows(&rules, host, port), expected, "{host}:{port}");
        }
        assert_eq!(rules.allow(&Host::parse("api.github.com").unwrap(), 443), Ok("*.github.com"));
        assert!(rules.allow_name(&Host::parse("db.test").unwrap()).is_ok());
    }

    #[test]
    fn rules_that_mean_the_same_have_the_same_words() {
        let words = rules(&["b.test:5432", "Example.com.", "*.a.test"]).words();
        assert_eq!(words, ["allow", "*.a.test web", "b.test 5432", "example.com web"]);
        assert_eq!(words, rules(&["example.com", "*.A.test", "b.test:5432", "EXAMPLE.com"]).words());
        assert_eq!(rules(&["a.test:*"]).words(), ["allow", "a.test *"]);
        let [none, open] = [Egress::None, Egress::Open].map(|egress| Rules::parse(&egress).unwrap().words());
        assert_eq!(
            (none, open, rules(&[]).words()),
            (vec!["none".into()], vec!["open".into()], vec!["allow".into()])
        );
    }

    #[test]
    fn names_that_only_look_local_can_be_allowed() {
        for name in ["local.example", "localhost.example", "internal.example", "notlocal", "mylocalhost"] {
            assert_eq!(Host::parse(name).unwrap().never(), None, "{name}");
        }
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        let none = Rules::parse(&Egress::None).unwrap();
        for rules in [rules(&[]), none] {
            assert!(!allows(&rules, "example.com", 443));
            assert!(!rules.is_open());
        }
        assert!(allows(&Rules::parse(&Egress::Open).unwrap(), "example.com", 1));
    }

    #[test]
    fn errors_name_the_rule_and_say_what_to_write() {
        for (rule, says) in [
            ("https://example.com", "leave out"),
            ("example.com/path", "leave out"),
            ("*", "egress = \"open\""),
            ("a.*.com", "at the beginning"),
            ("example.com:0", "no port"),
            ("example.com:+80", "no port"),
            ("example.com:99999", "no port"),
            ("bücher.example", "xn--"),
            ("", "no host name"),
            ("a..b", "no host name"),
            ("-a.test", "no host name"),
            ("127.0.0.1", "loopback"),
            ("10.1.2.3:80", "private"),
            ("169.254.169.254", "link-local"),
            ("[::1]:80", "loopback"),
            ("::1", "in brackets"),
            ("127.1", "ends in a number"),
            ("0x7f000001", "ends in a number"),
            ("*.1.2.3.4", "nothing below an address"),
            ("localhost:22", "this machine itself"),
            ("*.localhost", "this machine itself"),
            ("a.LocalDomain.", "this machine itself"),
            ("*.local", "the local network"),
            ("printer.local:631", "the local network"),
            ("metadata.google.internal", "metadata"),
            ("*.home.arpa", "home networks"),
            ("[::ffff:10.0.0.1]:80", "private"),
            ("[fd00::1]", "private"),
            ("exa mple.com", "no host name"),
        ] {
            let error = Rules::parse(&Egress::Allow(vec![rule.to_owned()])).unwrap_err().to_string();
            assert!(error.contains(&format!("\"{rule}\"")) && error.contains(says), "{rule}: {error}");
            assert!(error.contains("registry.npmjs.org"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}") {
            drop(Rules::parse(&Egress::Allow(vec![text.clone()])));
            drop(Host::parse_with_port(&text));
        }

        #[test]
        fn a_host_that_is_read_is_read_again_alike(text in "[A-Za-z0-9.:_-]{0,40}") {
            if let Ok(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
            }
        }
    }
}
