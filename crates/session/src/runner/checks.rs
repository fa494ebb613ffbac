//! Running a check: its command in the workspace, its output read by its parser, the result as a report item.

use std::time::Instant;

use agent::CheckResult;
use protocol::event::Channel;
use protocol::item::CheckReport;
use protocol::{Check, Item, ItemId, ItemKind, ItemStatus, Report};

use super::Runner;
use super::deltas::{Deltas, Pace};
use super::output::Collector;
use crate::failure::Failure;
use crate::process::{self, Ending, Live};

impl Runner {
    /// Runs one check and records its report. A stop or a lost sandbox closes the report and is passed on.
    pub(super) async fn run_check(&self, check: &Check) -> Result<CheckResult, Failure> {
        let id = ItemId::new();
        let mut report = CheckReport {
            check: check.name.clone(),
            command: check.run.clone(),
            passed: None,
            exit_code: None,
            duration_ms: None,
            report: None,
        };
        let item = |status, report: &CheckReport| Item { id, status, kind: ItemKind::Report(report.clone()) };
        self.start(item(ItemStatus::InProgress, &report)).await?;
        let began = Instant::now();
        let mut collector = Collector::bounded();
        let ended = self.follow_check(id, check, &mut collector).await;
        report.duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
        let exit = match ended {
            Ok(Ending::Exited(exit)) => exit,
            Ok(Ending::Stopped) | Err(Failure::Stopped) => {
                self.complete(item(ItemStatus::Cancelled, &report)).await?;
                return Err(Failure::Stopped);
            }
            Err(failure) => {
                if !matches!(failure, Failure::Store(_)) {
                    self.complete(item(ItemStatus::Interrupted, &report)).await?;
                }
                return Err(failure);
            }
        };
        let output = collector.text();
        // The names are checked when an environment is stored; a repository's own recipe may still have a wrong one.
        let parsed = ::checks::parse(&check.parser, &output).or_else(|| ::checks::parse("auto", &output));
        let parsed = parsed.unwrap_or_else(|| Report { tail: output.clone(), ..Report::default() });
        let passed = exit.code == 0 && !exit.timed_out;
        let mut digest = ::checks::digest(&parsed);
        if exit.timed_out {
            digest.push_str(&format!(
                "\nThe check was ended after {} s: something in it does not end, or command_timeout_s is too short for it.",
                self.context.options.command_timeout.as_secs()
            ));
        } else if !passed {
            digest.push_str(&format!("\n(exit code {})", exit.code));
        }
        for line in self.remarks(!passed, &output).await? {
            digest.push('\n');
            digest.push_str(&line);
        }
        report.passed = Some(passed);
        report.exit_code = exit.signal.is_none().then_some(exit.code);
        report.report = Some(parsed.clone());
        self.complete(item(ItemStatus::Completed, &report)).await?;
        Ok(CheckResult { name: check.name.clone(), passed, report: parsed, digest })
    }

    async fn follow_check(
        &self,
        id: ItemId,
        check: &Check,
        collector: &mut Collector,
    ) -> Result<Ending, Failure> {
        let sandbox = self.sandbox()?;
        let stream = self.context.recorder.stream();
        let mut live = Live::new(
            Deltas::new(stream, id, Channel::Stdout, Pace::Limited),
            Deltas::new(stream, id, Channel::Stderr, Pace::Limited),
        );
        let name = id.to_string();
        let process = sandbox
            .guest()
            .start(&name, &sandbox::shell::command(&check.run, Some(self.context.options.command_timeout)))
            .await?;
        let ending =
            process::follow(&*sandbox, &name, process, collector, Some(&mut live), Some(&self.stop)).await?;
        process::forget(&*sandbox, &name).await;
        Ok(ending)
    }
}

/// A check that could not be run to its end, as the agent is told of it.
pub(super) fn failed(name: String, text: String) -> CheckResult {
    let report = Report { tail: text.clone(), ..Report::default() };
    CheckResult { name, passed: false, report, digest: text }
}
