//! What of the world outside is told of sessions: the forges where branches become pull requests, and the webhook.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

use super::Config;

/// A forge.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Forge {
    pub(crate) kind: ForgeKind,
    /// What the addresses of its repositories begin with.
    pub(crate) url: String,
    /// Where its API is; by default where its makers put it.
    #[serde(default)]
    pub(crate) api_url: Option<String>,
    /// Name of the variable that holds the token.
    pub(crate) token_env: String,
}

/// Kinds of forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ForgeKind {
    #[serde(rename = "github")]
    GitHub,
}

/// Who is told when a turn finished or waits for a person.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Notify {
    /// An address; empty for nobody.
    pub(crate) webhook: String,
    /// Name of the variable that holds the secret of the signatures; empty for none.
    pub(crate) secret_env: String,
}

impl Config {
    /// Pull requests and notifications.
    pub(crate) fn outbox(&self) -> anyhow::Result<session::Outbox> {
        Ok(session::Outbox {
            forges: forges(&self.forges)?,
            webhook: self.notify.webhook()?.map(Arc::new),
            delivery: session::Patience::default(),
            notification: session::Patience::long(),
        })
    }
}

fn forges(configured: &BTreeMap<String, Forge>) -> anyhow::Result<forge::Forges> {
    let mut forges = forge::Forges::default();
    for (name, known) in configured {
        let context = || format!("[forges.{name}]");
        let token = forge::Token::from_env(&known.token_env);
        if token.is_none() {
            tracing::warn!(
                "[forges.{name}] takes its token from {}, which is not set: no pull request can be opened",
                known.token_env
            );
        }
        let api = known.api_url.clone().unwrap_or_else(|| match known.kind {
            ForgeKind::GitHub => forge::github::api_url(&known.url),
        });
        let made = match known.kind {
            ForgeKind::GitHub => forge::github::GitHub::new(&api, token, &known.token_env),
        };
        let made = made.map_err(|error| anyhow!("api_url: {error}")).with_context(context)?;
        forges
            .add(&known.url, Arc::new(made))
            .map_err(|error| anyhow!("url: {error}"))
            .with_context(context)?;
    }
    Ok(forges)
}

impl Notify {
    fn webhook(&self) -> anyhow::Result<Option<forge::Webhook>> {
        if self.webhook.is_empty() {
            return Ok(None);
        }
        let secret = match self.secret_env.as_str() {
            "" => None,
            // Unsigned, the receiver would throw it away or, worse, get used to that.
            name => Some(forge::Token::from_env(name).ok_or_else(|| {
                anyhow!("[notify] takes its secret from {name}, which is not set\n  set it, or leave secret_env out")
            })?),
        };
        let webhook = forge::Webhook::new(&self.webhook, secret);
        webhook.map(Some).map_err(|error| anyhow!("[notify] webhook: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forge_serves_the_repositories_below_its_address() {
        let text = "[forges.hub]\nkind = \"github\"\nurl = \"https://github.com\"\ntoken_env = \"SLIPWAY_TEST_UNSET\"";
        let outbox = Config::parse(text).unwrap().outbox().unwrap();
        assert!(outbox.forges.of("git@github.com:acme/shop.git").is_some());
        assert!(outbox.forges.of("https://git.example/acme/shop.git").is_none());
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        let forge = "[forges.x]\nkind = \"github\"\ntoken_env = \"T\"\n";
        for (text, said) in [
            (format!("{forge}url = \"nowhere\""), "[forges.x]"),
            (format!("{forge}url = \"https://h\"\napi_url = \"ftp://h\""), "api_url"),
            ("[notify]\nwebhook = \"chat\"".to_owned(), "[notify]"),
            (
                "[notify]\nwebhook = \"https://h\"\nsecret_env = \"SLIPWAY_TEST_UNSET\"".to_owned(),
                "SLIPWAY_TEST_UNSET",
            ),
        ] {
            let error = format!("{:#}", Config::parse(&text).unwrap().outbox().unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
        }
        let kind = Config::parse("[forges.x]\nkind = \"cvs\"\nurl = \"https://h\"\ntoken_env = \"T\"");
        assert!(format!("{:#}", kind.unwrap_err()).contains("cvs"));
    }
}
