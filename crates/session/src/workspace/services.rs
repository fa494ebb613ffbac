//! The services of a sandbox that is in use: one that ended is told of, and started again within bounds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use protocol::event::ServiceState;
use protocol::{Actor, EventBody, Restart, SandboxId, Service};
use sandbox::Sandbox;
use sandbox::service::{self, Down};
use tokio::time::Instant;

use super::Workspace;
use crate::recorder::Recorder;
use crate::stop::Stop;

/// A service is started again so many times …
const RESTARTS: usize = 5;
/// … within this long, and then left alone until the first of them is as long ago.
const WINDOW: Duration = Duration::from_secs(600);
/// How often it is looked whether services have ended of which it is known that they must, and the pause between.
const LOOKS: (u32, Duration) = (100, Duration::from_millis(10));

/// What is known of services before they are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Nothing.
    Any,
    /// All of them were ended just now, together with everything else in the sandbox.
    Ended,
}

/// What is known of the services of one sandbox.
#[derive(Default)]
pub(super) struct Care {
    sandbox: Option<SandboxId>,
    /// When each was started again.
    restarts: BTreeMap<String, VecDeque<Instant>>,
    /// Those that are on their way up again.
    pending: BTreeSet<String>,
    /// Those that are down, were told of, and stay so.
    left: BTreeSet<String>,
    /// What the model is to be told.
    notes: Vec<String>,
}

/// What is to be done about a service.
enum Plan {
    Start(usize),
    Leave(String),
}

impl Care {
    /// What is known of another sandbox's services says nothing of this one's.
    fn of(&mut self, sandbox: SandboxId) -> &mut Self {
        if self.sandbox != Some(sandbox) {
            *self = Self { sandbox: Some(sandbox), ..Self::default() };
        }
        self
    }

    fn plan(&mut self, service: &Service, now: Instant) -> Plan {
        if service.restart == Restart::Never {
            return Plan::Leave("it is left so, as the environment says".to_owned());
        }
        let restarts = self.restarts.entry(service.name.clone()).or_default();
        restarts.retain(|at| now.duration_since(*at) < WINDOW);
        if restarts.len() >= RESTARTS {
            let minutes = WINDOW.as_secs() / 60;
            return Plan::Leave(format!(
                "it was started again {RESTARTS} times in {minutes} minutes and is left alone for now"
            ));
        }
        restarts.push_back(now);
        Plan::Start(restarts.len())
    }
}

impl Workspace {
    /// Looks after the services of a sandbox in use. One that ended is told of, and started again unless its policy or the
    /// bound is against it. It is up when this returns, or it was told why not.
    pub(crate) async fn tend(
        &self,
        recorder: &Arc<Recorder>,
        sandbox: &dyn Sandbox,
        stop: &Stop,
        expected: Expected,
    ) -> Result<(), store::Error> {
        let services = self.saved().map(|saved| saved.services).unwrap_or_default();
        if services.is_empty() {
            return Ok(());
        }
        let mut down = match look(sandbox, &services, expected).await {
            Ok(down) => down,
            // A sandbox that is gone shows when it is next asked for something that matters.
            Err(error) => {
                tracing::debug!(session = %self.session, %error, "services cannot be looked at");
                return Ok(());
            }
        };
        for service in &services {
            let ended = down.iter().position(|down| down.name == service.name).map(|at| down.remove(at));
            let was_pending = self.care(sandbox.id(), |care| care.pending.remove(&service.name));
            match ended {
                Some(ended) => self.revive(recorder, sandbox, service, ended, stop).await?,
                None if was_pending => self.bring_up(recorder, sandbox, service, stop).await?,
                None => {
                    self.care(sandbox.id(), |care| care.left.remove(&service.name));
                }
            }
        }
        Ok(())
    }

    /// Whether there is anything to look after.
    pub(crate) fn has_services(&self) -> bool {
        self.saved().is_some_and(|saved| !saved.services.is_empty())
    }

    /// What the model should know of services, once.
    pub(crate) fn take_service_notes(&self, sandbox: SandboxId) -> Vec<String> {
        self.care(sandbox, |care| std::mem::take(&mut care.notes))
    }

    fn care<T>(&self, sandbox: SandboxId, act: impl FnOnce(&mut Care) -> T) -> T {
        act(self.care.lock().unwrap_or_else(PoisonError::into_inner).of(sandbox))
    }

    /// Tells of a service that ended, and starts it again if that is to be done.
    async fn revive(
        &self,
        recorder: &Arc<Recorder>,
        sandbox: &dyn Sandbox,
        service: &Service,
        ended: Down,
        stop: &Stop,
    ) -> Result<(), store::Error> {
        let (id, name) = (sandbox.id(), &service.name);
        let Down { how, output, .. } = ended;
        let output = if output.is_empty() { output } else { format!("; the end of its output:\n{output}") };
        let plan = self.care(id, |care| care.plan(service, Instant::now()));
        match plan {
            Plan::Leave(why) => {
                if !self.care(id, |care| care.left.insert(name.clone())) {
                    return Ok(());
                }
                let detail = format!("it {how}; {why}{output}");
                self.tell_service(recorder, id, name, ServiceState::Down, detail).await?;
                self.note(id, format!(
                    "(The service {name} {how} and is down: {why}. Start it yourself in the background when you need it: \
                     {}{output})",
                    service.run
                ));
                Ok(())
            }
            Plan::Start(number) => {
                let detail = format!("it {how}; it is started again ({number} of {RESTARTS}){output}");
                self.tell_service(recorder, id, name, ServiceState::Down, detail).await?;
                let end = if output.is_empty() { "." } else { &output };
                self.note(id, format!("(The service {name} {how} and is started again{end})"));
                self.bring_up(recorder, sandbox, service, stop).await
            }
        }
    }

    /// Starts a service, or waits for one that was started, and tells how that went.
    async fn bring_up(
        &self,
        recorder: &Arc<Recorder>,
        sandbox: &dyn Sandbox,
        service: &Service,
        stop: &Stop,
    ) -> Result<(), store::Error> {
        let (id, name) = (sandbox.id(), &service.name);
        // Whoever waits may go away; then the next look goes on from here.
        self.care(id, |care| care.pending.insert(name.clone()));
        let up = tokio::select! {
            up = service::start(sandbox, std::slice::from_ref(service)) => up,
            () = stop.given() => return Ok(()),
        };
        self.care(id, |care| care.pending.remove(name));
        match up {
            Ok(took) => {
                let detail = format!("it took {} ms", took.as_millis());
                self.tell_service(recorder, id, name, ServiceState::Up, detail).await
            }
            Err(error) => {
                let problem = crate::problem::sandbox(&error);
                self.note(id, format!("(It is not up: {}.)", problem.title));
                self.tell_service(recorder, id, name, ServiceState::Down, problem.title).await
            }
        }
    }

    fn note(&self, sandbox: SandboxId, text: String) {
        self.care(sandbox, |care| care.notes.push(text));
    }

    async fn tell_service(
        &self,
        recorder: &Arc<Recorder>,
        sandbox: SandboxId,
        service: &str,
        state: ServiceState,
        detail: String,
    ) -> Result<(), store::Error> {
        let (service, detail) = (service.to_owned(), Some(detail));
        let event = EventBody::ServiceChanged { sandbox, service, state, detail };
        recorder.append(&Actor::system(), vec![event]).await?;
        Ok(())
    }
}

/// The services that are down.
async fn look(
    sandbox: &dyn Sandbox,
    services: &[Service],
    expected: Expected,
) -> Result<Vec<Down>, guest::Error> {
    let mut down = service::down(sandbox, services).await?;
    let (looks, pause) = LOOKS;
    for _ in 0..looks {
        if expected == Expected::Any || down.len() == services.len() {
            break;
        }
        // The guest needs a moment to see the end of each.
        tokio::time::sleep(pause).await;
        down = service::down(sandbox, services).await?;
    }
    Ok(down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_started_again_a_few_times_in_a_while_and_no_more() {
        let (mut care, now) = (Care::default(), Instant::now());
        let db = Service { name: "db".to_owned(), ..Service::default() };
        for number in 1..=RESTARTS {
            assert!(matches!(care.plan(&db, now), Plan::Start(one) if one == number));
        }
        assert!(matches!(care.plan(&db, now + WINDOW / 2), Plan::Leave(why) if why.contains("5 times")));
        assert!(matches!(care.plan(&db, now + WINDOW), Plan::Start(1)));
        let other = Service { name: "web".to_owned(), ..Service::default() };
        assert!(matches!(care.plan(&other, now), Plan::Start(1)), "each has its own bound");
        let never = Service { restart: Restart::Never, ..other };
        assert!(matches!(care.plan(&never, now), Plan::Leave(_)));
    }

    #[test]
    fn another_sandbox_begins_anew() {
        let mut care = Care::default();
        let (one, other) = (SandboxId::new(), SandboxId::new());
        care.of(one).left.insert("db".to_owned());
        assert!(care.of(one).left.contains("db"));
        assert!(care.of(other).left.is_empty());
    }
}
