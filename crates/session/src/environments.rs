//! Environments and models by name: those of the configuration file first, then those of the catalogue.

use protocol::{
    Code, Egress, Environment, EnvironmentSource, NamedEnvironment, Problem, SandboxLimits, Secret, Service,
    SetupStep,
};

use crate::command::Command;
use crate::{Options, problem};

/// Every environment, by name. One of the configuration file hides one of the catalogue.
pub(crate) async fn list(options: &Options) -> Result<Vec<NamedEnvironment>, Problem> {
    let named = |source| {
        move |(name, recipe): &(String, Environment)| NamedEnvironment {
            name: name.clone(),
            source,
            image: None,
            recipe: recipe.clone(),
        }
    };
    let mut all: Vec<_> = options.environments.iter().map(named(EnvironmentSource::Config)).collect();
    let stored = options.store.environments().await.map_err(problem::store)?;
    let hidden = |name: &str| options.environments.iter().any(|(own, _)| own == name);
    all.extend(stored.iter().filter(|(name, _)| !hidden(name)).map(named(EnvironmentSource::Catalogue)));
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// The environment of this name.
pub(crate) async fn find(options: &Options, name: &str) -> Result<NamedEnvironment, Problem> {
    let all = list(options).await?;
    let names: Vec<String> = all.iter().map(|environment| environment.name.clone()).collect();
    all.into_iter().find(|environment| environment.name == name).ok_or_else(|| {
        let hint = if names.is_empty() {
            "make one with `slipway env add NAME --repo URL`".to_owned()
        } else {
            format!("the environments are: {}", names.join(", "))
        };
        Problem::new(Code::EnvironmentNotFound, format!("there is no environment \"{name}\"")).hint(hint)
    })
}

/// Checks the recipe and that its repository can be read, then stores it.
pub(crate) async fn put(
    options: &Options,
    name: &str,
    recipe: Environment,
    command: Option<Command>,
) -> Result<NamedEnvironment, Problem> {
    refuse_configured(options, name)?;
    let recipe = verified(options, name, recipe).await?;
    let command = command.map(Command::name);
    options.store.put_environment_for(command.as_deref(), name, &recipe).await.map_err(problem::store)?;
    Ok(stored(name, recipe))
}

/// The recipe as it would be stored, after everything that is looked at before that.
pub(crate) async fn verified(
    options: &Options,
    name: &str,
    mut recipe: Environment,
) -> Result<Environment, Problem> {
    check_name(name)?;
    uncover(options, name, &mut recipe).await?;
    check_recipe(options, &recipe)?;
    for repo in &recipe.repos {
        let mirror = options.mirrors.fetch(&repo.url).await.map_err(|error| problem::forge(&error))?;
        mirror.tip(repo.branch.as_deref()).await.map_err(|error| problem::forge(&error))?;
    }
    Ok(recipe)
}

/// An environment as it is in the catalogue after it was put there.
pub(crate) fn stored(name: &str, recipe: Environment) -> NamedEnvironment {
    NamedEnvironment { name: name.to_owned(), source: EnvironmentSource::Catalogue, image: None, recipe }
}

/// Somebody who changes an environment may send its repository back as it was shown, without the credentials: they stay.
async fn uncover(options: &Options, name: &str, recipe: &mut Environment) -> Result<(), Problem> {
    if !recipe.repos.iter().any(|repo| forge::is_covered(&repo.url)) {
        return Ok(());
    }
    let stored = options.store.environments().await.map_err(problem::store)?;
    let known = stored.into_iter().find(|(own, _)| own == name).map(|(_, recipe)| recipe.repos);
    let known = known.unwrap_or_default();
    for repo in recipe.repos.iter_mut().filter(|repo| forge::is_covered(&repo.url)) {
        let same = known.iter().find(|known| forge::covered_url(&known.url) == repo.url);
        repo.url = same.map(|known| known.url.clone()).ok_or_else(|| {
            let title = format!("the address {} is one whose credentials were taken out", repo.url);
            Problem::new(Code::BadRequest, title).hint("give the whole address, with its user and password")
        })?;
    }
    Ok(())
}

/// Adds rules to what an environment of the catalogue allows.
pub(crate) async fn allow(
    options: &Options,
    name: &str,
    rules: Vec<String>,
    command: Option<Command>,
) -> Result<NamedEnvironment, Problem> {
    if rules.is_empty() {
        return Err(Problem::new(Code::BadRequest, "there is nothing to allow")
            .hint("name hosts, such as registry.npmjs.org or *.example.com:8443"));
    }
    let mut environment = find(options, name).await?;
    if options.environments.iter().any(|(own, _)| own == name) {
        return Err(Problem::new(
            Code::Conflict,
            format!("the environment \"{name}\" is written in the configuration file"),
        )
        .hint(format!("add to its egress there: {}", rules.join(", "))));
    }
    let mut allowed = match environment.recipe.egress {
        Egress::Open => {
            return Err(Problem::new(Code::Conflict, "every public address is allowed already")
                .hint("private and local addresses are refused whatever the rules are"));
        }
        Egress::None => Vec::new(),
        Egress::Allow(allowed) => allowed,
    };
    for rule in rules {
        if !allowed.contains(&rule) {
            allowed.push(rule);
        }
    }
    environment.recipe.egress = Egress::Allow(allowed);
    sandbox::egress::Rules::parse(&environment.recipe.egress).map_err(|error| problem::recipe(&error))?;
    let command = command.map(Command::name);
    let put = options.store.put_environment_for(command.as_deref(), name, &environment.recipe);
    put.await.map_err(problem::store)?;
    Ok(environment)
}

/// Removes one of the catalogue.
pub(crate) async fn remove(options: &Options, name: &str, command: Option<Command>) -> Result<(), Problem> {
    refuse_configured(options, name)?;
    let command = command.map(Command::name);
    let removed = options.store.remove_environment_for(command.as_deref(), name).await;
    if removed.map_err(problem::store)? {
        return Ok(());
    }
    find(options, name).await.map(drop)
}

fn refuse_configured(options: &Options, name: &str) -> Result<(), Problem> {
    if options.environments.iter().any(|(own, _)| own == name) {
        return Err(Problem::new(
            Code::Conflict,
            format!("the environment \"{name}\" is written in the configuration file"),
        )
        .hint("edit it there, or choose another name"));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Problem> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= 64 && name.chars().all(good) && !name.starts_with(['.', '-']) {
        return Ok(());
    }
    Err(Problem::new(Code::BadRequest, "this is no name for an environment")
        .hint("use up to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit"))
}

/// What can be seen in a recipe without its repository.
pub(crate) fn check_recipe(options: &Options, recipe: &Environment) -> Result<(), Problem> {
    let refuse = |title: String, hint: &str| Err(Problem::new(Code::BadRequest, title).hint(hint));
    if recipe.repos.is_empty() {
        return refuse("the environment has no repository".to_owned(), "add one: repos = [{ url = \"…\" }]");
    }
    if let Some((title, hint)) = recipe.misplaced() {
        return refuse(title, hint);
    }
    let mut addresses = std::collections::BTreeSet::new();
    for repo in &recipe.repos {
        let public = forge::public_url(&repo.url);
        let address = public.trim_end_matches('/').trim_end_matches(".git").to_lowercase();
        if !addresses.insert(address) {
            return refuse(
                format!("the environment has the repository {public} twice"),
                "a session has one branch of a repository: take one of them out",
            );
        }
    }
    let wrong = |error: sandbox::Error| problem::recipe(&error);
    recipe.base.parse::<sandbox::base::Source>().map_err(wrong)?;
    sandbox::egress::Rules::parse(&recipe.egress).map_err(wrong)?;
    for (what, steps) in [("set-up", &recipe.setup), ("warm", &recipe.warm)] {
        for step in steps {
            check_step(what, step)?;
        }
    }
    check_services(&recipe.services)?;
    check_secrets(&recipe.secrets)?;
    check_limits(&recipe.limits)?;
    check_policy(&recipe.policy)?;
    recipe.pull_request.template.as_deref().map_or(Ok(()), crate::outbox::check_template)?;
    crate::team::check_hooks(&recipe.hooks)?;
    crate::team::check_skills(&recipe.skills)?;
    crate::mcp::check(&options.mcp, &recipe.mcp)?;
    if recipe.approve.iter().any(|gate| *gate != protocol::Gate::Delivery) {
        return refuse(
            "approve can only name \"delivery\"".to_owned(),
            "say which calls and hosts in a policy: policy = { rules = [{ then = \"ask\", tool = \"shell\" }] }",
        );
    }
    check_checks(&recipe.checks)?;
    if let Some(model) = &recipe.model
        && !options.models.iter().any(|known| known.name == *model)
    {
        return Err(no_model(model, &options.models));
    }
    Ok(())
}

fn check_step(what: &str, step: &SetupStep) -> Result<(), Problem> {
    let refuse = |title: String, hint: &str| Err(Problem::new(Code::BadRequest, title).hint(hint));
    if step.run.trim().is_empty() {
        return refuse(format!("a {what} step has no command"), "give it one: { run = \"…\" }");
    }
    if step.attempts == Some(0) || step.attempts.is_some_and(|attempts| attempts > 20) {
        return refuse(
            format!("the {what} step `{}` is to be tried {} times", step.run, step.attempts.unwrap_or(0)),
            "attempts is 1 to 20",
        );
    }
    if step.timeout_s == Some(0) {
        return refuse(
            format!("the {what} step `{}` has no time to run", step.run),
            "timeout_s is 1 or more seconds",
        );
    }
    let inside = |path: &String| !path.starts_with('/') && path.split('/').all(|part| part != "..");
    match step.inputs.iter().find(|path| path.trim().is_empty() || !inside(path)) {
        Some(path) => refuse(
            format!("the {what} step `{}` names an input outside the repository, \"{path}\"", step.run),
            "inputs are paths from the repository's root, such as \"package-lock.json\"",
        ),
        None => Ok(()),
    }
}

/// Services as they must be, whoever declares them.
pub(crate) fn check_services(services: &[Service]) -> Result<(), Problem> {
    sandbox::service::check(services).map_err(|error| problem::recipe(&error))
}

/// Secrets as far as they can be judged without their values, which are read when a sandbox needs them.
fn check_secrets(secrets: &[Secret]) -> Result<(), Problem> {
    let refuse = |title: String, hint: &str| Err(Problem::new(Code::BadRequest, title).hint(hint));
    let mut seen = std::collections::BTreeSet::new();
    for secret in secrets {
        let name = &secret.name;
        let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if name.is_empty()
            || !name.chars().all(letter)
            || name.starts_with(|first: char| first.is_ascii_digit())
        {
            return refuse(
                format!("\"{}\" is no name for a secret", name.escape_debug()),
                "it becomes a variable: use letters, digits and underscores, and begin with a letter",
            );
        }
        if !seen.insert(name.as_str()) {
            return refuse(format!("two secrets have the name {name}"), "give each secret a name of its own");
        }
        let places = [&secret.env, &secret.file, &secret.secret];
        if places.into_iter().flatten().count() != 1 {
            return refuse(
                format!("the secret {name} must say where its value is, in one way"),
                "give it env = \"VARIABLE\" (of the server), file = \"/path\" (on the server's machine) or secret = \
                 \"NAME\" (of `slipway secret set`)",
            );
        }
        if let Some(Err(error)) = secret.secret.as_deref().map(store::Secrets::check_name) {
            return refuse(format!("secret of the secret {name}: {error}"), &error.hint());
        }
        if secret.hosts.is_empty() {
            return refuse(
                format!("the secret {name} is for no host"),
                "name the hosts that get it: hosts = [\"api.example.com\"]",
            );
        }
        let header = secret.form.strip_prefix("header:").is_some_and(|name| !name.trim().is_empty());
        if !matches!(secret.form.as_str(), "bearer" | "basic") && !header {
            return refuse(
                format!("the secret {name} has an unknown form, \"{}\"", secret.form),
                "use \"bearer\", \"basic\" or \"header:NAME\"",
            );
        }
    }
    Ok(())
}

/// Checks as they must be, whoever gives them: with a wrong parser, what they say would be read by chance.
pub(crate) fn check_checks(list: &[protocol::Check]) -> Result<(), Problem> {
    let refuse = |title: String, hint: &str| Err(Problem::new(Code::BadRequest, title).hint(hint));
    let known = checks::names();
    let mut seen = std::collections::BTreeSet::new();
    for check in list {
        if check.name.trim().is_empty() || check.run.trim().is_empty() {
            return refuse("a check has no name or no command".to_owned(), "give it both: { name, run }");
        }
        if !seen.insert(check.name.as_str()) {
            return refuse(
                format!("two checks have the name \"{}\"", check.name),
                "give each check a name of its own",
            );
        }
        if !checks::is_known(&check.parser) {
            return refuse(
                format!("the check \"{}\" names an unknown parser, \"{}\"", check.name, check.parser),
                &format!("the parsers are: {}", known.join(", ")),
            );
        }
    }
    Ok(())
}

/// A policy as it must be, whoever gives it: one that says nothing that anybody meant would allow too much.
pub(crate) fn check_policy(policy: &protocol::Policy) -> Result<(), Problem> {
    let refuse = |title: String, hint: String| Err(Problem::new(Code::BadRequest, title).hint(hint));
    if let Err(why) = policy.check() {
        return refuse(why, "a rule is { then = \"ask\", tool, path, command, host, reason }".to_owned());
    }
    // Beside the model's tools, what is pushed has rules of its own.
    let tools: Vec<&str> = agent::tools::names().chain([agent::policy::DELIVER]).collect();
    for rule in &policy.rules {
        let known =
            |tool: &&str| tool.contains('*') || tools.contains(tool) || agent::tools::is_of_server(tool);
        let unknown = rule.tool.as_deref().filter(|tool| !known(tool));
        if let Some(tool) = unknown {
            return refuse(
                format!("a rule of the policy names an unknown tool, \"{tool}\""),
                format!(
                    "the tools are: {}; those of an MCP server are SERVER__TOOL; * stands for any part of a name",
                    tools.join(", ")
                ),
            );
        }
    }
    sandbox::egress::Narrowing::parse(&[policy], &[]).map(drop).map_err(|error| problem::recipe(&error))
}

fn check_limits(limits: &SandboxLimits) -> Result<(), Problem> {
    let numbers = [
        ("memory_mb", limits.memory_mb),
        ("processes", limits.processes),
        ("open_files", limits.open_files),
        ("disk_mb", limits.disk_mb),
        ("inodes", limits.inodes),
    ];
    let zero = numbers.iter().find(|(_, limit)| *limit == Some(0)).map(|(key, _)| *key);
    let cpus = limits.cpus.filter(|cpus| !(*cpus > 0.0 && *cpus <= 4096.0)).map(|_| "cpus");
    match zero.or(cpus) {
        Some(key) => Err(Problem::new(Code::BadRequest, format!("the limit {key} is out of range"))
            .hint("give a sensible number above 0, or leave it out to have the configured one")),
        None => Ok(()),
    }
}

/// The model to use: what was asked for, the environment's, or the default.
pub(crate) fn choose_model(
    options: &Options,
    asked: Option<&str>,
    recipe: &Environment,
) -> Result<String, Problem> {
    let wanted = asked.or(recipe.model.as_deref()).or(options.default_model.as_deref());
    let Some(wanted) = wanted else {
        return Err(match options.models.as_slice() {
            [] => no_models(),
            models => Problem::new(Code::ModelNotFound, "no model was asked for and there is no default")
                .hint(format!("name one of: {}", names(models))),
        });
    };
    if options.models.iter().any(|model| model.name == wanted) {
        return Ok(wanted.to_owned());
    }
    Err(no_model(wanted, &options.models))
}

/// No model has this name.
pub(crate) fn no_model(name: &str, models: &[llm::Model]) -> Problem {
    if models.is_empty() {
        return no_models();
    }
    Problem::new(Code::ModelNotFound, format!("there is no model \"{name}\""))
        .hint(format!("the models are: {}", names(models)))
}

fn no_models() -> Problem {
    Problem::new(Code::ModelNotFound, "no model is configured")
        .hint("set ANTHROPIC_API_KEY or OPENAI_API_KEY, or add a [models.NAME] section to slipway.toml")
}

fn names(models: &[llm::Model]) -> String {
    models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join(", ")
}
