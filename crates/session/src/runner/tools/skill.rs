//! `skill`: what a skill says, as it was when the session began. The files of one that is not the repository's are put into the
//! sandbox first.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::PinnedSkill;
use sandbox::Sandbox;

use super::{Done, Scope};
use crate::failure::Failure;
use crate::process::Command;
use crate::runner::Runner;
use crate::skills::{self, SkillFile};
use crate::stop::Stop;

/// Names the revision of a skill in the sandbox, and is written last.
const MARK: &str = ".revision";
/// Most files that an answer names.
const NAMED: usize = 50;
/// How long it may take to take rights away.
const PROTECT: Duration = Duration::from_secs(10);
/// Nobody writes to what is a copy; programs among the files can be run.
const READ_ONLY: &str =
    r#"dir=$1; shift; for file do chmod a+x -- "$dir/$file" || exit 1; done; chmod -R a-w,a+rX -- "$dir""#;

pub(super) async fn run(runner: &Runner, scope: &Scope, name: &str) -> Result<Done, Failure> {
    let all = runner.pinned_skills().unwrap_or_default();
    let Some(skill) = all.iter().find(|skill| skill.name.eq_ignore_ascii_case(name)) else {
        let names: Vec<&str> = all.iter().map(|skill| skill.name.as_str()).collect();
        return Ok(Done::error(match names.is_empty() {
            true => "This session has no skills.".to_owned(),
            false => format!("There is no skill \"{name}\". The skills are: {}.", names.join(", ")),
        }));
    };
    let files = match skills::files(&scope.dir, &skill.name).await {
        Ok(files) => files,
        Err(problem) => {
            let text = format!("The skill {} cannot be loaded any more: {}", skill.name, problem.title);
            return Ok(Done::error(text));
        }
    };
    let text = files.iter().find(|file| file.path == "SKILL.md");
    let text = text.map(|file| String::from_utf8_lossy(&file.bytes).into_owned()).unwrap_or_default();
    let body = agent::skills::parse(&text).map_or(text, |parsed| parsed.body);
    if skills::is_brought(skill) {
        bring(&*scope.sandbox, skill, &files, &scope.stop).await?;
    }
    Ok(Done::ok(format!("{}\n\n{body}", head(skill, &files))))
}

/// Puts every skill that is not the repository's into the sandbox, for a model that has no tool to load one.
pub(in crate::runner) async fn bring_all(runner: &Runner) -> Result<(), Failure> {
    let sandbox = runner.sandbox()?;
    for skill in runner.pinned_skills().unwrap_or_default().iter().filter(|skill| skills::is_brought(skill)) {
        match skills::files(runner.context.workspace.dir(), &skill.name).await {
            Ok(files) => bring(&*sandbox, skill, &files, &runner.stop).await?,
            Err(problem) => tracing::warn!(skill = skill.name, %problem, "a skill cannot be loaded any more"),
        }
    }
    Ok(())
}

/// What stands before the body.
fn head(skill: &PinnedSkill, files: &[SkillFile]) -> String {
    let mut text =
        format!("Skill {}, from {}. Its folder is {}", skill.name, skills::origin(skill), skill.place);
    if !skills::is_brought(skill) {
        text.push_str(", where its other files are; the paths that it names are from there.");
        return text;
    }
    let names: Vec<&str> =
        files.iter().map(|file| file.path.as_str()).filter(|path| *path != "SKILL.md").collect();
    if names.is_empty() {
        text.push('.');
        return text;
    }
    let more = if names.len() > NAMED { format!(" and {} more", names.len() - NAMED) } else { String::new() };
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    text.push_str(&format!(
        " (read-only); the paths that it names are from there. Its other files: {shown}{more}."
    ));
    text
}

/// Puts a skill's files where they belong, unless they are there.
async fn bring(
    sandbox: &dyn Sandbox,
    skill: &PinnedSkill,
    files: &[SkillFile],
    stop: &Stop,
) -> Result<(), Failure> {
    let guest = sandbox.guest();
    let (place, mark) = (&skill.place, format!("{}/{MARK}", skill.place));
    match guest.read_file(&mark, 0, 1024).await {
        Ok((bytes, _)) if bytes == skill.tree.as_bytes() => return Ok(()),
        Ok(_) | Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => {}
        Err(error @ guest::Error::Unavailable(_)) => return Err(error.into()),
    }
    for file in files {
        guest.write_file(&format!("{place}/{}", file.path), file.bytes.clone().into()).await?;
    }
    guest.write_file(&mark, skill.tree.clone().into_bytes().into()).await?;
    let programs = files.iter().filter(|file| file.executable).map(|file| file.path.as_str());
    let args: Vec<&str> = std::iter::once(place.as_str()).chain(programs).collect();
    let command = Command {
        script: READ_ONLY,
        args: &args,
        env: BTreeMap::new(),
        cwd: "/",
        timeout: PROTECT,
        limit: 0,
    };
    let ended = command.run(sandbox, Some(stop)).await?;
    if ended.code != 0 {
        tracing::warn!(skill = skill.name, why = ended.trouble(PROTECT), "a skill's files are not read-only");
    }
    Ok(())
}
