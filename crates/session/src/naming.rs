//! A session's title in a model's words, where the configuration names a model for it, or in those of a model that takes over. It is written beside the first turn
//! and never in its way: where it cannot be had, the title stays the first line of the prompt, which is told, and a person's
//! title wins.

use std::sync::Arc;
use std::time::Duration;

use llm::{Answer, Class, Model};
use protocol::chat::{Message, Part, Request};
use protocol::{Actor, EventBody, TurnId};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::routes::Task;
use crate::runner::{Context, retry, usage, used_in_vain};
use crate::workspace::prefix;

/// What the model is told.
const WORDS: &str = "You name tasks. Answer with a title for the task that you are given, in its language: one line of at \
     most eight words that says what is to be done, without quotes and without a full stop. Answer with nothing else. The \
     task is not for you: do not work on it.";

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes of the prompt that it is made from.
const PROMPT: usize = 4 * 1024;
/// Of a prompt that is too long for the model no less than this is tried.
const LEAST: usize = 512;
/// Most tokens of the answer; some models think first.
const ANSWER: u32 = 1024;

/// Begins to write the title, if the configuration has a model for it and the title is still the prompt's own.
pub(crate) fn begin(context: &Arc<Context>) -> Option<AbortOnDropHandle<()>> {
    let line = context.options.line(Task::Title);
    let turn = context.turn().filter(|_| !line.is_empty())?;
    let before = crate::title(&turn.text);
    if !context.recorder.stream().with_state(|state| is_titled(state, &before)) {
        return None;
    }
    let context = Arc::clone(context);
    let until = Instant::now() + PATIENCE;
    let task = async move {
        let session = context.recorder.session();
        let mut naming = Naming { context: &context, turn: turn.id, prompt: &turn.text, before, until };
        for (place, model) in line.iter().enumerate() {
            if let Err(error) = context.tell_unpriced(model).await {
                tracing::warn!(%session, %error, "nobody could be told that no price is known");
            }
            let Err(error) = naming.write(model).await else { return };
            tracing::warn!(%session, model = model.name, error, "no title was written");
            let next = line.get(place + 1).filter(|_| naming.is_in_time());
            let instead = match next {
                Some(next) => format!("so {} does it", next.name),
                None => "so that stays the first line of the prompt".to_owned(),
            };
            let note = format!("it could not write a title, {instead}: {error}");
            if let Err(error) = context.tell_adapted(model, vec![note]).await {
                tracing::warn!(%session, %error, "nobody could be told that no title was written");
            }
            if next.is_none() {
                return;
            }
        }
    };
    Some(AbortOnDropHandle::new(tokio::spawn(task)))
}

fn is_titled(state: &crate::state::State, title: &str) -> bool {
    state.created().is_some_and(|created| created.title == title)
}

/// A title while it is written.
struct Naming<'a> {
    context: &'a Context,
    turn: TurnId,
    prompt: &'a str,
    /// The title so far.
    before: String,
    /// Until when somebody waits for it.
    until: Instant,
}

impl Naming<'_> {
    fn is_in_time(&self) -> bool {
        Instant::now() < self.until && self.context.limits_reached().is_none()
    }

    /// Has a model write the title. What may pass is waited for, and of a prompt that is too long less is sent.
    async fn write(&mut self, model: &Model) -> Result<(), String> {
        let mut prompt = PROMPT;
        let mut failures = llm::Failures::default();
        loop {
            let error = match self.call(model, prompt).await? {
                Ok(answer) => return self.take(model, &answer).await,
                Err(error) => error,
            };
            if error.class == Class::ContextOverflow && prompt > LEAST {
                prompt /= 2;
                continue;
            }
            let again = failures.again(&error).filter(|again| Instant::now() + again.delay < self.until);
            let Some(again) = again.filter(|_| self.is_in_time()) else { return Err(error.message) };
            failures.count(again.attempt, again.attempts);
            let body = retry(self.turn, Some("title"), &error, again);
            // It is the platform's own call: the turn waits for nothing, and the server after this one asks anew.
            self.record(&Actor::system(), vec![body]).await?;
            tokio::select! {
                () = tokio::time::sleep(again.delay) => {}
                () = self.context.out_of_time() => return Err(error.message),
            }
        }
    }

    /// One attempt. What a failed one used is recorded.
    async fn call(&self, model: &Model, prompt: usize) -> Result<Result<Answer, llm::Error>, String> {
        let request = Request {
            system: WORDS.to_owned(),
            messages: vec![Message::user(prefix(self.prompt, prompt))],
            max_output_tokens: ANSWER,
            ..Request::default()
        };
        let mut meter = llm::Meter::default();
        let mut unseen = |delta| meter.push(&delta);
        let called = tokio::select! {
            biased;
            called = self.context.client.complete(model, &request, &mut unseen) => Ok(called),
            () = tokio::time::sleep_until(self.until) => Err("it took too long"),
            () = self.context.out_of_time() => Err("the time of the turn is over"),
        };
        let called = called.unwrap_or_else(|why| {
            // Nobody waits for another attempt.
            let error = llm::Error::new(Class::TimedOut, why);
            Err(llm::Error { usage: meter.used(), hopeless: true, ..error })
        });
        if let Err(error) = &called {
            let used = used_in_vain(self.turn, model, error.usage, 0).into_iter().collect();
            self.record(&Actor::agent(model.name.clone()), used).await?;
        }
        Ok(called)
    }

    /// Takes what a model said for the title.
    async fn take(&self, model: &Model, answer: &Answer) -> Result<(), String> {
        let used = usage(self.turn, model, answer, 0, 0);
        let said = answer.completion.parts.iter().find_map(|part| match part {
            Part::Text { text } => clean(text),
            Part::Reasoning { .. } | Part::Call(_) => None,
        });
        let is_empty = said.is_none();
        let before = self.before.clone();
        let decide = move |state: &crate::state::State| {
            let named = said.filter(|title| is_titled(state, &before) && *title != before);
            let renamed = named.map(|title| EventBody::SessionRenamed { title, command: None });
            (std::iter::once(used).chain(renamed).collect(), ())
        };
        let actor = Actor::agent(model.name.clone());
        self.context.recorder.append_if(&actor, decide).await.map_err(|error| error.to_string())?;
        if is_empty { Err("its answer has no words in it".to_owned()) } else { Ok(()) }
    }

    async fn record(&self, actor: &Actor, bodies: Vec<EventBody>) -> Result<(), String> {
        let recorded = self.context.recorder.append_if(actor, move |_| (bodies, ())).await;
        recorded.map(drop).map_err(|failure| failure.to_string())
    }
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
    let line = line.replace("**", "");
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
            ("Title: Say **hello**\nsecond line", Some("Say hello")),
        ] {
            assert_eq!(clean(said).as_deref(), title, "{said:?}");
        }
        assert_eq!(clean(&"word ".repeat(100)).unwrap().chars().count(), 80);
    }
}
