//! What turns a text into numbers that are near each other for texts that mean the same.

/// Why a text could not be embedded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the embedding model {model} could not be asked: {detail}")]
pub struct EmbedError {
    /// Its name.
    pub model: String,
    /// What happened and, where it is known, what to do.
    pub detail: String,
}

/// An embedding model: the bundled one, or an endpoint.
///
/// Vectors have length one, the same number of dimensions each, and the same text always gives the same vector. The order
/// of the answer is that of the texts. It may block. When it fails, notes are kept without a vector and found by their words
/// until [`crate::Memory::embed_missing`] is called while it works again.
pub trait Embedder: Send + Sync {
    /// A name that changes whenever its vectors do: those of another name are never compared.
    fn name(&self) -> &str;

    /// One vector for each text. A text without any meaning may have zeros only.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// The vector of what is looked for. Some models want to know that it is a question.
    fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.embed(&[text]).map(|mut vectors| vectors.pop().unwrap_or_default())
    }

    /// The same for several texts. A model that is far away is asked once.
    fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        texts.iter().map(|text| self.embed_query(text)).collect()
    }

    /// Brings a cosine of this model to the scale of the bundled one, where unrelated texts have about 0.2 and what means the
    /// same has 0.6. Thresholds are measured on that scale.
    fn likeness(&self, cosine: f32) -> f32 {
        cosine
    }
}

/// The cosine of two vectors of length one; zero when one of them is missing.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return 0.0;
    }
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// How long a vector is.
pub(crate) fn length(vector: &[f32]) -> f64 {
    f64::from(vector.iter().map(|number| number * number).sum::<f32>().sqrt())
}

/// Brings a vector to length one, unless it is zero.
pub(crate) fn normalise(vector: &mut [f32]) {
    let length = length(vector) as f32;
    if length > 0.0 {
        vector.iter_mut().for_each(|number| *number /= length);
    }
}
