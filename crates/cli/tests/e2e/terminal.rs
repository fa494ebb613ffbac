//! What a person at a terminal gets: colours, and a terminal inside the sandbox.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Stdio;
use std::sync::mpsc;

use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;
use tokio::process::{Child, Command};

use crate::harness::{ENVIRONMENT, PATIENCE, World};

/// A terminal with 40 rows and 100 columns, and the command in it.
struct Terminal {
    screen: File,
    /// Kept open so that the settings can be looked at when the command is gone.
    line: File,
    pieces: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open() -> Self {
        let size = libc::winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut screen, mut line) = (-1, -1);
        // SAFETY: the numbers and the size are valid for the call; the others may be null.
        let opened = unsafe {
            libc::openpty(&mut screen, &mut line, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        assert_eq!(opened, 0, "no terminal can be opened");
        // SAFETY: both were just opened for us and belong to nobody else.
        let (screen, line) = unsafe { (File::from_raw_fd(screen), File::from_raw_fd(line)) };
        let (send, pieces) = mpsc::channel();
        let mut reader = screen.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if send.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { screen, line, pieces, seen: String::new() }
    }

    /// Runs a command with this terminal as its own.
    fn run(&self, mut command: Command) -> Child {
        let stream = || Stdio::from(self.line.try_clone().unwrap());
        command.env("TERM", "xterm").env("NO_COLOR", "").stdin(stream()).stdout(stream()).stderr(stream());
        // SAFETY: only calls that are allowed between fork and exec are made, on numbers that are valid there.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        command.spawn().unwrap()
    }

    fn type_in(&mut self, text: &str) {
        self.screen.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until the screen has shown this text.
    fn shows(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let piece = self.pieces.recv_timeout(PATIENCE);
            let piece = piece.unwrap_or_else(|_| panic!("{text:?} is not shown: {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
    }

    /// Whether it shows what is typed and lets a person edit a line, as a shell wants it.
    fn is_as_it_was(&self) -> bool {
        // SAFETY: an all-zero termios is a valid value, which the call fills in.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the file is open and the settings are ours to write.
        assert_eq!(unsafe { libc::tcgetattr(self.line.as_raw_fd(), &raw mut settings) }, 0);
        let wanted = libc::ECHO | libc::ICANON;
        settings.c_lflag & wanted == wanted
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_has_the_terminal_of_its_caller() {
    let world = World::new();
    let mut terminal = Terminal::open();
    let script = "tty; stty size; read word; echo got $word; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.02; done";
    let mut child = terminal.run(world.command(&["sandbox", "run", "--", "sh", "-c", script]));
    terminal.shows("/dev/pts/");
    terminal.shows("40 100");
    terminal.type_in("hello\r");
    terminal.shows("got hello");
    terminal.shows("ready");
    let size = libc::winsize { ws_row: 50, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the terminal is open and the size is valid for the call.
    assert_eq!(unsafe { libc::ioctl(terminal.screen.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
    terminal.shows("50 120");
    assert_eq!(child.wait().await.unwrap().code(), Some(5));
    assert!(terminal.is_as_it_was());
    drop(terminal);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_are_for_terminals_only() {
    let script = Script::new().answer(Reply::text("It is 41.\u{1b}]0;owned\u{7}")).repeat_last();
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let mut world = World::with(&model, &repo);
    world.set("NO_COLOR", "");
    world.set("TERM", "xterm");
    let piped = world.ok(&["run", "--env", ENVIRONMENT, "What is the answer?"]).await;
    assert!(!piped.stderr.contains('\u{1b}'), "{piped}");
    let mut terminal = Terminal::open();
    let mut child = terminal.run(world.command(&["run", "--env", ENVIRONMENT, "What is the answer?"]));
    terminal.shows("tool calls");
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    assert!(
        terminal.seen.contains("\u{1b}[32m") || terminal.seen.contains("\u{1b}[1m"),
        "{:?}",
        terminal.seen
    );
    assert!(!terminal.seen.contains("\u{1b}]0;"), "a model cannot steer the terminal: {:?}", terminal.seen);
    drop(terminal);
    world.finish().await;
}
