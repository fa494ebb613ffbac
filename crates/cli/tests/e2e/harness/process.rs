//! A running command: what it has said so far, waiting for it to say something, signals, and its end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::PATIENCE;
use super::events::Events;

/// A command that may still run. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    pid: i32,
    stdin: Option<ChildStdin>,
    stdout: Said,
    stderr: Said,
    described: String,
}

/// What a stream has said so far, and whether that is all.
struct Said {
    text: Arc<watch::Sender<Text>>,
    reader: JoinHandle<()>,
}

#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    whole: bool,
}

impl Said {
    fn listen(mut stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let text = Arc::new(watch::Sender::new(Text::default()));
        let kept = Arc::clone(&text);
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                kept.send_modify(|text| text.bytes.extend_from_slice(&buffer[..length]));
            }
            kept.send_modify(|text| text.whole = true);
        });
        Self { text, reader }
    }

    fn now(&self) -> String {
        String::from_utf8_lossy(&self.text.borrow().bytes).into_owned()
    }

    /// Waits until the text so far gives something; None when the stream ends before.
    async fn find<T>(&self, mut find: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let mut changes = self.text.subscribe();
        loop {
            let (found, whole) = {
                let text = changes.borrow_and_update();
                (find(&String::from_utf8_lossy(&text.bytes)), text.whole)
            };
            if found.is_some() || whole {
                return found;
            }
            // The sender lives as long as `self`.
            drop(changes.changed().await);
        }
    }
}

impl Running {
    pub(super) fn spawn(command: &mut Command) -> Self {
        let described = format!("{:?}", command.as_std());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {described}: {error}"));
        let pid = i32::try_from(child.id().unwrap()).unwrap();
        let stdin = child.stdin.take();
        let stdout = Said::listen(child.stdout.take().unwrap());
        let stderr = Said::listen(child.stderr.take().unwrap());
        Self { child, pid, stdin, stdout, stderr, described }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a signal to the command alone.
    pub(crate) fn signal(&self, number: i32) {
        // SAFETY: kill takes two numbers; the process is a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid, number) }, 0, "cannot signal {}", self.described);
    }

    /// Writes to its standard input.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("standard input is closed");
        stdin.write_all(bytes).await.unwrap();
        stdin.flush().await.unwrap();
    }

    /// Ends its standard input.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits until a stream gives something; a command that ends or hangs before fails the test.
    async fn expect<T>(&self, said: &Said, what: &str, find: impl FnMut(&str) -> Option<T>) -> T {
        match tokio::time::timeout(PATIENCE, said.find(find)).await {
            Ok(Some(found)) => found,
            Ok(None) => panic!("{} ended before it said {what}\n{}", self.described, self.told()),
            Err(_) => panic!("{} did not say {what} in time\n{}", self.described, self.told()),
        }
    }

    fn told(&self) -> String {
        format!("--- stdout\n{}\n--- stderr\n{}", self.stdout.now(), self.stderr.now())
    }

    /// Waits until standard output has this text.
    pub(crate) async fn stdout_has(&self, text: &str) {
        let what = format!("{text:?} on standard output");
        self.expect(&self.stdout, &what, |said| said.contains(text).then_some(())).await;
    }

    /// Waits until standard error has this text.
    pub(crate) async fn stderr_has(&self, text: &str) {
        let what = format!("{text:?} on standard error");
        self.expect(&self.stderr, &what, |said| said.contains(text).then_some(())).await;
    }

    /// Waits for a line of standard error with this at its beginning, white space apart, and gives it.
    pub(crate) async fn stderr_line(&self, begin: &str) -> String {
        let what = format!("a line that begins with {begin:?} on standard error");
        let find = |said: &str| {
            let whole = &said[..said.rfind('\n').map_or(0, |end| end + 1)];
            whole.lines().map(str::trim).find(|line| line.starts_with(begin)).map(str::to_owned)
        };
        self.expect(&self.stderr, &what, find).await
    }

    /// Waits for a line of JSON on standard output that fits, and gives the first.
    pub(crate) async fn line(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let find = |said: &str| {
            let whole = &said[..said.rfind('\n').map_or(0, |end| end + 1)];
            whole.lines().filter_map(|line| serde_json::from_str(line).ok()).find(|value| fits(value))
        };
        self.expect(&self.stdout, "the line", find).await
    }

    /// Waits for its end. A command that does not end is killed, and the test fails with what it said.
    pub(crate) async fn wait(mut self) -> Output {
        let waited = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let Ok(status) = waited else {
            drop(self.child.kill().await);
            panic!("{} did not end in time\n{}", self.described, self.told());
        };
        // Something else may hold the streams open; that is a fault to be seen, not to hang on.
        for said in [&mut self.stdout, &mut self.stderr] {
            if tokio::time::timeout(PATIENCE, &mut said.reader).await.is_err() {
                panic!("{} ended, but something that it started keeps its output open", self.described);
            }
        }
        Output {
            status: status.unwrap(),
            stdout: self.stdout.now(),
            stderr: self.stderr.now(),
            command: self.described,
        }
    }
}

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    command: String,
}

impl Output {
    /// The exit code; -1 when a signal ended it.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// The signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Fails with everything that was said unless this is the exit code.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {self}"))
    }

    /// Standard output as lines of JSON, without what is not stored.
    #[track_caller]
    pub(crate) fn events(&self) -> Events {
        Events::parse(&self.stdout)
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { status, stdout, stderr, command } = self;
        write!(f, "{command}\n{status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
