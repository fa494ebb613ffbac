//! `fenced`: whole files and commands in fenced blocks, and a fresh context for each round: the task, the files as they are,
//! and what happened last. Small models lose themselves in a long conversation, and write whole files with fewer mistakes
//! than calls.

use protocol::chat::{Completion, Message, Part, Request, Stop};
use serde_json::json;

use super::blocks::{self, Block};
use super::{FileText, Mode, View};
use crate::answer::{self, normalise};
use crate::tools::cut;

#[derive(Debug)]
pub(super) struct Fenced;

impl Mode for Fenced {
    fn request(&self, view: &View<'_>) -> Request {
        Request {
            system: format!("{}\n{MANUAL}", view.system.trim_end()),
            messages: vec![Message::user(round(view))],
            max_output_tokens: view.max_output_tokens,
            ..Request::default()
        }
    }

    fn read(&self, view: &View<'_>, mut completion: Completion) -> Completion {
        if !completion.parts.iter().any(|part| matches!(part, Part::Call(_))) {
            let text: Vec<&str> = completion.parts.iter().filter_map(answer::text).collect();
            let paths: Vec<&str> = view.files.iter().map(|file| file.path.as_str()).collect();
            let first = answer::next_number(view.messages);
            let found = blocks::read(&text.join("\n"), &paths, completion.stop == Stop::Length);
            let calls = found.into_iter().enumerate().map(|(index, block)| {
                let (tool, arguments) = match block {
                    Block::File { path, text } => ("write", json!({"path": path, "content": text})),
                    Block::Command(command) => ("shell", json!({"command": command})),
                };
                Part::Call(answer::text_call(first + index, tool.to_owned(), arguments.to_string()))
            });
            completion.parts.extend(calls);
        }
        normalise(view.messages, completion)
    }

    fn in_rounds(&self) -> bool {
        true
    }
}

const MANUAL: &str = "\
Change a file by writing its path on a line of its own and then the whole new text of the file in a fenced block:

src/example.py
```python
the whole file, from its first line to its last
```

Never leave a part of a file out. Run a command with a block of its own:

```sh
ls src
```

After your answer the files are written, the commands and the checks are run, and you are shown what came of it.
";

/// What the model is shown in one round.
fn round(view: &View<'_>) -> String {
    let mut text = format!("The task:\n{}\n", cut(view.task.trim(), view.room));
    let shown: Vec<(&FileText, &String)> =
        view.files.iter().filter_map(|file| Some((file, file.text.as_ref()?))).collect();
    if !shown.is_empty() {
        text.push_str("\nThe files as they are now:\n");
    }
    for (file, content) in shown {
        let fence = blocks::fence_for(content);
        let end = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
        text.push_str(&format!("\n{}\n{fence}\n{content}{end}{fence}\n", file.path));
    }
    let names: Vec<&str> =
        view.files.iter().filter(|file| file.text.is_none()).map(|file| file.path.as_str()).collect();
    if !names.is_empty() {
        text.push_str(&format!("\nOther files: {}\n", names.join(", ")));
    }
    let last = last_round(view.messages);
    if !last.is_empty() {
        text.push_str(&format!("\nWhat happened in the last round:\n{}\n", cut(&last, view.room)));
    }
    // Explaining first helps in some cases and hurts in others, so a round that did not help is followed by the other way.
    text.push_str(if view.round.is_multiple_of(2) {
        "\nNow write the whole new text of each file that must change."
    } else {
        "\nFirst say in two sentences what is wrong and why. Then write the whole new text of each file that must change."
    });
    text
}

/// What came of the last answer, and what was said after it.
fn last_round(messages: &[Message]) -> String {
    let Some(last) = messages.iter().rposition(|message| matches!(message, Message::Assistant { .. })) else {
        return String::new();
    };
    let mut lines: Vec<String> = Vec::new();
    let calls: Vec<_> = answer::calls_of(&messages[last]).collect();
    for message in &messages[last + 1..] {
        match message {
            Message::Tools { results } => {
                for (call, result) in calls.iter().zip(results) {
                    let command = crate::tools::recorded_input(&call.arguments);
                    let line = match command.get("command").and_then(|command| command.as_str()) {
                        Some(command) => format!("$ {command}\n{}", result.text.trim_end()),
                        None => result.text.trim_end().to_owned(),
                    };
                    lines.push(line);
                }
            }
            Message::User { text, .. } => lines.push(text.trim_end().to_owned()),
            Message::Assistant { .. } => {}
        }
    }
    lines.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Usage;
    use protocol::chat::ToolResult;

    fn files() -> Vec<FileText> {
        let file =
            |path: &str, text: Option<&str>| FileText { path: path.into(), text: text.map(Into::into) };
        vec![file("calc.py", Some("def add(a, b):\n    return a - b\n")), file("setup.cfg", None)]
    }

    fn view<'a>(messages: &'a [Message], files: &'a [FileText], round: u32) -> View<'a> {
        View {
            system: "You work.",
            tools: &[],
            messages,
            task: "Fix add.",
            files,
            round,
            room: 500,
            max_output_tokens: 9,
        }
    }

    #[test]
    fn a_round_has_the_task_the_files_and_what_happened_last() {
        let files = files();
        let call = answer::text_call(1, "shell".into(), r#"{"command":"make test"}"#.into());
        let result = ToolResult { call_id: "text_1".into(), text: "1 failed".into(), is_error: true };
        let messages = [
            Message::user("Fix add."),
            Message::Assistant { parts: vec![Part::Call(call)] },
            Message::Tools { results: vec![result] },
            Message::user("test failed"),
        ];
        let request = Fenced.request(&view(&messages, &files, 1));
        assert_eq!(request.messages.len(), 1);
        let Message::User { text, .. } = &request.messages[0] else { panic!("{request:?}") };
        insta::assert_snapshot!(text, @"
        The task:
        Fix add.

        The files as they are now:

        calc.py
        ```
        def add(a, b):
            return a - b
        ```

        Other files: setup.cfg

        What happened in the last round:
        $ make test
        1 failed

        test failed

        First say in two sentences what is wrong and why. Then write the whole new text of each file that must change.
        ");
    }

    #[test]
    fn blocks_become_calls_once() {
        let files = files();
        let text = "calc.py\n```python\ndef add(a, b):\n    return a + b\n```\n\n```sh\nmake test\n```";
        let parts = vec![Part::Text { text: text.into() }];
        let completion = Completion { parts, stop: Stop::End, usage: Usage::default() };
        let once = Fenced.read(&view(&[], &files, 0), completion);
        let message = Message::Assistant { parts: once.parts.clone() };
        let calls: Vec<(&str, &str)> =
            answer::calls_of(&message).map(|call| (call.tool.as_str(), call.arguments.as_str())).collect();
        assert_eq!(
            calls,
            [
                ("write", r#"{"content":"def add(a, b):\n    return a + b\n","path":"calc.py"}"#),
                ("shell", r#"{"command":"make test"}"#)
            ]
        );
        assert_eq!(Fenced.read(&view(&[], &files, 0), once.clone()), once);
    }
}
