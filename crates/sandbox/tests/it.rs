//! The native driver on this machine, for real: what it isolates, what it limits, and that it leaves nothing behind.

#![allow(clippy::unwrap_used)] // a test says what went wrong by panicking

#[path = "it/disk.rs"]
mod disk;
#[path = "it/layers.rs"]
mod layers;
#[path = "it/network.rs"]
mod network;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use guest::{Exit, Output, ProcessSpec};
use protocol::SandboxId;
use sandbox::native::Native;
use sandbox::{Driver, Life, Limits, Owner, Sandbox, Spec, Stack, State};

struct Host {
    dir: tempfile::TempDir,
    driver: Native,
}

impl Host {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let driver = Native::open(dir.path()).unwrap();
        Self { dir, driver }
    }

    async fn sandbox(&self, life: Life, limits: Limits) -> Arc<dyn Sandbox> {
        let spec = Spec { limits, ..Spec::new(Stack::host(), life, Owner::OneOff) };
        self.driver.create(&spec).await.unwrap()
    }

    fn sandbox_dirs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path().join("sandboxes")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Host {
    /// Tied sandboxes are on their way out by now; none may stay.
    fn drop(&mut self) {
        for _ in 0..500 {
            if self.sandbox_dirs().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(std::thread::panicking(), "sandboxes were left behind: {:?}", self.sandbox_dirs());
    }
}

async fn sh(sandbox: &dyn Sandbox, script: &str) -> (String, Exit) {
    let id = format!("p{}", rand());
    let spec =
        ProcessSpec { argv: ["/bin/sh", "-c", script].map(str::to_owned).into(), ..Default::default() };
    let mut process = sandbox.guest().start(&id, &spec).await.unwrap();
    let mut text = Vec::new();
    loop {
        match process.next().await.unwrap() {
            Some(Output::Stdout { data, .. } | Output::Stderr { data, .. }) => text.extend_from_slice(&data),
            Some(Output::Exit(exit)) => return (String::from_utf8_lossy(&text).trim().to_owned(), exit),
            None => panic!("the stream ended without an exit"),
        }
    }
}

fn rand() -> u128 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    u128::from(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Everything on the host that belongs to a sandbox: control groups and processes.
fn traces(id: SandboxId) -> Vec<PathBuf> {
    fn walk(dir: &Path, wanted: &str, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
            if entry.file_name().to_string_lossy().contains(wanted) {
                found.push(entry.path());
            } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                walk(&entry.path(), wanted, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), &id.to_string(), 6, &mut found);
    found
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain for: {what}");
}

#[tokio::test]
async fn runs_a_command_as_an_ordinary_user_of_its_own_machine() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    let (text, exit) =
        sh(&*sandbox, "id -u; id -un; hostname; pwd; echo $HOME; echo hi > x && cat x; exit 7").await;
    assert_eq!(text, "1000\ndev\nsandbox\n/workspace\n/home/dev\nhi");
    assert_eq!(exit.code, 7);
}

#[tokio::test]
async fn sees_its_own_processes_network_and_names_only() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    let (text, _) =
        sh(&*sandbox, "ls -d /proc/[0-9]* | wc -l; tail -n +3 /proc/net/dev | wc -l; cat /proc/1/comm").await;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].trim().parse::<u32>().unwrap() < 10, "{text}");
    assert_eq!(lines[1].trim(), "1", "loopback alone: {text}");
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let outside = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        let (inside, _) = sh(&*sandbox, &format!("readlink /proc/self/ns/{kind}")).await;
        assert_ne!(inside, outside.to_string_lossy(), "{kind} namespace is shared with the host");
    }
    let (loopback, exit) = sh(
        &*sandbox,
        "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",0)); socket.create_connection(s.getsockname()); print(\"ok\")' \
         || bash -c 'exec 3<>/dev/tcp/127.0.0.1/9' 2>&1 | grep -q refused && echo ok",
    )
    .await;
    assert!(exit.code == 0 && loopback.ends_with("ok"), "loopback works inside: {loopback}");
}

#[tokio::test]
async fn cannot_reach_a_server_on_the_host() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    let (text, exit) = sh(&*sandbox, &format!("bash -c 'echo > /dev/tcp/127.0.0.1/{port}' 2>&1")).await;
    assert_ne!(exit.code, 0, "{text}");
    let (text, exit) = sh(&*sandbox, "bash -c 'echo > /dev/udp/192.0.2.1/53' 2>&1").await;
    assert_ne!(exit.code, 0, "{text}");
}

#[tokio::test]
async fn shows_nobodys_home_keys_or_sockets() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    for path in [
        "/etc/shadow",
        "/etc/ssh",
        "/etc/gitconfig",
        "/etc/sudoers",
        "/var/run/docker.sock",
        "/root/.ssh",
        "/sys/kernel",
    ] {
        let (text, exit) = sh(&*sandbox, &format!("test ! -e {path}")).await;
        assert_eq!(exit.code, 0, "{path} is visible: {text}");
    }
    let (homes, _) = sh(&*sandbox, "ls -A /home").await;
    assert_eq!(homes, "dev");
    let (secrets, _) = sh(
        &*sandbox,
        "find / -xdev \\( -name 'id_rsa*' -o -name .netrc -o -name credentials.toml -o -name .git-credentials \\) 2>/dev/null",
    )
    .await;
    assert_eq!(secrets, "");
}

#[tokio::test]
async fn inherits_nothing_from_the_server() {
    // SAFETY: tests run one to a process under nextest; under plain cargo test nothing else reads this variable.
    unsafe { std::env::set_var("SLIPWAY_TEST_SECRET", "canary-in-the-environment") };
    let secret = tempfile::tempfile().unwrap();
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    let (env, _) = sh(&*sandbox, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'").await;
    assert!(!env.contains("canary"), "{env}");
    let (fds, _) =
        sh(&*sandbox, "ls -l /proc/self/fd | grep -v -E 'pipe|/dev/null|/proc' | tail -n +2").await;
    assert_eq!(fds, "", "open files came along");
}

#[tokio::test]
async fn refuses_what_reaches_into_the_kernel() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    for attempt in [
        "mount -t tmpfs none /tmp",
        "unshare -U true",
        "unshare -r true",
        "chroot / true",
        "mknod /tmp/sda b 8 0",
        "dmesg",
        "echo x > /proc/sys/kernel/core_pattern",
        "echo b > /proc/sysrq-trigger",
        "touch /usr/bin/x",
        "chown 0 /workspace",
        "nsenter -t 1 -a true",
        "echo x > /proc/1/oom_score_adj",
        "cat /proc/1/environ",
        "ls /proc/1/fd",
        "kill -9 1 && sleep 0.2 && false",
        "cat /proc/kcore | head -c 1 | grep -q .",
        "python3 -c 'import socket; socket.socket(38, socket.SOCK_SEQPACKET)'",
        "python3 -c 'import socket; socket.socket(17, socket.SOCK_RAW)'",
        "ping -c 1 127.0.0.1",
    ] {
        let (text, exit) = sh(&*sandbox, attempt).await;
        assert_ne!(exit.code, 0, "this was allowed: {attempt}: {text}");
    }
    let (text, exit) = sh(
        &*sandbox,
        "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | cut -f2 | sort -u | tr '\\n' ' '",
    )
    .await;
    assert_eq!(exit.code, 0);
    assert_eq!(text, "0000000000000000 1 2");
}

/// Calls that an ordinary process may make on the host, so that only the filter can be what refuses them.
const FILTERED: &str = r#"
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, wanted, *arguments):
    got = libc.syscall(*arguments)
    error = ctypes.get_errno() if got < 0 else 0
    print(name, "ok" if error == wanted else f"gave {got}, errno {error}")
call("keyctl", 1, 250, 0, -3, 0)
call("io_uring_setup", 1, 425, 1, 0)
call("unshare", 1, 272, 0x10000000)
call("clone3", 38, 435, 0, 0)
call("name_to_handle_at", 1, 303, -100, b"/", 0, 0, 0)
call("prlimit of pid 1", 1, 302, 1, 7, 0, 0)
call("x32", 38, 0x40000000 + 39)
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
    print("uevents", "allowed")
except PermissionError:
    print("uevents", "ok")
"#;

#[tokio::test]
async fn the_filter_refuses_what_an_ordinary_process_may_do() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    let (text, exit) = sh(&*sandbox, &format!("python3 -c '{}'", FILTERED.replace('\'', "\""))).await;
    assert_eq!(exit.code, 0, "{text}");
    let refused: Vec<&str> = text.lines().filter(|line| !line.ends_with(" ok")).collect();
    assert!(refused.is_empty() && text.lines().count() == 8, "{text}");
}

#[tokio::test]
async fn a_process_inside_cannot_end_the_guest() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    // A queued signal whose sender claims to be outside; struct siginfo: signo, errno, code, then pid and uid.
    let forged = "import ctypes, struct; libc = ctypes.CDLL(None); \
        info = struct.pack(\"iiiiii\", 15, 0, -1, 0, 0, 0).ljust(128, bytes(1)); libc.syscall(129, 1, 15, info)";
    sh(&*sandbox, &format!("kill -TERM 1; kill -KILL 1; python3 -c '{forged}'")).await;
    let (text, _) = sh(&*sandbox, "echo still here").await;
    assert_eq!(text, "still here");
}

#[tokio::test]
async fn sandboxes_can_start_at_once_and_do_not_see_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let starts = (0..8).map(|number| {
        let path = dir.path().to_owned();
        tokio::spawn(async move {
            // Each with a driver of its own, as commands of their own have.
            let driver = tokio::task::spawn_blocking(move || Native::open(&path)).await.unwrap().unwrap();
            let spec = Spec::new(Stack::host(), Life::Tied, Owner::OneOff);
            let sandbox = driver.create(&spec).await.unwrap();
            sh(
                &*sandbox,
                &format!(
                    "echo {number} > /workspace/mine; sleep 0.2 & ls -d /proc/[0-9]* | wc -l; ls /workspace"
                ),
            )
            .await
        })
    });
    for start in starts.collect::<Vec<_>>() {
        let (text, exit) = start.await.unwrap();
        assert_eq!(exit.code, 0, "{text}");
        let (processes, files) = text.split_once('\n').unwrap();
        assert!(processes.trim().parse::<u32>().unwrap() < 8 && files == "mine", "{text}");
    }
    let left = || std::fs::read_dir(dir.path().join("sandboxes")).unwrap().count() == 0;
    until("every sandbox to be gone", left).await;
}

#[tokio::test]
async fn memory_processes_and_files_are_limited() {
    let host = Host::new();
    let limits = Limits { memory_bytes: 256 << 20, processes: 64, open_files: 128, ..Limits::default() };
    let sandbox = host.sandbox(Life::Tied, limits).await;
    let hog = "python3 -c 'x = bytearray(1 << 30)' 2>/dev/null || perl -e '$x = \"x\" x (1 << 30)'";
    let (text, exit) = sh(&*sandbox, hog).await;
    assert_ne!(exit.code, 0, "a gigabyte was given: {text}");
    let (text, exit) = sh(&*sandbox, "for i in $(seq 200); do sleep 5 & done 2>&1; wait").await;
    assert!(
        exit.code != 0 || text.contains("fork") || text.contains("annot"),
        "200 processes were given: {text}"
    );
    let (text, _) = sh(&*sandbox, "ulimit -n").await;
    assert_eq!(text, "128");
    let (text, exit) = sh(&*sandbox, "echo still here").await;
    assert_eq!((text.as_str(), exit.code), ("still here", 0), "the sandbox survives its own excess");
}

#[tokio::test]
async fn the_wall_clock_ends_it_and_says_so() {
    let host = Host::new();
    let limits = Limits { wall_clock: Some(Duration::from_millis(300)), ..Limits::default() };
    let sandbox = host.sandbox(Life::Own, limits).await;
    let spec = ProcessSpec { argv: ["sleep", "60"].map(str::to_owned).into(), ..Default::default() };
    let mut process = sandbox.guest().start("long", &spec).await.unwrap();
    assert!(matches!(process.next().await, Err(guest::Error::Unavailable(_))));
    let mut reason = None;
    for _ in 0..500 {
        reason = sandbox.ended().await;
        if reason.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(reason, Some(sandbox::End::Limit(protocol::event::LimitKind::WallClock)));
    host.driver.remove(sandbox.id()).await.unwrap();
    assert!(host.sandbox_dirs().is_empty() && traces(sandbox.id()).is_empty());
}

#[tokio::test]
async fn a_tied_sandbox_goes_with_its_owner() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    let id = sandbox.id();
    sh(&*sandbox, "mkdir -p /workspace/closed && touch /workspace/closed/x && chmod 0 /workspace/closed; (setsid sleep 100 &)").await;
    drop(sandbox);
    until("the sandbox to be gone", || host.sandbox_dirs().is_empty()).await;
    assert_eq!(traces(id), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_sandbox_outlives_its_server_and_is_found_again() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Own, Limits::default()).await;
    let id = sandbox.id();
    let spec = ProcessSpec {
        argv: ["sh", "-c", "read line; echo got $line"].map(str::to_owned).into(),
        stdin: true,
        ..Default::default()
    };
    sandbox.guest().start("job", &spec).await.unwrap();
    drop(sandbox);
    // Another driver on the same directory is what a restarted server has.
    let driver = Native::open(host.dir.path()).unwrap();
    assert_eq!(
        driver
            .list()
            .await
            .unwrap()
            .iter()
            .map(|info| (info.id, info.state == State::Running))
            .collect::<Vec<_>>(),
        [(id, true)]
    );
    let again = driver.adopt(id).await.unwrap();
    again.guest().write_stdin("job", "across\n".into()).await.unwrap();
    let mut process = again.guest().attach("job", 0).await.unwrap();
    assert!(
        matches!(process.next().await.unwrap(), Some(Output::Stdout { data, .. }) if data == "got across\n")
    );
    driver.remove(id).await.unwrap();
    assert!(driver.list().await.unwrap().is_empty() && traces(id).is_empty());
    driver.remove(id).await.unwrap();
}

#[tokio::test]
async fn a_killed_monitor_takes_the_sandbox_along_and_removal_cleans_up() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Own, Limits::default()).await;
    let id = sandbox.id();
    let state: launcher::spec::State =
        serde_json::from_slice(&std::fs::read(host.sandbox_dirs()[0].join("state.json")).unwrap()).unwrap();
    let monitor = rustix::process::Pid::from_raw(state.monitor.try_into().unwrap()).unwrap();
    rustix::process::kill_process(monitor, rustix::process::Signal::KILL).unwrap();
    until("the guest to die", || !Path::new(&format!("/proc/{}", state.init)).exists()).await;
    assert!(sandbox.ended().await.is_some());
    assert!(host.driver.adopt(id).await.is_err());
    host.driver.remove(id).await.unwrap();
    assert!(host.sandbox_dirs().is_empty() && traces(id).is_empty());
}

/// Landlock's domains can be nested sixteen deep; one that is used up is the sandbox's own.
const NESTING: &str = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
attributes = (ctypes.c_uint64 * 1)(1)
rules = libc.syscall(444, attributes, 8, 0)
depth = 0
while rules >= 0 and libc.syscall(446, rules, 0) == 0:
    depth += 1
print(depth if rules >= 0 else "none")
"#;

#[tokio::test]
async fn landlock_is_on_and_leaves_ordinary_work_alone() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    let (text, exit) = sh(&*sandbox, &format!("python3 -c '{NESTING}'")).await;
    assert_eq!(exit.code, 0, "{text}");
    assert!(text == "15" || text == "none", "domains that could still be nested: {text}");
    let work = "set -e; cd /workspace; mkdir -p a/x b; echo 1 > a/x/f; mv a/x b/y; ln b/y/f a/g; mv b/y/f /tmp/f; \
                echo 2 > /tmp/f; truncate -s 1 a/g; rm -r a b; echo 5 > /proc/self/oom_score_adj; \
                echo name > /proc/self/comm; echo > /dev/null; test -t 0 || echo done";
    let (text, exit) = sh(&*sandbox, work).await;
    assert_eq!((text.as_str(), exit.code), ("done", 0));
}

#[tokio::test]
async fn doctor_finds_every_wall_standing() {
    let dir = tempfile::tempdir().unwrap();
    let findings = sandbox::doctor::examine(dir.path()).await;
    let missing: Vec<_> =
        findings.iter().filter(|finding| finding.state == sandbox::doctor::State::Missing).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(findings.len() > 8, "{findings:#?}");
}
