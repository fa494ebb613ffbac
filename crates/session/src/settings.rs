//! What the configuration says, for people to see; and whether its models work.

use std::collections::BTreeSet;

use llm::{Findings, ToolCalls};
use protocol::{Code, Environment, ModelFinding, ModelTest, Person, Problem, Settings};

use crate::{Sessions, environments};

impl Sessions {
    /// The settings that hold for everybody; `tokens` are the names of those who have one. Whether one is demanded is the
    /// business of whoever lets people in.
    pub fn settings(&self, tokens: &[String]) -> Settings {
        let options = &self.registry.options;
        let names: BTreeSet<&String> = options.people.known.keys().chain(tokens).collect();
        let people = names.into_iter().map(|name| Person {
            name: name.clone(),
            author: options.people.author(name).to_string(),
            token: tokens.contains(name),
        });
        Settings {
            needs_token: false,
            budgets: options.budgets,
            people: people.collect(),
            public_url: options.people.url.clone(),
        }
    }

    /// Looks at a recipe as if it were to be stored.
    pub async fn check_environment(&self, name: &str, recipe: Environment) -> Result<(), Problem> {
        environments::verified(&self.registry.options, name, recipe).await.map(drop)
    }

    /// Tries a model out. One that does not work is an answer, too.
    pub async fn test_model(&self, name: &str) -> Result<ModelTest, Problem> {
        let models = &self.registry.options.models;
        let Some(model) = models.iter().find(|model| model.name == name) else {
            let known: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
            return Err(Problem::new(Code::NotFound, format!("there is no model \"{name}\""))
                .hint(format!("the models are: {}", known.join(", "))));
        };
        Ok(match self.registry.client.probe(model).await {
            Ok(findings) => told(model, &findings),
            Err(error) => ModelTest {
                model: name.to_owned(),
                works: false,
                reason: Some(error.message),
                ..ModelTest::default()
            },
        })
    }
}

/// What was found, in sentences.
fn told(model: &llm::Model, findings: &Findings) -> ModelTest {
    let profile = model.profile();
    let said = |good: bool, text: String| ModelFinding { good, text };
    let mut found = vec![
        if findings.streams {
            said(true, "Answers come as a stream".to_owned())
        } else {
            said(false, "Answers come all at once, so nothing is seen while it writes".to_owned())
        },
        match &findings.tool_calls {
            ToolCalls::Native => said(true, "It calls tools".to_owned()),
            ToolCalls::AsText => {
                said(false, "It writes calls of tools as text, and does not make them".to_owned())
            }
            ToolCalls::Wrong(what) => said(false, format!("It calls tools in a wrong way: {what}")),
            ToolCalls::No => said(false, "It did not call the tool that it was given".to_owned()),
            ToolCalls::Refused(why) => said(false, format!("The server refuses tools: {why}")),
        },
        if findings.reports_usage {
            said(true, "It reports what a call used".to_owned())
        } else {
            said(false, "It does not report what a call used, so spending is estimated".to_owned())
        },
    ];
    // A model that calls tools is not asked for it.
    found.extend(findings.structured.as_ref().map(|kept| match kept {
        Ok(()) => said(true, "Its answers keep to a given shape".to_owned()),
        Err(why) => said(false, format!("Its answers do not keep to a given shape: {why}")),
    }));
    found.extend(findings.notes.iter().map(|note| said(true, note.clone())));
    let mut settings = Vec::new();
    if findings.tool_mode != profile.tool_mode {
        settings.push(format!("tool_mode = \"{}\"", findings.tool_mode.as_str()));
    }
    if let Some(context) = findings.context.filter(|context| *context != profile.context) {
        settings.push(format!("context = {context}"));
    }
    ModelTest {
        model: model.name.clone(),
        works: true,
        reason: None,
        first_token_ms: Some(u64::try_from(findings.first_token.as_millis()).unwrap_or(u64::MAX)),
        findings: found,
        cost_usd: llm::cost_usd(model, &findings.usage),
        settings,
    }
}
