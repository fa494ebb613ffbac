//! A note taken apart for the comparison with another: what it denies, which values it has, and which words with which part in
//! their sentence. No grammar is known here, only signs of it, so whoever compares takes what cannot be told for a difference.

use std::collections::BTreeSet;

use crate::lexicon::{
    Part, is_named_by_number, is_versioned, number, part, preposition, root, side, small_side, unit,
};

/// What comes after one of these is not what it would be before it: "npm, not yarn", "migrate before the deploy".
const TURNS: [&str; 7] = ["after", "before", "instead", "not", "over", "rather", "than"];

/// Before a "that" they say nothing.
const OPENINGS: [&str; 5] = ["ensur", "mind", "not", "remember", "sur"];

/// A word that says something.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    /// What is compared: its root, or the word itself where that is a name.
    pub(crate) key: String,
    /// The preposition before it.
    pub(crate) role: Option<&'static str>,
    /// Whether it stands after a form of "to be".
    pub(crate) after_be: bool,
    /// Whether its clause is denied.
    pub(crate) denied: bool,
}

/// A number, a version or an amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    /// In the one way to write it.
    pub(crate) text: String,
    /// Whether it may be none: "one" is also whoever does something.
    vague: bool,
}

/// A text taken apart.
#[derive(Debug, Default)]
pub(crate) struct Gist {
    /// The words in order, each where it stands first.
    pub(crate) words: Vec<Word>,
    /// The words that name something: code, things, people.
    pub(crate) names: BTreeSet<String>,
    /// Numbers, versions and amounts, in order.
    pub(crate) values: Vec<Value>,
    /// Whether it has an odd number of negations.
    pub(crate) denies: bool,
    /// Whether it says what may be.
    pub(crate) permits: bool,
    /// The words that have an opposite, each where it says something of a thing.
    pub(crate) sides: BTreeSet<&'static str>,
    /// The words right after one of [`TURNS`].
    pub(crate) turned: BTreeSet<String>,
    /// Whether it has more than one sentence or clause.
    pub(crate) has_clauses: bool,
}

/// A piece of a text between spaces.
#[derive(Debug)]
struct Token {
    /// Without what stands around it, in lower case.
    lower: String,
    /// Whether it is written as a name is.
    name: bool,
    /// Whether it is code, or has signs that ordinary words have not.
    exact: bool,
    /// Whether a clause ends with it.
    ends: bool,
}

/// Where the reading of a text is.
#[derive(Default)]
struct Place {
    role: Option<&'static str>,
    /// Whether the role has its word already.
    taken: bool,
    after_be: bool,
    denied: bool,
    condition: bool,
    turns: bool,
    /// Whether nothing of the clause was a word yet.
    began: bool,
    /// The root of the last word.
    before: String,
    /// Whether the last token was a number without a unit.
    counts: bool,
}

impl Gist {
    /// Takes apart two texts. What the one has as code is taken as it is written in the other, too.
    pub(crate) fn of_both(old: &str, new: &str) -> (Self, Self) {
        let (old, new) = (tokens(old), tokens(new));
        let code = |tokens: &[Token]| -> BTreeSet<String> {
            tokens.iter().filter(|token| token.exact).map(|token| token.lower.clone()).collect()
        };
        let exact: BTreeSet<String> = code(&old).union(&code(&new)).cloned().collect();
        (Self::of(&old, &exact), Self::of(&new, &exact))
    }

    #[cfg(test)]
    fn of_one(text: &str) -> Self {
        Self::of(&tokens(text), &BTreeSet::new())
    }

    /// The words, without their order.
    pub(crate) fn keys(&self) -> BTreeSet<&str> {
        self.words.iter().map(|word| word.key.as_str()).collect()
    }

    /// The values, to be compared with those of another text.
    pub(crate) fn values_beside(&self, other: &Self) -> Vec<&str> {
        let all = self.values.len() == other.values.len();
        self.values.iter().filter(|value| all || !value.vague).map(|value| value.text.as_str()).collect()
    }

    /// The words that another text has not.
    pub(crate) fn words_beside(&self, other: &Self) -> Vec<&Word> {
        self.words.iter().filter(|word| other.word(&word.key).is_none()).collect()
    }

    /// A word, where the text has it first.
    pub(crate) fn word(&self, key: &str) -> Option<&Word> {
        self.words.iter().find(|word| word.key == key)
    }

    fn of(tokens: &[Token], exact: &BTreeSet<String>) -> Self {
        let mut gist = Self::default();
        let mut place = Place::default();
        for (at, token) in tokens.iter().enumerate() {
            let next = tokens.get(at + 1).filter(|_| !token.ends);
            if token.exact || exact.contains(&token.lower) {
                gist.exact(token, next, &mut place);
            } else {
                let pieces: Vec<&str> = token.lower.split('-').filter(|piece| !piece.is_empty()).collect();
                // "Start-up" is "startup", and no "up".
                if pieces.len() > 1 && pieces.iter().any(|piece| part(piece) != Part::Content) {
                    gist.plain(&pieces.concat(), token, next, &mut place);
                } else {
                    pieces.iter().for_each(|piece| gist.plain(piece, token, next, &mut place));
                }
            }
            if token.ends {
                gist.has_clauses |= at + 1 < tokens.len();
                place = Place::default();
            }
        }
        gist
    }

    /// A name of code or a number.
    fn exact(&mut self, token: &Token, next: Option<&Token>, place: &mut Place) {
        let versioned = |word: &str| is_versioned(&root(word));
        let is_version_of_many = token.lower.strip_prefix('v').is_some_and(is_digits)
            && (is_versioned(&place.before) || next.is_some_and(|next| versioned(&next.lower)));
        let is_status = token.lower.len() == 3
            && is_digits(&token.lower)
            && ["1", "2", "3", "4", "5"].iter().any(|class| token.lower.starts_with(class))
            && ["fail", "answer", "return", "respond"].contains(&place.before.as_str());
        match value(&token.lower) {
            Some(value) if !is_version_of_many && !is_status && !is_named_by_number(&place.before) => {
                place.counts = is_digits(&token.lower);
                self.values.push(Value { text: value, vague: false });
            }
            _ => self.push(token.lower.clone(), token, place),
        }
    }

    fn plain(&mut self, word: &str, token: &Token, next: Option<&Token>, place: &mut Place) {
        let counted = std::mem::take(&mut place.counts);
        if let Some(value) = self.values.last_mut().filter(|_| counted)
            && let Some(unit) = unit(word)
        {
            value.text.push_str(unit);
            value.vague = false;
            return;
        }
        if let Some(number) = number(word) {
            place.counts = true;
            self.values.push(Value { text: number.to_owned(), vague: word == "one" });
            return;
        }
        self.sides.extend(small_side(word));
        place.turns |= TURNS.contains(&word);
        match part(word) {
            // "Not only", and "orders that are not paid": that denies something else than what is said.
            Part::Negation if next.is_some_and(|next| ["just", "only"].contains(&next.lower.as_str())) => {}
            Part::Negation if place.condition => self.push("not".to_owned(), token, place),
            Part::Negation => {
                self.denies = !self.denies;
                place.denied = true;
                place.before = word.to_owned();
            }
            Part::Permission => self.permits = true,
            Part::Filler => {}
            Part::Determiner => {
                place.end_of_phrase();
                if place.role.is_none() && ["each", "every", "per"].contains(&word) {
                    place.role = Some("each");
                }
            }
            Part::Auxiliary => {
                (place.role, place.after_be) = (None, true);
            }
            Part::Preposition => {
                place.role = preposition(word);
                place.taken = false;
            }
            Part::Condition => {
                // "Note that it is so" has no condition.
                let only_says = word == "that" && OPENINGS.contains(&place.before.as_str());
                place.condition |= place.began && !only_says;
                place.role = None;
            }
            Part::Joint => {
                self.has_clauses = true;
                let before = std::mem::take(&mut place.before);
                *place = Place { before, condition: place.condition, ..Place::default() };
            }
            Part::Glue if word == "longer" => {}
            Part::Glue => place.end_of_phrase(),
            // "No longer" is a "not".
            Part::Content if word == "longer" && place.before == "no" => {}
            Part::Content => self.content(word, token, next, place),
        }
    }

    /// A word with a meaning of its own.
    fn content(&mut self, word: &str, token: &Token, next: Option<&Token>, place: &mut Place) {
        let root = root(word);
        if let Some((row, side)) = side(&root) {
            // "Disabled flags are logged" speaks of other flags than "enabled flags are logged".
            let attributes = next.is_some_and(|next| {
                value(&next.lower).is_none() && (next.exact || part(&next.lower) == Part::Content)
            });
            let orders = !place.began && ["disable", "enable"].contains(&word);
            if !place.condition && (!attributes || orders) {
                self.sides.insert(side);
                return self.push(format!("±{row}"), token, place);
            }
        }
        self.push(root, token, place);
    }

    fn push(&mut self, key: String, token: &Token, place: &mut Place) {
        if place.turns {
            self.turned.insert(key.clone());
            place.turns = false;
        }
        if token.name {
            self.names.insert(key.clone());
        }
        place.before.clone_from(&key);
        (place.began, place.taken, place.counts) = (true, true, false);
        let after_be = std::mem::take(&mut place.after_be);
        if self.word(&key).is_none() {
            self.words.push(Word { key, role: place.role, after_be, denied: place.denied });
        }
    }
}

impl Place {
    /// A noun after a preposition is at its end where another begins.
    fn end_of_phrase(&mut self) {
        if self.taken {
            self.role = None;
        }
        self.after_be = false;
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut in_code = false;
    // The first word of a sentence is no name because of its capital.
    let mut begins = true;
    for raw in text.split_whitespace() {
        let code = in_code || raw.contains('`');
        in_code ^= raw.matches('`').count() % 2 == 1;
        let around = |c: char| !(c.is_alphanumeric() || matches!(c, '#' | '_') || c == '-' && code);
        let word = raw.trim_matches(around);
        let word = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
        let ends = raw.trim_end_matches(['`', '"', '\'', ')']).ends_with(['.', ',', ':', ';', '!', '?']);
        if word.is_empty() {
            // A dash with spaces around it, and the like.
            if let Some(last) = tokens.last_mut().filter(|_| ends || raw.chars().all(|c| "–—-".contains(c)))
            {
                last.ends = true;
            }
            continue;
        }
        let odd = |c: char| c.is_ascii_digit() || matches!(c, '_' | '#' | '/' | '.' | ':' | '@');
        let inner_capital =
            word.chars().any(char::is_lowercase) && word.chars().skip(1).any(char::is_uppercase);
        let capital = !begins && word.starts_with(char::is_uppercase);
        let exact = code || word.contains(odd) || raw.starts_with("--");
        let lower = if exact && raw.starts_with("--") { format!("--{word}") } else { word.to_owned() };
        tokens.push(Token {
            lower: lower.to_lowercase(),
            name: exact || inner_capital || capital,
            exact,
            ends,
        });
        begins = raw.ends_with(['.', ':', ';', '!', '?']);
    }
    tokens
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// A number, a version, or an amount with a unit, in the one way to write it.
fn value(word: &str) -> Option<String> {
    let bare = word.strip_prefix('v').unwrap_or(word);
    let letters = bare.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | ':' | '_'));
    if !bare.starts_with(|c: char| c.is_ascii_digit()) || !letters.chars().all(char::is_alphabetic) {
        return None;
    }
    let number: String = bare.strip_suffix(letters)?.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    match unit(letters) {
        Some(unit) => Some(number + unit),
        None => (letters.len() <= 3).then(|| number + letters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        Gist::of_one(text).words.into_iter().map(|word| word.key).collect()
    }

    #[test]
    fn values_have_one_way_to_be_written() {
        for (text, values) in [
            ("The limit is 20MB", &["20mb"][..]),
            ("a limit of 20 MB, twice", &["20mb", "2"]),
            ("30 seconds or five minutes", &["30s", "5min"]),
            ("v1.2 on port 8_080", &["1.2", "8080"]),
            ("ticket 12, HTTP 404, and it fails with 503", &[]),
        ] {
            let found = Gist::of_one(text).values.into_iter().map(|value| value.text);
            assert_eq!(found.collect::<Vec<_>>(), values, "{text}");
        }
    }

    #[test]
    fn what_denies_something_else_denies_nothing() {
        for (text, denies) in [
            ("Never push", true),
            ("It is not only slow", false),
            ("Orders that are not paid are kept", false),
            ("Note that we don't push", true),
            ("Do not push without tests", false),
        ] {
            assert_eq!(Gist::of_one(text).denies, denies, "{text}");
        }
    }

    #[test]
    fn code_stays_as_it_is_written_and_words_lose_their_ending() {
        assert_eq!(keys("Run `make rows` and parse_dates"), ["run", "make", "rows", "parse_dates"]);
        assert_eq!(keys("The tests' databases are copied"), ["test", "db", "copi"]);
        assert_eq!(keys("部署之前必须先运行"), ["部署之前必须先运行"]);
        let word = |text: &str, key: &str| Gist::of_one(text).word(key).cloned().unwrap();
        assert_eq!(word("In staging the flag is on", "stag").role, Some("in"));
        assert_eq!(word("In staging the flag is on", "flag").role, None);
        assert!(word("The worker is called by the API", "cal").after_be);
    }
}
