//! Commands for the workspace of a sandbox.

use std::time::Duration;

use guest::ProcessSpec;

use crate::WORKSPACE;

/// Starts a command that somebody wrote: with `bash` right away, which is there most often, and where it is not, with a shell
/// that looks for one. What a guest refuses it has not begun.
pub async fn start(
    guest: &guest::Client,
    id: &str,
    text: &str,
    timeout: Option<Duration>,
) -> Result<guest::Process, guest::Error> {
    let argv = ["bash", "-c", text].map(str::to_owned).to_vec();
    match guest.start(id, &ProcessSpec { argv, ..script("", &[], timeout) }).await {
        Err(guest::Error::Refused(_)) => guest.start(id, &command(text, timeout)).await,
        other => other,
    }
}

/// A command that somebody wrote, for `bash` where there is one.
pub fn command(text: &str, timeout: Option<Duration>) -> ProcessSpec {
    const CHOOSE: &str =
        r#"if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi"#;
    script(CHOOSE, &[text], timeout)
}

/// A script of our own with arguments, for `sh`. Nothing in it may wait for a person.
pub fn script(text: &str, args: &[&str], timeout: Option<Duration>) -> ProcessSpec {
    let mut argv: Vec<String> = ["sh", "-c", text, "sh"].map(str::to_owned).to_vec();
    argv.extend(args.iter().map(|arg| (*arg).to_owned()));
    let env = [
        ("CI", "true"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("PAGER", "cat"),
        ("TERM", "dumb"),
    ];
    ProcessSpec {
        argv,
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        cwd: Some(WORKSPACE.to_owned()),
        timeout_ms: timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        pty: None,
        stdin: false,
    }
}
