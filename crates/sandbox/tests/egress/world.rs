//! A made-up outside, servers in it, and a proxy in front of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use protocol::Egress;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject};
use sandbox::egress::{Decision, Outside, Proxy, Rules, Sockets};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// An address of the made-up outside: 203.0.113.N.
pub(crate) fn public(n: u8) -> IpAddr {
    [203, 0, 113, n].into()
}

/// The outside: names with the answers they will give, one after the other, and servers behind public addresses.
pub(crate) struct Fake {
    pub(crate) names: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    pub(crate) asked: Mutex<Vec<String>>,
    /// Names that are never answered.
    pub(crate) slow: Mutex<HashSet<String>>,
    pub(crate) routes: Mutex<HashMap<SocketAddr, SocketAddr>>,
    pub(crate) connected: Mutex<Vec<SocketAddr>>,
    /// The requests that servers with TLS got.
    pub(crate) requests: Arc<Mutex<String>>,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self {
            names: Mutex::default(),
            asked: Mutex::default(),
            slow: Mutex::default(),
            routes: Mutex::default(),
            connected: Mutex::default(),
            requests: Arc::default(),
            authority: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
        }
    }
}

#[async_trait::async_trait]
impl Outside for Fake {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let slow = self.slow.lock().unwrap().contains(name);
        if slow {
            std::future::pending::<()>().await;
        }
        let mut names = self.names.lock().unwrap();
        let answers = names.get_mut(name).ok_or_else(|| std::io::Error::other("no such name"))?;
        // The last answer is given again and again.
        Ok(if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() })
    }

    async fn connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        self.connected.lock().unwrap().push(address);
        let route = self.routes.lock().unwrap().get(&address).copied();
        TcpStream::connect(route.ok_or_else(|| std::io::Error::other("nobody is there"))?).await
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        Arc::new(roots)
    }
}

/// A proxy with everything around it.
pub(crate) struct World {
    pub(crate) proxy: Option<Proxy>,
    pub(crate) outside: Arc<Fake>,
    pub(crate) explicit: SocketAddr,
    pub(crate) transparent: SocketAddr,
    pub(crate) dns: SocketAddr,
    pub(crate) names: SocketAddr,
    pub(crate) datagrams: SocketAddr,
    /// Our own copies of the listeners, as the sandbox has them.
    pub(crate) kept: Vec<std::net::TcpListener>,
    decisions: tokio::sync::watch::Receiver<Vec<Decision>>,
    destinations: Arc<Mutex<HashMap<SocketAddr, SocketAddr>>>,
}

impl World {
    pub(crate) fn allow(rules: &[&str]) -> Self {
        Self::new(&Egress::Allow(rules.iter().map(|&rule| rule.to_owned()).collect()))
    }

    pub(crate) fn new(egress: &Egress) -> Self {
        let outside = Arc::new(Fake::new());
        let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (transparent, proxy, names, dns, datagrams) = (listen(), listen(), listen(), socket(), socket());
        let destinations: Arc<Mutex<HashMap<SocketAddr, SocketAddr>>> = Arc::default();
        let (sender, decisions) = tokio::sync::watch::channel(Vec::new());
        let known = destinations.clone();
        let mut world = Self {
            proxy: None,
            outside: outside.clone(),
            explicit: proxy.local_addr().unwrap(),
            transparent: transparent.local_addr().unwrap(),
            dns: dns.local_addr().unwrap(),
            names: names.local_addr().unwrap(),
            datagrams: datagrams.local_addr().unwrap(),
            kept: vec![proxy.try_clone().unwrap(), transparent.try_clone().unwrap()],
            decisions,
            destinations,
        };
        let started = Proxy::start_with(
            Sockets {
                transparent: Some(transparent),
                proxy,
                dns,
                names: Some(names),
                datagrams: Some(datagrams),
                ipv6: None,
            },
            Rules::parse(egress).unwrap().of("shop"),
            outside,
            Arc::new(move |decision| sender.send_modify(|all| all.push(decision))),
            Arc::new(move |stream| {
                let from = stream.peer_addr()?;
                known.lock().unwrap().get(&from).copied().ok_or_else(|| std::io::Error::other("not led here"))
            }),
        );
        world.proxy = Some(started.unwrap());
        world
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().unwrap()
    }

    /// A name gives these answers.
    pub(crate) fn name(&self, name: &str, answers: &[&[IpAddr]]) {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        self.outside.names.lock().unwrap().insert(name.to_owned(), answers);
    }

    /// A name has this address, and this server is there.
    pub(crate) fn host(&self, name: &str, n: u8, port: u16, server: SocketAddr) {
        self.name(name, &[&[public(n)]]);
        self.outside.routes.lock().unwrap().insert((public(n), port).into(), server);
    }

    /// A connection to the explicit proxy.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.explicit).await.unwrap()
    }

    /// A connection to an address outside, by a program that knows of no proxy.
    pub(crate) async fn connect_to(&self, to: impl Into<SocketAddr>) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        self.destinations.lock().unwrap().insert(socket.local_addr().unwrap(), to.into());
        socket.connect(self.transparent).await.unwrap()
    }

    /// Sends bytes to the explicit proxy and reads the answer until its end.
    pub(crate) async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        read_all(&mut stream).await
    }

    /// A tunnel by CONNECT.
    pub(crate) async fn tunnel(&self, authority: &str) -> TcpStream {
        let mut stream = self.connect().await;
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        stream
    }

    /// Waits for a decision.
    pub(crate) async fn decided(&self, like: impl Fn(&Decision) -> bool) -> Decision {
        let mut decisions = self.decisions.clone();
        let waiting = decisions.wait_for(|all| all.iter().any(&like));
        let all = match tokio::time::timeout(Duration::from_secs(10), waiting).await {
            Ok(all) => all.unwrap().clone(),
            Err(_) => panic!("no such decision in {:?}", self.decisions.borrow()),
        };
        all.into_iter().find(like).unwrap()
    }

    /// Waits until what was told of allowed connections to a host is, in sum, like this.
    pub(crate) async fn let_through(
        &self,
        host: &str,
        port: u16,
        like: impl Fn(&Decision) -> bool,
    ) -> Decision {
        let sum = |all: &[Decision]| {
            let alike = all.iter().filter(|d| d.allowed && d.host == host && d.port == port);
            alike.cloned().reduce(|a, b| Decision {
                connections: a.connections + b.connections,
                sent: a.sent + b.sent,
                received: a.received + b.received,
                ..a
            })
        };
        let mut decisions = self.decisions.clone();
        let waiting = decisions.wait_for(|all| sum(all).is_some_and(|sum| like(&sum)));
        match tokio::time::timeout(Duration::from_secs(10), waiting).await {
            Ok(all) => sum(&all.unwrap()).unwrap(),
            Err(_) => panic!("no such decisions in {:?}", self.decisions.borrow()),
        }
    }

    pub(crate) fn decisions(&self) -> Vec<Decision> {
        self.decisions.borrow().clone()
    }

    /// What a client inside trusts: the servers, and the sandbox's own authority.
    pub(crate) fn trust(&self) -> RootCertStore {
        let mut roots = (*self.outside.roots()).clone();
        let bundle = self.proxy().ca_bundle().unwrap_or_default();
        // The last one is the sandbox's own; those before it are this machine's.
        if let Some(own) = CertificateDer::pem_slice_iter(&bundle).last() {
            roots.add(own.unwrap()).unwrap();
        }
        roots
    }

    /// TLS over a stream, as a client inside.
    pub(crate) async fn tls<S>(&self, name: &str, stream: S) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = client_config(self.trust());
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from(name.to_owned()).unwrap(), stream)
            .await
    }

    /// The same, by a client that does not say which name it wants.
    pub(crate) async fn nameless_tls<S>(&self, name: &str, stream: S) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut config = client_config(self.trust());
        config.enable_sni = false;
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from(name.to_owned()).unwrap(), stream)
            .await
    }

    /// A server with TLS for these names.
    pub(crate) async fn tls_server(&self, names: &[&str]) -> SocketAddr {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &self.outside.authority).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = self.outside.requests.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, requests) = (acceptor.clone(), requests.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve_echo(stream, requests).await;
                    }
                });
            }
        });
        address
    }
}

pub(crate) fn client_config(roots: RootCertStore) -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth()
}

/// A server without TLS that says back what it was asked.
pub(crate) async fn http_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve_echo(stream, Arc::default()));
        }
    });
    address
}

/// A server that speaks first and then says back every byte.
pub(crate) async fn talkative_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                stream.write_all(b"hello\n").await.unwrap();
                let (mut read, mut write) = stream.split();
                drop(tokio::io::copy(&mut read, &mut write).await);
            });
        }
    });
    address
}

/// A server that says nothing until it is spoken to, and then says back every byte.
pub(crate) async fn quiet_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                drop(tokio::io::copy(&mut read, &mut write).await);
            });
        }
    });
    address
}

async fn serve_echo<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    requests: Arc<Mutex<String>>,
) {
    let service = hyper::service::service_fn(|request| {
        let requests = requests.clone();
        async move { Ok::<_, hyper::Error>(echo(request, &requests).await) }
    });
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    drop(served.with_upgrades().await);
}

/// Says back the whole request in the body, and credentials in a header too. `/gzip` and the like claim to be
/// compressed; a WebSocket becomes an echo of bytes.
async fn echo(mut request: Request<Incoming>, requests: &Mutex<String>) -> Response<Full<Bytes>> {
    if request.headers().get("upgrade").is_some_and(|upgrade| upgrade == "websocket") {
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgraded.await.unwrap());
            let mut buffer = [0; 1024];
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                stream.write_all(&buffer[..read]).await.unwrap();
            }
        });
        let compressed = request.headers().contains_key("sec-websocket-extensions");
        let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        return response
            .header("x-compressed", compressed.to_string())
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .body(Full::default())
            .unwrap();
    }
    let mut text = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    let credentials = request.headers().get("authorization").cloned();
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    text.push_str(&format!("body: {}\n", String::from_utf8_lossy(&body)));
    requests.lock().unwrap().push_str(&text);
    let mut response = Response::new(Full::new(Bytes::from(text)));
    if let Some(credentials) = credentials {
        response.headers_mut().insert("x-echo", credentials);
    }
    let compressed: &[(&str, &str)] = match path.as_str() {
        "/gzip" => &[("content-encoding", "gzip")],
        "/gzip-removed" => &[("content-encoding", "gzip"), ("connection", "content-encoding")],
        "/gzip-transfer" => &[("transfer-encoding", "gzip, chunked")],
        "/gzip-transfer-twice" => &[("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")],
        "/chunked" => &[("transfer-encoding", "chunked")],
        _ => &[],
    };
    for (name, value) in compressed {
        response.headers_mut().append(*name, value.parse().unwrap());
    }
    response
}

/// Reads until the end, however it comes.
pub(crate) async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            bytes.extend_from_slice(&buffer[..read]);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reading).await.expect("the stream does not end");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the head of an answer, and nothing after it.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// Reads exactly one answer with a Content-Length.
pub(crate) async fn read_answer(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let head = read_head(stream).await;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .expect("a length")
        .parse()
        .unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    head + &String::from_utf8(body).unwrap()
}

/// Whether the other side ended the connection with a reset.
pub(crate) async fn is_reset(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 64];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut buffer)).await.expect("no end");
    matches!(read, Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset)
}
