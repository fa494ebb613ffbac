//! Services: programs that run beside the work in a sandbox, up before the first prompt.
//!
//! Each is a process of the guest with an id of its own, so that whoever finds the sandbox again finds it too. They are
//! started in the order of the list, each when the one before is up, because a later one may need an earlier one.

mod probe;

use std::collections::BTreeSet;
use std::time::Duration;

use guest::wire::ProcessState;
use guest::{Exit, Output, ProcessSpec};
use protocol::Service;
use tokio::time::Instant;

use crate::{Error, Sandbox};
use probe::{Answer, Question};

/// The ids of their processes begin like this.
pub const PREFIX: &str = "service-";

/// It must be up within this long, unless the recipe says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest that a recipe can ask for.
const MOST_PATIENCE_S: u64 = 3600;
/// The first wait between two probes; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest wait between two probes.
const LAST_PAUSE: Duration = Duration::from_millis(500);
/// A service without a probe is up once it has run this long.
const SETTLED: Duration = Duration::from_secs(1);
/// How much of a service's output an error shows.
const TAIL: u64 = 2048;
/// How long the end of its output may take to arrive.
const TAIL_WAIT: Duration = Duration::from_secs(2);

/// Says what is wrong with a recipe's services: names that are no names or occur twice, and probes that cannot be asked.
pub fn check(services: &[Service]) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for service in services {
        let wrong = |what: &str, hint: &str| Error::Build {
            message: format!("service \"{}\": {what}", service.name.escape_debug()),
            hint: hint.to_owned(),
        };
        if !is_name(&service.name) {
            return Err(wrong(
                "this is no name for a service",
                "use up to 64 letters, digits, dashes and underscores, first a letter or a digit",
            ));
        }
        if !names.insert(&service.name) {
            return Err(wrong("there are two with this name", "give each service a name of its own"));
        }
        if service.run.trim().is_empty() {
            return Err(wrong("it has no command", "set `run` to the command that starts it"));
        }
        if service.timeout_s.is_some_and(|limit| limit == 0 || limit > MOST_PATIENCE_S) {
            return Err(wrong("`timeout_s` is out of range", "use a number of seconds from 1 to 3600"));
        }
        Question::of(&service.ready).map_err(|(what, hint)| wrong(&what, hint))?;
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    name.len() <= 64
        && name.chars().all(good)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Starts every service and returns when all are up. A service that does not come up is an error that shows the end of
/// its output. Those that run already are left alone, so that it can be called again after a restart.
pub async fn start(sandbox: &dyn Sandbox, services: &[Service]) -> Result<Duration, Error> {
    let began = Instant::now();
    check(services)?;
    for service in services {
        let running = Running { sandbox, service, id: format!("{PREFIX}{}", service.name) };
        running.bring_up().await?;
    }
    Ok(began.elapsed())
}

/// A service that does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Down {
    /// Its name.
    pub name: String,
    /// How it ended, in words.
    pub how: String,
    /// The end of its output.
    pub output: String,
}

/// The services of a sandbox that were started and do not run any more, in the order of the list. One question to the
/// guest where all is well.
pub async fn down(sandbox: &dyn Sandbox, services: &[Service]) -> Result<Vec<Down>, guest::Error> {
    let mut down = Vec::new();
    if services.is_empty() {
        return Ok(down);
    }
    let known = sandbox.guest().processes().await?;
    for service in services {
        let running = Running { sandbox, service, id: format!("{PREFIX}{}", service.name) };
        let (how, output) = match known.iter().find(|known| known.id == running.id) {
            Some(ProcessState { exit: None, .. }) => continue,
            Some(ProcessState { exit: Some(exit), output, .. }) => (how(exit), running.end_of(*output).await),
            // The guest remembers the last few hundred.
            None => ("ended some time ago".to_owned(), String::new()),
        };
        down.push(Down { name: service.name.clone(), how, output });
    }
    Ok(down)
}

fn how(exit: &Exit) -> String {
    match exit.signal {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("exited with {}", exit.code),
    }
}

/// One service on its way up.
struct Running<'a> {
    sandbox: &'a dyn Sandbox,
    service: &'a Service,
    id: String,
}

impl Running<'_> {
    async fn bring_up(&self) -> Result<(), Error> {
        let question = Question::of(&self.service.ready).map_err(|(what, hint)| self.failed(&what, hint))?;
        let guest = self.sandbox.guest();
        let known = self.state().await?;
        let was_running = known.as_ref().is_some_and(|known| known.exit.is_none());
        if !was_running {
            if known.is_some() {
                guest.forget(&self.id).await.map_err(|error| self.unreachable(&error))?;
            }
            let process = guest.start(&self.id, &shell(&self.service.run)).await;
            // Nobody follows it: the guest keeps the end of its output by itself.
            drop(process.map_err(|error| self.unreachable(&error))?);
        }
        self.wait(&question, was_running).await
    }

    /// Asks until it is up, has ended, or its time is over.
    async fn wait(&self, question: &Question, was_running: bool) -> Result<(), Error> {
        let guest = self.sandbox.guest();
        let began = Instant::now();
        let limit = match question {
            Question::None => SETTLED,
            _ => self.service.timeout_s.map_or(PATIENCE, Duration::from_secs),
        };
        let mut pause = FIRST_PAUSE;
        let mut said = None;
        loop {
            let left = limit.saturating_sub(began.elapsed());
            let answer = match question {
                Question::None if was_running || left.is_zero() => Answer::Up,
                Question::None => Answer::NotYet(String::new()),
                asked => asked.ask(guest, left).await.map_err(|error| self.unreachable(&error))?,
            };
            // Looked at after the probe: what answered may be a stranger on the port that this one wanted.
            let state = self.state().await?;
            let Some(state) = state.filter(|state| state.exit.is_none()) else {
                return Err(self.ended(question).await);
            };
            // What it said before tells more than that its last question was broken off.
            let why = match answer {
                Answer::Up => return Ok(()),
                Answer::NotYet(why) => said.insert(why),
                Answer::CutShort(why) => said.get_or_insert(why),
            };
            if left.is_zero() {
                return Err(self.late(question, limit, why, &state).await);
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn state(&self) -> Result<Option<ProcessState>, Error> {
        let known = self.sandbox.guest().processes().await.map_err(|error| self.unreachable(&error))?;
        Ok(known.into_iter().find(|known| known.id == self.id))
    }

    async fn ended(&self, question: &Question) -> Error {
        let how = match self.state().await.ok().flatten() {
            Some(ProcessState { exit: Some(exit), output, .. }) => {
                let how = how(&exit);
                format!("{how} before it was up ({question}){}", self.tail(output).await)
            }
            _ => format!("is gone before it was up ({question})"),
        };
        self.failed(&how, "correct its command; it must stay in the foreground and not make itself a daemon")
    }

    async fn late(&self, question: &Question, limit: Duration, why: &str, state: &ProcessState) -> Error {
        let said = if why.is_empty() { String::new() } else { format!(", last: {why}") };
        let seconds = limit.as_secs();
        let tail = self.tail(state.output).await;
        self.failed(
            &format!("runs but was not up within {seconds} s ({question}{said}){tail}"),
            "correct its command or its `ready` probe, or raise its `timeout_s`",
        )
    }

    /// The end of its output, ready to stand in a message.
    async fn tail(&self, output: u64) -> String {
        if output == 0 {
            return "; it wrote nothing".to_owned();
        }
        match self.end_of(output).await.as_str() {
            "" => String::new(),
            shown => format!("; the end of its output:\n{shown}"),
        }
    }

    /// The end of its output as plain text.
    async fn end_of(&self, output: u64) -> String {
        if output == 0 {
            return String::new();
        }
        let mut text = Vec::new();
        // What cannot be read in time is left out: the message has more important things to say.
        let _late = tokio::time::timeout(TAIL_WAIT, self.read_tail(output, &mut text)).await;
        let from = text.len().saturating_sub(usize::try_from(TAIL).unwrap_or(usize::MAX));
        let text = String::from_utf8_lossy(&text[from..]);
        let shown: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        shown.trim().to_owned()
    }

    async fn read_tail(&self, output: u64, text: &mut Vec<u8>) {
        let Ok(mut process) = self.sandbox.guest().attach(&self.id, output.saturating_sub(TAIL)).await else {
            return;
        };
        while let Ok(Some(Output::Stdout { offset, data } | Output::Stderr { offset, data })) =
            process.next().await
        {
            text.extend_from_slice(&data);
            if offset + data.len() as u64 >= output {
                return;
            }
        }
    }

    fn unreachable(&self, error: &guest::Error) -> Error {
        let hint = match error {
            guest::Error::Unavailable(_) => "the sandbox ended over it; does it need more memory?",
            guest::Error::NotFound(_) | guest::Error::Refused(_) => {
                "is there a shell in the environment's base?"
            }
        };
        self.failed(&format!("could not be started: {error}"), hint)
    }

    fn failed(&self, what: &str, hint: &str) -> Error {
        let name = &self.service.name;
        Error::Build { message: format!("service {name} {what}"), hint: hint.to_owned() }
    }
}

/// A service's own command, that runs for as long as it likes.
fn shell(command: &str) -> ProcessSpec {
    ProcessSpec {
        env: [("TERM".to_owned(), "dumb".to_owned())].into(),
        ..crate::shell::command(command, None)
    }
}

#[cfg(test)]
mod tests {
    use protocol::Probe;

    use super::*;

    fn service(name: &str) -> Service {
        Service { name: name.to_owned(), run: "sleep 9".to_owned(), ..Service::default() }
    }

    #[test]
    fn what_cannot_be_started_is_said_before_anything_is() {
        check(&[service("db"), service("web-1")]).unwrap();
        let two = Probe { tcp: Some(1), run: Some("true".to_owned()), ..Probe::default() };
        let far = Probe { http: Some("http://example.com/".to_owned()), ..Probe::default() };
        for (services, says) in [
            (vec![service("a b")], "no name"),
            (vec![service("-a")], "no name"),
            (vec![service("")], "no name"),
            (vec![service(&"x".repeat(65))], "no name"),
            (vec![service("db"), service("db")], "two with this name"),
            (vec![Service { run: " ".to_owned(), ..service("db") }], "no command"),
            (vec![Service { timeout_s: Some(0), ..service("db") }], "timeout_s"),
            (vec![Service { ready: two, ..service("db") }], "more than one"),
            (vec![Service { ready: far, ..service("db") }], "loopback"),
        ] {
            let error = check(&services).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
