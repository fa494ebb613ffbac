//! `slipway login`: sign in at a forge, so that pull requests are opened in one's own name.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{anyhow, bail};
use protocol::{DeviceLogin, ForgeLogin};

use super::Context;
use super::secret::value;
use crate::connect::Link;
use crate::exit::{Exit, Usage};
use crate::interrupt::Interrupts;
use crate::render::{print, style, table, text};

/// Sign in at a forge.
#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    /// github, gitlab, gitea, or the name of a forge in slipway.toml; without it, where you have signed in
    forge: Option<String>,
    /// Read a token from standard input, instead of showing a code
    #[arg(long, requires = "forge")]
    token_stdin: bool,
    /// Forget your token; at the forge it stays good until you revoke it there
    #[arg(long, requires = "forge", conflicts_with = "token_stdin")]
    remove: bool,
}

impl Login {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let mut interrupts = Interrupts::catch()?;
        let link = context.look_for_long().await?;
        let done = tokio::select! {
            done = self.sign_in(&link, context.json) => done,
            _ = interrupts.next() => Ok(Exit::Interrupted),
        };
        let closed = link.close(&mut interrupts).await;
        let exit = done?;
        closed?;
        Ok(exit)
    }

    async fn sign_in(&self, link: &Link, json: bool) -> anyhow::Result<Exit> {
        let logins = link.api.logins().await?;
        let Some(forge) = &self.forge else {
            if json {
                print::json(&logins)?;
            } else if logins.logins.is_empty() {
                style::note("no forge is configured: describe one in slipway.toml, as [forges.NAME]");
            } else {
                let rows = logins.logins.iter().map(row);
                print::line(&table::format(&["forge", "kind", "address", "signed in as"], rows))?;
            }
            return Ok(Exit::Done);
        };
        if !forge.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            return Err(Usage(anyhow!("\"{forge}\" is no name of a forge")).into());
        }
        if self.remove {
            link.api.remove_login(forge).await?;
            style::note(&format!("your token for {forge} is forgotten"));
            return Ok(Exit::Done);
        }
        let known = logins.logins.iter().find(|known| known.forge == *forge);
        let known = known.or_else(|| logins.logins.iter().find(|known| known.kind == *forge));
        let by_code = known.is_some_and(|known| known.device) && !self.token_stdin;
        let signed_in =
            if by_code { by_a_code(link, forge).await? } else { self.by_a_token(link, forge, known).await? };
        if json {
            print::json(&signed_in)?;
        } else {
            let login = text::harmless(signed_in.login.as_deref().unwrap_or_default());
            print::line(&login)?;
            style::note(&format!(
                "signed in at {}: pull requests of your prompts are opened as {login}",
                signed_in.forge
            ));
        }
        Ok(Exit::Done)
    }

    async fn by_a_token(
        &self,
        link: &Link,
        forge: &str,
        known: Option<&ForgeLogin>,
    ) -> anyhow::Result<ForgeLogin> {
        if std::io::stdin().is_terminal() {
            let place = known.map_or_else(|| forge.to_owned(), |known| known.url.clone());
            style::note(&format!(
                "make a token in your settings at {}, which may write to repositories",
                text::harmless(&place)
            ));
        }
        let token = value::read("the token")?;
        link.api.set_login(forge, &token).await
    }
}

/// Shows a code and waits until it was typed in.
async fn by_a_code(link: &Link, forge: &str) -> anyhow::Result<ForgeLogin> {
    let DeviceLogin { attempt, code, url, expires_s, mut interval_s } = link.api.begin_login(forge).await?;
    style::note(&format!("open {} and type in {}", text::harmless(&url), text::harmless(&code)));
    let until = tokio::time::Instant::now() + Duration::from_secs(expires_s);
    loop {
        tokio::time::sleep(Duration::from_secs(interval_s)).await;
        let state = link.api.continue_login(forge, &attempt).await?;
        if let Some(login) = state.login {
            let logins = link.api.logins().await?.logins;
            let known = logins.into_iter().find(|known| known.login.as_deref() == Some(&login));
            return known.ok_or_else(|| anyhow!("the server did not keep the token of {login}"));
        }
        if tokio::time::Instant::now() > until {
            bail!("the code was not typed in in time\n  begin again: slipway login {forge}");
        }
        interval_s = state.interval_s;
    }
}

fn row(login: &ForgeLogin) -> Vec<String> {
    let who = login.login.as_deref().map_or_else(|| "-".to_owned(), text::harmless);
    vec![login.forge.clone(), login.kind.clone(), text::harmless(&login.url), who]
}
