//! Who people are to git: the name and the mail address that stand in the commits which their prompts cause, and the
//! address under which others find the session.

use std::collections::BTreeMap;

use protocol::SessionId;

/// Longest name and mail address.
const LENGTH: usize = 200;

/// The author of the commits that sessions make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// A name.
    pub name: String,
    /// A mail address.
    pub email: String,
}

impl Default for Author {
    fn default() -> Self {
        Self { name: "Slipway".to_owned(), email: "slipway@localhost".to_owned() }
    }
}

impl Author {
    /// As git takes it: what would end the name or the address in a commit is not in it.
    pub(crate) fn tamed(&self) -> Self {
        let Self { name, email } = Self::default();
        Self { name: tame(&self.name).unwrap_or(name), email: tame(&self.email).unwrap_or(email) }
    }
}

impl std::fmt::Display for Author {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} <{}>", self.name, self.email)
    }
}

fn tame(text: &str) -> Option<String> {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let text: String = text.chars().filter(|letter| !"<>\\\"".contains(*letter)).map(plain).collect();
    // Git strips these from both ends, and has nothing where they are all there is.
    let edge = |letter: char| letter.is_whitespace() || ".,:;'".contains(letter);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = words.trim_matches(edge).chars().take(LENGTH).collect();
    (!text.is_empty()).then_some(text)
}

/// The people that are known by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct People {
    /// By the name that they have in events.
    pub known: BTreeMap<String, Author>,
    /// What addresses of the server's pages begin with; None where nobody can open them.
    pub url: Option<String>,
}

impl People {
    /// Who a person is to git. Somebody of whom nothing is known has the name of their events, and no address that
    /// mail would reach.
    pub fn author(&self, id: &str) -> Author {
        let unknown = || {
            let address: String =
                id.chars().filter(|letter| letter.is_alphanumeric() || "-_.+@".contains(*letter)).collect();
            let email = if address.contains('@') { address } else { format!("{address}@localhost") };
            Author { name: id.to_owned(), email }
        };
        self.known.get(id).cloned().unwrap_or_else(unknown).tamed()
    }

    /// Where a session is found: a link, or its id where there is no address.
    pub(crate) fn link(&self, session: SessionId) -> String {
        match &self.url {
            Some(url) => format!("{}/sessions/{session}", url.trim_end_matches('/')),
            None => session.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_have_the_name_that_is_known_or_that_of_their_events() {
        let ann = Author { name: "Ann Example".into(), email: "ann@example.com".into() };
        let people = People { known: [("ann".to_owned(), ann.clone())].into(), url: None };
        assert_eq!(people.author("ann"), ann);
        assert_eq!(people.author("bob").to_string(), "bob <bob@localhost>");
        assert_eq!(people.author("eve@example.com").to_string(), "eve@example.com <eve@example.com>");
    }

    #[test]
    fn nothing_in_a_name_ends_the_line_of_a_commit() {
        let people = People::default();
        let author = people.author("x> 0 +0000\nparent 1234 <y");
        assert!(!author.name.contains(['<', '>', '\n']) && !author.email.contains(['<', '>', '\n', ' ']));
        assert_eq!(people.author("\n<>").name, "Slipway");
    }

    #[test]
    fn a_session_is_linked_where_there_is_an_address() {
        let id = SessionId::from_u128(7);
        let people = People { url: Some("https://slipway.example/".into()), ..People::default() };
        assert_eq!(people.link(id), format!("https://slipway.example/sessions/{id}"));
        assert_eq!(People::default().link(id), id.to_string());
    }
}
