//! The address of a repository: what kind it is, what of it may be shown, and how git is given its credentials
//! without their ever being in an argument, an error or a log.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::forges::{Forges, Login};
use crate::git::Git;

/// A credential helper made of shell: it answers from two variables of git's own environment, and stores nothing.
const HELPER: &str = r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$SLIPWAY_USER" "$SLIPWAY_PASSWORD"; }; f"#;

/// The URL as it may be shown and given to the sandbox: without password, and over HTTP without user name and query,
/// since tokens are put there too. The user name of an ssh address is part of the address and stays.
pub fn public_url(url: &str) -> String {
    split(url).public
}

/// What stands in a covered URL for what was taken out of it.
const COVER: &str = "redacted";

/// The URL as it may be shown to somebody who may send it back: like [`public_url`], with a mark where something was taken
/// out over HTTP.
pub fn covered_url(url: &str) -> String {
    let parts = split(url);
    match parts.scheme.as_deref() {
        Some(scheme @ ("http" | "https")) if parts.user.is_some() || !parts.query.is_empty() => {
            format!("{scheme}://{COVER}@{}", parts.address)
        }
        _ => parts.public,
    }
}

/// Whether this is a URL that something was taken out of: what it was is known only to whoever took it out.
pub fn is_covered(url: &str) -> bool {
    split(url).user.as_deref() == Some(COVER) && covered_url(url) == url
}

/// A checked address.
#[derive(Clone)]
pub(crate) struct Url {
    /// What the mirror's directory is called; made from the whole URL, so that a mirror that was fetched with one
    /// person's credentials is not found with another's.
    pub(crate) key: String,
    pub(crate) public: String,
    /// What git gets as its argument.
    operand: String,
    credentials: Option<Credentials>,
    /// Whether the credentials came from a forge.
    is_from_forge: bool,
    /// Whether it is reached without any login, neither of a forge nor of the user that runs this.
    is_anonymous: bool,
    path: Option<PathBuf>,
    /// Who knows where a repository is that is not there any more.
    forges: Forges,
}

#[derive(Clone)]
struct Credentials {
    origin: String,
    user: String,
    password: Option<String>,
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Url").field(&self.public).finish()
    }
}

impl Url {
    /// Checks the form of the address; the error is a sentence for people.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        if url.is_empty() {
            return Err("the address is empty".into());
        }
        if url.starts_with('-') {
            return Err("an address must not begin with \"-\"".into());
        }
        if url.chars().any(char::is_control) {
            return Err("the address has control characters in it".into());
        }
        let key = key_of(url);
        let parts = split(url);
        let new = |operand: &str, credentials, path| Self {
            key,
            public: parts.public.clone(),
            operand: operand.into(),
            credentials,
            is_from_forge: false,
            is_anonymous: false,
            path,
            forges: Forges::default(),
        };
        match parts.scheme.as_deref() {
            None if url.starts_with('/') => {
                let path = if url.len() > 1 { url.trim_end_matches('/') } else { url };
                Ok(new(path, None, Some(PathBuf::from(path))))
            }
            None if is_scp_like(url) => Ok(new(url, None, None)),
            None => Err("a path must be absolute".into()),
            Some("file") => {
                let rest = parts.address.trim_start_matches("localhost");
                if !rest.starts_with('/') {
                    return Err("a file URL names a path on this machine: file:///path".into());
                }
                let path = decode(rest)?;
                Ok(new(&path, None, Some(PathBuf::from(&path))))
            }
            Some(scheme @ ("http" | "https")) => {
                let host = parts.address.split('/').next().unwrap_or_default();
                if host.is_empty() {
                    return Err("the address names no host".into());
                }
                let credentials = match parts.user {
                    None => None,
                    Some(user) => Some(Credentials {
                        origin: format!("{scheme}://{host}"),
                        user: decode(&user)?,
                        password: parts.password.as_deref().map(decode).transpose()?,
                    }),
                };
                Ok(new(&format!("{scheme}://{}{}", parts.address, parts.query), credentials, None))
            }
            // Ssh takes no password from its address, so leaving it out loses nothing.
            Some("ssh") if !parts.address.starts_with(['-', '/']) => {
                Ok(new(&parts.public.clone(), None, None))
            }
            Some("ssh") => Err("the address names no host".into()),
            Some(other) => {
                Err(format!("\"{other}\" addresses are not supported: use a path, file, http, https or ssh"))
            }
        }
    }

    /// The directory, when the repository is one on this machine.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The same address with a login, if it is one over HTTP that has none of its own.
    pub(crate) fn with_login(&self, login: &Login) -> Self {
        let mut url = self.clone();
        let origin = self
            .operand
            .match_indices('/')
            .nth(2)
            .map_or(self.operand.as_str(), |(at, _)| &self.operand[..at]);
        url.credentials = Some(Credentials {
            origin: origin.to_owned(),
            user: login.user.clone(),
            password: Some(login.password.expose().to_owned()),
        });
        url.is_from_forge = true;
        url
    }

    /// Whether git logs in here with a token of a forge that is configured.
    pub(crate) fn is_from_forge(&self) -> bool {
        self.is_from_forge
    }

    /// Whether a login would be of use: it is reached over HTTP, and brings none of its own.
    pub(crate) fn takes_login(&self) -> bool {
        self.credentials.is_none()
            && !self.is_anonymous
            && (self.operand.starts_with("http://") || self.operand.starts_with("https://"))
    }

    /// Adds the address as the next operand, after `--`, and the credentials by way of the environment.
    pub(crate) fn operand_of(&self, git: Git) -> Git {
        self.signed(git.arg("--").arg(&self.operand))
    }

    /// What git is given as the address.
    pub(crate) fn operand(&self) -> &str {
        &self.operand
    }

    /// Adds the credentials by way of the environment.
    pub(crate) fn signed(&self, git: Git) -> Git {
        if self.is_anonymous {
            return git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        }
        let Some(Credentials { origin, user, password }) = &self.credentials else { return git };
        let mut settings = vec![(format!("credential.{origin}.username"), user.as_str())];
        if password.is_some() {
            // The empty entry clears the host's own helpers, which would otherwise be told to store the password.
            settings.push((format!("credential.{origin}.helper"), ""));
            settings.push((format!("credential.{origin}.helper"), HELPER));
        }
        let mut git = git.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (n, (key, value)) in settings.iter().enumerate() {
            git = git.env(format!("GIT_CONFIG_KEY_{n}"), key).env(format!("GIT_CONFIG_VALUE_{n}"), value);
        }
        git.env("SLIPWAY_USER", user).env("SLIPWAY_PASSWORD", password.as_deref().unwrap_or_default())
    }

    /// The same address, reached without any login.
    pub(crate) fn without_logins(self) -> Self {
        let key = key_of(&format!("anonymous {}", self.key));
        Self { key, credentials: None, is_anonymous: true, ..self }
    }

    /// The same address, known to these forges.
    pub(crate) fn known_to(self, forges: &Forges) -> Self {
        Self { forges: forges.clone(), ..self }
    }

    /// Where the repository is now, as the forge that serves it says.
    pub(crate) async fn moved(&self) -> Option<String> {
        self.forges.moved(&self.public).await
    }

    /// The host, where there is one.
    pub(crate) fn host(&self) -> Option<String> {
        let host = match self.operand.split_once("://") {
            Some(("file", _)) => return None,
            Some((_, rest)) => {
                let authority = rest.split('/').next().unwrap_or_default();
                let host = authority.rsplit('@').next().unwrap_or_default();
                host.rsplit_once(':')
                    .filter(|(host, port)| !host.is_empty() && is_number(port))
                    .map_or(host, |(host, _)| host)
            }
            None if self.path.is_some() => return None,
            None => self.operand.split(':').next().unwrap_or_default().rsplit('@').next().unwrap_or_default(),
        };
        Some(host.to_ascii_lowercase()).filter(|host| !host.is_empty())
    }

    /// Host and port of an address over HTTP.
    pub(crate) fn web_host(&self) -> Option<(String, u16)> {
        let (scheme, rest) = self.operand.split_once("://")?;
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let named = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Some((self.host()?, named.unwrap_or(port)))
    }

    /// An address of the same host, reached in the way and with the login that another address has. The error is a sentence.
    pub(crate) fn reached_as(&self, other: &Self) -> Result<Self, String> {
        if self.credentials.is_some() {
            return Err(format!(
                "{} has a login in it, which a list of submodules must not have",
                self.public
            ));
        }
        let Some((_, _)) = other.web_host() else { return Ok(self.clone()) };
        let origin: String = other.operand.split('/').take(3).collect::<Vec<_>>().join("/");
        let path = match self.operand.split_once("://") {
            Some(("http" | "https", _)) if !self.operand.starts_with(&format!("{origin}/")) => {
                // Another port or scheme of the host is another server.
                return Err(format!("{} is not at {origin}, where the repository is", self.public));
            }
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            None => self.operand.split_once(':').map_or("", |(_, path)| path),
        };
        let whole = format!("{origin}/{}", path.trim_start_matches('/'));
        let mut url = Self::parse(&whole)?;
        if let Some(credentials) = &other.credentials {
            url.credentials = Some(credentials.clone());
            url.is_from_forge = other.is_from_forge;
            url.key = key_of(&format!("{} {whole}", other.key));
        }
        url.is_anonymous = other.is_anonymous;
        Ok(url)
    }

    /// Where the objects of its large files are.
    pub(crate) fn large_store(&self) -> String {
        let address = self.operand.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        if let Some(path) = &self.path {
            return format!("file://{}", path.display());
        }
        if self.web_host().is_none() {
            return self.operand.clone();
        }
        let git = if address.ends_with(".git") { "" } else { ".git" };
        format!("{address}{git}/info/lfs")
    }

    /// Takes the password out of a text of git's, should a server or helper have repeated it.
    pub(crate) fn redact(&self, text: &str) -> String {
        match self.credentials.as_ref().and_then(|c| c.password.as_deref()) {
            Some(password) => crate::hidden::hidden(text, &[password]),
            None => text.to_owned(),
        }
    }
}

/// What a mirror's directory is called.
fn key_of(url: &str) -> String {
    Sha256::digest(url.as_bytes()).iter().take(12).map(|b| format!("{b:02x}")).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

struct Parts {
    scheme: Option<String>,
    user: Option<String>,
    password: Option<String>,
    /// Host and path, without query.
    address: String,
    /// From the question mark on; may hold a token.
    query: String,
    public: String,
}

fn split(url: &str) -> Parts {
    let Some((scheme, rest)) = url.split_once("://") else {
        let scheme = foreign_helper(url);
        return Parts {
            scheme,
            user: None,
            password: None,
            address: url.into(),
            query: String::new(),
            public: url.into(),
        };
    };
    let scheme = scheme.to_ascii_lowercase();
    if scheme == "file" {
        return Parts {
            scheme: Some(scheme),
            user: None,
            password: None,
            address: rest.into(),
            query: String::new(),
            public: url.into(),
        };
    }
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    // The last "@" is the separator: passwords are often written without escaping theirs.
    let (userinfo, host) = match authority.rsplit_once('@') {
        Some((userinfo, host)) => (Some(userinfo), host),
        None => (None, authority),
    };
    let (user, password) = match userinfo.map(|u| u.split_once(':').ok_or(u)) {
        None => (None, None),
        Some(Ok((user, password))) => (Some(user), Some(password)),
        Some(Err(user)) => (Some(user), None),
    };
    let (path, query) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
    let address = format!("{host}{path}");
    let public = match (scheme.as_str(), user) {
        ("ssh", Some(user)) => format!("ssh://{user}@{address}"),
        _ => format!("{scheme}://{address}"),
    };
    Parts {
        scheme: Some(scheme),
        user: user.map(Into::into),
        password: password.map(Into::into),
        address,
        query: query.into(),
        public,
    }
}

/// The `name` of git's `name::address` form, which would start a program of that name.
fn foreign_helper(url: &str) -> Option<String> {
    let (name, _) = url.split_once("::")?;
    (!name.contains('/')).then(|| name.to_owned())
}

/// `host:path` or `user@host:path`, with a colon before any slash.
fn is_scp_like(url: &str) -> bool {
    url.split_once(':').is_some_and(|(host, path)| {
        let host = host.rsplit('@').next().unwrap_or_default();
        !host.is_empty() && !host.starts_with('-') && !host.contains('/') && !path.is_empty()
    })
}

fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                bytes.push(hex(*high).unwrap_or_default() << 4 | hex(*low).unwrap_or_default());
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    let decoded = String::from_utf8(bytes).map_err(|_| "the address has escapes that are not UTF-8")?;
    if decoded.chars().any(char::is_control) {
        return Err("the address has control characters in it".into());
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        for (given, shown) in [
            ("https://ann:s3cret@host.example:8443/a/b.git", "https://host.example:8443/a/b.git"),
            ("https://token@host.example/a.git", "https://host.example/a.git"),
            ("https://ann:p@ss@host.example/a.git", "https://host.example/a.git"),
            ("https://ann:s3cret@host.example", "https://host.example"),
            ("https://host.example/a.git?token=s3cret", "https://host.example/a.git"),
            ("ssh://git:s3cret@host.example/a.git", "ssh://git@host.example/a.git"),
            ("git@host.example:a/b.git", "git@host.example:a/b.git"),
            ("/srv/git/a@b:c.git", "/srv/git/a@b:c.git"),
            ("file:///srv/a@b.git", "file:///srv/a@b.git"),
        ] {
            assert_eq!(public_url(given), shown);
            assert!(!covered_url(given).contains("s3cret"));
            assert_eq!(is_covered(&covered_url(given)), given.starts_with("http"), "{given}");
            assert_eq!(public_url(&covered_url(given)), shown);
            assert!(!is_covered(given));
            let url = Url::parse(given).unwrap();
            assert!(!format!("{url:?} {}", url.public).contains("s3cret"));
        }
    }

    #[test]
    fn what_git_would_run_or_misread_is_refused() {
        for bad in [
            "",
            "-u",
            "--upload-pack=x",
            "ext::sh -c x",
            "ftp://h/x",
            "relative/path",
            "~/x",
            "a\nb",
            "ssh://-oX/y",
            "-h:x",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_local_repository_is_known_as_one() {
        assert_eq!(Url::parse("/srv/a.git/").unwrap().path(), Some(Path::new("/srv/a.git")));
        assert_eq!(Url::parse("file:///srv/a%20b.git").unwrap().path(), Some(Path::new("/srv/a b.git")));
        assert_eq!(Url::parse("host:/srv/a.git").unwrap().path(), None);
    }
}
