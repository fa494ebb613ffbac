//! `fenced`: whole files and commands in fenced blocks, and a fresh context for each round: the task, the files as they are,
//! and what happened last. Small models lose themselves in a long conversation, and write whole files with fewer mistakes
//! than calls.

use std::collections::HashSet;

use protocol::chat::{Call, Completion, Image, Message, Part, Request, Stop};
use serde_json::json;

use super::blocks::{self, Block, Missing};
use super::{FileText, Mode, View};
use crate::answer::{self, with_calls_in_text};
use crate::history::Past;
use crate::loose::beside_thoughts;
use crate::notes;
use crate::tools::{self, cut};

#[derive(Debug)]
pub(super) struct Fenced;

impl Mode for Fenced {
    fn request(&self, view: &View<'_>) -> Request {
        Request {
            system: format!("{}\n{}", view.system.trim_end(), manual(view.files)),
            messages: vec![Message::User { text: round(view), images: images(view) }],
            max_output_tokens: view.max_output_tokens,
            temperature: Some(temperature(view.round)),
            ..Request::default()
        }
    }

    fn read(&self, view: &View<'_>, mut completion: Completion) -> Completion {
        if !completion.parts.iter().any(|part| matches!(part, Part::Call(_))) {
            let text: Vec<&str> = completion.parts.iter().filter_map(answer::text).collect();
            let paths: Vec<&str> = view.files.iter().map(|file| file.path.as_str()).collect();
            let first = answer::next_number(view.messages);
            let (mut found, _) =
                blocks::blocks_and_missing(&text.join("\n"), &paths, is_cut_off(completion.stop));
            leave_tests(&mut found, view.files);
            let calls = found.into_iter().enumerate().map(|(index, block)| {
                let (tool, arguments) = match block {
                    Block::File { path, text } => {
                        ("write", json!({"path": meant(path, &text, view.files), "content": text}))
                    }
                    Block::Command(command) => ("shell", json!({"command": command})),
                };
                Part::Call(answer::text_call(first + index, tool.to_owned(), arguments.to_string()))
            });
            completion.parts.extend(calls);
        }
        with_calls_in_text(view.messages, completion)
    }

    fn refuses(&self, call: &Call) -> Option<String> {
        let input = tools::recorded_input(&call.arguments);
        let said = |name: &str| input.get(name).and_then(|value| value.as_str());
        (call.tool == "write").then(|| blocks::refusal(said("path")?, said("content").unwrap_or_default()))?
    }

    fn left_out(&self, view: &View<'_>, words: &str, stop: Stop) -> Option<String> {
        let paths: Vec<&str> = view.files.iter().map(|file| file.path.as_str()).collect();
        let cut_off = is_cut_off(stop);
        let (found, missing) =
            blocks::blocks_and_missing(beside_thoughts(words).unwrap_or_default(), &paths, cut_off);
        let mut told: Vec<String> = Vec::new();
        if cut_off {
            let half = missing.iter().find_map(|missing| match missing {
                Missing::Half(name) => Some(name.as_deref().unwrap_or("the last file")),
                Missing::Unnamed(_) => None,
            });
            let lacks = match half {
                Some(name) => format!("Only the beginning of {name} came, so {name} was not written."),
                None => "What was to come after that is missing.".to_owned(),
            };
            told.push(format!(
                "Not all of your answer was written: it was cut off at the token limit. {lacks} What came whole before it is done. Write what is missing, and nothing else. If nothing is, say so."
            ));
        }
        let texts = found.iter().filter_map(|block| match block {
            Block::File { text, .. } => Some(text.as_str()),
            Block::Command(_) => None,
        });
        let texts: Vec<&str> =
            texts.chain(view.files.iter().filter_map(|file| file.text.as_deref())).collect();
        for missing in missing {
            if let Missing::Unnamed(code) = missing
                && !texts.iter().any(|text| is_part(&code, text))
            {
                let first = code.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                told.push(format!(
                    "Not all of your answer was written: the block that begins with `{}` does not say which file it is. Write the path on a line of its own, and then the whole new text of the file in a fenced block. If it was only to show something, say so.",
                    one_line(first, EARLIER_ANSWER)
                ));
            }
        }
        (!told.is_empty()).then(|| told.join("\n"))
    }

    fn in_rounds(&self) -> bool {
        true
    }
}

fn is_cut_off(stop: Stop) -> bool {
    matches!(stop, Stop::Length | Stop::Window)
}

/// Whether all lines of some code are those of a text: it only quotes.
fn is_part(code: &str, text: &str) -> bool {
    let there: HashSet<&str> = text.lines().map(str::trim).collect();
    code.lines().all(|line| there.contains(line.trim()) || line.trim().is_empty())
}

/// How answers are written. The example is a file that is there: small models write what they see, and would make a
/// directory of an example's.
fn manual(files: &[FileText]) -> String {
    let shown = files.iter().find(|file| file.text.is_some());
    let path = shown.map_or("notes.txt", |file| file.path.as_str());
    let language = blocks::language(path);
    format!(
        "\
Change a file by writing its path on a line of its own, and then the whole new text of the file in a fenced block:

{path}
```{language}
the whole file, from its first line to its last
```

Never leave a part of a file out. Leave out the files that stay as they are, and tests unless the task is about them. Run a command with a block of its own:

```sh
ls
```

The files are then written, the commands and the checks are run, and you are shown what came of it.
"
    )
}

/// Takes away tests that are there already from an answer that changes something else. Small models write all files that they
/// were shown, and tests come out changed. Who means it writes the test in the next round, where the rest is as it should be.
fn leave_tests(found: &mut Vec<Block>, files: &[FileText]) {
    let text_of =
        |path: &str| files.iter().find(|file| file.path == path).and_then(|file| file.text.as_deref());
    let changes = found.iter().any(|block| match block {
        Block::File { path, text } => !tools::is_test(path) && text_of(path) != Some(text.as_str()),
        Block::Command(_) => false,
    });
    found.retain(|block| match block {
        Block::File { path, .. } => !(changes && tools::is_test(path) && text_of(path).is_some()),
        Block::Command(_) => true,
    });
}

/// The file that is meant by a path where there is none: the one file of that name that defines some of the same, in another
/// directory. Small models make directories up.
fn meant(path: String, text: &str, files: &[FileText]) -> String {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    if files.iter().any(|file| file.path == path) {
        return path;
    }
    let same = |file: &&FileText| {
        let known = file.text.as_deref().unwrap_or_default();
        name(&file.path) == name(&path) && tools::define_the_same(known, text)
    };
    let mut found = files.iter().filter(same);
    match (found.next(), found.next()) {
        (Some(one), None) => one.path.clone(),
        _ => path,
    }
}

/// Most characters of an earlier prompt, and of what came of it.
const EARLIER_PROMPT: usize = 300;
const EARLIER_ANSWER: usize = 200;

/// Little chance at first, since the likeliest answer of a small model is its best one; then more and more, since the same
/// question would get the same answer.
fn temperature(round: u32) -> f64 {
    match round {
        0 => 0.2,
        1 => 0.5,
        _ => 0.8,
    }
}

/// What the model is shown in one round.
fn round(view: &View<'_>) -> String {
    let over = view.earlier.len().saturating_sub(view.prompts.len().saturating_sub(1));
    let mut text = earlier(&view.earlier[..over], view.room / 4);
    text.push_str(&format!("The task:\n{}\n", cut(view.task.trim(), view.task_room)));
    // A context that is made anew in each round has them in each.
    let notes: Vec<&str> = since_prompt(view.messages, view.prompts)
        .iter()
        .filter(|message| notes::is_given(message))
        .filter_map(
            |message| if let Message::User { text, .. } = message { Some(text.as_str()) } else { None },
        )
        .collect();
    if !notes.is_empty() {
        text.push_str(&format!("\n{}\n", cut(&notes.join("\n\n"), view.room / 2)));
    }
    for guide in view.guides {
        text.push_str(&format!("\n{guide}\n"));
    }
    let shown: Vec<(&FileText, &String)> =
        view.files.iter().filter_map(|file| Some((file, file.text.as_ref()?))).collect();
    if !shown.is_empty() {
        text.push_str("\nThe files as they are now:\n");
    }
    for (file, content) in shown {
        let fence = blocks::fence_for(content);
        let end = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
        // As the answer is to have them, since small models write what they see.
        let language = blocks::language(&file.path);
        text.push_str(&format!("\n{}\n{fence}{language}\n{content}{end}{fence}\n", file.path));
    }
    let names: Vec<&str> =
        view.files.iter().filter(|file| file.text.is_none()).map(|file| file.path.as_str()).collect();
    if !names.is_empty() {
        text.push_str(&format!("\nOther files: {}\n", names.join(", ")));
    }
    let last = last_round(view.messages, view.prompts);
    if !last.is_empty() {
        text.push_str(&format!("\nWhat happened last:\n{}\n", cut(&last, view.room)));
    }
    // Explaining first helps in some cases and hurts in others, so a round that did not help is followed by the other way.
    text.push_str(if view.round.is_multiple_of(2) {
        "\nNow write the whole new text of each file that must change."
    } else {
        "\nFirst say in two sentences what is wrong and why. Then write the whole new text of each file that must change."
    });
    text
}

/// The images of the task. A prompt of an earlier turn has words for its own at its end.
fn images(view: &View<'_>) -> Vec<Image> {
    let is_prompt =
        |text: &str| !text.is_empty() && view.prompts.iter().any(|prompt| prompt.starts_with(text));
    let shown = view.messages.iter().filter_map(|message| match message {
        Message::User { text, images } if is_prompt(text) => Some(images),
        Message::User { .. } | Message::Assistant { .. } | Message::Tools { .. } => None,
    });
    shown.flatten().cloned().collect()
}

/// What was asked before and what came of it, the last turns that fit.
fn earlier(turns: &[Past], room: usize) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut size = 0;
    for turn in turns.iter().rev() {
        let mut lines = vec![format!("- The user asked: {}", one_line(&turn.prompt, EARLIER_PROMPT))];
        if !turn.ended.is_empty() {
            lines.push(format!("  It ended as {}", one_line(&turn.ended, EARLIER_ANSWER)));
        }
        if !turn.changed.is_empty() {
            lines.push(format!("  Files written: {}", turn.changed.join(", ")));
        }
        if !turn.said.is_empty() {
            lines.push(format!("  You said: {}", one_line(&turn.said, EARLIER_ANSWER)));
        }
        let text = lines.join("\n");
        size += text.len();
        if size > room && !shown.is_empty() {
            break;
        }
        shown.push(text);
    }
    if shown.is_empty() {
        return String::new();
    }
    shown.reverse();
    format!("Earlier in this session, and over:\n{}\n\n", shown.join("\n"))
}

/// The beginning of a text as one line.
fn one_line(text: &str, most: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= most { words } else { words.chars().take(most).chain(['…']).collect() }
}

/// What was said since the turn's prompt.
fn since_prompt<'a>(messages: &'a [Message], prompts: &[String]) -> &'a [Message] {
    let is_prompt =
        |message: &Message| matches!(message, Message::User { text, .. } if prompts.last() == Some(text));
    messages.iter().rposition(is_prompt).map_or(&[], |place| &messages[place..])
}

/// What came of the last answer, and what was said after it.
fn last_round(messages: &[Message], prompts: &[String]) -> String {
    let begins = |message: &Message| match message {
        Message::Assistant { .. } => true,
        Message::User { text, .. } => prompts.last() == Some(text),
        Message::Tools { .. } => false,
    };
    let Some(last) = messages.iter().rposition(begins) else { return String::new() };
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
            Message::User { .. } if notes::is_given(message) => {}
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

    static PROMPTS: std::sync::LazyLock<Vec<String>> =
        std::sync::LazyLock::new(|| vec!["Fix add.".to_owned()]);

    fn view<'a>(messages: &'a [Message], files: &'a [FileText], round: u32) -> View<'a> {
        View {
            system: "You work.",
            tools: &[],
            messages,
            task: "Fix add.",
            prompts: &PROMPTS,
            earlier: &[],
            files,
            guides: &[],
            round,
            task_room: 500,
            room: 500,
            max_output_tokens: 9,
        }
    }

    #[test]
    fn a_round_has_the_task_the_files_and_what_happened_last() {
        let files = files();
        let call = answer::text_call(1, "shell".into(), r#"{"command":"make test"}"#.into());
        let result = ToolResult {
            call_id: "text_1".into(),
            text: "1 failed".into(),
            is_error: true,
            images: Vec::new(),
        };
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
        ```python
        def add(a, b):
            return a - b
        ```

        Other files: setup.cfg

        What happened last:
        $ make test
        1 failed

        test failed

        First say in two sentences what is wrong and why. Then write the whole new text of each file that must change.
        ");
    }

    #[test]
    fn a_round_begins_with_what_came_before_the_task() {
        let turn = |number: usize| Past {
            prompt: format!("Do {number}.\nWell."),
            said: format!("I did {number}. {}", "Really. ".repeat(40)),
            changed: vec!["calc.py".into()],
            ended: "escalated: checks still fail".into(),
        };
        let turns: Vec<Past> = (0..9).map(turn).collect();
        let view = View { earlier: &turns, room: 2400, ..view(&[], &[], 0) };
        let text = round(&view);
        let (before, task) = text.split_once("\n\nThe task:\nFix add.\n").unwrap();
        insta::assert_snapshot!(before, @"
        Earlier in this session, and over:
        - The user asked: Do 8. Well.
          It ended as escalated: checks still fail
          Files written: calc.py
          You said: I did 8. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really. Really.…
        ");
        assert!(!task.contains("Do 8."), "{task}");
        assert!(round(&View { earlier: &[], ..view }).starts_with("The task:"));
    }

    #[test]
    fn a_directory_that_was_made_up_is_passed_over() {
        let files = files();
        let of = |path: &str, text: &str| meant(path.into(), text, &files);
        assert_eq!(of("src/calc.py", "def add(a, b):\n    return a + b\n"), "calc.py");
        assert_eq!(of("src/calc.py", "def mul(a, b):\n    return a * b\n"), "src/calc.py", "a new file");
        assert_eq!(of("calc.py", "x = 1\n"), "calc.py");
        assert!(manual(&files).contains("\ncalc.py\n```python\n"), "{}", manual(&files));
    }

    #[test]
    fn a_test_beside_a_change_stays_as_it_is() {
        let shown = |path: &str, text: &str| FileText { path: path.into(), text: Some(text.into()) };
        let files = [shown("calc.py", "old"), shown("tests/calc.py", "is")];
        let block = |path: &str, text: &str| Block::File { path: path.into(), text: text.into() };
        let left = |mut found: Vec<Block>| {
            leave_tests(&mut found, &files);
            found
        };
        let test = || block("tests/calc.py", "is not");
        assert_eq!(left(vec![block("calc.py", "new"), test()]), [block("calc.py", "new")]);
        // Alone, beside what stays, or where there is none yet, it is meant.
        for meant in [
            vec![test()],
            vec![block("calc.py", "old"), test()],
            vec![block("calc.py", "new"), block("test_new.py", "x")],
        ] {
            assert_eq!(left(meant.clone()), meant);
        }
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
