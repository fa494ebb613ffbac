//! Terminals: a person's shell in the session's sandbox, beside the agent's work.

use std::time::Duration;

use protocol::event::SandboxState;
use protocol::{EventBody, Outcome};
use serde_json::json;
use session::{Sessions, Terminal, TerminalOutput, TerminalSpec};
use testkit::model::Script;

use crate::support::{Follow, World, create};

/// What was printed so far, and the way in.
pub(crate) struct Screen {
    terminal: Terminal,
    text: String,
}

impl Screen {
    pub(crate) async fn open(sessions: &Sessions, id: protocol::SessionId, name: Option<&str>) -> Self {
        let spec = TerminalSpec { name: name.map(str::to_owned), columns: 100, rows: 50 };
        Self { terminal: sessions.terminal(id, spec).await.unwrap(), text: String::new() }
    }

    pub(crate) async fn write(&self, line: &str) {
        self.terminal.input().write(format!("{line}\n").into()).await.unwrap();
    }

    /// Reads until this was printed; what is typed is printed as well, so it must not be in the command.
    pub(crate) async fn until(&mut self, wanted: &str) {
        while !self.text.contains(wanted) {
            match self.terminal.next().await.unwrap() {
                TerminalOutput::Data(data) => self.text.push_str(&String::from_utf8_lossy(&data)),
                TerminalOutput::Exit(code) => panic!("it ended with {code}: {}", self.text),
            }
        }
    }

    async fn exit(mut self) -> i32 {
        loop {
            if let TerminalOutput::Exit(code) = self.terminal.next().await.unwrap() {
                return code;
            }
        }
    }
}

fn sandbox_is(state: SandboxState) -> impl Fn(&EventBody) -> bool {
    move |body| matches!(body, EventBody::SandboxChanged { state: now, .. } if *now == state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_works_beside_the_agent_and_nothing_of_it_is_in_the_log() {
    let wait = "echo begun; while [ ! -e go ]; do sleep 0.02; done; rm go";
    let script = Script::new().call("shell", json!({ "command": wait })).say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Wait for me").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    let mut screen = Screen::open(&sessions, id, None).await;
    screen.write("pwd; echo $((6 * 7)) of $COLUMNS; stty size").await;
    screen.until("42 of").await;
    screen.until("50 100").await;
    assert!(screen.text.contains("/workspace"), "{}", screen.text);
    screen.terminal.input().resize(132, 43).await.unwrap();
    screen.write("stty size").await;
    screen.until("43 132").await;
    screen.write("touch go").await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    screen.write("exit 3").await;
    assert_eq!(screen.exit().await, 3);
    let told = serde_json::to_string(&follow.events).unwrap();
    assert!(!told.contains("touch go") && !told.contains("43 132"), "{told}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_keeps_the_sandbox_and_brings_back_one_that_was_stopped() {
    let world = World::new(Script::new().say("Hello.")).await.idle(Duration::from_millis(200));
    let sessions = world.start().await;
    let id = create(&sessions, "Say hello").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    follow.until(sandbox_is(SandboxState::Stopped)).await;

    let mut screen = Screen::open(&sessions, id, None).await;
    follow.until(sandbox_is(SandboxState::Ready)).await;
    // Longer than an idle sandbox lives.
    screen.write("sleep 0.6; echo here > mine.txt; echo still $((1 + 1))").await;
    screen.until("still 2").await;
    screen.terminal.input().close().await;
    screen.exit().await;
    follow.until(sandbox_is(SandboxState::Stopped)).await;
    let mut screen = Screen::open(&sessions, id, None).await;
    screen.write("cat mine.txt | tr e E").await;
    screen.until("hErE").await;
    drop(screen);
    follow.until(sandbox_is(SandboxState::Stopped)).await;
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_with_a_name_is_taken_up_again() {
    let world = World::new(Script::new().say("Hello.")).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Say hello").await;
    Follow::new(&sessions, id).await.finished().await;
    let mut screen = Screen::open(&sessions, id, Some("main")).await;
    screen.write("word=kept; echo $((20 + 1)) said").await;
    screen.until("21 said").await;
    drop(screen);
    let mut again = Screen::open(&sessions, id, Some("main")).await;
    again.until("21 said").await;
    again.write("echo it was $word").await;
    again.until("it was kept").await;
    // Two may look at one terminal.
    let mut other = Screen::open(&sessions, id, Some("main")).await;
    other.write("echo $((30 + 3)) for both").await;
    again.until("33 for both").await;
    other.until("33 for both").await;
    drop(again);
    other.write("exit").await;
    assert_eq!(other.exit().await, 0);

    // One that ended begins anew, and names are looked at.
    let mut new = Screen::open(&sessions, id, Some("main")).await;
    new.write("echo it was ${word:-gone}").await;
    new.until("it was gone").await;
    let spec = TerminalSpec { name: Some("../../x".to_owned()), columns: 80, rows: 24 };
    assert_eq!(sessions.terminal(id, spec).await.err().unwrap().code, protocol::Code::BadRequest);
    drop(new);
    world.end(sessions).await;
}
