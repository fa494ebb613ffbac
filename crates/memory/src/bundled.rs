//! The embedding model that is always there: potion-base-2M with 64 dimensions, quantised to int8. A text is the mean of its
//! pieces, whose lengths carry how much each says. `data/README.md` tells where it comes from.

use std::sync::OnceLock;

use crate::embedder::{EmbedError, Embedder, normalise};
use crate::wordpiece::Pieces;
use crate::words::{asked, content};

static DATA: &[u8] = include_bytes!("../data/potion-base-2m.bin");
const MAGIC: &[u8] = b"slipemb1";
const NAME: &str = "potion-base-2m-int8";

/// The bundled model. All of its values share one vocabulary.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bundled;

struct Model {
    pieces: Pieces,
    scales: &'static [[u8; 4]],
    /// One number of each piece after the other.
    numbers: &'static [u8],
    dimensions: usize,
}

impl Bundled {
    /// What words mean together, not brought to length one: the longer, the more they say. None when no word is known.
    pub(crate) fn sum<'a>(self, words: impl IntoIterator<Item = &'a str>) -> Option<Vec<f32>> {
        let model = model()?;
        let mut sum = vec![0.0; model.dimensions];
        let mut any = false;
        for piece in words.into_iter().flat_map(|word| model.pieces.of(word)) {
            any |= model.add(piece, &mut sum).is_some();
        }
        any.then_some(sum)
    }

    /// What words mean together, with length one; zeros when no word is known.
    pub(crate) fn of_words<'a>(self, words: impl IntoIterator<Item = &'a str>) -> Vec<f32> {
        let mut vector =
            self.sum(words).unwrap_or_else(|| vec![0.0; model().map_or(0, |model| model.dimensions)]);
        normalise(&mut vector);
        vector
    }
}

impl Embedder for Bundled {
    fn name(&self) -> &str {
        NAME
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if model().is_none() {
            let detail = "its data is damaged: build the program again".to_owned();
            return Err(EmbedError { model: NAME.to_owned(), detail });
        }
        Ok(texts.iter().map(|text| self.of_words(content(text).iter().map(String::as_str))).collect())
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        // In a mean of a few words "please add" would count as much as what is to be added.
        self.embed(&[&asked(text).join(" ")]).map(|mut vectors| vectors.pop().unwrap_or_default())
    }
}

impl Model {
    fn read(data: &'static [u8]) -> Option<Self> {
        let rest = data.strip_prefix(MAGIC)?;
        let (rows, rest) = rest.split_first_chunk::<4>()?;
        let (dimensions, rest) = rest.split_first_chunk::<4>()?;
        let rows = usize::try_from(u32::from_le_bytes(*rows)).ok()?;
        let dimensions = usize::try_from(u32::from_le_bytes(*dimensions)).ok()?;
        let (scales, rest) = rest.split_at_checked(rows.checked_mul(4)?)?;
        let (numbers, vocabulary) = rest.split_at_checked(rows.checked_mul(dimensions)?)?;
        let pieces = Pieces::new(std::str::from_utf8(vocabulary).ok()?);
        Some(Self { pieces, scales: scales.as_chunks::<4>().0, numbers, dimensions })
    }

    fn add(&self, piece: u32, sum: &mut [f32]) -> Option<()> {
        let row = usize::try_from(piece).ok()?;
        let scale = f32::from_le_bytes(*self.scales.get(row)?);
        let start = row * self.dimensions;
        let numbers = self.numbers.get(start..start + self.dimensions)?;
        for (sum, number) in sum.iter_mut().zip(numbers) {
            *sum += scale * f32::from(number.cast_signed());
        }
        Some(())
    }
}

fn model() -> Option<&'static Model> {
    static MODEL: OnceLock<Option<Model>> = OnceLock::new();
    MODEL.get_or_init(|| Model::read(DATA)).as_ref()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::embedder::cosine;

    fn likeness(a: &str, b: &str) -> f32 {
        let vectors = Bundled.embed(&[a, b]).unwrap();
        cosine(&vectors[0], &vectors[1])
    }

    #[test]
    fn what_means_the_same_is_nearer_than_what_does_not() {
        let near = likeness("the user cannot sign in", "login fails for customers");
        let far = likeness("the user cannot sign in", "bananas are yellow");
        assert!(near > far + 0.2, "{near} {far}");
        assert!((likeness("Run the tests", "run THE tests!") - 1.0).abs() < 1e-5);
    }

    #[test]
    fn a_text_without_known_words_has_no_meaning() {
        for text in ["", "the of and", "…", "\u{10ffff}"] {
            let vector = Bundled.embed(&[text]).unwrap().remove(0);
            assert_eq!(vector, vec![0.0; 64], "{text}");
        }
    }

    #[test]
    fn the_data_is_what_its_description_says() {
        let sum = ring::digest::digest(&ring::digest::SHA256, DATA);
        let hex: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(include_str!("../data/README.md").contains(&hex), "{hex}");
        assert!(Model::read(&DATA[..DATA.len() / 2]).is_none());
        assert!(Model::read(b"slipemb1").is_none());
        assert!(Model::read(b"slipemb1\xff\xff\xff\xff\xff\xff\xff\xff").is_none());
    }
}
