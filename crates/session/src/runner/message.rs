//! What stands in a commit: a title that says what was done, the prompt that caused it, the people who share it, and where
//! the session is found.

use crate::failure::Failure;
use crate::people::{Author, People};
use crate::state::TurnState;
use crate::workspace::prefix;

use super::Runner;

/// Most bytes of a prompt.
const BODY: usize = 8 * 1024;
/// Longest title, as most programs that show commits have room for it.
const TITLE: usize = 72;
/// The title of a commit whose title would have been a secret.
const NAMELESS: &str = "Work of a session";
/// A title has at least so many words: "Done now." says nothing.
const WORDS: usize = 3;

/// A commit in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    /// Whose prompt caused it.
    pub(crate) author: Author,
    /// Everybody who has a share in it, the author first, by the name that they have in events.
    pub(crate) by: Vec<String>,
    pub(crate) message: String,
}

/// What a commit is made of.
struct Facts<'a> {
    /// The session's title.
    session: &'a str,
    prompt: &'a str,
    /// What the model said last.
    said: &'a str,
    /// Whether the branch has no commit yet.
    first: bool,
}

impl Runner {
    /// The words of the commit that this turn makes. Work that earlier turns left without a commit goes into it, so those
    /// whose prompts it is of share it.
    pub(super) async fn words(&self, turn: &TurnState) -> Result<Words, Failure> {
        let history = self.context.history().await?;
        let said = history.current().map(|past| past.said.clone()).unwrap_or_default();
        let stream = self.context.recorder.stream();
        let session = stream.with_state(|state| state.created().map(|created| created.title.clone()));
        let saved = self.context.workspace.saved();
        // Everybody who has the repository reads it, and it stays.
        let clean = async |text: &str| crate::outbox::redacted(&self.context, text.to_owned()).await;
        let session = clean(session.as_deref().unwrap_or_default()).await;
        let (prompt, said) = (clean(turn.text.trim()).await, clean(&said).await);
        let facts = Facts {
            session: &session,
            prompt: &prompt,
            said: &said,
            first: saved.as_ref().is_none_or(|saved| saved.tip.is_none()),
        };
        let earlier = saved.map(|saved| saved.shared_by).unwrap_or_default();
        let mut by = turn.authors.clone();
        by.extend(earlier);
        let people = &self.context.options.people;
        let link = people.link(self.context.recorder.session());
        Ok(words(people, &facts, by, &link))
    }
}

fn words(people: &People, facts: &Facts<'_>, by: Vec<String>, link: &str) -> Words {
    let mut names: Vec<String> = Vec::new();
    let mut authors: Vec<Author> = Vec::new();
    for name in by {
        let author = people.author(&name);
        if !authors.iter().any(|known| known.email == author.email) {
            authors.push(author);
            names.push(name);
        }
    }
    let title = match title(facts) {
        title if title.starts_with(crate::outbox::LEFT_OUT) => NAMELESS.to_owned(),
        title => title,
    };
    let body = match facts.prompt {
        "" => String::new(),
        prompt if prompt == title => String::new(),
        prompt => format!("{}\n\n", crate::outbox::quiet(prefix(prompt, BODY).trim_end())),
    };
    let shared: String = authors.iter().skip(1).map(|author| format!("Co-authored-by: {author}\n")).collect();
    // A program's arguments end at a NUL.
    let message = format!("{title}\n\n{body}{shared}Slipway-Session: {link}").replace('\0', " ");
    Words { author: authors.into_iter().next().unwrap_or_default(), by: names, message }
}

/// What was done, in one line. The first commit of a branch does what the session is about. A later one follows from a
/// prompt such as "go on", which says nothing by itself: what the model says that it did says more.
fn title(facts: &Facts<'_>) -> String {
    let prompt = crate::title(facts.prompt);
    if facts.first || prompt == facts.session {
        return if facts.session.is_empty() { prompt } else { facts.session.to_owned() };
    }
    let done = sentence(facts.said);
    let asked = Some(prompt).filter(|prompt| prompt.split_whitespace().count() >= WORDS);
    done.or(asked).unwrap_or_else(|| match facts.session {
        "" => crate::title(facts.prompt),
        session => crate::title(&format!("{session}, continued")),
    })
}

/// The first sentence of what a model said of its work, if that can be a title.
fn sentence(said: &str) -> Option<String> {
    let around = |letter: char| letter.is_whitespace() || "*#_>-\"".contains(letter);
    let line = said.lines().map(|line| line.trim_matches(around)).find(|line| !line.is_empty())?;
    let sentences = line.split_inclusive(['.', '!', '?', ':']);
    // A full stop in a name, as in `cart.py`, ends no sentence.
    let mut first = String::new();
    for piece in sentences {
        first.push_str(piece);
        let rest = &line[first.len()..];
        if rest.is_empty() || rest.starts_with(char::is_whitespace) {
            let words =
                first.trim_end_matches(['.', '!', ':']).trim_matches(around).split_whitespace().count();
            if words >= WORDS {
                break;
            }
            // "Done." is followed by what was.
            let skipped = first.len();
            let next = line[skipped..].trim_start_matches(around);
            return if next.is_empty() { None } else { sentence(next) };
        }
    }
    let text = first.trim_end_matches(['.', '!', ':']).trim_matches(around);
    let plain = ["I have ", "I've ", "I ", "We have ", "We "].iter().find_map(|who| text.strip_prefix(who));
    let text = plain.unwrap_or(text);
    let mut letters = text.chars();
    let text: String = letters.next()?.to_uppercase().chain(letters).collect();
    let fits = text.chars().count() <= TITLE
        && text.split_whitespace().count() >= WORDS
        && !text.ends_with('?')
        && !text.chars().any(char::is_control);
    fits.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(prompt: &'a str, said: &'a str, first: bool) -> Facts<'a> {
        Facts { session: "Correct the cart", prompt, said, first }
    }

    #[test]
    fn the_title_says_what_was_done() {
        let later = |prompt, said| title(&facts(prompt, said, false));
        assert_eq!(title(&facts("Please correct it", "Done.", true)), "Correct the cart");
        assert_eq!(later("go on", "I've added tests to `cart.py`. They pass."), "Added tests to `cart.py`");
        assert_eq!(later("go on", "Done. The totals are rounded now."), "The totals are rounded now");
        assert_eq!(later("go on", "**Rounded the totals**\n\nMore."), "Rounded the totals");
        assert_eq!(later("go on", "Done."), "Correct the cart, continued");
        assert_eq!(later("go on", ""), "Correct the cart, continued");
        assert_eq!(later("go on", "Shall I also round it?"), "Correct the cart, continued");
        assert_eq!(later("Round the totals to cents", "Done."), "Round the totals to cents");
        assert_eq!(later("Write it down", "Noted."), "Write it down");
        assert_eq!(later("go on", &"very ".repeat(40)), "Correct the cart, continued");
    }

    #[test]
    fn the_first_is_the_author_and_others_share_it() {
        let people = People::default();
        let by = vec!["ann".to_owned(), "bob".into(), "ann".into()];
        let made = words(&people, &facts("Correct the cart", "", true), by, "ses_1");
        assert_eq!(made.author.to_string(), "ann <ann@localhost>");
        assert_eq!(made.by, ["ann", "bob"]);
        assert_eq!(
            made.message,
            "Correct the cart\n\nCo-authored-by: bob <bob@localhost>\nSlipway-Session: ses_1"
        );
        let nobody = words(&people, &facts("", "", true), Vec::new(), "ses_1");
        assert_eq!(nobody.author, Author::default());
    }
}
