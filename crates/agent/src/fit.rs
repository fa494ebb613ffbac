//! Whether a request fits its model's window, and what is to be given up when it does not. It knows how far the last attempt
//! went, so that each one gives up more than the one before it, and it learns when a model says that it can read less.

use protocol::Usage;
use protocol::chat::{Message, Part, Request, Stop};
use protocol::event::CompactionLevel;

use crate::compaction::{OF_PROMPT, maskable};
use crate::plateau::{Plateau, Seen};
use crate::window::{Meter, Window, messages_bytes, part_bytes, request_bytes};

/// Overflows in a row after which the turn fails.
const OVERFLOWS: u32 = 4;
/// Tokens for a thousand bytes below which a rate is doubted once a server has cut conversations.
const LOW_RATE: u64 = 200;
/// Bytes of the manual of models that work in rounds, about.
const MANUAL: u64 = 1000;
/// Limits of answers are multiples of this.
const ROUND: u64 = 128;
/// Tokens that are masked at once at most, so that a provider's cache is thrown away rarely.
const BATCH: u64 = 20_000;

/// What the turn's prompt may have of the room: as much as leaves room for the work at all.
fn prompt_share(room: u64) -> u64 {
    room / (OF_PROMPT + 1) * OF_PROMPT
}

/// How requests fit.
#[derive(Debug, Clone)]
pub(crate) struct Fit {
    window: Window,
    /// Bytes of the prompts in force, which are sent each time.
    prompt: u64,
    meter: Meter,
    /// Where the server may cut conversations in silence.
    plateau: Option<Plateau>,
    /// Bytes of the request that was sent last, and of its instructions and tools.
    sent: u64,
    fixed: u64,
    /// How far the attempts to make this request shorter went.
    tried: Option<CompactionLevel>,
    /// What must be done because the model said so.
    forced: Option<CompactionLevel>,
    overflows: u32,
    /// Tokens at which an answer was last cut off that was not long.
    cut_at: Option<u64>,
    /// Answers in a row in which the window came to its end.
    fills: u32,
}

impl Fit {
    pub(crate) fn new(window: Window, cuts_in_silence: bool) -> Self {
        let (meter, plateau) = (Meter::default(), cuts_in_silence.then(Plateau::default));
        let (prompt, sent, fixed) = (0, 0, 0);
        let (tried, forced, cut_at) = (None, None, None);
        Self { window, prompt, meter, plateau, sent, fixed, tried, forced, overflows: 0, cut_at, fills: 0 }
    }

    /// The prompts in force have so many bytes.
    pub(crate) fn with_prompt(&mut self, bytes: u64) {
        self.prompt = bytes;
    }

    /// Most bytes of prompts that are told whole beside this request without its conversation.
    pub(crate) fn prompt_bytes(&self, request: &Request) -> usize {
        let bytes = self.meter.bytes(prompt_share(self.whole_room(request)));
        usize::try_from(bytes).unwrap_or(usize::MAX)
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
        let room = self.round_bytes(system);
        let task = usize::try_from(self.prompt).unwrap_or(usize::MAX).min(self.task_bytes(system));
        // The turns before are told beside what happened last.
        let told = self.last_round_bytes(system) / 4 * 5;
        room.saturating_sub(task + told).min(room / 2).min(48 * 1024)
    }

    /// Most bytes of the task that a round can show. Without the files the model could do nothing.
    pub(crate) fn task_bytes(&self, system: &str) -> usize {
        self.round_bytes(system) / 8 * 5
    }

    /// Bytes of what happened last that a round shows.
    pub(crate) fn last_round_bytes(&self, system: &str) -> usize {
        (self.round_bytes(system) / 5).min(16 * 1024)
    }

    /// Bytes of what a round is told beside its instructions.
    fn round_bytes(&self, system: &str) -> usize {
        let room = self.meter.bytes(self.window.request()).saturating_sub(system.len() as u64 + MANUAL);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Why a task cannot be shown whole in a round; None where it can.
    pub(crate) fn long_task(&self, task: &str, system: &str) -> Option<String> {
        let most = self.task_bytes(system);
        let (has, may) = (self.meter.rated(task.len() as u64), self.meter.rated(most as u64));
        (task.len() > most).then(|| {
            format!(
                "the prompt has about {has} tokens, and the model can read {may} of one beside its instructions and the files (its context has {}): shorten it by about {} tokens, put what is long into a file of the repository, or choose a model with a larger context",
                self.window.context,
                has.saturating_sub(may).max(1)
            )
        })
    }

    /// What people are told of a prompt that is longer than a context can have it; None where it is not.
    pub(crate) fn long_prompt(&self, prompt: &str, request: &Request) -> Option<String> {
        let (has, may) = (self.meter.rated(self.prompt), prompt_share(self.whole_room(request)));
        let begins: String = prompt.trim().chars().take(40).collect();
        (has > may).then(|| {
            format!(
                "the prompt that begins with {begins:?} has about {has} tokens, and there is room for {may} of one beside the instructions and the work, so its middle is left out; the model can read that with its tools, and the log keeps all of it. Shorten the prompt, put what is long into a file of the repository, or choose a model with a larger context"
            )
        })
    }

    /// Why a request is too long that cannot be made shorter.
    pub(crate) fn hopeless(&self, request: &Request) -> String {
        let (has, may) = (self.meter.tokens(request_bytes(request)), self.window.request());
        format!(
            "the instructions and the prompt alone have about {has} tokens, and the model can read {may} beside its answer: shorten them by about {} tokens, or choose a model with a larger context",
            has.saturating_sub(may).max(1)
        )
    }

    /// Nothing but the prompt is there to be given up, so the attempt goes as far as it can.
    pub(crate) fn begin_afresh(&mut self) -> CompactionLevel {
        self.tried = Some(CompactionLevel::Fresh);
        CompactionLevel::Fresh
    }

    /// Remembers what is sent.
    pub(crate) fn sent(&mut self, request: &Request) {
        self.sent = request_bytes(request);
        self.fixed = self.sent.saturating_sub(messages_bytes(&request.messages));
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

    /// The model could not read what was sent, and may have said how much it reads. False when there is nothing more to try.
    pub(crate) fn overflowed(&mut self, takes: Option<u64>) -> bool {
        self.overflows += 1;
        // It was longer than the meter said, so what that learned is too little.
        self.meter.doubt();
        let sent = self.meter.tokens(self.sent).saturating_add(self.window.answer);
        let known = self.window.context.min(sent);
        // Who says that it takes more than was sent counts differently, so what is sent has to become less all the same. But
        // no window is so small that there is no work in it.
        let least = self.meter.rated(self.fixed).saturating_mul(2).min(known);
        let context = takes.filter(|takes| *takes < known).unwrap_or((known * 9 / 10).max(least));
        self.window = Window::new(context, self.window.answer);
        self.forced = Some(match self.overflows {
            1 => CompactionLevel::Masked,
            2 => CompactionLevel::Summarised,
            _ => CompactionLevel::Fresh,
        });
        self.overflows <= OVERFLOWS
    }

    /// Whether an answer came to the end of the window.
    pub(crate) fn is_full(&mut self, stop: Stop, usage: &Usage) -> bool {
        let full = match stop {
            Stop::Window => true,
            Stop::Length => self.was_cut_by_window(usage),
            Stop::End | Stop::Tools | Stop::Refusal => false,
        };
        self.fills = if full { self.fills + 1 } else { 0 };
        full
    }

    /// Whether an answer that was cut off came to the end of the window rather than to that of an answer: far less was written
    /// than could be, and it ended where the window is known to end or where another one was cut off. Once may be a whim. A
    /// server with a lower limit for answers has a round one.
    fn was_cut_by_window(&mut self, usage: &Usage) -> bool {
        let wrote = usage.output.saturating_add(usage.reasoning);
        let short = wrote > 0 && wrote < self.window.answer * 4 / 5;
        if !short || wrote.is_multiple_of(ROUND) || usage.prompt() <= wrote {
            return false;
        }
        let reads = usage.total();
        let again = self.cut_at.replace(reads).is_some_and(|before| before.abs_diff(reads) <= before / 64);
        again || reads >= self.window.context / 10 * 9
    }

    /// The window came to its end in an answer. What people should know of it, if something.
    pub(crate) fn filled(&mut self, usage: &Usage) -> Option<String> {
        self.forced = Some(if self.fills > 1 { CompactionLevel::Fresh } else { CompactionLevel::Summarised });
        let (reads, known) = (usage.total(), self.window.context);
        // Who reports less than the instructions have does not report what it reads.
        if reads >= known || reads < self.meter.rated(self.fixed) {
            return None;
        }
        self.window = Window::new(reads, self.window.answer);
        Some(format!(
            "the model's context was full with {reads} tokens, and {known} were expected, so less is sent from here on; start its server with a larger one, or set context of the model in slipway.toml to what it reads"
        ))
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
    /// stays, so what is given up is measured by the rest; but it may have no more than its share.
    fn room(&self, request: &Request) -> u64 {
        let room = self.whole_room(request);
        room - self.meter.rated(self.prompt).min(prompt_share(room))
    }

    /// The same with the prompt.
    fn whole_room(&self, request: &Request) -> u64 {
        let fixed = request_bytes(request).saturating_sub(messages_bytes(&request.messages));
        self.window.request().saturating_sub(self.meter.rated(fixed))
    }
}
