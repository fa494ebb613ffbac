//! The whole suite once more as an ordinary user, for whom the walls are built in another way.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Nobody on this host.
const USER: u32 = 4321;

#[test]
fn the_walls_hold_for_an_ordinary_user() {
    again(&["suite::walls::", "suite::nested::", "suite::reach::", "suite::network::"]);
}

#[test]
fn files_and_layers_lead_nowhere_for_an_ordinary_user() {
    again(&["suite::files::", "suite::layers::"]);
}

#[test]
fn excess_is_bounded_for_an_ordinary_user() {
    again(&["suite::bombs::"]);
}

/// Runs parts of the suite again.
fn again(parts: &[&str]) {
    if !rustix::process::geteuid().is_root() {
        // It is what all the other tests are doing.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("escape");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(USER), Some(USER)).unwrap();
    for (path, mode) in [(dir.path(), 0o755), (&program, 0o755), (&home, 0o700)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let output = Command::new(&program)
        .args(["--test-threads=2", "--nocapture"])
        .args(parts)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .current_dir(&home)
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("test result: ok"), "{text}");
    let left: Vec<_> = std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
