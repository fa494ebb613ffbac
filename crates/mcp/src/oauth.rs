//! Signing in: a person allows it once in a browser, and the tokens are kept sealed and renewed from then on. Discovery,
//! registration, PKCE and the checks of what comes back are the library's; where tokens are kept is ours.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, CredentialStore,
    StoredCredentials,
};
use url::Url;

use crate::Error;
use crate::error::quoted;
use crate::http::{address, provide};
use crate::key::Vault;

/// What servers are told who we are.
const CLIENT: &str = "Slipway";

/// The name of the secret that a server's credentials are kept under.
pub fn secret_name(server: &str) -> String {
    format!("mcp.{server}")
}

/// Credentials in a vault, under the name of their server.
#[derive(Debug, Clone)]
pub struct Stored {
    name: String,
    vault: Arc<dyn Vault>,
}

impl Stored {
    /// Those of a server.
    pub fn new(server: &str, vault: Arc<dyn Vault>) -> Self {
        Self { name: secret_name(server), vault }
    }

    /// Whether there are any.
    pub fn is_there(&self) -> Result<bool, Error> {
        self.vault.get(&self.name).map(|found| found.is_some()).map_err(Error::Key)
    }
}

fn failed(why: String) -> AuthError {
    AuthError::CredentialStoreError(why)
}

#[async_trait]
impl CredentialStore for Stored {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let Some(text) = self.vault.get(&self.name).map_err(failed)? else { return Ok(None) };
        let broken = |_| failed(format!("the secret \"{}\" does not hold what a sign-in leaves", self.name));
        serde_json::from_str(&text).map(Some).map_err(broken)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_string(&credentials).map_err(|error| failed(error.to_string()))?;
        let text = zeroize::Zeroizing::new(text);
        self.vault.set(&self.name, &text).map_err(failed)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.vault.remove(&self.name).map_err(failed)
    }
}

async fn manager(url: &Url, stored: Stored) -> Result<AuthorizationManager, Error> {
    provide();
    let mut manager = AuthorizationManager::new(url.as_str()).await.map_err(|error| told(&error))?;
    manager.set_credential_store(stored);
    Ok(manager)
}

/// Whoever signed in to a server.
pub(crate) async fn signed_in(
    server: &str,
    url: &Url,
    vault: Arc<dyn Vault>,
) -> Result<AuthorizationManager, Error> {
    let stored = Stored::new(server, vault);
    if !stored.is_there()? {
        return Err(Error::SignIn("nobody ever was".to_owned()));
    }
    let mut manager = manager(url, stored).await?;
    match manager.initialize_from_store().await {
        Ok(true) => Ok(manager),
        Ok(false) => Err(Error::SignIn("it has another authorization server now".to_owned())),
        Err(error) => Err(told(&error)),
    }
}

/// A sign-in under way.
pub struct Login {
    session: AuthorizationSession,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login")
    }
}

impl Login {
    /// Begins: finds out where one signs in, and registers us there unless a client was named. The person is sent back to
    /// `redirect`.
    pub async fn begin(
        server: &str,
        url: &str,
        (client_id, scopes): (Option<&str>, &[String]),
        redirect: &str,
        vault: Arc<dyn Vault>,
    ) -> Result<Self, Error> {
        let url = address(url)?;
        let mut manager = manager(&url, Stored::new(server, vault)).await?;
        let resolved = manager.resolve_metadata().await.map_err(|error| told(&error))?;
        if !resolved.source.is_discovered() {
            return Err(Error::Refused(
                "it does not say where one signs in; it may want a token (token_env, token_file or token_secret)"
                    .to_owned(),
            ));
        }
        manager.set_metadata(resolved.metadata);
        let mut request = AuthorizationRequest::new(redirect).with_client_name(CLIENT);
        if scopes.is_empty() {
            request = request.with_initial_scope_selection();
        } else {
            request = request.with_scopes(scopes.iter().cloned());
        }
        if let Some(client) = client_id {
            request = request.with_preregistered_client(client);
        }
        let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| told(&error))?;
        Ok(Self { session })
    }

    /// Where the person goes.
    pub fn address(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Ends with the whole address that the person was sent back to. The credentials are kept then.
    pub async fn finish(self, came_back: &str) -> Result<(), Error> {
        if let Some(why) = refusal(came_back) {
            return Err(Error::SignIn(format!("it was not allowed: {why}")));
        }
        let done = self.session.handle_callback_url(came_back).await;
        done.map(drop).map_err(|error| told(&error))
    }
}

/// What the person, or the server in their name, said instead of yes.
fn refusal(came_back: &str) -> Option<String> {
    let url = Url::parse(came_back).ok()?;
    let find =
        |key: &str| url.query_pairs().find(|(name, _)| name == key).map(|(_, value)| value.into_owned());
    let error = find("error")?;
    Some(quoted(&find("error_description").unwrap_or(error)))
}

/// The library's words. They name no token.
fn told(error: &AuthError) -> Error {
    let said = quoted(&error.to_string());
    match error {
        AuthError::AuthorizationRequired
        | AuthError::TokenExpired
        | AuthError::TokenRefreshRejected(_)
        | AuthError::TokenExchangeFailed(_)
        | AuthError::AuthorizationFailed(_)
        | AuthError::AuthorizationServerMismatch { .. }
        | AuthError::AuthorizationServerMissingIssuer { .. }
        | AuthError::InsufficientScope { .. } => Error::SignIn(said),
        AuthError::CredentialStoreError(why) => Error::Key(quoted(why)),
        AuthError::HttpError(_) | AuthError::TokenRefreshFailed(_) => Error::Unreachable(said),
        _ => Error::Refused(said),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use zeroize::Zeroizing;

    use super::*;

    /// A vault in memory.
    #[derive(Debug, Default)]
    pub(crate) struct Drawer(Mutex<BTreeMap<String, String>>);

    impl Vault for Drawer {
        fn get(&self, name: &str) -> Result<Option<Zeroizing<String>>, String> {
            Ok(self.0.lock().unwrap().get(name).cloned().map(Zeroizing::new))
        }

        fn set(&self, name: &str, value: &str) -> Result<(), String> {
            self.0.lock().unwrap().insert(name.to_owned(), value.to_owned());
            Ok(())
        }

        fn remove(&self, name: &str) -> Result<(), String> {
            self.0.lock().unwrap().remove(name);
            Ok(())
        }
    }

    #[tokio::test]
    async fn credentials_that_are_none_are_told_and_not_shown() {
        let drawer = Arc::new(Drawer::default());
        let stored = Stored::new("sentry", Arc::clone(&drawer) as Arc<dyn Vault>);
        assert!(!stored.is_there().unwrap() && stored.load().await.unwrap().is_none());
        drawer.set("mcp.sentry", "hunter2").unwrap();
        let error = stored.load().await.unwrap_err().to_string();
        assert!(error.contains("mcp.sentry") && !error.contains("hunter2"), "{error}");
        stored.clear().await.unwrap();
        assert!(!stored.is_there().unwrap());
    }

    #[test]
    fn a_refusal_is_one() {
        let said = refusal("http://127.0.0.1:1/?error=access_denied&error_description=not%20today");
        assert_eq!(said.as_deref(), Some("not today"));
        assert_eq!(refusal("http://127.0.0.1:1/?code=a&state=b"), None);
    }
}
