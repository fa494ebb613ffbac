//! The skills of a session: settled before the model is first asked, and the same from then on.

use agent::skills::{Listed, list};
use protocol::{Actor, EventBody, PinnedSkill};

use super::Runner;
use crate::failure::Failure;

impl Runner {
    /// The skills that the session has. Where nobody knows yet they are found, those of the repository at `commit`, kept
    /// beside the log, and recorded.
    pub(super) async fn settle_skills(&self, commit: Option<&str>) -> Result<Vec<PinnedSkill>, Failure> {
        if let Some(skills) = self.pinned_skills() {
            return Ok(skills);
        }
        let workspace = &self.context.workspace;
        let sources = workspace.skill_sources();
        if sources.is_empty() && commit.is_none() {
            return Ok(Vec::new());
        }
        let mirrors = match commit {
            Some(_) => Some(workspace.mirrors().await?),
            None => None,
        };
        let repository = mirrors.as_ref().zip(commit);
        let found = crate::skills::find(&self.context.options.mirrors, sources, repository);
        let found = tokio::select! {
            biased;
            () = self.stop.given() => return Err(Failure::Stopped),
            found = found => found?,
        };
        found.keep(workspace.dir())?;
        let pinned = EventBody::SkillsPinned { skills: found.skills.clone() };
        self.append(&Actor::system(), vec![pinned]).await?;
        for remark in found.remarks {
            self.notice(remark).await?;
        }
        Ok(found.skills)
    }

    /// The skills, if it is settled which there are.
    pub(super) fn pinned_skills(&self) -> Option<Vec<PinnedSkill>> {
        let stream = self.context.recorder.stream();
        stream.with_state(|state| state.skills().map(<[PinnedSkill]>::to_vec))
    }
}

/// The instructions with the list of skills at their end.
pub(super) fn with_skills(instructions: String, skills: &[PinnedSkill]) -> String {
    let listed: Vec<Listed<'_>> = skills
        .iter()
        .map(|skill| Listed { name: &skill.name, description: &skill.description, place: &skill.place })
        .collect();
    let parts = [instructions, list(&listed)];
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n\n")
}
