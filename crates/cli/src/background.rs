//! A server in the background, for work that is to go on without whoever asked for it. It ends by itself when there is
//! nothing left to do.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use session::Duty;

use crate::api::Api;
use crate::config::{Config, Source};
use crate::connect::{Remote, running};
use crate::exit::Exit;

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(15);
/// A command that only looks has the data directory for less than this.
const A_LOOK: Duration = Duration::from_secs(5);
/// How long it stays when nothing is being worked on.
const IDLE_S: &str = "60";

/// A server that goes on without this process.
pub(crate) struct Background {
    pub(crate) api: Api,
    /// Its process, if it was started just now.
    pub(crate) started: Option<Child>,
}

/// The named server, else the one that runs on the data directory, else a new one in the background.
pub(crate) async fn server(config: &Config, source: &Source, remote: &Remote) -> anyhow::Result<Background> {
    let token = std::env::var(&config.server.token_env).ok().filter(|token| !token.is_empty());
    if let Some(url) = &remote.url {
        return Ok(Background { api: Api::new(url, token)?, started: None });
    }
    let began = Instant::now();
    loop {
        if let Some(api) = running(config, token.clone(), Duty::Work).await? {
            return Ok(Background { api, started: None });
        }
        let mut child = spawn(config, source)?;
        let ended = loop {
            if let Some(api) = running(config, token.clone(), Duty::Work).await? {
                return Ok(Background { api, started: Some(child) });
            }
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if began.elapsed() > PATIENCE {
                let log = log_file(config);
                return Err(anyhow!("the server in the background does not answer; see {}", log.display()));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        // Somebody who only looks has the data directory for a moment; a wrong configuration stays wrong.
        let wrong = ended.code() == Some(i32::from(Exit::USAGE));
        if wrong || began.elapsed() > A_LOOK {
            let said = std::fs::read_to_string(log_file(config)).unwrap_or_default();
            return Err(anyhow!("the server in the background ended at once ({ended}): {}", said.trim()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn log_file(config: &Config) -> std::path::PathBuf {
    config.server.data_dir.join("server.log")
}

fn spawn(config: &Config, source: &Source) -> anyhow::Result<Child> {
    let data_dir = &config.server.data_dir;
    std::fs::create_dir_all(data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
    let log_path = log_file(config);
    let log =
        std::fs::File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    let mut command =
        std::process::Command::new(std::env::current_exe().context("cannot find this program")?);
    if let Some(file) = &source.file {
        command.arg("--config").arg(std::path::absolute(file)?);
    }
    command.arg("--data-dir").arg(data_dir).args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--exit-when-idle",
        IDLE_S,
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // In a session of its own, so that closing the terminal does not end it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().context("cannot start a server in the background")
}
