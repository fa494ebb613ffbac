//! Which model is called, where, and with which key. The provider decides the address, the wire format and the way a
//! key is sent; everything else is the same for all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use protocol::{EditFormat, ToolMode};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use crate::convert;
use crate::echoes;
use crate::error::{Class, Error};
use crate::key::Key;
use crate::price::Price;
use crate::provider::{Auth, Path, Provider};
use crate::wire::Format;

/// Shorter keys are words that people made up for servers of their own, and stand in texts by chance.
const SHORTEST_KEY: usize = 8;

/// How much a model should think before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

impl Effort {
    /// The word for it that providers share.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What someone said about a model, which wins over what is known by its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Tokens that it can read and write in one call.
    pub context: Option<u64>,
    /// Most tokens of one answer.
    pub max_output: Option<u32>,
    /// How it is made to act.
    pub tool_mode: Option<ToolMode>,
    /// How it changes files.
    pub edit_format: Option<EditFormat>,
    /// Whether it sees images.
    pub images: Option<bool>,
    /// How much it should think; as it likes when absent.
    pub effort: Option<Effort>,
    /// Our names of the models that take over, in order, when this one fails.
    pub fallback: Vec<String>,
    /// How long the server may be silent.
    pub idle: Option<Duration>,
    /// How long one answer may take.
    pub total: Option<Duration>,
    /// The variable or file that the key was said to be in, whether there is one or not.
    pub key_place: Option<KeyPlace>,
}

/// Where somebody said that the key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// In the variable of this name.
    Variable(String),
    /// In this file.
    File(PathBuf),
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
    /// Overrides what is known by its name.
    pub overrides: Overrides,
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
            .field("overrides", &self.overrides)
            .finish()
    }
}

impl Model {
    /// Says what of address and headers can never be called, before somebody does.
    pub fn check(&self) -> Result<(), Error> {
        self.endpoint()?;
        self.configured_headers().map(drop)
    }

    /// The URL of one call.
    pub(crate) fn endpoint(&self) -> Result<Url, Error> {
        self.endpoint_below(None)
    }

    /// The same at a server whose API is below a version that the base lacks.
    pub(crate) fn endpoint_below(&self, version: Option<&str>) -> Result<Url, Error> {
        self.url(&format!("{}{}", version.unwrap_or_default(), self.path())).map(|mut url| {
            if self.provider.format() == Format::Gemini {
                // Without it, the stream is one array that ends only with the answer.
                url.query_pairs_mut().append_pair("alt", "sse");
            }
            url
        })
    }

    /// The version of the API that the configured base lacks, if it names none. Vendors document addresses without one for
    /// programs that add it by themselves.
    pub(crate) fn lacking_version(&self) -> Option<&'static str> {
        let facts = self.provider.facts();
        let place = self.base_url.as_deref()?.split('?').next()?;
        let is_version = |part: &str| {
            part.strip_prefix('v')
                .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
        };
        let lacks = matches!(facts.path, Path::Usual) && !place.split('/').skip(3).any(is_version);
        lacks.then_some(if facts.format == Format::Gemini { "/v1beta" } else { "/v1" })
    }

    /// The base with something behind its path; a query that the base has stays.
    pub(crate) fn url(&self, path: &str) -> Result<Url, Error> {
        let base = self.base()?.trim();
        let (place, query) = base.split_once('?').map_or((base, None), |(place, query)| (place, Some(query)));
        let text = format!("{}{path}", place.trim_end_matches('/'));
        match Url::parse(&text) {
            Ok(mut url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
                url.set_query(query);
                Ok(url)
            }
            Ok(_) | Err(_) => Err(Error::new(
                Class::BadRequest,
                format!(
                    "The base_url of [models.{}] in slipway.toml is not an http or https address; give one such as {}.",
                    self.name,
                    self.provider.example_url()
                ),
            )),
        }
    }

    /// What a call adds to the base, without its query.
    fn path(&self) -> String {
        let facts = self.provider.facts();
        let name = self.model.strip_prefix("models/").unwrap_or(&self.model);
        let name = name.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        match (facts.path, facts.format) {
            (Path::Published(publisher, method), _) => {
                format!("/publishers/{publisher}/models/{name}:{method}")
            }
            (Path::Usual, Format::Chat) => "/chat/completions".to_owned(),
            (Path::Usual, Format::Responses) => "/responses".to_owned(),
            (Path::Usual, Format::Anthropic) => "/messages".to_owned(),
            (Path::Usual, Format::Gemini) => format!("/models/{name}:streamGenerateContent"),
        }
    }

    fn base(&self) -> Result<&str, Error> {
        self.base_url.as_deref().or(self.provider.base_url()).ok_or_else(|| {
            Error::new(
                Class::BadRequest,
                format!(
                    "Model \"{0}\" has no address; set base_url of [models.{0}] in slipway.toml, for example {1}.",
                    self.name,
                    self.provider.example_url()
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
        let end = match self.provider.facts().path {
            Path::Published(..) => "/publishers/",
            Path::Usual if self.provider.format() == Format::Gemini => "/models/",
            Path::Usual => return text.strip_suffix(&self.path()).unwrap_or(text).to_owned(),
        };
        text.rsplit_once(end).map_or(text, |(base, _)| base).to_owned()
    }

    /// The same with answers of at most so many tokens, thoughts included.
    pub(crate) fn at_most(&self, most: u32) -> Self {
        let mut model = self.clone();
        model.overrides.max_output = Some(most.min(self.profile().max_output));
        model
    }

    /// Who makes its answers, for signatures that nobody else can read.
    pub(crate) fn maker(&self) -> String {
        convert::maker(&self.address(), &self.model)
    }

    /// Whether it is served by this machine, or by a server that people run for themselves.
    pub fn is_local(&self) -> bool {
        self.provider.facts().local || self.url("").is_ok_and(|url| is_loopback(&url))
    }

    /// Whether a call would go out with a key, or needs none. Whoever names one thinks that it needs one.
    pub fn has_key(&self) -> bool {
        match &self.key {
            Some(key) => key.check().is_ok(),
            None if self.overrides.key_place.is_some() => false,
            None => self.is_local() || !self.headers.is_empty(),
        }
    }

    /// Whether calls may go out without a key: to servers of one's own, and where a header does a key's work.
    fn may_lack_key(&self) -> bool {
        self.provider.facts().local || self.base_url.is_some() || !self.headers.is_empty()
    }

    /// The key's text, when there is one.
    pub(crate) fn key_text(&self) -> Result<Option<Zeroizing<String>>, Error> {
        let no_key = |message: String| Error::new(Class::Auth, format!("{message} {}", self.key_advice()));
        match &self.key {
            Some(key) => {
                let text = key.expose();
                text.map(Some).map_err(|why| no_key(format!("Model \"{}\" has no key: {why}.", self.name)))
            }
            None if self.may_lack_key() => Ok(None),
            None => Err(no_key(format!("Model \"{}\" has no key.", self.name))),
        }
    }

    /// Our headers, then the configured ones.
    pub(crate) fn request_headers(&self, key: Option<&str>) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        if self.provider.format() == Format::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = key {
            let (name, text) = match self.provider.facts().auth {
                Auth::Bearer => (AUTHORIZATION, format!("Bearer {key}")),
                Auth::Header(name) => (HeaderName::from_static(name), key.to_owned()),
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
        for (name, value) in self.configured_headers()? {
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// The headers of the configuration. A value may be a key, so no message shows one.
    fn configured_headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
        let wrong = |what: &str| {
            let place = format!("[models.{}] in slipway.toml", self.name);
            Error::new(Class::BadRequest, format!("{what} in headers of {place}."))
        };
        let headers = self.headers.iter().map(|(name, value)| {
            let header = HeaderName::try_from(name.as_str()).map_err(|_| {
                wrong(&format!("{name:?} cannot be the name of a header: use letters, digits and '-'"))
            })?;
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| {
                wrong(&format!(
                    "The value of {name:?} cannot be sent: it has a line end or another control character"
                ))
            })?;
            value.set_sensitive(true);
            Ok((header, value))
        });
        headers.collect()
    }

    /// Where the key comes from and so what to check.
    pub(crate) fn key_advice(&self) -> String {
        let name = &self.name;
        if let Some(secret) = self.key.as_ref().and_then(Key::secret_name) {
            return format!(
                "It is the secret that api_key_secret of [models.{name}] in slipway.toml names: set it with `slipway secret set \
                 {secret}`."
            );
        }
        match (&self.overrides.key_place, self.provider.key_variable()) {
            (Some(KeyPlace::Variable(variable)), _) => format!(
                "Check {variable}, which api_key_env of [models.{name}] in slipway.toml names; a server that runs has it as it \
                 was when it was started."
            ),
            (Some(KeyPlace::File(file)), _) => {
                format!(
                    "Check {}, which api_key_file of [models.{name}] in slipway.toml names.",
                    file.display()
                )
            }
            (None, Some(variable)) => format!(
                "Check {variable}, or api_key_file, api_key_env or api_key_secret of [models.{name}] in slipway.toml."
            ),
            (None, None) => format!(
                "Say where it is with api_key_env, api_key_file or api_key_secret of [models.{name}] in slipway.toml."
            ),
        }
    }

    /// Texts that must never be shown, should a server echo them.
    pub(crate) fn secrets(&self) -> Vec<String> {
        echoes::of(self.exposed(), self.headers.values(), self.base_url.as_deref().unwrap_or_default())
    }

    /// What of them is a key, and not only a setting that is nobody's business.
    pub(crate) fn keys(&self) -> Vec<String> {
        let is_key = |name: &str| {
            let name = name.to_ascii_lowercase();
            ["auth", "key", "token", "cookie", "secret"].iter().any(|word| name.contains(word))
        };
        let headers = self.headers.iter().filter(|(name, _)| is_key(name)).map(|(_, value)| value);
        echoes::of(self.exposed(), headers, self.base_url.as_deref().unwrap_or_default())
    }

    /// Whether a text has its key in it.
    pub fn is_told_in(&self, text: &str) -> bool {
        self.keys().iter().any(|key| key.len() >= SHORTEST_KEY && text.contains(key.as_str()))
    }

    fn exposed(&self) -> Option<String> {
        self.key.as_ref().and_then(|key| key.expose().ok()).map(|key| key.to_string())
    }
}

/// Whether the address is this machine, so that no proxy can know it.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A model for tests.
#[cfg(test)]
pub(crate) fn sample(provider: Provider, model: &str) -> Model {
    Model {
        name: "main".into(),
        provider,
        model: model.into(),
        base_url: None,
        key: None,
        headers: BTreeMap::new(),
        price: None,
        overrides: Overrides::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(provider: Provider, base_url: Option<&str>) -> Model {
        Model {
            base_url: base_url.map(Into::into),
            key: Some(Key::new(" sk-secret \n".into())),
            headers: BTreeMap::from([("x-gateway".into(), "gateway-secret".into())]),
            ..sample(provider, "m")
        }
    }

    fn headers(provider: Provider) -> HeaderMap {
        let model = model(provider, Some("http://127.0.0.1:1"));
        model.request_headers(model.key_text().unwrap().as_deref().map(String::as_str)).unwrap()
    }

    #[test]
    fn each_provider_has_its_address() {
        let endpoint = |provider, base| model(provider, base).endpoint().unwrap().to_string();
        let google = "https://generativelanguage.googleapis.com/v1beta";
        for (provider, url) in [
            (Provider::Anthropic, "https://api.anthropic.com/v1/messages"),
            (Provider::OpenAi, "https://api.openai.com/v1/chat/completions"),
            (Provider::OpenAiResponses, "https://api.openai.com/v1/responses"),
            (Provider::OpenRouter, "https://openrouter.ai/api/v1/chat/completions"),
            (Provider::Ollama, "http://127.0.0.1:11434/v1/chat/completions"),
            (Provider::Vllm, "http://127.0.0.1:8000/v1/chat/completions"),
            (Provider::LlamaCpp, "http://127.0.0.1:8080/v1/chat/completions"),
        ] {
            assert_eq!(endpoint(provider, None), url);
        }
        assert_eq!(endpoint(Provider::GeminiChat, None), format!("{google}/openai/chat/completions"));
        assert_eq!(
            endpoint(Provider::Gemini, None),
            format!("{google}/models/m:streamGenerateContent?alt=sse")
        );
        for base in ["http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/", " http://127.0.0.1:8000/v1//"] {
            assert_eq!(
                endpoint(Provider::OpenAiCompatible, Some(base)),
                "http://127.0.0.1:8000/v1/chat/completions"
            );
        }
        assert_eq!(endpoint(Provider::Anthropic, Some("http://[::1]:9/v1/")), "http://[::1]:9/v1/messages");
    }

    #[test]
    fn clouds_have_addresses_of_their_own_shape() {
        let vertex = "https://r-aiplatform.googleapis.com/v1/projects/p/locations/r";
        let at = |provider, base: &str| model(provider, Some(base));
        assert_eq!(
            at(Provider::VertexAnthropic, vertex).endpoint().unwrap().as_str(),
            format!("{vertex}/publishers/anthropic/models/m:streamRawPredict")
        );
        assert_eq!(
            at(Provider::VertexGemini, vertex).endpoint().unwrap().as_str(),
            format!("{vertex}/publishers/google/models/m:streamGenerateContent?alt=sse")
        );
        let azure = "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21";
        assert_eq!(
            at(Provider::Azure, azure).endpoint().unwrap().as_str(),
            "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"
        );
        for provider in Provider::ALL {
            assert_eq!(at(provider, "http://[::1]:9/v1/").address(), "http://[::1]:9/v1", "{provider:?}");
        }
    }

    #[test]
    fn an_address_that_cannot_be_called_says_which_setting_to_correct() {
        for base in [None, Some(""), Some("127.0.0.1:8000"), Some("file:///etc"), Some("localhost:8000/v1")] {
            let error = model(Provider::OpenAiCompatible, base).endpoint().unwrap_err();
            assert_eq!(error.class, Class::BadRequest);
            assert!(error.message.contains("base_url of [models.main]"), "{base:?}: {}", error.message);
        }
        let error = model(Provider::Bedrock, None).endpoint().unwrap_err();
        assert!(error.message.contains("https://bedrock-runtime.REGION"), "{}", error.message);
    }

    #[test]
    fn a_header_that_cannot_be_sent_says_which_and_not_what_is_in_it() {
        let with = |name: &str, value: &str| Model {
            headers: BTreeMap::from([(name.into(), value.into())]),
            ..sample(Provider::Anthropic, "m")
        };
        with("X-Team", "Werft ü").check().unwrap();
        for (name, value, said) in [
            ("X Team", "secret", "\"X Team\" cannot be the name of a header"),
            ("", "secret", "\"\" cannot be the name"),
            ("X-Team", "secret\nX-Other: 1", "The value of \"X-Team\" cannot be sent"),
        ] {
            let error = with(name, value).check().unwrap_err();
            assert!(error.message.contains(said), "{}", error.message);
            assert!(error.message.contains("[models.main]"), "{}", error.message);
            assert!(!error.message.contains("secret"), "{}", error.message);
            assert_eq!(with(name, value).request_headers(None).unwrap_err().message, error.message);
        }
        assert!(model(Provider::OpenAi, Some("ftp://x")).check().unwrap_err().message.contains("base_url"));
    }

    #[test]
    fn nothing_secret_is_printed() {
        let model =
            model(Provider::OpenAiCompatible, Some("https://user:password@example.com/v1?key=in-query"));
        let headers = model.request_headers(Some("sk-secret")).unwrap();
        let text = format!("{model:?} {:?} {headers:?}", model.key);
        for secret in ["sk-secret", "gateway-secret", "password", "in-query"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
        assert_eq!(model.address(), "https://example.com/v1");
        assert!(model.secrets().contains(&"in-query".to_owned()));
    }

    #[test]
    fn keys_lose_white_space_and_go_where_the_provider_wants_them() {
        for provider in Provider::ALL {
            let headers = headers(provider);
            let (name, value) = match provider {
                Provider::Anthropic => ("x-api-key", "sk-secret"),
                Provider::Gemini => ("x-goog-api-key", "sk-secret"),
                Provider::Azure | Provider::AzureResponses => ("api-key", "sk-secret"),
                _ => ("authorization", "Bearer sk-secret"),
            };
            assert_eq!(headers[name], value, "{provider:?}");
            let versioned = provider.format() == Format::Anthropic;
            assert_eq!(headers.contains_key("anthropic-version"), versioned, "{provider:?}");
        }
    }

    #[test]
    fn a_hosted_model_without_a_key_is_not_called() {
        let model = sample(Provider::GeminiChat, "m");
        let error = model.key_text().unwrap_err();
        assert_eq!(error.class, Class::Auth);
        assert!(error.message.contains("GEMINI_API_KEY") && !model.has_key(), "{}", error.message);
        let mut local = sample(Provider::Ollama, "m");
        assert!(local.key_text().unwrap().is_none() && local.has_key());
        local.overrides.key_place = Some(KeyPlace::Variable("OWN_KEY".into()));
        assert!(local.key_text().unwrap().is_none() && !local.has_key(), "it is called all the same");
        // Who says where it is is told of that place and of no other.
        let mut hosted = sample(Provider::GeminiChat, "m");
        for (place, named) in [
            (KeyPlace::Variable("OWN_KEY".into()), "OWN_KEY"),
            (KeyPlace::File("/own/key".into()), "/own/key"),
        ] {
            hosted.overrides.key_place = Some(place);
            let error = hosted.key_text().unwrap_err().message;
            assert!(error.contains(named) && !error.contains("GEMINI_API_KEY"), "{error}");
        }
    }

    #[test]
    fn what_opens_an_address_is_a_key() {
        let mut model = sample(Provider::OpenAiCompatible, "m");
        model.base_url =
            Some("http://user:a-password-of-some-length@127.0.0.1/v1?api_key=a-query-of-some-length".into());
        let keys = model.keys();
        for secret in [
            "a-password-of-some-length",
            "a-query-of-some-length",
            "dXNlcjphLXBhc3N3b3JkLW9mLXNvbWUtbGVuZ3Ro",
        ] {
            assert!(keys.iter().any(|key| key == secret), "{secret}");
        }
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
