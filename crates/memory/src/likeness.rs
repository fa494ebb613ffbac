//! Whether two notes say the same, or the one says otherwise than the other.
//!
//! Vectors cannot tell: "use npm" and "never use npm" are as near as two wordings of one thing, and so are two facts about two
//! services. So the words are compared. The rule is careful, since two notes too many are a smaller harm than one that is lost: a
//! word that only one of the two has makes them two, unless both have the same subject.

use std::collections::BTreeSet;

use protocol::NoteKind;

use crate::gist::{Gist, Word};
use crate::lexicon::{
    Part, are_apart, are_neighbours, is_attribute, names_a_value, oppose, part, rivals, root,
};
use crate::words::content;

/// What two notes are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// They say the same in other words.
    Same,
    /// They speak of the same thing, and say otherwise of it.
    Contrary,
    /// Anything else.
    Other,
}

/// A note, as far as it is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a> {
    pub(crate) kind: NoteKind,
    pub(crate) subject: Option<&'a str>,
    pub(crate) text: &'a str,
}

/// Compares two notes of one scope.
pub(crate) fn compare(old: &Told<'_>, new: &Told<'_>) -> Likeness {
    let pair = Pair::new(old.text, new.text);
    let texts = pair.likeness();
    let an_error = [old.kind, new.kind].contains(&NoteKind::ErrorPattern);
    let subject = |told: &Told<'_>| told.subject.map(words).filter(|words| !words.is_empty());
    match (subject(old), subject(new)) {
        (Some(one), Some(other)) if one != other => match texts {
            // A subject tells apart what the texts do not.
            Likeness::Same if pair.has_both(one.symmetric_difference(&other)) => Likeness::Same,
            // Nobody words a subject twice in the same way. Two that are nearly one are one where the texts leave no other choice.
            Likeness::Same | Likeness::Contrary
                if pair.are_one(&one, &other) && !pair.speaks_of_two(an_error) =>
            {
                texts
            }
            Likeness::Other
                if !an_error
                    && (pair.are_one(&one, &other) && pair.differs_in_one()
                        || !one.is_disjoint(&other) && pair.takes_back()) =>
            {
                Likeness::Contrary
            }
            Likeness::Same | Likeness::Contrary | Likeness::Other => Likeness::Other,
        },
        (one, other) => {
            let thing =
                |words: Option<BTreeSet<String>>, text| words.or_else(|| Some(Statement::of(text)?.thing));
            let has_subject = one.is_some() || other.is_some();
            let (one, other) = (thing(one, old.text), thing(other, new.text));
            let same_subject = has_subject && one.is_some() && one == other;
            match texts {
                Likeness::Same => Likeness::Same,
                Likeness::Contrary | Likeness::Other if same_subject => match pair.speaks_of_two(an_error) {
                    true => Likeness::Other,
                    false => Likeness::Contrary,
                },
                // Two errors that differ in a number are two errors.
                Likeness::Contrary | Likeness::Other if an_error => Likeness::Other,
                Likeness::Other if Statement::differ(old.text, new.text) => Likeness::Contrary,
                Likeness::Contrary | Likeness::Other => texts,
            }
        }
    }
}

/// The words of a subject, without their order and their endings.
fn words(subject: &str) -> BTreeSet<String> {
    let telling = content(subject).into_iter().filter(|word| part(word) != Part::Filler);
    telling.map(|word| root(&word)).collect()
}

/// Whether two words of subjects are one: "lint" and "linter", "format" and "formatting".
fn is_form_of(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let Some(ending) = long.strip_prefix(short) else { return false };
    // The last letter may be there twice.
    let single = ending.strip_prefix(short.chars().next_back().unwrap_or_default()).unwrap_or(ending);
    ending.is_empty() || short.len() >= 4 && (ENDINGS.contains(&ending) || ENDINGS.contains(&single))
}

/// Endings that make another word of the same thing.
const ENDINGS: [&str; 6] = ["er", "or", "ing", "ion", "ation", "ment"];

/// Two texts side by side.
struct Pair<'a> {
    texts: [&'a str; 2],
    a: Gist,
    b: Gist,
}

impl<'a> Pair<'a> {
    fn new(old: &'a str, new: &'a str) -> Self {
        let (a, b) = Gist::of_both(old, new);
        Self { texts: [old, new], a, b }
    }

    fn likeness(&self) -> Likeness {
        let (a, b) = (&self.a, &self.b);
        if a.words.is_empty() && b.words.is_empty() {
            let [old, new] = self.texts.map(str::trim);
            return if old == new { Likeness::Same } else { Likeness::Other };
        }
        let (own, others) = self.own();
        let values = self.has_equal_values();
        let opposed =
            (a.denies != b.denies) != oppose(|side| a.sides.contains(side), |side| b.sides.contains(side));
        let turned = self.is_turned();
        match (own.as_slice(), others.as_slice()) {
            ([], []) if !turned && self.is_reordered() => Likeness::Other,
            // To run it before the deploy is to deploy after it.
            ([], []) if opposed != turned && values => Likeness::Contrary,
            ([], []) if opposed != turned || a.permits != b.permits => Likeness::Other,
            ([], []) if values => Likeness::Same,
            ([], []) if a.values_beside(b).len() == b.values_beside(a).len() => Likeness::Contrary,
            ([one], [other]) if values && !opposed && !turned && self.are_rivals(one, other) => {
                Likeness::Contrary
            }
            _ => Likeness::Other,
        }
    }

    /// The words that only the one has, and those that only the other has.
    fn own(&self) -> (Vec<&Word>, Vec<&Word>) {
        let (own, others) = (self.a.words_beside(&self.b), self.b.words_beside(&self.a));
        let joined = |words: &[&Word]| words.iter().map(|word| word.key.as_str()).collect::<String>();
        // "Front end" is "frontend".
        if joined(&own) == joined(&others) { (Vec::new(), Vec::new()) } else { (own, others) }
    }

    fn has_equal_values(&self) -> bool {
        self.a.values_beside(&self.b) == self.b.values_beside(&self.a)
    }

    /// Whether a thing is one of the two, and no more than one: of two that are forbidden both may be.
    fn are_rivals(&self, one: &Word, other: &Word) -> bool {
        let row = rivals(&one.key);
        let is_alone = |gist: &Gist| gist.words.iter().filter(|word| rivals(&word.key) == row).count() == 1;
        row.is_some()
            && row == rivals(&other.key)
            && !self.a.denies
            && !self.b.denies
            && self.a.permits == self.b.permits
            && is_alone(&self.a)
            && is_alone(&self.b)
            && !self.is_reordered()
    }

    /// Whether two things have changed places around a "before", an "instead of" or a "not".
    fn is_turned(&self) -> bool {
        let (a, b) = (&self.a, &self.b);
        let after = |one: &Gist, other: &Gist| {
            one.turned.difference(&other.turned).any(|word| other.word(word).is_some())
        };
        let denied = |one: &Gist, other: &Gist| {
            one.words.iter().any(|word| word.denied && other.word(&word.key).is_some_and(|same| !same.denied))
        };
        after(a, b) && after(b, a)
            || a.has_clauses && b.has_clauses && denied(a, b) && denied(b, a) && !(after(a, b) || after(b, a))
    }

    /// Whether the words that both have may have other parts in the one than in the other: who calls whom, from where to where.
    fn is_reordered(&self) -> bool {
        let both: Vec<(&Word, &Word)> =
            self.a.words.iter().filter_map(|word| Some((word, self.b.word(&word.key)?))).collect();
        let apart = both
            .iter()
            .any(|(one, other)| one.role.zip(other.role).is_some_and(|(one, other)| are_apart(one, other)));
        let gave = both.iter().filter(|(_, other)| other.role.is_none()).filter_map(|(one, _)| one.role);
        let took: Vec<&str> =
            both.iter().filter(|(one, _)| one.role.is_none()).filter_map(|(_, other)| other.role).collect();
        let exchanged = gave.into_iter().any(|role| took.contains(&role));
        apart || exchanged || acts_otherwise(&self.a, &self.b) || acts_otherwise(&self.b, &self.a) || {
            let plain = |(one, other): &&(&Word, &Word)| {
                one.role.is_none() && other.role.is_none() && !one.after_be && !other.after_be
            };
            let place = |word: &Word| self.b.words.iter().position(|other| other.key == word.key);
            !both.iter().filter(plain).map(|(one, _)| place(one)).is_sorted()
        }
    }

    /// Whether both texts have all these words.
    fn has_both<'w>(&self, mut wanted: impl Iterator<Item = &'w String>) -> bool {
        let has = self.texts.map(words);
        wanted.all(|word| has.iter().all(|has| has.contains(word)))
    }

    /// Whether two subjects are one in other words: the one says more exactly what the other says, or what only one of them has
    /// is said by the texts.
    fn are_one(&self, one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
        let within = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
            one.iter().all(|word| other.iter().any(|same| is_form_of(word, same)))
        };
        let core = |subject: &BTreeSet<String>| -> BTreeSet<String> {
            subject.iter().filter(|word| !is_attribute(word)).cloned().collect()
        };
        let (a, b) = (core(one), core(other));
        let finer = !a.is_empty() && !b.is_empty() && (within(&a, &b) || within(&b, &a));
        let apart = one.iter().any(|word| other.iter().any(|other| are_neighbours(word, other)));
        let (own, others) = self.own();
        let said = |subject: &BTreeSet<String>, beside: &BTreeSet<String>, own: &[&Word]| {
            subject
                .difference(beside)
                .all(|word| self.has_both([word].into_iter()) || own.iter().any(|own| own.key == *word))
        };
        !apart
            && (finer
                || within(one, other)
                || within(other, one)
                || !one.is_disjoint(other) && said(one, other, &own) && said(other, one, &others))
    }

    /// Whether the one has another word than the other in one place, and all else is the same. What is in the first place is
    /// what it is said of, and two things are two.
    fn differs_in_one(&self) -> bool {
        let (own, others) = self.own();
        let ([one], [other]) = (own.as_slice(), others.as_slice()) else { return false };
        let (a, b) = (&self.a, &self.b);
        let place = |gist: &Gist, word: &Word| gist.words.iter().position(|known| known.key == word.key);
        let same_place = place(a, one).filter(|place| *place > 0) == place(b, other);
        let same_role = (one.role, one.after_be, one.denied) == (other.role, other.after_be, other.denied);
        a.words.len() > 2
            && same_place
            && place(a, one) != Some(0)
            && same_role
            && (a.denies, a.permits, &a.sides) == (b.denies, b.permits, &b.sides)
            && self.has_equal_values()
            && !are_neighbours(&one.key, &other.key)
            && !self.is_turned()
            && !self.is_reordered()
    }

    /// Whether the one names something else in the place of what the other says, and says so: "httpx, not requests".
    fn takes_back(&self) -> bool {
        let (own, others) = self.own();
        let (new, old, more) = match (own.as_slice(), others.as_slice()) {
            ([], [one]) => (&self.b, &self.a, one),
            ([one], []) => (&self.a, &self.b, one),
            _ => return false,
        };
        let denied = |word: &&Word| word.denied && old.word(&word.key).is_some_and(|old| !old.denied);
        new.has_clauses && !more.denied && new.words.iter().any(|word| denied(&word))
    }

    /// Whether two notes with one subject speak of two things all the same.
    fn speaks_of_two(&self, an_error: bool) -> bool {
        let (own, others) = self.own();
        let beside = own.iter().any(|one| others.iter().any(|other| are_neighbours(&one.key, &other.key)));
        let reordered = own.is_empty() && others.is_empty() && !self.is_turned() && self.is_reordered();
        let values = self.has_equal_values();
        let named = |gist: &Gist, words: &[&Word]| {
            !values && !gist.values.is_empty() || words.iter().any(|word| gist.names.contains(&word.key))
        };
        let errors = an_error && named(&self.a, &own) && named(&self.b, &others);
        // Another thing with another value: what is known of the one says nothing about the other.
        let rest = self.a.words.len().saturating_sub(own.len());
        let alike = rest >= own.len().max(others.len());
        let valued = !self.a.values.is_empty() && !self.b.values.is_empty() && !values;
        let rival = own.iter().any(|one| others.iter().any(|other| self.are_rivals(one, other)));
        beside || reordered || errors || alike && valued && !rival && !own.is_empty() && !others.is_empty()
    }
}

/// Whether what does something "by" which it is done in the one text is not what does it in the other.
fn acts_otherwise(passive: &Gist, active: &Gist) -> bool {
    let place = |key: &str| active.words.iter().position(|word| word.key == key);
    let actors = passive.words.iter().enumerate().filter(|(_, word)| word.role == Some("by"));
    let mut as_subject =
        actors.filter(|(_, actor)| active.word(&actor.key).is_some_and(|word| word.role.is_none()));
    as_subject.any(|(at, actor)| {
        let act = passive.words[..at].iter().rfind(|word| word.after_be);
        act.is_none_or(|act| place(&act.key) < place(&actor.key))
    })
}

/// "The test command is npm test": a thing of which there is one, and which it is.
struct Statement {
    thing: BTreeSet<String>,
    /// What it is: a name, a program or a value, and nothing about where or when.
    what: Gist,
}

impl Statement {
    fn of(text: &str) -> Option<Self> {
        let (thing, what) = [" is ", " are "].iter().find_map(|is| text.split_once(is))?;
        let (about, what) = Gist::of_both(thing, what);
        let attribute = about.words.iter().rfind(|word| word.role.is_none())?;
        let plain = !about.has_clauses && !about.denies && !what.has_clauses && !what.denies;
        let bare = what.words.len() <= 4 && what.words.iter().all(|word| word.role.is_none());
        let names = |word: &Word| names_a_value(&word.key) || what.names.contains(&word.key);
        let valued = !what.values.is_empty() || what.words.iter().any(names);
        (is_attribute(&attribute.key) && plain && bare && valued).then(|| Self { thing: words(thing), what })
    }

    /// Whether two texts say otherwise of one thing.
    fn differ(old: &str, new: &str) -> bool {
        let (Some(old), Some(new)) = (Self::of(old), Self::of(new)) else { return false };
        let (one, other) = (old.what.keys(), new.what.keys());
        // "MySQL" and "MySQL 8" may be one.
        let finer = one.is_subset(&other) || other.is_subset(&one);
        let beside = one.iter().any(|one| other.iter().any(|other| are_neighbours(one, other)));
        old.thing == new.thing && !finer && !beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(old: &str, new: &str) -> Likeness {
        let told = |text| Told { kind: NoteKind::Fact, subject: None, text };
        compare(&told(old), &told(new))
    }

    #[test]
    fn other_words_for_the_same_are_the_same() {
        for (a, b) in [
            ("The storefront is installed with pnpm.", "storefront is installed with pnpm"),
            ("Run the tests with `just test`", "Running tests: run the test with `just test`."),
            ("Never deploy on Fridays", "We never deploy on a Friday."),
            ("Use npm, not yarn", "Here one uses npm and not yarn."),
            ("Run migrations before the deploy", "The migrations are run before each deploy"),
            ("The flag is on in staging", "In staging the flag is on"),
            ("Run migrations before the deploy", "Deploy after the migrations are run"),
        ] {
            assert_eq!(compared(a, b), Likeness::Same, "{a} | {b}");
            assert_eq!(compared(b, a), Likeness::Same, "{b} | {a}");
        }
    }

    #[test]
    fn another_value_or_a_not_is_contrary() {
        for (a, b) in [
            ("The API listens on port 8080", "The API listens on port 9090"),
            ("The web front end needs Node 20", "The web front end needs Node 22."),
            ("CI has 8 GB of memory", "CI has 16 GB of memory"),
            ("Deploy on Fridays", "Do not deploy on Fridays"),
            ("Snapshots are committed", "Snapshots aren't committed"),
            ("The cache is cleared by hand after v1.2", "The cache is cleared by hand after v2.0"),
            ("Clear the cache before the deploy", "Clear the cache after the deploy"),
            ("The feature flag is on in staging", "The feature flag is off in staging"),
            ("Reviews must be done by two people", "Reviews may be done by two people"),
            ("Use npm, not yarn", "Use yarn, not npm"),
            ("Install with yarn instead of npm", "Install with npm instead of yarn"),
            ("Run migrations before the deploy", "Run the deploy before migrations"),
        ] {
            assert_eq!(compared(a, b), Likeness::Contrary, "{a} | {b}");
            assert_eq!(compared(b, a), Likeness::Contrary, "{b} | {a}");
        }
    }

    #[test]
    fn what_speaks_of_something_else_stays() {
        for (a, b) in [
            ("The API listens on port 8080", "The worker listens on port 8081"),
            ("Ana reviews payments", "Jonas reviews payments"),
            ("Ticket 12 was caused by a slow disk", "Ticket 13 was caused by a slow disk"),
            ("error E0277 is fixed by importing SumMoney", "error E0599 is fixed by importing SumMoney"),
            ("`parse_date` takes UTC", "`parse_time` takes UTC"),
            ("exit code 137 is lack of memory", "exit code 139 is lack of memory"),
            ("Staging is refreshed on Mondays", "Production is never refreshed"),
            ("Orders that are paid are kept", "Orders that are not paid are kept"),
            ("Disabled flags are logged", "Enabled flags are logged"),
            ("", "text"),
            ("the", "a"),
        ] {
            assert_eq!(compared(a, b), Likeness::Other, "{a} | {b}");
            assert_eq!(compared(b, a), Likeness::Other, "{b} | {a}");
        }
    }

    #[test]
    fn subjects_are_compared_by_their_words() {
        assert_eq!(words("Package manager"), words("the package-managers"));
        assert_eq!(words("timeout of requests"), words("request timeout"));
        assert_ne!(words("test command"), words("build command"));
    }
}
