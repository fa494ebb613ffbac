//! What can go wrong, in the words that a person reads. No variant ever carries a URL with credentials in it.

use crate::git::Failure;

/// What git could not do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The repository cannot be reached or is not one.
    #[error("cannot read the repository {url}: {detail}")]
    Unavailable {
        /// The repository, without credentials.
        url: String,
        /// Why, and what to do about it.
        detail: String,
    },
    /// The repository can be read but lacks the branch.
    #[error("the repository {url} has no branch \"{branch}\"; it has: {}", known.join(", "))]
    NoBranch {
        /// The repository, without credentials.
        url: String,
        /// The branch that was asked for.
        branch: String,
        /// Some of the branches that are there.
        known: Vec<String>,
    },
    /// The repository has no branch at all.
    #[error("the repository {url} has no commits")]
    Empty {
        /// The repository, without credentials.
        url: String,
    },
    /// The work breaks a rule of ours; the sentence says which.
    #[error("the work was not accepted: {0}")]
    Refused(String),
    /// The remote did not take the branch.
    #[error("could not push {branch} to {url}: {detail}")]
    Push {
        /// The repository, without credentials.
        url: String,
        /// The branch that was to be pushed.
        branch: String,
        /// The remote's reason, shortened.
        detail: String,
    },
    /// The `git` program is missing.
    #[error("git is not installed: install it and try again")]
    NoGit,
    /// The host's disk or the `git` program failed.
    #[error("{0}")]
    Io(String),
}

/// What is said of a git that did not end by itself; the number of the signal follows.
pub(crate) const KILLED: &str = "was killed by signal";

/// What is said of a login that a forge could not give now.
pub(crate) const LATER: &str = "it may work later";

/// What git, curl, ssh and servers say when it is the network or the server's bad moment, and nobody's mistake; in lower case.
const PASSING: [&str; 45] = [
    // No connection.
    "could not resolve",
    "temporary failure in name resolution",
    "no such host",
    "failed to connect",
    "couldn't connect",
    "connection refused",
    "connection timed out",
    "operation timed out",
    "i/o timeout",
    "network is unreachable",
    "network is down",
    "no route to host",
    "host is down",
    // One that ended too early.
    "connection reset",
    "connection closed by",
    "connection aborted",
    "caused connection abort",
    "connection died",
    "kex_exchange_identification",
    "broken pipe",
    "empty reply from server",
    "recv failure",
    "send failure",
    "failed sending data",
    "transfer closed with",
    "was not closed cleanly",
    "curl 16 ",
    "curl 18 ",
    "curl 92 ",
    "early eof",
    "unexpected eof",
    "hung up",
    "unexpected disconnect",
    // The same under TLS; a certificate that is not taken is another matter.
    "ssl_error_syscall",
    "ssl_read",
    "non-properly terminated",
    "gnutls_handshake() failed",
    // A server that is not well, or has too much to do.
    "returned error: 5",
    "returned error: 429",
    "returned error: 408",
    "server error",
    "too many requests",
    // Words of our own.
    "took longer than",
    KILLED,
    LATER,
];

impl Error {
    /// Whether the same may work a little later, without anybody's doing.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable { detail, .. } | Self::Push { detail, .. } => {
                let detail = detail.to_lowercase();
                PASSING.iter().any(|sign| detail.contains(sign))
            }
            Self::NoBranch { .. } | Self::Empty { .. } | Self::Refused(_) | Self::NoGit | Self::Io(_) => {
                false
            }
        }
    }

    /// Whether the remote says that there is no such repository, for whoever asked; anything else that is wrong says nothing of that.
    pub(crate) fn says_not_there(&self) -> bool {
        let Self::Unavailable { detail, .. } = self else { return false };
        let detail = detail.to_lowercase();
        let signs = ["not found", "could not be found", "does not exist", "no such directory"];
        !self.is_passing() && signs.iter().any(|sign| detail.contains(sign))
    }

    /// A failed file operation, with what was being done.
    pub(crate) fn io(doing: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self::Io(format!("cannot {doing}: {error}"))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoGit => Self::NoGit,
            Failure::Start(_) | Failure::TimedOut { .. } | Failure::TooMuch { .. } => {
                Self::Io(failure.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_work_later_is_told_from_what_will_not() {
        let is_passing = |detail: &str| {
            Error::Unavailable { url: "https://h/a".to_owned(), detail: detail.to_owned() }.is_passing()
        };
        for detail in [
            "unable to access 'https://h/a/': Empty reply from server",
            "unable to access 'https://h/a/': The requested URL returned error: 429",
            "unable to access 'https://h/a/': The requested URL returned error: 503",
            "RPC failed; curl 56 Recv failure: Connection reset by peer",
            "RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly: INTERNAL_ERROR (err 2)",
            "RPC failed; curl 18 transfer closed with outstanding read data remaining",
            "fetch-pack: unexpected disconnect while reading sideband packet; early EOF",
            "unable to access 'https://h/a/': OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to h:443",
            "unable to access 'https://h/a/': GnuTLS recv error (-110): The TLS connection was non-properly terminated.",
            "unable to access 'https://h/a/': TLS connect error: unexpected eof while reading",
            "kex_exchange_identification: Connection closed by remote host",
            "ssh: connect to host h port 22: No route to host",
            "the remote end hung up unexpectedly",
        ] {
            assert!(is_passing(detail), "{detail}");
        }
        for detail in [
            "repository 'https://h/a/' not found",
            "unable to access 'https://h/a/': SSL certificate problem: certificate has expired",
            "unable to access 'https://h/a/': The requested URL returned error: 403",
            "the forge does not accept the token that git logs in with",
            "no such directory",
        ] {
            assert!(!is_passing(detail), "{detail}");
        }
    }
}
