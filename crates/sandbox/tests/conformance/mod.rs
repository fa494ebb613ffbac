//! What every driver must do, written only against `Driver` and `Sandbox`.
//!
//! A new driver implements [`Harness`] and calls [`suite!`]; it passes unchanged. A case that a host cannot run says why.

#![allow(dead_code)] // a driver that does not use all of it is still a driver
#![allow(unreachable_pub)] // every driver's tests have it as a module of their own
#![allow(clippy::unwrap_used)] // a test says what went wrong by panicking
#![allow(clippy::print_stderr)] // a case that is left out says why

pub mod layers;
pub mod life;
pub mod limits;
pub mod running;
pub mod saving;
pub mod shapes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use guest::{Exit, Output, ProcessSpec};
use protocol::SandboxId;
use sandbox::{Driver, LayerId, Life, Limits, Owner, Sandbox, Spec, Stack};

/// What a driver is tested with.
pub trait Harness: Sized + Send + Sync {
    /// A place of its own, in which there is nothing yet.
    fn new() -> Self;
    /// Opens the driver there; again, that is what a restarted server does.
    fn open(&self) -> Arc<dyn Driver>;
    /// Why this host cannot do something; None if it can.
    fn lacks(&self, ability: Ability) -> Option<String>;
    /// Processes, mounts, control groups and the like of a sandbox, wherever they are on this host.
    fn traces(&self, id: SandboxId) -> Vec<String>;
    /// Everything in its place that is neither a sandbox's nor a layer's whole: what an interrupted step would leave.
    fn leftovers(&self) -> Vec<PathBuf>;
}

/// What not every host can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Limit the memory of all processes together, and count those that were killed for it.
    Memory,
    /// Limit the processes of all users together, and count those that could not be made.
    Processes,
    /// Stop a sandbox for a moment.
    Freeze,
    /// Keep owners of files other than the inside user.
    Owners,
}

/// A driver with everything that a case needs.
pub struct World<H: Harness> {
    pub harness: H,
    pub driver: Arc<dyn Driver>,
    seen: std::sync::Mutex<Vec<SandboxId>>,
}

impl<H: Harness> World<H> {
    pub fn new() -> Self {
        let harness = H::new();
        let driver = harness.open();
        Self { harness, driver, seen: std::sync::Mutex::default() }
    }

    pub async fn create(&self, stack: &Stack, life: Life) -> Arc<dyn Sandbox> {
        self.create_with(stack, life, Limits::default()).await
    }

    pub async fn create_with(&self, stack: &Stack, life: Life, limits: Limits) -> Arc<dyn Sandbox> {
        let spec = Spec { limits, ..Spec::new(stack.clone(), life, Owner::OneOff) };
        self.seen.lock().unwrap().push(spec.id);
        self.driver.create(&spec).await.unwrap()
    }

    /// Whether a case has to be left out; says so if it has.
    pub fn skips(&self, ability: Ability) -> bool {
        let why = self.harness.lacks(ability);
        if let Some(why) = &why {
            eprintln!("skipped: {why}");
        }
        why.is_some()
    }

    /// Removes everything, and looks whether anything is left.
    pub async fn close(self) {
        for info in self.driver.list().await.unwrap() {
            self.driver.remove(info.id).await.unwrap();
        }
        for layer in self.driver.layers().await.unwrap() {
            self.driver.remove_layer(&layer.id).await.unwrap();
        }
        assert!(self.driver.list().await.unwrap().is_empty());
        assert!(self.driver.layers().await.unwrap().is_empty());
        let seen = self.seen.lock().unwrap().clone();
        for id in seen {
            until("every trace to be gone", || self.harness.traces(id).is_empty()).await;
        }
        assert_eq!(self.harness.leftovers(), Vec::<PathBuf>::new());
    }
}

impl<H: Harness> Drop for World<H> {
    /// A case that failed leaves nothing behind either.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let driver = Arc::clone(&self.driver);
        let clean = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for info in driver.list().await.unwrap() {
                    driver.remove(info.id).await.unwrap();
                }
            });
        };
        // In a thread of its own, because this one is in a runtime already.
        if std::thread::spawn(clean).join().is_err() {
            eprintln!("a sandbox may have been left behind");
        }
    }
}

pub fn layer(name: &str) -> LayerId {
    name.parse().unwrap()
}

/// Runs a script and gives what it wrote, which is trimmed, and how it ended.
pub async fn run(sandbox: &dyn Sandbox, script: &str) -> (String, Exit) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = format!("case-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).into();
    let mut process = sandbox.guest().start(&id, &ProcessSpec { argv, ..Default::default() }).await.unwrap();
    let mut text = Vec::new();
    loop {
        match process.next().await.unwrap() {
            Some(Output::Stdout { data, .. } | Output::Stderr { data, .. }) => text.extend_from_slice(&data),
            Some(Output::Exit(exit)) => return (String::from_utf8_lossy(&text).trim().to_owned(), exit),
            None => panic!("the stream ended without an exit"),
        }
    }
}

/// Runs a script that must succeed.
pub async fn sh(sandbox: &dyn Sandbox, script: &str) -> String {
    let (text, exit) = run(sandbox, script).await;
    assert_eq!(exit.code, 0, "{script}\n{text}");
    text
}

/// Everything about a tree that programs can see, but what differs from one look to the next.
pub async fn look(sandbox: &dyn Sandbox, path: &str) -> String {
    let script = format!(
        "cd {path} && find . \\( -type d -printf '%P %y %m %U %G\\n' \\) -o -printf '%P %y %m %U %G %s %T@ %l\\n' \
         | LC_ALL=C sort; find . -type f -readable -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum"
    );
    sh(sandbox, &script).await
}

pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain for: {what}");
}

/// Writes a tar archive; each entry is a header and its content.
pub fn archive(path: &Path, entries: &[(&str, tar::EntryType, &str)]) {
    let mut builder = tar::Builder::new(std::fs::File::create(path).unwrap());
    for (name, kind, text) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        header.set_uid(1000);
        header.set_gid(1000);
        header.set_mtime(1_700_000_000);
        let bytes = header.as_old_mut();
        bytes.name[..name.len()].copy_from_slice(name.as_bytes());
        let data: &[u8] = if kind.is_symlink() || kind.is_hard_link() {
            bytes.linkname[..text.len()].copy_from_slice(text.as_bytes());
            b""
        } else {
            text.as_bytes()
        };
        header.set_size(data.len() as u64);
        header.set_cksum();
        builder.append(&header, data).unwrap();
    }
    builder.finish().unwrap();
}

/// Makes every case a test of its own.
#[macro_export]
macro_rules! suite {
    ($harness:ty) => {
        $crate::suite!($harness: running {
            a_command_runs_and_its_output_comes_at_once, exit_codes_and_signals_are_told, files_go_in_and_out,
            a_terminal_is_one, a_process_outlives_its_connection, sandboxes_do_not_share_anything,
        });
        $crate::suite!($harness: life {
            a_sandbox_outlives_its_driver_and_is_found_again, a_list_tells_owner_stack_and_state,
            removal_can_be_repeated, a_tied_sandbox_goes_with_its_owner, twenty_start_at_once,
            a_sandbox_that_ended_can_be_removed, what_was_half_made_can_be_removed,
        });
        $crate::suite!($harness: limits {
            memory, processes, open_files, shared_memory, disk_bytes, disk_bytes_again_and_again, inodes, wall_clock,
            the_clock_begins_anew_with_an_owner, the_clock_of_one_that_waits_begins_with_its_claim,
            a_restarted_server_does_not_give_more_time,
        });
        $crate::suite!($harness: layers {
            a_layer_that_is_not_there_is_said_to_be_missing, a_layer_in_use_stays, an_archive_becomes_a_layer,
            ten_layers_and_more, merged_layers_look_the_same, a_merged_layer_hides_what_the_originals_hid,
            an_import_is_done_once, an_archive_goes_through_the_links_below_it, a_lease_ends_with_the_sandbox,
        });
        $crate::suite!($harness: saving {
            a_live_save_is_a_moment_and_the_sandbox_goes_on, a_stopped_sandbox_becomes_a_layer,
            two_sandboxes_of_one_layer_are_independent, what_is_left_out_is_not_in_the_layer,
            saves_share_what_did_not_change, a_file_that_is_mapped_is_never_stale, a_save_does_not_block_commands,
            a_tied_sandbox_cannot_be_kept, saves_at_once_wait_for_each_other, a_large_tree_is_saved_whole,
            a_session_goes_on_for_many_snapshots, a_save_is_of_one_moment, what_begins_others_is_caught,
            what_was_stopped_stays_so, nobody_sees_a_child_stop, one_that_lent_its_memory_goes_on,
            what_is_traced_is_left_alone,
        });
        $crate::suite!($harness: shapes {
            removals_survive, replaced_directories_survive, renames_survive, changed_permissions_survive,
            odd_names_survive, odd_kinds_of_files_survive, a_deep_tree_survives, closed_directories_survive,
            holes_and_links_survive, what_writes_meanwhile_leads_nowhere,
        });
    };
    ($harness:ty: $module:ident { $($case:ident),* $(,)? }) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::conformance::$module::$case::<$harness>().await;
                }
            )*
        }
    };
}
