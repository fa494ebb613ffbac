//! People who signed in at a forge. Their tokens are sealed with the secrets, each under a name that tells neither person nor
//! forge; whoever lists secrets sees that there is one, and nobody gets its value.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forge::{Device, Grant, Refusal, SignIn, Site, Token, Typed};
use jiff::Timestamp;
use protocol::{Code, DeviceLogin, DeviceState, ForgeLogin, Problem};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::{SecretError, Secrets};

use crate::Sessions;

/// What the names of these secrets begin with.
pub(crate) const PREFIX: &str = "login.";
/// A token that ends sooner than this is renewed first.
const SOON: Duration = Duration::from_secs(120);
/// Most codes that wait to be typed in.
const DEVICES: usize = 100;
/// What a forge that is asked too often wants between two looks from then on.
const SLOWER: Duration = Duration::from_secs(5);

/// Who signed in where.
pub(crate) struct Logins {
    secrets: Secrets,
    sites: Vec<Site>,
    devices: Mutex<HashMap<String, Waiting>>,
    /// A token that renews another is good for once.
    renewing: tokio::sync::Mutex<()>,
}

/// A code that was not typed in yet.
struct Waiting {
    site: String,
    person: String,
    device: Device,
    until: Instant,
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    site: String,
    person: String,
    login: String,
    pub(crate) token: String,
    #[serde(default)]
    pub(crate) refresh: Option<String>,
    #[serde(default)]
    ends: Option<Timestamp>,
}

impl Logins {
    pub(crate) fn new(secrets: Secrets, sites: Vec<Site>) -> Self {
        Self { secrets, sites, devices: Mutex::default(), renewing: tokio::sync::Mutex::default() }
    }

    /// The forge of this name, or the only one of this kind.
    pub(crate) fn site(&self, name: &str) -> Result<&Site, Problem> {
        if let Some(site) = self.sites.iter().find(|site| site.name == name) {
            return Ok(site);
        }
        let of_kind: Vec<&Site> = self.sites.iter().filter(|site| site.kind.as_str() == name).collect();
        let known: Vec<&str> = self.sites.iter().map(|site| site.name.as_str()).collect();
        match of_kind[..] {
            [site] => Ok(site),
            [] if known.is_empty() => {
                Err(Problem::new(Code::NotFound, format!("no forge is called {name}: none is configured"))
                    .hint("describe it in slipway.toml: [forges.NAME] with kind, url and a token"))
            }
            [] => Err(Problem::new(Code::NotFound, format!("no forge is called {name}"))
                .hint(format!("the forges are: {}", known.join(", ")))),
            [..] => Err(Problem::new(Code::BadRequest, format!("several forges are of the kind {name}"))
                .hint(format!("name one of them: {}", known.join(", ")))),
        }
    }

    /// The forge that has the repository at this address; the longest address wins.
    pub(crate) fn of(&self, remote: &str) -> Option<&Site> {
        let serving = self.sites.iter().filter(|site| site.repository(remote).is_some());
        serving.max_by_key(|site| site.url.len())
    }

    fn sign_in<'a>(&self, site: &'a Site) -> Result<&'a SignIn, Problem> {
        site.sign_in.as_ref().ok_or_else(|| {
            Problem::new(
                Code::BadRequest,
                format!("nobody can sign in at {}: its url is no web address", site.name),
            )
        })
    }

    fn kept(&self, site: &str, person: &str) -> Result<Option<Kept>, SecretError> {
        match self.secrets.get(&name(site, person)) {
            // One that cannot be read is as good as none.
            Ok(value) => Ok(serde_json::from_str(&value).ok()),
            Err(SecretError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn keep(&self, kept: &Kept) -> Result<(), SecretError> {
        let value = serde_json::to_string(kept).unwrap_or_default();
        self.secrets.set(&name(&kept.site, &kept.person), &value).map(drop)
    }

    /// The name that a person logs in with at a forge, if they signed in.
    fn login(&self, site: &str, person: &str) -> Option<String> {
        self.kept(site, person).ok().flatten().map(|kept| kept.login)
    }

    /// Who signed in at a forge with this name, as they are called here.
    pub(crate) fn person(&self, site: &str, login: &str) -> Option<String> {
        let names = self.secrets.list().ok()?.into_iter().map(|known| known.name);
        let all = names
            .filter(|name| name.starts_with(PREFIX))
            .filter_map(|name| serde_json::from_str::<Kept>(&self.secrets.get(&name).ok()?).ok());
        let mut found = all.filter(|kept| kept.site == site && kept.login.eq_ignore_ascii_case(login));
        found.next().map(|kept| kept.person)
    }

    /// A token of a person for the repository at this address, renewed if it ends soon. None where they did not sign in, or
    /// where it cannot be had: then the forge's own opens the pull request, which names them.
    pub(crate) async fn token(&self, remote: &str, person: &str) -> Option<Token> {
        let site = self.of(remote)?;
        let kept = match self.kept(&site.name, person) {
            Ok(kept) => kept?,
            Err(error) => {
                tracing::warn!(%error, "the token of a person cannot be read");
                return None;
            }
        };
        if !kept.ends_soon() {
            return Some(Token::new(&kept.token));
        }
        let _one_at_a_time = self.renewing.lock().await;
        // Another may have renewed it meanwhile.
        let kept = self.kept(&site.name, person).ok().flatten().filter(|kept| !kept.token.is_empty())?;
        if !kept.ends_soon() {
            return Some(Token::new(&kept.token));
        }
        let refresh = Token::new(kept.refresh.as_deref()?);
        match site.sign_in.as_ref()?.renew(&refresh).await {
            Ok(grant) => {
                let renewed = Kept::new(&site.name, person, &kept.login, &grant);
                if let Err(error) = self.keep(&renewed) {
                    tracing::error!(%error, "the renewed token of a person cannot be kept: they must sign in again");
                }
                Some(grant.token)
            }
            Err(refusal) => {
                tracing::warn!(forge = site.name, "the token of a person cannot be renewed: {refusal}");
                None
            }
        }
    }

    fn devices(&self) -> std::sync::MutexGuard<'_, HashMap<String, Waiting>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn new(site: &str, person: &str, login: &str, grant: &Grant) -> Self {
        let ends = grant.expires.and_then(|life| Timestamp::now().checked_add(life).ok());
        Self {
            site: site.to_owned(),
            person: person.to_owned(),
            login: login.to_owned(),
            token: grant.token.reveal().to_owned(),
            refresh: grant.refresh.as_ref().map(|token| token.reveal().to_owned()),
            ends,
        }
    }

    fn ends_soon(&self) -> bool {
        let soon = Timestamp::now().checked_add(SOON).unwrap_or(Timestamp::MAX);
        self.ends.is_some_and(|ends| ends < soon)
    }
}

/// The name of the secret. People have any names, secrets do not.
fn name(site: &str, person: &str) -> String {
    let sum = Sha256::new().chain_update(site).chain_update([0]).chain_update(person).finalize();
    let hex: String = sum.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{PREFIX}{hex}")
}

/// A forge's refusal in the words of the API.
pub(crate) fn refused(refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::Later { message, .. } => {
            Problem::new(Code::RepositoryUnavailable, message.clone()).hint("try again in a while")
        }
        Refusal::Final { message } => Problem::new(Code::DeliveryFailed, message.clone()),
    }
}

impl Sessions {
    /// The forges at which a person can sign in, and who they are there.
    pub fn logins(&self, person: &str) -> Vec<ForgeLogin> {
        let logins = &self.registry.logins;
        let shown = logins.sites.iter().map(|site| shown(site, logins.login(&site.name, person)));
        shown.collect()
    }

    /// Keeps a token that a person made at a forge, if the forge takes it.
    pub async fn set_login(&self, person: &str, forge: &str, token: &str) -> Result<ForgeLogin, Problem> {
        let logins = &self.registry.logins;
        let site = logins.site(forge)?;
        let token = Token::new(token);
        let good = !token.reveal().is_empty() && token.reveal().bytes().all(|byte| byte.is_ascii_graphic());
        if !good {
            return Err(Problem::new(Code::BadRequest, "this is no token")
                .hint("give the one line that the forge showed"));
        }
        let login = logins.sign_in(site)?.who(&token).await.map_err(|refusal| refused(&refusal))?;
        let grant = Grant { token, refresh: None, expires: None };
        self.keep_login(site, person, &login, &grant)
    }

    fn keep_login(
        &self,
        site: &Site,
        person: &str,
        login: &str,
        grant: &Grant,
    ) -> Result<ForgeLogin, Problem> {
        let kept = Kept::new(&site.name, person, login, grant);
        self.registry.logins.keep(&kept).map_err(crate::secrets::told)?;
        tracing::info!(forge = site.name, person, login, "somebody signed in at a forge");
        Ok(shown(site, Some(login.to_owned())))
    }

    /// Forgets the token of a person; false when there was none.
    pub fn remove_login(&self, person: &str, forge: &str) -> Result<bool, Problem> {
        let logins = &self.registry.logins;
        let site = logins.site(forge)?;
        logins.secrets.remove(&name(&site.name, person)).map_err(crate::secrets::told)
    }

    /// Asks a forge for a code that a person types in there.
    pub async fn begin_login(&self, person: &str, forge: &str) -> Result<DeviceLogin, Problem> {
        let logins = &self.registry.logins;
        let site = logins.site(forge)?;
        let sign_in = logins.sign_in(site)?;
        if !sign_in.has_codes() {
            let title = format!("people sign in at {} with a token that they made there", site.name);
            return Err(Problem::new(Code::BadRequest, title).hint(
                "make one in your settings there and give it on standard input; for codes, register an application at the \
                 forge and set client_id in [forges]",
            ));
        }
        let device = sign_in.begin().await.map_err(|refusal| refused(&refusal))?;
        let attempt = protocol::CommandId::new().to_string();
        let answer = DeviceLogin {
            attempt: attempt.clone(),
            code: device.user_code.clone(),
            url: device.url.clone(),
            expires_s: device.expires.as_secs(),
            interval_s: device.interval.as_secs(),
        };
        let waiting = Waiting {
            site: site.name.clone(),
            person: person.to_owned(),
            until: Instant::now() + device.expires,
            device,
        };
        let mut devices = logins.devices();
        devices.retain(|_, known| known.until > Instant::now());
        if devices.len() >= DEVICES {
            return Err(Problem::new(Code::RateLimited, "too many people are signing in at once")
                .hint("try again in a few minutes"));
        }
        devices.insert(attempt, waiting);
        Ok(answer)
    }

    /// Looks whether a code was typed in, and keeps the token if so.
    pub async fn continue_login(
        &self,
        person: &str,
        forge: &str,
        attempt: &str,
    ) -> Result<DeviceState, Problem> {
        let logins = &self.registry.logins;
        let site = logins.site(forge)?;
        let device = {
            let devices = logins.devices();
            let known = devices.get(attempt);
            known
                .filter(|known| known.site == site.name && known.person == person)
                .map(|known| known.device.clone())
        };
        let device = device.ok_or_else(|| {
            Problem::new(Code::NotFound, "no such attempt to sign in is under way").hint("begin again")
        })?;
        let sign_in = logins.sign_in(site)?;
        let grant = match sign_in.look(&device).await {
            Ok(Typed::Yes(grant)) => grant,
            Ok(Typed::NotYet { slower }) => {
                let mut devices = logins.devices();
                let known = devices.get_mut(attempt);
                let interval = known.map_or(device.interval, |known| {
                    if slower {
                        known.device.interval += SLOWER;
                    }
                    known.device.interval
                });
                return Ok(DeviceState { login: None, interval_s: interval.as_secs() });
            }
            Err(refusal @ Refusal::Later { .. }) => return Err(refused(&refusal)),
            Err(refusal) => {
                logins.devices().remove(attempt);
                return Err(refused(&refusal));
            }
        };
        logins.devices().remove(attempt);
        let login = sign_in.who(&grant.token).await.map_err(|refusal| refused(&refusal))?;
        let kept = self.keep_login(site, person, &login, &grant)?;
        Ok(DeviceState { login: kept.login, interval_s: device.interval.as_secs() })
    }
}

fn shown(site: &Site, login: Option<String>) -> ForgeLogin {
    ForgeLogin {
        forge: site.name.clone(),
        kind: site.kind.as_str().to_owned(),
        url: site.url.clone(),
        device: site.sign_in.as_ref().is_some_and(SignIn::has_codes),
        login,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_names_and_tell_nothing() {
        let made = name("hub", "Ann Example <ann@example.com>");
        assert!(
            Secrets::check_name(&made).is_ok() && !made.contains("ann") && !made.contains("hub"),
            "{made}"
        );
        assert_ne!(name("a", "bc"), name("ab", "c"));
    }
}
