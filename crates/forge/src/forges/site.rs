//! A forge as the configuration names it, with what people and webhooks need of it.

use super::hook::Hook;
use super::place::Place;
use super::sign_in::SignIn;
use super::{Kind, Repository};

/// A forge of the configuration.
#[derive(Debug, Clone)]
pub struct Site {
    /// Its name there.
    pub name: String,
    /// Which forge it is.
    pub kind: Kind,
    /// What the addresses of its repositories begin with.
    pub url: String,
    place: Place,
    /// Where people sign in; None where its address is no page.
    pub sign_in: Option<SignIn>,
    /// Takes its webhooks; None where it has no secret for them.
    pub hook: Option<Hook>,
    /// What a comment must mention to become a prompt, without the `@`.
    pub bot: String,
    /// Whose comments become prompts.
    pub comments: Comments,
    /// People by the name that they log in with there, in lower case, and what they are called here.
    pub people: Vec<(String, String)>,
}

/// Whose comments become prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Comments {
    /// Those of people who are known here.
    #[default]
    People,
    /// Also those of people who belong to the repository, where the forge says so.
    Members,
    /// Everybody's.
    Anyone,
}

impl Site {
    /// A forge that serves the repositories below this address, with its API at that one.
    pub fn new(name: &str, kind: Kind, url: &str, api_url: &str) -> Result<Self, String> {
        let place = Place::of_forge(url, api_url)
            .ok_or_else(|| format!("\"{url}\" is no address of a forge, such as https://github.com"))?;
        Ok(Self {
            name: name.to_owned(),
            kind,
            url: url.to_owned(),
            place,
            sign_in: None,
            hook: None,
            bot: "slipway".to_owned(),
            comments: Comments::default(),
            people: Vec::new(),
        })
    }

    /// The address of the forge itself, also where it is to serve one owner only.
    pub fn root(&self) -> String {
        match super::root_of(&self.url) {
            Some(root) => {
                self.place.own().iter().fold(root.to_owned(), |root, part| format!("{root}/{part}"))
            }
            None => self.url.clone(),
        }
    }

    /// What the repository at this address is called there, if it is one of its.
    pub fn repository(&self, address: &str) -> Option<Repository> {
        Place::parse(address)?.below(&self.place)
    }

    /// Whether the repository at this address is the one that a webhook names. Forges take names in any case.
    pub fn has(&self, address: &str, named: &Repository) -> bool {
        self.repository(address)
            .is_some_and(|known| known.to_string().eq_ignore_ascii_case(&named.to_string()))
    }

    /// The person who logs in there with this name.
    pub fn person(&self, login: &str) -> Option<&str> {
        let login = login.to_lowercase();
        self.people.iter().find(|(known, _)| *known == login).map(|(_, person)| person.as_str())
    }

    /// Whether a text speaks to us: it has our name after an `@`, as a word of its own and not in code or in a quote.
    pub fn is_mentioned(&self, text: &str) -> bool {
        let (text, name) =
            (super::said::own_words(text).to_lowercase(), format!("@{}", self.bot.to_lowercase()));
        let joined = |letter: char| letter.is_alphanumeric() || "-_".contains(letter);
        text.match_indices(&name).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let mut after = text[at + name.len()..].chars();
            let (after, second) = (after.next(), after.next());
            // A team, a host of a mail address and a longer name are others.
            let goes_on = match after {
                Some('.') => second.is_some_and(joined),
                Some(letter) => joined(letter) || "/@".contains(letter),
                None => false,
            };
            !before.is_some_and(|letter| joined(letter) || ".@/+".contains(letter)) && !goes_on
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_is_spoken_to_is_a_mention() {
        let site = Site::new("hub", Kind::GitHub, "https://github.com", "https://api.github.com").unwrap();
        for yes in ["@slipway fix it", "please, @Slipway!", "(@slipway)", "a\n@slipway\nb", "@slipway."] {
            assert!(site.is_mentioned(yes), "{yes}");
        }
        for no in [
            "slipway",
            "@slipway-2 go",
            "ann@slipway.example",
            "@slipwayer",
            "x/@slipway",
            "",
            "write to a+@slipway or @slipway.example",
            "the team @slipway/core",
            "> @slipway fix it\n\nNo, do not.",
            "`@slipway rebase` is what you write",
            "```\n@slipway fix\n```",
            "<!-- @slipway fix -->",
        ] {
            assert!(!site.is_mentioned(no), "{no}");
        }
    }

    #[test]
    fn a_repository_is_known_by_its_name_in_any_case() {
        let site = Site::new("hub", Kind::GitHub, "https://github.com", "https://api.github.com").unwrap();
        let named = Repository { owner: "Acme".into(), name: "Shop".into() };
        assert!(site.has("git@github.com:acme/shop.git", &named));
        assert!(!site.has("https://git.example/acme/shop", &named));
    }
}
