//! The other end of a WebSocket: what it asked for, and what it is to be told.

use std::future::Future;
use std::pin::Pin;

use axum::Router;
use axum::extract::ws::{Message, Utf8Bytes};
use futures_util::stream::{FuturesUnordered, StreamExt};
use protocol::{
    ClientMessage, Code, CreatePrompt, Decide, Problem, ServerBody, ServerMessage, SessionId, StopSession,
};
use session::{Feed, Position, Terminal, TerminalSpec};
use tokio::sync::watch;
use tokio::time::Instant;

use super::commands::{self, Command};
use super::outbox::Outbox;
use super::subscriptions::{Generation, Subscriptions, Told};
use super::terminals::{Printed, Terminals};
use super::{End, OVER_LIMIT};
use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::limits::{Bucket, Seat};
use crate::problem::bad_request;

/// Messages of one client: the burst and the rate a second.
const MESSAGES: (u32, u32) = (1200, 200);
/// Bytes of one client: the burst and the rate a second.
const BYTES: (u32, u32) = (16 * 1024 * 1024, 2 * 1024 * 1024);
/// Commands of one client that are under way.
const COMMANDS: usize = 64;
/// Bytes of the commands of one client that are under way.
const COMMAND_BYTES: usize = 4 * 1024 * 1024;
/// Longest id of a command.
const MAX_ID: usize = 200;

type Pending = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What was begun and is done.
enum Done {
    Subscribed(SessionId, Generation, Result<Feed, Problem>),
    /// With the command's size.
    Replied(SessionId, ServerBody, usize),
    Opened(u32, u64, Result<Terminal, Problem>),
    Typed(Result<(), Problem>),
}

/// Something to tell.
pub(crate) struct News(Kind);

enum Kind {
    Told(Told),
    Done(Done),
    Printed(Printed),
    List,
}

/// The other end of a WebSocket.
pub(crate) struct Client {
    app: App,
    /// The routes that commands go to.
    api: Router,
    caller: Caller,
    /// The session that the connection was opened for: when that breaks, so does the connection.
    only: Option<SessionId>,
    subscriptions: Subscriptions,
    pending: FuturesUnordered<Pending>,
    /// Commands under way, and their bytes.
    commands: (usize, usize),
    /// Few have any, and they have buffers.
    terminals: Option<Box<Terminals>>,
    /// Where it is told of changes of the list of sessions.
    list: Option<watch::Receiver<u64>>,
    messages: Bucket,
    bytes: Bucket,
    _seat: Seat,
}

impl Client {
    pub(crate) fn new(app: App, api: Router, caller: Caller, seat: Seat) -> Self {
        Self {
            app,
            api,
            caller,
            only: None,
            subscriptions: Subscriptions::default(),
            pending: FuturesUnordered::new(),
            commands: (0, 0),
            terminals: None,
            list: None,
            messages: Bucket::new(MESSAGES.0, MESSAGES.1),
            bytes: Bucket::new(BYTES.0, BYTES.1),
            _seat: seat,
        }
    }

    /// With a session that is followed from the start.
    #[must_use]
    pub(crate) fn with(mut self, session: SessionId, feed: Feed) -> Self {
        self.only = Some(session);
        let generation = self.subscriptions.reserve(session);
        self.subscriptions.begin(session, generation, feed);
        self
    }

    /// With a session that was to be followed from the start and cannot be: the client is told why, and that is the end.
    /// An answer to the upgrade would not do, as browsers do not show those to anybody.
    #[must_use]
    pub(crate) fn refused(mut self, session: SessionId, problem: Problem) -> Self {
        self.only = Some(session);
        self.subscriptions.refuse(session, problem);
        self
    }

    /// What there is to tell next; None while nothing can come. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<News> {
        let Self { subscriptions, pending, terminals, list, .. } = self;
        let changed = async {
            match list {
                Some(list) => list.changed().await.ok(),
                None => None,
            }
        };
        let printed = async {
            match terminals {
                Some(terminals) => terminals.next().await,
                None => None,
            }
        };
        let kind = tokio::select! {
            Some(told) = subscriptions.next() => Kind::Told(told),
            Some(done) = pending.next() => Kind::Done(done),
            Some(printed) = printed => Kind::Printed(printed),
            Some(()) = changed => Kind::List,
            else => return None,
        };
        Some(News(kind))
    }

    /// Tells it.
    pub(super) fn tell(&mut self, news: News, outbox: &mut Outbox) -> Result<(), End> {
        match news.0 {
            Kind::Told(Told::Frame(frame)) => match Utf8Bytes::try_from(frame.json.bytes()) {
                Ok(text) => outbox.push_event(text),
                Err(error) => tracing::error!(%error, "an event is not text"),
            },
            Kind::Told(Told::Begun(session, lineage)) => {
                say(outbox, Some(session), ServerBody::Subscribed { lineage });
            }
            Kind::Told(Told::Closing) => return Err(End::Shutdown),
            Kind::Told(Told::Broken(session, problem)) => {
                let told = ServerBody::Unsubscribed { problem: Some(problem.clone()) };
                say(outbox, Some(session), told);
                if self.only == Some(session) {
                    return Err(End::Problem(problem));
                }
            }
            Kind::Done(done) => self.finish(done, outbox),
            Kind::List => say(outbox, None, ServerBody::ListChanged {}),
            Kind::Printed(printed) => {
                if let Some(terminals) = &mut self.terminals {
                    terminals.show(printed, outbox);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, done: Done, outbox: &mut Outbox) {
        match done {
            Done::Subscribed(session, generation, Ok(feed)) => {
                self.subscriptions.begin(session, generation, feed);
            }
            Done::Subscribed(session, generation, Err(problem)) => {
                if self.subscriptions.give_up(session, generation) {
                    say(outbox, Some(session), ServerBody::Unsubscribed { problem: Some(problem) });
                }
            }
            Done::Replied(session, reply, size) => {
                self.commands = (self.commands.0 - 1, self.commands.1 - size);
                say(outbox, Some(session), reply);
            }
            Done::Opened(terminal, generation, opened) => {
                if let Some(terminals) = &mut self.terminals {
                    terminals.begin(terminal, generation, opened, outbox);
                }
            }
            Done::Typed(Ok(())) => {}
            Done::Typed(Err(problem)) => say(outbox, None, ServerBody::Error { problem }),
        }
    }

    /// Takes what the client sent. What is wrong with it is told; only too much of it is the end.
    pub(super) fn hear(&mut self, message: Message, outbox: &mut Outbox) -> Result<(), End> {
        let size = match &message {
            Message::Text(text) => text.len(),
            Message::Binary(data) | Message::Ping(data) | Message::Pong(data) => data.len(),
            Message::Close(_) => 0,
        };
        let now = Instant::now();
        if !self.messages.take(1, now) {
            return Err(End::Misuse(OVER_LIMIT, "too many messages; 200 a second are allowed"));
        }
        if !self.bytes.take(size, now) {
            return Err(End::Misuse(OVER_LIMIT, "too many bytes; 2 MiB a second are allowed"));
        }
        let done = match message {
            Message::Text(text) => match serde_json::from_str::<ClientMessage>(&text) {
                Ok(message) => self.obey(message, size, outbox),
                Err(error) => Err(bad_request(format!("the message cannot be understood: {error}"))
                    .hint("GET /api/v1/openapi.json describes the messages: ClientMessage")),
            },
            Message::Binary(data) => match &mut self.terminals {
                Some(terminals) => terminals.type_in(data),
                None => Err(bad_request("binary messages are for terminals, and none is open")
                    .hint("open one with terminal.open")),
            },
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => Ok(()),
        };
        if let Err(problem) = done {
            say(outbox, None, ServerBody::Error { problem });
        }
        Ok(())
    }

    fn obey(&mut self, message: ClientMessage, size: usize, outbox: &mut Outbox) -> Result<(), Problem> {
        match message {
            ClientMessage::Subscribe { session, after, lineage } => {
                self.subscribe(session, Position { after, lineage }, outbox);
            }
            ClientMessage::Unsubscribe { session } => {
                self.subscriptions.remove(session);
                say(outbox, Some(session), ServerBody::Unsubscribed { problem: None });
            }
            ClientMessage::ListSubscribe {} => {
                let sessions = self.app.allow(&self.caller, Action::Read, Resource::Sessions)?;
                self.list = Some(sessions.store().changes());
                say(outbox, None, ServerBody::ListChanged {});
            }
            ClientMessage::ListUnsubscribe {} => self.list = None,
            ClientMessage::Typing { session } => return self.typing(session),
            ClientMessage::Ping { .. } => say(outbox, self.only, ServerBody::Ping {}),
            ClientMessage::Prompt { id, session, prompt, now, key } => {
                let command = Command::Prompt(CreatePrompt { prompt, now, images: Vec::new() });
                self.command(id, session, command, key, size, outbox);
            }
            ClientMessage::Stop { id, session, pause, key } => {
                self.command(id, session, Command::Stop(StopSession { pause }), key, size, outbox);
            }
            ClientMessage::Approve { id, session, approval, approved, comment, input, all, key } => {
                let command = Command::Approve(approval, Decide { approved, comment, input, all });
                self.command(id, session, command, key, size, outbox);
            }
            ClientMessage::TerminalOpen { terminal, session, columns, rows, name } => {
                return self.open(terminal, session, TerminalSpec { name, columns, rows });
            }
            ClientMessage::TerminalResize { terminal, columns, rows } => {
                return self.terminals().resize(terminal, columns, rows);
            }
            ClientMessage::TerminalClose { terminal } => return self.terminals().close(terminal, outbox),
        }
        Ok(())
    }

    fn subscribe(&mut self, session: SessionId, position: Position, outbox: &mut Outbox) {
        let most = self.app.limits().subscriptions_per_socket;
        let allowed = self.app.allow(&self.caller, Action::Read, Resource::Session(session));
        let sessions = allowed.and_then(|sessions| {
            if self.subscriptions.len() >= most && !self.subscriptions.contains(session) {
                let title = format!("this connection follows {most} sessions, and that is all it may follow");
                return Err(Problem::new(Code::RateLimited, title).hint("unsubscribe from some of them"));
            }
            Ok(sessions.clone())
        });
        match sessions {
            Ok(sessions) => {
                let generation = self.subscriptions.reserve(session);
                let person = self.caller.0.id.clone();
                self.pending.push(Box::pin(async move {
                    Done::Subscribed(session, generation, sessions.watch(session, position, &person).await)
                }));
            }
            Err(problem) => say(outbox, Some(session), ServerBody::Unsubscribed { problem: Some(problem) }),
        }
    }

    fn typing(&mut self, session: SessionId) -> Result<(), Problem> {
        if !self.subscriptions.contains(session) {
            let title = format!("this connection does not follow session {session}");
            return Err(Problem::new(Code::Conflict, title).hint("subscribe to it first"));
        }
        let sessions = self.app.allow(&self.caller, Action::Read, Resource::Session(session))?.clone();
        let person = self.caller.0.id.clone();
        self.pending.push(Box::pin(async move { Done::Typed(sessions.typing(session, &person).await) }));
        Ok(())
    }

    fn command(
        &mut self,
        id: String,
        session: SessionId,
        command: Command,
        key: Option<String>,
        size: usize,
        outbox: &mut Outbox,
    ) {
        let refused = if id.len() > MAX_ID {
            Some(bad_request(format!("the id of a command may have {MAX_ID} bytes at most")))
        } else if self.commands.0 >= COMMANDS || self.commands.1 + size > COMMAND_BYTES {
            let title = "too many commands of this connection are under way";
            Some(Problem::new(Code::RateLimited, title).hint("wait for the replies to some of them"))
        } else {
            None
        };
        if let Some(problem) = refused {
            let id = id.chars().take(MAX_ID).collect();
            let reply =
                ServerBody::Reply { id, status: problem.status, result: None, problem: Some(problem) };
            return say(outbox, Some(session), reply);
        }
        self.commands = (self.commands.0 + 1, self.commands.1 + size);
        let (api, caller) = (self.api.clone(), self.caller.clone());
        self.pending.push(Box::pin(async move {
            let reply = commands::run(api, caller, id, session, command, key).await;
            Done::Replied(session, reply, size)
        }));
    }

    fn open(&mut self, terminal: u32, session: SessionId, spec: TerminalSpec) -> Result<(), Problem> {
        let sessions = self.app.allow(&self.caller, Action::Write, Resource::Session(session))?.clone();
        let generation = self.terminals().reserve(terminal, session)?;
        self.pending.push(Box::pin(async move {
            Done::Opened(terminal, generation, sessions.terminal(session, spec).await)
        }));
        Ok(())
    }

    fn terminals(&mut self) -> &mut Terminals {
        self.terminals.get_or_insert_with(|| Box::new(Terminals::new()))
    }
}

fn say(outbox: &mut Outbox, session: Option<SessionId>, body: ServerBody) {
    outbox.push_json(&ServerMessage::new(session, body));
}
