//! The proxy of one sandbox: takes what arrives at its sockets to whoever decides on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::decide::{Gate, Refusal, Remedy};
use super::lookups::Fair;
use super::secret::Secret;
use super::transparent::Destination;
use super::vault::Vault;
use super::{
    CA_BUNDLE, Narrowing, Outside, PROXY_PORT, Rules, Sink, Sockets, UNKNOWN, datagrams, dns, explicit,
    outside, transparent,
};
use crate::Error;

/// Connections that one sandbox has at the same time.
const CONNECTIONS: usize = 512;

/// Variables that say where the proxy is.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Variables that say where the trusted certificates are.
const CA_VARIABLES: [&str; 7] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
];

/// Every variable that we set; no secret may be called so.
pub(super) const OWN_VARIABLES: [&str; 15] = {
    let mut all = ["NO_PROXY"; 15];
    let mut at = 0;
    while at < 6 {
        all[at] = PROXY_VARIABLES[at];
        at += 1;
    }
    while at < 13 {
        all[at] = CA_VARIABLES[at - 6];
        at += 1;
    }
    all[14] = "no_proxy";
    all
};

/// The proxy of one sandbox. Dropping it ends every connection; the sockets stay with the sandbox.
pub struct Proxy {
    gate: Arc<Gate>,
    token: CancellationToken,
    permits: Arc<Semaphore>,
    _tasks: DropGuard,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").finish_non_exhaustive()
    }
}

impl Drop for Proxy {
    /// Its connections end a moment later, when whoever is told may have gone too.
    fn drop(&mut self) {
        self.gate.tickets().tell_all();
    }
}

impl Proxy {
    /// Serves the sockets. Must be called in a tokio runtime.
    pub fn start(
        sockets: Sockets,
        rules: Rules,
        outside: Arc<dyn Outside>,
        sink: Sink,
    ) -> Result<Self, Error> {
        Self::start_with(sockets, rules, outside, sink, transparent::original())
    }

    /// The same, where the kernel does not lead connections to the sockets: `destination` tells where a connection wants
    /// to go.
    #[doc(hidden)]
    pub fn start_with(
        sockets: Sockets,
        rules: Rules,
        outside: Arc<dyn Outside>,
        sink: Sink,
        destination: Destination,
    ) -> Result<Self, Error> {
        let ready = Ready::new(sockets)
            .map_err(|error| Error::Start(format!("its network cannot be served: {error}")))?;
        let gate = Arc::new(Gate::new(rules, Arc::new(Fair::new(outside)), sink));
        let token = CancellationToken::new();
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        let spawn = {
            let token = token.clone();
            move |task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
                // Whoever waits for the end of the proxy waits for the token, so the handle is of no use.
                drop(tokio::spawn(token.clone().run_until_cancelled_owned(task)));
            }
        };
        spawn(Box::pin(gate.tickets().clone().watch()));
        let too_many = format!("it has {CONNECTIONS} connections already");
        // Where these were to go they have not said yet.
        let refuse = |port: u16| {
            let (gate, refusal) = (gate.clone(), Refusal::new(UNKNOWN, port, &too_many, Remedy::AskAgain));
            move |_: &TcpStream| gate.tell(&refusal)
        };
        let names = Arc::new(dns::Names::new(gate.clone()));
        for socket in ready.dns {
            spawn(Box::pin(names.clone().serve(socket)));
        }
        if let Some(listener) = ready.names {
            let each = {
                let (names, spawn) = (names.clone(), spawn.clone());
                move |stream, permit| {
                    let names = names.clone();
                    spawn(Box::pin(async move {
                        names.serve_stream(stream).await;
                        drop(permit);
                    }));
                }
            };
            spawn(Box::pin(accept(listener, permits.clone(), each, refuse(dns::PORT))));
        }
        for socket in ready.datagrams {
            spawn(Box::pin(datagrams::serve(gate.clone(), socket)));
        }
        let each = {
            let (gate, spawn) = (gate.clone(), spawn.clone());
            move |stream, permit| {
                let served = explicit::serve(gate.clone(), stream);
                spawn(Box::pin(async move {
                    served.await;
                    drop(permit);
                }));
            }
        };
        spawn(Box::pin(accept(ready.proxy, permits.clone(), each, refuse(0))));
        for listener in ready.transparent {
            let each = {
                let (gate, spawn, destination) = (gate.clone(), spawn.clone(), destination.clone());
                let names = names.clone();
                move |stream, permit| {
                    let served = transparent::serve(gate.clone(), names.clone(), stream, destination.clone());
                    spawn(Box::pin(async move {
                        served.await;
                        drop(permit);
                    }));
                }
            };
            let (gate, destination, too_many) = (gate.clone(), destination.clone(), too_many.clone());
            let refuse = move |stream: &TcpStream| {
                transparent::refuse(&gate, stream, &destination, &too_many);
            };
            spawn(Box::pin(accept(listener, permits.clone(), each, refuse)));
        }
        Ok(Self { gate, token: token.clone(), permits, _tasks: token.drop_guard() })
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Serves a connection of this process as one of a program inside that knows of the proxy.
    pub(super) fn serve_explicit(&self, stream: tokio::io::DuplexStream) {
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            let why = format!("it has {CONNECTIONS} connections already");
            return self.gate.tell(&Refusal::new(UNKNOWN, 0, why, Remedy::AskAgain));
        };
        let served = explicit::speak(self.gate.clone(), stream);
        let task = async move {
            served.await;
            drop(permit);
        };
        drop(tokio::spawn(self.token.clone().run_until_cancelled_owned(task)));
    }

    /// Changes what is allowed, from the next connection on.
    pub fn set_rules(&self, rules: Rules) {
        self.gate.set_rules(rules);
    }

    /// Changes what policies refuse of what is allowed, from the next connection on.
    pub fn narrow(&self, narrowing: Narrowing) {
        self.gate.set_rules(Rules::clone(&self.gate.rules()).narrowed(narrowing));
    }

    /// Changes who is told of decisions.
    pub fn set_sink(&self, sink: Sink) {
        self.gate.set_sink(sink);
    }

    /// Gives the secrets of a claimed sandbox; a new authority for its certificates is made in memory. What
    /// [`Self::variables`] and [`Self::ca_bundle`] say afterwards must then be put inside.
    pub fn set_secrets(&self, secrets: Vec<Secret>) -> Result<(), Error> {
        let vault = if secrets.is_empty() { None } else { Some(Arc::new(Vault::new(secrets)?)) };
        self.gate.set_vault(vault);
        Ok(())
    }

    /// Replaces the values of secrets that it was given, from the next request on. Nothing changes inside.
    pub fn renew_secrets(&self, secrets: Vec<Secret>) {
        if let Some(vault) = self.gate.vault() {
            vault.renew(secrets);
        }
    }

    /// Variables for the processes inside: where the proxy is, which certificates to trust, and each secret's placeholder.
    pub fn variables(&self) -> BTreeMap<String, String> {
        let set = |names: &[&str], value: &str| -> Vec<(String, String)> {
            names.iter().map(|name| ((*name).to_owned(), value.to_owned())).collect()
        };
        let mut variables = BTreeMap::new();
        variables.extend(set(&PROXY_VARIABLES, &format!("http://127.0.0.1:{PROXY_PORT}")));
        variables.extend(set(&["NO_PROXY", "no_proxy"], "localhost,127.0.0.1,::1"));
        if !self.gate.more_authorities().is_empty() {
            variables.extend(set(&CA_VARIABLES, CA_BUNDLE));
        }
        if let Some(vault) = self.gate.vault() {
            variables.extend(vault.variables());
        }
        variables
    }

    /// The file to put at [`CA_BUNDLE`]: the host's authorities, those that are trusted beside them, and the sandbox's own.
    /// None where the host's are all there are, because there are no secrets.
    pub fn ca_bundle(&self) -> Option<Vec<u8>> {
        let more = self.gate.more_authorities();
        (!more.is_empty()).then(|| outside::bundle(more.iter()))
    }
}

/// The sockets as this runtime uses them, those for IPv6 beside the others.
struct Ready {
    transparent: Vec<TcpListener>,
    proxy: TcpListener,
    dns: Vec<tokio::net::UdpSocket>,
    names: Option<TcpListener>,
    datagrams: Vec<tokio::net::UdpSocket>,
}

impl Ready {
    fn new(sockets: Sockets) -> std::io::Result<Self> {
        let listener = |listener: std::net::TcpListener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        let socket = |socket: std::net::UdpSocket| {
            socket.set_nonblocking(true)?;
            tokio::net::UdpSocket::from_std(socket)
        };
        let mut ready = Self {
            transparent: sockets.transparent.map(listener).transpose()?.into_iter().collect(),
            proxy: listener(sockets.proxy)?,
            dns: vec![socket(sockets.dns)?],
            names: sockets.names.map(listener).transpose()?,
            datagrams: sockets.datagrams.map(socket).transpose()?.into_iter().collect(),
        };
        if let Some(ipv6) = sockets.ipv6 {
            ready.transparent.push(listener(ipv6.transparent)?);
            ready.dns.push(socket(ipv6.dns)?);
            ready.datagrams.push(socket(ipv6.datagrams)?);
        }
        Ok(ready)
    }
}

/// Takes connections, as many at a time as there are permits.
async fn accept(
    listener: TcpListener,
    permits: Arc<Semaphore>,
    each: impl Fn(TcpStream, tokio::sync::OwnedSemaphorePermit),
    too_many: impl Fn(&TcpStream),
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match permits.clone().try_acquire_owned() {
                Ok(permit) => each(stream, permit),
                Err(_) => too_many(&stream),
            },
            Err(error) => {
                tracing::warn!(%error, "a sandbox's connection was not taken");
                // Such as too many open files: it passes, but not at once.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
