//! What a pull request is written from: facts of the session's log and of its commits, and nothing that a model would have to
//! be asked for.

use std::collections::BTreeMap;

use protocol::event::{Judgement, ReviewState};
use protocol::item::ToolCall;
use protocol::{EventBody, ImageFile, ItemKind, Report, Spend};

use super::body;
use super::{redact, written};
use crate::joint::of;
use crate::runner::{Context, weakened};

/// Events that are read at once.
const PAGE: usize = 500;

/// The words of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) title: String,
    pub(crate) body: String,
}

/// How a check went.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Went {
    pub(super) passed: bool,
    pub(super) tests_passed: u32,
    pub(super) tests_failed: u32,
    pub(super) diagnostics: usize,
}

impl Went {
    fn new(passed: bool, report: Option<&Report>) -> Self {
        let Some(report) = report else { return Self { passed, ..Self::default() } };
        Self {
            passed,
            tests_passed: report.tests_passed,
            tests_failed: report.tests_failed,
            diagnostics: report.diagnostics.len(),
        }
    }
}

/// Everything that is told.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) title: String,
    /// The pull request of the session that was merged last: what follows is another.
    pub(super) merged: Option<u64>,
    /// What the model said last of its work.
    pub(super) said: String,
    /// Who asked, and what.
    pub(super) prompts: Vec<(String, String)>,
    /// By name: before the work where that is known, and after it.
    pub(super) checks: BTreeMap<String, (Option<Went>, Option<Went>)>,
    /// What makes checks say less.
    pub(super) weaker: String,
    /// What the model for judgements says of what is delivered.
    pub(super) judgement: Option<Judgement>,
    /// Files, lines added, lines removed.
    pub(super) changes: Option<(u32, u32, u32)>,
    /// What tools showed of the work, and of what.
    pub(super) images: Vec<(ImageFile, String)>,
    pub(super) spend: Spend,
    pub(super) models: Vec<String>,
    /// Where the session is found.
    pub(super) link: String,
    pub(super) session: String,
}

impl Facts {
    fn take_in(&mut self, event: &protocol::Event) {
        match &event.body {
            EventBody::ItemCompleted { item, .. } => match &item.kind {
                ItemKind::Prompt { text, .. } => self.prompts.push((event.actor.id.clone(), text.clone())),
                ItemKind::Message { text } if !text.trim().is_empty() => self.said.clone_from(text),
                ItemKind::Report(report) => {
                    // That a part passed says nothing of the whole.
                    if let Some(passed) = report.passed.filter(|passed| !(report.partial && *passed)) {
                        let went = Went::new(passed, report.report.as_ref());
                        self.checks.entry(report.check.clone()).or_default().1 = Some(went);
                    }
                }
                ItemKind::ToolCall(call) => {
                    let shown = call.output.iter().flat_map(|output| &output.images);
                    for image in shown {
                        if !self.images.iter().any(|(known, _)| known.name == image.name) {
                            self.images.push((image.clone(), subject(call)));
                        }
                    }
                }
                ItemKind::Notice { text, .. } => {
                    if let Some(list) = text.strip_prefix(weakened::HEAD) {
                        list.trim().clone_into(&mut self.weaker);
                    }
                }
                ItemKind::Message { .. } | ItemKind::Reasoning { .. } => {}
            },
            EventBody::ChecksKnown { checks, .. } => {
                for known in checks {
                    let before = &mut self.checks.entry(known.name.clone()).or_default().0;
                    before.get_or_insert_with(|| Went::new(known.passed, known.report.as_ref()));
                }
            }
            // Each pull request tells of what it has. Later deliveries say again what became of the one before.
            EventBody::DeliveryUpdated(delivery)
                if delivery.number != self.merged
                    && delivery.review.is_some_and(|review| review.state == ReviewState::Merged) =>
            {
                self.merged = delivery.number;
                self.prompts.clear();
                self.images.clear();
            }
            EventBody::WorkJudged { judgement, .. } => self.judgement = Some(judgement.clone()),
            EventBody::UsageRecorded { model, .. } if !self.models.contains(model) => {
                self.models.push(model.clone());
            }
            // What an earlier turn's checks said is not what is delivered, and what it said of its work is not this.
            EventBody::TurnStarted { .. } => {
                self.checks.values_mut().for_each(|(_, after)| *after = None);
                self.weaker.clear();
                self.judgement = None;
                self.said.clear();
            }
            _ => {}
        }
    }
}

/// What a call was about, in the words of its own arguments.
fn subject(call: &ToolCall) -> String {
    const TELLING: [&str; 5] = ["path", "file", "url", "command", "name"];
    let told = TELLING.iter().find_map(|key| call.input.get(key)?.as_str());
    told.map_or_else(|| call.tool.clone(), |told| format!("{} {told}", call.tool))
}

/// Title and body of the pull request for a commit: of one repository, or of all of them together.
pub(crate) async fn describe(
    context: &Context,
    commit: Option<&str>,
    repository: Option<&str>,
) -> Result<Described, store::Error> {
    let recorder = &context.recorder;
    let mut facts = Facts::default();
    let mut after = 0;
    loop {
        let page = recorder.read(after, PAGE).await?;
        for event in &page {
            after = event.seq;
            facts.take_in(event);
        }
        if page.len() < PAGE {
            break;
        }
    }
    facts.checks.retain(|_, (_, after)| after.is_some());
    let (title, spend) = recorder.stream().with_state(|state| {
        let title = state.created().map(|created| created.title.clone()).unwrap_or_default();
        (title, state.spend())
    });
    (facts.title, facts.spend) = (title, spend);
    facts.link = context.options.people.link(recorder.session());
    facts.session = recorder.session().to_string();
    facts.changes = counts(context, commit, repository).await;
    let template = context.workspace.pull_request_rules().template.clone();
    let written = body::write(&facts, template.as_deref());
    let title = match facts.merged {
        Some(_) => crate::runner::message::later_title(&facts.title, &facts.said),
        None => facts.title.clone(),
    };
    // Forges put it into the message of a merge, which is obeyed like any other.
    let title = crate::runner::message::harmless(&super::harmless::one_line(&title));
    let described = Described { title, body: written };
    let described = redact::described(context, described).await;
    Ok(Described { body: written::marked(&described.body), ..described })
}

/// What a commit changed since the session began. It is for show, so a failure costs only that.
async fn counts(
    context: &Context,
    commit: Option<&str>,
    repository: Option<&str>,
) -> Option<(u32, u32, u32)> {
    let (workspace, commit) = (&context.workspace, commit?);
    let saved = workspace.saved()?;
    let diff = match repository {
        Some(_) => {
            let mirror = workspace.mirror_of(repository).await.ok()?;
            mirror.diff(of(&saved.base, workspace.number_of(repository)), commit).await.ok()?
        }
        None => workspace.mirrors().await.ok()?.diff(&saved.base, commit).await.ok()?,
    };
    Some((diff.files, diff.insertions, diff.deletions))
}
