//! The one place where it is decided what is let through. Every way out of a sandbox asks here, and every decision is
//! told from here.
//!
//! A name is looked up once for each connection, every address is checked, and what is returned ([`Way`]) holds the
//! addresses that were checked. Connecting takes a [`Way`], so there is no second look-up that could say something else.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;

use super::address::never;
use super::narrow::Narrowing;
use super::pace::Pace;
use super::pins::{Age, Pins};
use super::rules::Host;
use super::stream::Outbound;
use super::ticket::Tickets;
use super::vault::Vault;
use super::{Decision, Outside, Rules, Sink, dns, rule_for, with_port};

/// A name must be resolved within this time.
const LOOKUP: Duration = Duration::from_secs(5);

/// A connection must be made within this time, all addresses together.
const CONNECT: Duration = Duration::from_secs(10);

/// Addresses of a name that are tried; a name can have thousands.
const ADDRESSES: usize = 16;

/// What all connections of one sandbox share.
pub(super) struct Gate {
    rules: RwLock<Arc<Rules>>,
    sink: RwLock<Sink>,
    vault: RwLock<Option<Arc<Vault>>>,
    outside: Arc<dyn Outside>,
    pins: Mutex<Pins>,
    pace: Pace,
    tickets: Arc<Tickets>,
    upstream_tls: OnceLock<Arc<rustls::ClientConfig>>,
}

/// A way that is allowed: the addresses were checked.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) host: Host,
    pub(super) port: u16,
    rule: String,
    addresses: Vec<SocketAddr>,
}

/// Why a connection is not made.
#[derive(Debug)]
pub(super) enum Stop {
    /// It is not allowed.
    Refused(Refusal),
    /// It is allowed, and does not work.
    Unreachable(String),
}

/// What was refused, and why.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) why: String,
    pub(super) remedy: Remedy,
}

/// What a user can do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Allow the host.
    Allow,
    /// Nothing: it is refused whatever the rules say.
    Nothing,
    /// Ask in another way: what is said is not understood, or can be understood in two ways.
    AskAgain,
}

impl Refusal {
    pub(super) fn new(host: impl ToString, port: u16, why: impl Into<String>, remedy: Remedy) -> Self {
        Self { host: host.to_string(), port, why: why.into(), remedy }
    }
}

impl Refusal {
    /// What whoever is refused is told: why, and what a person can do in the environment of this name.
    fn message(&self, environment: Option<&str>) -> String {
        let Self { host, port, why, remedy } = self;
        let refused = format!("slipway: {} is refused: {why}.", with_port(host, *port));
        let rule = rule_for(host, *port);
        match (remedy, environment) {
            (Remedy::Allow, Some(name)) => format!("{refused} To allow it: slipway env allow {name} {rule}"),
            (Remedy::Allow, None) => {
                format!("{refused} To allow it, add {rule} to the environment's egress.")
            }
            (Remedy::Nothing, _) => format!("{refused} No rule can allow it."),
            (Remedy::AskAgain, _) => refused,
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Gate {
    pub(super) fn new(rules: Rules, outside: Arc<dyn Outside>, sink: Sink) -> Self {
        Self {
            rules: RwLock::new(Arc::new(rules)),
            sink: RwLock::new(sink),
            vault: RwLock::new(None),
            outside,
            pins: Mutex::new(Pins::default()),
            pace: Pace::default(),
            tickets: Arc::default(),
            upstream_tls: OnceLock::new(),
        }
    }

    pub(super) fn set_rules(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    pub(super) fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_sink(&self, sink: Sink) {
        *self.sink.write().unwrap_or_else(PoisonError::into_inner) = sink;
    }

    pub(super) fn sink(&self) -> Sink {
        self.sink.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_vault(&self, vault: Option<Arc<Vault>>) {
        *self.vault.write().unwrap_or_else(PoisonError::into_inner) = vault;
    }

    pub(super) fn vault(&self) -> Option<Arc<Vault>> {
        self.vault.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How servers outside are spoken to when secrets go to them.
    pub(super) fn upstream_tls(&self) -> Result<Arc<rustls::ClientConfig>, rustls::Error> {
        if let Some(ready) = self.upstream_tls.get() {
            return Ok(ready.clone());
        }
        let made = super::tls::client_config(self.outside.roots())?;
        Ok(self.upstream_tls.get_or_init(|| Arc::new(made)).clone())
    }

    /// What servers' certificates are checked against.
    pub(super) fn roots(&self) -> Arc<rustls::RootCertStore> {
        self.outside.roots()
    }

    /// Authorities beside this machine's own that programs inside are to trust: the last is the sandbox's own, if it has
    /// secrets.
    pub(super) fn more_authorities(&self) -> Vec<CertificateDer<'static>> {
        let own = self.vault().map(|vault| vault.authority().clone());
        self.outside.more_authorities().iter().cloned().chain(own).collect()
    }

    /// Tells of a refusal.
    pub(super) fn tell(&self, refusal: &Refusal) {
        self.sink()(Decision {
            host: refusal.host.clone(),
            port: refusal.port,
            allowed: false,
            can_be_allowed: refusal.remedy == Remedy::Allow,
            rule: refusal.why.clone(),
            connections: 1,
            sent: 0,
            received: 0,
        });
    }

    /// Tells that a question for a name goes out. It is not told with a connection, which may never be made.
    pub(super) fn tell_asking(&self, host: &Host, rule: &str, bytes: usize) {
        self.tell_question(host, rule, 1, (bytes, 0));
    }

    /// Tells what a question that went out was answered with.
    pub(super) fn tell_answered(&self, host: &Host, rule: &str, bytes: usize) {
        self.tell_question(host, rule, 0, (0, bytes));
    }

    fn tell_question(&self, host: &Host, rule: &str, connections: u32, (sent, received): (usize, usize)) {
        self.sink()(Decision {
            host: host.to_string(),
            port: dns::PORT,
            allowed: true,
            can_be_allowed: true,
            rule: rule.to_owned(),
            connections,
            sent: sent as u64,
            received: received as u64,
        });
    }

    /// The connections that are open.
    pub(super) fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }

    /// Returns when a host that is allowed may be come to; see [`Pace`]. Whoever returns a [`Way`] has waited for this.
    pub(super) async fn turn(&self, host: &Host, port: u16) {
        self.pace.turn(host, port).await;
    }

    /// Whether a host may be connected to on a port; the rule that says so.
    pub(super) fn permit(&self, host: &Host, port: u16) -> Result<String, Refusal> {
        let rules = self.rules();
        match rules.allow(host, port) {
            Ok(rule) => Ok(rule.to_owned()),
            Err(why) => Err(refusal(host, port, why)),
        }
    }

    /// Whether a host's name may be asked for, and the rule that says so; it is told with the port of questions if not.
    pub(super) fn permit_name(&self, host: &Host) -> Result<String, Refusal> {
        let rules = self.rules();
        rules.allow_name(host).map(str::to_owned).map_err(|why| refusal(host, dns::PORT, why))
    }

    /// What whoever is refused is told.
    pub(super) fn explain(&self, refusal: &Refusal) -> String {
        refusal.message(self.rules().environment())
    }

    /// The way to a host that was asked for by name (or literally by address).
    pub(super) async fn reach(&self, host: &Host, port: u16) -> Result<Way, Stop> {
        let rule = self.permit(host, port)?;
        self.turn(host, port).await;
        // Dropped when it fails, or when nobody waits for it any more, it is told like a connection that was not made.
        let ticket = self.tickets.issue(self.sink(), host, port, &rule);
        let found = self.look_up(host).await.map_err(Stop::Unreachable)?;
        ticket.cancel();
        let mut refused = None;
        let mut addresses = Vec::new();
        for address in found {
            match never(address) {
                Some(why) => refused = Some((address, why)),
                None => addresses.push(SocketAddr::new(address, port)),
            }
        }
        match refused {
            Some((address, why)) if addresses.is_empty() => {
                if let Host::Name(_) = host {
                    // Refusals can be told in one sum; whose name went out must not get lost in it.
                    self.tell_asking(host, &rule, 0);
                }
                Err(leads_to(host, port, address, &why).into())
            }
            _ => Ok(Way { host: host.clone(), port, rule, addresses }),
        }
    }

    /// The way to an address that was connected to under a name which the connection itself tells. Both must agree: the
    /// address must be one that the name has.
    pub(super) async fn agree(&self, host: &Host, to: SocketAddr) -> Result<Way, Stop> {
        let rule = self.permit(host, to.port())?;
        self.check(host, to)?;
        self.turn(host, to.port()).await;
        if !self.has(host, to.ip(), &rule).await {
            let why = format!("{} is not an address of it", to.ip());
            return Err(Refusal::new(host, to.port(), why, Remedy::Nothing).into());
        }
        Ok(Way { host: host.clone(), port: to.port(), rule, addresses: vec![to] })
    }

    /// The way to an address, when the connection tells no name: one of the names that were answered with that address
    /// must be allowed and fit, or the address itself be allowed.
    pub(super) async fn by_address(&self, to: SocketAddr, fits: impl Fn(&Host) -> bool) -> Result<Way, Stop> {
        let named = self.name_of(to.ip());
        self.check(named.as_ref().unwrap_or(&Host::Address(to.ip())), to)?;
        let names = self.pins().names(to.ip(), Instant::now());
        for (name, age) in names {
            let host = Host::Name(name);
            if !fits(&host) {
                continue;
            }
            let Ok(rule) = self.permit(&host, to.port()) else { continue };
            if age == Age::Fresh || self.has(&host, to.ip(), &rule).await {
                self.turn(&host, to.port()).await;
                return Ok(Way { host, port: to.port(), rule, addresses: vec![to] });
            }
        }
        self.literally(to).await.map_err(|refusal| match named {
            Some(name) => Refusal::new(name, refusal.port, refusal.why, refusal.remedy).into(),
            None => refusal.into(),
        })
    }

    /// The way to an address that is allowed as an address, whatever its names.
    pub(super) async fn literally(&self, to: SocketAddr) -> Result<Way, Refusal> {
        let host = Host::Address(to.ip());
        let rule = self.permit(&host, to.port())?;
        self.check(&host, to)?;
        self.turn(&host, to.port()).await;
        Ok(Way { host, port: to.port(), rule, addresses: vec![to] })
    }

    /// Refuses addresses that are never let through.
    pub(super) fn check(&self, host: &Host, to: SocketAddr) -> Result<(), Refusal> {
        match never(to.ip()) {
            Some(why) => {
                let why = format!("{} is {why}", to.ip());
                Err(Refusal::new(host, to.port(), why, Remedy::Nothing))
            }
            None => Ok(()),
        }
    }

    /// The name that was last answered with this address.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<Host> {
        self.names_of(address).into_iter().next()
    }

    /// All names that were answered with this address, latest first.
    pub(super) fn names_of(&self, address: IpAddr) -> Vec<Host> {
        let names = self.pins().names(address, Instant::now());
        names.into_iter().map(|(name, _)| Host::Name(name)).collect()
    }

    /// Whether a host that this rule allows has this address: we answered so, or a fresh look-up says so.
    async fn has(&self, host: &Host, address: IpAddr, rule: &str) -> bool {
        let name = match host {
            Host::Address(literal) => return literal.to_canonical() == address.to_canonical(),
            Host::Name(name) => name,
        };
        let pinned = self.pins().names(address, Instant::now());
        if pinned.iter().any(|(known, age)| known == name && *age == Age::Fresh) {
            return true;
        }
        self.tell_asking(host, rule, 0);
        match self.look_up(host).await {
            Ok(found) if found.contains(&address) => {
                self.pins().pin(name, address, Instant::now());
                true
            }
            // A name that cannot be looked up has no address, so it does not have this one.
            Ok(_) | Err(_) => false,
        }
    }

    /// The addresses to answer a question for a name with; they are remembered. A name that has none but such as are
    /// never let through is told as refused.
    pub(super) async fn answer(&self, host: &Host) -> Result<Vec<IpAddr>, String> {
        let found = self.look_up(host).await?;
        let refused = found.iter().find_map(|address| never(*address).map(|why| (*address, why)));
        let public: Vec<_> =
            found.into_iter().filter(|found| found.is_ipv4() && never(*found).is_none()).collect();
        if let (Some((address, why)), true) = (refused, public.is_empty()) {
            self.tell(&leads_to(host, dns::PORT, address, &why));
        }
        let now = Instant::now();
        let mut pins = self.pins();
        for address in &public {
            pins.pin(&host.to_string(), *address, now);
        }
        Ok(public)
    }

    async fn look_up(&self, host: &Host) -> Result<Vec<IpAddr>, String> {
        let name = match host {
            Host::Address(address) => return Ok(vec![address.to_canonical()]),
            Host::Name(name) => name,
        };
        let mut found = match tokio::time::timeout(LOOKUP, self.outside.resolve(name)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(format!("{name} cannot be resolved: {error}")),
            Err(_) => {
                return Err(format!("{name} cannot be resolved: no answer within {} s", LOOKUP.as_secs()));
            }
        };
        found.iter_mut().for_each(|address| *address = address.to_canonical());
        found.truncate(ADDRESSES);
        if found.is_empty() {
            return Err(format!("{name} has no address"));
        }
        Ok(found)
    }

    /// Connects along a way. What becomes of the connection is told while it is open and when it ends.
    pub(super) async fn connect(&self, way: &Way) -> Result<Outbound, Stop> {
        let ticket = self.tickets.issue(self.sink(), &way.host, way.port, &way.rule);
        let attempts = async {
            let mut last = None;
            for address in &way.addresses {
                match self.outside.connect(*address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = Some(error.to_string()),
                }
            }
            Err(last.unwrap_or_else(|| "it has no address".to_owned()))
        };
        let failed = match tokio::time::timeout(CONNECT, attempts).await {
            Ok(Ok(stream)) => return Ok(Outbound::new(stream, ticket)),
            Ok(Err(why)) => why,
            Err(_) => format!("no connection within {} s", CONNECT.as_secs()),
        };
        Err(Stop::Unreachable(format!("{} cannot be reached: {failed}", way.target())))
    }
}

/// A host that has no address but such as are never let through.
fn leads_to(host: &Host, port: u16, address: IpAddr, why: &str) -> Refusal {
    let why = match host {
        Host::Address(_) => format!("it is {why}"),
        Host::Name(_) => format!("it resolves to {address}, which is {why}"),
    };
    Refusal::new(host, port, why, Remedy::Nothing)
}

/// A host that no rule allows: one could be added, unless it would never take effect.
fn refusal(host: &Host, port: u16, why: &str) -> Refusal {
    match host.never() {
        Some(never) => Refusal::new(host, port, never, Remedy::Nothing),
        None if [Narrowing::ASKS, Narrowing::DENIED].contains(&why) => {
            Refusal::new(host, port, why, Remedy::AskAgain)
        }
        None => Refusal::new(host, port, why, Remedy::Allow),
    }
}

impl Way {
    pub(super) fn rule(&self) -> &str {
        &self.rule
    }

    /// Host and port, as they are written.
    pub(super) fn target(&self) -> String {
        with_port(&self.host.to_string(), self.port)
    }
}
