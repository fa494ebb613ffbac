//! Which model is called, where, and with which key. The provider decides the address, the wire format and the way a
//! key is sent; everything else is the same for all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::error::{Class, Error};
use crate::price::Price;
use crate::wire::Format;

/// A key that cannot be printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A key as a person typed or stored it; white space around it is dropped.
    pub fn new(secret: String) -> Self {
        Self(secret.trim().to_owned())
    }

    /// The key in an environment variable, unless that is unset, empty or not text.
    pub fn from_env(name: &str) -> Option<Self> {
        let key = Self::new(std::env::var(name).ok()?);
        if key.0.is_empty() { None } else { Some(key) }
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Who serves the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// Anthropic's messages API.
    Anthropic,
    /// OpenAI's chat completions API.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's responses API.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Google's Gemini, through its OpenAI-compatible address.
    Gemini,
    /// Google's Gemini in its own format.
    GeminiNative,
    /// Any server that speaks chat completions; needs a `base_url`.
    #[serde(rename = "openai-compatible")]
    OpenAiCompatible,
}

impl Provider {
    /// The provider's own address, when it has one.
    pub fn base_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com/v1"),
            Self::OpenAi | Self::OpenAiResponses => Some("https://api.openai.com/v1"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com/v1beta/openai"),
            Self::GeminiNative => Some("https://generativelanguage.googleapis.com/v1beta"),
            Self::OpenAiCompatible => None,
        }
    }

    /// The environment variable in which people usually keep the provider's key.
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::OpenAi | Self::OpenAiResponses => Some("OPENAI_API_KEY"),
            Self::Gemini | Self::GeminiNative => Some("GEMINI_API_KEY"),
            Self::OpenAiCompatible => None,
        }
    }

    pub(crate) fn format(self) -> Format {
        match self {
            Self::Anthropic => Format::Anthropic,
            Self::OpenAi | Self::Gemini | Self::OpenAiCompatible => Format::Chat,
            Self::OpenAiResponses => Format::Responses,
            Self::GeminiNative => Format::Gemini,
        }
    }
}

/// A model that can be called.
#[derive(Clone)]
pub struct Model {
    /// Our name of it.
    pub name: String,
    /// Who serves it.
    pub provider: Provider,
    /// The provider's name of it.
    pub model: String,
    /// Where it is served, with or without a trailing slash; the provider's own address when absent.
    pub base_url: Option<String>,
    /// The key, when the server wants one.
    pub key: Option<Key>,
    /// Further headers of each call; they win over our own.
    pub headers: BTreeMap<String, String>,
    /// Overrides the bundled table.
    pub price: Option<Price>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("name", &self.name)
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("address", &self.address())
            .field("key", &self.key)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("price", &self.price)
            .finish()
    }
}

impl Model {
    /// The URL of one call.
    pub(crate) fn endpoint(&self) -> Result<Url, Error> {
        let base = self.base()?;
        let text = format!("{}{}", base.trim().trim_end_matches('/'), self.path());
        match Url::parse(&text) {
            Ok(mut url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
                if self.provider.format() == Format::Gemini {
                    // Without it, the stream is one array that ends only with the answer.
                    url.query_pairs_mut().append_pair("alt", "sse");
                }
                Ok(url)
            }
            Ok(_) | Err(_) => Err(Error::new(
                Class::BadRequest,
                format!(
                    "The base_url of [models.{}] in slipway.toml is not an http or https address; give one such as \
                     http://127.0.0.1:8000/v1.",
                    self.name
                ),
            )),
        }
    }

    /// What a call adds to the base, without its query.
    fn path(&self) -> String {
        match self.provider.format() {
            Format::Chat => "/chat/completions".to_owned(),
            Format::Responses => "/responses".to_owned(),
            Format::Anthropic => "/messages".to_owned(),
            Format::Gemini => {
                let name = self.model.strip_prefix("models/").unwrap_or(&self.model);
                let name = name.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
                format!("/models/{name}:streamGenerateContent")
            }
        }
    }

    fn base(&self) -> Result<&str, Error> {
        self.base_url.as_deref().or(self.provider.base_url()).ok_or_else(|| {
            Error::new(
                Class::BadRequest,
                format!(
                    "Model \"{0}\" has no address; set base_url of [models.{0}] in slipway.toml, for example \
                     http://127.0.0.1:8000/v1.",
                    self.name
                ),
            )
        })
    }

    /// The address as people may see it: without user, password and query.
    pub(crate) fn address(&self) -> String {
        let Ok(mut url) = self.endpoint() else {
            return "an invalid address".to_owned();
        };
        // Neither can fail on an http address with a host, which `endpoint` promises.
        if url.set_username("").is_err() || url.set_password(None).is_err() {
            return "an invalid address".to_owned();
        }
        url.set_query(None);
        url.set_fragment(None);
        let text = url.as_str();
        let base = match self.provider.format() {
            Format::Gemini => text.rsplit_once("/models/").map(|(base, _)| base),
            Format::Chat | Format::Responses | Format::Anthropic => text.strip_suffix(&self.path()),
        };
        base.unwrap_or(text).to_owned()
    }

    /// Our headers, then the configured ones.
    pub(crate) fn request_headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        if self.provider.format() == Format::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        match &self.key {
            Some(key) => {
                let (name, text) = match self.provider.format() {
                    Format::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
                    Format::Gemini => (HeaderName::from_static("x-goog-api-key"), key.expose().to_owned()),
                    Format::Chat | Format::Responses => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                };
                let mut value = HeaderValue::try_from(text).map_err(|_| {
                    Error::new(
                        Class::Auth,
                        format!(
                            "The key of model \"{}\" has characters that no key has. {}",
                            self.name,
                            self.key_advice()
                        ),
                    )
                })?;
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            None if self.base_url.is_none() && self.headers.is_empty() => {
                return Err(Error::new(
                    Class::Auth,
                    format!("Model \"{}\" has no key. {}", self.name, self.key_advice()),
                ));
            }
            None => {}
        }
        for (name, value) in &self.headers {
            let pair =
                HeaderName::try_from(name.as_str()).ok().zip(HeaderValue::try_from(value.as_str()).ok());
            let Some((header, mut value)) = pair else {
                return Err(Error::new(
                    Class::BadRequest,
                    format!(
                        "The header {name:?} of [models.{}] in slipway.toml cannot be sent; correct its name or value.",
                        self.name
                    ),
                ));
            };
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        Ok(headers)
    }

    /// Where the key comes from and so what to check.
    pub(crate) fn key_advice(&self) -> String {
        match self.provider.key_variable() {
            Some(variable) => {
                format!("Check {variable}, or api_key_env of [models.{}] in slipway.toml.", self.name)
            }
            None => format!(
                "Check api_key_env of [models.{}] in slipway.toml and the variable that it names.",
                self.name
            ),
        }
    }

    /// Texts that must never be shown, should a server echo them.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let key = self.key.as_ref().map(Key::expose);
        key.into_iter()
            .chain(self.headers.values().map(String::as_str))
            .filter(|text| text.len() >= 6)
            .collect()
    }
}

/// Whether the address is this machine, so that no proxy can know it.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(provider: Provider, base_url: Option<&str>) -> Model {
        Model {
            name: "main".into(),
            provider,
            model: "m".into(),
            base_url: base_url.map(Into::into),
            key: Some(Key::new(" sk-secret \n".into())),
            headers: BTreeMap::from([("x-gateway".into(), "gateway-secret".into())]),
            price: None,
        }
    }

    #[test]
    fn each_provider_has_its_address() {
        let endpoint = |provider, base| model(provider, base).endpoint().unwrap().to_string();
        assert_eq!(endpoint(Provider::Anthropic, None), "https://api.anthropic.com/v1/messages");
        assert_eq!(endpoint(Provider::OpenAi, None), "https://api.openai.com/v1/chat/completions");
        assert_eq!(
            endpoint(Provider::Gemini, None),
            "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"
        );
        assert_eq!(endpoint(Provider::OpenAiResponses, None), "https://api.openai.com/v1/responses");
        assert_eq!(
            endpoint(Provider::GeminiNative, None),
            "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse"
        );
        for provider in
            [Provider::OpenAi, Provider::OpenAiResponses, Provider::Anthropic, Provider::GeminiNative]
        {
            assert_eq!(model(provider, Some("http://[::1]:9/v1/")).address(), "http://[::1]:9/v1");
        }
        for base in ["http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/", " http://127.0.0.1:8000/v1//"] {
            assert_eq!(
                endpoint(Provider::OpenAiCompatible, Some(base)),
                "http://127.0.0.1:8000/v1/chat/completions"
            );
        }
        assert_eq!(endpoint(Provider::Anthropic, Some("http://[::1]:9/v1/")), "http://[::1]:9/v1/messages");
    }

    #[test]
    fn providers_have_the_names_that_people_write() {
        for (name, provider) in [
            ("anthropic", Provider::Anthropic),
            ("openai", Provider::OpenAi),
            ("openai-responses", Provider::OpenAiResponses),
            ("gemini", Provider::Gemini),
            ("gemini-native", Provider::GeminiNative),
            ("openai-compatible", Provider::OpenAiCompatible),
        ] {
            assert_eq!(serde_json::from_value::<Provider>(name.into()).unwrap(), provider);
        }
    }

    #[test]
    fn an_address_that_cannot_be_called_says_which_setting_to_correct() {
        for base in [None, Some(""), Some("127.0.0.1:8000"), Some("file:///etc"), Some("localhost:8000/v1")] {
            let error = model(Provider::OpenAiCompatible, base).endpoint().unwrap_err();
            assert_eq!(error.class, Class::BadRequest);
            assert!(error.message.contains("base_url of [models.main]"), "{base:?}: {}", error.message);
        }
    }

    #[test]
    fn nothing_secret_is_printed() {
        let model = model(Provider::OpenAiCompatible, Some("https://user:password@example.com/v1?key=query"));
        let text = format!("{model:?} {:?} {:?}", model.key, model.request_headers().unwrap());
        for secret in ["sk-secret", "gateway-secret", "password", "query"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
        assert_eq!(model.address(), "https://example.com/v1");
    }

    #[test]
    fn keys_lose_white_space_and_go_where_the_provider_wants_them() {
        let headers = model(Provider::OpenAi, None).request_headers().unwrap();
        assert_eq!(headers["authorization"], "Bearer sk-secret");
        let headers = model(Provider::Anthropic, None).request_headers().unwrap();
        assert_eq!(headers["x-api-key"], "sk-secret");
        assert_eq!(headers["anthropic-version"], "2023-06-01");
        let headers = model(Provider::OpenAiResponses, None).request_headers().unwrap();
        assert_eq!(headers["authorization"], "Bearer sk-secret");
        let headers = model(Provider::GeminiNative, None).request_headers().unwrap();
        assert_eq!(headers["x-goog-api-key"], "sk-secret");
    }

    #[test]
    fn a_hosted_model_without_a_key_is_not_called() {
        let model = Model { key: None, headers: BTreeMap::new(), ..model(Provider::Gemini, None) };
        let error = model.request_headers().unwrap_err();
        assert_eq!(error.class, Class::Auth);
        assert!(error.message.contains("GEMINI_API_KEY"), "{}", error.message);
    }

    #[test]
    fn loopback_is_known_by_name_and_number() {
        let loopback = |text: &str| is_loopback(&Url::parse(text).unwrap());
        assert!(
            loopback("http://localhost:1/v1") && loopback("http://127.9.9.9/v1") && loopback("http://[::1]/")
        );
        assert!(!loopback("http://10.0.0.1/v1") && !loopback("http://localhost.example.com/"));
    }
}
