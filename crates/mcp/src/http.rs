//! Servers behind an address: streamable HTTP. Requests follow no redirect, which could carry a token away, and use no proxy
//! for this machine's own addresses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderName, HeaderValue};
use rmcp::transport::auth::AuthClient;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use url::Url;

use crate::Error;
use crate::key::{Value, Vault};
use crate::oauth;
use crate::server::{Auth, Http};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(15);
/// Longest event of a stream.
const EVENT: usize = 16 * 1024 * 1024;

/// A transport that is ready to be used.
pub(crate) enum Ready {
    /// With a fixed token, or none.
    Plain(StreamableHttpClientTransport<reqwest::Client>),
    /// With the token of whoever signed in, which is renewed.
    SignedIn(StreamableHttpClientTransport<AuthClient<reqwest::Client>>),
}

pub(crate) async fn connect(name: &str, server: &Http, vault: Arc<dyn Vault>) -> Result<Ready, Error> {
    let url = address(&server.url)?;
    let client = client(&url)?;
    let mut headers = HashMap::new();
    for (name, value) in &server.headers {
        let wrong =
            |what: &str| Error::Key(format!("the header {} cannot be sent: {what}", name.escape_debug()));
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("its name is none"))?;
        let value = value.read(&*vault)?;
        let mut value =
            HeaderValue::from_str(&value).map_err(|_| wrong("its value has letters that none can have"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(server.url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(EVENT)
        // A call that was made again because the session was gone could be done twice.
        .reinit_on_expired_session(false);
    match &server.auth {
        Auth::None => Ok(Ready::Plain(StreamableHttpClientTransport::with_client(client, config))),
        Auth::Token(key) => {
            let config = config.auth_header(key.read(&*vault)?.as_str());
            Ok(Ready::Plain(StreamableHttpClientTransport::with_client(client, config)))
        }
        Auth::OAuth { .. } => {
            let manager = oauth::signed_in(name, &url, vault).await?;
            let client = AuthClient::new(client, manager);
            Ok(Ready::SignedIn(StreamableHttpClientTransport::with_client(client, config)))
        }
    }
}

/// What it means that a server does not let in who asks with what it is given. None where a person signs in.
pub(crate) fn denied(server: &Http) -> Option<String> {
    let keys: Vec<String> = server
        .headers
        .iter()
        .filter_map(|(name, value)| match value {
            Value::Key(key) => Some(format!("{} ({})", name.escape_debug(), key.place())),
            Value::Text(_) => None,
        })
        .collect();
    match &server.auth {
        Auth::OAuth { .. } => None,
        Auth::Token(key) => Some(format!("it refused the token of {}", key.place())),
        Auth::None if keys.is_empty() => Some(
            "it wants to know who asks: give it a token (token_env), or sign in (oauth = true)".to_owned(),
        ),
        Auth::None => Some(format!("it refused the headers that it was given: {}", keys.join(", "))),
    }
}

/// What is wrong with the address of a server.
pub fn check_url(text: &str) -> Result<(), Error> {
    address(text).map(drop)
}

/// An address that can be one of a server.
pub(crate) fn address(text: &str) -> Result<Url, Error> {
    let wrong = |what: &str| Error::Unreachable(format!("its url cannot be used: {what}"));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "https" => Ok(url),
        // In the clear, whoever is on the way reads the token.
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err(wrong("http is for this machine only; use https")),
        other => Err(wrong(&format!("{} is no scheme of a web address", other.escape_debug()))),
    }
}

fn client(url: &Url) -> Result<reqwest::Client, Error> {
    provide();
    let builder = || {
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("slipway/", env!("CARGO_PKG_VERSION")));
        if is_loopback(url) { builder.no_proxy() } else { builder }
    };
    // A machine without any root certificates must still be able to call its own servers.
    let made = builder().build().or_else(|_| builder().tls_certs_only([]).build());
    made.map_err(|error| Error::Unreachable(format!("the HTTP client cannot be set up: {error}")))
}

/// Sees to it that there is something to encrypt with.
pub(crate) fn provide() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // It fails only if another thread has just installed one, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_do_not_go_in_the_clear() {
        for good in
            ["https://mcp.example.com/mcp", "http://127.0.0.1:1/mcp", "http://[::1]:1/", "http://localhost/x"]
        {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in ["http://mcp.example.com/mcp", "ftp://x/", "mcp.example.com", "", "file:///etc/passwd"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
