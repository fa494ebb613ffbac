//! What a build does inside of a sandbox: files in, commands run, services ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use guest::{Exit, Output, Process, ProcessSpec};

use crate::{Error, Sandbox, egress, service};

/// Largest piece of a file that is sent at once.
const PIECE: u64 = 8 << 20;
/// Waits before following a command again after the connection broke.
const REATTACH: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1)];
/// How much longer than its own limit a command may take to be seen to end.
const GRACE: Duration = Duration::from_secs(60);
/// How long services have to write down what they know.
const SERVICES: Duration = Duration::from_secs(20);
/// Asks a process to end.
const TERM: i32 = 15;

/// Runs a command to its end; `output` gets what it prints.
pub(super) async fn run(
    sandbox: &dyn Sandbox,
    spec: &ProcessSpec,
    output: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<Exit, Error> {
    let id = format!("build-{}", protocol::ItemId::new());
    let limit = spec.timeout_ms.map_or(Duration::MAX, Duration::from_millis).saturating_add(GRACE);
    let Ok(ended) = tokio::time::timeout(limit, follow(sandbox, &id, spec, output)).await else {
        return Err(lost(sandbox, "it did not say how the command ended").await);
    };
    match ended {
        Ok(exit) => {
            // What it leaves behind is only memory of a guest that is about to go.
            if let Err(error) = sandbox.guest().forget(&id).await {
                tracing::debug!(%id, %error, "an ended process could not be forgotten");
            }
            Ok(exit)
        }
        Err(error) => Err(lost(sandbox, &error.to_string()).await),
    }
}

/// The same for a script whose output is only wanted in an error. Standard output is returned.
pub(super) async fn capture(sandbox: &dyn Sandbox, spec: &ProcessSpec) -> Result<(Exit, String), Error> {
    let mut tail = super::log::Tail::default();
    let exit = run(sandbox, spec, &mut |data| tail.push(data)).await?;
    Ok((exit, tail.text()))
}

async fn follow(
    sandbox: &dyn Sandbox,
    id: &str,
    spec: &ProcessSpec,
    output: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<Exit, guest::Error> {
    let mut process = sandbox.guest().start(id, spec).await?;
    let mut seen = 0;
    loop {
        match process.next().await {
            Ok(Some(Output::Stdout { offset, data } | Output::Stderr { offset, data })) => {
                if offset > seen {
                    output(format!("\n[{} bytes left out]\n", offset - seen).as_bytes());
                }
                seen = offset + data.len() as u64;
                output(&data);
            }
            Ok(Some(Output::Exit(exit))) => return Ok(exit),
            Ok(None) => return Err(guest::Error::Unavailable("its output broke off".to_owned())),
            Err(guest::Error::Unavailable(why)) => process = reattach(sandbox, id, seen, why).await?,
            Err(error) => return Err(error),
        }
    }
}

async fn reattach(
    sandbox: &dyn Sandbox,
    id: &str,
    seen: u64,
    mut why: String,
) -> Result<Process, guest::Error> {
    for wait in REATTACH {
        tokio::time::sleep(wait).await;
        match sandbox.guest().attach(id, seen).await {
            Err(guest::Error::Unavailable(again)) => why = again,
            done => return done,
        }
    }
    Err(guest::Error::Unavailable(why))
}

/// Says why a sandbox was lost, as well as that can be known.
async fn lost(sandbox: &dyn Sandbox, why: &str) -> Error {
    match sandbox.ended().await {
        Some(end) => {
            let message = format!("the sandbox ended while it was used: {end}");
            match end.limit() {
                Some(limit) => {
                    let hint = format!("raise {} in the limits of the environment", crate::limit_key(limit));
                    Error::Limit { sandbox: sandbox.id(), limit, message, hint }
                }
                None => Error::Build {
                    message,
                    hint: "raise the limits of the environment if it needs more".to_owned(),
                },
            }
        }
        None => Error::Build {
            message: format!("the sandbox could not be used: {why}"),
            hint: "`slipway doctor` says what is missing on this machine".to_owned(),
        },
    }
}

/// Copies a file into a sandbox: in one piece, or, when it is large, in several that are joined there.
pub async fn copy_in(sandbox: &dyn Sandbox, host: &Path, inside: &str) -> Result<(), Error> {
    use tokio::io::AsyncReadExt as _;
    let mut file = tokio::fs::File::open(host).await.map_err(Error::io(host))?;
    let size = file.metadata().await.map_err(Error::io(host))?.len();
    let pieces = size.div_ceil(PIECE).max(1);
    for number in 0..pieces {
        let mut piece = Vec::new();
        (&mut file).take(PIECE).read_to_end(&mut piece).await.map_err(Error::io(host))?;
        let name = if pieces == 1 { inside.to_owned() } else { format!("{inside}.{number:06}") };
        if let Err(error) = sandbox.guest().write_file(&name, Bytes::from(piece)).await {
            return Err(lost(sandbox, &error.to_string()).await);
        }
    }
    if pieces == 1 {
        return Ok(());
    }
    const JOIN: &str =
        r#"set -e; : > "$1"; for piece in "$1".??????; do cat "$piece" >> "$1"; rm -f "$piece"; done"#;
    let (exit, said) =
        capture(sandbox, &crate::shell::script(JOIN, &[inside], Some(Duration::from_secs(600)))).await?;
    if exit.code == 0 {
        return Ok(());
    }
    Err(Error::Build {
        message: format!("{inside} could not be put into the sandbox: {said}"),
        hint: "the sandbox's disk may be full: raise disk_mb in the limits of the environment".to_owned(),
    })
}

/// Puts variables and certificates where every process inside finds them.
pub(super) async fn connect(
    sandbox: &dyn Sandbox,
    variables: &BTreeMap<String, String>,
    certificates: Option<Vec<u8>>,
) -> Result<(), Error> {
    let put = async {
        if let Some(bundle) = certificates {
            sandbox.guest().write_file(egress::CA_BUNDLE, Bytes::from(bundle)).await?;
        }
        sandbox.guest().set_env(variables).await
    };
    let put: Result<(), guest::Error> = put.await;
    match put {
        Ok(()) => Ok(()),
        Err(error) => Err(lost(sandbox, &error.to_string()).await),
    }
}

/// Asks the services to end and waits for them, so that what they leave on disk is as after an orderly end. One that does
/// not listen is ended with its sandbox.
pub(super) async fn end_services(sandbox: &dyn Sandbox) -> Result<(), Error> {
    let guest = sandbox.guest();
    let end = async {
        for known in guest.processes().await? {
            if !known.id.starts_with(service::PREFIX) || known.exit.is_some() {
                continue;
            }
            let mut process = guest.attach(&known.id, known.output).await?;
            guest.signal(&known.id, TERM).await?;
            while let Some(piece) = process.next().await? {
                if matches!(piece, Output::Exit(_)) {
                    break;
                }
            }
        }
        Ok::<(), guest::Error>(())
    };
    match tokio::time::timeout(SERVICES, end).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(lost(sandbox, &error.to_string()).await),
        Err(_) => {
            tracing::warn!(sandbox = %sandbox.id(), "a service did not end when it was asked to");
            Ok(())
        }
    }
}
