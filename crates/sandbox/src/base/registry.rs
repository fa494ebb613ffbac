//! Images of a registry.
//!
//! A tag is asked for again each time, so that it can move. Where the registry cannot be reached, what the tag was the
//! last time is used, and that is said.

use std::time::Duration;

use futures_util::StreamExt;
use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::errors::{DigestError, OciDistributionError};
use oci_client::secrets::RegistryAuth;
use serde::{Deserialize, Serialize};

use super::credentials;
use super::digest::Digest;
use super::manifest::{ACCEPTED, Descriptor, Manifest, choose};
use super::oci::{Origin, Sink, Trouble};
use super::progress::Progress;
use super::{Bases, Resolved};
use crate::Error;

/// What a name stood for when it was last asked for.
#[derive(Serialize, Deserialize)]
struct Tag {
    name: String,
    manifest: Digest,
}

struct Registry<'a> {
    client: Client,
    name: &'a Reference,
    login: RegistryAuth,
}

impl<'a> Registry<'a> {
    fn open(name: &'a Reference, login: RegistryAuth) -> Result<Self, Error> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Somebody else may install one at the same moment, which is as good.
            let _installed = rustls::crypto::ring::default_provider().install_default();
        }
        let registry = name.resolve_registry();
        let protocol = match is_loopback(registry) {
            true => ClientProtocol::HttpsExcept(vec![registry.to_owned()]),
            false => ClientProtocol::Https,
        };
        let config = ClientConfig {
            protocol,
            connect_timeout: Some(Duration::from_secs(15)),
            read_timeout: Some(Duration::from_secs(60)),
            user_agent: concat!("slipway/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|error| explain(name, &error))?;
        Ok(Self { client, name, login })
    }

    /// The manifest for this machine.
    async fn manifest(&self) -> Result<Vec<u8>, Refused> {
        let mut name = self.name.clone();
        // A list may name lists, but not for ever.
        for _ in 0..3 {
            let (bytes, _) = self
                .client
                .pull_manifest_raw(&name, &self.login, ACCEPTED)
                .await
                .map_err(Refused::Registry)?;
            match Manifest::parse(&bytes).map_err(Refused::Other)? {
                Manifest::Image { .. } => return Ok(bytes.to_vec()),
                Manifest::List(list) => {
                    let chosen = choose(list).map_err(Refused::Other)?;
                    name = self.name.clone_with_digest(chosen.digest.to_string());
                }
            }
        }
        Err(Refused::Other(Error::Build {
            message: format!("{} is a list of lists of lists", self.name),
            hint: "name the image for this machine by its digest".to_owned(),
        }))
    }
}

enum Refused {
    Registry(OciDistributionError),
    Other(Error),
}

#[async_trait::async_trait]
impl Origin for Registry<'_> {
    async fn fetch(&self, blob: &Descriptor, sink: &mut Sink<'_>) -> Result<(), Trouble> {
        let trouble = |error: &OciDistributionError| match passing(error) {
            true => Trouble::Passing(explain(self.name, error)),
            false => Trouble::Lasting(explain(self.name, error)),
        };
        let digest = blob.digest.to_string();
        let mut stream = self
            .client
            .pull_blob_stream(self.name, digest.as_str())
            .await
            .map_err(|error| trouble(&error))?
            .stream;
        while let Some(bytes) = stream.next().await {
            match bytes {
                Ok(bytes) => sink.write(&bytes)?,
                // The sink says so itself, and with what it should have been.
                Err(error) if error.get_ref().is_some_and(|inner| inner.is::<DigestError>()) => break,
                Err(error) => {
                    let error = OciDistributionError::IoError(error);
                    return Err(Trouble::Passing(explain(self.name, &error)));
                }
            }
        }
        Ok(())
    }
}

impl Bases {
    pub(super) async fn registry(
        &self,
        name: &Reference,
        progress: &Progress<'_>,
    ) -> Result<Resolved, Error> {
        let record = Digest::of(name.whole().as_bytes());
        let known = match self.cache.record::<Tag>("tags", record.hex())? {
            Some(tag) => self.known_image(&tag.manifest).await?,
            None => None,
        };
        if name.digest().is_some()
            && let Some(known) = known
        {
            return Ok(known);
        }
        let login = credentials::login(self.logins.as_deref(), name.resolve_registry(), progress)?;
        let registry = Registry::open(name, login)?;
        let manifest = match (registry.manifest().await, known) {
            (Ok(manifest), _) => manifest,
            (Err(Refused::Registry(error)), Some(known)) if passing(&error) => {
                progress.say(format!(
                    "{} cannot be reached; using {name} as it was the last time ({})",
                    name.resolve_registry(),
                    known.key
                ));
                return Ok(known);
            }
            (Err(Refused::Registry(error)), _) => return Err(explain(name, &error)),
            (Err(Refused::Other(error)), _) => return Err(error),
        };
        let resolved = self.image(&registry, &manifest, progress).await?;
        let tag = Tag { name: name.whole(), manifest: Digest::of(&manifest) };
        self.cache.keep("tags", record.hex(), &tag)?;
        Ok(resolved)
    }
}

/// Whether a registry is on this machine, where it is asked without TLS.
pub(super) fn is_loopback(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether it may work another time.
fn passing(error: &OciDistributionError) -> bool {
    match error {
        OciDistributionError::RequestError(_) | OciDistributionError::IoError(_) => true,
        OciDistributionError::ServerError { code, .. } => *code >= 500 || *code == 429,
        _ => false,
    }
}

fn explain(name: &Reference, error: &OciDistributionError) -> Error {
    use OciDistributionError as E;
    let registry = name.resolve_registry();
    let (message, hint) = match error {
        E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => (
            format!("{registry} does not give {name} to us"),
            format!("check the name; if it is private, log in with `docker login {registry}` as this user"),
        ),
        E::RegistryError { .. } | E::ImageManifestNotFoundError(_) | E::ServerError { code: 404, .. } => (
            format!("{registry} has no image {name}: {}", short(error)),
            "check the name and the tag".to_owned(),
        ),
        E::DigestError(_) => (
            format!("{registry} gave something else than {name}: {}", short(error)),
            "it is damaged or was tampered with; nothing of it was used. Try again, or use another image"
                .to_owned(),
        ),
        _ => (
            format!("{name} could not be fetched from {registry}: {}", short(error)),
            "check that this host reaches the registry, also through its proxy if it has one".to_owned(),
        ),
    };
    Error::Build { message, hint }
}

/// An error with its causes, and no more of what a stranger answered than fits on a few lines.
fn short(error: &OciDistributionError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(400).collect();
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked_without_tls() {
        for here in ["localhost", "localhost:5000", "127.0.0.1:1", "127.9.9.9", "[::1]:5000"] {
            assert!(is_loopback(here), "{here}");
        }
        for there in ["ghcr.io", "localhost.example.com", "128.0.0.1:5000", "example.com:5000"] {
            assert!(!is_loopback(there), "{there}");
        }
    }
}
