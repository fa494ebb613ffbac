//! Room for thinking. Every format counts what a model thinks as part of its answer, so a limit that is meant for the answer
//! alone would be used up by a long thought. What is thought comes on top of it, as far as the model can write so much.

use crate::model::{Effort, Model};
use crate::profile::plain;

/// Most tokens for thinking. A model that is given an effort decides by itself how many of them it takes.
pub(crate) const MOST: u32 = 24_576;

/// Families that think without being asked to.
const THINKERS: &[&str] = &[
    "gpt-5",
    "gpt-6",
    "gpt-oss",
    "codex",
    "o1",
    "o3",
    "o4",
    "gemini-2.5",
    "gemini-3",
    "deepseek-reasoner",
    "deepseek-r1",
    "qwq",
    "magistral",
];

impl Effort {
    /// Tokens for thinking, for models that are given a number.
    pub(crate) fn budget(self) -> u32 {
        match self {
            Self::Low => 2048,
            Self::Medium => 8192,
            Self::High => MOST,
        }
    }
}

impl Model {
    /// Most tokens that it may think beside so many of an answer; 0 for a model that does not think.
    pub fn thinking(&self, answer: u32) -> u32 {
        self.thinking_as_told(answer, true)
    }

    /// The same for a server that may be told how much to think, or may not.
    pub(crate) fn thinking_as_told(&self, answer: u32, told: bool) -> u32 {
        let name = plain(&self.model);
        let asked = told && self.overrides.effort.is_some();
        if !asked && !THINKERS.iter().any(|family| name.starts_with(family)) {
            return 0;
        }
        let profile = self.profile();
        let quarter = u32::try_from(profile.context / 4).unwrap_or(u32::MAX);
        MOST.min(quarter).min(profile.max_output.saturating_sub(answer.min(quarter)))
    }
}

/// The limit of a whole answer and what of it is for thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) limit: u32,
    pub(crate) budget: u32,
}

/// Gives a model that wants a number this effort. Where the model cannot write so much, the answer keeps half.
pub(crate) fn split(model: &Model, answer: u32, effort: Effort) -> Split {
    let wanted = effort.budget();
    let extra = wanted.min(model.thinking(answer));
    let limit = answer.saturating_add(extra);
    Split { limit, budget: wanted.min(extra.max(limit / 2)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample;
    use crate::provider::Provider;

    fn thinker(name: &str, effort: Option<Effort>) -> Model {
        let mut model = sample(Provider::OpenAiCompatible, name);
        model.overrides.effort = effort;
        model
    }

    #[test]
    fn only_models_that_think_get_room_for_it() {
        assert_eq!(thinker("gpt-5.1", None).thinking(8192), MOST);
        assert_eq!(thinker("openai/o3", None).thinking(8192), MOST);
        assert_eq!(thinker("gpt-4o", None).thinking(8192), 0);
        assert_eq!(thinker("claude-sonnet-4-5", None).thinking(8192), 0);
        let claude = thinker("claude-sonnet-4-5", Some(Effort::Low));
        assert_eq!(claude.thinking(8192), MOST);
        assert_eq!(claude.thinking_as_told(8192, false), 0, "the server takes no effort");
    }

    #[test]
    fn the_whole_is_no_longer_than_the_model_can_write_and_leaves_room_to_read() {
        assert_eq!(thinker("claude-opus-4-1", Some(Effort::High)).thinking(8192), 32_000 - 8192);
        let mut small = thinker("nobody-knows", Some(Effort::High));
        assert_eq!(small.thinking(8192), 0, "an answer of 8192 tokens is all that is sure");
        small.overrides.context = Some(200_000);
        assert_eq!(small.thinking(8192), MOST);
        small.overrides.context = Some(40_000);
        small.overrides.max_output = Some(39_000);
        assert_eq!(small.thinking(8192), 10_000);
    }

    #[test]
    fn more_effort_is_a_larger_budget_and_the_answer_keeps_its_room() {
        let split = |name: &str, effort| split(&thinker(name, Some(effort)), 8192, effort);
        for (effort, budget) in [(Effort::Low, 2048), (Effort::Medium, 8192), (Effort::High, MOST)] {
            assert_eq!(split("claude-sonnet-4-5", effort), Split { limit: 8192 + budget, budget });
        }
        assert_eq!(split("claude-3-5", Effort::High), Split { limit: 8192, budget: 4096 });
    }
}
