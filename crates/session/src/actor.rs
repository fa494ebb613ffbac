//! The actor of one session: the only one that starts work on it. It takes commands one after the other, has at most
//! one piece of work under way (a turn or a delivery), and goes on with the queue when that ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use protocol::event::Delivery;
use protocol::{
    Actor, Code, Diff, EventBody, Item, ItemId, ItemKind, ItemStatus, Outcome, Problem, PromptId, Session,
    Status, Stopped, Timestamp, TurnId,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::recorder::Recorder;
use crate::runner::{self, Context, delivery};
use crate::state::broken_off;
use crate::stop::Stop;
use crate::{Duty, ShutDown, problem};

/// How long to wait before trying again to record what could not be recorded.
const RETRY: Duration = Duration::from_secs(5);

type Answer<T> = oneshot::Sender<Result<T, Problem>>;

/// Everything that can be asked of a session.
enum Input {
    Prompt { actor: Actor, text: String, answer: Answer<PromptId> },
    Stop { actor: Actor, answer: Answer<Stopped> },
    Deliver { actor: Actor, answer: Answer<Delivery> },
    Diff { answer: Answer<Diff> },
    ShutDown { mode: ShutDown, answer: Answer<()> },
}

/// Talks to a session's actor. When the last handle is dropped the actor ends, with its turn left to be resumed.
#[derive(Clone)]
pub(crate) struct Handle {
    inputs: mpsc::Sender<Input>,
    recorder: Arc<Recorder>,
}

impl Handle {
    /// What is known of the session. One whose turn cannot be recorded has failed, whatever its log says so far.
    pub(crate) fn session(&self) -> Option<Session> {
        let stream = self.recorder.stream();
        let session = stream.with_state(|state| state.to_session())?;
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

    /// Puts a prompt into the queue.
    pub(crate) async fn prompt(&self, actor: Actor, text: String) -> Result<PromptId, Problem> {
        self.ask(|answer| Input::Prompt { actor, text, answer }).await
    }

    /// Stops the turn under way. The queue goes on with the next prompt.
    pub(crate) async fn stop(&self, actor: Actor) -> Result<Stopped, Problem> {
        self.ask(|answer| Input::Stop { actor, answer }).await
    }

    /// Delivers again.
    pub(crate) async fn deliver(&self, actor: Actor) -> Result<Delivery, Problem> {
        self.ask(|answer| Input::Deliver { actor, answer }).await
    }

    /// The work so far.
    pub(crate) async fn diff(&self) -> Result<Diff, Problem> {
        self.ask(|answer| Input::Diff { answer }).await
    }

    /// Ends the actor.
    pub(crate) async fn shut_down(&self, mode: ShutDown) -> Result<(), Problem> {
        self.ask(|answer| Input::ShutDown { mode, answer }).await
    }

    async fn ask<T>(&self, input: impl FnOnce(Answer<T>) -> Input) -> Result<T, Problem> {
        let (answer, answered) = oneshot::channel();
        self.inputs.send(input(answer)).await.map_err(|_| problem::closing())?;
        answered.await.map_err(|_| problem::closing())?
    }
}

/// What the work under way is.
enum Kind {
    Turn(TurnId),
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
    inputs: mpsc::Receiver<Input>,
    work: Option<Work>,
    /// When a sandbox that nobody uses is stopped.
    idle_at: Option<Instant>,
    /// When it is tried again to record what could not be recorded.
    retry_at: Option<Instant>,
}

impl Service {
    /// An actor and its handle. Nothing happens before `run`.
    pub(crate) fn new(context: Context) -> (Self, Handle) {
        let (sender, inputs) = mpsc::channel(32);
        let handle = Handle { inputs: sender, recorder: Arc::clone(&context.recorder) };
        (Self { context: Arc::new(context), inputs, work: None, idle_at: None, retry_at: None }, handle)
    }

    /// Works until it is shut down or every handle is gone. Unfinished work goes on at once.
    pub(crate) async fn run(mut self) {
        self.go_on_unasked().await;
        if self.work.is_none() && self.context.options.duty == Duty::Work {
            // What runs in an idle sandbox may be waiting for its connections.
            drop(self.context.workspace.attached(&self.context.recorder).await);
        }
        self.rest();
        loop {
            tokio::select! {
                biased;
                ended = ended(&mut self.work) => self.after_work(ended).await,
                input = self.inputs.recv() => match input {
                    Some(input) => if let Flow::End = self.handle(input).await { return },
                    None => return,
                },
                () = until(self.retry_at) => self.recover().await,
                () = until(self.idle_at) => self.stop_idle().await,
            }
        }
    }

    async fn handle(&mut self, input: Input) -> Flow {
        self.settle().await;
        self.recover().await;
        match input {
            Input::Prompt { actor, text, answer } => {
                let result = self.prompt(&actor, text).await;
                respond(answer, result);
                self.go_on().await;
            }
            Input::Stop { actor, answer } => {
                let stopped = self.stop(actor).await;
                respond(answer, Ok(stopped));
            }
            Input::Deliver { actor, answer } => {
                self.deliver(actor, answer);
                self.go_on_unasked().await;
            }
            Input::Diff { answer } => {
                // Read-only and perhaps slow, so it is not waited for.
                let context = Arc::clone(&self.context);
                drop(tokio::spawn(async move {
                    let diff = context.workspace.diff(&context.recorder).await;
                    respond(answer, diff.map_err(crate::failure::Failure::into_problem));
                }));
                self.go_on_unasked().await;
            }
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
            Some(Work { kind: Kind::Turn(_), .. }) => self.context.turn().is_none(),
            Some(Work { kind: Kind::Delivery(over), .. }) => over.load(Ordering::Acquire),
            None => false,
        };
        if over {
            let ended = ended(&mut self.work).await;
            self.after_work(ended).await;
        }
    }

    async fn prompt(&mut self, actor: &Actor, text: String) -> Result<PromptId, Problem> {
        let prompt = PromptId::new();
        let body = EventBody::PromptQueued { prompt, text };
        self.context.recorder.append(actor, vec![body]).await.map_err(problem::store)?;
        Ok(prompt)
    }

    async fn stop(&mut self, actor: Actor) -> Stopped {
        match &self.work {
            Some(Work { kind: Kind::Turn(turn), stop, .. }) => {
                stop.give(actor);
                Stopped { turn: Some(*turn) }
            }
            Some(Work { kind: Kind::Delivery(_), .. }) | None => Stopped { turn: None },
        }
    }

    fn deliver(&mut self, actor: Actor, answer: Answer<Delivery>) {
        if self.work.is_some() || self.context.turn().is_some() {
            let busy = Problem::new(Code::Conflict, "a turn is under way")
                .hint("wait until it has finished, or stop it; a turn that is done is delivered by itself");
            return respond(answer, Err(busy));
        }
        let context = Arc::clone(&self.context);
        let over = Arc::new(AtomicBool::new(false));
        let kind = Kind::Delivery(Arc::clone(&over));
        let task = tokio::spawn(async move {
            let delivered = delivery::again(&context, &actor).await;
            over.store(true, Ordering::Release);
            respond(answer, delivered);
            Ok(())
        });
        self.work = Some(Work { kind, stop: Stop::default(), task: AbortOnDropHandle::new(task) });
        self.idle_at = None;
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
        if self.work.is_some() || self.context.recorder.stream().trouble().is_some() {
            return;
        }
        let turn = match self.context.turn() {
            Some(turn) => turn.id,
            None => match self.begin_next().await {
                Ok(Some(turn)) => turn,
                Ok(None) => return,
                Err(error) => {
                    let session = self.context.recorder.session();
                    tracing::error!(%session, %error, "a turn could not be begun");
                    return self.postpone(error);
                }
            },
        };
        let stop = Stop::default();
        let task = tokio::spawn(runner::run(Arc::clone(&self.context), stop.clone()));
        self.work = Some(Work { kind: Kind::Turn(turn), stop, task: AbortOnDropHandle::new(task) });
        self.idle_at = None;
    }

    /// Takes the next prompt out of the queue.
    async fn begin_next(&mut self) -> Result<Option<TurnId>, store::Error> {
        let next = self.context.recorder.stream().with_state(|state| state.next_prompt().cloned());
        let Some(next) = next else { return Ok(None) };
        let turn = TurnId::new();
        let kind = ItemKind::Prompt { prompt: next.id, text: next.text };
        let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind };
        let bodies =
            vec![EventBody::TurnStarted { turn, prompt: next.id }, EventBody::ItemCompleted { turn, item }];
        self.context.recorder.append(&Actor::user(next.author), bodies).await?;
        Ok(Some(turn))
    }

    async fn after_work(&mut self, ended: Result<Result<(), store::Error>, tokio::task::JoinError>) {
        self.work = None;
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
        let Some(turn) = self.context.turn() else { return Ok(()) };
        let mut bodies = vec![EventBody::ErrorRaised {
            code: problem.code,
            message: problem.title.clone(),
            hint: problem.hint.clone(),
        }];
        let open = turn.open.iter();
        bodies.extend(
            open.map(|item| broken_off(item, ItemStatus::Interrupted, agent::history::INTERRUPTED))
                .map(|item| EventBody::ItemCompleted { turn: turn.id, item }),
        );
        bodies.push(EventBody::TurnFinished {
            turn: turn.id,
            outcome: Outcome::Failed,
            reason: Some(problem.title.clone()),
            receipt: turn.receipt(Timestamp::now()),
        });
        self.context.recorder.append(&Actor::system(), bodies).await.map(drop)
    }

    /// Sets the clock of an idle sandbox.
    fn rest(&mut self) {
        let has_sandbox = self.context.recorder.stream().with_state(|state| state.sandbox().is_some());
        let idle = self.work.is_none() && has_sandbox && self.context.options.duty == Duty::Work;
        self.idle_at = idle.then(|| Instant::now() + self.context.options.idle);
    }

    async fn stop_idle(&mut self) {
        if let Err(failure) = self.context.workspace.stop(&self.context.recorder, "nothing used it").await {
            let session = self.context.recorder.session();
            tracing::warn!(%session, error = %failure.into_problem(), "an idle sandbox could not be stopped");
        }
        self.rest();
    }

    async fn shut_down(&mut self, mode: ShutDown) {
        match mode {
            ShutDown::KeepSandboxes => {
                if let Some(work) = self.work.take() {
                    work.task.abort();
                    // It was given up, so its result says nothing.
                    drop(work.task.await);
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
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
