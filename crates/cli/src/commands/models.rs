//! `slipway models`: what can be used, and whether it works.

use anyhow::anyhow;
use llm::{Findings, ToolCalls};
use protocol::{Model, ModelPrice};
use serde_json::{Value, json};

use super::Context;
use crate::exit::{Exit, Usage};
use crate::node;
use crate::render::{print, style, table};

/// List the models that prompts can use.
#[derive(Debug, clap::Args)]
pub(crate) struct Models {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Try a model out with one small request that has a tool
    ///
    /// It says in plain words what works (the key, streaming, tool calls, usage, answers of a given shape) and which
    /// settings fit. A model that does not call the tool is asked a second time, for an answer of a given shape. The requests
    /// are made from here, with the configuration of this machine.
    Test {
        /// Name of the model
        name: String,
    },
}

impl Models {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        match self.action {
            None => list(context).await,
            Some(Action::Test { name }) => test(context, &name).await,
        }
    }
}

async fn list(context: Context) -> anyhow::Result<Exit> {
    let link = context.look().await?;
    let list = link.api.models().await;
    link.close_now().await?;
    let list = list?;
    if context.json {
        print::json(&list)?;
    } else if list.models.is_empty() {
        style::note(
            "no model is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or add [models.NAME] to slipway.toml",
        );
    } else {
        let head = ["name", "provider", "model", "context", "price", "tools", "edits", "key", ""];
        print::line(&table::format(&head, list.models.iter().map(row)))?;
    }
    Ok(Exit::Done)
}

fn row(model: &Model) -> Vec<String> {
    let mut remarks = Vec::new();
    if model.default {
        remarks.push("default".to_owned());
    }
    // What the default does need not be said twice.
    remarks.extend(model.tasks.iter().filter(|task| !(model.default && *task == "code")).cloned());
    if !model.fallback.is_empty() {
        remarks.push(format!("then {}", model.fallback.join(", ")));
    }
    vec![
        model.name.clone(),
        model.provider.clone(),
        model.model.clone(),
        format!("{}{}", thousands(model.context), if model.context_assumed { "?" } else { "" }),
        model.price.as_ref().map_or_else(|| "unknown".to_owned(), price),
        model.tool_mode.as_str().to_owned(),
        model.edit_format.as_str().to_owned(),
        // None may be needed, which is as good.
        if model.key { "ok" } else { "missing" }.to_owned(),
        remarks.join(", "),
    ]
}

/// A number of tokens, as short as people say it.
fn thousands(tokens: u64) -> String {
    match tokens {
        0 => "unknown".to_owned(),
        1..1000 => tokens.to_string(),
        1000..1_000_000 => format!("{}k", tokens / 1000),
        _ => format!("{:.1}M", tokens as f64 / 1_000_000.0).replace(".0M", "M"),
    }
}

/// Dollars per million tokens of prompt and answer.
fn price(price: &ModelPrice) -> String {
    if price.input == 0.0 && price.output == 0.0 {
        return "free".to_owned();
    }
    format!("${}/${}", price.input, price.output)
}

async fn test(context: Context, name: &str) -> anyhow::Result<Exit> {
    if context.remote.url.is_some() {
        return Err(Usage(anyhow!(
            "a model is tried out with the configuration of the machine that it runs on\n  run this where the server runs, without --server"
        ))
        .into());
    }
    let models = node::models(&context.config);
    let Some(model) = models.iter().find(|model| model.name == name) else {
        let known: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
        let known = if known.is_empty() { "none is configured".to_owned() } else { known.join(", ") };
        return Err(Usage(anyhow!("there is no model \"{name}\"\n  the models are: {known}")).into());
    };
    let client = llm::Client::new()?;
    match client.probe(model).await {
        Ok(findings) if context.json => print::json(&as_json(model, &findings))?,
        Ok(findings) => print::line(&in_words(model, &findings).join("\n"))?,
        Err(error) => {
            if context.json {
                print::json(&json!({"model": name, "works": false, "reason": error.message}))?;
            } else {
                print::line(&format!("{name} does not work: {}", error.message))?;
            }
            return Ok(Exit::Failed);
        }
    }
    Ok(Exit::Done)
}

/// Whether servers look for a key in this header.
fn is_for_a_key(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    header == "authorization" || header.ends_with("api-key") || header.ends_with("-token")
}

/// What was found, one line for each.
fn in_words(model: &llm::Model, findings: &Findings) -> Vec<String> {
    let profile = model.profile();
    let cost = llm::cost_usd(model, &findings.usage);
    let mut lines = vec![
        format!("{}: {} at {}", model.name, model.model, model.provider.name()),
        match (model.key.is_some(), model.headers.keys().any(|name| is_for_a_key(name))) {
            (true, _) => "key: works",
            (false, true) => "key: works, in a header of the configuration",
            (false, false) => "key: none is needed",
        }
        .to_owned(),
        if findings.streams {
            format!("streaming: works; the first piece came after {} ms", findings.first_token.as_millis())
        } else {
            "streaming: no, answers come all at once".to_owned()
        },
        match &findings.tool_calls {
            ToolCalls::Native => "tool calls: work".to_owned(),
            ToolCalls::AsText => "tool calls: written as text, not made".to_owned(),
            ToolCalls::Wrong(what) => format!("tool calls: not as they should be, {what}"),
            ToolCalls::No => "tool calls: the tool was not called".to_owned(),
            ToolCalls::Refused(why) => format!("tool calls: refused. {why}"),
        },
        match &findings.structured {
            None => "answers of a given shape: not tried, because they are not needed".to_owned(),
            Some(Ok(())) => "answers of a given shape: work".to_owned(),
            Some(Err(why)) => format!("answers of a given shape: no, {why}"),
        },
        if findings.reports_usage {
            let tokens = findings.usage.total();
            let cost =
                cost.map_or_else(|| "at an unknown price".to_owned(), |cost| format!("for ${cost:.4}"));
            format!("usage: reported; this test took {tokens} tokens {cost}")
        } else {
            "usage: not reported, so spending is estimated".to_owned()
        },
    ];
    lines.extend(findings.notes.iter().map(|note| format!("note: {note}")));
    let mut settings = Vec::new();
    if findings.tool_mode != profile.tool_mode {
        settings.push(format!("tool_mode = \"{}\"", findings.tool_mode.as_str()));
    }
    if let Some(context) = findings.context.filter(|context| *context != profile.context) {
        settings.push(format!("context = {context}"));
    }
    let fits = format!("{}, {}", findings.tool_mode.as_str(), findings.edit_format.as_str());
    lines.push(match settings.as_slice() {
        [] => format!("profile: {fits}; nothing needs to be set"),
        settings => format!("profile: {fits}; set in [models.{}]: {}", model.name, settings.join(", ")),
    });
    lines
}

fn as_json(model: &llm::Model, findings: &Findings) -> Value {
    let (tool_calls, refusal) = match &findings.tool_calls {
        ToolCalls::Native => ("native", None),
        ToolCalls::AsText => ("as_text", None),
        ToolCalls::Wrong(what) => ("wrong", Some(what)),
        ToolCalls::No => ("no", None),
        ToolCalls::Refused(why) => ("refused", Some(why)),
    };
    json!({
        "model": model.name,
        "works": true,
        "streaming": findings.streams,
        "first_token_ms": u64::try_from(findings.first_token.as_millis()).unwrap_or(u64::MAX),
        "tool_calls": tool_calls,
        "tools_refused": refusal,
        "structured_output": findings.structured.as_ref().map(Result::is_ok),
        "structured_output_reason": findings.structured.as_ref().and_then(|kept| kept.as_ref().err()),
        "usage_reported": findings.reports_usage,
        "usage": findings.usage,
        "cost_usd": llm::cost_usd(model, &findings.usage),
        "served_context": findings.context,
        "tool_mode": findings.tool_mode,
        "edit_format": findings.edit_format,
        "images": model.profile().images,
        "notes": findings.notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let short = [16_384, 200_000, 1_000_000, 1_048_576, 500, 0].map(thousands);
        assert_eq!(short, ["16k", "200k", "1M", "1M", "500", "unknown"]);
        let paid = ModelPrice { input: 0.25, output: 2.0, cache_read: None, cache_write: None };
        assert_eq!(price(&paid), "$0.25/$2");
        assert_eq!(price(&ModelPrice { input: 0.0, output: 0.0, ..paid }), "free");
    }
}
