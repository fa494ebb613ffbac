//! What the remote has, read without changing anything: its branches, its default branch, and why it cannot be read,
//! in a sentence that says what to do.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::Error;
use crate::git::{Failure, Git, Output};
use crate::url::Url;

/// Reasons that git or a server gives are shortened to about this many characters.
const REASON_LIMIT: usize = 600;

/// The remote's refs at one moment.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The branch that the remote's HEAD names.
    pub(crate) default: Option<String>,
    branches: Vec<(String, String)>,
}

impl Listing {
    pub(crate) fn tip(&self, branch: &str) -> Option<&str> {
        self.branches.iter().find(|(name, _)| name == branch).map(|(_, commit)| commit.as_str())
    }

    /// Some commit id of the repository, which tells its object format by its length.
    pub(crate) fn any(&self) -> Option<&str> {
        self.branches.first().map(|(_, commit)| commit.as_str())
    }

    fn parse(text: &str) -> Self {
        let mut listing = Self::default();
        for line in text.lines() {
            let Some((value, name)) = line.split_once('\t') else { continue };
            if let Some(target) = value.strip_prefix("ref: ") {
                if name == "HEAD" {
                    listing.default = target.strip_prefix("refs/heads/").map(Into::into);
                }
            } else if let Some(branch) = name.strip_prefix("refs/heads/") {
                listing.branches.push((branch.into(), value.into()));
            }
        }
        listing
    }
}

impl fmt::Display for Listing {
    /// A line for each ref, as they were told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HEAD {}", self.default.as_deref().unwrap_or_default())?;
        self.branches.iter().try_for_each(|(name, commit)| writeln!(f, "{commit} {name}"))
    }
}

/// Asks the remote for its HEAD and the branches that match, `*` for all.
pub(crate) async fn list(url: &Url, branch: &str) -> Result<Listing, Error> {
    check_local(url)?;
    let git = reading(Git::remote("ls-remote"), url).args(["--symref", "--quiet"]);
    let git = url.operand_of(git).args(["HEAD", &format!("refs/heads/{branch}")]);
    let output = git.run().await.map_err(|failure| stopped(url, failure))?;
    if !output.success() {
        return Err(unavailable(url, &output).await);
    }
    Ok(Listing::parse(&output.text()))
}

/// Lets git read a directory of another user, and nothing but read: the exception is given to the process that serves
/// the objects, which runs nothing out of the repository, hooks included.
pub(crate) fn reading(git: Git, url: &Url) -> Git {
    let Some(path) = url.path() else { return git };
    let mut serve = OsString::from("--upload-pack=git -c core.hooksPath=/dev/null -c core.fsmonitor=false");
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for directory in [real.join(".git"), real] {
        serve.push(" -c ");
        serve.push(quote(&directory));
    }
    serve.push(" upload-pack");
    git.arg(serve)
}

/// `safe.directory=<path>` as one word for the shell, through which git starts this program.
fn quote(directory: &Path) -> OsString {
    let mut word = b"'safe.directory=".to_vec();
    for &byte in directory.as_os_str().as_bytes() {
        match byte {
            b'\'' => word.extend_from_slice(br"'\''"),
            _ => word.push(byte),
        }
    }
    word.push(b'\'');
    std::os::unix::ffi::OsStringExt::from_vec(word)
}

/// Says plainly what is wrong with a path on this machine; git's own words for it are no help.
fn check_local(url: &Url) -> Result<(), Error> {
    let Some(path) = url.path() else { return Ok(()) };
    let fail = |detail: &str| Err(Error::Unavailable { url: url.public.clone(), detail: detail.into() });
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return fail("no such directory"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return fail("permission denied: let the user that runs Slipway read it");
        }
        Err(error) => return fail(&error.to_string()),
        Ok(metadata) if !metadata.is_dir() => return fail("not a directory"),
        Ok(_) => {}
    }
    let bare = path.join("HEAD").exists() && path.join("objects").exists();
    if !bare && !path.join(".git").exists() {
        return fail("not a git repository: run \"git init\" and commit there first, or give another path");
    }
    if path.join("shallow").exists() || path.join(".git/shallow").exists() {
        return fail("it is a shallow clone: run \"git fetch --unshallow\" in it first");
    }
    Ok(())
}

/// The error for a git that was not able to read the remote. Where it was sent elsewhere, the forge is asked for the place in
/// words that people understand.
pub(crate) async fn unavailable(url: &Url, output: &Output) -> Error {
    let detail = match is_moved(&output.stderr) {
        true => match url.moved().await {
            Some(now) => format!("it has moved to {now}: give the environment that address"),
            None => format!(
                "it has moved: give the environment its new address ({})",
                url.redact(&reason(&output.stderr))
            ),
        },
        false => url.redact(&explain(url, &output.stderr)),
    };
    Error::Unavailable { url: url.public.clone(), detail }
}

/// Whether a server said that the repository is at another address. Git goes there by itself only as long as nobody has to log
/// in, because a login is not for any address.
fn is_moved(stderr: &str) -> bool {
    const SIGNS: [&str; 4] =
        ["HTTP 30", "returned error: 30", "url base from redirection", "redirecting to "];
    let failed = |line: &str| !line.trim_start().starts_with("warning:");
    let said = |line: &str| SIGNS.iter().any(|sign| line.contains(sign));
    stderr.lines().any(|line| failed(line) && said(line))
}

/// The error for a git that did not end by itself.
pub(crate) fn stopped(url: &Url, failure: Failure) -> Error {
    match failure {
        Failure::NoGit => Error::NoGit,
        Failure::Start(_) | Failure::TimedOut { .. } | Failure::TooMuch { .. } => {
            Error::Unavailable { url: url.public.clone(), detail: failure.to_string() }
        }
    }
}

/// Git's reason, with what to do where git does not say it.
pub(crate) fn explain(url: &Url, stderr: &str) -> String {
    const ADVICE: [(&str, &str); 6] = [
        ("terminal prompts disabled", CREDENTIALS),
        ("could not read Password", CREDENTIALS),
        ("Authentication failed", CREDENTIALS),
        (
            "Host key verification failed",
            "the host's ssh key is not known yet: connect to it once with ssh as the user that runs Slipway",
        ),
        (
            "Permission denied (publickey",
            "the host does not accept the ssh key of the user that runs Slipway: add it there, or load the right one",
        ),
        (
            "detected dubious ownership",
            "it belongs to another user, and pushing would run that user's hooks: allow it with \
             \"git config --global --add safe.directory <its path>\" as the user that runs Slipway",
        ),
    ];
    const CREDENTIALS: &str =
        "it asks for credentials: set up a git credential helper for the user that runs Slipway";
    const REVOKED: &str = "the forge does not accept the token that git logs in with: it was revoked, or may not do this; \
         give another in [forges] of slipway.toml, or set git = \"host\" there";
    match ADVICE.iter().find(|(sign, _)| stderr.contains(sign)) {
        Some((_, advice)) if *advice == CREDENTIALS && url.is_from_forge() => REVOKED.to_owned(),
        Some((_, advice)) => (*advice).to_owned(),
        None => reason(stderr),
    }
}

/// What git said, without its prefixes, hints and progress, on one line, shortened.
pub(crate) fn reason(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = |prefix: &str| -> Vec<&str> {
        lines.iter().filter_map(|line| line.strip_prefix(prefix)).map(str::trim).collect()
    };
    let telling = [said("remote:"), said("error:"), said("fatal:")].concat();
    let chosen = if telling.is_empty() { lines } else { telling };
    let text = shorten(&chosen.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; "));
    if text.is_empty() { "git gave no reason".into() } else { text }
}

/// Text from outside on its way into a message: bounded, and nothing in it that moves a terminal's cursor.
fn shorten(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).collect();
    match clean.char_indices().nth(REASON_LIMIT) {
        None => clean,
        Some((at, _)) => format!("{}…", &clean[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read() {
        let text = "ref: refs/heads/trunk\tHEAD\naaa\tHEAD\naaa\trefs/heads/trunk\nbbb\trefs/heads/x/y";
        let listing = Listing::parse(text);
        assert_eq!(listing.default.as_deref(), Some("trunk"));
        assert_eq!(listing.tip("x/y"), Some("bbb"));
        assert_eq!(listing.tip("y"), None);
    }

    #[test]
    fn what_was_moved_is_known_by_what_git_says() {
        for told in [
            "error: RPC failed; HTTP 301 curl 22 The requested URL returned error: 301\nfatal: expected flush",
            "fatal: unable to access 'https://h/a/b.git/': The requested URL returned error: 308",
            "fatal: unable to update url base from redirection:\n  asked for: x\n   redirect: y",
        ] {
            assert!(is_moved(told), "{told}");
        }
        let gone =
            "warning: redirecting to https://h/a/c.git/\nfatal: repository 'https://h/a/c.git/' not found";
        assert!(!is_moved(gone) && !is_moved("The requested URL returned error: 403"));
    }

    #[test]
    fn reasons_are_short_and_tame() {
        assert_eq!(reason("remote: no \x1b[31mred\x07\nhint: x\nfatal: bad\n"), "no [31mred; bad");
        assert_eq!(reason(""), "git gave no reason");
        assert!(reason(&"x".repeat(5000)).chars().count() <= REASON_LIMIT + 1);
    }
}
