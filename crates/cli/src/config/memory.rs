//! `[memory]`: whether sessions use what is remembered, and which model says what texts mean.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use serde::{Deserialize, Serialize};

use super::{keys, models};

/// How the memory is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Memory {
    pub(crate) enabled: bool,
    #[serde(skip_serializing)]
    pub(crate) embedding: Option<Embedding>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { enabled: true, embedding: None }
    }
}

/// A server that speaks OpenAI's `/embeddings`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Embedding {
    base_url: String,
    model: String,
    api_key_env: Option<String>,
    pub(super) api_key_file: Option<PathBuf>,
    api_key_secret: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    dimensions: Option<u32>,
    #[serde(default)]
    query_prefix: String,
    #[serde(default)]
    text_prefix: String,
}

/// Our name of the model, for messages.
const NAME: &str = "memory.embedding";

impl Memory {
    /// What is wrong with it that the types allow.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Some(embedding) = &self.embedding else { return Ok(()) };
        if embedding.model.trim().is_empty() {
            bail!("[{NAME}] needs in model the server's name of the embedding model");
        }
        if let Some(variable) = &embedding.api_key_env {
            keys::check_variable(&format!("[{NAME}] api_key_env"), variable)?;
        }
        if let Some(secret) = &embedding.api_key_secret {
            keys::check_secret(&format!("[{NAME}] api_key_secret"), secret)?;
            if let Err(error) = store::Secrets::check_name(secret) {
                bail!("[{NAME}] api_key_secret: {}", error.advice());
            }
        }
        let places = [
            ("api_key_env", embedding.api_key_env.is_some()),
            ("api_key_file", embedding.api_key_file.is_some()),
            ("api_key_secret", embedding.api_key_secret.is_some()),
        ];
        let places: Vec<&str> = places.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect();
        if places.len() > 1 {
            bail!("[{NAME}] has {}: keep one of them", places.join(" and "));
        }
        if embedding.dimensions == Some(0) {
            bail!("[{NAME}] has dimensions = 0: leave it out, or give the number that the model offers");
        }
        if embedding.callable(None).check().is_err() {
            bail!(
                "[{NAME}] has a base_url or headers that cannot be sent: base_url is an http or https address such as \
                 \"http://127.0.0.1:8000/v1\", and headers have names of letters, digits and '-'"
            );
        }
        Ok(())
    }

    /// The memory as sessions use it.
    pub(crate) fn options(&self, secrets: &store::Secrets) -> session::MemoryOptions {
        let embedding = self.embedding.as_ref().map(|embedding| session::Embedding {
            embeddings: llm::Embeddings::new(
                embedding.callable(embedding.key(secrets)),
                embedding.dimensions,
            ),
            query_prefix: embedding.query_prefix.clone(),
            text_prefix: embedding.text_prefix.clone(),
        });
        session::MemoryOptions { enabled: self.enabled, embedding }
    }

    /// Why there is no key where the configuration says that there is one.
    pub(crate) fn lacks_key(&self, secrets: &store::Secrets) -> Option<String> {
        let embedding = self.embedding.as_ref()?;
        match (&embedding.api_key_env, embedding.key(secrets)) {
            (Some(variable), None) => Some(format!("{variable} is not set; requests go out without one")),
            (_, Some(key)) => key.check().err(),
            (None, None) => None,
        }
    }
}

impl Embedding {
    fn key(&self, secrets: &store::Secrets) -> Option<llm::Key> {
        match (&self.api_key_secret, &self.api_key_file) {
            (Some(secret), _) => Some(models::stored(secret, secrets)),
            (None, Some(file)) => Some(llm::Key::from_file(file)),
            (None, None) => self.api_key_env.as_deref().and_then(llm::Key::from_env),
        }
    }

    fn callable(&self, key: Option<llm::Key>) -> llm::Model {
        llm::Model {
            name: NAME.to_owned(),
            provider: llm::Provider::OpenAiCompatible,
            model: self.model.clone(),
            base_url: Some(self.base_url.clone()),
            key,
            headers: self.headers.clone(),
            price: None,
            overrides: llm::Overrides::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn an_endpoint_needs_an_address_and_a_model_and_at_most_one_key() {
        let embedding = |more: &str| {
            let text =
                format!("[memory.embedding]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n{more}");
            Config::parse(&text).map(drop).map_err(|error| format!("{error:#}"))
        };
        embedding("").unwrap();
        embedding("api_key_env = \"KEY\"\ndimensions = 256\nquery_prefix = \"query: \"").unwrap();
        for (more, said) in [
            ("api_key_env = \"KEY\"\napi_key_file = \"/k\"", "keep one of them"),
            ("dimensions = 0", "dimensions = 0"),
            ("api_key = \"sk-secret-1\"", "slipway secret set"),
            ("api_key_env = \"sk-secret-1\"", "is the name of a variable"),
            ("api_key_secret = \"sk-secret-1\"", "is the name of a secret"),
            ("headers = { \"a b\" = \"sk-secret-1\" }", "cannot be sent"),
        ] {
            let error = embedding(more).unwrap_err();
            assert!(error.contains(said) && !error.contains("sk-secret-1"), "{more}: {error}");
        }
        let error = |text: &str| format!("{:#}", Config::parse(text).unwrap_err());
        assert!(error("[memory.embedding]\nbase_url = \"ftp://x\"\nmodel = \"m\"").contains("base_url"));
        assert!(error("[memory.embedding]\nbase_url = \"http://x\"").contains("model"));
        assert!(!Config::parse("[memory]\nenabled = false").unwrap().memory.enabled);
    }
}
