//! A full disk: a small file system of the test's own, filled before a command and while one runs.

use std::ffi::CString;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::model::{At, Gate, Script, Server};
use testkit::repo::Repo;

use super::{root, says, skipped};
use crate::harness::{ENVIRONMENT, World, edit, environment, models, shell};

/// A small file system; gone with the value.
struct Small {
    at: PathBuf,
}

impl Small {
    /// Mounts one, where that is allowed.
    fn mount(at: &Path, kilobytes: u32) -> Option<Self> {
        let path = CString::new(at.to_str().unwrap()).unwrap();
        let options = CString::new(format!("size={kilobytes}k,mode=0700")).unwrap();
        // SAFETY: all arguments are terminated strings that live through the call.
        let mounted = unsafe {
            libc::mount(c"tmpfs".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast())
        };
        if mounted != 0 {
            skipped("this machine does not let the test mount a small disk");
            return None;
        }
        Some(Self { at: at.to_owned() })
    }

    /// Writes until nothing more fits.
    fn fill(&self) -> PathBuf {
        let ballast = self.at.join("ballast");
        let mut file = std::fs::File::create(&ballast).unwrap();
        for piece in [1 << 16, 1 << 12, 1 << 6, 1] {
            let piece = vec![0; piece];
            while file.write_all(&piece).is_ok() {}
        }
        ballast
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let path = CString::new(self.at.to_str().unwrap()).unwrap();
        // SAFETY: the argument is a terminated string that lives through the call.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

#[tokio::test]
async fn a_disk_that_is_full_at_the_start_is_told_of_and_harms_nothing() {
    if !root() {
        return;
    }
    for kilobytes in [16, 72] {
        let world = World::new();
        let Some(small) = Small::mount(&world.data(), kilobytes) else { return world.finish().await };
        for arguments in [&["ls"][..], &["serve", "--listen", "127.0.0.1:0"], &["env", "ls"]] {
            let output = world.run(arguments).await.expect_code(1);
            says(&output, &["full", "free some space", &world.data().display().to_string()]);
            assert_eq!(output.stdout, "", "{output}");
        }
        let path = CString::new(world.data().to_str().unwrap()).unwrap();
        // SAFETY: the arguments are terminated strings that live through the call.
        let grown = unsafe {
            libc::mount(
                c"".as_ptr(),
                path.as_ptr(),
                c"".as_ptr(),
                libc::MS_REMOUNT,
                c"size=64m".as_ptr().cast(),
            )
        };
        assert_eq!(grown, 0);
        world.ok(&["ls"]).await;
        drop(small);
        world.finish().await;
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_during_a_turn_fails_the_turn_and_loses_nothing() {
    if !root() {
        return;
    }
    let gate = Gate::new();
    let script = Script::new()
        .answer(shell("seq 1 50000"))
        .answer(shell("seq 1 50000 | sed s/^/again/").stall(At::Response, &gate));
    let (model, repo) = (Server::start(script).await, Repo::plain());
    let world = World::new();
    let Some(small) = Small::mount(&world.data(), 16 << 10) else { return world.finish().await };
    world.configure(&format!("{}{}", models(&model), environment(&repo)));
    let running = world.start(&["run", "--env", ENVIRONMENT, "--json", "Print a lot"]);
    gate.reached().await;
    let ballast = small.fill();
    gate.open();
    let output = running.wait().await.expect_code(1);
    says(&output, &["full", "free some space"]);
    let seen = output.events();
    seen.assert_gap_free(0);
    assert_eq!(model.requests().len(), 2, "the model is not called for what cannot be recorded");
    assert_eq!(
        world.traces().iter().filter(|trace| !trace.starts_with("mount")).count(),
        0,
        "{:?}",
        world.traces()
    );

    std::fs::remove_file(ballast).unwrap();
    let list = world.json(&["ls"]).await;
    let session = &list["sessions"][0];
    assert_eq!(session["status"], "failed", "{list}");
    assert!(session["reason"].as_str().unwrap().contains("full"), "{list}");
    let shown = world.json(&["show", seen.session()]).await;
    assert_eq!(shown["status"], "failed", "{shown}");
    // Everything that was shown is still there, in the same place, and the turn has one end.
    let log = world.run(&["attach", seen.session(), "--json"]).await.expect_code(1).events();
    log.assert_gap_free(0);
    assert_eq!(log.durable[..seen.durable.len()], seen.durable[..]);
    assert_eq!(log.only("turn.finished")["outcome"], "failed");
    assert_eq!(log.only("error.raised")["code"], "storage_full");
    drop(small);
    world.finish().await;
}

#[tokio::test]
async fn a_command_that_fills_the_disk_itself_is_told_of_and_cleared_away() {
    if !root() {
        return;
    }
    let script = Script::new().answer(shell("head -c 100M /dev/zero > big; echo \"exit $?\"")).say("Hm.");
    let (model, repo) = (Server::start(script).await, Repo::plain());
    let world = World::new();
    let Some(small) = Small::mount(&world.data(), 8 << 10) else { return world.finish().await };
    world.configure(&format!("{}{}", models(&model), environment(&repo)));
    let output = world.run(&["run", "--env", ENVIRONMENT, "Fill it"]).await.expect_code(1);
    says(&output, &["No space left on device", "full", "free some space"]);
    // The sandbox went with its files, so there is room again.
    let list = world.json(&["ls"]).await;
    assert_eq!(list["sessions"][0]["status"], json!("failed"), "{list}");
    drop(small);
    world.finish().await;
}

#[tokio::test]
async fn a_server_goes_on_when_there_is_room_again() {
    if !root() {
        return;
    }
    let gate = Gate::new();
    let long = shell("seq 1 50000").stall(At::Response, &gate);
    let script = Script::new().answer(long).answer(edit("41", "42")).say("Done.");
    let (model, repo) = (Server::start(script).await, Repo::plain());
    let world = World::new();
    let Some(small) = Small::mount(&world.data(), 16 << 10) else { return world.finish().await };
    world.configure(&format!("{}{}", models(&model), environment(&repo)));
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Print a lot").await;
    gate.reached().await;
    let ballast = small.fill();
    gate.open();
    // Who asks is told, whether or not that can be recorded.
    let shown = loop {
        let shown = world.json(&["show", &session]).await;
        if shown["status"] != "working" {
            break shown;
        }
    };
    assert_eq!(shown["status"], "failed", "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains("full"), "{shown}");
    let refused = world.run(&["run", "--env", ENVIRONMENT, "x"]).await.expect_code(1);
    says(&refused, &["full", "free some space"]);

    std::fs::remove_file(ballast).unwrap();
    world.ok(&["prompt", &session, "Make the answer right"]).await;
    let log = serving.api.log(&session).await;
    log.assert_gap_free(0);
    let outcomes: Vec<&str> =
        log.of("turn.finished").iter().map(|finished| finished["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["failed", "done"]);
    serving.stop().await;
    world.remove_sandboxes().await;
    drop(small);
    world.finish().await;
}
