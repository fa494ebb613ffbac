//! What of the world outside is told of sessions: the forges where branches become pull requests, and the webhook.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use forge::gitea::{self, Gitea};
use forge::github::{self, GitHub};
use forge::gitlab::{self, GitLab};
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
    /// Name of the variable that holds the token; empty with an app.
    #[serde(default)]
    pub(crate) token_env: String,
    /// The id of a GitHub App that is installed on the repositories.
    #[serde(default)]
    pub(crate) app_id: String,
    /// The file with its private key.
    #[serde(default)]
    pub(crate) app_key_file: PathBuf,
    /// What git logs in with over http and https; by default the host's own credential helpers, or the app's tokens.
    #[serde(default)]
    pub(crate) git: Option<GitLogin>,
    /// The application that people let in when they sign in with a code; empty for none.
    #[serde(default)]
    pub(crate) client_id: String,
    /// Name of the variable that holds the secret of its webhooks; empty for none.
    #[serde(default)]
    pub(crate) webhook_secret_env: String,
    /// What a comment mentions to become a prompt; "slipway" unless it says otherwise.
    #[serde(default)]
    pub(crate) bot: Option<String>,
    /// Whose comments become prompts.
    #[serde(default)]
    pub(crate) comments: CommentsFrom,
}

/// Whose comments become prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CommentsFrom {
    /// People who are known by name, or have signed in.
    #[default]
    People,
    /// Also those who belong to the repository, as GitHub says.
    Members,
    /// Everybody who can comment.
    Anyone,
}

/// What git logs in with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GitLogin {
    /// The credential helpers of the user that runs Slipway.
    Host,
    /// The forge's token.
    Token,
}

/// Kinds of forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ForgeKind {
    #[serde(rename = "github")]
    GitHub,
    #[serde(rename = "gitlab")]
    GitLab,
    /// Forgejo too.
    #[serde(alias = "forgejo")]
    Gitea,
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
            sites: self.sites()?,
            webhook: self.notify.webhook()?.map(Arc::new),
            own: self.own(),
            delivery: session::Patience::default(),
            notification: session::Patience::long(),
        })
    }
}

impl Config {
    /// The tokens with which people use this server, and the secret of its notifications.
    fn own(&self) -> Vec<(String, forge::Token)> {
        let people =
            self.server.tokens.iter().map(|(name, variable)| (format!("the token of {name}"), variable));
        let others = [
            ("the token of this server".to_owned(), &self.server.token_env),
            ("the secret of the notifications".to_owned(), &self.notify.secret_env),
        ];
        let value = |(what, variable): (String, &String)| {
            let value = std::env::var(variable).ok().filter(|_| !variable.is_empty())?;
            Some((what, forge::Token::new(value.trim()))).filter(|_| !value.trim().is_empty())
        };
        people.chain(others).filter_map(value).collect()
    }

    /// The forges by name, with what people and webhooks need of them.
    fn sites(&self) -> anyhow::Result<Vec<forge::Site>> {
        let site = |(name, known): (&String, &Forge)| {
            let people = self
                .people
                .iter()
                .filter_map(|(person, about)| Some((about.logins.get(name)?.to_lowercase(), person.clone())));
            known.site(name, people.collect()).with_context(|| format!("[forges.{name}]"))
        };
        for (person, about) in &self.people {
            if let Some(name) = about.logins.keys().find(|name| !self.forges.contains_key(*name)) {
                bail!("[people.{person}] logins names a forge that there is not: {name}");
            }
        }
        self.forges.iter().map(site).collect()
    }
}

/// The forges that are configured, with the logins of git.
fn forges(configured: &BTreeMap<String, Forge>) -> anyhow::Result<forge::Forges> {
    let mut forges = forge::Forges::default();
    for (name, known) in configured {
        add(&mut forges, name, known).with_context(|| format!("[forges.{name}]"))?;
    }
    Ok(forges)
}

fn add(forges: &mut forge::Forges, name: &str, known: &Forge) -> anyhow::Result<()> {
    let api = known.api();
    let wrong = |error: String| anyhow!("api_url: {error}");
    if let Some(app) = known.app(&api)? {
        let made = GitHub::with_app(&api, app).map_err(wrong)?;
        return put(forges, known, made, known.git.unwrap_or(GitLogin::Token));
    }
    let token = forge::Token::from_env(&known.token_env);
    if token.is_none() {
        tracing::warn!(
            "[forges.{name}] takes its token from {}, which is not set: no pull request can be opened",
            known.token_env
        );
    }
    let (source, git) = (&known.token_env, known.git.unwrap_or(GitLogin::Host));
    match known.kind {
        ForgeKind::GitHub => put(forges, known, GitHub::new(&api, token, source).map_err(wrong)?, git),
        ForgeKind::GitLab => put(forges, known, GitLab::new(&api, token, source).map_err(wrong)?, git),
        ForgeKind::Gitea => put(forges, known, Gitea::new(&api, token, source).map_err(wrong)?, git),
    }
}

fn put<F: forge::Forge + forge::Keyring + 'static>(
    forges: &mut forge::Forges,
    known: &Forge,
    made: F,
    git: GitLogin,
) -> anyhow::Result<()> {
    let added = match git {
        GitLogin::Host => forges.add(&known.url, Arc::new(made)),
        GitLogin::Token => forges.add_with_logins(&known.url, Arc::new(made)),
    };
    added.map_err(|error| anyhow!("url: {error}"))
}

impl Forge {
    fn api(&self) -> String {
        self.api_url.clone().unwrap_or_else(|| match self.kind {
            ForgeKind::GitHub => github::api_url(&self.url),
            ForgeKind::GitLab => gitlab::api_url(&self.url),
            ForgeKind::Gitea => gitea::api_url(&self.url),
        })
    }

    fn site(&self, name: &str, people: Vec<(String, String)>) -> anyhow::Result<forge::Site> {
        let kind = match self.kind {
            ForgeKind::GitHub => forge::Kind::GitHub,
            ForgeKind::GitLab => forge::Kind::GitLab,
            ForgeKind::Gitea => forge::Kind::Gitea,
        };
        let mut site =
            forge::Site::new(name, kind, &self.url, &self.api()).map_err(|error| anyhow!("url: {error}"))?;
        let client = Some(self.client_id.as_str()).filter(|client| !client.is_empty());
        if client.is_some() && kind == forge::Kind::Gitea {
            bail!(
                "client_id: nobody signs in at Gitea or Forgejo with a code; people give a token that they made there"
            );
        }
        if self.url.starts_with("http://") || self.url.starts_with("https://") {
            let sign_in = forge::SignIn::new(kind, &site.root(), &self.api(), client);
            site.sign_in = Some(sign_in.map_err(|error| anyhow!("{error}"))?);
        }
        if !self.webhook_secret_env.is_empty() {
            let variable = &self.webhook_secret_env;
            // Unsigned, anybody could tell us what they like.
            let secret = forge::Token::from_env(variable).ok_or_else(|| {
                anyhow!("webhook_secret_env takes the secret from {variable}, which is not set\n  set it, or leave webhook_secret_env out")
            })?;
            let hook =
                forge::Hook::new(kind, secret).map_err(|error| anyhow!("webhook_secret_env: {error}"))?;
            site.hook = Some(hook);
        }
        if let Some(bot) = &self.bot {
            let bot = bot.trim_start_matches('@');
            if bot.is_empty()
                || bot.contains(|letter: char| !letter.is_alphanumeric() && !"-_.[]".contains(letter))
            {
                bail!("bot: this is no name that a comment could mention");
            }
            bot.clone_into(&mut site.bot);
        }
        site.comments = match self.comments {
            CommentsFrom::People => forge::Comments::People,
            CommentsFrom::Members => forge::Comments::Members,
            CommentsFrom::Anyone => forge::Comments::Anyone,
        };
        site.people = people;
        Ok(site)
    }

    /// The app that stands in for a token.
    fn app(&self, api: &str) -> anyhow::Result<Option<forge::app::App>> {
        let has_key = !self.app_key_file.as_os_str().is_empty();
        match (self.token_env.is_empty(), self.app_id.is_empty(), has_key) {
            (false, true, false) => return Ok(None),
            (true, false, true) if self.kind == ForgeKind::GitHub => {}
            (true, false, true) => bail!("only GitHub has apps: give token_env"),
            (true, true, false) => bail!("give token_env, or app_id and app_key_file of a GitHub App"),
            (false, ..) => bail!("token_env and app_id are two ways in: give one of them"),
            (true, ..) => bail!("app_id and app_key_file belong together"),
        }
        let file = self.app_key_file.display();
        let pem = std::fs::read_to_string(&self.app_key_file)
            .with_context(|| format!("app_key_file: cannot read {file}"))?;
        let app = forge::app::App::new(api, &self.app_id, &forge::Token::new(&pem));
        app.map(Some).map_err(|error| anyhow!("app_key_file {file}: {error}"))
    }
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
    fn the_examples_serve_what_they_are_for() {
        let file = include_str!("../../../../config.example.toml");
        let lines = file.lines().skip_while(|line| !line.starts_with("#: [forges."));
        let mut text: String = lines
            .take_while(|line| line.starts_with("#:"))
            .map(|line| format!("{}\n", line.trim_start_matches("#:").trim_start()))
            .collect();
        // The key is a file that every machine has another of, and the secret is a variable.
        for key in ["app_key_file", "app_id", "webhook_secret_env"] {
            text =
                text.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect();
        }
        text.push_str("token_env = \"SLIPWAY_TEST_UNSET\"\n");
        let config = Config::parse(&text).unwrap();
        let app = &config.forges["app"];
        assert_eq!(
            (app.url.as_str(), app.api().as_str()),
            ("https://github.com/acme", "https://api.github.com")
        );
        let outbox = config.outbox().unwrap();
        for (url, name, site) in [
            ("https://github.com/acme/shop.git", "acme/shop", "app"),
            ("git@github.com:acme/shop.git", "acme/shop", "app"),
            ("https://github.com/other/shop.git", "other/shop", "github"),
            ("https://gitlab.com/acme/web/shop.git", "acme/web/shop", "gitlab"),
            ("https://codeberg.org/acme/shop.git", "acme/shop", "forgejo"),
        ] {
            assert_eq!(outbox.forges.of(url).unwrap().1.to_string(), name, "{url}");
            let mut sites = outbox.sites.iter().filter(|site| site.repository(url).is_some());
            assert!(sites.any(|known| known.name == site), "{url}");
        }
        let sign_in = format!("{:?}", outbox.sites.iter().find(|site| site.name == "app").unwrap().sign_in);
        assert!(!sign_in.contains("/acme"), "people sign in at the forge, not at an owner: {sign_in}");
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
        for (keys, said) in [
            ("kind = \"github\"", "give token_env, or app_id"),
            ("kind = \"github\"\napp_id = \"1\"", "belong together"),
            ("kind = \"github\"\ntoken_env = \"T\"\napp_id = \"1\"", "two ways in"),
            ("kind = \"gitlab\"\napp_id = \"1\"\napp_key_file = \"/nowhere\"", "only GitHub has apps"),
            ("kind = \"github\"\napp_id = \"1\"\napp_key_file = \"/nowhere\"", "cannot read /nowhere"),
            ("kind = \"github\"\napp_id = \"1\"\napp_key_file = \"/dev/null\"", "BEGIN RSA PRIVATE KEY"),
        ] {
            let config = Config::parse(&format!("[forges.x]\nurl = \"https://h\"\n{keys}")).unwrap();
            let error = format!("{:#}", config.outbox().unwrap_err());
            assert!(error.contains(said) && error.contains("[forges.x]"), "{keys}: {error}");
        }
        for kind in ["gitlab", "gitea", "forgejo"] {
            let text = format!("[forges.x]\nkind = \"{kind}\"\nurl = \"https://h\"\ntoken_env = \"T\"");
            let outbox = Config::parse(&text).unwrap().outbox().unwrap();
            assert!(outbox.forges.of("https://h/a/b.git").is_some(), "{kind}");
        }
        let kind = Config::parse("[forges.x]\nkind = \"cvs\"\nurl = \"https://h\"\ntoken_env = \"T\"");
        assert!(format!("{:#}", kind.unwrap_err()).contains("cvs"));
    }
}
