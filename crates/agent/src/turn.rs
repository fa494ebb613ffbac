//! The machine. A turn waits for exactly one kind of input at a time (its [`State`]); what comes late or out of order is
//! ignored, and it finishes exactly once whatever happens.

mod asked;
mod gate;

use std::collections::BTreeSet;

use protocol::chat::{Call, Completion, Message, Part, Request, Stop, ToolResult, ToolSpec, UNREADABLE_CALL};
use protocol::event::CompactionLevel;
use protocol::{Check, EditFormat, McpTool, Mistake, Outcome};

use crate::answer::{self, calls_of};
use crate::drone;
use crate::effect::Effect;
use crate::fit::Fit;
use crate::history::{self, CANCELLED, INTERRUPTED, Past, STOPPED_HERE};
use crate::input::{Input, Limits, Profile, Setup};
use crate::loose::beside_thoughts;
use crate::mode::{self, FileText, Mode, View};
use crate::notes;
use crate::repetition::{Repetition, Verdict};
use crate::rounds::Rounds;
use crate::salvage;
use crate::tools::{self, Offers};

use self::asked::{all_tools, fit, system};

/// How often in a row an answer may be cut off, how often empty, and how often none that can be read, before the turn fails.
const NUDGES: u32 = 3;
/// How many steps in a row may consist of unusable calls.
const REJECTED_STEPS: u32 = 5;
/// How many of the last steps may have had something that could not be used, and how many steps that is judged by.
const FAULTY_STEPS: u32 = 20;
const JUDGED_STEPS: u32 = 40;
/// Most characters of the model's words in a reason.
const QUOTED: usize = 300;

/// What the turn waits for.
#[derive(Debug, Clone)]
enum State {
    /// `Begin`.
    New,
    /// The model's answer.
    Calling,
    /// The results of the last message's calls.
    Running(Batch),
    /// The gate's result.
    Verifying,
    /// A shorter context.
    Compacting,
    /// A look at the files.
    Surveying,
    /// Nothing: it finished.
    Over,
}

/// The calls of one step.
#[derive(Debug, Clone)]
struct Batch {
    calls: Vec<Call>,
    /// One place for each call, in the same order.
    results: Vec<Option<ToolResult>>,
    /// Whether each call was run rather than rejected.
    run: Vec<bool>,
}

/// One turn.
#[derive(Debug, Clone)]
pub struct Turn {
    instructions: String,
    system: String,
    tools: Vec<ToolSpec>,
    offers: Offers,
    /// Tools of MCP servers.
    mcp: Vec<McpTool>,
    messages: Vec<Message>,
    checks: Vec<Check>,
    limits: Limits,
    state: State,
    steps: u32,
    cut_off: u32,
    empty: u32,
    unread: u32,
    rejected: u32,
    /// A bit for each of the last steps, the latest lowest: whether something in it could not be used.
    faults: u64,
    repetition: Repetition,
    rounds: Rounds,
    mode: &'static dyn Mode,
    edit_format: EditFormat,
    /// The prompts in force, the turn's own last.
    prompts: Vec<String>,
    /// The first of them that the model is told whole, and the task that it is told so.
    first_told: usize,
    task: String,
    /// What came before this turn, for a model that is not sent the conversation.
    earlier: Vec<Past>,
    fit: Fit,
    /// Tools that the model does not have in its next step.
    withheld: Vec<String>,
    /// The files as the model is shown them in this round.
    files: Option<Vec<FileText>>,
    /// The repository's instructions for directories of these files.
    guides: Vec<String>,
    /// What is to be read after the results of the calls that run.
    noticed: Vec<String>,
    /// What the model is told after them of the rest of its answer, and whether that was cut off.
    left_out: Option<String>,
    half: bool,
    /// Rounds in a row that changed nothing.
    unchanged: u32,
    /// Files that this turn wrote with tools.
    wrote: BTreeSet<String>,
    /// Files of the last answer that were not written.
    unwritten: Vec<String>,
    /// How often the model was told that not everything was written.
    incomplete: u32,
    /// Whether the checks run on what was there before the first round.
    untouched: bool,
    /// What the model's server said when the last request was too long.
    overflow: Option<String>,
}

impl Turn {
    /// A turn that has not begun.
    pub fn new(setup: Setup) -> Self {
        let profile = setup.profile;
        let mode = mode::of(profile.tool_mode);
        let mut turn = Self {
            system: system(mode, &setup.instructions, &setup.checks, setup.offers),
            instructions: setup.instructions,
            tools: all_tools(mode, profile.edit_format, setup.offers, &setup.mcp),
            offers: setup.offers,
            mcp: setup.mcp,
            messages: setup.messages,
            checks: setup.checks,
            fit: fit(profile, &setup.limits),
            limits: setup.limits,
            state: State::New,
            steps: 0,
            cut_off: 0,
            empty: 0,
            unread: 0,
            rejected: 0,
            faults: 0,
            repetition: Repetition::new(mode.patience()),
            rounds: Rounds::default(),
            mode,
            edit_format: profile.edit_format,
            prompts: setup.unfinished.into_iter().chain([setup.task]).collect(),
            first_told: 0,
            task: String::new(),
            earlier: setup.earlier,
            withheld: Vec::new(),
            files: None,
            guides: Vec::new(),
            noticed: Vec::new(),
            left_out: None,
            half: false,
            unchanged: 0,
            wrote: BTreeSet::new(),
            unwritten: Vec::new(),
            incomplete: 0,
            untouched: false,
            overflow: None,
        };
        turn.take_in_prompts();
        if let Some((counted, tokens)) = setup.measured.filter(|_| !mode.in_rounds()) {
            let counted = counted.min(turn.messages.len());
            let request = turn.mode.request(&View { messages: &turn.messages[..counted], ..turn.view() });
            turn.fit.measure(&request, &[], tokens);
        }
        turn
    }

    /// The same turn with steps taken before a restart.
    pub fn after_steps(mut self, steps: u32) -> Self {
        self.steps = steps;
        self
    }

    /// Steps so far: model answers that were used.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Tokens that the model can read, as far as is known by now.
    pub fn context(&self) -> u64 {
        self.fit.context()
    }

    /// What is to be done: the turn's prompt, after those of the turns before it that were not done.
    pub fn task(&self) -> String {
        joined(&self.prompts)
    }

    /// The conversation so far. While tools run, their results are not in it yet.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The answer in the form in which it is recorded and replayed: calls that were written as text are calls, and every
    /// call has an id of its own. Record what this gives: the turn does the same to the answer that it is handed, and doing
    /// it twice changes nothing.
    pub fn read(&self, completion: Completion) -> Completion {
        self.mode.read(&self.view(), completion)
    }

    fn view(&self) -> View<'_> {
        View {
            system: &self.system,
            tools: &self.tools,
            messages: &self.messages,
            task: &self.task,
            prompts: &self.prompts[self.first_told..],
            files: self.files.as_deref().unwrap_or_default(),
            guides: &self.guides,
            earlier: &self.earlier,
            round: self.steps,
            task_room: self.fit.task_bytes(&self.system),
            room: self.fit.last_round_bytes(&self.system),
            max_output_tokens: self.fit.answer(),
        }
    }

    /// Takes what happened and gives what is to be done, in order.
    pub fn handle(&mut self, input: Input) -> Vec<Effect> {
        match (&self.state, input) {
            (State::Over, _) => Vec::new(),
            (_, Input::Stop) => self.finish(Outcome::Cancelled, "a person stopped it".to_owned()),
            (_, Input::ModelFailed { message }) => self.finish(Outcome::Failed, message),
            (State::New, Input::Begin) => self.begin(),
            (State::Calling, Input::Answered(completion)) => self.answered(completion),
            (State::Running(_), Input::ToolEnded { call_id, text, is_error, images }) => {
                self.tool_ended(ToolResult { call_id, text, is_error, images })
            }
            (State::Verifying, Input::Verified(verification)) => self.verified(&verification),
            (State::Calling, Input::Overflowed { message, takes }) => self.overflowed(message, takes),
            (State::Calling | State::Compacting, Input::ModelChanged { profile }) => {
                self.change_model(profile)
            }
            (State::Compacting, Input::Compacted { messages }) => self.compacted(messages),
            (State::Surveying, Input::Surveyed { files, guides }) => {
                (self.files, self.guides) = (Some(files), guides);
                self.proceed()
            }
            (_, Input::Noticed { text }) => self.noticed(text),
            (_, Input::ToolsListed { tools }) => {
                self.mcp = tools;
                self.tools = all_tools(self.mode, self.edit_format, self.offers, &self.mcp);
                Vec::new()
            }
            (
                _,
                Input::Begin
                | Input::Answered(_)
                | Input::Overflowed { .. }
                | Input::ModelChanged { .. }
                | Input::Compacted { .. }
                | Input::Surveyed { .. }
                | Input::ToolEnded { .. }
                | Input::Verified(_),
            ) => Vec::new(),
        }
    }

    fn begin(&mut self) -> Vec<Effect> {
        history::answer_open_calls(&mut self.messages, &[], INTERRUPTED);
        // Notes that were given come after what is to be answered.
        match self.messages.iter().rev().find(|message| !notes::is_given(message)) {
            None => self.finish(Outcome::Failed, "there is no prompt to work on".to_owned()),
            // A model that works in rounds runs little by itself, so it is told at first what fails.
            Some(Message::User { text, .. })
                if self.mode.in_rounds()
                    && !self.checks.is_empty()
                    && self.prompts.last().is_some_and(|prompt| prompt == text) =>
            {
                self.untouched = true;
                self.verify()
            }
            Some(Message::User { .. } | Message::Tools { .. }) => self.call_model(None),
            Some(Message::Assistant { parts }) => {
                if parts.iter().filter_map(answer::text).any(|text| text.ends_with(STOPPED_HERE)) {
                    return self.call_model(Some(
                        "Your last answer was interrupted because the platform restarted. Go on from there."
                            .to_owned(),
                    ));
                }
                self.verify()
            }
        }
    }

    fn answered(&mut self, completion: Completion) -> Vec<Effect> {
        let Completion { parts, stop, usage } = self.read(completion);
        self.steps += 1;
        self.faults <<= 1;
        self.unwritten.clear();
        self.overflow = None;
        let note = self.fit.answered(&parts, &usage);
        let endless = is_endless(&parts);
        let full = !endless && self.fit.is_full(stop, &usage);
        let message = answer::message(parts);
        let calls: Vec<Call> = message.iter().flat_map(calls_of).cloned().collect();
        let said = message.as_ref().map(words).unwrap_or_default();
        let is_cut = matches!(stop, Stop::Length | Stop::Window);
        self.cut_off = if calls.is_empty() && is_cut { self.cut_off + 1 } else { 0 };
        // Thoughts alone say nothing, also where a server leaves them in the text.
        let nothing = calls.is_empty() && beside_thoughts(&said).is_none();
        self.empty = if nothing && !is_cut { self.empty + 1 } else { 0 };
        self.unread = if calls.is_empty() { self.unread } else { 0 };
        self.messages.extend(message);
        let mistake = match stop {
            Stop::Length if endless => Some(Mistake::EndlessAnswer),
            Stop::End | Stop::Tools if self.empty > 0 => Some(Mistake::EmptyAnswer),
            Stop::End | Stop::Tools | Stop::Length | Stop::Window | Stop::Refusal => None,
        };
        let note = note.or(full.then(|| self.fit.filled(&usage)).flatten());
        let mut effects: Vec<Effect> = note.map(|text| Effect::Note { text }).into_iter().collect();
        effects.extend(mistake.map(|mistake| self.count(mistake)));
        let left_out = self.mode.left_out(&self.view(), &said, stop);
        (self.left_out, self.half) = (left_out.filter(|_| !calls.is_empty()), is_cut);
        self.files = None;
        // What came first was used, so the answer is not one that could not be.
        let broken = self.left_out.is_some() && !is_cut;
        effects.extend(broken.then_some(Effect::Mistake { mistake: Mistake::BrokenArguments }));
        effects.extend(match stop {
            Stop::Refusal => self.refused(calls, &said),
            Stop::End | Stop::Tools | Stop::Length | Stop::Window if !calls.is_empty() => {
                self.run(calls, stop)
            }
            Stop::Length | Stop::Window if full && self.cut_off > NUDGES => self.finish(
                Outcome::Failed,
                format!(
                    "the model's answers do not come to an end, because its context is full with {} tokens: start its server with a larger one, or use another model",
                    self.fit.context()
                ),
            ),
            Stop::Length | Stop::Window if full => self.call_model(Some(
                "Your answer was broken off because your context was full. Older parts of it are left out from here on. Go on where the answer stopped, in smaller pieces."
                    .to_owned(),
            )),
            Stop::Length if endless && self.cut_off > NUDGES => self.finish(
                Outcome::Failed,
                "the model's answers say the same again and again: choose another model, or another tool_mode for this one".to_owned(),
            ),
            Stop::Length | Stop::Window if self.cut_off > NUDGES => self.finish(
                Outcome::Failed,
                format!(
                    "the model's answers were cut off at the limit of {} tokens again and again; raise max_output_tokens of [agent] (or max_output of the model) in slipway.toml, or use another model",
                    self.fit.answer()
                ),
            ),
            Stop::Length if endless => self.call_model(Some(
                "Your answer said the same again and again until it was cut off. Stop that, and take one next step."
                    .to_owned(),
            )),
            Stop::Length | Stop::Window => self.call_model(Some(
                "Your answer was cut off at the token limit. Continue where it stopped, in smaller pieces: one tool call at a time, and large files in several edits."
                    .to_owned(),
            )),
            Stop::End | Stop::Tools if self.empty > NUDGES => {
                self.finish(Outcome::Failed, "the model gave empty answers: try again, or choose another model".to_owned())
            }
            Stop::End | Stop::Tools if self.empty > 0 => {
                let end = self.mode.ends_with().map(|call| format!("call {call}"));
                let end = end.unwrap_or_else(|| "say what you did".to_owned());
                self.call_model(Some(format!(
                    "Your answer was empty. Go on with the work by calling a tool, or, if it is finished, {end}."
                )))
            }
            Stop::End | Stop::Tools => self.said(&said, stop),
        });
        effects
    }

    /// Words without a call end the work, unless they cannot have been meant so.
    fn said(&mut self, said: &str, stop: Stop) -> Vec<Effect> {
        let Some(tell) = self.mode.unread(said, stop) else {
            self.unread = 0;
            return self.verify();
        };
        self.unread += 1;
        let again = self.unread > NUDGES;
        // Who can call in the provider's own way, and was told, only shows it.
        let shown = (!said.contains('{') || salvage::seems_to_run(said)) && !salvage::seems_to_call(said)
            || answer::called_natively(&self.messages) && self.mode.is_native();
        if again && shown {
            return self.verify();
        }
        let mut effects = vec![self.count(Mistake::BrokenArguments)];
        effects.extend(if again {
            let reason = "the model writes calls that cannot be read: choose another model, or another tool_mode for this one";
            self.finish(Outcome::Failed, reason.to_owned())
        } else {
            self.call_model(Some(tell.to_owned()))
        });
        effects
    }

    /// A refused answer may end anywhere, so its calls are not run either.
    fn refused(&mut self, calls: Vec<Call>, said: &str) -> Vec<Effect> {
        let text = "not run: the answer was broken off because the model declined";
        let mut effects: Vec<Effect> = calls.into_iter().map(|call| reject(call, text.to_owned())).collect();
        history::answer_open_calls(&mut self.messages, &[], text);
        effects.extend(self.finish(Outcome::Escalated, refusal(said)));
        effects
    }

    /// Starts what can be run and answers the rest.
    fn run(&mut self, calls: Vec<Call>, stop: Stop) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut results = Vec::new();
        let mut problem = None;
        let withheld = std::mem::take(&mut self.withheld);
        for (index, call) in calls.iter().enumerate() {
            // Who works in rounds has nothing else, and may use it for something new.
            let same = !self.mode.in_rounds() || self.repetition.knows(call);
            let parsed = if same && withheld.contains(&call.tool) {
                self.repetition.saw_again(call);
                let text = format!(
                    "{} is withheld for this step, because it was repeated without a new result. Use another tool, or finish.",
                    call.tool
                );
                Err((Some(Mistake::RepeatedCalls), text))
            } else {
                let parsed = match self.mode.refuses(call) {
                    Some(why) => Err(why),
                    None => tools::parse_with(&self.mcp, self.edit_format, &call.tool, &call.arguments),
                };
                let known = self.tools.iter().any(|tool| tool.name == call.tool);
                parsed.map_err(|text| (unusable(call, known), text))
            };
            match parsed {
                Ok(tool) => {
                    effects.push(Effect::RunTool { call_id: call.id.clone(), tool });
                    results.push(None);
                }
                Err((mistake, mut text)) => {
                    if let (Some(Mistake::UnknownTool), Some(end)) = (mistake, self.mode.ends_with()) {
                        text.push_str(&format!(" To end the work, call {end}."));
                    }
                    effects.extend(mistake.map(|mistake| self.count(mistake)));
                    if matches!(stop, Stop::Length | Stop::Window) && index + 1 == calls.len() {
                        text.push_str(
                            "\nThe answer was cut off at the token limit in this call. Send less at once.",
                        );
                    }
                    problem = Some(format!("{}: {text}", call.tool));
                    results.push(Some(ToolResult {
                        call_id: call.id.clone(),
                        text: text.clone(),
                        is_error: true,
                        images: Vec::new(),
                    }));
                    effects.push(reject(call.clone(), text));
                }
            }
        }
        let run: Vec<bool> = results.iter().map(Option::is_none).collect();
        let any = run.contains(&true);
        self.rejected = if any { 0 } else { self.rejected + 1 };
        self.state = State::Running(Batch { calls, results, run });
        if any {
            return effects;
        }
        match problem {
            Some(problem) if self.rejected > REJECTED_STEPS => effects.extend(self.finish(
                Outcome::Failed,
                format!("the model's tool calls cannot be used: choose another model; the last error was: {problem}"),
            )),
            Some(_) | None => effects.extend(self.all_ended()),
        }
        effects
    }

    fn tool_ended(&mut self, result: ToolResult) -> Vec<Effect> {
        let State::Running(batch) = &mut self.state else { return Vec::new() };
        let open = batch
            .calls
            .iter()
            .zip(&mut batch.results)
            .find(|(call, place)| call.id == result.call_id && place.is_none());
        // A result that nobody waits for: a second one, or one of an earlier step.
        let Some((_, place)) = open else { return Vec::new() };
        *place = Some(result);
        if batch.results.iter().all(Option::is_some) { self.all_ended() } else { Vec::new() }
    }

    fn all_ended(&mut self) -> Vec<Effect> {
        let State::Running(batch) = std::mem::replace(&mut self.state, State::Calling) else {
            return Vec::new();
        };
        let results: Vec<ToolResult> = batch.results.into_iter().flatten().collect();
        for ((call, result), run) in batch.calls.iter().zip(&results).zip(batch.run) {
            if run {
                self.repetition.saw(call, result);
            }
        }
        let writes = batch.calls.iter().zip(&results).filter(|(call, _)| tools::changes_files(&call.tool));
        let (refused, written): (Vec<_>, Vec<_>) = writes.partition(|(_, result)| result.is_error);
        self.unwritten = refused.into_iter().map(|(call, _)| path_of(call)).collect();
        let wrote_before = self.wrote.len();
        self.wrote.extend(written.iter().map(|(call, _)| path_of(call)));
        // Who gets one more file written gets on.
        self.incomplete = if self.wrote.len() > wrote_before { 0 } else { self.incomplete };
        let wrote = !written.is_empty();
        self.messages.push(Message::Tools { results });
        self.messages.extend(std::mem::take(&mut self.noticed).into_iter().map(Message::user));
        let left_out = self.left_out.take();
        match self.repetition.verdict() {
            Verdict::GiveUp(reason) => {
                let mut effects = vec![self.count(Mistake::RepeatedCalls)];
                effects.extend(self.finish(Outcome::Escalated, reason));
                effects
            }
            Verdict::Nudge { mut text, tools } => {
                text.insert_str(0, &left_out.map(|told| told + "\n\n").unwrap_or_default());
                text.push_str(&match self.mode.in_rounds() {
                    true => " The same again is not done in the next step.".to_owned(),
                    false => format!(" For the next step you have no {}.", tools.join(" and no ")),
                });
                self.withhold(tools);
                let mut effects = vec![self.count(Mistake::RepeatedCalls)];
                effects.extend(self.call_model(Some(text)));
                effects
            }
            // A model that works in rounds gives all it has in one answer, so it is checked at once.
            Verdict::GoOn if wrote && self.mode.in_rounds() => {
                self.left_out = left_out;
                self.verify()
            }
            Verdict::GoOn => self.call_model(left_out),
        }
    }

    fn verify(&mut self) -> Vec<Effect> {
        self.state = State::Verifying;
        vec![Effect::Verify]
    }

    /// Says something first, if there is something to say, and calls the model.
    fn call_model(&mut self, tell: Option<String>) -> Vec<Effect> {
        if (self.faults << (u64::BITS - JUDGED_STEPS)).count_ones() >= FAULTY_STEPS {
            let reason = format!(
                "{FAULTY_STEPS} of the model's last {JUDGED_STEPS} answers could not be used: choose another model, or another tool_mode for this one"
            );
            return self.finish(Outcome::Escalated, reason);
        }
        let mut effects = Vec::new();
        if let Some(text) = tell {
            self.messages.push(Message::user(text.clone()));
            effects.push(Effect::Tell { text });
        }
        effects.extend(self.proceed());
        effects
    }

    /// Calls the model once the request fits its window.
    fn proceed(&mut self) -> Vec<Effect> {
        self.take_in_prompts();
        if self.mode.in_rounds()
            && let Some(ours) = self.fit.long_task(self.task.trim(), &self.system)
        {
            let reason = self.overflow.take().unwrap_or(ours);
            return self.too_long(reason);
        }
        if self.mode.in_rounds() && self.files.is_none() {
            self.state = State::Surveying;
            let hints: Vec<&str> = self.messages.iter().rev().take(3).filter_map(said_to_model).collect();
            let hints = format!("{}\n{}", self.task, hints.join("\n"));
            return vec![Effect::Survey { hints, room: self.fit.files_bytes(&self.system) }];
        }
        let mut request = self.mode.request(&self.view());
        // A model that is not offered what it repeats cannot repeat it. What a provider has cached begins with the tools and is
        // not used for this one step; the next one finds it again.
        if !self.withheld.is_empty() {
            let tools: Vec<ToolSpec> =
                self.tools.iter().filter(|tool| !self.withheld.contains(&tool.name)).cloned().collect();
            request = self.mode.request(&View { tools: &tools, ..self.view() });
        }
        if !self.mode.in_rounds() {
            match self.fit.due(&request, &self.messages) {
                Some(level) => return self.give_up(level, &request),
                None if self.fit.is_hopeless(&request) => {
                    let ours = self.fit.hopeless(&request);
                    let reason = self.overflow.take().unwrap_or(ours);
                    return self.too_long(reason);
                }
                None => {}
            }
        }
        self.state = State::Calling;
        self.fit.sent(&request);
        vec![Effect::CallModel(request)]
    }

    /// Makes the context shorter. A prompt that is longer than it can be loses its middle by that, and people are told at
    /// once; where there is nothing else, nothing is summed up first.
    fn give_up(&mut self, level: CompactionLevel, request: &Request) -> Vec<Effect> {
        let prompt = self.prompts.last().map(String::as_str).unwrap_or_default();
        let is_prompt = |message: &Message| matches!(message, Message::User { text, .. } if text == prompt);
        let whole = self.messages.iter().any(is_prompt);
        let note = self.fit.long_prompt(prompt, request);
        let Some(text) = note.filter(|_| whole && level != CompactionLevel::Masked) else {
            return self.compact(level, request);
        };
        let alone = self.messages.iter().all(is_prompt);
        let level = if alone { self.fit.begin_afresh() } else { level };
        let mut effects = vec![Effect::Note { text }];
        effects.extend(self.compact(level, request));
        effects
    }

    fn compact(&mut self, level: CompactionLevel, request: &Request) -> Vec<Effect> {
        self.state = State::Compacting;
        let (tokens, room) = self.fit.measures(request);
        vec![Effect::Compact { level, tokens, room, prompts: self.in_force() }]
    }

    /// How many of the last prompts are in force and told whole: the turn's own, and those before it as far as they fit beside it.
    fn in_force(&self) -> usize {
        let most = match self.mode.in_rounds() {
            true => self.fit.task_bytes(&self.system),
            false => self.fit.prompt_bytes(&self.mode.request(&View { messages: &[], ..self.view() })),
        };
        let mut size = 0;
        let fits = self.prompts.iter().rev().take_while(|prompt| {
            size += prompt.len() + THEN.len();
            size <= most
        });
        fits.count().max(1)
    }

    /// Makes the task of the prompts in force.
    fn take_in_prompts(&mut self) {
        self.first_told = self.prompts.len().saturating_sub(self.in_force());
        self.task = joined(&self.prompts[self.first_told..]);
        self.fit.with_prompt(self.task.len() as u64);
    }

    fn compacted(&mut self, messages: Option<Vec<Message>>) -> Vec<Effect> {
        match messages {
            Some(messages) => self.messages = messages,
            None => self.fit.could_not(),
        }
        self.proceed()
    }

    /// The model says that the request is too long: its window is smaller than was thought.
    fn overflowed(&mut self, message: String, takes: Option<u64>) -> Vec<Effect> {
        self.files = None;
        if !self.fit.overflowed(takes) {
            return self.too_long(message);
        }
        self.overflow = Some(message);
        self.proceed()
    }

    /// Nothing makes the request short enough for the model; another one may read more.
    fn too_long(&mut self, reason: String) -> Vec<Effect> {
        self.state = State::Calling;
        vec![Effect::ChangeModel { reason }]
    }

    /// Another model goes on. It is asked in its own way, what is longer than it can read is made shorter first, and it does
    /// not answer for what the one before it did wrong.
    fn change_model(&mut self, profile: Profile) -> Vec<Effect> {
        self.mode = mode::of(profile.tool_mode);
        self.system = system(self.mode, &self.instructions, &self.checks, self.offers);
        self.tools = all_tools(self.mode, profile.edit_format, self.offers, &self.mcp);
        self.edit_format = profile.edit_format;
        self.fit = fit(profile, &self.limits);
        self.repetition = Repetition::new(self.mode.patience());
        (self.cut_off, self.empty, self.rejected, self.unchanged) = (0, 0, 0, 0);
        (self.faults, self.incomplete, self.unread) = (0, 0, 0);
        (self.files, self.overflow) = (None, None);
        self.withheld.clear();
        self.proceed()
    }

    /// Takes in what was recorded beside the turn. While tools run it stands after their results, as in the log.
    fn noticed(&mut self, text: String) -> Vec<Effect> {
        match self.state {
            State::Running(_) => self.noticed.push(text),
            _ => self.messages.push(Message::user(text)),
        }
        Vec::new()
    }

    /// Takes tools away for the next step, unless nothing would be left.
    fn withhold(&mut self, tools: Vec<String>) {
        if self.tools.iter().any(|tool| !tools.contains(&tool.name)) {
            self.withheld = tools;
        }
    }

    /// Something that could not be used, counted for the log and for this turn.
    fn count(&mut self, mistake: Mistake) -> Effect {
        self.faults |= 1;
        Effect::Mistake { mistake }
    }

    /// Ends the turn. Calls that have no result get one, so that the conversation can go on in the next turn.
    fn finish(&mut self, outcome: Outcome, reason: String) -> Vec<Effect> {
        let results = match std::mem::replace(&mut self.state, State::Over) {
            State::Running(batch) => batch.results,
            State::New
            | State::Calling
            | State::Verifying
            | State::Compacting
            | State::Surveying
            | State::Over => Vec::new(),
        };
        let broken_off = if outcome == Outcome::Cancelled { CANCELLED } else { INTERRUPTED };
        history::answer_open_calls(&mut self.messages, &results, broken_off);
        vec![Effect::Finish { outcome, reason: Some(reason) }]
    }
}

/// What stands between the prompt of a turn that was not done and the next one.
const THEN: &str = "\n\nAnd then, before that was done:\n";

fn joined(prompts: &[String]) -> String {
    prompts.join(THEN)
}

fn reject(call: Call, text: String) -> Effect {
    Effect::RejectTool { call_id: call.id, tool: call.tool, arguments: call.arguments, text }
}

/// All text of a message.
fn words(message: &Message) -> String {
    match message {
        Message::Assistant { parts } => parts.iter().filter_map(answer::text).collect::<Vec<_>>().join("\n"),
        Message::User { .. } | Message::Tools { .. } => String::new(),
    }
}

/// What a message tells the model.
fn said_to_model(message: &Message) -> Option<&str> {
    match message {
        Message::User { text, .. } => Some(text),
        Message::Assistant { .. } | Message::Tools { .. } => None,
    }
}

/// Whether something in an answer was repeated until it was cut off.
fn is_endless(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text { text } | Part::Reasoning { text, .. } => drone::is_shortened(text),
        Part::Call(call) => drone::is_shortened(&call.arguments),
    })
}

/// What is wrong with a call that cannot be run. One that repeats itself was counted with its answer.
fn unusable(call: &Call, known: bool) -> Option<Mistake> {
    let known = known || tools::exists(&call.tool) || call.tool == UNREADABLE_CALL;
    match (known, drone::is_shortened(&call.arguments)) {
        (_, true) => None,
        (false, false) => Some(Mistake::UnknownTool),
        (true, false) => Some(Mistake::BrokenArguments),
    }
}

/// The file that a call is about; the tool where it names none.
fn path_of(call: &Call) -> String {
    let path = tools::recorded_input(&call.arguments);
    path.get("path").and_then(|path| path.as_str()).unwrap_or(&call.tool).to_owned()
}

/// Why the model declined; its server's reason stands at the end of what it said.
fn refusal(said: &str) -> String {
    let said: Vec<char> = said.trim().chars().collect();
    let quoted: String = match said.len() {
        0..=QUOTED => said.iter().collect(),
        all => said[..QUOTED / 2].iter().chain(&['…']).chain(&said[all - QUOTED / 2..]).collect(),
    };
    if quoted.is_empty() { "the model declined".to_owned() } else { format!("the model declined: {quoted}") }
}
