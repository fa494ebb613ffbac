//! Keys: what a layer's name says of how it was made. The same key, the same content.

use protocol::Service;
use sha2::{Digest, Sha256};

#[cfg(test)]
use super::Extras;
use super::{Recipe, Repo, Step};
use crate::{Error, LayerId, Stack, base};

/// Raised when layers are made differently, so that none of before is taken for one of now.
const LAYOUT: u32 = 2;

/// Letters of a key. 96 bits: enough that no two meet, short enough to be read.
const LENGTH: usize = 24;

/// Adds up fields. Each is told apart from the next by its length, so `ab`, `c` and `a`, `bc` differ.
struct Sum(Sha256);

impl Sum {
    fn of(kind: &str) -> Self {
        Self(Sha256::new()).text(kind).text(env!("CARGO_PKG_VERSION")).number(u64::from(LAYOUT))
    }

    fn number(mut self, number: u64) -> Self {
        self.0.update(number.to_le_bytes());
        self
    }

    fn text(self, text: &str) -> Self {
        let mut sum = self.number(text.len() as u64);
        sum.0.update(text.as_bytes());
        sum
    }

    fn list<'a>(self, texts: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let sum = self.number(texts.len() as u64);
        texts.fold(sum, Self::text)
    }

    fn inputs(self, step: &Step) -> Self {
        let mut inputs: Vec<&(String, Option<String>)> = step.inputs.iter().collect();
        inputs.sort();
        let sum = self.number(inputs.len() as u64);
        inputs.into_iter().fold(sum, |sum, (path, digest)| match digest {
            Some(digest) => sum.text(path).number(1).text(digest),
            None => sum.text(path).number(0),
        })
    }

    fn stack(self, stack: &Stack) -> Self {
        let base = match stack.base {
            crate::Base::Host => "host",
            crate::Base::Scratch => "scratch",
        };
        let sum = self.text(base).list(stack.layers.iter().map(LayerId::as_str));
        let sum = sum.number(stack.env.len() as u64);
        stack.env.iter().fold(sum, |sum, (name, value)| sum.text(name).text(value))
    }

    fn services(self, services: &[Service]) -> Self {
        let sum = self.number(services.len() as u64);
        services.iter().fold(sum, |sum, service| sum.text(&service.name).text(&service.run))
    }

    fn key(self) -> String {
        let digest = self.0.finalize();
        let mut key: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        key.truncate(LENGTH);
        key
    }
}

/// What a step meets beside files: the way out that it has, the secrets that it can use, what the kernel lets it do. A
/// layer is not for an environment where a step would have met something else: what it fetched there may not be allowed
/// here, and what stands for a secret is another in each environment.
pub(super) fn surroundings(recipe: &Recipe) -> String {
    let sum = Sum::of("surroundings").number(u64::from(recipe.limits.user_namespaces));
    let Some(egress) = &recipe.egress else { return sum.text("no network").key() };
    let rules = egress.rules.words();
    let mut secrets: Vec<Vec<String>> = egress.secrets.iter().map(crate::egress::Secret::words).collect();
    secrets.sort_unstable();
    let sum = sum.text("network").list(rules.iter().map(String::as_str)).number(secrets.len() as u64);
    secrets.iter().fold(sum, |sum, secret| sum.list(secret.iter().map(String::as_str))).key()
}

/// The layer of a repository at a commit. It depends on no base: it is always made with the host's git.
pub(super) fn repo(repo: &Repo) -> Result<LayerId, Error> {
    let sum = Sum::of("repo").text(&repo.url).text(&repo.branch).text(&repo.commit);
    // One without extras has the name that it always had.
    let words = &repo.extras.words;
    let sum = if words.is_empty() { sum } else { sum.list(words.iter().map(String::as_str)) };
    let key = sum.key();
    format!("repo-{key}").parse()
}

/// The key of a set-up step that depends on its inputs, its [`surroundings`] and the set-up before it only, whatever the
/// branch and the commit. It is of one repository: what the step runs and reads beside its inputs is that repository's,
/// and nobody else's to vouch for.
pub(super) fn portable(url: &str, base: &str, surroundings: &str, step: &Step, before: &[String]) -> String {
    let before = before.iter().map(String::as_str);
    let sum = Sum::of("portable").text(url).text(base).text(surroundings);
    sum.text(&step.run).inputs(step).list(before).key()
}

/// The layer of a set-up step under its portable key.
pub(super) fn portable_layer(key: &str) -> Result<LayerId, Error> {
    format!("setup-{key}").parse()
}

/// The layer of a step that depends on everything below it, its [`surroundings`], and the services it runs beside.
pub(super) fn full_layer(
    kind: &str,
    base: &str,
    surroundings: &str,
    step: &Step,
    below: &Stack,
    services: &[Service],
) -> Result<LayerId, Error> {
    let sum = Sum::of(kind).text(base).text(surroundings).text(&step.run).inputs(step);
    format!("{kind}-{}", sum.stack(below).services(services).key()).parse()
}

/// The layer that shows what these show together.
pub(super) fn squashed(layers: &[LayerId]) -> Result<LayerId, Error> {
    let key = Sum::of("squash").list(layers.iter().map(LayerId::as_str)).key();
    format!("squash-{key}").parse()
}

/// The key of an image.
pub(super) fn image(stack: &Stack) -> String {
    Sum::of("image").stack(stack).key()
}

/// The name of what is known about layers that were not made on each other.
pub(super) fn combination(stack: &Stack) -> String {
    Sum::of("combination").stack(stack).key()
}

/// The name of what is known about a base that has these programs.
pub(super) fn probed(base: &str, programs: &[&str]) -> String {
    Sum::of("probed").text(base).list(programs.iter().copied()).key()
}

/// A file's name for any text.
pub(super) fn file_name(text: &str) -> String {
    Sum::of("name").text(text).key()
}

/// What is to be done, whatever the commit.
pub(super) fn recipe(recipe: &Recipe) -> String {
    let (kind, detail) = match &recipe.base {
        base::Source::Host => ("host", String::new()),
        base::Source::Tar(path) => ("tar", path.display().to_string()),
        base::Source::Oci(name) => ("oci", name.clone()),
        base::Source::Dockerfile(path) => ("dockerfile", path.clone()),
        base::Source::Devcontainer(path) => ("devcontainer", path.clone()),
    };
    let sum = Sum::of("recipe").text(kind).text(&detail).text(&recipe.repo.url).text(&recipe.repo.branch);
    let sum = [&recipe.setup, &recipe.warm].into_iter().fold(sum, |sum, steps| {
        steps.iter().fold(sum.number(steps.len() as u64), |sum, step| {
            sum.text(&step.run).list(step.inputs.iter().map(|(path, _)| path.as_str()))
        })
    });
    let sum = sum.services(&recipe.services);
    // A step that failed for want of it is tried anew once it is allowed.
    let sum = if recipe.limits.user_namespaces { sum.text("user namespaces") } else { sum };
    sum.key()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn step(run: &str, inputs: &[(&str, Option<&str>)]) -> Step {
        let inputs = inputs.iter().map(|(path, digest)| ((*path).to_owned(), digest.map(str::to_owned)));
        Step {
            run: run.to_owned(),
            inputs: inputs.collect(),
            notes: Vec::new(),
            attempts: 1,
            timeout: Duration::from_secs(1),
        }
    }

    const URL: &str = "https://git.example.com/app";
    const OPEN: &str = "open";

    #[test]
    fn a_portable_key_changes_with_repository_command_inputs_base_and_what_came_before() {
        let lock = step("npm ci", &[("package-lock.json", Some("aa"))]);
        let key = portable(URL, "host", OPEN, &lock, &[]);
        assert_eq!(key.len(), LENGTH);
        assert_eq!(key, portable(URL, "host", OPEN, &lock.clone(), &[]));
        let patient = Step { attempts: 9, timeout: Duration::from_secs(9), ..lock.clone() };
        assert_eq!(key, portable(URL, "host", OPEN, &patient, &[]), "how often and how long does not count");
        for other in [
            portable("https://git.example.com/other", "host", OPEN, &lock, &[]),
            portable(URL, "oci", OPEN, &lock, &[]),
            portable(URL, "host", "closed", &lock, &[]),
            portable(URL, "host", OPEN, &lock, &["before".to_owned()]),
            portable(URL, "host", OPEN, &step("npm i", &[("package-lock.json", Some("aa"))]), &[]),
            portable(URL, "host", OPEN, &step("npm ci", &[("package-lock.json", Some("ab"))]), &[]),
            portable(URL, "host", OPEN, &step("npm ci", &[("package-lock.json", None)]), &[]),
            portable(URL, "host", OPEN, &step("npm ci", &[("package-lock.json", Some(""))]), &[]),
            portable(URL, "host", OPEN, &step("npm ci", &[("yarn.lock", Some("aa"))]), &[]),
        ] {
            assert_ne!(key, other);
        }
    }

    #[test]
    fn the_order_of_inputs_does_not_count() {
        let one = step("x", &[("a", Some("1")), ("b", None)]);
        let other = step("x", &[("b", None), ("a", Some("1"))]);
        assert_eq!(portable(URL, "host", OPEN, &one, &[]), portable(URL, "host", OPEN, &other, &[]));
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let one = Repo {
            url: "ab".into(),
            branch: "c".into(),
            commit: "d".into(),
            bundle: "x".into(),
            extras: Extras::default(),
        };
        let other = Repo { url: "a".into(), branch: "bc".into(), ..one.clone() };
        assert_ne!(repo(&one).unwrap(), repo(&other).unwrap());
        let elsewhere = Repo { bundle: "y".into(), ..one.clone() };
        assert_eq!(repo(&one).unwrap(), repo(&elsewhere).unwrap(), "where the bundle lies does not count");
        let extras = Extras { words: vec!["lib at 1".to_owned()], ..Extras::default() };
        let more = Repo { extras, ..one.clone() };
        assert_ne!(repo(&one).unwrap(), repo(&more).unwrap(), "what is laid into it counts");
    }

    #[test]
    fn a_full_key_changes_with_what_is_below() {
        let step = step("make", &[]);
        let below = Stack::host();
        let above = below.with("repo-1".parse().unwrap());
        let layer = |stack: &Stack, services: &[Service]| {
            full_layer("warm", "host", OPEN, &step, stack, services).unwrap()
        };
        assert!(layer(&below, &[]).as_str().starts_with("warm-"));
        assert_ne!(layer(&below, &[]), layer(&above, &[]));
        let database = Service { name: "db".into(), run: "postgres".into(), ..Service::default() };
        assert_ne!(layer(&below, &[]), layer(&below, &[database]));
        assert_ne!(image(&below), image(&above));
        assert_ne!(layer(&below, &[]), full_layer("warm", "host", "closed", &step, &below, &[]).unwrap());
    }
}
