//! The secrets of one sandbox, their placeholders, and the authority whose certificates let the proxy see the requests that
//! secrets are put into. All of it exists in memory only.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::rules::Host;
use super::scrub::Scrubber;
use super::secret::Secret;
use super::{placeholder, tls};
use crate::Error;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Certificates that are kept; making one takes a fraction of a millisecond.
const LEAVES: usize = 256;

/// Earlier values of a secret that are still looked for in answers.
const FORMER: usize = 4;

/// The secrets of one sandbox.
pub(super) struct Vault {
    held: RwLock<Vec<Held>>,
    authority: CertifiedIssuer<'static, KeyPair>,
    leaf_key: KeyPair,
    leaves: Mutex<HashMap<String, Arc<ServerConfig>>>,
}

struct Held {
    secret: Secret,
    /// What it was before it was replaced: hosts may still say it back.
    former: Vec<Secret>,
    /// What stands for it inside.
    placeholder: String,
}

impl Vault {
    pub(super) fn new(secrets: Vec<Secret>) -> Result<Self, Error> {
        let mut held = Vec::new();
        for secret in secrets {
            let placeholder = match secret.placeholder() {
                Some(given) => given.to_owned(),
                None => placeholder::written(secret.name(), &random_hex()?),
            };
            held.push(Held { secret, former: Vec::new(), placeholder });
        }
        let mut params = params("Slipway sandbox authority")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority =
            CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(failed)?).map_err(failed)?;
        let leaf_key = KeyPair::generate().map_err(failed)?;
        Ok(Self { held: RwLock::new(held), authority, leaf_key, leaves: Mutex::default() })
    }

    /// Replaces the secrets of these names, from the next request on. What stands for them inside stays, and so does the
    /// authority.
    pub(super) fn renew(&self, secrets: Vec<Secret>) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets {
            if let Some(held) = held.iter_mut().find(|held| held.secret.name() == secret.name()) {
                held.former.push(std::mem::replace(&mut held.secret, secret));
                let most = held.former.len().saturating_sub(FORMER);
                held.former.drain(..most);
            }
        }
    }

    fn held(&self) -> RwLockReadGuard<'_, Vec<Held>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a secret for this host.
    pub(super) fn covers(&self, host: &Host) -> bool {
        self.held().iter().any(|held| held.secret.is_for(host))
    }

    /// Variables inside: each secret's placeholder.
    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        self.held().iter().map(|held| (held.secret.name().to_owned(), held.placeholder.clone())).collect()
    }

    /// The authority that programs inside are to trust.
    pub(super) fn authority(&self) -> &CertificateDer<'static> {
        self.authority.der()
    }

    /// How to be this host towards the sandbox.
    pub(super) fn server_config(&self, host: &Host) -> Result<Arc<ServerConfig>, Error> {
        let name = host.to_string();
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = leaves.get(&name) {
            return Ok(ready.clone());
        }
        let mut params = params(&name)?;
        params.subject_alt_names = vec![rcgen::SanType::DnsName(name.clone().try_into().map_err(failed)?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&self.leaf_key, &self.authority).map_err(failed)?;
        let chain = vec![leaf.der().clone(), self.authority.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let config = Arc::new(tls::server_config(chain, key).map_err(failed)?);
        if leaves.len() >= LEAVES {
            leaves.clear();
        }
        leaves.insert(name, config.clone());
        Ok(config)
    }

    /// Puts secrets into a request to a host they are for. Returns what must not come back.
    pub(super) fn put(&self, host: &Host, headers: &mut HeaderMap) -> Scrubber {
        let mut scrubber = Scrubber::default();
        let all = self.held();
        for held in all.iter() {
            for secret in held.former.iter().chain([&held.secret]) {
                scrubber.add(secret.value(), &held.placeholder);
            }
        }
        for (name, value) in headers.iter_mut() {
            let fitting = all.iter().filter(|held| held.secret.is_for(host));
            for Held { secret, placeholder, .. } in fitting {
                if let Some(put) = secret.put(name, value, placeholder) {
                    // Basic credentials are sent in another spelling, and may come back in that one.
                    if !put.as_bytes().ends_with(secret.value()) {
                        let spelled = put.as_bytes().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                        scrubber.add(spelled, placeholder);
                    }
                    *value = put;
                    break;
                }
            }
        }
        scrubber
    }
}

fn params(name: &str) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Clocks differ, so it is valid since yesterday.
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now + 365 * DAY;
    params.distinguished_name = rcgen::DistinguishedName::new();
    // A common name has at most 64 characters; programs look at the alternative names.
    params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
    let mut serial = random()?;
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

pub(super) fn random() -> Result<[u8; 16], Error> {
    let mut bytes = [0; 16];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).map_err(|_| Error::Build {
        message: "the system gives no random numbers".to_owned(),
        hint: "look at what this machine's kernel says".to_owned(),
    })?;
    Ok(bytes)
}

fn random_hex() -> Result<String, Error> {
    Ok(random()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Build {
        message: format!("certificates for the sandbox's secrets cannot be made: {error}"),
        hint: "try again; if it stays, tell us what the server's log says".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn secret(name: &str, value: &str) -> Secret {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(value.as_bytes()).unwrap();
        let recipe = protocol::Secret {
            name: name.to_owned(),
            env: None,
            file: Some(file.path().to_str().unwrap().to_owned()),
            secret: None,
            hosts: vec!["api.test".to_owned()],
            form: "bearer".to_owned(),
        };
        Secret::read(&recipe, &|_| unreachable!("it is in a file")).unwrap()
    }

    #[test]
    fn a_value_that_is_replaced_keeps_its_placeholder() {
        let vault = Vault::new(vec![secret("A", "first-value"), secret("B", "other-value")]).unwrap();
        let (inside, authority) = (vault.variables(), vault.authority().clone());
        let sent = |name: &str| {
            let mut headers = HeaderMap::new();
            let value = format!("Bearer {}", inside[name]).parse().unwrap();
            headers.insert(hyper::header::AUTHORIZATION, value);
            vault.put(&Host::parse("api.test").unwrap(), &mut headers);
            headers[hyper::header::AUTHORIZATION].to_str().unwrap().to_owned()
        };
        assert_eq!(sent("A"), "Bearer first-value");
        vault.renew(vec![secret("A", "second-value"), secret("C", "of nobody")]);
        assert_eq!((sent("A").as_str(), sent("B").as_str()), ("Bearer second-value", "Bearer other-value"));
        assert_eq!((&vault.variables(), vault.authority()), (&inside, &authority));
        for round in 0..10 {
            vault.renew(vec![secret("A", &format!("value-{round}"))]);
        }
        assert_eq!(sent("A"), "Bearer value-9");
        assert_eq!(vault.held()[0].former.len(), FORMER);
    }
}
