//! An embedding endpoint as the memory asks it: it may be slow or down, and then it is left alone for a while, so that nobody
//! waits for it again and again.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use memory::{EmbedError, Embedder, Scale};
use tokio::runtime::Handle;

/// How long notes wait for their vectors, and how long somebody who asks waits.
const FOR_NOTES: Duration = Duration::from_secs(30);
const FOR_QUERIES: Duration = Duration::from_secs(2);
/// How long one that did not answer is left alone.
const REST: Duration = Duration::from_secs(20);
/// Most bytes of a question that are sent: models read few, and notes are short as well.
const QUERY: usize = 2000;

/// Where texts are embedded.
#[derive(Debug, Clone)]
pub struct Embedding {
    /// The model, and where it is.
    pub embeddings: llm::Embeddings,
    /// What the model wants to read before a question, such as `query: `.
    pub query_prefix: String,
    /// What it wants to read before a note.
    pub text_prefix: String,
}

/// An endpoint with a client for it.
pub(crate) struct Endpoint {
    embedding: Embedding,
    name: String,
    client: llm::Client,
    runtime: Handle,
    /// Known once it has answered.
    scale: Mutex<Option<Scale>>,
    /// Until when it is left alone, and why.
    rests: Mutex<Option<(Instant, EmbedError)>>,
}

impl Endpoint {
    /// For calls that are made by threads that may wait.
    pub(crate) fn new(embedding: Embedding, client: llm::Client, runtime: Handle) -> Self {
        let Embedding { embeddings, text_prefix, .. } = &embedding;
        let prefix = if text_prefix.is_empty() { String::new() } else { format!(" after {text_prefix:?}") };
        let name = format!("{}{prefix}", embeddings.name());
        Self { name, embedding, client, runtime, scale: Mutex::default(), rests: Mutex::default() }
    }

    fn failed(&self, error: &llm::Error) -> EmbedError {
        let failed = EmbedError { model: self.name.clone(), detail: error.message.clone() };
        // One that refuses a text may take the next one.
        if !matches!(error.class, llm::Class::BadRequest | llm::Class::BadResponse) {
            self.rest(&failed);
        }
        failed
    }

    fn rest(&self, failed: &EmbedError) {
        let until = Instant::now().checked_add(REST);
        *lock(&self.rests) = until.map(|until| (until, failed.clone()));
    }

    fn resting(&self) -> Result<(), EmbedError> {
        let mut rests = lock(&self.rests);
        match &*rests {
            Some((until, why)) if Instant::now() < *until => Err(why.clone()),
            _ => {
                *rests = None;
                Ok(())
            }
        }
    }

    fn ask(&self, prefix: &str, texts: &[&str], patience: Duration) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.resting()?;
        let whole: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        // Servers refuse a text that has nothing in it, and it means nothing.
        let said: Vec<usize> = (0..texts.len()).filter(|place| !texts[*place].trim().is_empty()).collect();
        let sent: Vec<&str> = said.iter().map(|place| whole[*place].as_str()).collect();
        let mut vectors = vec![Vec::new(); texts.len()];
        if sent.is_empty() {
            return Ok(vectors);
        }
        let asked = self.client.embed(&self.embedding.embeddings, &sent, patience);
        let found = self.runtime.block_on(asked).map_err(|error| self.failed(&error))?;
        for (place, vector) in said.into_iter().zip(found) {
            vectors[place] = vector;
        }
        Ok(vectors)
    }

    /// Makes sure that its cosines can be read.
    fn measure(&self) -> Result<(), EmbedError> {
        if lock(&self.scale).is_some() {
            return Ok(());
        }
        let scale = Scale::of(&Unscaled(self)).inspect_err(|error| self.rest(error))?;
        *lock(&self.scale) = Some(scale);
        Ok(())
    }
}

impl Embedder for Endpoint {
    fn name(&self) -> &str {
        &self.name
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.measure()?;
        self.ask(&self.embedding.text_prefix, texts, FOR_NOTES)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.embed_queries(&[text]).map(|mut vectors| vectors.pop().unwrap_or_default())
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.measure()?;
        let short: Vec<&str> = texts.iter().map(|text| &text[..text.floor_char_boundary(QUERY)]).collect();
        self.ask(&self.embedding.query_prefix, &short, FOR_QUERIES)
    }

    fn likeness(&self, cosine: f32) -> f32 {
        lock(&self.scale).map_or(cosine, |scale| scale.bring(cosine))
    }
}

/// The endpoint before its scale is known.
struct Unscaled<'a>(&'a Endpoint);

impl Embedder for Unscaled<'_> {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.0.ask(&self.0.embedding.text_prefix, texts, FOR_QUERIES)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
