//! Which names were answered with which addresses. A connection tells only an address; this tells what was meant.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Pairs of a name and an address that are remembered; the oldest go first.
const MOST: usize = 4096;

/// An answer is believed this long. After that the name is looked up again.
const FRESH: Duration = Duration::from_secs(600);

/// How old an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    Stale,
}

/// The answers that one sandbox was given.
#[derive(Debug, Default)]
pub(super) struct Pins {
    answered: HashMap<IpAddr, HashMap<String, Instant>>,
    pairs: usize,
}

impl Pins {
    /// The name was answered with this address.
    pub(super) fn pin(&mut self, name: &str, address: IpAddr, now: Instant) {
        let names = self.answered.entry(address).or_default();
        if names.insert(name.to_owned(), now).is_none() {
            self.pairs += 1;
        }
        if self.pairs > MOST {
            self.forget_oldest();
        }
    }

    /// The names that were answered with this address, latest first.
    pub(super) fn names(&self, address: IpAddr, now: Instant) -> Vec<(String, Age)> {
        let mut names: Vec<_> = self.answered.get(&address).into_iter().flatten().collect();
        names.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let age = |at: &Instant| if now.duration_since(*at) < FRESH { Age::Fresh } else { Age::Stale };
        names.into_iter().map(|(name, at)| (name.clone(), age(at))).collect()
    }

    fn forget_oldest(&mut self) {
        let pairs =
            self.answered.iter().flat_map(|(address, names)| names.iter().map(move |pair| (address, pair)));
        let oldest =
            pairs.min_by_key(|(_, (_, at))| **at).map(|(address, (name, _))| (*address, name.clone()));
        let Some((address, name)) = oldest else { return };
        if let Some(names) = self.answered.get_mut(&address) {
            names.remove(&name);
            if names.is_empty() {
                self.answered.remove(&address);
            }
            self.pairs -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_age_and_the_oldest_are_forgotten() {
        let mut pins = Pins::default();
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let begin = Instant::now();
        pins.pin("a.test", address, begin);
        pins.pin("b.test", address, begin + Duration::from_secs(1));
        let expected = vec![("b.test".to_owned(), Age::Fresh), ("a.test".to_owned(), Age::Fresh)];
        assert_eq!(pins.names(address, begin + Duration::from_secs(2)), expected);
        let aged = pins.names(address, begin + FRESH);
        assert_eq!(aged, vec![("b.test".to_owned(), Age::Fresh), ("a.test".to_owned(), Age::Stale)]);
        for n in 0..MOST {
            pins.pin(&format!("{n}.test"), "192.0.2.2".parse().unwrap(), begin + Duration::from_secs(2));
        }
        assert!(pins.names(address, begin).is_empty());
        assert_eq!(pins.pairs, MOST);
    }
}
