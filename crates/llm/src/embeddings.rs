//! Embeddings: what texts mean, as numbers, from a server that speaks OpenAI's `/embeddings`. Such an answer is whole, small
//! and never streamed.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Client, root_cause};
use crate::error::{Class, Error, excerpt};
use crate::key::Key;
use crate::model::Model;

/// Most texts of one request; servers take few at once.
const BATCH: usize = 32;

/// The most bytes of an answer.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;

/// Where a person looks for what is wrong.
const PLACE: &str = "[memory.embedding] in slipway.toml";

/// An embedding model, and where it is served.
#[derive(Debug, Clone)]
pub struct Embeddings {
    /// With its address, key and headers.
    model: Model,
    /// How many numbers a text has, where that can be chosen.
    dimensions: Option<u32>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Embeddings {
    /// A model that can be asked for embeddings. Of the model only name, address, key and headers matter.
    pub fn new(model: Model, dimensions: Option<u32>) -> Self {
        Self { model, dimensions }
    }

    /// A name that changes whenever the numbers do: the model, where it is, and how many numbers there are.
    pub fn name(&self) -> String {
        let dimensions = self.dimensions.map(|count| format!(" with {count} dimensions"));
        format!("{} at {}{}", self.model.model, self.address(), dimensions.unwrap_or_default())
    }

    /// Name of the secret that is the key, if it is in a store.
    pub fn secret_name(&self) -> Option<&str> {
        self.model.key.as_ref().and_then(Key::secret_name)
    }

    /// Whether a text has the key in it.
    pub fn is_told_in(&self, text: &str) -> bool {
        self.model.is_told_in(text)
    }

    fn address(&self) -> String {
        self.model.address()
    }

    /// What makes a failure of this server, in words that have no key.
    fn error(&self, class: Class, what: &str) -> Error {
        let message = format!("The embedding server at {} {what} Check {PLACE}.", self.address());
        Error::new(class, message).redact(&self.model.secrets())
    }
}

impl Client {
    /// One vector of length one for each text, in their order, within so much time. Of a failure nothing is kept.
    pub async fn embed(
        &self,
        embeddings: &Embeddings,
        texts: &[&str],
        patience: Duration,
    ) -> Result<Vec<Vec<f32>>, Error> {
        // What is sent is what must not be shown, also where the key is another one by then.
        let key = embeddings.model.key.as_ref().map(Key::as_it_is_now);
        let model = Model { key, ..embeddings.model.clone() };
        let embeddings = Embeddings { model, ..embeddings.clone() };
        let all = async {
            let mut vectors = Vec::with_capacity(texts.len());
            for some in texts.chunks(BATCH) {
                vectors.extend(self.embed_some(&embeddings, some).await?);
            }
            Ok(vectors)
        };
        match tokio::time::timeout(patience, all).await {
            Ok(vectors) => alike(vectors?).map_err(|what| embeddings.error(Class::BadResponse, what)),
            Err(_) => Err(embeddings.error(Class::TimedOut, &format!("did not answer within {patience:?}."))),
        }
    }

    async fn embed_some(&self, embeddings: &Embeddings, texts: &[&str]) -> Result<Vec<Vec<f32>>, Error> {
        let Embeddings { model, dimensions } = embeddings;
        let key = model.key.as_ref().map(Key::expose).transpose();
        let key = key.map_err(|why| embeddings.error(Class::Auth, &format!("has no key: {why}.")))?;
        let headers = model.request_headers(key.as_deref().map(String::as_str))?;
        let mut body = json!({"model": model.model, "input": texts, "encoding_format": "float"});
        if let (Some(count), Some(body)) = (dimensions, body.as_object_mut()) {
            body.insert("dimensions".to_owned(), Value::from(*count));
        }
        let request = self.request(Method::POST, model.url("/embeddings")?);
        let request =
            request.header(CONTENT_TYPE, "application/json").headers(headers).body(body.to_string());
        let mut response = request.send().await.map_err(|error| {
            let what = format!("cannot be reached: {}; is it running?", root_cause(&error));
            embeddings.error(Class::Unreachable, &what)
        })?;
        let mut bytes = Vec::new();
        let broke = |error: reqwest::Error| {
            embeddings.error(Class::BadResponse, &format!("broke off: {}.", root_cause(&error)))
        };
        while let Some(piece) = response.chunk().await.map_err(broke)? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > ANSWER_LIMIT {
                return Err(embeddings.error(Class::BadResponse, "sends an answer that does not end."));
            }
        }
        let status = response.status();
        if !status.is_success() {
            let said = excerpt(&String::from_utf8_lossy(&bytes));
            let class = match status.as_u16() {
                401 | 403 => Class::Auth,
                404 => Class::UnknownModel,
                429 => Class::RateLimited,
                500.. => Class::Overloaded,
                _ => Class::BadRequest,
            };
            return Err(embeddings.error(class, &format!("refuses with {}: {said}", status.as_u16())));
        }
        read(&bytes, texts.len()).map_err(|what| embeddings.error(Class::BadResponse, &what))
    }
}

/// The vectors of an answer, in the order of the texts.
fn read(bytes: &[u8], count: usize) -> Result<Vec<Vec<f32>>, String> {
    let answer: Answer = serde_json::from_slice(bytes)
        .map_err(|error| format!("gives an answer that has no embeddings ({error})."))?;
    let mut vectors = vec![Vec::new(); count];
    for (place, entry) in answer.data.into_iter().enumerate() {
        let place = entry.index.unwrap_or(place);
        match vectors.get_mut(place) {
            Some(vector) if vector.is_empty() => *vector = entry.embedding,
            Some(_) | None => return Err("gives more embeddings than it was sent texts.".to_owned()),
        }
    }
    if vectors.iter().any(Vec::is_empty) {
        return Err("gives fewer embeddings than it was sent texts.".to_owned());
    }
    Ok(vectors)
}

/// Brings vectors to length one. They must have as many numbers each.
fn alike(mut vectors: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>, &'static str> {
    let dimensions = vectors.first().map_or(0, Vec::len);
    for vector in &mut vectors {
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        if vector.len() != dimensions {
            return Err("gives embeddings of different lengths.");
        }
        if !length.is_finite() || length == 0.0 {
            return Err("gives an embedding that says nothing.");
        }
        vector.iter_mut().for_each(|number| *number /= length);
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_by_its_numbers_and_refused_where_they_are_wrong() {
        let answer = |data: Value| read(json!({"data": data}).to_string().as_bytes(), 2);
        let entry = |index: usize, number: f32| json!({"index": index, "embedding": [number]});
        assert_eq!(answer(json!([entry(1, 2.0), entry(0, 1.0)])).unwrap(), [[1.0], [2.0]]);
        assert_eq!(answer(json!([{"embedding": [1.0]}, {"embedding": [2.0]}])).unwrap(), [[1.0], [2.0]]);
        for wrong in [
            json!([entry(0, 1.0)]),
            json!([entry(0, 1.0), entry(0, 2.0)]),
            json!([entry(0, 1.0), entry(2, 2.0)]),
            json!([entry(0, 1.0), {"index": 1, "embedding": []}]),
            json!([entry(0, 1.0), {"index": 1, "embedding": "AACAPw=="}]),
            json!("no list"),
        ] {
            assert!(answer(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn vectors_have_length_one_and_as_many_numbers() {
        assert_eq!(alike(vec![vec![3.0, 4.0]]).unwrap(), [[0.6, 0.8]]);
        assert!(alike(vec![vec![1.0], vec![1.0, 0.0]]).is_err());
        assert!(alike(vec![vec![0.0]]).is_err() && alike(vec![vec![f32::NAN]]).is_err());
    }
}
