//! The real network.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;

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
}

/// The network as this machine sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Internet;

#[async_trait::async_trait]
impl Outside for Internet {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
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

/// The certificate authorities that this machine trusts, read once.
pub(super) fn authorities() -> &'static [CertificateDer<'static>] {
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
