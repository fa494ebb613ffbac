//! Which model does what: a route names the model of a task, and a model names those that take over when it fails.

use serde::{Deserialize, Serialize};

use crate::Options;

/// What a model is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// The work itself: the default of sessions that name no model.
    Code,
    /// To say which of a few kinds something is.
    Classify,
    /// To sum up a conversation that became too long.
    Summarise,
    /// To give a session its title.
    Title,
    /// To say whether work is good.
    Judge,
}

impl Task {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Code, Self::Classify, Self::Summarise, Self::Title, Self::Judge];

    /// The key in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Classify => "classify",
            Self::Summarise => "summarise",
            Self::Title => "title",
            Self::Judge => "judge",
        }
    }
}

/// The models of tasks, by name. What has none is done by the session's own model, and a title by nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Routes {
    /// Of the work itself.
    pub code: Option<String>,
    /// Of sorting something into kinds.
    pub classify: Option<String>,
    /// Of summaries.
    pub summarise: Option<String>,
    /// Of titles.
    pub title: Option<String>,
    /// Of verdicts.
    pub judge: Option<String>,
}

impl Routes {
    /// The name of the model for a task, where there is one.
    pub fn of(&self, task: Task) -> Option<&str> {
        match task {
            Task::Code => &self.code,
            Task::Classify => &self.classify,
            Task::Summarise => &self.summarise,
            Task::Title => &self.title,
            Task::Judge => &self.judge,
        }
        .as_deref()
    }

    /// The tasks of the model of this name.
    pub fn tasks(&self, model: &str) -> impl Iterator<Item = Task> {
        Task::ALL.into_iter().filter(move |task| self.of(*task) == Some(model))
    }

    /// The first task whose model is not one of these, with that model's name.
    pub fn unknown<'a>(&'a self, known: &[&str]) -> Option<(Task, &'a str)> {
        let named = Task::ALL.into_iter().filter_map(|task| Some((task, self.of(task)?)));
        named.into_iter().find(|(_, name)| !known.contains(name))
    }
}

impl Options {
    /// The model that the configuration gives a task to.
    pub fn routed(&self, task: Task) -> Option<&llm::Model> {
        let name = self.routes.of(task)?;
        self.models.iter().find(|model| model.name == name)
    }

    /// The models for a task, in the order in which they are asked: the route's, and then those that take over from it. None
    /// where the configuration names no model for it.
    pub(crate) fn line(&self, task: Task) -> Vec<llm::Model> {
        let Some(first) = self.routed(task) else { return Vec::new() };
        let find = |name: &str| self.models.iter().find(|model| model.name == name);
        succession(&self.models, &first.name).into_iter().filter_map(find).cloned().collect()
    }

    /// The model for a task: the route's, or else the one that works on the session.
    pub fn model_for<'a>(&'a self, task: Task, otherwise: &'a llm::Model) -> &'a llm::Model {
        self.routed(task).unwrap_or(otherwise)
    }
}

/// Who takes over from `now`, in a session whose own model is `own`: the next of those that `own` names, then of those that
/// these name. Each has one go, so lists may name each other.
pub(crate) fn successor<'a>(models: &'a [llm::Model], own: &str, now: &str) -> Option<&'a llm::Model> {
    let line = succession(models, own);
    let line = if line.contains(&now) { line } else { succession(models, now) };
    let next = line.into_iter().skip_while(|name| *name != now).nth(1)?;
    models.iter().find(|model| model.name == next)
}

fn succession<'a>(models: &'a [llm::Model], first: &str) -> Vec<&'a str> {
    let find = |name: &str| models.iter().find(|model| model.name == name);
    let mut line: Vec<&llm::Model> = find(first).into_iter().collect();
    let mut place = 0;
    while let Some(model) = line.get(place) {
        place += 1;
        for next in model.overrides.fallback.iter().filter_map(|name| find(name)) {
            if !line.iter().any(|known| known.name == next.name) {
                line.push(next);
            }
        }
    }
    line.into_iter().map(|model| model.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(lists: &[(&str, &[&str])]) -> Vec<llm::Model> {
        let model = |(name, fallback): &(&str, &[&str])| llm::Model {
            name: (*name).into(),
            provider: llm::Provider::Ollama,
            model: "m".into(),
            base_url: None,
            key: None,
            headers: Default::default(),
            price: None,
            overrides: llm::Overrides {
                fallback: fallback.iter().map(|name| (*name).into()).collect(),
                ..llm::Overrides::default()
            },
        };
        lists.iter().map(model).collect()
    }

    fn line<'a>(models: &'a [llm::Model], own: &'a str) -> Vec<&'a str> {
        let next = |now: &&'a str| successor(models, own, now).map(|model| model.name.as_str());
        std::iter::successors(Some(own), next).collect()
    }

    #[test]
    fn each_model_of_a_list_has_one_go_also_in_chains_and_circles() {
        let chain = models(&[("a", &["b", "c"]), ("b", &["d", "a"]), ("c", &["c", "b"]), ("d", &[])]);
        assert_eq!(line(&chain, "a"), ["a", "b", "c", "d"]);
        assert_eq!(line(&chain, "b"), ["b", "d", "a", "c"]);
        assert_eq!(line(&chain, "d"), ["d"]);
        let circle = models(&[("a", &["b"]), ("b", &["a"])]);
        assert_eq!((line(&circle, "a"), line(&circle, "b")), (vec!["a", "b"], vec!["b", "a"]));
        let unknown = models(&[("a", &["gone", "b"]), ("b", &[])]);
        assert_eq!(line(&unknown, "a"), ["a", "b"]);
    }

    #[test]
    fn a_model_that_is_in_no_list_any_more_goes_by_its_own() {
        let changed = models(&[("a", &[]), ("b", &["c"]), ("c", &[])]);
        assert_eq!(successor(&changed, "a", "b").map(|model| model.name.as_str()), Some("c"));
        assert!(successor(&changed, "a", "gone").is_none());
    }

    #[test]
    fn a_route_names_a_model_that_there_is() {
        let routes = Routes { title: Some("small".into()), judge: Some("big".into()), ..Routes::default() };
        assert_eq!(routes.tasks("small").map(Task::as_str).collect::<Vec<_>>(), ["title"]);
        assert_eq!(routes.unknown(&["big", "small"]), None);
        assert_eq!(routes.unknown(&["small"]), Some((Task::Judge, "big")));
    }
}
