//! Who people are outside of Slipway: the name and the mail address of their commits, and where sessions are found.

use anyhow::bail;
use serde::Deserialize;

use super::Config;

/// A person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Person {
    /// As it stands in commits.
    pub(crate) name: String,
    /// The mail address that stands beside it.
    pub(crate) email: String,
    /// The names that they log in with at forges, by the forge's name in this file.
    #[serde(default)]
    pub(crate) logins: std::collections::BTreeMap<String, String>,
}

/// Refuses what would not stand in a commit as it is written.
pub(super) fn check(config: &Config) -> anyhow::Result<()> {
    for (id, Person { name, email, .. }) in &config.people {
        let odd = |text: &str| {
            text.trim().is_empty() || text.contains(['<', '>']) || text.contains(char::is_control)
        };
        if odd(name) {
            bail!("[people.{id}] name cannot stand in a commit: give it without '<', '>' and line ends");
        }
        if odd(email) || !email.contains('@') || email.contains(char::is_whitespace) {
            bail!("[people.{id}] email is no mail address");
        }
    }
    let url = &config.server.public_url;
    if !url.is_empty() && !url.starts_with("https://") && !url.starts_with("http://") {
        bail!("[server] public_url is not an http or https address, such as \"https://slipway.example.com\"");
    }
    Ok(())
}

impl Config {
    /// Whom commits are by. The user of this machine is who git says, unless the file knows better.
    pub(crate) fn people(&self, local: String, author: &session::Author) -> session::People {
        let named = self.people.iter().map(|(id, Person { name, email, .. })| {
            (id.clone(), session::Author { name: name.clone(), email: email.clone() })
        });
        let known = std::iter::once((local, author.clone())).chain(named).collect();
        let url = Some(self.server.public_url.clone()).filter(|url| !url.is_empty());
        session::People { known, url }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_who_the_file_says() {
        let text = "[server]\npublic_url = \"https://slipway.example\"\n\
                    [people.ann]\nname = \"Ann Example\"\nemail = \"ann@example.com\"";
        let host = session::Author { name: "Root".into(), email: "root@box".into() };
        let people = Config::parse(text).unwrap().people("root".into(), &host);
        assert_eq!(people.author("ann").to_string(), "Ann Example <ann@example.com>");
        assert_eq!(people.author("root"), host);
        assert_eq!(people.url.as_deref(), Some("https://slipway.example"));
        for (wrong, said) in [
            ("[people.ann]\nname = \"A <b>\"\nemail = \"a@b\"", "[people.ann] name"),
            ("[people.ann]\nname = \"A\"\nemail = \"nowhere\"", "[people.ann] email"),
            ("[server]\npublic_url = \"slipway.example\"", "public_url"),
        ] {
            let error = format!("{:#}", Config::parse(wrong).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}
