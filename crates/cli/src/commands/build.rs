//! `slipway env build`: an environment's image, watched step by step.

use std::time::Duration;

use protocol::{ImageCheck, ImageCheckState, ImageState, ImageStatus, StepState, StepStatus};

use super::Context;
use crate::api::Api;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::{print, style, text};

/// How often a build is looked at.
const PACE: Duration = Duration::from_millis(200);

/// Builds and shows each step as it ends. Exits with 1 when the build failed; the image before it stays in use. It may take
/// long, so what others want done meanwhile is done too.
pub(super) async fn build(context: &Context, name: &str) -> anyhow::Result<Exit> {
    let mut interrupts = Interrupts::catch()?;
    let link = context.link().await?;
    let result = watch(&link.api, name, context.json, &mut interrupts).await;
    let closed = link.close(&mut interrupts).await;
    let exit = result?;
    closed?;
    Ok(exit)
}

async fn watch(api: &Api, name: &str, json: bool, interrupts: &mut Interrupts) -> anyhow::Result<Exit> {
    let mut status = api.build(name).await?;
    let mut shown = Shown::default();
    loop {
        if !json {
            shown.tell(&status);
        }
        if status.state != ImageState::Building && !is_checked(&status) {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            _signal = interrupts.next() => return Ok(Exit::Interrupted),
        }
        status = api.image(name).await?;
    }
    if json {
        print::json(&status)?;
    } else {
        finish(name, &status)?;
    }
    Ok(if status.state == ImageState::Ready { Exit::Done } else { Exit::Failed })
}

/// Whether the checks still run on the image that was built.
fn is_checked(status: &ImageStatus) -> bool {
    let under_way =
        |check: &ImageCheck| matches!(check.state, ImageCheckState::Pending | ImageCheckState::Running);
    status.state == ImageState::Ready
        && status.current.as_ref().is_some_and(|image| image.checks.iter().any(under_way))
}

/// What was told already.
#[derive(Default)]
struct Shown {
    begun: usize,
    ended: usize,
    /// Of the checks on the image.
    checked: usize,
}

impl Shown {
    fn tell(&mut self, status: &ImageStatus) {
        for (place, step) in status.steps.iter().enumerate() {
            match step.state {
                StepState::Pending => {}
                StepState::Running if place >= self.begun => {
                    style::note(&format!("… {}", text::harmless(&text::first_line(&step.title))));
                    self.begun = place + 1;
                }
                StepState::Running => {}
                StepState::Built | StepState::Cached | StepState::Failed if place >= self.ended => {
                    style::note(&line(step));
                    tell_notes(step, "  ");
                    self.begun = self.begun.max(place + 1);
                    self.ended = place + 1;
                }
                StepState::Built | StepState::Cached | StepState::Failed => {}
            }
        }
        if status.state == ImageState::Ready {
            self.tell_checks(status);
        }
    }

    fn tell_checks(&mut self, status: &ImageStatus) {
        let checks = status.current.iter().flat_map(|image| &image.checks);
        let ended =
            |check: &&ImageCheck| !matches!(check.state, ImageCheckState::Pending | ImageCheckState::Running);
        for check in checks.take_while(ended).skip(self.checked) {
            style::note(&check_line(check));
            self.checked += 1;
        }
    }
}

/// How a check went on an image, in one line.
pub(super) fn check_line(check: &ImageCheck) -> String {
    let paint = style::stderr();
    let took = text::duration(check.duration_ms);
    let (mark, how) = match check.state {
        ImageCheckState::Pending => (paint.dim("·"), "waits".to_owned()),
        ImageCheckState::Running => (paint.work("…"), "runs".to_owned()),
        ImageCheckState::Passed => (paint.good("✓"), format!("passed, {took}")),
        ImageCheckState::Failed => {
            let failures =
                if check.failures == 1 { "1 failure" } else { &format!("{} failures", check.failures) };
            (paint.warn("✗"), format!("fails before any work: {failures}, {took}"))
        }
        ImageCheckState::Unknown => {
            let why = check.why.as_deref().unwrap_or("it could not be run to its end");
            (paint.warn("?"), format!("not known: {}", text::harmless(why)))
        }
    };
    format!("{mark} check {}  {how}", text::harmless(&text::first_line(&check.name)))
}

/// A step that ended, in one line.
pub(super) fn line(step: &StepStatus) -> String {
    let paint = style::stderr();
    let took = text::duration(step.duration_ms);
    let (mark, how) = match step.state {
        StepState::Pending => (paint.dim("·"), "waits".to_owned()),
        StepState::Running => (paint.work("…"), "runs".to_owned()),
        StepState::Built => (paint.good("✓"), took),
        StepState::Cached => (paint.good("✓"), "cached".to_owned()),
        StepState::Failed => (paint.bad("✗"), format!("failed after {took}")),
    };
    let tries = if step.attempts > 1 { format!(", {} attempts", step.attempts) } else { String::new() };
    let size = if step.bytes > 0 { format!(", {}", text::bytes(step.bytes)) } else { String::new() };
    format!("{mark} {}  {how}{tries}{size}", text::harmless(&text::first_line(&step.title)))
}

/// What a person should know of a step.
pub(super) fn tell_notes(step: &StepStatus, indent: &str) {
    for note in &step.notes {
        style::note(&format!("{indent}note: {}", text::harmless(note)));
    }
}

/// Why a build that is over has no image to show, or not the one that was asked for.
fn missing(name: &str, status: &ImageStatus) -> Option<String> {
    let gone = || {
        format!(
            "the build of {name} is over, and there is no image: it was removed meanwhile\nbuild it again, and look with `slipway \
             gc --dry-run` at what takes up room"
        )
    };
    status.error.clone().or_else(|| status.current.is_none().then(gone))
}

fn finish(name: &str, status: &ImageStatus) -> anyhow::Result<()> {
    if let Some(error) = missing(name, status) {
        style::error(&text::harmless(&error));
        if status.current.is_some() {
            style::note("the image before it stays in use");
        }
    } else if let Some(image) = &status.current {
        print::line(&image.key)?;
        // Of several repositories that of each.
        let commits = image.commit.split(' ').map(|commit| commit.chars().take(12).collect::<String>());
        let commit = commits.collect::<Vec<_>>().join(" ");
        style::note(&format!(
            "{name} is ready: {} at {commit}, {}, built in {}",
            image.branch,
            text::bytes(image.bytes),
            text::duration(image.duration_ms)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_an_image_never_ends_in_silence() {
        let gone = ImageStatus { state: ImageState::None, ..ImageStatus::default() };
        assert!(missing("app", &gone).unwrap().contains("there is no image"));
        let told = ImageStatus { error: Some("the disk budget is used up".to_owned()), ..gone.clone() };
        assert_eq!(missing("app", &told), told.error);
        let image = protocol::ImageInfo {
            key: "k".to_owned(),
            branch: "main".to_owned(),
            commit: "c".to_owned(),
            built_at: protocol::Timestamp::UNIX_EPOCH,
            age_s: 1,
            bytes: 1,
            duration_ms: 1,
            checks: Vec::new(),
        };
        let ready = ImageStatus { state: ImageState::Ready, current: Some(image), ..gone };
        assert_eq!(missing("app", &ready), None);
    }
}
