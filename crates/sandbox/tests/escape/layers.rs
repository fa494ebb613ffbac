//! Layers that somebody else made: links where mounts go, archives with names that lead out, and trees that change while
//! a sandbox is built on them.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::{Archive, Driver, Error, LayerId, Life, Owner, Sandbox, Spec, Stack};

use super::world::{World, modest, sh};

/// Places that something is mounted on, or that the launcher makes.
const PLACES: [&str; 11] =
    ["proc", "dev", "sys", "tmp", "run", "etc", "home", "home/dev", "workspace", "usr", "etc/resolv.conf"];

/// Those of them that must be directories of the sandbox's own.
const WORKED_IN: [&str; 5] = ["tmp", "run", "home", "home/dev", "workspace"];

/// An entry of an archive, with a name as it is, however bad.
struct Entry<'a> {
    name: &'a str,
    kind: tar::EntryType,
    link: &'a str,
    content: &'a str,
}

fn entry<'a>(name: &'a str, kind: tar::EntryType, link: &'a str) -> Entry<'a> {
    Entry { name, kind, link, content: "" }
}

fn archive(path: &Path, entries: &[Entry<'_>]) -> Archive {
    let mut builder = tar::Builder::new(std::fs::File::create(path).unwrap());
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        // The library's own way refuses names that lead up.
        let old = header.as_old_mut();
        old.name[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
        old.linkname[..entry.link.len()].copy_from_slice(entry.link.as_bytes());
        header.set_entry_type(entry.kind);
        header.set_mode(0o4755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(entry.content.len() as u64);
        if matches!(entry.kind, tar::EntryType::Block | tar::EntryType::Char) {
            header.set_device_major(8).unwrap();
            header.set_device_minor(0).unwrap();
        }
        header.set_cksum();
        builder.append(&header, entry.content.as_bytes()).unwrap();
    }
    builder.finish().unwrap();
    Archive { path: path.to_owned(), whiteouts: true, below: Vec::new() }
}

fn on(layer: &LayerId) -> Spec {
    Spec { limits: modest(), ..Spec::new(Stack::host().with(layer.clone()), Life::Tied, Owner::OneOff) }
}

/// What a sandbox must be like, however strange the layer.
async fn has_its_walls(sandbox: &dyn Sandbox, how: &str) {
    let script = "stat -f -c %T /proc /dev; for f in kcore keys timer_list kallsyms; do \
                  test ! -e /proc/$f || stat -c %t:%T /proc/$f; done | sort -u; \
                  ls -d /proc/1 /proc/self/status; touch /proc/sys/kernel/x 2>/dev/null || echo closed";
    // Not in the workspace, which may be a link to nowhere.
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).into();
    let spec = guest::ProcessSpec { argv, cwd: Some("/".to_owned()), ..guest::ProcessSpec::default() };
    let (text, _) = super::world::run(sandbox, &spec).await;
    assert_eq!(text, "proc\ntmpfs\n1:3\n/proc/1\n/proc/self/status\nclosed", "{how}");
}

fn canary(world: &World) -> PathBuf {
    let outside = world.outside();
    std::fs::write(outside.join("canary"), "canary").unwrap();
    outside
}

fn is_untouched(outside: &Path, how: &str) {
    let names: Vec<_> = std::fs::read_dir(outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["canary"], "{how}");
    let data = outside.join("canary").metadata().unwrap();
    assert_eq!((data.len(), data.nlink()), (6, 1), "{how}");
}

#[tokio::test]
async fn links_in_place_of_mount_points_lead_no_mount_astray() {
    let world = World::new();
    let outside = canary(&world);
    let target = outside.display().to_string();
    for (number, place) in PLACES.into_iter().enumerate() {
        for (kind, target) in [("outside", target.as_str()), ("root", "/"), ("up", "../../../..")] {
            let layer: LayerId = format!("links-{number}-{kind}").parse().unwrap();
            let file = outside.with_file_name(format!("{layer}.tar"));
            let archive = archive(&file, &[entry(place, tar::EntryType::Symlink, target)]);
            let how = format!("/{place} is a link to {target}");
            match world.driver.import(&layer, &archive).await {
                // An archive may be refused for it.
                Err(error) => assert!(!matches!(error, Error::Io { .. }), "{how}: {error}"),
                Ok(_) => match world.driver.create(&on(&layer)).await {
                    Ok(sandbox) => {
                        assert!(!WORKED_IN.contains(&place), "{how}: it is worked in somewhere else");
                        has_its_walls(&*sandbox, &how).await;
                    }
                    // Refusing to start is as good as starting well, if it says why.
                    Err(error) if WORKED_IN.contains(&place) => {
                        let error = error.to_string();
                        assert!(error.contains(&format!("/{place} is a symbolic link")), "{how}: {error}");
                    }
                    Err(error) => assert!(!error.to_string().is_empty()),
                },
            }
            is_untouched(&outside, &how);
        }
    }
}

#[tokio::test]
async fn an_archive_is_unpacked_into_its_layer_and_nowhere_else() {
    let world = World::new();
    let outside = canary(&world);
    let target = outside.display().to_string();
    let made = format!("{target}/made");
    let canary = format!("{target}/canary");
    let up = format!("{}{made}", "../".repeat(12));
    use tar::EntryType::{Block, Char, Link, Regular, Symlink};
    let file = |name| Entry { name, kind: Regular, link: "", content: "from the archive" };
    let attempts = [
        ("a name that leads up", vec![file(up.as_str())]),
        ("a name that begins at the root", vec![file(made.as_str())]),
        ("a name with a part that leads up", vec![file("a/../../../../../../made")]),
        ("through a link", vec![entry("out", Symlink, &target), file("out/made")]),
        ("through a link, over the canary", vec![entry("out", Symlink, &target), file("out/canary")]),
        ("over a link", vec![entry("out", Symlink, &canary), file("out")]),
        ("a hard link out", vec![entry("hard", Link, &canary), file("hard")]),
        ("a hard link up", vec![entry("hard", Link, &up), file("hard")]),
        (
            "a hard link through a link",
            vec![entry("out", Symlink, &target), entry("hard", Link, "out/canary"), file("hard")],
        ),
        ("a removal through a link", vec![entry("out", Symlink, &target), file("out/.wh.canary")]),
        (
            "an emptied directory through a link",
            vec![entry("out", Symlink, &target), file("out/.wh..wh..opq")],
        ),
        ("a removal of the directory above", vec![file(".wh..."), file(".wh..")]),
        ("a disk", vec![entry("disk", Block, ""), entry("memory", Char, "")]),
    ];
    for (number, (how, entries)) in attempts.iter().enumerate() {
        let layer: LayerId = format!("bad-{number}").parse().unwrap();
        let archive = archive(&outside.with_file_name(format!("{layer}.tar")), entries);
        let imported = world.driver.import(&layer, &archive).await;
        is_untouched(&outside, how);
        if imported.is_ok() {
            let root = world.driver.layer_root(&layer);
            let mut found = Vec::new();
            super::world::walk(&root, &mut found);
            for path in found {
                use std::os::unix::fs::FileTypeExt;
                let data = path.symlink_metadata().unwrap();
                let device = data.file_type().is_block_device()
                    || (data.file_type().is_char_device() && data.rdev() != 0);
                assert!(!device, "{how}: {} is a device", path.display());
            }
            let sandbox = world.driver.create(&on(&layer)).await.unwrap();
            has_its_walls(&*sandbox, how).await;
        } else {
            assert!(!world.driver.layer_root(&layer).exists(), "{how}: half a layer is there");
        }
    }
}

/// Swaps entries of a directory with links until it is told to stop.
fn swapper(root: PathBuf, target: PathBuf, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut swaps = 0;
        while !stop.load(Ordering::Relaxed) {
            for name in ["proc", "dev", "workspace"] {
                let (place, link, aside) =
                    (root.join(name), root.join(format!("{name}.link")), root.join(format!("{name}.dir")));
                // Whatever of this meets a name that is not there, the next round puts right.
                drop(std::fs::create_dir(&place));
                drop(symlink(&target, &link));
                drop(std::fs::rename(&place, &aside));
                drop(std::fs::rename(&link, &place));
                drop(std::fs::remove_file(&place));
                drop(std::fs::rename(&aside, &place));
                swaps += 1;
            }
        }
        swaps
    })
}

#[tokio::test]
async fn mount_points_that_change_meanwhile_lead_no_mount_astray() {
    let world = World::new();
    let outside = canary(&world);
    let layer: LayerId = "racing".parse().unwrap();
    use tar::EntryType::Directory;
    let entries = ["proc", "dev", "workspace"].map(|name| entry(name, Directory, ""));
    let archive = archive(&outside.with_file_name("racing.tar"), &entries);
    world.driver.import(&layer, &archive).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = swapper(world.driver.layer_root(&layer), outside.clone(), stop.clone());
    let mut started = 0;
    for round in 0..25 {
        // A start that fails because a mount point is a link at that moment has done what it should.
        if let Ok(sandbox) = world.driver.create(&on(&layer)).await {
            // One whose mount points go away under it may end. It sees its own files, or nothing.
            let answer = sandbox.guest().stat("/proc/self/status").await;
            let fine = matches!(answer, Ok(_) | Err(guest::Error::Unavailable(_)));
            assert!(fine, "round {round}: {answer:?}");
            started += 1;
        }
        is_untouched(&outside, &format!("round {round}"));
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapping.join().unwrap() > 0 && started <= 25);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&outside.display().to_string()), "a mount was made on the host");
}

/// The overlay's marks say where a directory really is; what a layer says about that must not lead out of it.
#[tokio::test]
async fn marks_of_the_overlay_do_not_lead_out_of_a_layer() {
    let world = World::new();
    let outside = canary(&world);
    let layer: LayerId = "marked".parse().unwrap();
    let archive =
        archive(&outside.with_file_name("marked.tar"), &[entry("marked", tar::EntryType::Directory, "")]);
    world.driver.import(&layer, &archive).await.unwrap();
    let marked = world.driver.layer_root(&layer).join("marked");
    // What another sandbox of the same user could have left there, if the overlay let it.
    let space = if rustix::process::geteuid().is_root() { "trusted" } else { "user" };
    for target in
        [format!("/../../../../../..{}", outside.display()), "/etc".to_owned(), "../../..".to_owned()]
    {
        let name = format!("{space}.overlay.redirect");
        rustix::fs::setxattr(&marked, name, target.as_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
        match world.driver.create(&on(&layer)).await {
            Ok(sandbox) => {
                let (text, _) = sh(&*sandbox, "ls -A /marked 2>&1").await;
                assert!(!text.contains("canary") && !text.contains("passwd"), "{target}: {text}");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    is_untouched(&outside, "marks");
}
