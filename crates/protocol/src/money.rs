//! Money in whole numbers, so that sums do not depend on their order and comparisons have no error.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many of them are a dollar.
const PICO: i128 = 1_000_000_000_000;

/// Dollars, counted in millionths of a millionth: at a price with up to six places for a million tokens, each token costs a
/// whole number of them. On the wire it is a decimal number, which is exact up to 8192 dollars and the nearest one above.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(i128);

impl Usd {
    /// So many millionths of a millionth of a dollar.
    pub const fn from_pico(pico: i128) -> Self {
        Self(pico)
    }

    /// In millionths of a millionth of a dollar.
    pub const fn pico(self) -> i128 {
        self.0
    }

    /// The nearest number of dollars.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / PICO as f64
    }
}

/// What is no number is nothing, and what is too much is the most there can be.
impl From<f64> for Usd {
    fn from(dollars: f64) -> Self {
        let whole = dollars.trunc();
        // Each by itself: all of it times so much would not have the digits for the last ones.
        let rest = ((dollars - whole) * PICO as f64).round();
        Self((whole as i128).saturating_mul(PICO).saturating_add(rest as i128))
    }
}

impl std::ops::AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

/// In dollars, with as many places as are asked for.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.dollars(), f)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_dimes_are_a_dollar() {
        let mut sum = Usd::default();
        for _ in 0..10 {
            sum += Usd::from(0.1);
        }
        assert_eq!((sum, sum.dollars()), (Usd::from(1.0), 1.0));
        let mut many = Usd::default();
        for _ in 0..1_000_000 {
            many += Usd::from(0.000_000_123_457);
        }
        assert_eq!(many.pico(), 123_457_000_000);
        assert_eq!(serde_json::to_string(&many).unwrap(), "0.123457");
    }

    #[test]
    fn every_amount_up_to_its_bound_comes_back_from_the_wire() {
        let bound = 8192 * PICO;
        let mut pico: i128 = 1;
        // Amounts of all sizes, and those beside them; the last ones are the hardest.
        while pico < bound {
            let near = [pico - 1, pico, pico + 1, bound - pico];
            for pico in near.into_iter().chain(near.map(|pico| -pico)) {
                let text = serde_json::to_string(&Usd(pico)).unwrap();
                assert_eq!(serde_json::from_str::<Usd>(&text).unwrap(), Usd(pico), "{text}");
            }
            pico += pico / 97 + 1;
        }
    }

    #[test]
    fn what_an_older_version_added_up_is_set_right() {
        assert_eq!(serde_json::from_str::<Usd>("1.0999999999999999").unwrap(), Usd::from(1.1));
        assert_eq!(serde_json::from_str::<Usd>("2").unwrap().pico(), 2 * PICO);
    }

    #[test]
    fn nothing_overflows() {
        assert_eq!(Usd::from(f64::NAN).pico(), 0);
        let mut most = Usd::from(f64::INFINITY);
        most += Usd::from(1e300);
        assert_eq!((most.pico(), Usd::from(f64::NEG_INFINITY).pico()), (i128::MAX, i128::MIN));
        assert_eq!(format!("{:.4} {}", Usd::from(2.25), Usd::from(0.5)), "2.2500 0.5");
    }
}
