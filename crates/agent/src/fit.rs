//! Whether a request fits its model's window, and what is to be given up when it does not. It knows how far the last attempt
//! went, so that each one gives up more than the one before it, and it learns when a model says that it can read less.

use protocol::Usage;
use protocol::chat::{Message, Part, Request};
use protocol::event::CompactionLevel;

use crate::compaction::maskable;
use crate::plateau::{Plateau, Seen};
use crate::window::{Meter, Window, messages_bytes, part_bytes, request_bytes};

/// Overflows in a row after which the turn fails.
const OVERFLOWS: u32 = 4;
/// Tokens for a thousand bytes below which a rate is doubted once a server has cut conversations.
const LOW_RATE: u64 = 200;
/// Tokens that are masked at once at most, so that a provider's cache is thrown away rarely.
const BATCH: u64 = 20_000;

/// How requests fit.
#[derive(Debug, Clone)]
pub(crate) struct Fit {
    window: Window,
    /// Bytes of the turn's prompt, which is sent each time.
    prompt: u64,
    meter: Meter,
    /// Where the server may cut conversations in silence.
    plateau: Option<Plateau>,
    /// Bytes of the request that was sent last.
    sent: u64,
    /// How far the attempts to make this request shorter went.
    tried: Option<CompactionLevel>,
    /// What must be done because the model said so.
    forced: Option<CompactionLevel>,
    overflows: u32,
}

impl Fit {
    pub(crate) fn new(window: Window, prompt: u64, cuts_in_silence: bool) -> Self {
        let (meter, plateau) = (Meter::default(), cuts_in_silence.then(Plateau::default));
        Self { window, prompt, meter, plateau, sent: 0, tried: None, forced: None, overflows: 0 }
    }

    /// Most tokens of an answer.
    pub(crate) fn answer(&self) -> u32 {
        u32::try_from(self.window.answer).unwrap_or(u32::MAX)
    }

    /// Tokens that the model can read, as far as is known.
    pub(crate) fn context(&self) -> u64 {
        self.window.context
    }

    /// Bytes of files that a round shows: half of what there is, less where the task is long.
    pub(crate) fn files_bytes(&self, system: &str) -> usize {
        let room = self.meter.bytes(self.window.request()).saturating_sub(system.len() as u64);
        let task = usize::try_from(self.prompt).unwrap_or(usize::MAX).min(self.task_bytes());
        let half = usize::try_from(room / 2).unwrap_or(usize::MAX);
        half.saturating_sub(task.saturating_sub(self.last_round_bytes())).min(48 * 1024)
    }

    /// Most bytes of the task that a round can show.
    pub(crate) fn task_bytes(&self) -> usize {
        usize::try_from(self.meter.bytes(self.window.request()) / 2).unwrap_or(usize::MAX)
    }

    /// Bytes of what happened last that a round shows.
    pub(crate) fn last_round_bytes(&self) -> usize {
        usize::try_from(self.meter.bytes(self.window.request()) / 5).unwrap_or(usize::MAX).min(16 * 1024)
    }

    /// Remembers what is sent.
    pub(crate) fn sent(&mut self, request: &Request) {
        self.sent = request_bytes(request);
        self.tried = None;
    }

    /// Learns from the answer to what was sent. What people should know of it, if something.
    pub(crate) fn answered(&mut self, parts: &[Part], usage: &Usage) -> Option<String> {
        self.overflows = 0;
        let seen =
            self.plateau.as_mut().map_or(Seen::Whole, |plateau| plateau.saw(self.sent, usage.prompt()));
        match seen {
            Seen::Whole => {
                let bytes = self.sent + parts.iter().map(part_bytes).sum::<u64>();
                self.meter.measure(bytes, usage.total());
                None
            }
            Seen::Doubtful => None,
            Seen::Cut(tokens) => Some(self.cut(tokens)),
        }
    }

    /// The server reads so many tokens and drops the rest without a word.
    fn cut(&mut self, tokens: u64) -> String {
        let context =
            if tokens < self.window.context { tokens } else { self.window.context.saturating_mul(9) / 10 };
        self.window = Window::new(context, self.window.answer);
        self.plateau = Some(Plateau::default());
        if self.meter.rated(1000) < LOW_RATE {
            self.meter = Meter::default();
        }
        format!(
            "the server reads only {tokens} tokens and drops the rest of the conversation without a word, so less is sent from here on; start the server with a larger context (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), or set context of the model in slipway.toml to what it reads"
        )
    }

    /// Learns from a request with its answer that were counted before.
    pub(crate) fn measure(&mut self, request: &Request, parts: &[Part], tokens: u64) {
        self.meter.measure(request_bytes(request) + parts.iter().map(part_bytes).sum::<u64>(), tokens);
    }

    /// The model could not read what was sent. False when there is nothing more to try.
    pub(crate) fn overflowed(&mut self) -> bool {
        self.overflows += 1;
        let sent = self.meter.tokens(self.sent).saturating_add(self.window.answer);
        self.window = Window::new(self.window.context.min(sent) * 9 / 10, self.window.answer);
        self.forced = Some(match self.overflows {
            1 => CompactionLevel::Masked,
            2 => CompactionLevel::Summarised,
            _ => CompactionLevel::Fresh,
        });
        self.overflows <= OVERFLOWS
    }

    /// The attempt that was made last gave nothing, so the next one goes further.
    pub(crate) fn could_not(&mut self) {
        self.forced = match self.tried {
            Some(CompactionLevel::Masked) if self.overflows > 0 => Some(CompactionLevel::Summarised),
            Some(CompactionLevel::Summarised) => Some(CompactionLevel::Fresh),
            Some(CompactionLevel::Masked | CompactionLevel::Fresh) | None => None,
        };
    }

    /// How much must be given up before this request is sent; None when it fits well enough.
    pub(crate) fn due(&mut self, request: &Request, messages: &[Message]) -> Option<CompactionLevel> {
        let level = self.forced.take().or_else(|| self.needed(request, messages));
        self.tried = level.or(self.tried);
        level
    }

    fn needed(&self, request: &Request, messages: &[Message]) -> Option<CompactionLevel> {
        let tokens = self.meter.tokens(request_bytes(request));
        let limit = self.window.request();
        let fixed = limit.saturating_sub(self.room(request));
        let share = |percent: u64| fixed + self.room(request) * percent / 100;
        match self.tried {
            None if tokens > share(60) => {
                let saved = self.meter.rated(maskable(messages, self.meter.bytes(self.room(request))));
                let batch = (self.room(request) * 2 / 5).clamp(1, BATCH);
                if saved >= batch || (tokens > share(80) && tokens.saturating_sub(saved) <= share(60)) {
                    Some(CompactionLevel::Masked)
                } else {
                    (tokens > share(80)).then_some(CompactionLevel::Summarised)
                }
            }
            Some(CompactionLevel::Masked) if tokens > share(80) => Some(CompactionLevel::Summarised),
            Some(CompactionLevel::Summarised) if tokens > limit => Some(CompactionLevel::Fresh),
            None | Some(_) => None,
        }
    }

    /// Whether this request is too long although nothing more can be given up.
    pub(crate) fn is_hopeless(&self, request: &Request) -> bool {
        self.tried == Some(CompactionLevel::Fresh)
            && self.meter.tokens(request_bytes(request)) > self.window.request()
    }

    /// Tokens of a request, and the bytes that its conversation may have beside the turn's prompt.
    pub(crate) fn measures(&self, request: &Request) -> (u64, u64) {
        let tokens = self.meter.tokens(request_bytes(request));
        (tokens, self.meter.bytes(self.room(request)))
    }

    /// Tokens that the conversation may have: the window without instructions, tools and the turn's prompt. The prompt
    /// stays, so what is given up is measured by the rest; but it may have no more than half of the room.
    fn room(&self, request: &Request) -> u64 {
        let fixed = request_bytes(request).saturating_sub(messages_bytes(&request.messages));
        let room = self.window.request().saturating_sub(self.meter.rated(fixed));
        room - self.meter.rated(self.prompt).min(room / 2)
    }
}
