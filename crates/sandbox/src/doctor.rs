//! What holds on this machine and how to get the rest, by trying it: a real sandbox is started and asked.

use std::path::Path;
use std::time::Instant;

use crate::native::Native;
use crate::{Driver, Error, Life, Owner, Spec, Stack};

/// One thing that was looked at.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Finding {
    /// What.
    pub name: String,
    /// How it is.
    pub state: State,
    /// In words.
    pub detail: String,
    /// How to get the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It holds.
    Holds,
    /// It works, with less than there could be.
    Weaker,
    /// It does not work.
    Missing,
}

impl Finding {
    /// It holds.
    pub fn holds(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.to_owned(), state: State::Holds, detail: detail.into(), fix: None }
    }

    /// It works, with less than there could be.
    pub fn weaker(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name: name.to_owned(), state: State::Weaker, detail: detail.into(), fix: Some(fix.into()) }
    }

    /// It does not work.
    pub fn missing(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name: name.to_owned(), state: State::Missing, detail: detail.into(), fix: Some(fix.into()) }
    }
}

/// What the trial sandbox is asked: each line proves one wall.
const QUESTIONS: &str = "echo uid $(id -u); echo caps $(grep CapEff /proc/self/status | cut -f2); \
     echo nnp $(grep NoNewPrivs /proc/self/status | cut -f2); echo seccomp $(grep Seccomp: /proc/self/status | cut -f2); \
     echo links $(cut -d: -f1 /proc/self/net/dev | tail -n +3 | tr -d ' '); echo procs $(ls -d /proc/[0-9]* | wc -l); \
     grep -q ' /usr [^ ]* ro[, ]' /proc/mounts && echo usr read-only || echo usr writable";

/// Looks at the native sandbox in a directory.
pub async fn examine(dir: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let native = match Native::open(dir) {
        Ok(native) => native,
        Err(error) => {
            findings.push(failed("sandbox", &error));
            return findings;
        }
    };
    findings.push(if native.rootless() {
        Finding::weaker(
            "user",
            "an ordinary user: each sandbox runs under your own user id, mapped to an unprivileged one inside",
            "run slipway as root to give each sandbox a range of user ids of its own",
        )
    } else {
        Finding::holds("user", "root: each sandbox gets a range of user ids of its own")
    });
    findings.push(limits(&native));
    let toolchains: Vec<String> = native.base().toolchains().map(|path| path.display().to_string()).collect();
    findings.push(Finding::holds(
        "toolchains",
        if toolchains.is_empty() {
            "those of the system".to_owned()
        } else {
            format!("those of the system, and {}", toolchains.join(", "))
        },
    ));
    findings.push(landlock());
    trial(&native, &mut findings).await;
    findings
}

/// Which generation of Landlock the kernel has.
fn landlock() -> Finding {
    const ASK_FOR_THE_VERSION: u32 = 1;
    // SAFETY: with this flag the kernel takes no attributes and only tells its version.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            ASK_FOR_THE_VERSION,
        )
    };
    match version {
        6.. => Finding::holds("landlock", format!("version {version}: files, sockets and signals")),
        1.. => Finding::weaker(
            "landlock",
            format!(
                "version {version}: files are restricted, abstract sockets and signals only by namespaces"
            ),
            "Linux 6.12 or later has the rest",
        ),
        _ => Finding::weaker(
            "landlock",
            "not there: files are protected by mounts and user ids alone",
            "Linux 5.13 or later has it; it may have to be switched on with lsm=landlock,… on the kernel's command line",
        ),
    }
}

async fn way_out(sandbox: &dyn crate::Sandbox) -> Finding {
    match sandbox.sockets().await {
        Ok(Some(sockets)) if sockets.transparent.is_some() => {
            Finding::holds("way out", "every connection and every name ends at the proxy")
        }
        Ok(_) => Finding::weaker(
            "way out",
            "the kernel cannot redirect connections: only programs that use the proxy get out",
            "load the modules for it: sudo modprobe -a nf_tables nft_chain_nat nft_redir",
        ),
        Err(error) => failed("way out", &error),
    }
}

fn limits(native: &Native) -> Finding {
    let missing = native.cgroups().missing();
    let have = native.cgroups().describe();
    if missing.is_empty() {
        return Finding::holds("limits", format!("control groups: {have}"));
    }
    Finding::weaker(
        "limits",
        format!(
            "no control group for {} (there is: {have}); each process is limited, but not all of them together",
            missing.join(", ")
        ),
        "as an ordinary user with systemd: systemd-run --user --scope -p Delegate=yes slipway serve; or run slipway as root",
    )
}

async fn trial(native: &Native, findings: &mut Vec<Finding>) {
    let begun = Instant::now();
    let spec =
        Spec { network: crate::Network::Egress, ..Spec::new(Stack::host(), Life::Tied, Owner::OneOff) };
    let sandbox = match native.create(&spec).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            findings.push(failed("sandbox", &error));
            return;
        }
    };
    let spec = guest::ProcessSpec {
        argv: ["/bin/sh", "-c", QUESTIONS].map(str::to_owned).into(),
        timeout_ms: Some(10_000),
        ..Default::default()
    };
    let answers = match ask(sandbox.guest(), &spec).await {
        Ok(answers) => answers,
        Err(error) => {
            findings.push(Finding::missing("sandbox", error.to_string(), "please report this"));
            return;
        }
    };
    let elapsed = begun.elapsed();
    findings.push(way_out(&*sandbox).await);
    let id = sandbox.id();
    drop(sandbox);
    if let Err(error) = native.remove(id).await {
        findings.push(Finding::weaker("clean-up", error.to_string(), "remove it with: slipway sandbox rm"));
    }
    let answer = |key: &str| {
        answers
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
            .unwrap_or("")
            .trim()
            .to_owned()
    };
    findings.push(Finding::holds("sandbox", format!("started and answered in {} ms", elapsed.as_millis())));
    for (name, key, wanted, words) in [
        ("unprivileged", "uid", "1000", "runs as an ordinary user inside"),
        ("capabilities", "caps", "0000000000000000", "none"),
        ("no_new_privs", "nnp", "1", "set"),
        ("seccomp", "seccomp", "2", "system calls are filtered"),
        ("network", "links", "lo", "loopback and nothing else"),
        ("host files", "usr", "read-only", "system directories are read-only"),
    ] {
        let got = answer(key);
        findings.push(if got == wanted {
            Finding::holds(name, words)
        } else {
            Finding::missing(name, format!("expected \"{wanted}\", found \"{got}\""), "please report this")
        });
    }
    let processes: u32 = answer("procs").parse().unwrap_or(u32::MAX);
    findings.push(if processes < 20 {
        Finding::holds("processes", "sees only its own")
    } else {
        Finding::missing("processes", format!("sees {processes} processes"), "please report this")
    });
}

async fn ask(guest: &guest::Client, spec: &guest::ProcessSpec) -> Result<String, guest::Error> {
    let mut process = guest.start("doctor", spec).await?;
    let mut answers = Vec::new();
    while let Some(output) = process.next().await? {
        if let guest::Output::Stdout { data, .. } = output {
            answers.extend_from_slice(&data);
        }
    }
    Ok(String::from_utf8_lossy(&answers).into_owned())
}

fn failed(name: &str, error: &Error) -> Finding {
    match error {
        Error::Unsupported { message, hint } => Finding::missing(name, message.clone(), hint.clone()),
        other => Finding::missing(name, other.to_string(), "see the message"),
    }
}
