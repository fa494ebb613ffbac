//! Tells a client how far a long call is, if it asked to be told.

use protocol::event::{DeliveryState, SandboxState};
use protocol::{Event, EventBody, ItemKind};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};

use super::answer::cut;
use crate::render::{live, text};

/// Longest message.
const MESSAGE: usize = 300;

/// The progress of one call.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    told: u32,
}

impl Progress {
    pub(super) fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { peer, token, told: 0 }
    }

    /// Says what happens now. The number only says that it goes on: nobody knows how much is left.
    pub(super) async fn tell(&mut self, message: &str) {
        let Some(token) = &self.token else { return };
        self.told += 1;
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(self.told));
        let told = self.peer.notify_progress(progress.with_message(cut(message, MESSAGE))).await;
        if let Err(error) = told {
            tracing::debug!(%error, "the client cannot be told of progress");
        }
    }
}

/// An event in a few words, if it is worth telling while one waits.
pub(super) fn words(event: &Event) -> Option<String> {
    match &event.body {
        EventBody::TurnStarted { .. } => Some("work on the prompt begins".to_owned()),
        EventBody::SandboxChanged { state, detail, .. } => {
            let detail = detail.as_deref().map(|detail| format!(": {}", text::harmless(detail)));
            let word = match state {
                SandboxState::Building => "the image is being built",
                SandboxState::Preparing => "the workspace is being prepared",
                SandboxState::Ready => return Some("the workspace is ready".to_owned()),
                SandboxState::Lost => "the sandbox was lost",
                SandboxState::Creating | SandboxState::Syncing | SandboxState::Stopped => return None,
            };
            Some(format!("{word}{}", detail.unwrap_or_default()))
        }
        EventBody::ItemStarted { item, .. } => match &item.kind {
            ItemKind::ToolCall(call) => Some(live::describe(call)),
            ItemKind::Report(report) => Some(format!("check {}", text::harmless(&report.check))),
            _ => None,
        },
        EventBody::ItemCompleted { item, .. } => match &item.kind {
            ItemKind::Message { text: words } if !words.trim().is_empty() => {
                Some(text::first_line(&text::harmless(words.trim())))
            }
            _ => None,
        },
        EventBody::RetryScheduled { reason, .. } => Some(format!("tried again: {}", text::harmless(reason))),
        EventBody::DeliveryUpdated(delivery) => match delivery.state {
            DeliveryState::Intended => Some("the branch is being pushed".to_owned()),
            DeliveryState::Opening => Some("the pull request is being opened".to_owned()),
            DeliveryState::Pushed
            | DeliveryState::Opened
            | DeliveryState::Failed
            | DeliveryState::Unknown => None,
        },
        _ => None,
    }
}
