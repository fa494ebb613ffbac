//! Several repositories as one. What is known of a workspace by one name, such as a commit, a tree or a branch, is then a joint
//! name: that of each repository, in the order of the environment, with a space between. Of one repository it is that
//! repository's own, so that nobody who only hands names on must know how many there are.

use forge::{Entry, Mirror, Mirrors, Tip, placed};
use futures_util::future::try_join_all;
use protocol::{Code, Diff, Environment, Problem};

use crate::failure::Failure;

/// What is between the names that a joint name is made of. No name of git's has it.
const BETWEEN: &str = " ";
/// The mode of a directory, as git writes it.
const DIRECTORY: &str = "040000";

/// A joint name of these.
pub(crate) fn join<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<S> = names.into_iter().collect();
    names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(BETWEEN)
}

/// The names that a joint name is made of.
pub(crate) fn split(joint: &str) -> impl Iterator<Item = &str> {
    joint.split(BETWEEN)
}

/// The name that one repository has in a joint name.
pub(crate) fn of(joint: &str, number: usize) -> &str {
    split(joint).nth(number).unwrap_or_default()
}

/// A joint name of commits as people read it.
pub(crate) fn short(joint: &str) -> String {
    join(split(joint).map(|commit| commit.get(..12).unwrap_or(commit)))
}

/// Which repository a path of the workspace is in, and what it is called there.
pub(crate) fn within<'a>(places: &[String], path: &'a str) -> Option<(usize, &'a str)> {
    places.iter().enumerate().find_map(|(number, place)| {
        if place.is_empty() || path == place {
            return Some((number, if place.is_empty() { path } else { "" }));
        }
        Some((number, path.strip_prefix(place.as_str())?.strip_prefix('/')?))
    })
}

/// The addresses of an environment's repositories, with where they lie, as one text. It changes when any of that does.
pub(crate) fn address(environment: &Environment) -> String {
    let named = |(repo, place): (&protocol::Repo, String)| {
        let url = forge::public_url(&repo.url);
        if place.is_empty() { url } else { format!("{url} in {place}") }
    };
    environment.repos.iter().zip(environment.places()).map(named).collect::<Vec<_>>().join(", ")
}

/// The host's copies of all repositories of an environment.
#[derive(Debug, Clone)]
pub(crate) struct Joint {
    places: Vec<String>,
    mirrors: Vec<Mirror>,
    wanted: Vec<Option<String>>,
}

/// Does something with each copy and what it has under joint names, and gives what came of it.
macro_rules! each {
    ($joint:expr, |$mirror:ident, $place:ident $(, $name:ident)*| $work:expr) => {{
        let mut all = Vec::with_capacity($joint.mirrors.len());
        for (number, ($mirror, $place)) in $joint.mirrors.iter().zip(&$joint.places).enumerate() {
            $(let $name = of($name, number);)*
            let _ = (number, $place);
            all.push($work);
        }
        all
    }};
}

impl Joint {
    fn new(environment: &Environment, mirrors: Vec<Mirror>) -> Self {
        let places = environment.places();
        let mirrors = mirrors.into_iter().zip(&places).map(|(mirror, place)| mirror.placed(place)).collect();
        let wanted = environment.repos.iter().map(|repo| repo.branch.clone()).collect();
        Self { places, mirrors, wanted }
    }

    /// The copies, fetched anew.
    pub(crate) async fn fetch(mirrors: &Mirrors, environment: &Environment) -> Result<Self, Failure> {
        if environment.repos.is_empty() {
            return Err(no_repository().into());
        }
        let all = try_join_all(environment.repos.iter().map(|repo| mirrors.fetch(&repo.url))).await?;
        Ok(Self::new(environment, all))
    }

    /// The copies as they are; None where one was never fetched.
    pub(crate) fn existing(mirrors: &Mirrors, environment: &Environment) -> Option<Self> {
        let all: Option<Vec<Mirror>> =
            environment.repos.iter().map(|repo| mirrors.existing(&repo.url)).collect();
        all.filter(|all| !all.is_empty()).map(|all| Self::new(environment, all))
    }

    /// The copies, from the remotes only where there are none.
    pub(crate) async fn have(mirrors: &Mirrors, environment: &Environment) -> Result<Self, Failure> {
        match Self::existing(mirrors, environment) {
            Some(joint) => Ok(joint),
            None => Self::fetch(mirrors, environment).await,
        }
    }

    /// Each copy with where its repository lies.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&str, &Mirror)> {
        self.places.iter().map(String::as_str).zip(&self.mirrors)
    }

    /// Whether there is only one repository, which is the workspace itself.
    pub(crate) fn is_alone(&self) -> bool {
        self.places.iter().all(String::is_empty)
    }

    /// One of them, by its place in the order.
    pub(crate) fn mirror(&self, number: usize) -> Option<&Mirror> {
        self.mirrors.get(number)
    }

    /// The tips that sessions start from, as of the last fetch.
    pub(crate) async fn tip(&self) -> Result<Tip, forge::Error> {
        let mut tips = Vec::new();
        for (mirror, branch) in self.mirrors.iter().zip(&self.wanted) {
            tips.push(mirror.tip(branch.as_deref()).await?);
        }
        Ok(Tip {
            branch: join(tips.iter().map(|tip| &tip.branch)),
            commit: join(tips.iter().map(|tip| &tip.commit)),
        })
    }

    /// Where branches of these names are.
    pub(crate) async fn tip_of(&self, branch: &str) -> Result<Tip, forge::Error> {
        let tips = each!(self, |mirror, _place, branch| mirror.tip(Some(branch)).await?.commit);
        Ok(Tip { branch: branch.to_owned(), commit: join(tips) })
    }

    /// What a file or directory of the workspace is at a commit: it changes when the content does.
    pub(crate) async fn object(&self, commit: &str, path: &str) -> Result<Option<String>, forge::Error> {
        let plain = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
        match within(&self.places, plain) {
            Some((number, "")) if !self.places[number].is_empty() => Ok(Some(of(commit, number).to_owned())),
            Some((number, _)) if self.places[number].is_empty() => {
                self.mirrors[number].object(of(commit, number), path).await
            }
            Some((number, inside)) => self.mirrors[number].object(of(commit, number), inside).await,
            None => Ok(None),
        }
    }

    /// A file of the workspace at a commit.
    pub(crate) async fn read(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, forge::Error> {
        match within(&self.places, path) {
            Some((number, inside)) => self.mirrors[number].read(of(commit, number), inside).await,
            None => Ok(None),
        }
    }

    /// The entries of a directory of the workspace at a commit; None where there is no such directory.
    pub(crate) async fn entries(&self, commit: &str, path: &str) -> Result<Option<Vec<Entry>>, forge::Error> {
        if let Some((number, inside)) = within(&self.places, path) {
            return self.mirrors[number].entries(of(commit, number), inside).await;
        }
        // Above the repositories there are the directories that lead to them, and nothing else.
        let above = placed(path, "");
        let names = self.places.iter().filter_map(|place| place.strip_prefix(&above)?.split('/').next());
        let names: std::collections::BTreeSet<&str> = names.collect();
        let entry = |name: &str| Entry { name: name.to_owned(), mode: DIRECTORY.to_owned(), size: None };
        Ok((!names.is_empty()).then(|| names.into_iter().map(entry).collect()))
    }

    /// A unified diff between two commits with counts.
    pub(crate) async fn diff(&self, base: &str, commit: &str) -> Result<Diff, forge::Error> {
        let whole = base;
        let diffs = each!(self, |mirror, _place, base, commit| mirror.diff(base, commit).await?);
        Ok(Diff { base: whole.to_owned(), ..together(diffs) })
    }

    /// The diff with all of the changed files around what changed; None where that is too long.
    pub(crate) async fn whole_files(&self, base: &str, commit: &str) -> Result<Option<String>, forge::Error> {
        let texts = each!(self, |mirror, _place, base, commit| mirror.whole_files(base, commit).await?);
        let texts: Option<Vec<String>> = texts.into_iter().collect();
        let text = texts.map(|texts| texts.concat());
        Ok(text.filter(|text| text.len() <= forge::PATCH_LIMIT))
    }

    /// The names of files that are not the same in two commits: in the workspace, and in their repository.
    pub(crate) async fn differing(
        &self,
        one: &str,
        other: &str,
    ) -> Result<Vec<(String, String)>, forge::Error> {
        let names = each!(self, |mirror, place, one, other| {
            let names = mirror.differing(one, other).await?;
            names.into_iter().map(|name| (placed(place, &name), name)).collect::<Vec<_>>()
        });
        Ok(names.concat())
    }

    /// How many commits `commit` has that `since` has not, and the names of files that differ between them.
    pub(crate) async fn between(
        &self,
        since: &str,
        commit: &str,
        most: usize,
    ) -> Result<(u64, Vec<String>), forge::Error> {
        let (mut commits, mut files) = (0, Vec::new());
        let all = each!(self, |mirror, place, since, commit| {
            let (commits, names) = mirror.between(since, commit, most).await?;
            (commits, names.into_iter().map(|name| placed(place, &name)).collect::<Vec<_>>())
        });
        for (more, names) in all {
            commits += more;
            files.extend(names);
        }
        files.truncate(most);
        Ok((commits, files))
    }

    /// What is kept of a session; of a repository of which nothing is, what `known` says.
    pub(crate) async fn kept(&self, session: &str, known: &str) -> Result<String, forge::Error> {
        let kept = each!(self, |mirror, _place, known| {
            mirror.kept(session).await?.unwrap_or_else(|| known.to_owned())
        });
        Ok(join(kept))
    }
}

/// The diffs of several repositories as one.
pub(crate) fn together(diffs: Vec<Diff>) -> Diff {
    let mut whole = Diff { base: String::new(), patch: String::new(), files: 0, insertions: 0, deletions: 0 };
    for diff in diffs {
        whole.patch.push_str(&diff.patch);
        whole.files = whole.files.saturating_add(diff.files);
        whole.insertions = whole.insertions.saturating_add(diff.insertions);
        whole.deletions = whole.deletions.saturating_add(diff.deletions);
    }
    whole
}

/// Says which repository something is about, where there are several.
pub(crate) fn about(place: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Problem(problem) if !place.is_empty() => {
            Failure::Problem(Problem { title: format!("{place}: {}", problem.title), ..problem })
        }
        failure => failure,
    }
}

fn no_repository() -> Problem {
    Problem::new(Code::BadRequest, "the environment has no repository")
        .hint("add one: repos = [{ url = \"…\" }]")
}

#[cfg(test)]
mod tests {
    use protocol::Repo;

    use super::*;

    #[test]
    fn one_repository_goes_by_its_own_names() {
        assert_eq!(
            (join(["a1"]), of("a1", 0), short("0123456789abcdef")),
            ("a1".into(), "a1", "0123456789ab".into())
        );
        assert_eq!((of("a1 b2", 1), of("a1", 1)), ("b2", ""));
        assert_eq!(within(&[String::new()], "src/a"), Some((0, "src/a")));
        let one = Environment { repos: vec![Repo::at("/srv/a")], ..Environment::default() };
        assert_eq!(address(&one), "/srv/a");
        let two = Environment { repos: vec![Repo::at("/srv/a"), Repo::at("https://x:y@z.test/b")], ..one };
        assert_eq!(address(&two), "/srv/a in a, https://z.test/b in b");
    }

    #[test]
    fn a_path_is_in_the_repository_that_lies_there() {
        let places = ["api".to_owned(), "apps/web".to_owned()];
        assert_eq!(within(&places, "api/src/a"), Some((0, "src/a")));
        assert_eq!(within(&places, "apps/web"), Some((1, "")));
        assert_eq!(within(&places, "apis/x"), None);
        assert_eq!(within(&places, "apps"), None);
    }
}
