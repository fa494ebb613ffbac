//! One turn, from its start to its one finish: performs what `agent::Turn` asks for and records every step before the
//! next one. Everything it knows is in the log, so a server that comes later can go on from any point.

mod approval;
mod arrival;
mod aside;
mod budget;
pub(crate) mod catch_up;
pub(crate) mod checks;
mod choice;
mod context;
pub(crate) mod delivery;
pub(crate) mod deltas;
mod finish;
mod gate;
mod git;
mod hooks;
mod limit;
mod map;
mod mcp;
pub(crate) mod message;
mod model;
mod nearby;
mod notes;
pub(crate) mod outgoing;
pub(crate) mod output;
mod permission;
mod question;
mod remarks;
mod removals;
mod resume;
mod second_look;
mod services;
mod share;
mod skills;
mod tools;
mod verify;
pub(crate) mod weakened;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use agent::{Effect, Input, Setup, Turn};
use failpoint::Point;
use protocol::chat::{Completion, Image, Part};
use protocol::event::DeliveryState;
use protocol::item::{Output, ToolCall};
use protocol::{
    Actor, Check, Code, EventBody, Gate, Item, ItemId, ItemKind, ItemStatus, Outcome, Problem, TurnId,
};
use sandbox::Sandbox;
use tokio_util::task::AbortOnDropHandle;

use crate::Options;
use crate::exits::Exit;
use crate::failure::Failure;
use crate::kept_call;
use crate::outbox::Outside;
use crate::recorder::Recorder;
use crate::state::{Retry, TurnState, broken_off};
use crate::stop::Stop;
use crate::stopwatch::Stopwatch;
use crate::workspace::{Came, Kept, Workspace};
pub(crate) use model::{retry, usage, used_in_vain};
use permission::Permit;
use tools::{Done, ToolEnd};

/// What the model is told when it has a new sandbox in the middle of a turn.
const WORK_IS_GONE: &str = "A new one has the workspace as it was last kept, usually when this turn began; changes made \
     since then are gone, and so is what ran in the background. Look at what is there, then do them again, in a way that does not end the sandbox.";

/// What the turns of one session share.
pub(crate) struct Context {
    pub(crate) options: Arc<Options>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) workspace: Workspace,
    pub(crate) client: llm::Client,
    /// The memory.
    pub(crate) shelf: Arc<crate::notes::Shelf>,
    /// Woken when somebody changed the session.
    pub(crate) edited: tokio::sync::Notify,
    /// What people were told that models were not sent as it was said.
    pub(crate) adapted: Mutex<HashSet<String>>,
    /// How long the turn under way takes.
    pub(crate) stopwatch: Stopwatch,
    /// Whether something is being done outside.
    pub(crate) outside: Outside,
    /// The call that another server had begun, as it was kept.
    pub(crate) broken_off: Mutex<Option<kept_call::Kept>>,
    /// The MCP servers of the configuration.
    pub(crate) servers: Arc<crate::mcp::McpServers>,
    /// The connections to MCP servers in the session's sandbox.
    pub(crate) inside: crate::mcp::Inside,
    /// Who signed in at which forge.
    pub(crate) logins: Arc<crate::logins::Logins>,
}

impl Context {
    /// The turn under way, as the log has it.
    pub(crate) fn turn(&self) -> Option<TurnState> {
        self.recorder.stream().with_state(|state| state.turn().cloned())
    }

    /// Milliseconds that the turn under way has taken so far.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        let stream = self.recorder.stream();
        stream.with_state(|state| state.turn().map_or(0, |turn| self.stopwatch.read(turn)))
    }

    /// The conversation so far.
    pub(crate) async fn history(&self) -> Result<agent::history::History, store::Error> {
        self.recorder.remembered().read(&self.recorder).await
    }

    /// Records a problem for people to see.
    pub(crate) async fn raise(&self, problem: &Problem) -> Result<(), store::Error> {
        let body = EventBody::ErrorRaised {
            code: problem.code,
            message: problem.title.clone(),
            hint: problem.hint.clone(),
        };
        self.recorder.append(&Actor::system(), vec![body]).await.map(drop)
    }
}

/// How a turn came to its end.
struct End {
    outcome: Outcome,
    reason: Option<String>,
}

impl End {
    /// Somebody stopped it.
    fn stopped() -> Self {
        Self { outcome: Outcome::Cancelled, reason: Some("a person stopped it".to_owned()) }
    }
}

/// Works on the turn that the log says is under way, to its finish. Only a store that cannot be written keeps it from
/// finishing; then the turn stays as it is, to be resumed.
pub(crate) async fn run(context: Arc<Context>, stop: Stop) -> Result<(), store::Error> {
    let Some(turn) = context.turn() else { return Ok(()) };
    context.stopwatch.go_on(&turn);
    count_broken_off(&context, &turn).await?;
    let agent = Actor::agent(context.model());
    let mut runner = Runner {
        context,
        turn: turn.id,
        stop,
        agent,
        sandbox: None,
        arrival: None,
        exit: None,
        sync: None,
        checks: Vec::new(),
        calls: Vec::new(),
        passed: None,
        window: agent::Window::new(u64::MAX, 0),
        told: Mutex::default(),
        leads: Mutex::default(),
        wanted: Mutex::default(),
        ran: Mutex::default(),
        recalled: tokio::sync::OnceCell::new(),
        doubted: Mutex::default(),
        uncounted: Mutex::default(),
        weakened: Vec::new(),
        leaks_told: false,
        removals: Mutex::default(),
        sums_badly: Mutex::default(),
        task: turn.text.clone(),
        may_insist: true,
        in_rounds: false,
        models_failed: false,
        retry: turn.retry.clone(),
        map: None,
        map_wanted: false,
        map_soon: false,
        recollection: None,
        hooks: Vec::new(),
        nearby: Mutex::default(),
        mcp: mcp::Offer::default(),
    };
    if let Some(by) = &turn.stopping {
        runner.stop.give(by.clone());
    }
    // A turn that was already being delivered is not worked on again.
    if let Some(delivery) = turn.delivery.clone() {
        return runner.finish_delivery(&turn, delivery).await;
    }
    if turn.stopping.is_some() {
        return runner.finish_stopped(&turn).await;
    }
    match turn.decision.as_ref().filter(|decision| decision.gate == Gate::Delivery) {
        Some(decision) if decision.approved => return runner.deliver_approved(&turn).await,
        Some(decision) if decision.comment.is_none() => {
            return runner.finish_refused(&turn, &decision.by).await;
        }
        // What was said is in the conversation, so the work goes on; and so it does with a call.
        Some(_) | None => {}
    }
    // While it works, its time can be over, which stops what runs and is no person's stop.
    let for_work = runner.stop.child();
    let by_person = std::mem::replace(&mut runner.stop, for_work);
    let driven = Box::pin(runner.drive(&turn)).await;
    let work = std::mem::replace(&mut runner.stop, by_person);
    let out_of_time = work.is_given() && !runner.stop.is_given();
    let end = match driven {
        // The turn is left as it is: whoever decides lets it go on.
        Err(Failure::Waits) => return runner.freeze().await,
        Ok(End { outcome: Outcome::Cancelled, .. }) | Err(Failure::Stopped) if out_of_time => {
            runner.out_of_time()
        }
        Ok(end) => end,
        Err(failure) => runner.failed(failure).await?,
    };
    Box::pin(runner.finish(end)).await
}

/// Records what a call had used that another server did not see the end of.
async fn count_broken_off(context: &Context, turn: &TurnState) -> Result<(), store::Error> {
    let kept = context.broken_off.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(kept) = kept.filter(|kept| kept.is_missing(turn.id, turn.calls_in_line())) else {
        return Ok(());
    };
    let agent = Actor::agent(kept.model.clone());
    context.recorder.append(&agent, vec![kept.into_body()]).await.map(drop)
}

struct Runner {
    context: Arc<Context>,
    turn: TurnId,
    stop: Stop,
    agent: Actor,
    sandbox: Option<Arc<dyn Sandbox>>,
    /// The sandbox, as long as it is not here.
    arrival: Option<arrival::Arrival>,
    /// The sandbox's way out.
    exit: Option<Arc<Exit>>,
    /// The workspace is being brought to the tip of its branch; until then it is only read.
    sync: Option<AbortOnDropHandle<Result<Came, Failure>>>,
    checks: Vec<Check>,
    /// Calls of the last answer that have no result yet.
    calls: Vec<Item>,
    /// What passed the checks, kept already: this and nothing else is delivered when the turn is done.
    passed: Option<Kept>,
    /// What the model can read.
    window: agent::Window,
    /// What was recorded for the model and the agent does not know yet.
    told: Mutex<Vec<String>>,
    /// Where links led when it was last decided on a call whose files a policy is about.
    leads: Mutex<Vec<(String, String)>>,
    /// Hosts that were refused because a person must allow them first.
    wanted: Mutex<Vec<String>>,
    /// What the checks of this turn said last.
    ran: Mutex<checks::Ran>,
    /// Set once it was looked for what the checks said where the session began.
    recalled: tokio::sync::OnceCell<()>,
    /// Checks that ended with 0 and did not pass, as people were told.
    doubted: Mutex<BTreeSet<String>>,
    /// Checks that said more than is kept of it, so that their tests cannot be counted.
    uncounted: Mutex<BTreeSet<String>>,
    /// Where the work makes checks say less.
    weakened: Vec<protocol::Weakening>,
    /// Whether the model was told of what looks like secrets in its work.
    leaks_told: bool,
    /// What is to be done: the turn's prompt, after those that were not done before it.
    task: String,
    /// Code that texts of the model left out.
    removals: Mutex<removals::Removals>,
    /// Models that could not sum the conversation up: nobody waits for them a second time.
    sums_badly: Mutex<std::collections::BTreeSet<String>>,
    /// Whether a model that repeats itself means it.
    may_insist: bool,
    /// Whether the model works in rounds.
    in_rounds: bool,
    /// Whether no model could be used, so that what waits would fail in the same way.
    models_failed: bool,
    /// The call that another server was about to make again.
    retry: Option<Retry>,
    /// The map of the repository, on its way.
    map: Option<crate::maps::Coming>,
    /// Whether it is wanted and could not be begun yet.
    map_wanted: bool,
    /// Whether it was made before, so that it is only a moment away.
    map_soon: bool,
    /// Notes of the memory that fit the prompt, on their way.
    recollection: Option<notes::Recollection>,
    /// What is asked before calls, and shown them afterwards.
    hooks: Vec<protocol::Hook>,
    /// What the conversation has of instructions for directories.
    nearby: Mutex<agent::nearby::Given>,
    /// The tools of MCP servers.
    mcp: mcp::Offer,
}

impl Runner {
    async fn drive(&mut self, turn: &TurnState) -> Result<End, Failure> {
        if self.stop.is_given() {
            return Err(Failure::Stopped);
        }
        self.models_failed = true;
        let mut model = self.find_model()?;
        self.models_failed = false;
        let clock = self.clock_to_begin();
        // What is open was begun in the sandbox and is settled before the model is asked; and whether what was done in there is
        // still there must be known before the model says that it is finished. Else it need not wait for it.
        let Context { workspace, recorder, .. } = &*self.context;
        let settled = turn.open.is_empty() && (turn.steps() == 0 || !turn.had_sandbox);
        let settled = settled && !self.catches_up(turn);
        let known = if settled { workspace.foreseen(recorder).await } else { None };
        self.expect(turn);
        self.recollect(turn);
        let (instructions, skills_at, programs) = match known {
            Some(known) => {
                self.checks = known.checks;
                (known.instructions, known.skills_at, known.mcp)
            }
            None => {
                let saved = Box::pin(self.arrive()).await?;
                Box::pin(self.catch_up(turn)).await?;
                saved.map_or_else(Default::default, |saved| {
                    let skills_at = saved.skills_at();
                    (saved.instructions, skills_at, saved.mcp)
                })
            }
        };
        let skills = Box::pin(self.settle_skills(skills_at.as_deref())).await?;
        let instructions = skills::with_skills(instructions, &skills);
        self.know_servers(&programs);
        Box::pin(self.settle_open(turn)).await?;
        self.take_on(&model);
        Box::pin(self.offer_tools(&model)).await?;
        let mut history = self.context.history().await?;
        let recalled = self.give_notes(&history).await?;
        if self.orient(turn, &history).await? || recalled {
            history = self.context.history().await?;
        }
        // What was told until now is in there.
        drop(self.take_told());
        self.known_nearby(history.messages());
        let mut machine = Turn::new(Setup {
            offers: self.offers(),
            measured: history.measured(),
            mcp: self.mcp.tools(),
            earlier: history.earlier().to_vec(),
            unfinished: history.unfinished(),
            messages: history.into_messages(),
            instructions,
            checks: self.checks.clone(),
            limits: self.context.options.turn.clone(),
            profile: context::profile(&model, self.context.options.turn.max_output_tokens),
            task: turn.text.clone(),
        })
        .after_steps(turn.steps());
        self.task = machine.task();
        drop(clock);
        match Box::pin(self.steps(&mut machine, &mut model)).await {
            Err(Failure::Stopped) => Ok(stopped(&mut machine)),
            other => other,
        }
    }

    async fn steps(&mut self, machine: &mut Turn, model: &mut llm::Model) -> Result<End, Failure> {
        let mut effects = VecDeque::from(machine.handle(Input::Begin));
        while let Some(effect) = effects.pop_front() {
            let finishing = matches!(effect, Effect::Finish { .. });
            if self.stop.is_given() && !finishing {
                return Err(Failure::Stopped);
            }
            if let Some(end) = self.over_budget(&effect).await? {
                return Ok(end);
            }
            let clock = self.clock_for(&effect);
            if needs_sandbox(&effect) {
                // These are boxed because the stack of a thread must bear the one that is under way.
                Box::pin(self.arrive()).await?;
            }
            let input = match effect {
                Effect::CallModel(mut request) => {
                    request.cache_key = Some(self.context.recorder.session().to_string());
                    let answered = Box::pin(self.call_model(machine, model, &request)).await;
                    if matches!(answered, Err(Failure::Stopped)) && !self.stop.is_given() {
                        // It was given up because there is no sandbox; this says why.
                        self.arrive().await?;
                    }
                    Some(answered?)
                }
                Effect::Compact { level, tokens, room, prompts } => {
                    let reads = machine.context();
                    Some(Box::pin(self.compact((model, reads), level, tokens, (room, prompts))).await?)
                }
                Effect::ChangeModel { reason } => {
                    let error = llm::Error::new(llm::Class::ContextOverflow, reason);
                    Some(self.give_way(model, error).await?)
                }
                Effect::Survey { hints, room } => Some(self.survey(&hints, room).await?),
                Effect::RunTool { call_id, tool } => Some(Box::pin(self.run_tool(call_id, tool)).await?),
                Effect::RejectTool { call_id, text, .. } => {
                    let item = self.take_call(&call_id)?;
                    self.complete(broken_off(&item, ItemStatus::Failed, &text)).await?;
                    None
                }
                Effect::Mistake { mistake } => {
                    let body = EventBody::MistakeMade { turn: self.turn, mistake };
                    self.append(&Actor::system(), vec![body]).await?;
                    None
                }
                Effect::Note { text } => {
                    self.tell_adapted(model, vec![text]).await?;
                    None
                }
                Effect::Tell { text } => {
                    self.record_notice(text).await?;
                    None
                }
                Effect::Verify => Some(Input::Verified(Box::pin(self.verify()).await?)),
                Effect::Finish { outcome, reason } => return Ok(End { outcome, reason }),
            };
            drop(clock);
            self.context.warn_of_limits().await?;
            self.give_map(map::Haste::None).await?;
            self.give_late_notes().await?;
            for text in self.take_told() {
                effects.extend(machine.handle(Input::Noticed { text }));
            }
            if let Some(tools) = Box::pin(self.offer_anew()).await? {
                effects.extend(machine.handle(Input::ToolsListed { tools }));
            }
            if let Some(input) = input {
                effects.extend(machine.handle(input));
            }
        }
        Err(Problem::new(Code::Internal, "the agent asked for nothing and did not finish")
            .hint("this is a fault of slipway: report it with the session's log")
            .into())
    }

    async fn append(&self, actor: &Actor, bodies: Vec<EventBody>) -> Result<(), store::Error> {
        self.context.recorder.append(actor, bodies).await.map(drop)
    }

    async fn complete(&self, item: Item) -> Result<(), store::Error> {
        self.complete_with(None, item).await
    }

    /// The same with what came of it, in one append.
    async fn complete_with(&self, also: Option<Box<EventBody>>, item: Item) -> Result<(), store::Error> {
        let item = self.with_share(item);
        let ended = EventBody::ItemCompleted { turn: self.turn, item };
        self.append(&self.agent, also.map(|also| *also).into_iter().chain([ended]).collect()).await
    }

    async fn start(&self, item: Item) -> Result<(), store::Error> {
        self.append(&self.agent, vec![EventBody::ItemStarted { turn: self.turn, item }]).await
    }

    /// Records something for the model that the agent did not ask for; it is told of it next.
    async fn notice(&self, text: String) -> Result<(), store::Error> {
        self.record_notice(text.clone()).await?;
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Ok(())
    }

    fn take_told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn record_notice(&self, text: String) -> Result<(), store::Error> {
        let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind: ItemKind::notice(text) };
        self.append(&Actor::system(), vec![EventBody::ItemCompleted { turn: self.turn, item }]).await
    }

    fn sandbox(&self) -> Result<Arc<dyn Sandbox>, Failure> {
        self.sandbox.clone().ok_or_else(|| Failure::Lost("there is no sandbox".to_owned()))
    }

    /// The item of a call of the last answer.
    fn take_call(&mut self, call_id: &str) -> Result<Item, Failure> {
        let wanted = |item: &Item| matches!(&item.kind, ItemKind::ToolCall(call) if call.call_id == call_id);
        match self.calls.iter().position(wanted) {
            Some(place) => Ok(self.calls.remove(place)),
            None => Err(Problem::new(
                Code::Internal,
                format!("the agent answers a call {call_id} that was not made"),
            )
            .hint("this is a fault of slipway: report it with the session's log")
            .into()),
        }
    }

    /// Records an answer: its items in order, then what it used.
    async fn record_answer(
        &mut self,
        completion: &Completion,
        mut streamed: model::Streamed,
        usage: EventBody,
    ) -> Result<(), Failure> {
        let turn = self.turn;
        let mut bodies = Vec::new();
        let mut shares = self.shares(completion, &usage);
        self.calls.clear();
        for part in &completion.parts {
            let (id, kind) = match part {
                Part::Text { text } => (streamed.message.take(), ItemKind::Message { text: text.clone() }),
                Part::Reasoning { text, signature } => (
                    streamed.reasoning.take(),
                    ItemKind::Reasoning { text: text.clone(), signature: signature.clone() },
                ),
                Part::Call(call) => {
                    let mut call = ToolCall {
                        call_id: call.id.clone(),
                        tool: call.tool.clone(),
                        input: agent::tools::recorded_input(&call.arguments),
                        limit_ms: None,
                        output: None,
                        exit_code: None,
                        duration_ms: None,
                        elapsed_ms: None,
                        process: None,
                        share: shares.next(),
                        hooks: Vec::new(),
                    };
                    if let Ok(tool) = self.reread(&call, &call.input)? {
                        call.limit_ms = self.limit_ms(&tool);
                    }
                    let kind = ItemKind::ToolCall(call);
                    let item = Item { id: ItemId::new(), status: ItemStatus::InProgress, kind };
                    self.calls.push(item.clone());
                    bodies.push(EventBody::ItemStarted { turn, item });
                    continue;
                }
            };
            let id = id.unwrap_or_else(ItemId::new);
            let item = Item { id, status: ItemStatus::Completed, kind };
            bodies.push(EventBody::ItemCompleted { turn, item });
        }
        // An earlier attempt streamed something that the answer does not have.
        for item in streamed.leftovers() {
            bodies.push(EventBody::ItemCompleted { turn, item });
        }
        bodies.push(usage);
        Ok(self.append(&self.agent, bodies).await?)
    }

    async fn run_tool(&mut self, call_id: String, tool: agent::tools::Invocation) -> Result<Input, Failure> {
        let item = self.take_call(&call_id)?;
        match Box::pin(self.clear(item.clone(), tool)).await {
            Ok(Permit::Run { item, tool, note }) => {
                // Whoever comes after this server knows by it that the call was decided on.
                if matches!(&item.kind, ItemKind::ToolCall(call) if !call.hooks.is_empty()) {
                    self.start(self.with_limit(&item, &tool)).await?;
                }
                Box::pin(self.run_permitted(*item, tool, note)).await
            }
            Ok(Permit::Refused { item, text }) => {
                self.complete(broken_off(&item, ItemStatus::Failed, &text)).await?;
                Ok(Input::ToolEnded { call_id, text, is_error: true, images: Vec::new() })
            }
            Err(Failure::Lost(detail)) => self.lost_before(item, detail).await,
            Err(failure) => Err(failure),
        }
    }

    /// Runs a call that may run. The note is for the model, before the result.
    async fn run_permitted(
        &mut self,
        item: Item,
        tool: agent::tools::Invocation,
        note: Option<String>,
    ) -> Result<Input, Failure> {
        if let agent::tools::Invocation::Ask { question, options } = tool {
            return Box::pin(self.ask_person(item, question, options)).await;
        }
        let began = Instant::now();
        if let Some(exit) = &self.exit {
            // What was refused before is not this command's.
            drop(exit.take_refused());
        }
        let settled = if gate::writes(&tool) { Box::pin(self.settled()).await } else { Ok(None) };
        let (asker, done) = (item.clone(), tool.clone());
        let ended = match settled {
            Ok(synced) => {
                let ended = self.with_services(Box::pin(self.perform(item.id, tool))).await;
                ended.map(|end| end.after(synced).after(note))
            }
            Err(failure) => Err(failure),
        };
        let input = Box::pin(self.close_call(item, began, ended)).await?;
        Box::pin(self.guide(&done)).await?;
        self.ask_for_hosts(&asker).await?;
        Ok(input)
    }

    /// Records how a call ended, and makes the input that tells the agent.
    async fn close_call(
        &mut self,
        mut item: Item,
        began: Instant,
        ended: Result<ToolEnd, Failure>,
    ) -> Result<Input, Failure> {
        let ItemKind::ToolCall(call) = &mut item.kind else {
            return Err(Problem::new(Code::Internal, "an item that is no call ended as one").into());
        };
        let call_id = call.call_id.clone();
        let process = item.id.to_string();
        call.duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
        call.elapsed_ms = Some(self.context.elapsed_ms());
        match ended {
            Ok(ToolEnd::Ended(mut done)) => {
                let shown = Box::pin(self.show_hooks(item.id, call, &mut done)).await;
                call.hooks.extend(shown);
                let Done { mut output, is_error, exit_code, process: background, also } = done;
                if exit_code.is_some() || background.is_some() || reaches_out(&call.tool) {
                    for line in self.remarks(is_error, &output.text).await? {
                        output.text.push('\n');
                        output.text.push_str(&line);
                    }
                }
                let output = self.shortened(output, &process).await;
                let text = output.text.clone();
                let images = output.images.iter().map(Image::from).collect();
                call.output = Some(output);
                call.exit_code = exit_code;
                let named = background.as_ref().map_or(process, |background| background.item.to_string());
                call.process = background.map(|background| *background);
                item.status = if is_error { ItemStatus::Failed } else { ItemStatus::Completed };
                failpoint::hit(Point::ToolEnded);
                self.complete_with(also, item).await?;
                failpoint::hit(Point::ToolRecorded);
                // Not before: until the result is in the log, a restarted server must find the process again.
                if exit_code.is_some()
                    && let Some(sandbox) = &self.sandbox
                {
                    crate::process::forget(&**sandbox, &named).await;
                }
                Ok(Input::ToolEnded { call_id, text, is_error, images })
            }
            Ok(ToolEnd::Stopped(output)) => {
                call.output = Some(output);
                item.status = ItemStatus::Cancelled;
                self.complete(item).await?;
                Err(Failure::Stopped)
            }
            Err(Failure::Stopped) => {
                item.status = ItemStatus::Cancelled;
                self.complete(item).await?;
                Err(Failure::Stopped)
            }
            Err(Failure::Lost(detail)) => {
                let text = self.lost(&detail).await?;
                call.output = Some(whole(&text));
                item.status = ItemStatus::Interrupted;
                self.complete(item).await?;
                self.replace_sandbox().await?;
                Ok(Input::ToolEnded { call_id, text, is_error: true, images: Vec::new() })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Records the loss of the sandbox; gives what the model is told.
    async fn lost(&mut self, detail: &str) -> Result<String, Failure> {
        self.sandbox = None;
        self.exit = None;
        self.sync = None;
        let reason = self.context.workspace.lost(&self.context.recorder, detail).await?;
        Ok(format!("The sandbox died: {reason}. {WORK_IS_GONE}"))
    }

    /// Makes a new sandbox after a loss, once in a turn.
    async fn replace_sandbox(&mut self) -> Result<(), Failure> {
        if self.context.turn().is_some_and(|turn| turn.losses > 1) {
            return Err(Problem::new(Code::SandboxUnavailable, "the sandbox died twice in this turn")
                .hint("a command of the session may use too much memory: raise the sandbox's limits or ask for less")
                .into());
        }
        let ready = self.context.workspace.ensure(&self.context.recorder, &self.stop).await?;
        for text in self.take_up(gate::Taken::new(ready, &self.context, &self.stop)).await? {
            self.notice(text).await?;
        }
        Ok(())
    }
}

/// Whether something is done in the sandbox.
fn needs_sandbox(effect: &Effect) -> bool {
    match effect {
        Effect::RunTool { .. } | Effect::Verify | Effect::Compact { .. } | Effect::Survey { .. } => true,
        Effect::CallModel(_)
        | Effect::ChangeModel { .. }
        | Effect::RejectTool { .. }
        | Effect::Mistake { .. }
        | Effect::Note { .. }
        | Effect::Tell { .. }
        | Effect::Finish { .. } => false,
    }
}

/// Whether a call that is no command may be refused connections out of the sandbox.
fn reaches_out(tool: &str) -> bool {
    tool == "web_fetch" || agent::tools::is_of_server(tool)
}

/// What the agent says of a stop.
fn stopped(machine: &mut Turn) -> End {
    let finish = machine.handle(Input::Stop).into_iter().find_map(|effect| match effect {
        Effect::Finish { outcome, reason } => Some(End { outcome, reason }),
        _ => None,
    });
    finish.unwrap_or(End { outcome: Outcome::Cancelled, reason: None })
}

/// An output that is its own text.
fn whole(text: &str) -> Output {
    Output { text: text.to_owned(), bytes: text.len() as u64, ..Output::default() }
}

/// Whether a delivery has come to its end.
fn settled(state: DeliveryState) -> Option<Outcome> {
    match state {
        DeliveryState::Intended | DeliveryState::Opening => None,
        DeliveryState::Pushed | DeliveryState::Opened => Some(Outcome::Done),
        DeliveryState::Failed | DeliveryState::Unknown => Some(Outcome::Failed),
    }
}
