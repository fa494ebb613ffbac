//! The secrets that the server keeps, with what uses them. A value goes in and never comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{Code, Problem, StoredSecret};
use store::{SecretError, Secrets};

use crate::{Options, Sessions, environments, problem};

impl Sessions {
    /// Every secret that is set or wanted, by name.
    pub async fn secrets(&self) -> Result<Vec<StoredSecret>, Problem> {
        let options = &self.registry.options;
        let known = blocking(options, |secrets| secrets.list()).await?;
        let mut all = wanted(options).await?;
        for known in known {
            let entry = all.entry(known.name.clone()).or_insert_with(|| unset(&known.name));
            entry.set_at = known.set_at;
            entry.problem = known.problem.map(|problem| problem.advice());
        }
        Ok(all.into_values().collect())
    }

    /// Keeps a value under a name. What is called from now on is called with it.
    pub async fn set_secret(&self, name: &str, value: String) -> Result<StoredSecret, Problem> {
        let options = &self.registry.options;
        let own = name.to_owned();
        let set_at = blocking(options, move |secrets| secrets.set(&own, &value)).await?;
        self.registry.exits.secret_changed(name);
        let mut secret = wanted(options).await?.remove(name).unwrap_or_else(|| unset(name));
        (secret.set_at, secret.problem) = (Some(set_at), None);
        Ok(secret)
    }

    /// Removes a secret; one that is not there is an error, unless the same was asked for before.
    pub async fn remove_secret(&self, name: &str, again: bool) -> Result<(), Problem> {
        let own = name.to_owned();
        let removed = blocking(&self.registry.options, move |secrets| secrets.remove(&own)).await?;
        if removed || again {
            return Ok(());
        }
        let error = SecretError::Missing(name.to_owned());
        Err(Problem::new(Code::NotFound, error.to_string()).hint("`slipway secret ls` lists the secrets"))
    }
}

/// The name of a secret whose value stands in a text: of the server's own, of these of an environment, or the key of a model.
/// One that cannot be read now is not known. This blocks.
pub(crate) fn told_in(options: &Options, recipes: &[protocol::Secret], text: &str) -> Option<String> {
    Known::read(options, recipes).told_in(text)
}

/// Whether a text has a secret in it, known or by its looks. One that cannot be looked through counts as if it had.
pub(crate) async fn is_told_in(options: &Arc<Options>, recipes: &[protocol::Secret], text: &str) -> bool {
    if checks::secret_in(text).is_some() {
        return true;
    }
    let (options, recipes, text) = (Arc::clone(options), recipes.to_vec(), text.to_owned());
    let looked = tokio::task::spawn_blocking(move || told_in(&options, &recipes, &text).is_some()).await;
    looked.unwrap_or(true)
}

/// Every secret that is known here, read once for many texts.
pub(crate) struct Known<'a> {
    options: &'a Options,
    of_environment: Vec<(String, sandbox::egress::Secret)>,
    of_server: Vec<(String, forge::Token)>,
}

impl<'a> Known<'a> {
    /// Reads them; those that cannot be read now are not known. This blocks.
    pub(crate) fn read(options: &'a Options, recipes: &[protocol::Secret]) -> Self {
        let secrets = options.store.secrets();
        let stored = |name: &str| match secrets.get(name) {
            Ok(value) => Ok(value.as_bytes().to_vec()),
            Err(error) => Err((error.to_string(), error.hint())),
        };
        let of_environment = recipes.iter().filter_map(|recipe| {
            Some((recipe.name.clone(), sandbox::egress::Secret::read(recipe, &stored).ok()?))
        });
        let mut of_server = Vec::new();
        for known in secrets.list().unwrap_or_default() {
            let Ok(value) = secrets.get(&known.name) else { continue };
            if known.name.starts_with(crate::logins::PREFIX) {
                let kept: Option<crate::logins::Kept> = serde_json::from_str(&value).ok();
                let tokens = kept.into_iter().flat_map(|kept| [Some(kept.token), kept.refresh]).flatten();
                of_server.extend(tokens.map(|token| (known.name.clone(), forge::Token::new(&token))));
            } else {
                of_server.push((known.name, forge::Token::new(&value)));
            }
        }
        Self { options, of_environment: of_environment.collect(), of_server }
    }

    /// What is called by its name whose value stands in a text.
    pub(crate) fn told_in(&self, text: &str) -> Option<String> {
        let of_environment = self.of_environment.iter().find(|(_, secret)| secret.is_told_in(text));
        let of_environment = of_environment.map(|(name, _)| name);
        let of_server =
            || self.of_server.iter().find(|(_, token)| token.is_told_in(text)).map(|(name, _)| name);
        if let Some(name) = of_environment.or_else(of_server) {
            return Some(format!("the secret {name}"));
        }
        let options = self.options;
        if let Some(host) = options.outbox.forges.told_in(text) {
            return Some(format!("the login of the forge {host}"));
        }
        if let Some((what, _)) = options.outbox.own.iter().find(|(_, token)| token.is_told_in(text)) {
            return Some(what.clone());
        }
        let hooks = options.outbox.sites.iter();
        if let Some(site) =
            hooks.into_iter().find(|site| site.hook.as_ref().is_some_and(|hook| hook.is_told_in(text)))
        {
            return Some(format!("the secret of the webhooks of {}", site.name));
        }
        let model = options.models.iter().find(|model| model.is_told_in(text));
        if let Some(model) = model {
            return Some(format!("the key of the model {}", model.name));
        }
        let embedding = options.memory.embedding.as_ref();
        let key = embedding.filter(|embedding| embedding.embeddings.is_told_in(text));
        key.map(|_| "the key of the embedding model".to_owned())
    }
}

/// What models and environments want, as if none of it were there.
async fn wanted(options: &Options) -> Result<BTreeMap<String, StoredSecret>, Problem> {
    let mut wanted = BTreeMap::new();
    let mut want = |name: &str, add: &dyn Fn(&mut StoredSecret)| {
        add(wanted.entry(name.to_owned()).or_insert_with(|| unset(name)));
    };
    for model in &options.models {
        if let Some(name) = model.key.as_ref().and_then(llm::Key::secret_name) {
            want(name, &|secret| secret.models.push(model.name.clone()));
        }
    }
    let embedding = options.memory.embedding.as_ref();
    if let Some(name) = embedding.and_then(|embedding| embedding.embeddings.secret_name()) {
        want(name, &|secret| secret.models.push("memory.embedding".to_owned()));
    }
    for environment in environments::list(options).await? {
        for name in environment.recipe.secrets.iter().filter_map(|secret| secret.secret.as_deref()) {
            want(name, &|secret| {
                if secret.environments.last() != Some(&environment.name) {
                    secret.environments.push(environment.name.clone());
                }
            });
        }
    }
    Ok(wanted)
}

fn unset(name: &str) -> StoredSecret {
    let missing = SecretError::Missing(name.to_owned()).advice();
    StoredSecret {
        name: name.to_owned(),
        set_at: None,
        models: Vec::new(),
        environments: Vec::new(),
        problem: Some(missing),
    }
}

/// Works on the files of the secrets beside everything else.
async fn blocking<T: Send + 'static>(
    options: &Options,
    work: impl FnOnce(&Secrets) -> Result<T, SecretError> + Send + 'static,
) -> Result<T, Problem> {
    let secrets = options.store.secrets().clone();
    let done = tokio::task::spawn_blocking(move || work(&secrets)).await;
    match done {
        Ok(result) => result.map_err(told),
        Err(error) => {
            tracing::error!(%error, "work on the secrets broke off with a fault");
            Err(Problem::new(Code::Internal, "slipway made a mistake and could not go on")
                .hint("this is a fault of slipway: report it with the server's log"))
        }
    }
}

/// A secret's error in the words of the API.
pub(crate) fn told(error: SecretError) -> Problem {
    let code = match &error {
        SecretError::Name | SecretError::Value(_) => Code::BadRequest,
        SecretError::Missing(_) => Code::NotFound,
        SecretError::NoKey { .. } | SecretError::BadKey(_) | SecretError::OtherKey { .. } => Code::Conflict,
        SecretError::Damaged(_) => Code::StorageDamaged,
        SecretError::NoRandomness => Code::Internal,
        SecretError::Store(error) => return problem::store(error.clone()),
    };
    Problem::new(code, error.to_string()).hint(error.hint())
}
