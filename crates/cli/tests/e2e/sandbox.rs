//! `slipway sandbox`: one command in a fresh sandbox, which exits with its code, sees nothing of the host that is not
//! meant for it, and leaves nothing behind however it ends.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World};

/// `sandbox run` of a shell script.
fn script(text: &str) -> Vec<&str> {
    vec!["sandbox", "run", "--", "sh", "-c", text]
}

#[tokio::test]
async fn a_command_has_its_own_code_output_and_input() {
    let world = World::new();
    let output = world.run(&script("echo out; echo err >&2; pwd; exit 3")).await.expect_code(3);
    assert_eq!(output.stdout, "out\n/workspace\n");
    assert_eq!(output.stderr, "err\n");
    assert_eq!(world.traces(), [""; 0], "it ends when every trace is gone");

    let mut running = world.start(&["sandbox", "run", "--", "sort"]);
    running.write(b"b\na\n").await;
    running.close_stdin();
    let output = running.wait().await.expect_code(0);
    assert_eq!(output.stdout, "a\nb\n");

    let output = world.run(&["sandbox", "run", "--", "no-such-program"]).await.expect_code(127);
    assert!(output.stderr.contains("no-such-program"), "{output}");
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended() {
    let world = World::new();
    let output = world.run(&["sandbox", "run", "--timeout", "1", "--", "sleep", "60"]).await.expect_code(124);
    assert!(output.stderr.contains("1 s") && output.stderr.contains("--timeout"), "{output}");
    // Where no option says how long, the configuration does.
    world.configure("[sandbox]\nwall_clock_s = 1\n");
    for more in [&[][..], &["--timeout", "60"]] {
        let run = [&["sandbox", "run"], more, &["--", "sleep", "60"]].concat();
        let output = world.run(&run).await.expect_code(124);
        assert!(output.stderr.contains("1 s") && output.stderr.contains("wall_clock_s"), "{output}");
    }
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn a_limit_is_told_with_its_value_and_its_key() {
    let world = World::new();
    world.configure("[sandbox]\nmemory_mb = 96\ndisk_mb = 16\ninodes = 100\nopen_files = 100\n");
    let memory = "exec python3 -c 'x = b\"x\" * (512 << 20)'";
    let bytes = "exec head -c 64M /dev/zero > big";
    let inodes = "for i in $(seq 300); do : > $i; done";
    // It is over before anybody counts its files.
    let files = "exec python3 -c 'l = [open(\"/dev/null\") for _ in range(999)]'";
    let grouped = !world.ok(&script("true")).await.stderr.contains("no control groups");
    let cases = [
        (memory, "memory", "96 MiB", "memory_mb"),
        (bytes, "disk_bytes", "16 MiB", "disk_mb"),
        (inodes, "disk_inodes", "100 files", "inodes"),
        (files, "open_files", "100 open files", "open_files"),
    ];
    // Without control groups, memory that a process asks for is refused, and it says so itself.
    for (bomb, limit, value, key) in cases.into_iter().filter(|(_, limit, ..)| grouped || *limit != "memory")
    {
        let output = world.run(&script(bomb)).await;
        assert!(limit != "memory" || output.code() == 137, "{output}");
        assert!(output.stderr.contains(value) && output.stderr.contains(key), "{limit}: {output}");

        let output = world.run(&[&["--json"][..], &script(bomb)].concat()).await;
        assert_eq!(output.stdout, "", "it is the command's own");
        let told: serde_json::Value =
            output.stderr.lines().find_map(|line| serde_json::from_str(line).ok()).expect("a line of JSON");
        assert_eq!(
            (&told["type"], &told["data"]["limit"]),
            (&json!("limit.exceeded"), &json!(limit)),
            "{told}"
        );
        assert!(told["data"]["message"].as_str().unwrap().contains(key), "{told}");
    }
    let output = world.ok(&script("echo fine > x")).await;
    assert!(!output.stderr.contains("limit"), "nothing is said where none was reached: {output}");
    let output = world.ok(&script("echo x: Too many open files >&2")).await;
    assert!(!output.stderr.contains("limit"), "what did not fail has no complaint: {output}");
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn signals_reach_the_command() {
    let world = World::new();
    let wait = "trap 'echo terminated; exit 7' TERM; echo ready; while :; do sleep 0.02; done";
    let running = world.start(&script(wait));
    running.stdout_has("ready").await;
    running.signal(libc::SIGTERM);
    let output = running.wait().await.expect_code(7);
    assert_eq!(output.stdout, "ready\nterminated\n");

    // Not with a program of its own to wait for: a shell loses what comes between its fork and its exec.
    let running = world.start(&script("echo ready; read line"));
    running.stdout_has("ready").await;
    running.signal(libc::SIGINT);
    running.wait().await.expect_code(130);
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn killing_the_program_takes_the_sandbox_with_it() {
    let world = World::new();
    let running = world.start(&script("setsid sleep 600 & echo ready; sleep 600"));
    running.stdout_has("ready").await;
    assert!(!world.traces().is_empty(), "the sandbox is there while it runs");
    running.signal(libc::SIGKILL);
    assert_eq!(running.wait().await.signal(), Some(libc::SIGKILL));
    world.finish().await;
}

#[tokio::test]
async fn nothing_of_the_host_is_in_a_sandbox() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let mut world = World::with(&model, &repo);
    let canary = "canary-8f2b61";
    for name in ["OPENAI_API_KEY", "SLIPWAY_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"] {
        world.set(name, canary);
    }
    let secret = world.home().join("secret.txt");
    std::fs::write(&secret, canary).unwrap();
    // A file that the caller has open is not handed on either.
    let open_file = format!("exec 7<{}; exec \"$@\"", secret.display());
    world.wrap(&["sh", "-c", &open_file, "sh"], Path::new(env!("CARGO_BIN_EXE_slipway")));
    let port = model.address().port();
    let look = format!(
        "env; cat /proc/*/environ; cat {secret} {root}/data/slipway.toml; ls -a {root} /tmp ~; cat <&7; ls -l /proc/1/fd /proc/self/fd\n\
         echo devices; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; echo end\n\
         if (exec 3<>/dev/tcp/127.0.0.1/{port}); then echo reached; fi",
        secret = secret.display(),
        root = world.root().display(),
    );
    let output = world.run(&["sandbox", "run", "--", "bash", "-c", &look]).await.expect_code(0);
    let everything = format!("{}{}", output.stdout, output.stderr);
    assert!(!everything.contains(canary), "{output}");
    assert!(!everything.contains("secret.txt ->") && !output.stdout.contains("secret.txt\n"), "{output}");
    assert!(output.stdout.contains("\ndevices\nlo\nend\n"), "only loopback is there: {output}");
    assert!(!output.stdout.contains("reached"), "the host's loopback is another: {output}");
    world.finish().await;
}

#[tokio::test]
async fn open_files_of_the_caller_stay_with_the_caller() {
    let mut world = World::new();
    // Whoever reads the other end of a pipe would wait for a sandbox that outlives its server.
    let file = world.home().join("open.txt");
    std::fs::write(&file, "").unwrap();
    let open_file = format!("exec 7<{}; exec \"$@\"", file.display());
    world.wrap(&["sh", "-c", &open_file, "sh"], Path::new(env!("CARGO_BIN_EXE_slipway")));
    let mut running = world.start(&["sandbox", "run", "--", "sh", "-c", "echo ready; cat"]);
    running.stdout_has("ready").await;
    let state = world.sandbox_state("one_off");
    for role in ["monitor", "init"] {
        let files = std::fs::read_dir(format!("/proc/{}/fd", state[role])).unwrap();
        let links = files.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let inherited: Vec<_> = links.filter(|link| *link == file).collect();
        assert!(inherited.is_empty(), "the {role} has it open");
    }
    running.close_stdin();
    running.wait().await.expect_code(0);
    world.finish().await;
}

#[tokio::test]
async fn an_environment_brings_its_workspace() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let run =
        ["sandbox", "run", "--env", ENVIRONMENT, "--", "sh", "-c", "cat answer.txt; git status --short"];
    let output = world.run(&run).await.expect_code(0);
    assert_eq!(output.stdout, "41\n");
    let output = world.run(&["sandbox", "run", "--env", "nowhere", "--", "true"]).await.expect_code(2);
    assert!(output.stderr.contains("nowhere"), "{output}");
    assert_eq!(repo.branches(), ["main"]);
    world.finish().await;
}

#[tokio::test]
async fn services_of_the_repository_are_up_first() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let service =
        "services = [{ name = \"web\", run = \"python3 -m http.server 8124\", ready = { tcp = 8124 } }]\n";
    repo.commit("main", &[(".slipway.toml", service)]);
    let world = World::with(&model, &repo);
    let ask = "exec 3<>/dev/tcp/127.0.0.1/8124 && echo it answers";
    let run = ["sandbox", "run", "--env", ENVIRONMENT, "bash", "-c", ask];
    assert_eq!(world.ok(&run).await.stdout, "it answers\n", "on the bare base");
    world.ok(&["env", "build", ENVIRONMENT]).await;
    assert_eq!(world.ok(&run).await.stdout, "it answers\n", "on the image");
    world.finish().await;
}

#[tokio::test]
async fn sandboxes_are_listed_and_removed() {
    let world = World::new();
    let running = world.start(&script("echo ready; sleep 600"));
    running.stdout_has("ready").await;
    let list = world.json(&["sandbox", "ls"]).await;
    let sandbox = &list["sandboxes"][0];
    assert_eq!((&sandbox["state"], &sandbox["owner"]), (&json!("running"), &json!("one_off")), "{list}");
    world.ok(&["sandbox", "rm", sandbox["id"].as_str().unwrap()]).await;
    let list = world.json(&["sandbox", "ls"]).await;
    assert_eq!(list["sandboxes"].as_array().unwrap().len(), 0, "{list}");
    let output = running.wait().await;
    assert_ne!(output.code(), 0, "the command did not end by itself: {output}");
    let gone = world.run(&["sandbox", "rm", sandbox["id"].as_str().unwrap()]).await.expect_code(2);
    assert!(gone.stderr.contains("sandbox ls"), "{gone}");
    world.finish().await;
}

#[tokio::test]
async fn an_ordinary_user_needs_nothing_else() {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        // The other tests of this file have been run by one.
        return;
    }
    let mut world = World::new();
    let user = "61717";
    let program = world.root().join("slipway");
    std::fs::copy(env!("CARGO_BIN_EXE_slipway"), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    for path in [world.root(), &world.data(), &world.home()] {
        std::os::unix::fs::chown(path, Some(61717), Some(61717)).unwrap();
    }
    world.wrap(&["setpriv", "--reuid", user, "--regid", user, "--clear-groups"], &program);
    world.set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let output = world.run(&script("echo out; echo err >&2; exit 3")).await.expect_code(3);
    assert_eq!((output.stdout.as_str(), output.stderr.lines().last()), ("out\n", Some("err")), "{output}");
    let output = world.run(&["sandbox", "run", "--timeout", "1", "--", "sleep", "60"]).await.expect_code(124);
    assert_eq!(world.traces(), [""; 0], "{output}");
    let running = world.start(&script("setsid sleep 600 & echo ready; sleep 600"));
    running.stdout_has("ready").await;
    running.signal(libc::SIGKILL);
    running.wait().await;
    let doctor = world.json(&["doctor"]).await;
    assert_eq!(doctor["fine"], true, "{doctor}");
    world.finish().await;
}
