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
/// What is put where a program must not see one word. It is not shown.
const GAP: char = '\u{200b}';
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
    /// The last lines of it: who shares it, and where the session is found.
    pub(crate) trailers: String,
}

impl Words {
    /// The message of a commit that was made in the workspace: what it says was done, without anybody whom it names for it, and
    /// without what a forge or its CI would obey; then what stands in every commit.
    pub(crate) fn instead_of(&self, message: &str) -> String {
        if message.trim() == self.message.trim() {
            return self.message.clone();
        }
        let author = self.author.to_string();
        let said: Vec<&str> = message.lines().filter(|line| !names_somebody(line, &author)).collect();
        let said = harmless(said.join("\n").trim());
        // An address calls nobody where it stands for the author.
        let signed = format!("Signed-off-by: {author}");
        let shown =
            |line: &str| if line.replace(GAP, "") == signed { signed.clone() } else { line.to_owned() };
        let said = said.lines().map(shown).collect::<Vec<_>>().join("\n");
        let last = said.rsplit("\n\n").next().unwrap_or_default();
        // Trailers of the agent's own, such as the id of a change, stand in one paragraph with ours.
        let between = if said.contains("\n\n") && last.lines().all(is_trailer) { "\n" } else { "\n\n" };
        let said = if said.trim().is_empty() { NAMELESS } else { &said };
        format!("{said}{between}{}", self.trailers)
    }
}

/// Whether a line of a message is a trailer.
fn is_trailer(line: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
    };
    line.split_once(": ").is_some_and(|(name, _)| token(name))
}

/// Whether a line says who did or saw something, or for whom, or in which session: none of that is the agent's to say. It may
/// sign off for the author.
fn names_somebody(line: &str, author: &str) -> bool {
    let Some((name, value)) = line.trim().split_once(':') else { return false };
    match name.trim_end().to_ascii_lowercase().as_str() {
        "signed-off-by" => value.trim() != author,
        "slipway-session" | "on-behalf-of" => true,
        name => name.ends_with("-by") && !name.contains(char::is_whitespace),
    }
}

/// A text for the message of a commit, of which a forge and its CI obey nothing.
pub(crate) fn harmless(text: &str) -> String {
    unskipped(&crate::outbox::quiet(text))
}

/// A text without what tells a forge's CI to pass over a commit, by a gap that nobody sees.
fn unskipped(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('[') {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        shown.push('[');
        rest = &from[1..];
        let inside = rest.split(']').next().unwrap_or_default();
        let words: Vec<String> = inside
            .split([' ', '-', '_'])
            .map(str::to_ascii_lowercase)
            .filter(|word| !word.is_empty())
            .collect();
        if (2..4).contains(&words.len()) && words.iter().any(|word| matches!(word.as_str(), "skip" | "no")) {
            shown.push(GAP);
        }
    }
    shown.push_str(rest);
    let line = |line: &str| match line.trim_start().to_ascii_lowercase() {
        low if low.starts_with("skip-checks") => line.replacen('-', &format!("-{GAP}"), 1),
        low if low.contains("no_ci") => line.replace('_', &format!("_{GAP}")),
        _ => line.to_owned(),
    };
    shown.lines().map(line).collect::<Vec<_>>().join("\n")
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
        prompt => format!("{}\n\n", harmless(prefix(prompt, BODY).trim_end())),
    };
    let title = harmless(&title);
    let shared: String = authors.iter().skip(1).map(|author| format!("Co-authored-by: {author}\n")).collect();
    // A program's arguments end at a NUL.
    let trailers = format!("{shared}Slipway-Session: {link}").replace('\0', " ");
    let message = format!("{title}\n\n{body}{trailers}").replace('\0', " ");
    Words { author: authors.into_iter().next().unwrap_or_default(), by: names, message, trailers }
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

/// What a later pull request of a session is about: what the model says that it did, as far as that can be a title.
pub(crate) fn later_title(session: &str, said: &str) -> String {
    sentence(said).unwrap_or_else(|| crate::title(&format!("{session}, continued")))
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
        assert_eq!(made.instead_of(&made.message), made.message);
        let theirs = "Fixes #12 @octocat [skip ci]\n\nIt was 41.\n\nChange-Id: I1\nSigned-off-by: ann <ann@localhost>\nReviewed-by: The CEO <ceo@corp.example>\nSlipway-Session: x";
        let told = made.instead_of(theirs);
        assert_eq!(
            told.replace(GAP, ""),
            "Fixes #12 @octocat [skip ci]\n\nIt was 41.\n\nChange-Id: I1\nSigned-off-by: ann <ann@localhost>\nCo-authored-by: bob <bob@localhost>\nSlipway-Session: ses_1"
        );
        for bad in ["Fixes #12", "@octocat", "[skip ci]"] {
            assert!(!told.contains(bad), "{told}");
        }
        assert_eq!(made.instead_of(&told), told, "once is enough");
        assert!(made.instead_of("").starts_with(NAMELESS));
        // The platform's own words can be a model's, or those of a log that it was shown.
        let said = words(
            &people,
            &facts("CI says [skip ci] @all", "Add tests of the cart [no ci].", false),
            Vec::new(),
            "x",
        );
        for bad in ["[skip ci]", "@all", "[no ci]"] {
            assert!(!said.message.contains(bad), "{}", said.message);
        }
        let nobody = words(&people, &facts("", "", true), Vec::new(), "ses_1");
        assert_eq!(nobody.author, Author::default());
    }
}
