//! Notifications. The intent is appended with the event that it tells of; a task of its own sends it, so no turn waits for
//! it. The key follows from what is told: a receiver that gets one twice, because a server died between the answer and the
//! log, knows it by that.

use std::sync::Arc;
use std::time::Duration;

use forge::{Refusal, Webhook};
use protocol::{Actor, EventBody, Notification, NotificationKind, NotificationState, SessionId};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::Patience;
use crate::recorder::Recorder;
use crate::state::State;

/// How long a server that ends waits for requests that are under way.
const GRACE: Duration = Duration::from_secs(3);

/// The notifications of one server. Dropping it ends what is under way.
pub(crate) struct Notifier {
    sender: Arc<Sender>,
    _ends: DropGuard,
}

/// Sends notifications, each in a task of its own.
pub(crate) struct Sender {
    webhook: Arc<Webhook>,
    patience: Patience,
    /// No more waiting.
    closing: CancellationToken,
    /// No more anything.
    ended: CancellationToken,
    tasks: TaskTracker,
}

impl Notifier {
    pub(crate) fn new(webhook: Arc<Webhook>, patience: Patience) -> Self {
        let ended = CancellationToken::new();
        let sender = Sender {
            webhook,
            patience,
            closing: CancellationToken::new(),
            ended: ended.clone(),
            tasks: TaskTracker::new(),
        };
        Self { sender: Arc::new(sender), _ends: ended.drop_guard() }
    }

    pub(crate) fn sender(&self) -> &Arc<Sender> {
        &self.sender
    }

    /// Lets requests that are under way come to their end, within reason. What is not sent then is the next server's.
    pub(crate) async fn close(&self) {
        let Sender { closing, ended, tasks, .. } = &*self.sender;
        closing.cancel();
        tasks.close();
        if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
            ended.cancel();
            tasks.wait().await;
        }
    }
}

impl Sender {
    /// Sends a notification that the log intends.
    pub(crate) fn send(self: &Arc<Self>, recorder: &Arc<Recorder>, notification: Notification) {
        let (this, recorder) = (Arc::clone(self), Arc::clone(recorder));
        drop(self.tasks.spawn(async move {
            tokio::select! {
                () = this.ended.cancelled() => {}
                () = this.bring(&recorder, notification) => {}
            }
        }));
    }

    async fn bring(&self, recorder: &Arc<Recorder>, mut notification: Notification) {
        let document = document(recorder.session(), &notification);
        loop {
            let refusal = match self.webhook.post(&notification.key, &document).await {
                Ok(()) => {
                    failpoint::hit(failpoint::Point::Notified);
                    let sent = Notification { state: NotificationState::Sent, error: None, ..notification };
                    record(recorder, sent).await;
                    return;
                }
                Err(refusal) => refusal,
            };
            notification.attempts += 1;
            notification.error = Some(refusal.to_string());
            let wait = match refusal {
                Refusal::Later { wait, .. } => self.patience.wait(notification.attempts, wait),
                Refusal::Final { .. } => None,
            };
            let Some(wait) = wait else {
                record(recorder, Notification { state: NotificationState::Failed, ..notification }).await;
                return;
            };
            if !record(recorder, notification.clone()).await {
                return;
            }
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

/// Says of notifications that nobody can send any more that they were given up: there is no address for them.
pub(crate) async fn give_up(recorder: &Arc<Recorder>, notifications: Vec<Notification>) {
    for notification in notifications {
        let error = Some("no webhook is configured any more".to_owned());
        record(recorder, Notification { state: NotificationState::Failed, error, ..notification }).await;
    }
}

/// Records how far a notification is; what cannot be recorded is sent again by the next server, with the same key.
async fn record(recorder: &Arc<Recorder>, notification: Notification) -> bool {
    let recorded =
        recorder.append(&Actor::system(), vec![EventBody::NotificationUpdated(notification)]).await;
    if let Err(error) = &recorded {
        tracing::warn!(session = %recorder.session(), %error, "a notification could not be recorded");
    }
    recorded.is_ok()
}

/// The notifications that these events call for, from the state before them.
pub(crate) fn intents(state: &State, bodies: &[EventBody]) -> Vec<EventBody> {
    bodies.iter().filter_map(|body| intent(state, body)).map(EventBody::NotificationUpdated).collect()
}

fn intent(state: &State, body: &EventBody) -> Option<Notification> {
    let title = state.created()?.title.clone();
    let session = state.id();
    let open = state.turn();
    match body {
        EventBody::TurnFinished { turn, outcome, reason, .. } => {
            let open = open.filter(|open| open.id == *turn)?;
            let delivery = open.delivery.as_ref();
            Some(Notification {
                key: format!("{session}.{turn}.finished"),
                state: NotificationState::Intended,
                kind: NotificationKind::TurnFinished,
                turn: *turn,
                title,
                outcome: Some(*outcome),
                text: reason.clone(),
                approval: None,
                branch: delivery.map(|delivery| delivery.branch.clone()),
                url: delivery.and_then(|delivery| delivery.url.clone()),
                attempts: 0,
                error: None,
            })
        }
        EventBody::ApprovalRequested { approval, turn, question, .. } => Some(Notification {
            key: format!("{session}.{approval}.waiting"),
            state: NotificationState::Intended,
            kind: NotificationKind::ApprovalRequested,
            turn: *turn,
            title,
            outcome: None,
            text: Some(question.clone()),
            approval: Some(*approval),
            branch: None,
            url: None,
            attempts: 0,
            error: None,
        }),
        _ => None,
    }
}

/// What the receiver gets: the same for the same key, whenever it is sent.
fn document(session: SessionId, notification: &Notification) -> serde_json::Value {
    let Notification { key, kind, turn, title, outcome, text, approval, branch, url, .. } = notification;
    serde_json::json!({
        "v": 1,
        "key": key,
        "kind": kind,
        "session": session,
        "title": title,
        "turn": turn,
        "outcome": outcome,
        "text": text,
        "approval": approval,
        "branch": branch,
        "url": url,
    })
}
