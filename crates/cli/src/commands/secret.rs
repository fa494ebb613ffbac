//! `slipway secret`: values that the server keeps for models and sandboxes, and shows to nobody.

pub(super) mod value;

use anyhow::anyhow;
use protocol::StoredSecret;
use store::{SecretError, Secrets};

use super::Context;
use crate::api::Api;
use crate::exit::{Exit, Usage};
use crate::render::{print, style, table, text};

/// Secrets: keys of models and values for sandboxes' requests, kept by name.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Secret {
    /// Set a secret, or replace its value
    ///
    /// The value is read from standard input, without the line end at its end, or asked for on a terminal, where it is not
    /// shown. It is text of at most 64 KiB. A model has it as its key with api_key_secret = "NAME" in slipway.toml, from its
    /// next call on; an environment with secrets = [{ name = "TOKEN", secret = "NAME", hosts = […] }], from the next request of
    /// its sandboxes on. Nothing gives it out again.
    Set {
        /// Its name: letters, digits, '_', '-' and '.'
        name: String,
        /// Taken only to be refused without being shown
        #[arg(hide = true)]
        value: Vec<String>,
    },
    /// List the secrets: when each was set, and what uses it
    Ls,
    /// Remove a secret
    Rm {
        /// Its name
        name: String,
    },
}

impl Secret {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        match self {
            Self::Set { name, value } => {
                not_an_argument(&name, &value)?;
                set(&context, &name).await?;
            }
            Self::Ls => {
                let link = context.look().await?;
                let list = link.api.secrets().await;
                link.close_now().await?;
                let list = list?;
                if context.json {
                    print::json(&list)?;
                } else if list.secrets.is_empty() {
                    style::note("no secrets yet; set one with: slipway secret set NAME");
                } else {
                    let head = ["name", "set", "models", "environments"];
                    print::line(&table::format(&head, list.secrets.iter().map(row)))?;
                    list.secrets.iter().filter_map(|secret| secret.problem.as_deref()).for_each(style::note);
                }
            }
            Self::Rm { name } => {
                let link = context.look().await?;
                let removed = remove(&link.api, &name).await;
                link.close_now().await?;
                let users = removed?;
                if context.json {
                    print::json(&serde_json::json!({ "removed": name }))?;
                } else {
                    style::note(&format!("removed {name}{users}"));
                }
            }
        }
        Ok(Exit::Done)
    }
}

/// Refuses a value on the command line. It is not shown again.
fn not_an_argument(name: &str, value: &[String]) -> Result<(), Usage> {
    if value.is_empty() {
        return Ok(());
    }
    let name = if Secrets::check_name(name).is_ok() { name } else { "NAME" };
    Err(Usage(anyhow!(
        "the value of a secret is not an argument: it is read from standard input, or asked for\n  \
         use: slipway secret set {name} < FILE\n  \
         what was given is in the history of your shell now, and other users could see it: change it where it comes from"
    )))
}

async fn set(context: &Context, name: &str) -> anyhow::Result<()> {
    // What is wrong with the name is told before anybody types a value.
    Secrets::check_name(name).map_err(|error| wrong(&error))?;
    let asked = name.to_owned();
    let value = tokio::task::spawn_blocking(move || value::read(&asked)).await??;
    Secrets::check_value(&value).map_err(|error| wrong(&error))?;
    let link = context.look().await?;
    let set = link.api.set_secret(name, value).await;
    link.close_now().await?;
    let set = set?;
    if context.json {
        return print::json(&set);
    }
    let use_it = match users(&set) {
        Some(users) => format!("used by {users}"),
        None => format!(
            "nothing uses it yet: name it with api_key_secret = \"{name}\" of a model in slipway.toml"
        ),
    };
    style::note(&format!("set {name}; {use_it}"));
    Ok(())
}

/// Removes it, and says who will miss it.
async fn remove(api: &Api, name: &str) -> anyhow::Result<String> {
    let known = api.secrets().await?.secrets.into_iter().find(|secret| secret.name == name);
    api.remove_secret(name).await?;
    let users = known.as_ref().and_then(users);
    Ok(users.map(|users| format!(", which is still wanted by {users}")).unwrap_or_default())
}

fn wrong(error: &SecretError) -> Usage {
    Usage(anyhow!("{error}\n  {}", error.hint()))
}

fn users(secret: &StoredSecret) -> Option<String> {
    let of = |what: &str, names: &[String]| {
        let plural = if names.len() == 1 { "" } else { "s" };
        (!names.is_empty()).then(|| format!("the {what}{plural} {}", names.join(", ")))
    };
    let all = [of("model", &secret.models), of("environment", &secret.environments)];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

fn row(secret: &StoredSecret) -> Vec<String> {
    let set = match (secret.set_at, &secret.problem) {
        (Some(at), None) => format!("{} ago", text::age(at)),
        (Some(at), Some(_)) => format!("{} ago, unusable", text::age(at)),
        (None, _) => "no".to_owned(),
    };
    let names = |names: &[String]| if names.is_empty() { "-".to_owned() } else { names.join(", ") };
    vec![secret.name.clone(), set, names(&secret.models), names(&secret.environments)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_the_command_line_is_refused_and_not_repeated() {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Line {
            #[command(subcommand)]
            secret: Secret,
        }
        let read = |words: &[&str]| {
            let line = ["slipway", "set"].into_iter().chain(words.iter().copied());
            match Line::try_parse_from(line).ok().unwrap().secret {
                Secret::Set { name, value } => not_an_argument(&name, &value),
                Secret::Ls | Secret::Rm { .. } => panic!("another command"),
            }
        };
        assert!(read(&["KEY"]).is_ok());
        for words in
            [&["KEY", "sk-secret-1"][..], &["KEY", "sk-secret-1", "x"], &["KEY", "--", "sk-secret-1"]]
        {
            let said = read(words).unwrap_err().0.to_string();
            assert!(said.contains("slipway secret set KEY < FILE") && !said.contains("sk-secret"), "{said}");
        }
    }

    #[test]
    fn it_is_said_what_uses_a_secret() {
        let mut secret = StoredSecret {
            name: "KEY".to_owned(),
            set_at: None,
            models: Vec::new(),
            environments: Vec::new(),
            problem: None,
        };
        assert_eq!(
            (users(&secret), row(&secret)),
            (None, ["KEY", "no", "-", "-"].map(str::to_owned).to_vec())
        );
        secret.models = vec!["big".to_owned(), "small".to_owned()];
        assert_eq!(users(&secret).unwrap(), "the models big, small");
        secret.environments = vec!["shop".to_owned()];
        assert_eq!(users(&secret).unwrap(), "the models big, small and the environment shop");
    }
}
