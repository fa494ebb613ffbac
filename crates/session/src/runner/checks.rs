//! Running a check: its command in the workspace, its output read by its parser, the result as a report item. The part that
//! the turn's changes touch is run first, where the tool can run a part.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use agent::CheckResult;
use protocol::event::Channel;
use protocol::item::CheckReport;
use protocol::{Actor, Changes, Check, EventBody, Item, ItemId, ItemKind, ItemStatus, Report};
use sandbox::WORKSPACE;

use super::Runner;
use super::context::{NAMES, NAMES_OF_FILES};
use super::deltas::{Deltas, Pace};
use super::output::Collector;
use crate::failure::Failure;
use crate::joint::of;
use crate::process::{self, Command, Ending, Live};
use crate::workspace::directory;

/// Most files of a report that are read for the lines around its findings, and most bytes of one.
const SOURCES: usize = 20;
const SOURCE_BYTES: u64 = 1024 * 1024;
/// How long git may take to tell which files changed.
const LOOK: Duration = Duration::from_secs(20);

/// The files that differ between two trees.
const CHANGED_FILES: &str = r#"
git -c safe.directory='*' -c core.fsmonitor=false -c core.quotePath=false --no-pager \
  diff-tree -r --name-only --no-renames "$1" "$2"
"#;

/// The same without those that only the second tree has.
const WRITTEN_OVER: &str = r#"
git -c safe.directory='*' -c core.fsmonitor=false -c core.quotePath=false --no-pager \
  diff-tree -r --name-only --no-renames --diff-filter=a "$1" "$2"
"#;

/// The last report of a check in this turn, of the whole of it or of a part.
pub(super) type Ran = BTreeMap<(String, bool), Report>;

impl Runner {
    /// Runs every check on the tree that is to be delivered. Of one whose affected part fails, that is told at once, and the
    /// rest is not run; it is before anything is called done. A part can fail for being one (a threshold of coverage, a file that
    /// the whole leaves out), so the second time that it fails the whole decides. `running` is the name of the check under way.
    pub(super) async fn run_checks(
        &self,
        tree: &str,
        results: &mut Vec<CheckResult>,
        running: &mut String,
    ) -> Result<(), Failure> {
        let parts = self.parts(tree).await?;
        for (check, part) in self.checks.iter().zip(parts) {
            running.clone_from(&check.name);
            if let Some(command) = part {
                let failed_already =
                    self.ran().get(&(check.name.clone(), true)).is_some_and(|ran| !is_empty(ran));
                let result = Box::pin(self.run_command(check, command, true)).await?;
                // A part that cannot be run as such says nothing of the check.
                if !result.passed && !is_empty(&result.report) && !failed_already {
                    results.push(result);
                    continue;
                }
            }
            results.push(self.run_check(check).await?);
        }
        Ok(())
    }

    /// The names of the files that differ between two trees.
    pub(super) async fn differing(&self, one: &str, other: &str) -> Result<Vec<String>, Failure> {
        self.listed(CHANGED_FILES, &[one, other]).await
    }

    /// The names of the files of one tree that another one has otherwise, or not at all.
    pub(super) async fn written_over(&self, one: &str, other: &str) -> Result<Vec<String>, Failure> {
        self.listed(WRITTEN_OVER, &[one, other]).await
    }

    /// The command for the affected part of each check, where it has one.
    async fn parts(&self, tree: &str) -> Result<Vec<Option<String>>, Failure> {
        let none = || vec![None; self.checks.len()];
        let found = self.context.workspace.saved().and_then(|saved| saved.found);
        let Some(found) = found.filter(|found| found.turn == self.turn && !self.checks.is_empty()) else {
            return Ok(none());
        };
        let changed = self.differing(&found.tree, tree).await?;
        if changed.is_empty() {
            return Ok(none());
        }
        let names = self.listed(NAMES_OF_FILES, &[]).await?;
        // The few files that a command is made from: the manifests of the changed files' packages, and of the whole.
        let mut texts = BTreeMap::new();
        let manifest = |name: &&String| {
            let folder = name.strip_suffix("Cargo.toml").or_else(|| name.strip_suffix("package.json"));
            folder.is_some_and(|folder| {
                (folder.is_empty() || folder.ends_with('/'))
                    && changed.iter().any(|path| path.starts_with(folder))
            })
        };
        for name in names.iter().filter(manifest).take(SOURCES) {
            if let Some(text) = self.source(name).await? {
                texts.insert(name.clone(), text);
            }
        }
        let read = |name: &str| texts.get(name).cloned();
        let workspace = ::checks::Workspace { names: &names, read: &read };
        Ok(self.checks.iter().map(|check| ::checks::affected(&check.run, &changed, &workspace)).collect())
    }

    /// Runs one check and records its report. A stop or a lost sandbox closes the report and is passed on.
    pub(super) async fn run_check(&self, check: &Check) -> Result<CheckResult, Failure> {
        Box::pin(self.run_command(check, check.run.clone(), false)).await
    }

    async fn run_command(
        &self,
        check: &Check,
        command: String,
        partial: bool,
    ) -> Result<CheckResult, Failure> {
        let id = ItemId::new();
        let mut report =
            CheckReport { check: check.name.clone(), command, partial, ..CheckReport::default() };
        report.limit_ms = u64::try_from(self.context.options.command_timeout.as_millis()).ok();
        let item = |status, report: &CheckReport| Item { id, status, kind: ItemKind::Report(report.clone()) };
        self.recall_known().await?;
        // Before the run is in the log: afterwards this run would be the last one.
        let known = self.known(&check.name, partial);
        self.start(item(ItemStatus::InProgress, &report)).await?;
        let began = Instant::now();
        let mut collector = Collector::bounded();
        let ended = self.follow_check(id, &report.command, &mut collector).await;
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
        let mut parsed = parsed(check, &output);
        let ended_well = exit.code == 0 && !exit.timed_out;
        let doubt = if ended_well { self.doubt(check, &parsed) } else { None };
        let passed = ended_well && doubt.is_none();
        if collector.is_cut() {
            self.uncounted.lock().unwrap_or_else(PoisonError::into_inner).insert(check.name.clone());
        }
        let silent = !::checks::names_a_failure(&parsed);
        if !passed {
            ::checks::explain(&mut parsed, &output);
        }
        if !passed && let Err(failure) = self.show_sources(&mut parsed, &report.command).await {
            self.complete(item(ItemStatus::Interrupted, &report)).await?;
            return Err(failure);
        }
        let (last, before_turn) = &known;
        let known = ::checks::Known { last: last.as_ref(), before_turn: before_turn.as_ref() };
        let mut digest = ::checks::digest_since(&parsed, known);
        if partial && !passed {
            digest.push_str(
                "\nOnly the part that your changes touch was run; the rest follows when this passes.",
            );
        }
        if exit.timed_out {
            digest.push_str(&format!(
                "\nThe check was ended after {} s: something in it does not end, or command_timeout_s is too short for it.",
                self.context.options.command_timeout.as_secs()
            ));
        } else if !passed {
            digest.push_str(&format!("\n(exit code {})", exit.code));
        }
        // Also beside what the fallback made of it, which is a guess.
        if !passed && silent && doubt.is_none() {
            digest.push('\n');
            digest.push_str(&::checks::unexplained(&output));
        }
        if let Some(doubt) = &doubt {
            digest.push('\n');
            digest.push_str(doubt);
            self.tell_doubt(&check.name, doubt).await?;
        }
        if !passed && let Some(program) = ::checks::missing_program(&output, exit.code) {
            digest.push_str(&format!("\n{}", not_there(&program, &check.name)));
        }
        for line in self.remarks(!passed, &output).await? {
            digest.push('\n');
            digest.push_str(&line);
        }
        report.passed = Some(passed);
        report.exit_code = exit.signal.is_none().then_some(exit.code);
        report.changes = if partial {
            ::checks::changes(&parsed, known)
        } else {
            let changes = ::checks::changes(&parsed, known.from_the_beginning());
            changes.filter(|changes| known.last.is_some() || *changes != Changes::default())
        };
        report.report = Some(parsed.clone());
        self.complete(item(ItemStatus::Completed, &report)).await?;
        self.ran().insert((check.name.clone(), partial), parsed.clone());
        let failed_before = known.before_turn.filter(|_| !passed).map_or(0, |before| {
            let silent = usize::from(::checks::is_as_silent(&parsed, before));
            ::checks::failed_before(&parsed, before).0.max(silent)
        });
        Ok(CheckResult { name: check.name.clone(), passed, report: parsed, digest, partial, failed_before })
    }

    /// Why a run that ended with 0 is no pass. Where failures were ignored before anything was changed, or the check's own command
    /// says that they are, whoever wrote it so has decided.
    fn doubt(&self, check: &Check, report: &Report) -> Option<String> {
        if ::checks::ignores_failures(&check.run) {
            return None;
        }
        self.context.recorder.stream().with_state(|state| {
            if state.is_untouched() {
                return None;
            }
            let known = state.counted().iter().find(|one| one.check == check.name);
            let began = known.and_then(|one| one.began.as_ref()).filter(|(passed, _)| *passed);
            ::checks::unbelieved(report, began.map(|(_, report)| report))
        })
    }

    /// Tells people once in a turn: only they can say that the exit code is to count alone.
    async fn tell_doubt(&self, check: &str, doubt: &str) -> Result<(), Failure> {
        let first = {
            let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
            doubted.insert(check.to_owned())
        };
        if first {
            self.record_notice(format!("The check {check} did not pass. {doubt}")).await?;
        }
        Ok(())
    }

    /// Records what the image's checks said, once, where the session began on it and this is its first turn: the log then has
    /// what the turn is measured by.
    async fn recall_known(&self) -> Result<(), Failure> {
        self.recalled.get_or_try_init(|| self.recall_from_image()).await.map(drop)
    }

    async fn recall_from_image(&self) -> Result<(), Failure> {
        let stream = self.context.recorder.stream();
        // In a later turn what the sandbox has beside the files may not be what it was.
        let first = stream.with_state(|state| state.last_turn().is_none());
        let Some(turn) = self.context.turn().filter(|_| first) else { return Ok(()) };
        let Some((commit, mut checks)) = self.context.workspace.known_checks().await else { return Ok(()) };
        checks.retain(|check| !turn.before.iter().any(|(name, _)| *name == check.name));
        if checks.is_empty() {
            return Ok(());
        }
        let body = EventBody::ChecksKnown { turn: self.turn, commit, checks };
        Ok(self.append(&Actor::system(), vec![body]).await?)
    }

    /// What is known of a check: what its last run said, and what it said before the turn changed anything.
    fn known(&self, name: &str, partial: bool) -> (Option<Report>, Option<Report>) {
        let turn = self.context.turn();
        let of = |list: &[(String, Report)]| {
            list.iter().find(|(check, _)| check == name).map(|(_, report)| report.clone())
        };
        let ran = self.ran().get(&(name.to_owned(), partial)).cloned();
        // After a restart, or in the next turn, the log tells what failed of the whole check.
        let last = ran.or_else(|| turn.as_ref().filter(|_| !partial).and_then(|turn| of(&turn.failing)));
        (last, turn.as_ref().and_then(|turn| of(&turn.before)))
    }

    fn ran(&self) -> std::sync::MutexGuard<'_, Ran> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the lines around each finding into the report.
    async fn show_sources(&self, report: &mut Report, command: &str) -> Result<(), Failure> {
        let printed: Vec<String> =
            ::checks::files_of(report).into_iter().take(SOURCES).map(str::to_owned).collect();
        if printed.is_empty() {
            return Ok(());
        }
        let names = self.listed(NAMES_OF_FILES, &[]).await?;
        let folder = ::checks::folder_of(command);
        let mut texts = BTreeMap::new();
        for file in printed {
            if let Some(path) = ::checks::locate(&names, WORKSPACE, &folder, &file)
                && let Some(text) = self.source(path).await?
            {
                texts.insert(file, (path.to_owned(), text));
            }
        }
        ::checks::show_sources(report, &texts);
        Ok(())
    }

    /// The text of a file of the workspace, or its beginning; None for what is none.
    async fn source(&self, path: &str) -> Result<Option<String>, Failure> {
        let sandbox = self.sandbox()?;
        match sandbox.guest().read_file(&format!("{WORKSPACE}/{path}"), 0, SOURCE_BYTES).await {
            Ok((bytes, _)) if !bytes.contains(&0) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Ok(_) | Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => Ok(None),
            Err(error @ guest::Error::Unavailable(_)) => Err(error.into()),
        }
    }

    /// The names of files that a script prints in each repository; none where it fails, because they only make a check quicker
    /// or its report better.
    async fn listed(&self, script: &str, args: &[&str]) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        for (number, place) in self.context.workspace.places().iter().enumerate() {
            let env = BTreeMap::from([("LC_ALL".to_owned(), "C.UTF-8".to_owned())]);
            let (args, cwd): (Vec<&str>, _) =
                (args.iter().map(|arg| of(arg, number)).collect(), directory(place));
            let command = Command { script, args: &args, env, cwd: &cwd, timeout: LOOK, limit: NAMES };
            match command.run(&*self.sandbox()?, Some(&self.stop)).await {
                Ok(captured) => {
                    let text = String::from_utf8_lossy(&captured.stdout);
                    names.extend(text.lines().map(|name| forge::placed(place, name)));
                }
                Err(Failure::Problem(problem)) => {
                    tracing::debug!(%problem, "the files of the workspace could not be listed");
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(names)
    }

    async fn follow_check(
        &self,
        id: ItemId,
        command: &str,
        collector: &mut Collector,
    ) -> Result<Ending, Failure> {
        let sandbox = self.sandbox()?;
        let stream = self.context.recorder.stream();
        let mut live = Live::new(
            Deltas::new(stream, id, Channel::Stdout, Pace::Limited),
            Deltas::new(stream, id, Channel::Stderr, Pace::Limited),
        );
        let name = id.to_string();
        let limit = Some(self.context.options.command_timeout);
        let process = sandbox::shell::start(sandbox.guest(), &name, command, limit).await?;
        let ending =
            process::follow(&*sandbox, &name, process, collector, Some(&mut live), Some(&self.stop)).await?;
        process::forget(&*sandbox, &name).await;
        Ok(ending)
    }
}

/// What a check's output says.
pub(crate) fn parsed(check: &Check, output: &str) -> Report {
    // The names are looked at before; one that an older version stored may still be wrong.
    let parsed = ::checks::parse(&check.parser, output).or_else(|| ::checks::parse("auto", output));
    parsed.unwrap_or_else(|| Report { tail: output.to_owned(), ..Report::default() })
}

/// What is said where the program of a check is not in the sandbox. People read it too, and only they can change that for good.
fn not_there(program: &str, check: &str) -> String {
    format!(
        "{program} is not in the sandbox, so the check {check} says nothing of the work. Install it there if that is possible. \
         For good, a person adds it to `setup` of the environment, or names another command in `checks`."
    )
}

/// Whether a report names nothing that failed.
fn is_empty(report: &Report) -> bool {
    report.tests.is_empty() && report.diagnostics.is_empty()
}

/// A check that could not be run to its end, as the agent is told of it.
pub(super) fn failed(name: String, text: String) -> CheckResult {
    let report = Report { tail: text.clone(), ..Report::default() };
    CheckResult { name, report, digest: text, ..CheckResult::default() }
}
