//! A session's title in a model's words, where the configuration names a model for it. It is written beside the first turn
//! and never in its way: where it cannot be had, the title stays the first line of the prompt, which is told, and a person's
//! title wins.

use std::sync::Arc;
use std::time::Duration;

use protocol::chat::{Message, Part, Request};
use protocol::{Actor, EventBody, TurnId};
use tokio_util::task::AbortOnDropHandle;

use crate::routes::Task;
use crate::runner::{Context, usage, used_in_vain};
use crate::workspace::prefix;

/// What the model is told.
const WORDS: &str = "You name tasks. Answer with a title for the task that you are given, in its language: one line of at \
     most eight words that says what is to be done, without quotes and without a full stop. Answer with nothing else. The \
     task is not for you: do not work on it.";

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes of the prompt that it is made from.
const PROMPT: usize = 4 * 1024;
/// Most tokens of the answer; some models think first.
const ANSWER: u32 = 1024;

/// Begins to write the title, if the configuration has a model for it and the title is still the prompt's own.
pub(crate) fn begin(context: &Arc<Context>) -> Option<AbortOnDropHandle<()>> {
    let model = context.options.routed(Task::Title)?.clone();
    let turn = context.turn()?;
    let title = crate::title(&turn.text);
    if !context.recorder.stream().with_state(|state| is_titled(state, &title)) {
        return None;
    }
    let context = Arc::clone(context);
    let task = async move {
        let session = context.recorder.session();
        if let Err(error) = context.tell_unpriced(&model).await {
            tracing::warn!(%session, %error, "nobody could be told that no price is known");
        }
        let written = write(&context, &model, turn.id, &turn.text, title);
        if let Err(error) = written.await {
            tracing::warn!(%session, model = model.name, error, "no title was written");
            let note =
                format!("it could not write a title, so that stays the first line of the prompt: {error}");
            if let Err(error) = context.tell_adapted(&model, vec![note]).await {
                tracing::warn!(%session, %error, "nobody could be told that no title was written");
            }
        }
    };
    Some(AbortOnDropHandle::new(tokio::spawn(task)))
}

fn is_titled(state: &crate::state::State, title: &str) -> bool {
    state.created().is_some_and(|created| created.title == title)
}

async fn write(
    context: &Context,
    model: &llm::Model,
    turn: TurnId,
    prompt: &str,
    before: String,
) -> Result<(), String> {
    let request = Request {
        system: WORDS.to_owned(),
        messages: vec![Message::user(prefix(prompt, PROMPT))],
        max_output_tokens: ANSWER,
        ..Request::default()
    };
    let actor = Actor::agent(model.name.clone());
    let mut meter = llm::Meter::default();
    let mut unseen = |delta| meter.push(&delta);
    let called = tokio::time::timeout(PATIENCE, context.client.complete(model, &request, &mut unseen)).await;
    let called = called.unwrap_or_else(|_| {
        let error = llm::Error::new(llm::Class::TimedOut, "it took too long");
        Err(llm::Error { usage: meter.used(), ..error })
    });
    let answer = match called {
        Ok(answer) => answer,
        Err(error) => {
            let used: Vec<EventBody> = used_in_vain(turn, model, error.usage, 0).into_iter().collect();
            let recorded = context.recorder.append_if(&actor, move |_| (used, ())).await;
            return Err(recorded.map_or_else(|failure| failure.to_string(), |_| error.message));
        }
    };
    let used = usage(turn, model, &answer, 0, 0);
    let said = answer.completion.parts.iter().find_map(|part| match part {
        Part::Text { text } => clean(text),
        Part::Reasoning { .. } | Part::Call(_) => None,
    });
    let is_empty = said.is_none();
    let decide = move |state: &crate::state::State| {
        let named = said.filter(|title| is_titled(state, &before) && *title != before);
        let renamed = named.map(|title| EventBody::SessionRenamed { title, command: None });
        (std::iter::once(used).chain(renamed).collect(), ())
    };
    context.recorder.append_if(&actor, decide).await.map_err(|error| error.to_string())?;
    if is_empty { Err("its answer has no words in it".to_owned()) } else { Ok(()) }
}

/// A title in what a model said: its first line that says something, without what models put around it.
fn clean(said: &str) -> Option<String> {
    let said = agent::beside_thoughts(said)?;
    let around = |letter: char| letter.is_whitespace() || "\"'`*#“”„«»".contains(letter);
    let line = said.lines().map(|line| line.trim_matches(around)).find(|line| !line.is_empty())?;
    let line = match line.split_once(':') {
        Some((word, rest)) if word.trim().eq_ignore_ascii_case("title") => rest.trim_matches(around),
        _ => line,
    };
    let line: String = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let line = line.trim_end_matches('.').trim_matches(around);
    Some(crate::title(line)).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn a_title_that_is_cut_ends_with_a_whole_word_or_a_short_one() {
        let token = "a1B2c3D4e5F6".repeat(4);
        let text = format!("Please make the page of the shop load what it shows by way of {token} and more");
        let title = crate::title(&text);
        assert_eq!(title, "Please make the page of the shop load what it shows by way of…");
        let words =
            "Please make the page of the shop load what it shows by way of another, and do more than that";
        assert!(crate::title(words).ends_with(" by way of another, and do m…"), "{}", crate::title(words));
        let whole = format!("Make the page of the shop load {}", &token[..20]);
        assert_eq!(crate::title(&whole), whole);
        assert_eq!(crate::title(&"修".repeat(100)).chars().count(), 80);
    }

    #[test]
    fn a_title_is_what_the_model_said_without_its_wrapping() {
        for (said, title) in [
            ("Fix the cart total", Some("Fix the cart total")),
            ("\n**\"Fix the cart total.\"**\nIt is short.", Some("Fix the cart total")),
            ("Title: Fix the cart total", Some("Fix the cart total")),
            ("# Fix: the cart\u{1b}[31m total", Some("Fix: the cart [31m total")),
            ("```\nFix it\n```", Some("Fix it")),
            (" \n\"\"\n", None),
            ("<think>\nOkay, the user …\n</think>\n\nFix it", Some("Fix it")),
            ("<think>\nOkay, the user", None),
            ("title:", None),
        ] {
            assert_eq!(clean(said).as_deref(), title, "{said:?}");
        }
        assert_eq!(clean(&"word ".repeat(100)).unwrap().chars().count(), 80);
    }
}
