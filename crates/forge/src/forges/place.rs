//! An address without what differs between the ways to the same repository: scheme, user and ssh's port.

use super::Repository;

/// A host and a path below it; a directory of this machine has no host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    host: String,
    path: Vec<String>,
    /// How many parts of the path, from its beginning, lead to the forge itself. Those after them name an owner, whose
    /// repositories are the only ones that are meant: `https://github.com/acme` is a part of the forge at `https://github.com`.
    own: usize,
}

impl Place {
    /// Reads the address of a repository, or of all repositories of a forge.
    pub(super) fn parse(address: &str) -> Option<Self> {
        let (scheme, rest) = match address.split_once("://") {
            Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
            None => (None, address),
        };
        let rest = match scheme.as_deref() {
            Some("http" | "https") => &rest[..rest.find(['?', '#']).unwrap_or(rest.len())],
            _ => rest,
        };
        let (authority, path) = match scheme.as_deref() {
            Some("file") => ("", rest.trim_start_matches("localhost")),
            None if rest.starts_with('/') => ("", rest),
            // `user@host:path`, the short form of ssh.
            None => rest.split_once(':').filter(|(host, _)| !host.contains('/'))?,
            Some("http" | "https" | "ssh") => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            Some(_) => return None,
        };
        let host = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
        let host = match scheme.as_deref() {
            Some("ssh") => host.rsplit_once(':').map_or(host.as_str(), |(host, _)| host).to_owned(),
            Some("https") => host.trim_end_matches(":443").to_owned(),
            Some("http") => host.trim_end_matches(":80").to_owned(),
            _ => host,
        };
        let local = authority.is_empty();
        if host.is_empty() != local || (local && !path.starts_with('/')) {
            return None;
        }
        let path: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Some(Self { own: path.len(), host, path })
    }

    /// Reads the address of the repositories that a forge is to serve, which may be those of one owner. Where the forge itself
    /// begins is told by where its API is.
    pub(super) fn of_forge(address: &str, api_url: &str) -> Option<Self> {
        let mut place = Self::parse(address)?;
        let Some(api) = Self::parse(api_url) else { return Some(place) };
        if place.host.is_empty() {
            return Some(place);
        }
        if api.host == place.host {
            let end = api.path.iter().position(|part| part == "api").unwrap_or(api.path.len());
            if place.path.starts_with(&api.path[..end]) {
                place.own = end;
            }
        } else if api.host.strip_prefix("api.") == Some(&place.host) {
            place.own = 0;
        }
        Some(place)
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The part of the path that leads to the forge itself.
    pub(super) fn own(&self) -> &[String] {
        &self.path[..self.own]
    }

    /// How long the path is.
    pub(super) fn depth(&self) -> usize {
        self.path.len()
    }

    /// The repository that this is, if it is one below that place.
    pub(super) fn below(&self, place: &Self) -> Option<Repository> {
        if self.host != place.host {
            return None;
        }
        let (start, rest) = self.path.split_at_checked(place.path.len())?;
        // Forges take names in any case; directories do not.
        let same = |(one, other): (&String, &String)| match self.host.is_empty() {
            true => one == other,
            false => one.eq_ignore_ascii_case(other),
        };
        if rest.is_empty() || !start.iter().zip(&place.path).all(same) {
            return None;
        }
        let mut named = &self.path[place.own..];
        if named.len() == 1 && !self.host.is_empty() {
            // No forge has repositories without an owner, so that the last parts of its address are one.
            named = &self.path;
        }
        let (name, owner) = named.split_last()?;
        let name = name.strip_suffix(".git").unwrap_or(name);
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if owner.is_empty() || !plain(name) || !owner.iter().all(|part| plain(part)) {
            return None;
        }
        Some(Repository { owner: owner.join("/"), name: name.to_owned() })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.host, self.path.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(forge: &str, repository: &str) -> Option<String> {
        let repository = Place::parse(repository)?.below(&Place::parse(forge).unwrap())?;
        Some(repository.to_string())
    }

    #[test]
    fn every_way_to_a_repository_leads_to_the_same_name() {
        for url in [
            "https://github.com/acme/shop",
            "https://github.com/acme/shop.git",
            "https://ann:secret@GitHub.com:443/acme/shop.git?x=y",
            "git@github.com:acme/shop.git",
            "ssh://git@github.com:22/acme/shop.git",
            "ssh://git@github.com/acme/shop/",
        ] {
            assert_eq!(found("https://github.com", url).as_deref(), Some("acme/shop"), "{url}");
        }
        let gitlab = "https://git.example:8443/lab";
        assert_eq!(found(gitlab, "https://git.example:8443/lab/a/b/c.git").as_deref(), Some("a/b/c"));
        assert_eq!(found("/srv/git", "file:///srv/git/acme/shop.git").as_deref(), Some("acme/shop"));
        assert_eq!(found("/srv/git/", "/srv/git/acme/shop.git").as_deref(), Some("acme/shop"));
    }

    #[test]
    fn a_forge_may_be_meant_for_one_owner_only() {
        let found = |forge: &str, api: &str, repository: &str| {
            let place = Place::of_forge(forge, api).unwrap();
            Some(Place::parse(repository)?.below(&place)?.to_string())
        };
        let github =
            |repository: &str| found("https://github.com/acme", "https://api.github.com", repository);
        for url in ["https://github.com/acme/shop.git", "git@github.com:acme/shop.git"] {
            assert_eq!(github(url).as_deref(), Some("acme/shop"), "{url}");
        }
        assert_eq!(github("https://github.com/Acme/shop").as_deref(), Some("Acme/shop"), "in any case");
        assert_eq!(github("https://github.com/other/shop"), None);
        assert_eq!(github("https://github.com/acme"), None);
        // A group of GitLab's, with a group in it; and a forge that is not at the root of its host.
        let group = ("https://gitlab.com/acme", "https://gitlab.com/api/v4");
        assert_eq!(
            found(group.0, group.1, "https://gitlab.com/acme/web/shop").as_deref(),
            Some("acme/web/shop")
        );
        assert_eq!(found(group.0, group.1, "https://gitlab.com/acme/shop").as_deref(), Some("acme/shop"));
        let below = ("https://h/lab/acme", "https://h/lab/api/v4");
        assert_eq!(found(below.0, below.1, "https://h/lab/acme/web/shop").as_deref(), Some("acme/web/shop"));
        let whole = ("https://h/lab", "https://h/lab/api/v4");
        assert_eq!(found(whole.0, whole.1, "https://h/lab/acme/shop").as_deref(), Some("acme/shop"));
        // Where the API tells nothing, what cannot be another way is taken so.
        assert_eq!(
            found("https://h/acme", "https://x/y", "https://h/acme/shop").as_deref(),
            Some("acme/shop")
        );
        assert_eq!(found("/srv/git", "http://127.0.0.1/api/v3", "/srv/git/shop.git"), None);
    }

    #[test]
    fn other_repositories_are_not_the_forges() {
        for url in [
            "https://github.com.evil.example/acme/shop",
            "https://evil.example/github.com/acme/shop",
            "https://github.com@evil.example/acme/shop",
            "https://github.com/shop",
            "https://github.com/",
            "https://github.com/acme/..",
            "/github.com/acme/shop",
            "ext::sh -c x",
            "shop.git",
            "",
        ] {
            assert_eq!(found("https://github.com", url), None, "{url}");
        }
        assert_eq!(found("/srv/git", "/srv/gitter/acme/shop.git"), None);
        assert!(Place::parse("nonsense").is_none() && Place::parse("https://").is_none());
    }
}
