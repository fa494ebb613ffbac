//! Where a base comes from, and how that is written in a recipe.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::oci::Name;
use crate::Error;

/// The Dockerfile of a recipe that names none.
pub(super) const DOCKERFILE: &str = "Dockerfile";

/// The file of a recipe that says `devcontainer` and no more; beside it there is [`DEVCONTAINER_OTHER`].
pub(super) const DEVCONTAINER: &str = ".devcontainer/devcontainer.json";

/// The other place where such a file is looked for.
pub(super) const DEVCONTAINER_OTHER: &str = ".devcontainer.json";

/// Where a base comes from, as it is written in a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `host`: the host's own system directories and toolchains.
    Host,
    /// `tar:PATH`: a root file system in an archive on the host.
    Tar(PathBuf),
    /// `oci:NAME`: an OCI image of a registry, or, when it begins with `/`, an OCI layout directory.
    Oci(String),
    /// `dockerfile[:PATH]` in the repository.
    Dockerfile(String),
    /// `devcontainer[:PATH]` in the repository.
    Devcontainer(String),
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        match (kind, rest) {
            ("host", None) => Ok(Self::Host),
            ("tar", Some(path)) => absolute(path).map(Self::Tar),
            ("oci", Some(name)) => name.parse::<Name>().map(|_| Self::Oci(name.to_owned())),
            ("dockerfile", path) => inside_repository(path.unwrap_or(DOCKERFILE)).map(Self::Dockerfile),
            ("devcontainer", path) => inside_repository(path.unwrap_or(DEVCONTAINER)).map(Self::Devcontainer),
            _ => Err(Error::Unsupported {
                message: format!("there is no base \"{}\"", text.escape_debug()),
                hint: "use host, tar:PATH, oci:NAME, dockerfile[:PATH] or devcontainer[:PATH]".to_owned(),
            }),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Tar(path) => write!(f, "tar:{}", path.display()),
            Self::Oci(name) => write!(f, "oci:{name}"),
            Self::Dockerfile(path) if path == DOCKERFILE => f.write_str("dockerfile"),
            Self::Dockerfile(path) => write!(f, "dockerfile:{path}"),
            Self::Devcontainer(path) if path == DEVCONTAINER => f.write_str("devcontainer"),
            Self::Devcontainer(path) => write!(f, "devcontainer:{path}"),
        }
    }
}

fn absolute(text: &str) -> Result<PathBuf, Error> {
    let path = Path::new(text);
    if path.is_absolute() && !text.contains('\0') {
        return Ok(path.to_owned());
    }
    Err(Error::Unsupported {
        message: format!("the archive \"{}\" of the base is not an absolute path", text.escape_debug()),
        hint: "write it from the root on, such as tar:/srv/bases/debian.tar.gz".to_owned(),
    })
}

/// A path in the repository, without detours. It cannot leave the repository by its words; that it does not by links is
/// seen when it is opened.
pub(super) fn inside_repository(text: &str) -> Result<String, Error> {
    let mut parts = Vec::new();
    let mut good = !text.is_empty() && !text.contains(|letter: char| letter.is_control());
    for part in Path::new(text).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => good = false,
        }
    }
    if good && !parts.is_empty() {
        return Ok(parts.join("/"));
    }
    Err(Error::Unsupported {
        message: format!("\"{}\" is no path in the repository", text.escape_debug()),
        hint: "write it from the top of the repository on, without \"..\" and without a leading \"/\""
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_given_back() {
        for text in [
            "host",
            "tar:/srv/base.tar",
            "oci:debian:12",
            "oci:ghcr.io/owner/name@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "oci:localhost:5000/a/b:c",
            "oci:/srv/layout:v1",
            "dockerfile",
            "dockerfile:docker/Dockerfile.dev",
            "devcontainer",
            "devcontainer:.devcontainer/rust/devcontainer.json",
        ] {
            let source: Source = text.parse().unwrap();
            assert_eq!(source.to_string(), text);
        }
        assert_eq!("dockerfile:./a//b".parse::<Source>().unwrap(), Source::Dockerfile("a/b".to_owned()));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_there_is() {
        let unknown = "ubuntu".parse::<Source>().unwrap_err().to_string();
        for kind in ["host", "tar:PATH", "oci:NAME", "dockerfile", "devcontainer"] {
            assert!(unknown.contains(kind), "{unknown}");
        }
        for bad in [
            "",
            "host:x",
            "tar:",
            "tar:base.tar",
            "tar:~/base.tar",
            "oci:",
            "oci:UPPER CASE",
            "oci:./layout",
            "dockerfile:",
            "dockerfile:../Dockerfile",
            "dockerfile:/etc/passwd",
            "devcontainer:a/../../b",
            "devcontainer:a\nb",
        ] {
            assert!(bad.parse::<Source>().is_err(), "{bad:?}");
        }
    }
}
