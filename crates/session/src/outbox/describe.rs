//! The words of a pull request: the session's title, what was asked for, what the checks said, and where the work makes
//! them say less.

use protocol::{EventBody, ItemKind};

use crate::recorder::Recorder;
use crate::runner::weakened;
use crate::workspace::prefix;

/// Events that are read at once.
const PAGE: usize = 500;
/// Most bytes of one prompt that are shown.
const PROMPT: usize = 4 * 1024;
/// Most bytes of all prompts that are shown.
const PROMPTS: usize = 24 * 1024;

/// Title and body.
pub(super) async fn describe(recorder: &Recorder) -> Result<(String, String), store::Error> {
    let mut prompts: Vec<String> = Vec::new();
    let mut checks: Vec<(String, bool)> = Vec::new();
    let mut weaker = String::new();
    let mut after = 0;
    loop {
        let page = recorder.read(after, PAGE).await?;
        for event in &page {
            after = event.seq;
            match &event.body {
                EventBody::ItemCompleted { item, .. } => match &item.kind {
                    ItemKind::Prompt { text, .. } => prompts.push(text.clone()),
                    ItemKind::Report(report) => {
                        if let Some(passed) = report.passed {
                            checks.retain(|(name, _)| *name != report.check);
                            checks.push((report.check.clone(), passed));
                        }
                    }
                    ItemKind::Notice { text, .. } => {
                        if let Some(list) = text.strip_prefix(weakened::HEAD) {
                            list.trim().clone_into(&mut weaker);
                        }
                    }
                    _ => {}
                },
                // What an earlier turn's checks said is not what is delivered.
                EventBody::TurnStarted { .. } => {
                    checks.clear();
                    weaker.clear();
                }
                _ => {}
            }
        }
        if page.len() < PAGE {
            break;
        }
    }
    let title = recorder
        .stream()
        .with_state(|state| state.created().map(|created| created.title.clone()))
        .unwrap_or_default();
    Ok((title, body(&prompts, &checks, &weaker, &recorder.session().to_string())))
}

fn body(prompts: &[String], checks: &[(String, bool)], weaker: &str, session: &str) -> String {
    let mut text = String::from("## Asked for\n");
    for prompt in prompts {
        if text.len() > PROMPTS {
            text.push_str("\n> …\n");
            break;
        }
        let shown = prefix(prompt.trim(), PROMPT);
        text.push('\n');
        for line in shown.lines() {
            text.push_str(&format!("> {line}\n"));
        }
    }
    if !checks.is_empty() {
        text.push_str("\n## Checks\n\n");
        for (name, passed) in checks {
            text.push_str(&format!("- {name}: {}\n", if *passed { "passed" } else { "failed" }));
        }
    }
    if !weaker.is_empty() {
        // Code may have what a forge takes for a person's name or for markup.
        let quoted = weaker.replace("```", "` ` `");
        text.push_str(&format!(
            "\n## To look at: the changes make checks say less\n\n```text\n{quoted}\n```\n"
        ));
    }
    text.push_str(&format!("\nSlipway-Session: {session}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_prompts_checks_and_the_session() {
        let checks = [("test".to_owned(), true), ("lint".to_owned(), false)];
        let text = body(&["Fix it\nnow".to_owned(), "And this".to_owned()], &checks, "", "ses_1");
        assert_eq!(
            text,
            "## Asked for\n\n> Fix it\n> now\n\n> And this\n\n## Checks\n\n- test: passed\n- lint: failed\n\nSlipway-Session: ses_1\n"
        );
    }

    #[test]
    fn what_makes_checks_say_less_is_quoted() {
        let text = body(&[], &[], "- a.py:3: @pytest.mark.skip ```", "ses_1");
        assert!(text.contains("say less\n\n```text\n- a.py:3: @pytest.mark.skip ` ` `\n```\n"), "{text}");
    }

    #[test]
    fn the_body_is_bounded() {
        let prompts = vec!["long ".repeat(10_000); 50];
        assert!(body(&prompts, &[], "", "ses_1").len() < PROMPTS + 2 * PROMPT);
    }
}
