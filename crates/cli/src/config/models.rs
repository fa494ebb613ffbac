//! The models of the configuration file: who serves them, with which key, and what is said about them beyond what is
//! known by their names.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use serde::Deserialize;

use super::{Config, keys};

/// A model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) provider: llm::Provider,
    pub(crate) model: String,
    #[serde(default)]
    pub(crate) base_url: Option<String>,
    /// Name of the variable that holds the key.
    #[serde(default)]
    pub(crate) api_key_env: Option<String>,
    /// File that holds the key; it is read for each call.
    #[serde(default)]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Secret of the store that is the key; it is read for each call.
    #[serde(default)]
    pub(crate) api_key_secret: Option<String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) price: Option<llm::Price>,
    #[serde(default)]
    pub(crate) context: Option<u64>,
    #[serde(default)]
    pub(crate) max_output: Option<u32>,
    #[serde(default)]
    pub(crate) tool_mode: Option<protocol::ToolMode>,
    #[serde(default)]
    pub(crate) edit_format: Option<protocol::EditFormat>,
    /// Whether it sees images.
    #[serde(default)]
    pub(crate) images: Option<bool>,
    #[serde(default)]
    pub(crate) reasoning: Option<llm::Effort>,
    /// Models that take over, in order.
    #[serde(default)]
    pub(crate) fallback: Vec<String>,
    #[serde(default)]
    pub(crate) idle_timeout_s: Option<u64>,
    #[serde(default)]
    pub(crate) timeout_s: Option<u64>,
    /// Where it stands among the models of the file: the first one is the default.
    #[serde(skip)]
    pub(crate) place: usize,
}

/// The least context in which a prompt and an answer have room.
const LEAST_CONTEXT: u64 = 2048;

impl Model {
    /// A model without anything that need not be said.
    pub(crate) fn new(provider: llm::Provider, model: &str) -> Self {
        Self {
            provider,
            model: model.to_owned(),
            base_url: None,
            api_key_env: None,
            api_key_file: None,
            api_key_secret: None,
            headers: BTreeMap::new(),
            price: None,
            context: None,
            max_output: None,
            tool_mode: None,
            edit_format: None,
            images: None,
            reasoning: None,
            fallback: Vec::new(),
            idle_timeout_s: None,
            timeout_s: None,
            place: 0,
        }
    }

    /// The model as it is called.
    pub(crate) fn callable(&self, name: &str, secrets: &store::Secrets) -> llm::Model {
        let variable = self.api_key_env.as_deref().or(self.provider.key_variable());
        let key = match (&self.api_key_secret, &self.api_key_file) {
            (Some(secret), _) => Some(stored(secret, secrets)),
            (None, Some(file)) => Some(llm::Key::from_file(file)),
            (None, None) => variable.and_then(llm::Key::from_env),
        };
        llm::Model { key, ..self.without_key(name) }
    }

    /// The model without its key.
    fn without_key(&self, name: &str) -> llm::Model {
        llm::Model {
            name: name.to_owned(),
            provider: self.provider,
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            key: None,
            headers: self.headers.clone(),
            price: self.price,
            overrides: llm::Overrides {
                context: self.context,
                max_output: self.max_output,
                tool_mode: self.tool_mode,
                edit_format: self.edit_format,
                images: self.images,
                effort: self.reasoning,
                fallback: self.fallback.clone(),
                idle: self.idle_timeout_s.map(Duration::from_secs),
                total: self.timeout_s.map(Duration::from_secs),
                key_place: self.key_place(),
            },
        }
    }

    fn key_place(&self) -> Option<llm::KeyPlace> {
        let file = self.api_key_file.clone().map(llm::KeyPlace::File);
        file.or_else(|| self.api_key_env.clone().map(llm::KeyPlace::Variable))
    }

    /// Why there is no key where the configuration says that there is one.
    pub(crate) fn lacks_key(&self, secrets: &store::Secrets) -> Option<String> {
        if let Some(secret) = &self.api_key_secret {
            return stored(secret, secrets).check().err();
        }
        match (&self.api_key_file, &self.api_key_env) {
            (Some(file), _) => llm::Key::from_file(file).check().err(),
            (None, Some(variable)) if llm::Key::from_env(variable).is_none() => {
                Some(format!("{variable} is not set; requests go out without one"))
            }
            (None, _) => None,
        }
    }
}

/// The key that is a secret of the store.
pub(super) fn stored(name: &str, secrets: &store::Secrets) -> llm::Key {
    let secrets = secrets.clone();
    llm::Key::from_store(name, move |name| secrets.get(name).map_err(|error| error.advice()))
}

/// The models in the order of the file, so that one that is added at its end does not become the default.
pub(crate) fn in_order(models: &BTreeMap<String, Model>) -> Vec<(&str, &Model)> {
    let mut models: Vec<_> = models.iter().map(|(name, model)| (name.as_str(), model)).collect();
    models.sort_by_key(|(_, model)| model.place);
    models
}

/// Notes where each model stands in the text of the file.
pub(super) fn place(models: &mut BTreeMap<String, Model>, text: &str) -> Result<(), toml::de::Error> {
    #[derive(Deserialize)]
    struct Places {
        #[serde(default)]
        models: BTreeMap<String, toml::Spanned<serde::de::IgnoredAny>>,
    }
    let places: Places = toml::from_str(text)?;
    for (name, model) in models {
        model.place = places.models.get(name).map_or(usize::MAX, |found| found.span().start);
    }
    Ok(())
}

/// What is wrong with models that the types allow.
pub(super) fn check(models: &BTreeMap<String, Model>) -> anyhow::Result<()> {
    let known = || models.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    for (name, model) in models {
        if name.trim().is_empty() || model.model.trim().is_empty() {
            bail!(
                "[models.{name:?}] needs a name, and in model the provider's name of it: nobody could ask for it otherwise"
            );
        }
        if let Some(variable) = &model.api_key_env {
            keys::check_variable(&format!("[models.{name}] api_key_env"), variable)?;
        }
        if let Some(secret) = &model.api_key_secret {
            keys::check_secret(&format!("[models.{name}] api_key_secret"), secret)?;
        }
        if model.provider.base_url().is_none() && model.base_url.is_none() {
            bail!("[models.{name}] needs base_url, such as \"{}\"", model.provider.example_url());
        }
        if let Err(error) = model.without_key(name).check() {
            bail!("{error}");
        }
        let places = [
            ("api_key_env", model.api_key_env.is_some()),
            ("api_key_file", model.api_key_file.is_some()),
            ("api_key_secret", model.api_key_secret.is_some()),
        ];
        let places: Vec<&str> = places.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect();
        if places.len() > 1 {
            bail!("[models.{name}] has {}: keep one of them", places.join(" and "));
        }
        if let Some(Err(error)) = model.api_key_secret.as_deref().map(store::Secrets::check_name) {
            bail!("[models.{name}] api_key_secret: {}", error.advice());
        }
        if let Some(context) = model.context.filter(|context| *context < LEAST_CONTEXT) {
            bail!("[models.{name}] has a context of {context} tokens; at least {LEAST_CONTEXT} are needed");
        }
        if let (Some(most), Some(context)) = (model.max_output, model.context)
            && u64::from(most) >= context
        {
            bail!("[models.{name}] has max_output = {most}, which leaves no room in a context of {context}");
        }
        if [model.idle_timeout_s, model.timeout_s].contains(&Some(0)) || model.max_output == Some(0) {
            bail!("[models.{name}] has a limit of 0, with which no answer could ever come");
        }
        for other in &model.fallback {
            if other == name {
                bail!("[models.{name}] names itself in fallback");
            }
            if !models.contains_key(other) {
                bail!(
                    "[models.{name}] names \"{other}\" in fallback, which is not one of the models: {}",
                    known()
                );
            }
        }
    }
    Ok(())
}

/// What is wrong with the names of models in routes and environments. Models that only a key in the environment makes available are known later.
pub(super) fn check_routes(config: &Config) -> anyhow::Result<()> {
    let named = &config.agent.model;
    if let Some(code) = config.routes.code.as_ref().filter(|code| !named.is_empty() && *code != named) {
        bail!(
            "[agent] model = \"{named}\" and [routes] code = \"{code}\" say the same thing: keep one of them"
        );
    }
    if config.models.is_empty() {
        return Ok(());
    }
    let known: Vec<&str> = config.models.keys().map(String::as_str).collect();
    for (environment, recipe) in &config.environments {
        if let Some(name) = recipe.model.as_deref().filter(|name| !known.contains(name)) {
            bail!(
                "[environments.{environment}] model = \"{name}\" is not one of the models: {}",
                known.join(", ")
            );
        }
    }
    match config.routes.unknown(&known) {
        Some((task, name)) => {
            bail!("[routes] {} = \"{name}\" is not one of the models: {}", task.as_str(), known.join(", "))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let a = "[models.a]\nprovider = \"openai\"\nmodel = \"m\"\n";
        for (text, said) in [
            ("api_key_env = \"X\"\napi_key_file = \"/x\"", "keep one"),
            ("api_key_env = \"X\"\napi_key_secret = \"X\"", "api_key_env and api_key_secret: keep one"),
            ("api_key_secret = \"a/b\"", "no name for a secret"),
            ("api_key_env = \"sk-secret-1\"", "api_key_env is the name of a variable"),
            ("api_key_env = \"$sk-secret-1\"", "api_key_env is the name of a variable"),
            ("api_key_secret = \"sk-secret-1\"", "slipway secret set NAME"),
            ("base_url = \"http://localhost:99999/v1\"", "not an http or https address"),
            ("base_url = \"ftp://x\"", "base_url of [models.a]"),
            ("base_url = \"localhost:8000/v1\"", "not an http or https address"),
            ("base_url = \"\"", "not an http or https address"),
            ("headers = { \"X Team\" = \"v\" }", "\"X Team\" cannot be the name of a header"),
            ("headers = { X-Team = \"v\\n\" }", "value of \"X-Team\" cannot be sent"),
            ("context = 100", "at least 2048"),
            ("context = 4096\nmax_output = 4096", "no room"),
            ("fallback = [\"a\"]", "itself"),
            ("fallback = [\"b\"]", "one of the models: a"),
            ("timeout_s = 0", "limit of 0"),
            ("tool_mode = \"xml\"", "json_step"),
            ("edit_format = \"diff\"", "replace"),
        ] {
            let error = format!("{:#}", Config::parse(&format!("{a}{text}")).unwrap_err());
            assert!(error.contains(said) && !error.contains("sk-secret-1"), "{text}: {error}");
        }
        for text in [
            "[models.\"\"]\nprovider = \"openai\"\nmodel = \"m\"",
            "[models.a]\nprovider = \"openai\"\nmodel = \" \"",
        ] {
            let error = format!("{:#}", Config::parse(text).unwrap_err());
            assert!(error.contains("needs a name"), "{error}");
        }
        let text = format!("{a}[environments.e]\nrepos = [{{ url = \"/r\" }}]\nmodel = \"zz\"");
        let error = format!("{:#}", Config::parse(&text).unwrap_err());
        assert!(error.contains("[environments.e] model = \"zz\" is not one of the models: a"), "{error}");
        for provider in ["azure", "bedrock", "vertex-gemini"] {
            let text = format!("[models.a]\nprovider = \"{provider}\"\nmodel = \"m\"");
            let error = format!("{:#}", Config::parse(&text).unwrap_err());
            assert!(error.contains("needs base_url, such as \"https://"), "{error}");
        }
    }

    #[test]
    fn a_route_leads_to_a_model_that_there_is() {
        let models = "[models.a]\nprovider = \"openai\"\nmodel = \"m\"\n[models.b]\nprovider = \"ollama\"\nmodel = \"n\"\n";
        let config = Config::parse(&format!("[routes]\ntitle = \"b\"\ncode = \"a\"\n{models}")).unwrap();
        assert_eq!((config.routes.title.as_deref(), config.routes.judge), (Some("b"), None));
        for (routes, said) in [
            ("[routes]\njudge = \"c\"", "judge = \"c\" is not one of the models: a, b"),
            ("[routes]\nsummarize = \"a\"", "summarise"),
            ("[agent]\nmodel = \"a\"\n[routes]\ncode = \"b\"", "keep one"),
        ] {
            let error = format!("{:#}", Config::parse(&format!("{routes}\n{models}")).unwrap_err());
            assert!(error.contains(said), "{routes}: {error}");
        }
        Config::parse("[routes]\ntitle = \"anthropic\"").unwrap();
    }

    #[test]
    fn the_first_model_of_the_file_stays_the_first() {
        let order = |text: &str| {
            let config = Config::parse(text).unwrap();
            super::in_order(&config.models).into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        let tables = ["main", "cheap", "a"].map(|name| {
            format!("[models.{name}]\nprovider = \"ollama\"\nmodel = \"m\"\nheaders = {{ X = \"1\" }}\n")
        });
        assert_eq!(order(&tables.concat()), ["main", "cheap", "a"]);
        let inline = "models.z = { provider = \"ollama\", model = \"m\" }\nmodels.b.provider = \"ollama\"\n\
                      models.b.model = \"m\"\n";
        assert_eq!(order(inline), ["z", "b"]);
        assert_eq!(order(""), Vec::<String>::new());
    }

    #[test]
    fn a_key_that_is_named_and_not_there_is_no_key() {
        let has_key = |key: &str| {
            let text = format!("[models.a]\nprovider = \"ollama\"\nmodel = \"m\"\n{key}");
            let config = Config::parse(&text).unwrap();
            let model = &config.models["a"];
            let lacks = model.lacks_key(&config.secrets()).is_some();
            (model.callable("a", &config.secrets()).has_key(), lacks)
        };
        assert_eq!(has_key(""), (true, false));
        assert_eq!(has_key("api_key_env = \"SLIPWAY_TEST_NO_SUCH_VARIABLE\""), (false, true));
    }

    #[test]
    fn what_is_said_wins_over_what_is_known() {
        let text = "[models.a]\nprovider = \"llama-cpp\"\nmodel = \"qwen2.5-coder-1.5b\"\ncontext = 8192\n\
                    tool_mode = \"json_step\"\nreasoning = \"high\"\nidle_timeout_s = 9\n";
        let config = Config::parse(text).unwrap();
        let model = config.models["a"].callable("a", &config.secrets());
        let profile = model.profile();
        assert_eq!((profile.context, profile.tool_mode), (8192, protocol::ToolMode::JsonStep));
        assert_eq!(profile.edit_format, protocol::EditFormat::Whole);
        assert_eq!(model.overrides.idle, Some(std::time::Duration::from_secs(9)));
    }
}
