//! The scale of another embedding model. Each has cosines of its own for texts that mean the same and for those that do not;
//! thresholds are measured on the scale of the bundled model. So both models are shown the same few pairs of texts.

use crate::bundled::Bundled;
use crate::embedder::{EmbedError, Embedder, cosine};

/// Pairs of which both say the same. Those of other pairs have nothing to do with each other.
const PAIRS: [[&str; 2]; 8] = [
    ["The web shop is installed with pnpm.", "Use pnpm to install the packages of the shop."],
    ["Invoices are sent by the worker at night.", "A nightly worker sends out the invoices."],
    ["Never deploy on a Friday.", "Deployments on Fridays are forbidden."],
    ["The tests need a database on port 5433.", "Start Postgres on port 5433 before running tests."],
    ["Prices are stored as integers of cents.", "Amounts of money are kept in whole cents."],
    ["The login page lives in the accounts module.", "You find the sign-in page in the module accounts."],
    ["Images are resized in the browser.", "The browser makes images smaller before upload."],
    ["Logs are kept for thirty days.", "After a month the log files are deleted."],
];

/// Models whose pairs are not nearer than strangers by this much cannot be used.
const LEAST: f32 = 0.05;

/// How the cosines of a model are brought to the scale of the bundled one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The middle cosine of strangers, here and there.
    strangers: [f32; 2],
    /// That of pairs.
    pairs: [f32; 2],
}

impl Scale {
    /// Asks a model for what it makes of texts that are known.
    pub fn of(model: &dyn Embedder) -> Result<Self, EmbedError> {
        let texts: Vec<&str> = PAIRS.as_flattened().to_vec();
        let [own, bundled] = [model.embed(&texts)?, Bundled.embed(&texts)?].map(|vectors| middle(&vectors));
        if own.pairs - own.strangers < LEAST {
            return Err(EmbedError {
                model: model.name().to_owned(),
                detail: "it does not tell texts that mean the same from others: is it an embedding model?"
                    .to_owned(),
            });
        }
        Ok(Self { strangers: [own.strangers, bundled.strangers], pairs: [own.pairs, bundled.pairs] })
    }

    /// A cosine of that model on the scale of the bundled one.
    pub fn bring(&self, cosine: f32) -> f32 {
        let share = (cosine - self.strangers[0]) / (self.pairs[0] - self.strangers[0]);
        self.strangers[1] + share * (self.pairs[1] - self.strangers[1])
    }
}

struct Middle {
    strangers: f32,
    pairs: f32,
}

fn middle(vectors: &[Vec<f32>]) -> Middle {
    let (mut pairs, mut strangers) = (Vec::new(), Vec::new());
    for (place, one) in vectors.iter().enumerate() {
        for (other_place, other) in vectors.iter().enumerate().skip(place + 1) {
            let list = if place / 2 == other_place / 2 { &mut pairs } else { &mut strangers };
            list.push(cosine(one, other));
        }
    }
    let median = |mut list: Vec<f32>| {
        list.sort_by(f32::total_cmp);
        list.get(list.len() / 2).copied().unwrap_or_default()
    };
    Middle { strangers: median(strangers), pairs: median(pairs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bundled model with other cosines: all of its vectors have a part in common.
    struct Narrow(f32);

    impl Embedder for Narrow {
        fn name(&self) -> &str {
            "narrow"
        }

        fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            let own = (1.0 - self.0 * self.0).sqrt();
            let stretch =
                |vector: Vec<f32>| vector.into_iter().map(|number| number * own).chain([self.0]).collect();
            Ok(Bundled.embed(texts)?.into_iter().map(stretch).collect())
        }
    }

    #[test]
    fn another_model_comes_to_the_same_scale() {
        let scale = Scale::of(&Bundled).unwrap();
        assert!((scale.bring(0.3) - 0.3).abs() < 1e-5, "{scale:?}");
        // Cosines of this one are between 0.64 and 1.
        let narrow = Scale::of(&Narrow(0.8)).unwrap();
        let of_bundled = |cosine: f32| 0.64 + 0.36 * cosine;
        for cosine in [0.0, 0.2, 0.6, 0.9] {
            assert!((narrow.bring(of_bundled(cosine)) - cosine).abs() < 1e-3, "{narrow:?}");
        }
    }

    #[test]
    fn what_tells_nothing_apart_is_refused() {
        let error = Scale::of(&Narrow(1.0)).unwrap_err();
        assert!(error.to_string().contains("is it an embedding model?"), "{error}");
    }
}
