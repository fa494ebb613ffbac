//! Users, groups, capabilities and programs that would give them.

use std::os::unix::fs::PermissionsExt;

use super::sys::{HERE, at, sys};
use super::{Case, Verdict, case, holds, refused};

pub(super) fn cases() -> Vec<Case> {
    let refusals = [libc::EPERM, libc::EINVAL];
    let mut cases = vec![
        case("setuid", move || refused(sys(libc::SYS_setuid, [0]), &refusals)),
        case("setgid", move || refused(sys(libc::SYS_setgid, [0]), &refusals)),
        case("setresuid", move || refused(sys(libc::SYS_setresuid, [0, 0, 0]), &refusals)),
        case("setreuid", move || refused(sys(libc::SYS_setreuid, [0, 0]), &refusals)),
        case("setgroups", || {
            let groups = [0_u32];
            refused(sys(libc::SYS_setgroups, [1, at(&groups)]), &[libc::EPERM])
        }),
        case("setfsuid", || {
            let before = sys(libc::SYS_setfsuid, [0]);
            holds(sys(libc::SYS_setfsuid, [0]) == before && before == Ok(1000), "it changed")
        }),
        case("another user of the range", move || refused(sys(libc::SYS_setuid, [1001]), &refusals)),
        case("give a file to root", move || {
            std::fs::write("/workspace/given", "x").unwrap();
            refused(sys(libc::SYS_fchownat, [HERE, at(c"/workspace/given"), 0, 0, 0]), &refusals)
        }),
        case("capset", || {
            let header = [0x2008_0522_u32, 0];
            let all = [u32::MAX; 6];
            refused(sys(libc::SYS_capset, [at(&header), at(&all)]), &[libc::EPERM])
        }),
        case("an ambient capability", || {
            refused(sys(libc::SYS_prctl, [libc::PR_CAP_AMBIENT as u64, 2, 21, 0, 0]), &[libc::EPERM])
        }),
        case("the bounding set is empty", || {
            let left: Vec<u64> = (0..64)
                .filter(|number| {
                    sys(libc::SYS_prctl, [libc::PR_CAPBSET_READ as u64, *number, 0, 0, 0]) == Ok(1)
                })
                .collect();
            holds(left.is_empty(), format!("{left:?}"))
        }),
        case("secure bits", || {
            refused(sys(libc::SYS_prctl, [libc::PR_SET_SECUREBITS as u64, 0, 0, 0, 0]), &[libc::EPERM])
        }),
        case("no_new_privs cannot be taken back", || {
            let off = sys(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 0, 0, 0, 0]);
            let now = sys(libc::SYS_prctl, [libc::PR_GET_NO_NEW_PRIVS as u64, 0, 0, 0, 0]);
            if now == Ok(1) { refused(off, &[libc::EINVAL]) } else { Verdict::Open(format!("it is {now:?}")) }
        }),
        case("a copy of itself with set-user-id", || {
            let copy = "/workspace/set-user-id";
            std::fs::copy("/proc/self/exe", copy).unwrap();
            std::fs::set_permissions(copy, std::fs::Permissions::from_mode(0o6755)).unwrap();
            let mut command = std::process::Command::new(copy);
            command
                .args(["every_attempt_has_a_name_of_its_own", "--nocapture"])
                .env(super::VARIABLE, "identity");
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            holds(text.contains("\theld\t"), text)
        }),
    ];
    cases.extend(identity_cases());
    for name in ["su", "mount", "passwd", "chsh", "newgrp", "sudo", "pkexec", "fusermount3"] {
        cases.push(case(format!("the host's own {name}"), move || {
            let path = format!("/usr/bin/{name}");
            let Ok(data) = std::fs::metadata(&path) else { return Verdict::Skipped(format!("no {path}")) };
            if data.permissions().mode() & 0o6000 == 0 {
                return Verdict::Skipped(format!("{path} is not set-user-id here"));
            }
            watched(&path)
        }));
    }
    cases
}

/// What a program that was started with the set-user-id bit says about itself.
pub(super) fn identity_cases() -> Vec<Case> {
    vec![case("status says it has nothing", || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let bad = status.lines().find(|line| is_privilege(line));
        holds(bad.is_none(), bad.unwrap_or_default())
    })]
}

/// Whether a line of /proc/…/status tells of anything that a sandboxed process must not have.
fn is_privilege(line: &str) -> bool {
    let (name, value) = line.split_once(':').unwrap_or_default();
    let value = value.trim();
    match name {
        "CapInh" | "CapPrm" | "CapEff" | "CapBnd" | "CapAmb" => value != "0000000000000000",
        "NoNewPrivs" => value != "1",
        "Seccomp" => value != "2",
        "Uid" | "Gid" => value.split_whitespace().any(|id| id != "1000"),
        // Groups of the ordinary user that started it have no name inside.
        "Groups" => value.split_whitespace().any(|id| id != "65534" && id != "1000"),
        _ => false,
    }
}

/// Runs a program of the host that waits for its input, and looks who it is for as long as it runs.
fn watched(path: &str) -> Verdict {
    let mut command = std::process::Command::new(path);
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Verdict::Skipped(format!("it cannot be run: {error}")),
    };
    let mut found = None;
    for _ in 0..2000 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        found = found.or_else(|| text.lines().find(|line| is_privilege(line)).map(str::to_owned));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    // One that has ended meanwhile is as good.
    drop(child.kill());
    child.wait().unwrap();
    holds(found.is_none(), found.unwrap_or_default())
}
