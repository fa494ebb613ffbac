//! A model whose answers follow from the conversation and nothing else: asked again after a crash it says the same, and told
//! that something was interrupted it does that again.

use protocol::chat::{Call, Message, Part, ToolResult};
use serde_json::{Value, json};
use testkit::model::{Reply, Script};

/// What can be asked for, as the first words of a prompt; a number follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Writes a wrong answer, is told so by the check, and writes the right one.
    Mend,
    /// Runs two commands that each leave a line behind, and say something before and after.
    Count,
    /// Reads a file and changes nothing.
    Look,
    /// Runs a command that does not end.
    Hang,
    /// Shows the lines that the commands left behind.
    Tally,
}

impl Task {
    const ALL: [Self; 5] = [Self::Mend, Self::Count, Self::Look, Self::Hang, Self::Tally];

    fn word(self) -> &'static str {
        match self {
            Self::Mend => "mend",
            Self::Count => "count",
            Self::Look => "look",
            Self::Hang => "hang",
            Self::Tally => "tally",
        }
    }

    /// The prompt.
    pub(super) fn prompt(self, number: usize) -> String {
        format!("task {} {number}", self.word())
    }

    /// The task of a prompt and its number.
    pub(super) fn parse(text: &str) -> Option<(Self, usize)> {
        let line = text.lines().rev().find(|line| line.starts_with("task "))?;
        let mut words = line.split(' ').skip(1);
        let word = words.next()?;
        Some((Self::ALL.into_iter().find(|task| task.word() == word)?, words.next()?.parse().ok()?))
    }
}

/// The file that commands leave their lines in.
pub(super) const COUNTER: &str = "counter.txt";

/// The script.
pub(super) fn script() -> Script {
    Script::from_fn(|request, _| answer(&request.messages))
}

/// A call, and whether what it did is there.
struct Done {
    arguments: Value,
    well: bool,
}

fn answer(messages: &[Message]) -> Reply {
    let task = |message: &Message| match message {
        Message::User { text, .. } => Task::parse(text),
        Message::Assistant { .. } | Message::Tools { .. } => None,
    };
    let Some(place) = messages.iter().rposition(|message| task(message).is_some()) else {
        return Reply::text("There is nothing to do.");
    };
    let (task, number) = task(&messages[place]).unwrap();
    let since = &messages[place + 1..];
    // With its sandbox everything went that was done in this turn.
    let lost = |message: &Message| matches!(message, Message::User { text, .. } if text.contains("since then are gone"));
    let valid = since.iter().rposition(lost).map_or(0, |place| place + 1);
    let (gone, since) = since.split_at(valid);
    let mut done = calls(gone);
    done.iter_mut().for_each(|call| call.well = false);
    done.extend(calls(since));
    match task {
        Task::Mend => mend(since, &done, number),
        Task::Count => ["one", "two"]
            .into_iter()
            .find_map(|step| command(&done, &format!("count-{number}-{step}"), true))
            .unwrap_or_else(|| Reply::text("Counted.")),
        Task::Look => call_once(&done, "read", json!({"path": "answer.txt"}), "Looked."),
        Task::Hang => {
            command(&done, &format!("hang-{number}"), false).unwrap_or_else(|| Reply::text("Gone on."))
        }
        Task::Tally => call_once(&done, "shell", json!({"command": format!("cat {COUNTER}")}), "Told."),
    }
}

/// The calls in these messages with their results, oldest first.
fn calls(messages: &[Message]) -> Vec<Done> {
    let results: Vec<&ToolResult> = messages
        .iter()
        .flat_map(|message| match message {
            Message::Tools { results } => &results[..],
            Message::User { .. } | Message::Assistant { .. } => &[],
        })
        .collect();
    let parts = messages.iter().flat_map(|message| match message {
        Message::Assistant { parts } => &parts[..],
        Message::User { .. } | Message::Tools { .. } => &[],
    });
    let done = |call: &Call| Done {
        arguments: serde_json::from_str(&call.arguments).unwrap_or_default(),
        well: results
            .iter()
            .any(|result| result.call_id == call.id && !result.text.starts_with("interrupted:")),
    };
    parts
        .filter_map(|part| match part {
            Part::Call(call) => Some(done(call)),
            Part::Text { .. } | Part::Reasoning { .. } => None,
        })
        .collect()
}

fn mend(since: &[Message], done: &[Done], number: usize) -> Reply {
    let note = json!({"path": format!("notes/{number}.txt"), "content": format!("{number}\n")});
    let wrong = json!({"path": "answer.txt", "content": "41\n"});
    let right = json!({"path": "answer.txt", "content": "42\n"});
    let written = |what: &Value| done.iter().any(|call| call.arguments == *what && call.well);
    let told = since
        .iter()
        .any(|message| matches!(message, Message::User { text, .. } if text.contains("expected 42")));
    match (written(&wrong) && written(&note), told, written(&right)) {
        (false, _, _) => Reply::text("I begin.").call("write", note).call("write", wrong),
        (true, false, _) => Reply::text("Finished, I think."),
        (true, true, false) => Reply::new().call("write", right),
        (true, true, true) => Reply::text("Finished."),
    }
}

/// Runs a command until it was not interrupted; each attempt leaves a line of its own. None when it has ended.
fn command(done: &[Done], name: &str, ends: bool) -> Option<Reply> {
    let of_it = |call: &&Done| call.arguments["command"].as_str().is_some_and(|text| text.contains(name));
    let attempts: Vec<&Done> = done.iter().filter(of_it).collect();
    if attempts.iter().any(|call| call.well) {
        return None;
    }
    let token = format!("{name}-{}", attempts.len());
    let rest = if ends { "sleep 0.1; echo end" } else { "sleep 600" };
    let line = format!("echo begin; sleep 0.1; echo {token} >> {COUNTER}; echo left; {rest}");
    Some(Reply::new().call("shell", json!({"command": line})))
}

/// Makes a call until it has a good result, then says something.
fn call_once(done: &[Done], tool: &str, arguments: Value, then: &str) -> Reply {
    if done.iter().any(|call| call.arguments == arguments && call.well) {
        Reply::text(then)
    } else {
        Reply::new().call(tool, arguments)
    }
}
