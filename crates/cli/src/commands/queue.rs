//! `slipway queue`: the prompts that wait in a session.

use protocol::{EditPrompt, Place, PromptId, SessionId};

use super::Context;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::{print, style, table, text};

/// The prompts that wait in a session: list, edit, move and remove them, pause and resume them.
#[derive(Debug, clap::Args)]
pub(crate) struct Queue {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// What to do [default: list them]
    #[command(subcommand)]
    change: Option<Change>,
}

#[derive(Debug, clap::Subcommand)]
enum Change {
    /// Begin nothing that waits until the queue is resumed; what is being worked on goes on
    Pause,
    /// Go on with what waits
    Resume,
    /// Give a waiting prompt another text
    Edit {
        /// The prompt
        prompt: PromptId,
        /// What is to be done instead
        text: String,
    },
    /// Give a waiting prompt another place
    #[command(group(clap::ArgGroup::new("place").required(true).args(["first", "last", "before"])))]
    Move {
        /// The prompt
        prompt: PromptId,
        /// It is the next one
        #[arg(long)]
        first: bool,
        /// It comes after all others
        #[arg(long)]
        last: bool,
        /// It comes right before this one
        #[arg(long, value_name = "PROMPT")]
        before: Option<PromptId>,
    },
    /// Take a waiting prompt out of the queue
    Rm {
        /// The prompt
        prompt: PromptId,
    },
}

impl Queue {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let session = self.session;
        let queue = match self.change {
            None => {
                let link = context.look().await?;
                let queue = link.api.queue(session).await;
                link.close_now().await?;
                queue?
            }
            Some(change) => {
                let mut interrupts = Interrupts::catch()?;
                let link = context.link().await?;
                let api = &link.api;
                let queue = match change {
                    Change::Pause => api.set_queue(session, true).await,
                    Change::Resume => api.set_queue(session, false).await,
                    Change::Edit { prompt, text } => {
                        api.edit_prompt(session, prompt, &EditPrompt { prompt: Some(text), place: None })
                            .await
                    }
                    Change::Move { prompt, first, before, .. } => {
                        let place = match before {
                            Some(next) => Place::Before(next),
                            None if first => Place::First,
                            None => Place::Last,
                        };
                        api.edit_prompt(session, prompt, &EditPrompt { prompt: None, place: Some(place) })
                            .await
                    }
                    Change::Rm { prompt } => api.remove_prompt(session, prompt).await,
                };
                link.close(&mut interrupts).await?;
                queue?
            }
        };
        if context.json {
            print::json(&queue)?;
            return Ok(Exit::Done);
        }
        if queue.prompts.is_empty() {
            style::note("nothing waits");
        } else {
            let rows = queue.prompts.iter().map(|prompt| {
                vec![
                    prompt.id.to_string(),
                    text::harmless(&writers(prompt)),
                    text::first_line(&text::harmless(&prompt.text)),
                ]
            });
            print::line(&table::format(&["prompt", "author", "text"], rows))?;
        }
        if let Some(why) = &queue.waits {
            style::note(&format!("the queue stays: {}", text::harmless(why)));
        } else if queue.paused {
            style::note(&format!("the queue is paused; go on with: slipway queue {session} resume"));
        }
        Ok(Exit::Done)
    }
}

/// Who asked for a prompt, and who else wrote at it.
pub(super) fn writers(prompt: &protocol::QueuedPrompt) -> String {
    match prompt.editors.as_slice() {
        [] => prompt.author.clone(),
        editors => format!("{} (edited by {})", prompt.author, editors.join(", ")),
    }
}
