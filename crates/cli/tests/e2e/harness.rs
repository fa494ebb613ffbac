//! A world of its own for each test: a data directory, a home and a clean environment in which `slipway` is run. At the
//! end [`World::finish`] looks for processes, mounts, control groups and directories that should be gone.

mod api;
mod events;
mod inside;
mod island;
mod leftovers;
mod process;
mod website;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::model::{Reply, Script, Server};
use testkit::repo::{FIX_PLAIN, Repo};
use tokio::process::Command;

pub(crate) use api::Api;
pub(crate) use events::Events;
pub(crate) use island::{leave_out, on_an_island};
pub(crate) use process::{Output, Running};
pub(crate) use website::Website;

/// No command takes this long, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The name of the environment that [`World::with`] configures.
pub(crate) const ENVIRONMENT: &str = "answers";

/// The world of one test.
pub(crate) struct World {
    root: TempDir,
    program: PathBuf,
    env: Vec<(String, String)>,
    /// A program with arguments that runs `slipway`, such as one that changes the user.
    wrapper: Vec<String>,
    watch: leftovers::Watch,
    finished: bool,
}

impl World {
    /// A world without a configuration.
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("slipway-e2e-").tempdir().unwrap();
        for dir in ["data", "home"] {
            std::fs::create_dir(root.path().join(dir)).unwrap();
        }
        let watch = leftovers::Watch::start(root.path());
        let program = PathBuf::from(env!("CARGO_BIN_EXE_slipway"));
        Self { root, program, env: Vec::new(), wrapper: Vec::new(), watch, finished: false }
    }

    /// A world with the scripted model in both formats (`chat`, which is the default, and `claude`) and the environment
    /// [`ENVIRONMENT`] of this repository, whose check is [`CHECK`].
    pub(crate) fn with(model: &Server, repo: &Repo) -> Self {
        let world = Self::new();
        world.configure(&format!("{}{}", models(model), environment(repo)));
        world
    }

    /// The directory that all of the world is in.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.root().join("data")
    }

    /// The home directory.
    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Writes `slipway.toml` into the data directory.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.data().join("slipway.toml"), text).unwrap();
    }

    /// Sets a variable for the commands that follow.
    pub(crate) fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.env.push((name.to_owned(), value.as_ref().to_str().unwrap().to_owned()));
    }

    /// From now on commands are run through this program.
    pub(crate) fn wrap(&mut self, wrapper: &[&str], program: &Path) {
        self.wrapper = wrapper.iter().map(|&part| part.to_owned()).collect();
        program.clone_into(&mut self.program);
    }

    /// The command with these arguments, in a clean environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut parts = self.wrapper.iter().map(OsStr::new).chain([self.program.as_os_str()]);
        let mut command = Command::new(parts.next().unwrap());
        command.args(parts).args(arguments).current_dir(self.root()).env_clear();
        command
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("SLIPWAY_DATA_DIR", self.data())
            .env("NO_COLOR", "1")
            .env("USER", "ana")
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Starts a command; its standard input stays open.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::spawn(&mut self.command(arguments))
    }

    /// Starts a command that was made with [`World::command`] and changed.
    pub(crate) fn spawn(&self, mut command: Command) -> Running {
        Running::spawn(&mut command)
    }

    /// Runs a command to its end, with nothing on its standard input.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        let mut running = self.start(arguments);
        running.close_stdin();
        running.wait().await
    }

    /// Runs a command that must succeed.
    pub(crate) async fn ok(&self, arguments: &[&str]) -> Output {
        self.run(arguments).await.expect_code(0)
    }

    /// Runs a command that must succeed and print one JSON value.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        self.ok(&arguments).await.json()
    }

    /// Starts a server on a free port of loopback and waits until it answers.
    pub(crate) async fn serve(&self) -> Serving {
        self.serve_at("127.0.0.1:0").await
    }

    /// Starts a server at an address and waits until it answers.
    pub(crate) async fn serve_at(&self, address: &str) -> Serving {
        let running = self.start(&["serve", "--listen", address, "--json"]);
        let address = running.line(|line| line.get("url").is_some()).await;
        let url = address["url"].as_str().unwrap().to_owned();
        let token = self.env.iter().rev().find(|(name, _)| name == "SLIPWAY_TOKEN");
        let api = Api::new(&url, token.map(|(_, token)| token.clone()));
        Serving { running, api, url }
    }

    /// The server in the background that `--detach` started, by its address file.
    pub(crate) fn background(&self) -> Option<(String, i32)> {
        let text = std::fs::read(self.data().join("server.json")).ok()?;
        let address: Value = serde_json::from_slice(&text).ok()?;
        let pid = i32::try_from(address["pid"].as_i64()?).ok()?;
        Some((address["url"].as_str()?.to_owned(), pid))
    }

    /// `state.json` of the one sandbox of this owner: `session` or `one_off`. Those that build images or are kept ready
    /// come and go beside it.
    pub(crate) fn sandbox_state(&self, owner: &str) -> Value {
        let read = |path: PathBuf| serde_json::from_slice::<Value>(&std::fs::read(path).ok()?).ok();
        let dirs = leftovers::sandboxes(self.root()).into_iter().map(|(_, dir)| dir);
        let owned = |dir: &PathBuf| {
            let made_for = || read(dir.join("spec.json")).unwrap_or_default()["owner"].take();
            let now = given_to(dir).unwrap_or_else(made_for);
            now == owner || now.get(owner).is_some()
        };
        let all: Vec<PathBuf> = dirs.filter(owned).collect();
        let [only] = &all[..] else { panic!("one sandbox should be there: {all:?}") };
        read(only.join("state.json")).unwrap()
    }

    /// Makes an empty file in the session's sandbox from outside, for a command that waits for it.
    pub(crate) fn let_go(&self, path: &str) {
        inside::touch(&self.sandbox_state("session")["init"].to_string(), path);
    }

    /// Whether a file is in one of the sandboxes.
    pub(crate) fn is_inside(&self, path: &str) -> bool {
        let init = |dir: PathBuf| {
            let state: Value = serde_json::from_slice(&std::fs::read(dir.join("state.json")).ok()?).ok()?;
            state["init"].as_u64()
        };
        let mut inits = leftovers::sandboxes(self.root()).into_iter().filter_map(|(_, dir)| init(dir));
        inits.any(|init| std::fs::symlink_metadata(format!("/proc/{init}/root{path}")).is_ok())
    }

    /// The same in the sandbox that builds an image.
    pub(crate) fn let_build_go(&self, path: &str) {
        inside::touch(&self.sandbox_state("build")["init"].to_string(), path);
    }

    /// Removes the sandboxes that servers leave for the next one.
    pub(crate) async fn remove_sandboxes(&self) {
        let list = self.json(&["sandbox", "ls"]).await;
        for sandbox in list["sandboxes"].as_array().unwrap() {
            self.ok(&["sandbox", "rm", sandbox["id"].as_str().unwrap()]).await;
        }
    }

    /// Ends the test: nothing may be left behind. A test that does not call it fails.
    pub(crate) async fn finish(mut self) {
        self.finished = true;
        let left = self.watch.wait_until_clean().await;
        assert!(left.is_empty(), "something is left behind:\n{}", left.join("\n"));
    }

    /// What is there of this world now besides files: processes, mounts, control groups, sandboxes' directories.
    pub(crate) fn traces(&self) -> Vec<String> {
        self.watch.traces()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.watch.kill_rest();
        if !self.finished && !std::thread::panicking() {
            panic!("the test did not call World::finish");
        }
    }
}

/// A running `slipway serve`.
pub(crate) struct Serving {
    pub(crate) running: Running,
    pub(crate) api: Api,
    pub(crate) url: String,
}

impl Serving {
    /// Ends the server as a service manager would. Its sandboxes live on.
    pub(crate) async fn stop(self) {
        self.running.signal(libc::SIGTERM);
        self.running.wait().await.expect_code(0);
    }

    /// Ends the server at once, as a crash would.
    pub(crate) async fn crash(self) {
        self.running.signal(libc::SIGKILL);
        self.running.wait().await;
    }

    /// The address it listens on.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }
}

/// `[models]` with the scripted model in both formats.
pub(crate) fn models(model: &Server) -> String {
    let url = model.url();
    format!(
        "[agent]\nmodel = \"chat\"\n\n\
         [models.chat]\nprovider = \"openai-compatible\"\nmodel = \"scripted\"\nbase_url = \"{url}\"\n\n\
         [models.claude]\nprovider = \"anthropic\"\nmodel = \"scripted\"\nbase_url = \"{url}\"\n\n"
    )
}

/// The command of [`Repo::plain`]'s check.
pub(crate) const CHECK: &str = "./check.sh";

/// `[environments]` with this repository.
pub(crate) fn environment(repo: &Repo) -> String {
    format!(
        "[environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{}\", branch = \"main\" }}]\n\
         checks = [{{ name = \"answer\", run = \"{CHECK}\" }}]\n",
        repo.url()
    )
}

/// A model that mends [`Repo::plain`]: reads, edits, checks, and says so.
pub(crate) fn mend() -> Script {
    Script::new()
        .answer(Reply::text("I will look first.").call("read", json!({"path": FIX_PLAIN.path})))
        .call("edit", json!({"path": FIX_PLAIN.path, "old": FIX_PLAIN.old, "new": FIX_PLAIN.new}))
        .call("check", json!({}))
        .say("The answer is 42 now.")
}

/// The one call that mends [`Repo::plain`].
pub(crate) fn edit(old: &str, new: &str) -> Reply {
    Reply::new().call("edit", json!({"path": FIX_PLAIN.path, "old": old, "new": new}))
}

/// A call of the shell tool.
pub(crate) fn shell(command: &str) -> Reply {
    Reply::new().call("shell", json!({"command": command}))
}

/// Waits until something holds, for what has no event to wait for. Says what was waited for when it never does.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Who a sandbox was given to after it was made: the text of a link, after a time.
fn given_to(dir: &Path) -> Option<Value> {
    let file = dir.join("given");
    let (text, skipped) = match std::fs::read_link(&file) {
        Ok(link) => (link.into_os_string().into_string().ok()?, 1),
        // A file that waited for it: its length comes first, and zeros follow.
        Err(_) => (String::from_utf8(std::fs::read(&file).ok()?).ok()?, 2),
    };
    serde_json::from_str(text.trim_end_matches('\0').splitn(skipped + 1, ' ').nth(skipped)?).ok()
}
