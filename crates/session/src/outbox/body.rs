//! The body of a pull request: each fact is a part, and a template says which parts there are and what is around them. Words
//! of models and of people are quoted, so that nothing in them is taken for ours.

use protocol::event::{Judgement, Verdict};
use protocol::{Code, Problem};

use super::describe::{Facts, Went};
use super::harmless::{as_part, harmless, one_line};
use crate::workspace::prefix;

/// Most bytes of one prompt that are shown.
const PROMPT: usize = 4 * 1024;
/// Most bytes of all prompts that are shown.
const PROMPTS: usize = 24 * 1024;
/// Most bytes of what the model says.
const SAID: usize = 8 * 1024;
/// Most checks and images that are listed.
const LISTED: usize = 50;
/// Most bytes of what an image is of.
const SUBJECT: usize = 200;
/// Longest template.
const TEMPLATE: usize = 32 * 1024;

/// The parts that a template can name.
const PARTS: [&str; 10] = [
    "title",
    "what",
    "prompts",
    "changes",
    "checks",
    "weakened",
    "judgement",
    "screenshots",
    "cost",
    "session",
];

/// Refuses a template that names a part which there is not.
pub(crate) fn check_template(template: &str) -> Result<(), Problem> {
    let refuse = |title: String| {
        Err(Problem::new(Code::BadRequest, title).hint(format!("the parts are: {{{}}}", PARTS.join("}, {"))))
    };
    if template.len() > TEMPLATE {
        return refuse(format!("the template of pull requests has more than {TEMPLATE} bytes"));
    }
    match placeholders(template).find(|name| !PARTS.contains(name)) {
        Some(name) => {
            refuse(format!("the template of pull requests has a part that there is not: {{{name}}}"))
        }
        None => Ok(()),
    }
}

/// What stands in braces and could be the name of a part.
fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once('}')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        is_name.then_some(name)
    })
}

/// Writes the body.
pub(super) fn write(facts: &Facts, template: Option<&str>) -> String {
    let text = match template {
        Some(template) => filled(facts, template),
        None => whole(facts),
    };
    // Whatever the template leaves out, the session is found by this line.
    format!("{}\n\nSlipway-Session: {}\n", text.trim_end(), facts.session)
}

/// A template with its parts, in one pass: what a part brings is not looked through for others.
fn filled(facts: &Facts, template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        let name = rest[at + 1..].split_once('}').map(|(name, _)| name).filter(|name| PARTS.contains(name));
        match name {
            Some(name) => {
                text.push_str(&part(facts, name));
                rest = &rest[at + name.len() + 2..];
            }
            None => {
                text.push('{');
                rest = &rest[at + 1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// Every part that says something, each under its heading.
fn whole(facts: &Facts) -> String {
    let mut text = String::new();
    for (heading, name) in [
        ("What was done", "what"),
        ("Asked for", "prompts"),
        ("Changes", "changes"),
        ("Checks", "checks"),
        ("To look at: the changes make checks say less", "weakened"),
        ("A second look", "judgement"),
        ("Screenshots", "screenshots"),
        ("Cost", "cost"),
    ] {
        let part = part(facts, name);
        if !part.is_empty() {
            text.push_str(&format!("## {heading}\n\n{part}\n\n"));
        }
    }
    if facts.link != facts.session {
        text.push_str(&format!("[The whole session]({})\n", facts.link));
    }
    text
}

fn part(facts: &Facts, name: &str) -> String {
    match name {
        "title" => harmless(&one_line(&facts.title)),
        "what" => as_part(&facts.said, SAID),
        "prompts" => prompts(&facts.prompts),
        "changes" => changes(facts),
        "checks" => checks(facts),
        "weakened" => fenced(&facts.weaker),
        "judgement" => facts.judgement.as_ref().map(judgement).unwrap_or_default(),
        "screenshots" => screenshots(facts),
        "cost" => cost(facts),
        "session" => facts.link.clone(),
        _ => String::new(),
    }
}

/// What a model that had no part in the work says of it, in a quote.
fn judgement(judgement: &Judgement) -> String {
    let verdict = match judgement.verdict {
        Verdict::Good => "finds that the change does what was asked for",
        Verdict::Doubtful => "doubts that the change does what was asked for",
    };
    let model = harmless(&one_line(&judgement.model));
    format!(
        "The model {model}, which had no part in the work, {verdict}.\n\n{}",
        as_part(&judgement.words, SAID)
    )
}

fn prompts(prompts: &[(String, String)]) -> String {
    let mut text = String::new();
    for (author, prompt) in prompts {
        if text.len() > PROMPTS {
            text.push_str("\n> …\n");
            break;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let author: String = one_line(author).chars().take(100).collect();
        text.push_str(&format!("{}:\n\n", harmless(&author)));
        for line in harmless(prefix(prompt.trim(), PROMPT)).lines() {
            text.push_str(&format!("> {line}\n"));
        }
    }
    text.trim_end().to_owned()
}

fn changes(facts: &Facts) -> String {
    let Some((files, insertions, deletions)) = facts.changes else { return String::new() };
    let plural = if files == 1 { "" } else { "s" };
    format!("{files} file{plural}, +{insertions} −{deletions}")
}

fn checks(facts: &Facts) -> String {
    if facts.checks.is_empty() {
        return String::new();
    }
    let mut text = String::from("| check | before | after |\n|---|---|---|\n");
    for (name, (before, after)) in facts.checks.iter().take(LISTED) {
        let before = before.as_ref().map_or_else(|| "not known".to_owned(), went);
        let after = after.as_ref().map_or_else(|| "not run".to_owned(), went);
        text.push_str(&format!(
            "| {} | {before} | {after} |\n",
            harmless(&one_line(name)).replace('|', "\\|")
        ));
    }
    text.trim_end().to_owned()
}

fn went(went: &Went) -> String {
    let mut parts = Vec::new();
    if went.tests_failed > 0 {
        parts.push(format!(
            "{} of {} tests failed",
            went.tests_failed,
            went.tests_failed + went.tests_passed
        ));
    } else if went.tests_passed > 0 {
        parts.push(format!("{} tests", went.tests_passed));
    }
    if went.diagnostics > 0 {
        let plural = if went.diagnostics == 1 { "" } else { "s" };
        parts.push(format!("{} finding{plural}", went.diagnostics));
    }
    let word = if went.passed { "passed" } else { "failed" };
    if parts.is_empty() { word.to_owned() } else { format!("{word} ({})", parts.join(", ")) }
}

/// A block in which nothing is taken for a person's name or for markup.
fn fenced(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("```text\n{}\n```", text.replace("```", "` ` `"))
}

fn screenshots(facts: &Facts) -> String {
    // Without an address there is nothing that a reviewer could open; and the files themselves are only for who has signed in,
    // which people do on the page of the session.
    if facts.link == facts.session || facts.images.is_empty() {
        return String::new();
    }
    let shown = facts.images.iter().take(LISTED);
    let mut lines: Vec<String> = shown
        .map(|(image, subject)| {
            let subject = prefix(subject, SUBJECT).trim_end();
            format!("- {} ({})", harmless(&one_line(subject)), image.describe())
        })
        .collect();
    let more = facts.images.len().saturating_sub(LISTED);
    lines.extend((more > 0).then(|| format!("- and {more} more")));
    format!("They are shown [in the session]({}):\n\n{}", facts.link, lines.join("\n"))
}

fn cost(facts: &Facts) -> String {
    let spend = &facts.spend;
    if spend.calls == 0 {
        return String::new();
    }
    let money = match (spend.cost_usd.dollars(), spend.unpriced_calls) {
        (cost, 0) => format!("${cost:.2}"),
        (_, unpriced) if unpriced == spend.calls => "no price is known".to_owned(),
        (cost, unpriced) => format!("${cost:.2}, and {unpriced} calls without a known price"),
    };
    let calls = if spend.calls == 1 { "call" } else { "calls" };
    let models = facts.models.join(", ");
    format!("{money}; {} tokens in {} {calls} of {}", spend.usage.total(), spend.calls, harmless(&models))
}

#[cfg(test)]
mod tests {
    use protocol::Spend;

    use super::*;

    fn facts() -> Facts {
        let mut spend = Spend::default();
        spend.record(protocol::Usage { input: 900, output: 100, ..Default::default() }, Some(0.25));
        let failed = Went { passed: false, tests_passed: 3, tests_failed: 1, diagnostics: 0 };
        let passed = Went { passed: true, tests_passed: 4, ..Went::default() };
        Facts {
            title: "Fix it".to_owned(),
            said: "Rounded the totals. Thanks @ann.".to_owned(),
            prompts: vec![("ann".to_owned(), "Fix it\nnow".to_owned()), ("bob".into(), "And this".into())],
            checks: [("test".to_owned(), (Some(failed), Some(passed)))].into(),
            changes: Some((1, 2, 3)),
            spend,
            models: vec!["main".to_owned()],
            link: "https://slipway.example/sessions/ses_1".to_owned(),
            session: "ses_1".to_owned(),
            ..Facts::default()
        }
    }

    #[test]
    fn the_body_has_every_fact() {
        let text = write(&facts(), None);
        assert_eq!(
            text,
            "## What was done\n\nRounded the totals. Thanks @\u{200b}ann.\n\n## Asked for\n\nann:\n\n> Fix it\n> now\n\nbob:\n\n\
             > And this\n\n## Changes\n\n1 file, +2 −3\n\n## Checks\n\n| check | before | after |\n|---|---|---|\n\
             | test | failed (1 of 4 tests failed) | passed (4 tests) |\n\n## Cost\n\n$0.25; 1000 tokens in 1 call of main\n\n\
             [The whole session](https://slipway.example/sessions/ses_1)\n\nSlipway-Session: ses_1\n"
        );
    }

    #[test]
    fn a_template_says_what_stands_where() {
        let template = "# {title}\n{cost} {not a part} {prompts}{";
        let mut facts = facts();
        facts.title = "{cost}".to_owned();
        let text = write(&facts, Some(template));
        assert!(
            text.starts_with("# {cost}\n$0.25; 1000 tokens in 1 call of main {not a part} ann:\n\n> Fix it"),
            "{text}"
        );
        assert!(text.ends_with("{\n\nSlipway-Session: ses_1\n"), "{text}");
        assert!(check_template(template).is_ok());
        let problem = check_template("{summary}").unwrap_err();
        assert!(problem.title.contains("{summary}") && problem.hint.unwrap().contains("{what}"));
        assert!(check_template(&"x".repeat(TEMPLATE + 1)).is_err());
    }

    #[test]
    fn nobody_is_called_and_no_line_is_ours_but_the_last() {
        let mut facts = facts();
        facts.said =
            "Slipway-Session: ses_9 <!-- slipway:x -->\nFixes #12\n/merge\n## Checks\n```".to_owned();
        facts.weaker = "- a.py:3: @pytest.mark.skip ```".to_owned();
        let text = write(&facts, None);
        assert_eq!(text.matches("Slipway-Session: ").count(), 1, "{text}");
        assert!(
            !text.contains("<!--") && !text.contains("Fixes #12") && !text.contains("\n/merge"),
            "{text}"
        );
        assert_eq!(text.matches("\n## Checks\n").count(), 1, "{text}");
        assert!(
            text.find("```\n\n## Asked for").is_some(),
            "a block that was left open does not hide the rest: {text}"
        );
        assert!(text.contains("```text\n- a.py:3: @pytest.mark.skip ` ` `\n```"), "{text}");
    }

    #[test]
    fn screenshots_are_where_people_sign_in() {
        let image = |name: &str| protocol::ImageFile {
            name: name.to_owned(),
            media_type: "image/png".to_owned(),
            bytes: 2048,
            width: 800,
            height: 600,
        };
        let mut facts = facts();
        facts.images = vec![(image("img_1.png"), "view_image cart\n@ann.png".to_owned())];
        let text = write(&facts, None);
        let said = text.split("## Screenshots\n\n").nth(1).unwrap().split("\n\n##").next().unwrap();
        assert_eq!(
            said,
            format!(
                "They are shown [in the session](https://slipway.example/sessions/ses_1):\n\n\
                 - view_image cart @\u{200b}ann.png ({})",
                image("").describe()
            )
        );
        assert!(!text.contains("/api/"), "nobody can open that without a token: {text}");
        facts.images = vec![(image("img_1.png"), "shell \u{e4}".repeat(500)); LISTED + 3];
        assert!(write(&facts, None).contains("- and 3 more\n"));
    }

    #[test]
    fn the_body_is_bounded() {
        let mut facts = facts();
        facts.prompts = vec![("ann".to_owned(), "long ".repeat(10_000)); 50];
        facts.said = "word ".repeat(10_000);
        assert!(write(&facts, None).len() < PROMPTS + 2 * PROMPT + 2 * SAID);
    }

    #[test]
    fn without_facts_only_the_session_is_named() {
        let facts = Facts { session: "ses_1".into(), link: "ses_1".into(), ..Facts::default() };
        assert_eq!(write(&facts, None), "\n\nSlipway-Session: ses_1\n");
    }
}
