//! The walls of one sandbox: namespaces, mounts, the filter, devices, privileges, processes.

use super::world::{World, all_hold, arm, modest, run, sh, still_answers};
use guest::ProcessSpec;

#[tokio::test]
async fn namespaces_can_be_neither_made_nor_joined() {
    let world = World::new();
    let sandbox = world.armed(modest()).await;
    all_hold(&*sandbox, "namespaces", &[]).await;
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn nothing_can_be_mounted_and_the_root_is_the_end() {
    let world = World::new();
    let sandbox = world.armed(modest()).await;
    all_hold(&*sandbox, "mounts", &[("HOST_DIR", world.driver_dir().display().to_string())]).await;
}

#[tokio::test]
async fn calls_that_reach_into_the_kernel_are_refused() {
    let world = World::new();
    let sandbox = world.armed(modest()).await;
    all_hold(&*sandbox, "kernel", &[]).await;
    all_hold(&*sandbox, "sockets", &[]).await;
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn there_is_no_device_and_no_privilege_to_be_had() {
    let world = World::new();
    let sandbox = world.armed(modest()).await;
    all_hold(&*sandbox, "devices", &[]).await;
    all_hold(&*sandbox, "privileges", &[]).await;
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn pid_1_and_proc_give_nothing_away() {
    // SAFETY: nothing else in this program reads this variable, and each test has a process of its own under nextest.
    unsafe { std::env::set_var("SLIPWAY_ESCAPE_CANARY", "canary-of-the-driver") };
    let open = tempfile::tempfile().unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let world = World::new();
    let sandbox = world.armed(modest()).await;
    all_hold(&*sandbox, "processes", &[("CANARY", "canary-of-the-driver".to_owned())]).await;
    all_hold(&*sandbox, "proc", &[]).await;
    still_answers(&*sandbox).await;
}

/// The program that builds walls runs from memory; started again inside, it must not be changed for the next sandbox.
#[tokio::test]
async fn the_launcher_cannot_be_overwritten_through_proc() {
    let world = World::new();
    let sandbox = world.sandbox(modest()).await;
    let itself =
        ProcessSpec { argv: vec!["/proc/self/exe".to_owned()], stdin: true, ..ProcessSpec::default() };
    // It waits for what to launch, and so can be looked at.
    let started = sandbox.guest().start("itself", &itself).await;
    assert!(started.is_ok(), "{started:?}");
    let pid =
        sandbox.guest().processes().await.unwrap().iter().find(|state| state.id == "itself").unwrap().pid;
    for how in ["1<>", ">", ">>"] {
        let (text, exit) = sh(&*sandbox, &format!("echo overwritten {how} /proc/{pid}/exe")).await;
        assert_ne!(exit.code, 0, "{how}: {text}");
    }
    let (text, _) = sh(&*sandbox, &format!("chmod 777 /proc/{pid}/exe && ls -l /proc/{pid}/exe")).await;
    let script = "#!/proc/self/exe\n";
    sandbox.guest().write_file("/workspace/script", script.into()).await.unwrap();
    sh(&*sandbox, "chmod +x script; (./script < /dev/null > /dev/null 2>&1); true").await;
    sandbox.guest().signal("itself", 9).await.unwrap();
    // The next one starts as if nothing had happened.
    let next = world.sandbox(modest()).await;
    still_answers(&*next).await;
    still_answers(&*sandbox).await;
    assert!(!text.contains("overwritten"), "{text}");
}

/// A working directory that is a descriptor somebody left open leads out of a sandbox; so there must be none.
#[tokio::test]
async fn no_descriptor_of_the_guest_is_a_way_out() {
    let world = World::new();
    let sandbox = world.sandbox(modest()).await;
    for number in 0..64 {
        for way in [format!("/proc/self/fd/{number}"), format!("/proc/self/fd/{number}/../../..")] {
            let spec = ProcessSpec {
                argv: ["/bin/sh", "-c", "pwd -P; ls -a"].map(str::to_owned).into(),
                cwd: Some(way.clone()),
                ..ProcessSpec::default()
            };
            let started = sandbox.guest().start(&format!("fd{number}-{}", way.len()), &spec).await;
            if let Ok(mut process) = started {
                let (text, _) = super::world::finish(&mut process).await;
                panic!("{way} is a directory of the guest's: {text}");
            }
        }
    }
    let outside = world.driver_dir().display().to_string();
    for way in
        [format!("/proc/1/cwd{outside}"), format!("/proc/1/root{outside}"), "/../../..".to_owned() + &outside]
    {
        assert!(sandbox.guest().list(&way).await.is_err(), "{way} can be listed");
    }
}

/// What kills everything it may kill does not reach pid 1, and pid 1 cannot be stopped.
#[tokio::test]
async fn signals_do_not_end_or_stop_the_guest() {
    let world = World::new();
    let sandbox = world.sandbox(modest()).await;
    for signal in ["KILL", "STOP", "TERM", "SEGV", "ABRT", "HUP", "USR1", "CHLD", "PIPE", "ALRM", "QUIT"] {
        sh(&*sandbox, &format!("kill -{signal} 1; kill -{signal} -1")).await;
        still_answers(&*sandbox).await;
    }
    arm(&*sandbox).await;
    let (text, _) = run(&*sandbox, &super::world::attempt("identity", &[])).await;
    assert!(text.contains("@end"), "{text}");
}

/// Pid 1 comes out of the monitor by forking; what the monitor has open is not for it.
#[tokio::test]
async fn the_guest_holds_nothing_of_the_monitors() {
    let world = World::new();
    let sandbox = world.sandbox(modest()).await;
    // What it handed to the monitor is let go of before the first command runs.
    sh(&*sandbox, "true").await;
    let list = sandbox::Driver::list(&*world.driver).await.unwrap();
    let pid = list.iter().find(|info| info.id == sandbox.id()).and_then(|info| info.pid).unwrap();
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        // It hides from everybody but root.
        assert!(!rustix::process::geteuid().is_root());
        return;
    };
    let own = |target: &str| {
        ["socket:", "pipe:", "anon_inode:"].iter().any(|kind| target.starts_with(kind))
            || target.ends_with("/null")
    };
    let held: Vec<String> = entries
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .filter(|target| !own(target))
        .collect();
    assert_eq!(held, Vec::<String>::new(), "these were left open");
}

/// What the filter leaves of sockets is what programs use to find out about addresses and to talk to each other.
#[tokio::test]
async fn programs_find_addresses_and_each_other() {
    let world = World::new();
    let sandbox = world.sandbox(modest()).await;
    let python = "import socket; assert socket.if_nameindex(); socket.getaddrinfo('localhost', 80); \
                  s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); \
                  socket.socketpair(); print('found')";
    let node = "const net = require('net'); if (!require('os').networkInterfaces().lo) throw 'lo'; \
                const s = net.createServer(c => c.end('found')).listen(0, '127.0.0.1', () => \
                net.connect(s.address().port, '127.0.0.1').on('data', d => { console.log('' + d); s.close() }))";
    for (program, option, code) in [("python3", "-c", python), ("node", "-e", node)] {
        let (_, exit) = sh(&*sandbox, &format!("command -v {program}")).await;
        if exit.code != 0 {
            println!("skipped: {program} is not installed");
            continue;
        }
        let argv = [program, option, code].map(str::to_owned).into();
        let (text, exit) = run(&*sandbox, &ProcessSpec { argv, ..ProcessSpec::default() }).await;
        assert_eq!((text.as_str(), exit.code), ("found", 0), "{program}");
    }
}
