//! Repositories in a repository. Their addresses are the repository's to choose and the logins of this machine are not for
//! any address, so each is judged: one beside its parent is reached as that is, one at a forge of the configuration with
//! the forge's own login, one that the environment's network allows without any login, and no other.

use std::path::{Component, Path, PathBuf};

use crate::git::Overflow;
use crate::url::Url;
use crate::{Error, Mirror, Mirrors, dot_git, name};

/// Where git keeps the list of them.
const FILE: &str = ".gitmodules";
/// The mode of one in a tree.
const MODE: &str = "160000";
/// Where commits are that no branch has.
const ALONE: &str = "refs/slipway-submodules/";
/// Most that are looked at.
const MOST: usize = 200;

/// A repository in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submodule {
    /// What the list calls it.
    pub name: String,
    /// Where it is in the repository.
    pub path: String,
    /// Its address as the list has it.
    pub url: String,
    /// The commit that it is at.
    pub commit: String,
}

/// A submodule that is at another commit than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Where it is in the repository.
    pub path: String,
    /// The commit that it is at now.
    pub commit: String,
    /// What the list has of it; None where it is in no list.
    pub listed: Option<Submodule>,
}

/// Whether a host may be reached on a port, without logins.
pub type Reach<'a> = &'a (dyn Fn(&str, u16) -> bool + Sync);

impl Mirror {
    /// The submodules of a commit that its list has.
    pub async fn submodules(&self, commit: &str) -> Result<Vec<Submodule>, Error> {
        let commit = name::commit(commit)?;
        if !self.root(commit).await?.iter().any(|name| name == FILE) {
            return Ok(Vec::new());
        }
        let git = self.git("config").arg(format!("--blob={commit}:{FILE}")).args(["-z", "--list"]);
        let listed = git.bound(1024 * 1024, Overflow::Cut).confined().run().await?;
        if !listed.success() {
            return Err(Error::Io(format!(
                "{FILE} cannot be read: {}",
                crate::remote::reason(&listed.stderr)
            )));
        }
        let mut found = Vec::new();
        for (name, path, url) in list(&String::from_utf8_lossy(&listed.stdout)) {
            if let Some(commit) = self.link(commit, &path).await? {
                found.push(Submodule { name, path, url, commit });
            }
        }
        Ok(found)
    }

    /// The commit of the submodule at this place.
    async fn link(&self, commit: &str, path: &str) -> Result<Option<String>, Error> {
        let listed = self.git("ls-tree").args(["-z", commit, "--", path]).confined().succeed().await?.text();
        let entry = listed.split_terminator('\0').find_map(|entry| {
            let (fields, name) = entry.split_once('\t')?;
            (name == path).then(|| fields.split(' ').map(str::to_owned).collect::<Vec<_>>())
        });
        Ok(entry.and_then(|fields| match &fields[..] {
            [mode, _, object] if mode == MODE => Some(object.clone()),
            _ => None,
        }))
    }

    /// The submodules that are at another commit than they were.
    pub async fn moved_submodules(&self, base: &str, commit: &str) -> Result<Vec<Moved>, Error> {
        let (base, commit) = (name::commit(base)?, name::commit(commit)?);
        let git = self.git("diff-tree").args([
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
            base,
            commit,
            "--",
        ]);
        let listing = git.bound(512 * 1024 * 1024, Overflow::Fail).confined().succeed().await?.stdout;
        let mut fields = listing.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        let mut links = Vec::new();
        while let (Some(change), Some(path)) = (fields.next(), fields.next()) {
            let change = String::from_utf8_lossy(change);
            let parts: Vec<&str> = change.trim_start_matches(':').split(' ').collect();
            if let [_, MODE, _, object, _] = parts[..] {
                links.push((String::from_utf8_lossy(path).into_owned(), object.to_owned()));
            }
        }
        if links.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.submodules(commit).await?;
        let moved = links.into_iter().map(|(path, commit)| {
            let listed = known.iter().find(|module| module.path == path).cloned();
            Moved { path, commit, listed }
        });
        Ok(moved.collect())
    }
}

impl Mirrors {
    /// The mirror of a submodule with its commit, or why it cannot be had.
    pub async fn submodule(
        &self,
        of: &Mirror,
        module: &Submodule,
        reach: Reach<'_>,
    ) -> Result<Mirror, String> {
        let url = self.way(&of.url, &module.url, reach)?;
        let shown = url.public.clone();
        let mirror = self.fetch_url(url).await.map_err(|error| error.to_string())?;
        if mirror.is_at_remote(&module.commit).await.map_err(|error| error.to_string())? {
            return Ok(mirror);
        }
        let commit = name::commit(&module.commit).map_err(|error| error.to_string())?;
        // One that no branch leads to may be had by its name.
        match mirror.fetch_ref(&format!("+{commit}:{ALONE}{commit}")).await {
            Ok(()) => Ok(mirror),
            Err(error) => {
                tracing::debug!(url = mirror.url(), commit, %error, "a submodule's commit cannot be had by its name");
                Err(format!("{shown} does not have the commit {}", &commit[..12]))
            }
        }
    }

    /// How a submodule is reached, or why it is not.
    fn way(&self, of: &Url, written: &str, reach: Reach<'_>) -> Result<Url, String> {
        let whole = match written.starts_with("./") || written.starts_with("../") {
            true => beside(&of.public, written).ok_or_else(|| {
                format!("{} leads out of where the repository is", crate::public_url(written))
            })?,
            false => written.to_owned(),
        };
        let url = Url::parse(&whole)?;
        let shown = &url.public;
        if let Some(path) = url.path() {
            let home = of.path().and_then(Path::parent).map(Path::to_owned);
            return match (home, plain(path)) {
                (Some(home), Some(path)) if path.parent() == Some(&home) => Ok(url),
                _ => Err(format!("{shown} is a directory of this machine that is not beside the repository")),
            };
        }
        let (host, parent) = (url.host(), of.host());
        if host.is_some() && host == parent {
            // What others reach by ssh is reached as the repository itself.
            return url.reached_as(of);
        }
        if self.serves(shown) {
            return Ok(url);
        }
        match url.web_host() {
            Some((host, port)) if reach(&host, port) => Ok(url.without_logins()),
            Some(_) => Err(format!(
                "{shown} is at another host than the repository, at none of [forges], and the environment's egress does not \
                 allow it"
            )),
            None => Err(format!(
                "{shown} is at another host than the repository, and only http and https are used for those: write an https \
                 address in {FILE}"
            )),
        }
    }
}

/// Name, path and address of each in `git config -z --list`; those with a path that is none are left out.
fn list(text: &str) -> Vec<(String, String, String)> {
    let mut found: Vec<(String, Option<String>, Option<String>)> = Vec::new();
    for entry in text.split_terminator('\0') {
        let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
        let Some((name, key)) = key.strip_prefix("submodule.").and_then(|key| key.rsplit_once('.')) else {
            continue;
        };
        let place = found.iter().position(|(known, ..)| known == name).unwrap_or_else(|| {
            found.push((name.to_owned(), None, None));
            found.len() - 1
        });
        match key {
            "path" => found[place].1 = Some(value.to_owned()),
            "url" => found[place].2 = Some(value.to_owned()),
            _ => {}
        }
    }
    let whole = found.into_iter().filter_map(|(name, path, url)| Some((name, path?, url?)));
    whole.filter(|(name, path, url)| is_plain(name, path, url)).take(MOST).collect()
}

fn is_plain(name: &str, path: &str, url: &str) -> bool {
    let parts = |text: &str| text.split(['/', '\\']).all(|part| !matches!(part, "" | "." | ".."));
    [name, path, url].iter().all(|text| !text.starts_with('-') && !text.chars().any(char::is_control))
        && parts(name)
        && parts(path)
        && !dot_git::leads_inside(path)
}

/// An address that is written as seen from another.
fn beside(of: &str, written: &str) -> Option<String> {
    let of = of.trim_end_matches('/');
    let at_path = match of.find("://") {
        Some(at) => at + 3 + of[at + 3..].find('/')?,
        None if of.starts_with('/') => 0,
        // The short form of ssh.
        None => of.find(':')? + 1,
    };
    let (place, path) = of.split_at(at_path);
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    for part in written.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    let slash = if place.ends_with(':') && !path.starts_with('/') { "" } else { "/" };
    Some(format!("{place}{slash}{}", parts.join("/")))
}

/// A path that goes down only.
fn plain(path: &Path) -> Option<PathBuf> {
    path.components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        .then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Forges, Kind};

    #[test]
    fn an_address_is_seen_from_its_parent() {
        for (of, written, whole) in [
            ("https://git.example/acme/shop.git", "../lib.git", "https://git.example/acme/lib.git"),
            ("https://git.example/acme/shop", "../../other/lib", "https://git.example/other/lib"),
            ("https://git.example/acme/shop.git", "./lib", "https://git.example/acme/shop.git/lib"),
            ("git@git.example:acme/shop.git", "../lib.git", "git@git.example:acme/lib.git"),
            ("git@git.example:shop.git", "../lib.git", "git@git.example:lib.git"),
            ("/srv/git/shop.git/", "../lib.git", "/srv/git/lib.git"),
            ("file:///srv/git/shop.git", "../lib.git", "file:///srv/git/lib.git"),
        ] {
            assert_eq!(beside(of, written).as_deref(), Some(whole), "{of} {written}");
        }
    }

    #[test]
    fn a_submodule_is_reached_only_where_it_may_be() {
        let mut forges = Forges::default();
        let forge = crate::gitlab::GitLab::new("https://lab.example/api/v4", None, "T").unwrap();
        forges.add_with_logins("https://lab.example", std::sync::Arc::new(forge)).unwrap();
        assert_eq!(Kind::GitLab.as_str(), "gitlab");
        let mirrors = Mirrors::new(Path::new("/nowhere")).with_logins(forges);
        let open = |host: &str, port: u16| host == "open.example" && port == 443;
        let way = |of: &str, written: &str| {
            let of = Url::parse(of).unwrap();
            mirrors.way(&of, written, &open).map(|url| (url.public.clone(), url.takes_login()))
        };
        let https = "https://git.example/acme/shop.git";
        for (of, written, public, login) in [
            (https, "../lib.git", "https://git.example/acme/lib.git", true),
            (https, "https://git.example/other/lib", "https://git.example/other/lib", true),
            (https, "git@git.example:acme/lib.git", "https://git.example/acme/lib.git", true),
            (https, "ssh://git@git.example:22/acme/lib.git", "https://git.example/acme/lib.git", true),
            (https, "https://lab.example/a/b.git", "https://lab.example/a/b.git", true),
            (https, "https://open.example/lib", "https://open.example/lib", false),
            ("git@git.example:acme/shop.git", "../lib.git", "git@git.example:acme/lib.git", false),
            ("/srv/git/shop.git", "../lib.git", "/srv/git/lib.git", false),
            ("/srv/git/shop.git", "file:///srv/git/lib.git", "file:///srv/git/lib.git", false),
        ] {
            assert_eq!(way(of, written), Ok((public.to_owned(), login)), "{of} {written}");
        }
        for (of, written) in [
            (https, "https://other.example/lib.git"),
            (https, "https://open.example:8443/lib.git"),
            (https, "git@open.example:lib.git"),
            (https, "/srv/git/lib.git"),
            (https, "file:///etc"),
            (https, "ext::sh -c x"),
            (https, "--upload-pack=x"),
            ("/srv/git/shop.git", "/etc"),
            ("/srv/git/shop.git", "/srv/git/a/lib.git"),
            ("/srv/git/shop.git", "../../../etc"),
            ("/srv/git/shop.git", "/srv/git/../../etc"),
        ] {
            assert!(way(of, written).is_err(), "{of} {written}: {:?}", way(of, written));
        }
        let carried = Url::parse("https://ann:s3cret@git.example/acme/shop.git").unwrap();
        let url = mirrors.way(&carried, "../lib.git", &open).unwrap();
        assert!(!url.takes_login(), "the login of the address is the submodule's too");
        assert!(!url.public.contains("s3cret"));
    }

    #[test]
    fn what_git_would_misread_is_left_out() {
        let text = "submodule.a.b.path\nvendor/lib\0submodule.a.b.url\n../lib.git\0submodule.x.path\n../up\0submodule.x.url\nu\0\
                    submodule.y.path\n-x\0submodule.y.url\nu\0submodule.z.path\nz\0submodule.../z.url\nu\0core.x\ny\0\
                    submodule.g.path\na/.GIT/b\0submodule.g.url\nu\0";
        assert_eq!(list(text), [("a.b".to_owned(), "vendor/lib".to_owned(), "../lib.git".to_owned())]);
    }
}
