//! A website with TLS, whose certificate is of an authority that only the test knows. It says back what it is told, in as
//! many ways as it can: it is the server that a secret is for, and does its worst.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::island::ADDRESS;

/// The website. It goes with the test's runtime.
pub(crate) struct Website {
    seen: Arc<Mutex<String>>,
    authority: String,
}

impl Website {
    /// Listens on the island's address for these names.
    pub(crate) async fn open(names: &[&str]) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Some programs take a certificate for its own issuer's if both have one name.
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "the test's authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(SocketAddr::from((ADDRESS, 443))).await.unwrap();
        let seen: Arc<Mutex<String>> = Arc::default();
        let kept = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), Arc::clone(&kept));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper::service::service_fn(|request| {
                        let answer = echo(&request, &seen);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    // A client that goes away is no matter.
                    drop(http.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Self { seen, authority: authority.pem() }
    }

    /// Writes the authority's certificate into a file.
    pub(crate) fn write_authority(&self, path: &Path) {
        std::fs::write(path, &self.authority).unwrap();
    }

    /// The heads of all requests that came.
    pub(crate) fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }
}

type Body = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

/// Says a request back: each header in a header, and in a body of pieces that cut through whatever is in it.
fn echo(request: &Request<Incoming>, seen: &Mutex<String>) -> Response<Body> {
    let mut head = format!("{} {}\n", request.method(), request.uri());
    let mut response = Response::builder();
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
        response = response.header(format!("x-said-{name}"), value);
    }
    seen.lock().unwrap().push_str(&head);
    let pieces: Vec<_> =
        head.as_bytes().chunks(7).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
    response.body(StreamBody::new(stream::iter(pieces))).unwrap()
}
