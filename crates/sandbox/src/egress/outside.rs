//! The real network.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::lookups;
use crate::{Error, base64};

/// How names are resolved and connections made; the real network unless a test says otherwise.
///
/// Implementers owe: `resolve` asks anew each time, and `connect` goes to exactly the address it is given. Which
/// addresses may be connected to is decided by the caller.
#[async_trait::async_trait]
pub trait Outside: Send + Sync {
    /// The addresses of a name.
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>>;
    /// A connection to an address that was found to be allowed.
    async fn connect(&self, address: SocketAddr) -> std::io::Result<TcpStream>;
    /// What upstream servers' certificates are checked against.
    fn roots(&self) -> Arc<RootCertStore>;
    /// Authorities beside this machine's own that programs inside are to trust too, such as a company's.
    fn more_authorities(&self) -> &[CertificateDer<'static>] {
        &[]
    }
}

/// The network as this machine sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Internet;

#[async_trait::async_trait]
impl Outside for Internet {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        static TURNS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(lookups::OF_ALL)));
        let name = name.to_owned();
        lookups::on_a_thread(&TURNS, move || {
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
        .await
    }

    async fn connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
        ROOTS
            .get_or_init(|| {
                let mut store = RootCertStore::empty();
                let (_, unusable) = store.add_parsable_certificates(authorities().iter().cloned());
                if unusable > 0 {
                    tracing::warn!(unusable, "some of this machine's certificate authorities cannot be used");
                }
                Arc::new(store)
            })
            .clone()
    }
}

/// The same network, where more certificate authorities are trusted than this machine's own.
#[derive(Debug)]
pub struct Trusting {
    more: Vec<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
}

impl Trusting {
    /// Reads the authorities from a file with one or more certificates in PEM.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |why: String| Error::Build {
            message: format!("the certificate authorities in {} cannot be used: {why}", path.display()),
            hint: "give a file with certificates in PEM, each between BEGIN CERTIFICATE and END CERTIFICATE"
                .to_owned(),
        };
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let more: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let more = more.map_err(|error| wrong(error.to_string()))?;
        if more.is_empty() {
            return Err(wrong("it has no certificate".to_owned()));
        }
        let mut roots = (*Internet.roots()).clone();
        for certificate in &more {
            roots.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(Self { more, roots: Arc::new(roots) })
    }
}

#[async_trait::async_trait]
impl Outside for Trusting {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        Internet.resolve(name).await
    }

    async fn connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        Internet.connect(address).await
    }

    fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.roots)
    }

    fn more_authorities(&self) -> &[CertificateDer<'static>] {
        &self.more
    }
}

/// A file of certificates in PEM: this machine's authorities, and these.
pub(super) fn bundle<'a>(more: impl Iterator<Item = &'a CertificateDer<'static>>) -> Vec<u8> {
    let mut bundle = String::new();
    for der in authorities().iter().chain(more) {
        bundle.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = base64::encode(der);
        for line in text.as_bytes().chunks(64) {
            bundle.extend(line.iter().map(|byte| char::from(*byte)));
            bundle.push('\n');
        }
        bundle.push_str("-----END CERTIFICATE-----\n");
    }
    bundle.into_bytes()
}

/// The certificate authorities that this machine trusts, read once.
fn authorities() -> &'static [CertificateDer<'static>] {
    static AUTHORITIES: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    AUTHORITIES.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "some of this machine's certificate authorities cannot be read");
        }
        if found.certs.is_empty() {
            tracing::warn!(
                "this machine has no certificate authorities: install the package ca-certificates"
            );
        }
        found.certs
    })
}
