//! Bases that docker builds: a Dockerfile, and a devcontainer.json that names it. With an engine of the test's own, where
//! there is one.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::model::{Script, Server};
use testkit::repo::{Repo, git_in};

use super::base::archive;
use super::{inside, repository};
use crate::harness::{ENVIRONMENT, PATIENCE, World, models};

/// Made from the archive alone: nothing is fetched.
const DOCKERFILE: &str = "FROM scratch\nADD base.tar /\nENV GREETING=hello\n\
                          RUN echo a Dockerfile > /etc/made-of\nUSER 33\nWORKDIR /opt\n";

const DEVCONTAINER: &str = r#"{
    // The whole repository can be used.
    "build": { "dockerfile": "../Dockerfile", "context": ".." },
    "containerEnv": { "FROM_DEV": "yes" },
}"#;

/// A docker engine on a socket of its own. It ends with this.
struct Engine {
    child: Child,
    host: String,
}

impl Engine {
    /// Starts one, or says why not.
    async fn start(dir: &Path) -> Result<Self, String> {
        // SAFETY: takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Err("an engine wants root".to_owned());
        }
        let host = format!("unix://{}", dir.join("socket").display());
        let log = std::fs::File::create(dir.join("log")).unwrap();
        let child = Command::new("dockerd")
            .args(["--bridge", "none", "--iptables=false", "--ip6tables=false", "--host", &host])
            .args(["data-root", "exec-root", "pidfile"].map(|key| format!("--{key}={}/{key}", dir.display())))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let child = child.map_err(|error| format!("dockerd: {error} (Debian: apt-get install docker.io)"))?;
        let mut this = Self { child, host };
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let asked = Command::new("docker").args(["--host", &this.host, "version"]).output();
            if asked.map_err(|error| format!("docker: {error}"))?.status.success() {
                return Ok(this);
            }
            let ended = this.child.try_wait().unwrap().is_some();
            if ended || tokio::time::Instant::now() > end {
                let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
                return Err(format!("dockerd does not run here: {}", log.lines().last().unwrap_or_default()));
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    fn docker(&self, arguments: &[&str]) -> String {
        let said = Command::new("docker").args(["--host", &self.host]).args(arguments).output().unwrap();
        String::from_utf8(said.stdout).unwrap()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: kill takes two numbers; the process is a child of ours that has not been waited for. It ends what it
        // started only when it is asked to end.
        unsafe { libc::kill(i32::try_from(self.child.id()).unwrap(), libc::SIGTERM) };
        let _ended = self.child.wait();
    }
}

/// Puts the archive and the files that name it into the repository.
fn add_recipes(repo: &Repo, archive: &Path, dir: &Path) {
    git_in(dir, &["clone", "--quiet", &repo.url(), "work"]);
    let work = dir.join("work");
    std::fs::copy(archive, work.join("base.tar")).unwrap();
    std::fs::create_dir(work.join(".devcontainer")).unwrap();
    std::fs::write(work.join("Dockerfile"), DOCKERFILE).unwrap();
    std::fs::write(work.join("Broken"), "FROM scratch\nADD base.tar /\nRUN cat /nowhere\n").unwrap();
    std::fs::write(work.join(".devcontainer/devcontainer.json"), DEVCONTAINER).unwrap();
    git_in(&work, &["add", "--all"]);
    git_in(&work, &["commit", "--quiet", "--message", "Recipes"]);
    git_in(&work, &["push", "--quiet", "origin", "HEAD:main"]);
}

#[tokio::test]
#[ignore = "takes a while: run by make test-slow"]
#[allow(clippy::print_stdout, reason = "whoever runs the tests should know that one did not look")]
async fn docker_builds_what_the_repository_says() {
    let dir = tempfile::tempdir().unwrap();
    let Some(archive) = archive(dir.path()) else {
        println!("skipped: no system can be made of this machine's programs");
        return;
    };
    let engine = match Engine::start(dir.path()).await {
        Ok(engine) => engine,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let model = Server::start(Script::new()).await;
    let repo = repository();
    add_recipes(&repo, &archive, dir.path());
    let mut world = World::new();
    world.set("DOCKER_HOST", &engine.host);
    let configure = |base: &str| {
        let environment = super::environment(&repo, &format!("base = \"{base}\"\n"));
        world.configure(&format!("{}{environment}", models(&model)));
    };
    configure("dockerfile");
    let built = world.json(&["env", "build", ENVIRONMENT]).await;
    assert_eq!(built["state"], "ready", "{built}");
    let said = inside(&world, "cat /etc/made-of; echo $GREETING; pwd; git status --short").await;
    assert_eq!(said, "a Dockerfile\nhello\n/workspace\n");

    configure("devcontainer");
    let built = world.json(&["env", "build", ENVIRONMENT]).await;
    assert_eq!(built["steps"][0]["state"], json!("cached"), "it is the same image: {built}");
    assert_eq!(inside(&world, "echo $FROM_DEV $GREETING").await, "yes hello\n");

    configure("dockerfile:Broken");
    let output = world.run(&["env", "build", ENVIRONMENT]).await.expect_code(1);
    for said in ["/nowhere", "the image before it stays in use"] {
        assert!(output.stderr.contains(said), "{said} is not shown: {output}");
    }
    assert_eq!(engine.docker(&["ps", "--all", "--quiet"]), "", "no container stays");
    drop(engine);
    let output = world.run(&["env", "build", ENVIRONMENT]).await.expect_code(1);
    assert!(output.stderr.contains("docker does not reach its daemon"), "{output}");
    world.finish().await;
}
