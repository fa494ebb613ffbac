//! The client: sends one request and reads the answer as it streams. It follows no redirect, which could carry the key
//! away, and uses no proxy for this machine's own addresses.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use protocol::Usage;
use protocol::chat::{Completion, Message, Part, Request, Stop};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, Response, Url, redirect};

use crate::body::{Body, Trouble};
use crate::complaint::Complaint;
use crate::convert;
use crate::error::{Class, Error, excerpt};
use crate::hints;
use crate::images;
use crate::key::Key;
use crate::meter::{Meter, TOKEN, estimated, request_tokens, with_answer};
use crate::model::{Model, is_loopback};
use crate::prepare::{Prepared, completion_as_text, delta_as_text, prepare};
use crate::provider::Provider;
use crate::quirks::Quirks;
use crate::veil::Veil;
use crate::wire::{self, Fault, Fold, Progress, Sink};

/// The most bytes of one answer; more than any model writes, and less than would hurt.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;

/// The most bytes read of the body of a failure.
const COMPLAINT_LIMIT: usize = 64 * 1024;

/// How long to wait for the usage after the answer itself is whole.
const SETTLED_WAIT: Duration = Duration::from_secs(5);

/// How long to wait for the end of the body after the end of the answer, which usually comes with it.
const DRAIN_WAIT: Duration = Duration::from_millis(100);

/// The least tokens of an answer that are worth a call.
const LEAST_ANSWER: u32 = 512;

/// The most signatures and images that are remembered as refused by one server; they are of a few conversations.
const REFUSED_LIMIT: usize = 4096;

/// A piece of the answer while it streams.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A call begins or grows; its arguments are not whole yet.
    Call {
        /// The call's number in this answer.
        index: usize,
        /// The tool's name, once.
        tool: Option<String>,
        /// More of the arguments.
        arguments: String,
    },
    /// What the call has used so far, as its server tells. The last one counts, and nobody reads it.
    Usage(Usage),
    /// The server took the request, which has about so many tokens: from now on it is paid for. Nobody reads it.
    Accepted {
        /// Tokens of the request.
        tokens: u64,
    },
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What the model said.
    pub completion: Completion,
    /// Until the first piece of the answer came.
    pub first_token: Duration,
    /// Until the last piece came.
    pub duration: Duration,
    /// Whether it came as a stream.
    pub streamed: bool,
    /// Whether the server told what the call used; it is estimated otherwise.
    pub usage_told: bool,
    /// What the call cost in dollars, where the server tells.
    pub cost_usd: Option<f64>,
    /// What had to be left out or written differently, and what was learned about the server, for people.
    pub notes: Vec<String>,
}

/// How long to wait. A model may think for long as long as it shows life, so the two limits are far apart.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte.
    pub idle: Duration,
    /// For the whole answer, also if the server shows life.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            total: Duration::from_secs(3600),
        }
    }
}

/// What a server taught us.
#[derive(Debug, Clone, Default)]
struct Learned {
    quirks: Option<Quirks>,
    /// Signatures and images that it would not take.
    refused: HashSet<u64>,
    /// Most tokens of an answer, thoughts included, where a key may send only so many.
    most: Option<u32>,
    /// Whether its API is below the version that the configured address lacks.
    versioned: bool,
}

/// A call that was accepted.
struct Opened {
    /// The answer to come, or what the server says of one that it could not read.
    response: Result<Response, Complaint>,
    answer_is_call: bool,
    notes: Vec<String>,
    /// What the request was written for.
    quirks: Quirks,
    /// Bytes of the request.
    sent: u64,
}

/// Calls models. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    /// For this machine's own addresses.
    direct: reqwest::Client,
    /// For all others, through the system's proxy if it has one.
    outward: reqwest::Client,
    timeouts: Timeouts,
    /// What servers turned out not to understand, so that only their first call pays for it.
    learned: Arc<Mutex<HashMap<String, Learned>>>,
}

impl Client {
    /// A client with the usual timeouts.
    pub fn new() -> Result<Self, Error> {
        Self::with_timeouts(Timeouts::default())
    }

    /// A client with other timeouts.
    pub fn with_timeouts(timeouts: Timeouts) -> Result<Self, Error> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // It fails only if another thread has just installed one, which is as good.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let builder = || {
            reqwest::Client::builder()
                .connect_timeout(timeouts.connect)
                .redirect(redirect::Policy::none())
                .user_agent(concat!("slipway/", env!("CARGO_PKG_VERSION")))
        };
        let failed = |error: reqwest::Error| {
            Error::new(
                Class::BadRequest,
                format!("The HTTP client cannot be set up: {}.", root_cause(&error)),
            )
        };
        // Local servers are called in plain text or with a certificate of their own making, and a machine without any
        // root certificates must still be able to call them.
        let direct =
            builder().no_proxy().build().or_else(|_| builder().no_proxy().tls_certs_only([]).build());
        let outward = builder().build().or_else(|error| {
            tracing::warn!(
                cause = root_cause(&error),
                "no root certificates were found, so https model servers cannot be verified; install ca-certificates"
            );
            builder().tls_certs_only([]).build()
        });
        Ok(Self {
            direct: direct.map_err(failed)?,
            outward: outward.map_err(failed)?,
            timeouts,
            learned: Arc::default(),
        })
    }

    /// One call. Pieces of the answer go to the sink as they come; after an error they are to be thrown away. Dropping
    /// the future closes the connection.
    pub async fn complete(
        &self,
        model: &Model,
        request: &Request,
        sink: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let total = model.overrides.total.unwrap_or(self.timeouts.total);
        // What is sent is what must not be shown, also where the key is another one by then.
        let model = &Model { key: model.key.as_ref().map(Key::as_it_is_now), ..model.clone() };
        let mut meter = Meter::default();
        let mut veil = Veil::over(model);
        let mut metered = |delta: Delta| {
            meter.push(&delta);
            veil.push(delta, sink);
        };
        let call = self.call(model, request, &mut metered);
        let answer = match tokio::time::timeout(total, call).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::new(
                Class::TimedOut,
                format!(
                    "The answer of the model server at {} took more than {total:?} in all. Choose a faster model, or raise \
                     timeout_s of [models.{}] in slipway.toml.",
                    model.address(),
                    model.name
                ),
            )),
        };
        veil.end(sink);
        match answer {
            Ok(mut answer) => {
                veil.cover(&mut answer.completion.parts);
                Ok(answer)
            }
            Err(error) => {
                let given_up = error.class == Class::TimedOut;
                let usage = if given_up { meter.used() } else { meter.used_by_a_failure() };
                Err(Error { usage, ..error.redact(&model.secrets()) })
            }
        }
    }

    async fn call(&self, model: &Model, request: &Request, sink: &mut Sink<'_>) -> Result<Answer, Error> {
        let started = Instant::now();
        let Opened { response, answer_is_call, mut notes, quirks, sent } = self.open(model, request).await?;
        tracing::debug!(model = model.name, elapsed = ?started.elapsed(), "the model server accepted the call");
        let mut first_token = None;
        let mut timed = |delta: Delta| {
            match delta {
                // It must not count either where the answer never becomes whole.
                Delta::Usage(usage) if is_absurd(&usage, model, sent) => return,
                Delta::Usage(_) | Delta::Accepted { .. } => return sink(delta),
                Delta::Text(_) | Delta::Reasoning(_) | Delta::Call { .. } => {}
            }
            first_token.get_or_insert_with(|| started.elapsed());
            let delta = if answer_is_call { delta_as_text(delta) } else { Some(delta) };
            if let Some(delta) = delta {
                sink(delta);
            }
        };
        let mut fold = wire::fold(model, request, quirks);
        let mut body = Body::default();
        let most = longest(model, request.max_output_tokens);
        let read = match response {
            Ok(response) => {
                timed(Delta::Accepted { tokens: request_tokens(request, sent) });
                self.read(model, response, &mut body, fold.as_mut(), &mut timed, most).await
            }
            Err(complaint) => Err(Trouble::Fault(Fault::server(complaint))),
        };
        let streamed = matches!(body, Body::Events { .. });
        let (mut cost_usd, mut broken) = (None, false);
        let mut finish = |fold: Box<dyn Fold>| {
            cost_usd = fold.cost_usd().filter(|_| model.provider == Provider::OpenRouter);
            fold.finish().map_err(Trouble::Fault)
        };
        let read = read.and_then(|ended| match ended {
            Ended::Body => {
                let ended = body.end(fold.as_mut(), &mut timed);
                timed(Delta::Usage(fold.so_far().1));
                ended.map(|()| Ended::Whole)
            }
            ended => Ok(ended),
        });
        let completion = match read {
            // It may have come in one piece, or ended by itself at last: that makes it no better.
            Ok(Ended::Whole) if !fold.so_far().0.only_repeats() => finish(fold),
            Ok(Ended::Endless | Ended::Whole | Ended::Body) => {
                notes.push("the answer said the same again and again, so it was cut off".to_owned());
                Ok(cut_off(fold.as_mut(), sent))
            }
            Ok(Ended::TooLong) => {
                notes.push("the server let an answer grow beyond its limit, so it was cut off".to_owned());
                Ok(cut_off(fold.as_mut(), sent))
            }
            // The model's own mistake, which it is told of as of any other call that cannot be read.
            Err(Trouble::Fault(Fault::Server(complaint)))
                if let Some(said) = complaint.broken_call().filter(|_| !request.tools.is_empty()) =>
            {
                broken = true;
                Ok(with_broken_call(fold.as_mut(), &said, &mut timed))
            }
            Err(trouble) => Err(trouble),
        };
        let mut completion = completion.map_err(|trouble| self.explain(trouble, model))?;
        let absurd = is_absurd(&completion.usage, model, sent);
        let usage_told = completion.usage.prompt() > 0 && !absurd;
        if !usage_told {
            let told = if absurd { Usage::default() } else { completion.usage };
            completion.usage = estimated(told, request, sent, &completion.parts);
            if absurd {
                notes.push(
                    "the server tells that a call used more than can be, so that is estimated".to_owned(),
                );
            } else if !broken {
                notes.push("the server does not tell what a call used, so that is estimated".to_owned());
            }
        }
        convert::sign(&mut completion.parts, &model.maker());
        let completion = if answer_is_call { completion_as_text(completion) } else { completion };
        let duration = started.elapsed();
        let first_token = first_token.unwrap_or(duration);
        Ok(Answer { completion, first_token, duration, streamed, usage_told, cost_usd, notes })
    }

    /// Sends the request, at most once more for each thing that the server turns out not to understand.
    async fn open(&self, model: &Model, request: &Request) -> Result<Opened, Error> {
        let key = model.key_text()?;
        let headers = model.request_headers(key.as_deref().map(String::as_str))?;
        let first = Quirks::of(model);
        let maker = model.maker();
        let mut learned = self.known(&maker);
        let lacking = model.lacking_version();
        let mut versioned = learned.versioned;
        let mut as_configured = None;
        let mut notes = Vec::new();
        loop {
            let url = model.endpoint_below(lacking.filter(|_| versioned))?;
            let quirks = learned.quirks.unwrap_or(first);
            let brief = learned.most.map(|most| model.at_most(most));
            let model = brief.as_ref().unwrap_or(model);
            let Prepared { request: prepared, notes: changed, answer_is_call } =
                prepare(model, request, quirks, &learned.refused);
            let body = wire::text(&wire::body(model, &prepared, quirks));
            let sent = body.len() as u64;
            let response = self.send(model, url, headers.clone(), body).await?;
            let status = response.status();
            if status.is_success() {
                if versioned != learned.versioned {
                    // Only now it is known that this is the place.
                    learned.versioned = versioned;
                    self.remember(&maker, &learned);
                }
                notes.extend(changed);
                return Ok(Opened { response: Ok(response), answer_is_call, notes, quirks, sent });
            }
            let hints = hints::from_headers(response.headers());
            let body = self.complaint(model, response).await;
            let complaint = Complaint::from_response(status.as_u16(), hints, &body);
            if lacking.is_some() && !versioned && complaint.knows_no_such_place() {
                (versioned, as_configured) = (true, Some(complaint));
                continue;
            }
            // What is not there either says less than what was asked for.
            let complaint = match as_configured.take() {
                Some(first) if complaint.knows_no_such_place() => first,
                Some(_) | None => complaint,
            };
            let foreign = signatures(request, &maker).filter(|mark| !learned.refused.contains(mark));
            let foreign: Vec<u64> = foreign.collect();
            let seen = images::latest(request, &learned.refused);
            let taught = if complaint.refuses_signatures() && !foreign.is_empty() {
                learned.refused.extend(foreign);
                "the server does not take earlier reasoning of this conversation, so it was left out"
            } else if quirks.images && complaint.refuses_images() && !seen.is_empty() {
                learned.refused.extend(seen);
                "the server does not take an image of this conversation, so it is told of in words"
            } else if let Some(most) = shorter_answer(&complaint, model, prepared.max_output_tokens) {
                learned.most = Some(most);
                "the key may send few tokens in a minute, and the room for an answer counts among them, so answers are shorter"
            } else if let Some(most) = longest_taken(&complaint, model, prepared.max_output_tokens) {
                learned.most = Some(most);
                "the server takes no answers that are so long, so they are shorter"
            } else if let Some((adapted, taught)) = quirks.adapt(first, &complaint) {
                learned.quirks = Some(adapted);
                taught
            } else if complaint.broken_call().is_some() {
                return Ok(Opened { response: Err(complaint), answer_is_call, notes, quirks, sent });
            } else {
                let thinking = model.thinking(prepared.max_output_tokens);
                let takes = complaint.takes().map(|tokens| tokens.saturating_sub(thinking.into()));
                return Err(Error { takes, ..complaint.into_error(model) });
            };
            tracing::warn!(model = model.name, "{taught}");
            notes.push(taught.to_owned());
            self.remember(&maker, &learned);
        }
    }

    /// The version of the API that a server turned out to have its API below, where the configured address lacks it.
    pub(crate) fn version(&self, model: &Model) -> Option<&'static str> {
        model.lacking_version().filter(|_| self.known(&model.maker()).versioned)
    }

    fn known(&self, maker: &str) -> Learned {
        let known = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(maker).cloned().unwrap_or_default()
    }

    fn remember(&self, maker: &str, learned: &Learned) {
        let mut known = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(maker.to_owned()).or_default();
        entry.quirks = learned.quirks.or(entry.quirks);
        entry.most = learned.most.or(entry.most);
        entry.versioned |= learned.versioned;
        if entry.refused.len() > REFUSED_LIMIT {
            entry.refused.clear();
        }
        entry.refused.extend(&learned.refused);
    }

    async fn send(
        &self,
        model: &Model,
        url: Url,
        headers: HeaderMap,
        body: String,
    ) -> Result<Response, Error> {
        let request = self.request(Method::POST, url);
        let request = request.header(CONTENT_TYPE, "application/json").headers(headers).body(body);
        match tokio::time::timeout(self.idle(model), request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unreachable(model, &error)),
            Err(_) => Err(self.explain(Trouble::Silent, model)),
        }
    }

    /// The beginning of a failure's body; what cannot be read is left out, as the status alone already tells much.
    async fn complaint(&self, model: &Model, mut response: Response) -> String {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(piece)) = response.chunk().await {
                body.extend_from_slice(&piece);
                if body.len() > COMPLAINT_LIMIT {
                    break;
                }
            }
        };
        if tokio::time::timeout(self.idle(model).min(Duration::from_secs(10)), read).await.is_err() {
            tracing::debug!("the model server did not finish the body of its refusal");
        }
        body.truncate(COMPLAINT_LIMIT);
        String::from_utf8_lossy(&body).into_owned()
    }

    /// A request, through the proxy if there is one that can know the address.
    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let client = if is_loopback(&url) { &self.direct } else { &self.outward };
        client.request(method, url)
    }

    /// How long a model's server may send nothing.
    pub fn idle(&self, model: &Model) -> Duration {
        model.overrides.idle.unwrap_or(self.timeouts.idle)
    }

    /// Reads the answer to its end, streamed or whole; one of more than `most` bytes is not read any further.
    async fn read(
        &self,
        model: &Model,
        mut response: Response,
        body: &mut Body,
        fold: &mut dyn Fold,
        sink: &mut Sink<'_>,
        most: u64,
    ) -> Result<Ended, Trouble> {
        let idle = self.idle(model);
        let mut progress = Progress::Open;
        let mut settled = None;
        // Whether more of the answer came after its end, as from servers that call each piece the last one.
        let mut early = false;
        let mut received = 0;
        let mut told = Usage::default();
        loop {
            let now = tokio::time::Instant::now();
            let until = match progress {
                Progress::Open => now + idle,
                Progress::Settled if early => now + idle,
                // Signs of life do not put it off.
                Progress::Settled => *settled.get_or_insert(now + SETTLED_WAIT.min(idle)),
                Progress::Closed => {
                    drain(response).await;
                    return Ok(Ended::Whole);
                }
            };
            let piece = match tokio::time::timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(piece))) => piece,
                Ok(Ok(None)) => return Ok(Ended::Body),
                // The answer itself is whole; only its usage is lost.
                Ok(Err(_)) if progress == Progress::Settled && !early => return Ok(Ended::Whole),
                Err(_) if progress == Progress::Settled => return Ok(Ended::Whole),
                Ok(Err(error)) => {
                    tracing::debug!(cause = root_cause(&error), "the connection to the model server broke");
                    return Err(Trouble::Fault(Fault::BrokeOff));
                }
                Err(_) => return Err(Trouble::Silent),
            };
            received += piece.len();
            if received > ANSWER_LIMIT {
                return Err(Trouble::Fault(Fault::malformed("does not end")));
            }
            let before = fold.so_far().0.bytes();
            let pushed = body.push(&piece, fold, sink);
            let (parts, usage) = fold.so_far();
            early |= progress == Progress::Settled && parts.bytes() > before;
            // Whoever gives the call up must know it by then.
            if usage != std::mem::replace(&mut told, usage) {
                sink(Delta::Usage(usage));
            }
            progress = match pushed {
                // Whatever failed after it, the answer is whole.
                Err(_) if progress == Progress::Settled => return Ok(Ended::Whole),
                pushed => pushed?.max(progress),
            };
            let open = progress == Progress::Open || early && progress == Progress::Settled;
            if open && parts.is_endless() {
                return Ok(Ended::Endless);
            }
            if open && parts.bytes() > most {
                return Ok(Ended::TooLong);
            }
        }
    }

    fn explain(&self, trouble: Trouble, model: &Model) -> Error {
        match trouble {
            Trouble::Silent => Error::new(
                Class::TimedOut,
                format!(
                    "The model server at {} sent nothing for {:?}. Check that it is not stuck, give it more time with \
                     idle_timeout_s of [models.{}] in slipway.toml, or choose a faster model.",
                    model.address(),
                    self.idle(model),
                    model.name
                ),
            ),
            Trouble::Fault(Fault::Server(complaint)) => complaint.into_error(model),
            Trouble::Fault(Fault::BrokeOff) => Error::new(
                Class::BadResponse,
                format!(
                    "The answer broke off before its end. Try again; if it happens often, look into the log of the model \
                     server at {}.",
                    model.address()
                ),
            ),
            Trouble::Fault(Fault::Malformed(text)) => Error::new(
                Class::BadResponse,
                format!(
                    "The answer of the model server at {} {}. Check that base_url of [models.{}] in slipway.toml is the \
                     address of a model API, and the server's own log.",
                    model.address(),
                    text.trim_end_matches('.'),
                    model.name
                ),
            ),
        }
    }
}

/// How reading an answer ended.
enum Ended {
    /// The answer said that it is whole.
    Whole,
    /// The body ended, which may say the same.
    Body,
    /// It says the same again and again, and is not read any further.
    Endless,
    /// It is much longer than was asked for, and is not read any further.
    TooLong,
}

/// Whether a server says that a call of so many bytes used more than any can: a token for each byte, what images and its own
/// additions may cost, and far more than the model reads and writes.
fn is_absurd(usage: &Usage, model: &Model, sent: u64) -> bool {
    let most = sent.saturating_add(model.profile().context.saturating_mul(4)).saturating_add(10_000_000);
    usage.prompt() > most || usage.output.saturating_add(usage.reasoning) > most
}

/// The most bytes of an answer of so many tokens and of what is thought before it. Few tokens have more than a dozen.
fn longest(model: &Model, answer: u32) -> u64 {
    64 * 1024 + 16 * (u64::from(answer) + u64::from(model.thinking(answer)))
}

/// The answer that leaves room for a request, where the key may send few tokens and the room for the answer counts among
/// them; none when the answer is not what takes the room.
fn shorter_answer(complaint: &Complaint, model: &Model, answer: u32) -> Option<u32> {
    let most = u32::try_from(complaint.allowed_at_once()? / 4).unwrap_or(u32::MAX).max(LEAST_ANSWER);
    (most < answer.saturating_add(model.thinking(answer))).then_some(most)
}

/// The longest answer that the server takes, where it says so and was asked for a longer one.
fn longest_taken(complaint: &Complaint, model: &Model, answer: u32) -> Option<u32> {
    complaint.longest_answer().filter(|most| *most < answer.saturating_add(model.thinking(answer)))
}

/// What came of an answer whose server could not read the call in it, with that call.
fn with_broken_call(fold: &mut dyn Fold, said: &str, sink: &mut Sink<'_>) -> Completion {
    let (parts, usage) = fold.so_far();
    let mut parts = std::mem::take(parts);
    parts.broken_call("the model server could not read this call", said, sink);
    Completion { parts: parts.finish(), stop: Stop::Tools, usage }
}

/// What an answer was until it was cut off. Servers tell what a call used with its end, so what they did not tell is
/// estimated: it is paid for all the same.
fn cut_off(fold: &mut dyn Fold, sent: u64) -> Completion {
    let (parts, mut usage) = fold.so_far();
    let parts = std::mem::take(parts);
    if usage.prompt() == 0 {
        usage.input = sent.div_ceil(TOKEN);
        usage.estimated += usage.input;
    }
    let usage = with_answer(usage, parts.bytes());
    Completion { parts: parts.finish(), stop: Stop::Length, usage }
}

/// The signatures of earlier reasoning that this maker is sent, by their marks.
fn signatures<'a>(request: &'a Request, maker: &'a str) -> impl Iterator<Item = u64> + 'a {
    let parts = request.messages.iter().flat_map(|message| match message {
        Message::Assistant { parts } => parts.as_slice(),
        Message::User { .. } | Message::Tools { .. } => &[],
    });
    parts.filter_map(move |part| match part {
        Part::Reasoning { signature: Some(signature), .. } => {
            convert::signature_for(signature, maker).map(convert::mark)
        }
        Part::Reasoning { .. } | Part::Text { .. } | Part::Call(_) => None,
    })
}

/// Reads the end of a body that has nothing more to say: only then can the connection serve the next call.
async fn drain(mut response: Response) {
    let end = async { while let Ok(Some(_)) = response.chunk().await {} };
    if tokio::time::timeout(DRAIN_WAIT, end).await.is_err() {
        tracing::debug!("the model server holds the connection after its answer, so it is closed");
    }
}

/// An error for a request that was not answered at all.
fn unreachable(model: &Model, error: &reqwest::Error) -> Error {
    if error.is_builder() {
        return Error::new(
            Class::BadRequest,
            format!(
                "The request cannot be made: {}. Check [models.{}] in slipway.toml.",
                root_cause(error),
                model.name
            ),
        );
    }
    let address = model.address();
    let cause = root_cause(error);
    let advice = match (unlike_https(&cause), &model.base_url) {
        (Some(Unlike::NoTls), Some(_)) => format!(
            "it does not speak https there. Write http:// in base_url of [models.{}] in slipway.toml, or the port where it does.",
            model.name
        ),
        (Some(Unlike::Untrusted), Some(_)) => format!(
            "this machine does not trust its certificate. Add the authority that made it to this machine's certificates, or \
             name the server in base_url of [models.{}] in slipway.toml as its certificate does.",
            model.name
        ),
        (None, Some(_)) => {
            format!("is it running? Check base_url of [models.{}] in slipway.toml.", model.name)
        }
        (_, None) => "check this machine's network and proxy.".to_owned(),
    };
    Error::new(
        Class::Unreachable,
        format!("Cannot reach the model server at {address} ({}): {advice}", excerpt(&cause)),
    )
}

/// What of a server's answer is not as https has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unlike {
    /// It speaks something else, most likely plain HTTP.
    NoTls,
    /// Its certificate is not one for this address that is trusted here.
    Untrusted,
}

/// The same from the words of the TLS library, which are for programmers.
fn unlike_https(cause: &str) -> Option<Unlike> {
    match cause {
        cause if cause.contains("InvalidContentType") => Some(Unlike::NoTls),
        cause if cause.contains("invalid peer certificate") => Some(Unlike::Untrusted),
        _ => None,
    }
}

/// The innermost cause, which is the one that says something.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
