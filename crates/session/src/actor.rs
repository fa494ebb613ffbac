//! The actor of one session: the only one that starts work on it. It takes commands one after the other, has at most
//! one piece of work under way (a turn or a delivery), and goes on with the queue when that ends. A turn that waits for
//! a person's decision is no work: it is in the log, and goes on when somebody has decided.

mod commands;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use failpoint::Point;
use protocol::event::Delivery;
use protocol::{
    Actor, ApprovalId, Code, Decide, Decision, DeliverSession, Diff, EditSession, Event, EventBody,
    ItemStatus, Outcome, Problem, PromptId, Session, Status, Stopped, TurnId,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use commands::{Asked, Change, Changed};

use crate::command::Cause;
use crate::failure::Failure;
use crate::recorder::Recorder;
use crate::runner::{self, Context, delivery};
use crate::state::{State, broken_off};
use crate::stop::Stop;
use crate::{Duty, ShutDown, budget, problem};

/// How long to wait before trying again to record what could not be recorded.
const RETRY: Duration = Duration::from_secs(5);

/// How long a push or a request to a forge may still take when the server ends.
const DRAIN: Duration = Duration::from_secs(5);

type Answer<T> = oneshot::Sender<Result<T, Problem>>;

/// Everything that can be asked of a session.
enum Input {
    Prompt {
        prompt: PromptId,
        actor: Actor,
        asked: Asked,
        answer: Answer<PromptId>,
    },
    Change {
        cause: Cause,
        change: Change,
        answer: Answer<Changed>,
    },
    Edit {
        cause: Cause,
        edit: EditSession,
        answer: Answer<Session>,
    },
    Stop {
        cause: Cause,
        pause: bool,
        answer: Answer<Stopped>,
    },
    Decide {
        actor: Actor,
        approval: ApprovalId,
        decide: Decide,
        answer: Answer<Decision>,
    },
    Deliver {
        cause: Cause,
        request: DeliverSession,
        answer: Answer<Delivery>,
    },
    Diff {
        answer: Answer<Diff>,
    },
    /// Somebody began or ceased to use the sandbox.
    Used,
    ShutDown {
        mode: ShutDown,
        answer: Answer<()>,
    },
}

/// Talks to a session's actor. When the last handle is dropped the actor ends, with its turn left to be resumed.
#[derive(Clone)]
pub(crate) struct Handle {
    /// Boxed, because an idle session has room for many of them.
    inputs: mpsc::Sender<Box<Input>>,
    recorder: Arc<Recorder>,
    context: Arc<Context>,
}

impl Handle {
    /// What is known of the session. One whose turn cannot be recorded has failed, whatever its log says so far.
    pub(crate) fn session(&self) -> Option<Session> {
        let stream = self.recorder.stream();
        let (millis, mut session) =
            (self.context.elapsed_ms(), stream.with_state(|state| state.to_session())?);
        // A turn under way takes time between its events, too.
        session.used = stream.with_state(|state| state.budget_use(millis));
        Some(match stream.trouble() {
            Some(problem) => {
                Session { status: Status::Failed, reason: Some(problem.title), turn: None, ..session }
            }
            None => session,
        })
    }

    /// The log and its stream.
    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// The end of the log, if nothing is under way and nobody but the registry has to do with the session.
    pub(crate) fn idle_seq(&self) -> Option<u64> {
        // One is the registry's handle, one the actor's own. Readers, builds and ways out of a sandbox have more.
        const AT_REST: usize = 2;
        let unused = self.inputs.strong_count() == 1 && Arc::strong_count(&self.recorder) == AT_REST;
        let stream = self.recorder.stream();
        if !unused || stream.trouble().is_some() {
            return None;
        }
        stream.with_state(|state| {
            let nothing_runs = state.turn().is_none() || state.waits();
            let delivers = state.delivery().is_some_and(|delivery| delivery.state.is_pending());
            let idle =
                nothing_runs && !delivers && state.next_prompt().is_none() && state.sandbox().is_none();
            idle.then(|| state.seq())
        })
    }

    /// Puts a prompt into the queue; one for `now` at its front, and the turn under way is stopped.
    pub(crate) async fn prompt(
        &self,
        prompt: PromptId,
        actor: Actor,
        asked: Asked,
    ) -> Result<PromptId, Problem> {
        self.ask(|answer| Input::Prompt { prompt, actor, asked, answer }).await
    }

    /// Changes the queue.
    pub(crate) async fn change(&self, cause: Cause, change: Change) -> Result<Changed, Problem> {
        self.ask(|answer| Input::Change { cause, change, answer }).await
    }

    /// Gives the session another title, model, budget or policy.
    pub(crate) async fn edit(&self, cause: Cause, edit: EditSession) -> Result<Session, Problem> {
        self.ask(|answer| Input::Edit { cause, edit, answer }).await
    }

    /// Stops the turn under way. The queue goes on with the next prompt, unless it is paused with it.
    pub(crate) async fn stop(&self, cause: Cause, pause: bool) -> Result<Stopped, Problem> {
        self.ask(|answer| Input::Stop { cause, pause, answer }).await
    }

    /// Decides an approval.
    pub(crate) async fn decide(
        &self,
        actor: Actor,
        approval: ApprovalId,
        decide: Decide,
    ) -> Result<Decision, Problem> {
        self.ask(|answer| Input::Decide { actor, approval, decide, answer }).await
    }

    /// Delivers again.
    pub(crate) async fn deliver(&self, cause: Cause, request: DeliverSession) -> Result<Delivery, Problem> {
        self.ask(|answer| Input::Deliver { cause, request, answer }).await
    }

    /// The work so far.
    pub(crate) async fn diff(&self) -> Result<Diff, Problem> {
        self.ask(|answer| Input::Diff { answer }).await
    }

    /// What turns and terminals share.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Tells the actor that somebody began or ceased to use the sandbox. One that has much to do looks by itself later.
    pub(crate) fn used(&self) {
        drop(self.inputs.try_send(Box::new(Input::Used)));
    }

    /// Ends the actor.
    pub(crate) async fn shut_down(&self, mode: ShutDown) -> Result<(), Problem> {
        self.ask(|answer| Input::ShutDown { mode, answer }).await
    }

    async fn ask<T>(&self, input: impl FnOnce(Answer<T>) -> Input) -> Result<T, Problem> {
        let (answer, answered) = oneshot::channel();
        self.inputs.send(Box::new(input(answer))).await.map_err(|_| problem::closing())?;
        answered.await.map_err(|_| problem::closing())?
    }
}

/// What the work under way is.
enum Kind {
    Turn,
    /// Whether it has its result, which is set before that is told.
    Delivery(Arc<AtomicBool>),
}

/// The work under way. Dropping it gives it up.
struct Work {
    kind: Kind,
    stop: Stop,
    task: AbortOnDropHandle<Result<(), store::Error>>,
}

/// Whether the actor goes on.
enum Flow {
    On,
    End,
}

/// The actor.
pub(crate) struct Service {
    context: Arc<Context>,
    inputs: mpsc::Receiver<Box<Input>>,
    work: Option<Work>,
    /// When a sandbox that nobody uses is stopped.
    idle_at: Option<Instant>,
    /// When it is tried again to record what could not be recorded.
    retry_at: Option<Instant>,
    /// Who asked for a delivery while one was under way.
    asked: Vec<(Cause, DeliverSession, Answer<Delivery>)>,
    /// The title, while a model writes it.
    naming: Option<AbortOnDropHandle<()>>,
}

impl Service {
    /// An actor and its handle. Nothing happens before `run`.
    pub(crate) fn new(context: Context) -> (Self, Handle) {
        let (sender, inputs) = mpsc::channel(32);
        let context = Arc::new(context);
        let recorder = Arc::clone(&context.recorder);
        let handle = Handle { inputs: sender, recorder, context: Arc::clone(&context) };
        let service = Self {
            context,
            inputs,
            work: None,
            idle_at: None,
            retry_at: None,
            asked: Vec::new(),
            naming: None,
        };
        (service, handle)
    }

    /// Works until it is shut down or every handle is gone. Unfinished work goes on at once.
    pub(crate) async fn run(mut self) {
        if self.context.options.duty == Duty::Work {
            self.resume_delivery();
        }
        // What it does is boxed, so that a session that does nothing takes no room for it.
        Box::pin(self.go_on_unasked()).await;
        if self.work.is_none() && self.context.options.duty == Duty::Work {
            // What runs in an idle sandbox may be waiting for its connections.
            drop(Box::pin(self.context.workspace.attached(&self.context.recorder)).await);
        }
        self.rest();
        loop {
            tokio::select! {
                biased;
                ended = ended(&mut self.work) => Box::pin(self.after_work(ended)).await,
                input = self.inputs.recv() => match input {
                    Some(input) => if let Flow::End = Box::pin(self.handle(*input)).await { return },
                    None => return,
                },
                () = until(self.retry_at) => Box::pin(self.recover()).await,
                () = until(self.idle_at) => Box::pin(self.stop_idle()).await,
            }
        }
    }

    async fn handle(&mut self, input: Input) -> Flow {
        self.recover().await;
        match input {
            Input::Prompt { prompt, actor, asked, answer } => {
                let now = asked.now;
                let result = self.prompt(prompt, &actor, asked).await;
                if self.work.is_none() && self.context.turn().is_some() {
                    // It has begun, and what it does next does not wait for whoever reads the answer.
                    self.go_on().await;
                }
                respond(answer, result);
                self.obey(&actor);
                if now {
                    self.stop_delivery(&actor);
                }
                self.go_on().await;
            }
            Input::Change { cause, change, answer } => {
                let result = self.change(&cause, change).await;
                respond(answer, result);
                self.go_on_unasked().await;
            }
            Input::Edit { cause, edit, answer } => {
                let result = self.edit(&cause, edit).await;
                // A turn under way looks at what it is now.
                self.context.edited.notify_waiters();
                let policy = self.context.workspace.policy_changed(&self.context.recorder);
                respond(answer, policy.map_err(Failure::into_problem).and(result));
                self.go_on_unasked().await;
            }
            Input::Stop { cause, pause, answer } => {
                let actor = cause.actor.clone();
                let delivery = self.stop_delivery(&actor);
                let result = self.stop(&cause, pause).await.map(|turn| Stopped { turn, delivery });
                failpoint::hit(Point::StopRecorded);
                if result.is_err() {
                    // What cannot be recorded is still to be stopped.
                    self.give_stop(&actor);
                }
                respond(answer, result);
                self.obey(&actor);
                self.go_on_unasked().await;
            }
            Input::Decide { actor, approval, decide, answer } => {
                let result = self.decide(&actor, approval, decide).await;
                // It may have allowed more of the network.
                if let Err(failure) = self.context.workspace.policy_changed(&self.context.recorder) {
                    tracing::error!(error = %failure.into_problem(), "what was allowed cannot be put into force");
                }
                respond(answer, result);
                self.go_on_unasked().await;
            }
            Input::Deliver { cause, request, answer } => {
                self.settle().await;
                self.deliver(cause, request, answer);
                self.go_on_unasked().await;
            }
            Input::Diff { answer } => {
                // Read-only and perhaps slow, so it is not waited for.
                let context = Arc::clone(&self.context);
                drop(tokio::spawn(async move {
                    let diff = context.workspace.diff(&context.recorder).await;
                    respond(answer, diff.map_err(Failure::into_problem));
                }));
                self.go_on_unasked().await;
            }
            Input::Used => self.rest(),
            Input::ShutDown { mode, answer } => {
                self.shut_down(mode).await;
                respond(answer, Ok(()));
                return Flow::End;
            }
        }
        Flow::On
    }

    /// Lets work end whose result was seen: who reads `turn.finished`, or has the answer of a delivery, and then asks must
    /// not be told that it runs.
    async fn settle(&mut self) {
        let over = match &self.work {
            Some(Work { kind: Kind::Turn, .. }) => self.context.turn().is_none(),
            Some(Work { kind: Kind::Delivery(over), .. }) => over.load(Ordering::Acquire),
            None => false,
        };
        if over {
            let ended = ended(&mut self.work).await;
            self.after_work(ended).await;
        }
    }

    async fn prompt(&self, prompt: PromptId, actor: &Actor, asked: Asked) -> Result<PromptId, Problem> {
        let recorder = &self.context.recorder;
        let idle = self.work.is_none() && recorder.stream().trouble().is_none();
        let decide = move |state: &State| (commands::prompt(state, prompt, asked, idle), ());
        let (events, ()) = recorder.append_if(actor, decide).await.map_err(problem::store)?;
        self.time(&events);
        Ok(prompt)
    }

    async fn change(&self, cause: &Cause, change: Change) -> Result<Changed, Problem> {
        let (by, command) = (cause.actor.id.clone(), cause.id());
        let recorder = &self.context.recorder;
        let decide = move |state: &State| commands::change(state, &by, command, change);
        let appended = recorder.append_if(&cause.actor, decide).await;
        Ok(match appended.map_err(problem::store)?.1 {
            Some(prompt) => Changed::NotWaiting(prompt),
            None => Changed::Queue(recorder.stream().with_state(|state| state.queue())),
        })
    }

    async fn edit(&self, cause: &Cause, edit: EditSession) -> Result<Session, Problem> {
        let (command, recorder) = (cause.id(), &self.context.recorder);
        let decide = move |state: &State| (commands::edit(state, command, edit), ());
        recorder.append_if(&cause.actor, decide).await.map_err(problem::store)?;
        let session = recorder.stream().with_state(|state| state.to_session());
        session.ok_or_else(|| problem::no_session(recorder.session()))
    }

    /// Records that the turn is to stop. It is in the log before anybody is told so: a server that comes later goes on
    /// with the stop, not with the turn.
    async fn stop(&self, cause: &Cause, pause: bool) -> Result<Option<TurnId>, Problem> {
        let reason = pause.then(|| format!("{} paused it with a stop", cause.actor.id));
        let command = cause.id();
        let decide = move |state: &State| commands::stop(state, reason, command);
        let appended = self.context.recorder.append_if(&cause.actor, decide);
        appended.await.map(|(_, turn)| turn).map_err(problem::store)
    }

    async fn decide(&self, actor: &Actor, approval: ApprovalId, decide: Decide) -> Result<Decision, Problem> {
        let by = actor.id.clone();
        let own = self.context.recorder.stream().with_state(|state| state.policy().clone());
        let policies = self.context.workspace.policies(&own);
        let decided = self
            .context
            .recorder
            .append_if(actor, move |state| commands::decide(state, &by, approval, decide, &policies));
        decided.await.map_err(problem::store)?.1
    }

    /// Gives the signal to stop if the log says that the turn is to.
    fn obey(&self, actor: &Actor) {
        if self.context.turn().is_some_and(|turn| turn.stopping.is_some()) {
            self.give_stop(actor);
        }
    }

    fn give_stop(&self, actor: &Actor) {
        if let Some(Work { kind: Kind::Turn, stop, .. }) = &self.work {
            stop.give(actor.clone());
        }
    }

    /// Stops a delivery that belongs to no turn; whether there is one. How far it came is in the log when it has ended.
    fn stop_delivery(&self, actor: &Actor) -> bool {
        match &self.work {
            Some(Work { kind: Kind::Delivery(over), stop, .. }) if !over.load(Ordering::Acquire) => {
                stop.give(actor.clone());
                true
            }
            Some(_) | None => false,
        }
    }

    fn deliver(&mut self, cause: Cause, request: DeliverSession, answer: Answer<Delivery>) {
        // Whoever asks again, such as after a restart, wants to know what becomes of that one.
        if let Some(Work { kind: Kind::Delivery(_), .. }) = &self.work {
            return self.asked.push((cause, request, answer));
        }
        // What a command asked for was brought to its end by now, and is not begun anew for it.
        if let Some(command) = cause.begun_before() {
            let known = self.context.recorder.stream().with_state(|state| state.delivery().cloned());
            let its_own = |known: &Delivery| known.command == Some(command) && !known.state.is_pending();
            if let Some(known) = known.filter(its_own) {
                return respond(answer, delivery::answer(known));
            }
        }
        if self.work.is_some() || self.context.turn().is_some() {
            let refused = if self.context.recorder.stream().with_state(|state| state.waits()) {
                Problem::new(Code::Conflict, "the delivery waits for somebody to approve it")
                    .hint(format!("approve it: slipway approve {}", self.context.recorder.session()))
            } else {
                Problem::new(Code::Conflict, "a turn is under way").hint(
                    "wait until it has finished, or stop it; a turn that is done is delivered by itself",
                )
            };
            return respond(answer, Err(refused));
        }
        self.begin_delivery(|context, stop, over| async move {
            let _act = context.outside.begin();
            let delivered = delivery::again(&context, &stop, &cause, request).await;
            over.store(true, Ordering::Release);
            respond(answer, delivered);
            Ok(())
        });
    }

    /// Makes a delivery the work under way. It says when it has its result, before anybody else is told that.
    fn begin_delivery<F>(&mut self, deliver: impl FnOnce(Arc<Context>, Stop, Arc<AtomicBool>) -> F)
    where
        F: Future<Output = Result<(), store::Error>> + Send + 'static,
    {
        let (stop, over) = (Stop::default(), Arc::new(AtomicBool::new(false)));
        let task = tokio::spawn(deliver(Arc::clone(&self.context), stop.clone(), Arc::clone(&over)));
        self.work = Some(Work { kind: Kind::Delivery(over), stop, task: AbortOnDropHandle::new(task) });
        self.idle_at = None;
    }

    /// Brings a delivery to its end that somebody asked for, and that the server before this one began. One that belongs to a
    /// turn is that turn's.
    fn resume_delivery(&mut self) {
        let pending = self.context.recorder.stream().with_state(|state| {
            state.delivery().filter(|one| one.state.is_pending() && state.turn().is_none()).cloned()
        });
        let Some(commit) = pending.and_then(|one| delivery::whole_commit(&self.context, &one)) else {
            return;
        };
        self.begin_delivery(|context, stop, over| async move {
            let _act = context.outside.begin();
            let delivered = delivery::deliver(&context, &stop, &Actor::system().into(), &commit).await;
            over.store(true, Ordering::Release);
            delivered.map(drop)
        });
    }

    /// Goes on where that is this server's duty.
    async fn go_on_unasked(&mut self) {
        match self.context.options.duty {
            Duty::Work => self.go_on().await,
            Duty::Look => {}
        }
    }

    /// Starts what is to be done next, if nothing is under way: an unfinished turn first, then the queue.
    async fn go_on(&mut self) {
        let stream = self.context.recorder.stream();
        if self.work.is_some() || stream.trouble().is_some() || stream.with_state(|state| state.waits()) {
            return;
        }
        if self.context.turn().is_none() {
            match self.begin_next().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let session = self.context.recorder.session();
                    tracing::error!(%session, %error, "a turn could not be begun");
                    return self.postpone(error);
                }
            }
        }
        failpoint::hit(Point::TurnBegun);
        self.naming = crate::naming::begin(&self.context).or(self.naming.take());
        let stop = Stop::default();
        let task = tokio::spawn(runner::run(Arc::clone(&self.context), stop.clone()));
        self.work = Some(Work { kind: Kind::Turn, stop, task: AbortOnDropHandle::new(task) });
        self.idle_at = None;
    }

    /// Begins the turn of the next prompt; whether there is one.
    async fn begin_next(&mut self) -> Result<bool, store::Error> {
        let recorder = &self.context.recorder;
        if let Some(by) = recorder.stream().with_state(|state| state.raised_late_by().cloned()) {
            recorder.append_if(&by, |state| (budget::raised_late(state), ())).await?;
        }
        let next = recorder.stream().with_state(|state| state.next_prompt().cloned());
        let Some(next) = next else { return Ok(false) };
        let bodies = commands::begin(next.id, next.text, next.images).to_vec();
        let events = self.context.recorder.append(&Actor::user(next.author), bodies).await?;
        self.time(&events);
        Ok(true)
    }

    /// Measures the turn that begins with these events, if one does.
    fn time(&self, events: &[Event]) {
        for event in events {
            if let EventBody::TurnStarted { turn, .. } = event.body {
                self.context.stopwatch.begin(turn);
            }
        }
    }

    async fn after_work(&mut self, ended: Result<Result<(), store::Error>, tokio::task::JoinError>) {
        let was_stopped = self.work.take().is_some_and(|work| work.stop.is_given());
        for (cause, request, answer) in std::mem::take(&mut self.asked) {
            if was_stopped {
                respond(answer, Err(delivery::was_stopped()));
            } else {
                // The first of them finds what was delivered, and the others wait for it.
                self.deliver(cause, request, answer);
            }
        }
        let session = self.context.recorder.session();
        match ended {
            Ok(Ok(())) => self.go_on().await,
            Ok(Err(error)) => {
                tracing::error!(%session, %error, "a turn could not be recorded");
                self.postpone(error);
                self.recover().await;
            }
            Err(error) => {
                tracing::error!(%session, %error, "a turn broke off with a fault");
                let fault = Problem::new(Code::Internal, "slipway made a mistake and could not go on").hint(
                    "this is a fault of slipway: report it with the server's log, then send the prompt again",
                );
                match self.fail_turn(&fault).await {
                    Ok(()) => self.go_on().await,
                    Err(error) => {
                        tracing::error!(%session, %error, "a broken turn could not be finished");
                        self.postpone(error);
                    }
                }
            }
        }
        self.rest();
    }

    /// Nothing can be recorded: readers are told, and nothing is begun before it works again.
    fn postpone(&mut self, error: store::Error) {
        // What a newer owner has is not ours to finish.
        self.retry_at = (error != store::Error::Fenced).then(|| Instant::now() + RETRY);
        self.context.recorder.stream().set_trouble(Some(problem::store(error)));
    }

    /// After trouble, finishes the turn that could not be recorded and goes on, if that works by now.
    async fn recover(&mut self) {
        let Some(trouble) = self.context.recorder.stream().trouble() else { return };
        match self.fail_turn(&trouble).await {
            Ok(()) => {
                self.retry_at = None;
                self.context.recorder.stream().set_trouble(None);
                self.go_on().await;
            }
            Err(error) => self.postpone(error),
        }
    }

    /// Finishes a turn whose task is gone, for this reason.
    async fn fail_turn(&self, problem: &Problem) -> Result<(), store::Error> {
        let Some(mut turn) = self.context.turn() else { return Ok(()) };
        // What waits for a person has no task that could be gone.
        if self.context.recorder.stream().with_state(|state| state.waits()) {
            return Ok(());
        }
        let mut bodies = vec![EventBody::ErrorRaised {
            code: problem.code,
            message: problem.title.clone(),
            hint: problem.hint.clone(),
        }];
        for item in turn.open.clone() {
            let item = broken_off(&item, ItemStatus::Interrupted, agent::history::INTERRUPTED);
            turn.complete(&item);
            bodies.push(EventBody::ItemCompleted { turn: turn.id, item });
        }
        bodies.push(EventBody::TurnFinished {
            turn: turn.id,
            outcome: Outcome::Failed,
            reason: Some(problem.title.clone()),
            receipt: turn.receipt(Outcome::Failed, self.context.stopwatch.read(&turn)),
        });
        self.context.recorder.append(&Actor::system(), bodies).await.map(drop)
    }

    /// Sets the clock of an idle sandbox.
    fn rest(&mut self) {
        let stream = self.context.recorder.stream();
        let used = stream.with_state(|state| state.sandbox().is_none()) || stream.terminals.in_use();
        let idle = self.work.is_none() && !used && self.context.options.duty == Duty::Work;
        self.idle_at = idle.then(|| Instant::now() + self.context.options.idle);
    }

    async fn stop_idle(&mut self) {
        if self.context.recorder.stream().terminals.in_use() {
            return self.rest();
        }
        if let Err(failure) = self.context.workspace.stop(&self.context.recorder, "nothing used it").await {
            let session = self.context.recorder.session();
            tracing::warn!(%session, error = %failure.into_problem(), "an idle sandbox could not be stopped");
        }
        self.context.recorder.remembered().forget();
        self.rest();
    }

    async fn shut_down(&mut self, mode: ShutDown) {
        match mode {
            ShutDown::KeepSandboxes => {
                if let Some(mut work) = self.work.take() {
                    let ended = tokio::select! {
                        biased;
                        _ = &mut work.task => true,
                        // What is being done outside is not broken off at once; what waits is left as it is.
                        () = self.context.outside.quiet() => false,
                        () = tokio::time::sleep(DRAIN) => false,
                    };
                    if !ended {
                        work.task.abort();
                        // It was given up, so its result says nothing.
                        drop(work.task.await);
                    }
                }
            }
            ShutDown::RemoveSandboxes => {
                if let Some(work) = self.work.take() {
                    work.stop.give(Actor::system());
                    match work.task.await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => {
                            tracing::error!(%error, "a turn could not be recorded while shutting down")
                        }
                        Err(error) => tracing::error!(%error, "a turn broke off while shutting down"),
                    }
                }
                let removed = self.context.workspace.remove(&self.context.recorder, "the server ended").await;
                if let Err(failure) = removed {
                    tracing::warn!(error = %failure.into_problem(), "a sandbox could not be removed");
                }
                // The sandbox's files may have been what filled the disk.
                if let Some(trouble) = self.context.recorder.stream().trouble()
                    && let Err(error) = self.fail_turn(&trouble).await
                {
                    tracing::warn!(%error, "a turn could not be finished and is taken up by the next server");
                }
            }
        }
        self.context.recorder.index().await;
    }
}

/// Sends an answer; the one who asked may have gone.
fn respond<T>(answer: Answer<T>, result: Result<T, Problem>) {
    drop(answer.send(result));
}

async fn ended(work: &mut Option<Work>) -> Result<Result<(), store::Error>, tokio::task::JoinError> {
    match work {
        Some(work) => (&mut work.task).await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        // Boxed, because most sessions wait for nothing.
        Some(deadline) => Box::pin(tokio::time::sleep_until(deadline)).await,
        None => std::future::pending().await,
    }
}
