//! What forges tell by themselves. It is verified, and taken once by the name that the forge gives it; and what follows from it
//! is named by what it is about, so that it happens once also when the forge tells it under another name, later or in another
//! order.

mod early;

use forge::{CheckNews, CommentNews, Comments, News, PullNews, Repository, Site, Told, Unheard};
use protocol::event::{Delivery, Reply, ReplyState, Review, ReviewState};
use protocol::{Actor, ActorKind, Code, EventBody, HookTaken, Problem, PromptId, SessionId, Timestamp};
use sha2::{Digest, Sha256};
use store::Claim;

use crate::actor::{Asked, Handle};
use crate::pull_requests::{Clock, reviewed, state_of};
use crate::registry::check_prompt;
use crate::workspace::prefix;
use crate::{Sessions, problem};

/// What marks a comment of ours.
const OURS: &str = "<!-- slipway:";
/// Most bytes of the end of a log that a model is given, and most findings of it.
const LOG_TAIL: usize = 6 * 1024;
const FINDINGS: usize = 30;
/// What the keys of webhooks begin with, and the name of work that needs none: it is done before anybody hears of it.
const KEYS: &str = "hook ";
const NAMELESS: &str = "0";

/// What came of a webhook.
enum Came {
    /// This, for good.
    Settled(HookTaken),
    /// Nothing, as things are now. Told again, it is looked at again.
    Open(HookTaken),
    /// It can be about a pull request that is being opened.
    Early,
}

impl Sessions {
    /// Takes a webhook of a forge. The answer says what came of it.
    pub async fn forge_hook(
        &self,
        forge: &str,
        header: &(dyn Fn(&str) -> Option<String> + Send + Sync),
        body: &[u8],
    ) -> Result<HookTaken, Problem> {
        let site = self.registry.options.outbox.sites.iter().find(|site| site.name == forge);
        let hook = site.and_then(|site| Some((site, site.hook.as_ref()?)));
        let (site, hook) = hook.ok_or_else(|| {
            Problem::new(Code::NotFound, "no forge of this name takes webhooks")
                .hint("set webhook_secret_env in its section of slipway.toml")
        })?;
        let told = hook.read(&header, body).map_err(|unheard| match unheard {
            Unheard::Unsigned(why) => Problem::new(Code::Unauthorized, why).hint(
                "give the webhook at the forge the same secret as the variable that webhook_secret_env names",
            ),
            Unheard::Unreadable(why) => {
                Problem::new(Code::BadRequest, why).hint("send JSON, as the forge does by default")
            }
        })?;
        let store = &self.registry.options.store;
        let key = format!("{KEYS}{} {}", site.name, told.id);
        let sum: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        match store.claim_key(&key, &sum, NAMELESS).await.map_err(problem::store)? {
            Claim::New | Claim::Again { .. } | Claim::Done { .. } => {}
            Claim::Settled { body, .. } => {
                let before: Option<HookTaken> = serde_json::from_str(&body).ok();
                return Ok(HookTaken {
                    taken: false,
                    what: "it was told before".to_owned(),
                    session: before.and_then(|before| before.session),
                });
            }
            Claim::Pending => {
                return Err(Problem::new(Code::Conflict, "the same webhook is being worked on"));
            }
            Claim::Mismatch => {
                return Err(Problem::new(Code::Conflict, "another webhook came under the same name")
                    .hint("this is a replay with another body, or a fault of the forge"));
            }
        }
        // By itself: a forge that does not wait for the answer must not leave it half done.
        let (this, site) = (self.clone(), site.clone());
        let heard = tokio::spawn(async move { this.hear(site, told, key).await }).await;
        heard.map_err(|error| {
            Problem::new(Code::Internal, format!("a webhook was not taken: {error}"))
                .hint("this is a fault of slipway: report it with the server's log")
        })?
    }

    /// Takes in what is told under a key that is claimed. What can be about a pull request of which the number is not known
    /// yet waits for that, and the forge does not wait with it.
    async fn hear(self, site: Site, told: Told, key: String) -> Result<HookTaken, Problem> {
        match self.take_in(&site, &told).await {
            Ok(Came::Early) => self.wait_with(site, told, key).await,
            came => self.settle(&key, came).await,
        }
    }

    /// Keeps what came of a webhook, so that it comes of it once. What was not taken can be told again: somebody may be known
    /// by then, or a setting be another one.
    async fn settle(&self, key: &str, came: Result<Came, Problem>) -> Result<HookTaken, Problem> {
        let store = &self.registry.options.store;
        let (settled, taken) = match came {
            Ok(Came::Settled(taken)) => {
                let body = serde_json::to_string(&taken).unwrap_or_default();
                (store.settle_key(key, 200, &body).await, Ok(taken))
            }
            Ok(Came::Open(taken)) => (store.abandon_key(key).await, Ok(taken)),
            Ok(Came::Early) => (store.abandon_key(key).await, Ok(unknown())),
            Err(problem) => (store.abandon_key(key).await, Err(problem)),
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "what came of a webhook cannot be kept; told again, it is looked up in the log");
        }
        taken
    }

    async fn take_in(&self, site: &Site, told: &Told) -> Result<Came, Problem> {
        let Some(repository) = &told.repository else { return Ok(nothing("it belongs to no repository")) };
        match &told.news {
            News::Other(what) => Ok(nothing(&format!("{what} does not matter here"))),
            News::Pull(news) => self.pull_told(site, repository, news).await,
            News::Comment(news) => self.comment_told(site, repository, news).await,
            News::Failed(news) => self.failure_told(site, repository, news).await,
        }
    }

    /// The session that delivered this, if one did, with what it delivered; what it is found by stands in its row of the index.
    async fn delivered(
        &self,
        site: &Site,
        repository: &Repository,
        needle: String,
        fits: impl Fn(&Delivery) -> bool,
    ) -> Result<Option<(Handle, Delivery)>, Problem> {
        let its =
            |all: &[Delivery]| all.iter().find(|one| site.has(&one.remote, repository) && fits(one)).cloned();
        // Those in memory are ahead of the index.
        for handle in self.registry.live().into_values() {
            let found = handle.recorder().stream().with_state(|state| its(state.all_deliveries()));
            if let Some(delivery) = found {
                return Ok(Some((handle, delivery)));
            }
        }
        let rows = self.registry.options.store.naming(needle).await.map_err(problem::store)?;
        for session in rows {
            if let Some(delivery) = its(session.all_deliveries()) {
                return Ok(Some((self.registry.open(session.id).await?, delivery)));
            }
        }
        Ok(None)
    }

    async fn of_number(
        &self,
        site: &Site,
        repository: &Repository,
        number: u64,
    ) -> Result<Option<(Handle, Delivery)>, Problem> {
        let needle = format!("\"number\":{number}");
        self.delivered(site, repository, needle, |delivery| delivery.number == Some(number)).await
    }

    async fn pull_told(
        &self,
        site: &Site,
        repository: &Repository,
        news: &PullNews,
    ) -> Result<Came, Problem> {
        let Some((handle, delivery)) = self.of_number(site, repository, news.number).await? else {
            return self.of_nobody(site, repository).await;
        };
        let at = news.at.unwrap_or_else(Timestamp::now);
        let review = Review { state: state_of(news.state), at, draft: news.draft };
        let number = news.number;
        let decide = move |state: &crate::state::State| {
            (reviewed(state, &delivery.remote, number, (review, Clock::Forge)), ())
        };
        let (events, ()) =
            handle.recorder().append_if(&Actor::system(), decide).await.map_err(problem::store)?;
        let session = handle.recorder().session();
        Ok(Came::Settled(match events.is_empty() {
            true => HookTaken { taken: false, what: "it is not news".to_owned(), session: Some(session) },
            false => taken("the pull request is noted", session),
        }))
    }

    async fn comment_told(
        &self,
        site: &Site,
        repository: &Repository,
        news: &CommentNews,
    ) -> Result<Came, Problem> {
        // An answer of ours that quotes a mention must not call us again.
        if news.text.contains(OURS) || news.author.eq_ignore_ascii_case(&site.bot) {
            return Ok(nothing("it is our own"));
        }
        if !site.is_mentioned(&news.text) {
            return Ok(nothing("it does not mention us"));
        }
        let Some((handle, delivery)) = self.of_number(site, repository, news.number).await? else {
            return self.of_nobody(site, repository).await;
        };
        let session = handle.recorder().session();
        let Some(person) = self.who(site, news) else {
            tracing::info!(%session, forge = site.name, login = news.author, "a comment of somebody unknown is no prompt");
            let what = "its author may not prompt here".to_owned();
            return Ok(Came::Open(HookTaken { taken: false, what, session: Some(session) }));
        };
        let prompt = named(&[&site.name, &repository.to_string().to_lowercase(), "comment", &news.id]);
        let words = news.text.to_lowercase().replace(&format!("@{}", site.bot.to_lowercase()), "");
        let asks_update = matches!(words.trim().trim_end_matches(['.', '!']), "rebase" | "update");
        let place = news.place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
        let text = format!(
            "{} said{place} on the pull request #{}{}:\n\n{}",
            prefix(&news.author, 100),
            news.number,
            of_repository(&delivery),
            news.text.trim()
        );
        let text = if asks_update { crate::runner::catch_up::update_prompt() } else { text };
        let remote = delivery.remote.clone();
        let reply = |key: &str, state, text: String| Reply {
            key: format!("{prompt}.{key}"),
            state,
            prompt,
            remote: remote.clone(),
            number: news.number,
            thread: news.thread.clone(),
            text,
            attempts: 0,
            error: None,
        };
        let link = self.registry.options.people.link(session);
        let seen = format!("Taken as a request. Session: {link}");
        let replies = vec![
            reply("seen", ReplyState::Intended, seen),
            reply("answer", ReplyState::Awaited, String::new()),
        ];
        self.prompt_once(&handle, prompt, Actor::user(person), text, replies).await
    }

    /// Who somebody at a forge is here; None when they may not prompt. Whoever is not known by name cannot be taken for
    /// somebody who is.
    fn who(&self, site: &Site, news: &CommentNews) -> Option<String> {
        if news.author.is_empty() {
            return None;
        }
        let known = site.person(&news.author).map(str::to_owned);
        let known = known.or_else(|| self.registry.logins.person(&site.name, &news.author));
        known.or_else(|| {
            let may = match site.comments {
                Comments::People => false,
                Comments::Members => news.member,
                Comments::Anyone => true,
            };
            may.then(|| format!("{}@{}", news.author, site.name))
        })
    }

    async fn failure_told(
        &self,
        site: &Site,
        repository: &Repository,
        news: &CheckNews,
    ) -> Result<Came, Problem> {
        if news.commit.len() < 40 || !news.commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(nothing("it names no commit"));
        }
        let of_commit = self.delivered(site, repository, news.commit.clone(), |delivery| {
            delivery.commit.as_ref() == Some(&news.commit)
        });
        let Some((handle, delivery)) = of_commit.await? else {
            let what = "no session has this commit".to_owned();
            return Ok(Came::Open(HookTaken { taken: false, what, session: None }));
        };
        let session = handle.recorder().session();
        let not = |what: &str| {
            let taken = HookTaken { taken: false, what: what.to_owned(), session: Some(session) };
            Ok(Came::Open(taken))
        };
        let most = handle.context().workspace.pull_request_rules().fix_checks;
        if most == 0 {
            return not("the environment does not want it");
        }
        let (head, over) = handle.recorder().stream().with_state(|state| {
            let delivery = state.all_deliveries().iter().find(|one| one.repository == delivery.repository);
            let review = delivery.and_then(|delivery| delivery.review);
            let over = review.is_some_and(|review| review.state != ReviewState::Open);
            (delivery.and_then(|delivery| delivery.commit.clone()), over || state.is_archived())
        });
        if head.as_ref() != Some(&news.commit) || over {
            return not("the pull request has moved on");
        }
        let mut before = 0u32;
        let count = |event: &protocol::Event| {
            let by_itself = event.actor.kind == ActorKind::System;
            before += u32::from(by_itself && matches!(event.body, EventBody::PromptQueued { .. }));
        };
        handle.recorder().visit(count).await.map_err(problem::store)?;
        if before >= most {
            return not("it was tried as often as the environment wants");
        }
        // One prompt for a commit, whichever of its checks is told first.
        let prompt = named(&[&site.name, &repository.to_string().to_lowercase(), "check", &news.commit]);
        let text = self.failure_text(&handle, repository, (&delivery, news)).await;
        check_prompt(&text)?;
        self.prompt_once(&handle, prompt, Actor::system(), text, Vec::new()).await
    }

    /// What the model is told of a check that failed: what the forge says, and what its log says.
    async fn failure_text(
        &self,
        handle: &Handle,
        repository: &Repository,
        (delivery, news): (&Delivery, &CheckNews),
    ) -> String {
        let mut text = format!(
            "The check \"{}\" of the forge failed on commit {}{}. Find out why, and correct it.\n",
            news.name,
            news.commit.get(..12).unwrap_or(&news.commit),
            of_repository(delivery),
        );
        if !news.summary.trim().is_empty() {
            text.push_str(&format!("\nIt says:\n\n{}\n", prefix(news.summary.trim(), LOG_TAIL)));
        }
        let forge = self.registry.options.outbox.forges.of(&delivery.remote);
        let log = match (forge, &news.job) {
            (Some((forge, _)), Some(job)) => forge.log(repository, job).await,
            _ => Ok(None),
        };
        match log {
            Ok(Some(log)) => text.push_str(&told_by(&log)),
            Ok(None) => text.push_str("\nIts log cannot be read.\n"),
            Err(refusal) => text.push_str(&format!("\nIts log cannot be read: {refusal}\n")),
        }
        crate::outbox::redacted(handle.context(), text).await
    }

    /// Queues a prompt unless the log has it.
    async fn prompt_once(
        &self,
        handle: &Handle,
        prompt: PromptId,
        actor: Actor,
        text: String,
        replies: Vec<Reply>,
    ) -> Result<Came, Problem> {
        let session = handle.recorder().session();
        // Between the look and the append nothing of the same may come.
        let _one_at_a_time = self.registry.hooking.lock().await;
        if self.has_prompt(session, prompt).await? {
            let what = "it is a prompt already".to_owned();
            return Ok(Came::Settled(HookTaken { taken: false, what, session: Some(session) }));
        }
        check_prompt(&text)?;
        let asked = Asked { text, images: Vec::new(), now: false, replies };
        handle.prompt(prompt, actor, asked).await?;
        Ok(Came::Settled(taken("it is a prompt now", session)))
    }
}

/// Which of several repositories something is of, in words.
fn of_repository(delivery: &Delivery) -> String {
    delivery.repository.as_ref().map(|name| format!(" of {name}")).unwrap_or_default()
}

/// An id that follows from what it names.
fn named(parts: &[&str]) -> PromptId {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update(part.as_bytes());
        sum.update([0]);
    }
    let sum: [u8; 32] = sum.finalize().into();
    let mut first = [0; 16];
    first.copy_from_slice(&sum[..16]);
    PromptId::from_u128(u128::from_be_bytes(first))
}

/// What a log says: its findings, and its end.
fn told_by(log: &str) -> String {
    let plain: String = log.lines().map(|line| format!("{}\n", unstamped(line))).collect();
    let report = checks::parse("auto", &plain).unwrap_or_default();
    let mut findings: Vec<String> = Vec::new();
    for diagnostic in &report.diagnostics {
        let file = diagnostic.file.as_deref().unwrap_or("?");
        let line = diagnostic.line.map(|line| format!(":{line}")).unwrap_or_default();
        findings.push(format!("- {file}{line}: {}", diagnostic.message.lines().next().unwrap_or_default()));
    }
    for test in report.tests.iter().filter(|test| test.status == protocol::TestStatus::Failed) {
        findings.push(format!("- {}: {}", test.name, test.message.lines().next().unwrap_or_default()));
    }
    let mut text = String::new();
    if !findings.is_empty() {
        let more = findings.len().saturating_sub(FINDINGS);
        findings.truncate(FINDINGS);
        text.push_str(&format!("\nIn its log is found:\n{}\n", findings.join("\n")));
        if more > 0 {
            text.push_str(&format!("- and {more} more\n"));
        }
    }
    let plain = plain.trim_end();
    let mut from = plain.len().saturating_sub(LOG_TAIL);
    while !plain.is_char_boundary(from) {
        from += 1;
    }
    text.push_str(&format!(
        "\nThe log ends with:\n\n```text\n{}\n```\n",
        plain[from..].replace("```", "` ` `")
    ));
    text
}

/// A line without the time that GitHub puts before it.
fn unstamped(line: &str) -> &str {
    let is_time = |word: &str| {
        word.len() >= 20
            && word.ends_with('Z')
            && word.as_bytes().get(10) == Some(&b'T')
            && word.parse::<Timestamp>().is_ok()
    };
    line.split_once(' ').filter(|(word, _)| is_time(word)).map_or(line, |(_, rest)| rest)
}

/// What never matters here, however often it is told.
fn nothing(what: &str) -> Came {
    Came::Settled(HookTaken { taken: false, what: what.to_owned(), session: None })
}

fn unknown() -> HookTaken {
    HookTaken { taken: false, what: "no session has this pull request".to_owned(), session: None }
}

fn taken(what: &str, session: SessionId) -> HookTaken {
    HookTaken { taken: true, what: what.to_owned(), session: Some(session) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_log_says_is_found_behind_its_times() {
        let log = "2026-11-18T10:00:00.1234567Z src/a.py:3: error: bad thing\n2026-11-18T10:00:01.0000000Z ```end\n";
        let text = told_by(log);
        assert!(!text.contains("2026-11-18") && text.contains("` ` `end"), "{text}");
        assert_eq!(unstamped("2026 is a year"), "2026 is a year");
    }

    #[test]
    fn the_same_thing_has_the_same_name() {
        assert_eq!(named(&["a", "b"]), named(&["a", "b"]));
        assert_ne!(named(&["a", "bc"]), named(&["ab", "c"]));
    }
}
