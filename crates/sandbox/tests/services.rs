//! Services in real sandboxes: when they are up, and what is said when they are not.

#![allow(clippy::unwrap_used)] // a test says what went wrong by panicking
#![allow(clippy::print_stderr)] // and what it leaves out by printing

use std::sync::Arc;

use protocol::{Probe, Service};
use sandbox::native::Native;
use sandbox::{Driver, Life, Owner, Sandbox, Spec, Stack, service};

struct Host {
    driver: Native,
    sandbox: Arc<dyn Sandbox>,
    _dir: tempfile::TempDir,
}

impl Host {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let driver = Native::open(dir.path()).unwrap();
        let sandbox = driver.create(&Spec::new(Stack::host(), Life::Tied, Owner::OneOff)).await.unwrap();
        Self { driver, sandbox, _dir: dir }
    }

    async fn start(&self, services: &[Service]) -> Result<(), String> {
        service::start(&*self.sandbox, services).await.map(drop).map_err(|error| error.to_string())
    }

    async fn text(&self, path: &str) -> String {
        let (bytes, _) = self.sandbox.guest().read_file(path, 0, 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    async fn pids(&self) -> Vec<(String, i32)> {
        let known = self.sandbox.guest().processes().await.unwrap();
        known.into_iter().filter(|known| known.exit.is_none()).map(|known| (known.id, known.pid)).collect()
    }

    async fn end(self) {
        self.driver.remove(self.sandbox.id()).await.unwrap();
    }
}

fn service(name: &str, run: &str, ready: Probe) -> Service {
    let (name, run) = (name.to_owned(), run.to_owned());
    Service { name, run, ready, timeout_s: Some(20), ..Service::default() }
}

fn tcp(port: u16) -> Probe {
    Probe { tcp: Some(port), ..Probe::default() }
}

fn http(url: &str) -> Probe {
    Probe { http: Some(url.to_owned()), ..Probe::default() }
}

fn run(command: &str) -> Probe {
    Probe { run: Some(command.to_owned()), ..Probe::default() }
}

/// A server that answers every request with one status, as soon as it has waited.
fn server(port: u16, status: &str, wait: &str) -> String {
    format!(
        "sleep {wait}; exec python3 -c '
import socket
peer = socket.create_server((\"127.0.0.1\", {port}))
while True:
    one = peer.accept()[0]
    one.recv(4096)
    one.sendall(b\"HTTP/1.0 {status} x\\r\\n\\r\\n\")
    one.close()'"
    )
}

/// The servers of these tests are written in it.
fn without_python() -> bool {
    let missing = !["/usr/bin/python3", "/usr/local/bin/python3"]
        .iter()
        .any(|path| std::path::Path::new(path).exists());
    if missing {
        eprintln!("skipped: there is no python3");
    }
    missing
}

#[tokio::test]
async fn each_is_up_before_the_next_begins_and_before_it_returns() {
    if without_python() {
        return;
    }
    let host = Host::new().await;
    let services = [
        service("file", "echo file >> order; sleep 0.2; touch up; exec sleep 600", run("test -e up")),
        service(
            "web",
            &format!("test -e up && echo web >> order; {}", server(8081, "404", "0.2")),
            tcp(8081),
        ),
        service("app", &server(8082, "302", "0.2"), http("http://localhost:8082/health?x=1")),
        service("last", "echo last >> order; exec sleep 600", Probe::default()),
    ];
    host.start(&services).await.unwrap();
    assert_eq!(host.text("/workspace/order").await, "file\nweb\nlast\n");
    let running = host.pids().await;
    let names: Vec<&str> = running.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(names, ["service-app", "service-file", "service-last", "service-web"]);

    // Again: those that run are left alone, the one that ended is started anew.
    host.sandbox.guest().signal("service-last", 9).await.unwrap();
    while host.pids().await.iter().any(|(id, _)| id == "service-last") {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    host.start(&services).await.unwrap();
    let again = host.pids().await;
    for (id, pid) in &running {
        let same = again.iter().find(|(other, _)| other == id).unwrap().1 == *pid;
        assert_eq!(same, id != "service-last", "{id}");
    }
    assert_eq!(host.text("/workspace/order").await, "file\nweb\nlast\nlast\n");
    host.end().await;
}

#[tokio::test]
async fn one_that_ends_says_how_and_shows_the_end_of_its_output() {
    let host = Host::new().await;
    let noisy = "seq 1 5000; printf 'cannot \\033[31mbind\\n' >&2; exit 9";
    let error = host.start(&[service("db", noisy, tcp(5432))]).await.unwrap_err();
    assert!(error.starts_with("service db exited with 9 before it was up (probe: port 5432)"), "{error}");
    assert!(error.contains("cannot [31mbind") && error.contains("4999"), "{error}");
    assert!(!error.contains("\n4000\n") && error.len() < 3000, "only the end: {} bytes", error.len());
    assert!(error.contains("foreground"), "{error}");
    let error = host.start(&[service("short", "exit 0", Probe::default())]).await.unwrap_err();
    assert!(
        error.contains("service short exited with 0 before it was up (no probe); it wrote nothing"),
        "{error}"
    );
    let error = host.start(&[service("shot", "kill -9 $$", tcp(1))]).await.unwrap_err();
    assert!(error.contains("was ended by signal 9"), "{error}");
    host.end().await;
}

#[tokio::test]
async fn one_that_is_late_says_what_it_was_asked_and_what_it_answered() {
    if without_python() {
        return;
    }
    let host = Host::new().await;
    // A second is enough to say no; a program that has to start before it can answer gets more on a busy machine.
    let quick = |service: Service| Service { timeout_s: Some(1), ..service };
    let patient = |service: Service| Service { timeout_s: Some(6), ..service };
    let sick = patient(service("sick", &server(8083, "503", "0"), http("http://127.0.0.1:8083/")));
    let error = host.start(&[sick]).await.unwrap_err();
    assert!(
        error.starts_with(
            "service sick runs but was not up within 6 s (probe: http://127.0.0.1:8083/, last: status 503)"
        ),
        "{error}"
    );
    assert!(error.contains("timeout_s"), "{error}");
    let deaf = patient(service("deaf", "echo hello; exec sleep 600", tcp(8084)));
    let error = host.start(&[deaf]).await.unwrap_err();
    assert!(error.contains("last: nothing listens there") && error.contains("hello"), "{error}");
    let never = patient(service("never", "exec sleep 600", run("echo not yet; exit 4")));
    let error = host.start(&[never]).await.unwrap_err();
    assert!(error.contains("(probe: `echo not yet; exit 4`, last: not yet)"), "{error}");
    let silent = "if test -e asked; then exec sleep 600; fi; touch asked; echo status 500; exit 1";
    let hangs = patient(service("hangs", "exec sleep 600", run(silent)));
    let error = host.start(&[hangs]).await.unwrap_err();
    assert!(error.contains("last: status 500)"), "not that the last question was broken off: {error}");
    let mute = quick(service("mute", "exec sleep 600", run("exec sleep 600")));
    let error = host.start(&[mute]).await.unwrap_err();
    assert!(error.contains("last: no answer in 1000 ms)"), "{error}");
    let known = host.sandbox.guest().processes().await.unwrap();
    assert!(
        known.iter().all(|known| known.id.starts_with(service::PREFIX)),
        "probes are forgotten: {known:?}"
    );
    host.end().await;
}

#[tokio::test]
async fn a_question_can_be_asked_with_whatever_there_is() {
    if without_python() {
        return;
    }
    let host = Host::new().await;
    host.start(&[service("web", &server(8085, "200", "0"), tcp(8085))]).await.unwrap();
    // The same script with a search path on which there is only one program to ask with.
    for program in ["curl", "bash", "python3", "nc"] {
        let tools = "mkdir -p only && cd only && rm -f * && for tool in sh printf PROGRAM; do
            found=$(command -v $tool) && case $found in /*) ln -s $found $tool;; esac; done; test -e PROGRAM || echo missing > PROGRAM.missing";
        let tools = tools.replace("PROGRAM", program);
        let prepare = service(
            "prepare",
            &format!("{tools}; cd ..; touch prepared-{program}; exec sleep 600"),
            run(&format!("test -e prepared-{program}")),
        );
        let prepare = Service { name: format!("prepare-{program}"), ..prepare };
        host.start(&[prepare]).await.unwrap();
        if host.sandbox.guest().stat(&format!("/workspace/only/{program}.missing")).await.is_ok() {
            eprintln!("skipped: there is no {program}");
            continue;
        }
        let path = |value: &str| [("PATH".to_owned(), value.to_owned())].into();
        host.sandbox.guest().set_env(&path("/workspace/only")).await.unwrap();
        let asked = Service {
            name: format!("asked-{program}"),
            ..service("x", "/bin/sleep 600", http("http://127.0.0.1:8085/"))
        };
        let up = host.start(&[Service { timeout_s: Some(3), ..asked }]).await;
        host.sandbox.guest().set_env(&path("/usr/local/bin:/usr/bin:/bin")).await.unwrap();
        assert!(up.is_ok(), "{program}: {}", up.unwrap_err());
    }
    host.end().await;
}
