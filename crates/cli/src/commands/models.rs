//! `slipway models`: what can be used.

use super::Context;
use crate::exit::Exit;
use crate::render::{print, style, table};

/// List the models that prompts can use.
#[derive(Debug, clap::Args)]
pub(crate) struct Models {}

impl Models {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
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
            let rows = list.models.iter().map(|model| {
                let default = if model.default { "default" } else { "" };
                vec![model.name.clone(), model.provider.clone(), model.model.clone(), default.to_owned()]
            });
            print::line(&table::format(&["name", "provider", "model", ""], rows))?;
        }
        Ok(Exit::Done)
    }
}
