//! An address without what differs between the ways to the same repository: scheme, user and ssh's port.

use super::Repository;

/// A host and a path below it; a directory of this machine has no host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    host: String,
    path: Vec<String>,
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
        let path = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Some(Self { host, path })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
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
        let rest = self.path.strip_prefix(place.path.as_slice())?;
        let (name, owner) = rest.split_last()?;
        let name = name.strip_suffix(".git").unwrap_or(name);
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if owner.is_empty() || !plain(name) || !owner.iter().all(|part| plain(part)) {
            return None;
        }
        Some(Repository { owner: owner.join("/"), name: name.to_owned() })
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
