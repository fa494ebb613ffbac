//! Ways in for measurements: sessions without a turn, and events at any rate. Not part of the program.

use std::time::Instant;

use protocol::{Actor, Environment, EventBody, Problem, SessionId};

use crate::feed::Stream;
use crate::recorder::Recorder;
use crate::state::State;
use crate::{Sessions, problem};

impl Sessions {
    /// A session in which nothing happens.
    pub async fn create_quiet(&self, title: &str) -> Result<SessionId, Problem> {
        let store = &self.registry.options.store;
        let id = SessionId::new();
        let log = store.create_log(id).await.map_err(problem::store)?;
        let recorder = Recorder::new(log, store.clone(), Stream::new(id, State::new(id)));
        let created = EventBody::SessionCreated {
            environment: "none".to_owned(),
            recipe: Box::new(Environment::default()),
            title: title.to_owned(),
            model: "none".to_owned(),
            forked_from: None,
            budgets: protocol::Budgets::default(),
            origin: protocol::SessionOrigin::default(),
        };
        let paused = EventBody::QueuePaused { reason: "it is only measured".to_owned(), command: None };
        recorder.append(&Actor::system(), vec![created, paused]).await.map_err(problem::store)?;
        self.registry.begin(recorder)?;
        Ok(id)
    }

    /// Appends an event with this text, and tells whoever follows. Gives since when it is on disk.
    pub async fn tell(&self, id: SessionId, text: String) -> Result<Instant, Problem> {
        let handle = self.registry.open(id).await?;
        let told = vec![EventBody::MemoryChanged { text, remembered: None }];
        handle.recorder().append(&Actor::system(), told).await.map_err(problem::store)?;
        Ok(handle.recorder().confirmed_at().unwrap_or_else(Instant::now))
    }
}
