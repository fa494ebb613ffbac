//! Layers over layers: a name means what it means in the tree that all of them show together, and never more.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sandbox::base::unpack::{Bounds, Marks, Unpacked, unpack};
use sandbox::{Archive, Error};
use tar::EntryType;

use super::archives::{Tar, header};
use super::driver::marks;

/// Layers that were unpacked over each other, and something beside them that nobody may touch.
struct Pile {
    dir: tempfile::TempDir,
    layers: usize,
}

impl Pile {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("outside/kept"), "kept").unwrap();
        Self { dir, layers: 0 }
    }

    /// Of these, lowest first.
    fn of(layers: Vec<Tar>) -> Self {
        let mut pile = Self::new();
        for layer in layers {
            pile.add(layer).unwrap();
        }
        pile
    }

    fn root(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("layer{number}"))
    }

    /// Unpacks one more layer over the others.
    fn add(&mut self, layer: Tar) -> Result<Unpacked, Error> {
        let below: Vec<PathBuf> = (0..self.layers).rev().map(|number| self.root(number)).collect();
        let path = self.dir.path().join("archive");
        std::fs::write(&path, layer.finish()).unwrap();
        let archive = Archive { path: path.clone(), whiteouts: true, below: Vec::new() };
        let done = unpack(&archive, &self.root(self.layers), &below, marks(), Bounds::default());
        std::fs::remove_file(path).unwrap();
        self.layers += 1;
        done
    }

    /// In the topmost layer.
    fn at(&self, name: &str) -> PathBuf {
        self.root(self.layers - 1).join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    fn is_absent(&self, name: &str) -> bool {
        self.at(name).symlink_metadata().is_err()
    }

    /// Everything but the topmost layer.
    fn others(&self) -> BTreeMap<PathBuf, (u32, u64, i64, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.dir.path().join("outside")];
        todo.extend((0..self.layers.saturating_sub(1)).map(|number| self.root(number)));
        while let Some(path) = todo.pop() {
            let stat = path.symlink_metadata().unwrap();
            let mut content = Vec::new();
            if stat.is_dir() {
                todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if stat.is_file() {
                content = std::fs::read(&path).unwrap();
            }
            let links = if stat.is_dir() { stat.nlink() } else { 0 };
            found.insert(path, (stat.mode(), links, stat.mtime(), content));
        }
        found
    }
}

fn is_removal(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|stat| stat.file_type().is_char_device() && stat.rdev() == 0)
}

/// A system whose `/bin` and `/lib` are links, as most are.
fn merged_usr() -> Tar {
    Tar::new()
        .dir("usr/")
        .dir("usr/bin/")
        .file("usr/bin/sh", "sh")
        .file("usr/lib/libc.so", "libc")
        .symlink("bin", "usr/bin")
        .symlink("lib", "/usr/lib")
}

#[test]
fn what_is_put_below_a_link_goes_where_it_leads() {
    let mut pile = Pile::of(vec![merged_usr()]);
    pile.add(
        Tar::new().file("bin/newtool", "new").file("lib/x.so", "x").dir("lib/deep/").file("lib/deep/y", "y"),
    )
    .unwrap();
    assert!(pile.is_absent("bin") && pile.is_absent("lib"), "the links below are still seen");
    assert_eq!(pile.read("usr/bin/newtool"), "new");
    assert_eq!(pile.read("usr/lib/x.so"), "x");
    assert_eq!(pile.read("usr/lib/deep/y"), "y");
    assert_eq!(pile.at("usr/lib/deep").metadata().unwrap().mtime(), 1_000_000, "also its time is kept");
    // Two layers up, through a layer that says nothing of it.
    pile.add(Tar::new().file("bin/newest", "newest")).unwrap();
    assert_eq!(pile.read("usr/bin/newest"), "newest");
}

#[test]
fn removals_below_a_link_are_where_it_leads() {
    let mut pile = Pile::of(vec![merged_usr()]);
    pile.add(Tar::new().file("bin/.wh.sh", "")).unwrap();
    assert!(is_removal(&pile.at("usr/bin/sh")) && pile.is_absent("bin"));
}

#[test]
fn a_directory_with_an_entry_of_its_own_takes_the_place_of_the_link() {
    let mut pile = Pile::of(vec![merged_usr()]);
    pile.add(Tar::new().dir("bin/").file("bin/newtool", "new")).unwrap();
    assert!(pile.at("bin").symlink_metadata().unwrap().is_dir());
    assert_eq!(pile.read("bin/newtool"), "new");
    assert!(pile.is_absent("usr"));
}

#[test]
fn a_link_that_was_removed_or_hidden_leads_nowhere() {
    for hide in [Tar::new().file(".wh.bin", ""), Tar::new().file("bin", "a file now")] {
        let mut pile = Pile::of(vec![merged_usr(), hide]);
        pile.add(Tar::new().file("bin/x", "x")).unwrap();
        assert_eq!(pile.read("bin/x"), "x");
        assert!(pile.is_absent("usr"));
    }
    // In the same layer, before what comes below it.
    let mut pile = Pile::of(vec![merged_usr()]);
    pile.add(Tar::new().file(".wh.bin", "").file("bin/x", "x")).unwrap();
    assert_eq!(pile.read("bin/x"), "x");
    // A directory that hides everything below it hides the links in it as well.
    let mut pile = Pile::of(vec![Tar::new().symlink("opt/way", "/usr").dir("usr/")]);
    pile.add(Tar::new().file("opt/.wh..wh..opq", "")).unwrap();
    pile.add(Tar::new().file("opt/way/x", "x")).unwrap();
    assert_eq!(pile.read("opt/way/x"), "x");
}

#[test]
fn links_of_several_layers_lead_through_each_other() {
    let mut pile = Pile::of(vec![
        Tar::new().dir("real/").symlink("one", "two/../three"),
        Tar::new().symlink("three", "/four").dir("two/"),
        Tar::new().symlink("four", "real"),
    ]);
    pile.add(Tar::new().file("one/sub/x", "x").symlink("own", "one/sub").file("own/y", "y")).unwrap();
    assert_eq!(pile.read("real/sub/x"), "x");
    assert_eq!(pile.read("real/sub/y"), "y");
    for link in ["one", "three", "four"] {
        assert!(pile.is_absent(link), "{link}");
    }
    // One that leads to something that is not there yet leads there once it is made.
    let mut pile = Pile::of(vec![Tar::new().symlink("var/run", "../run")]);
    pile.add(Tar::new().file("var/run/pid", "1")).unwrap();
    assert_eq!(pile.read("run/pid"), "1");
}

#[test]
fn a_directory_that_nobody_described_looks_like_the_one_below() {
    let mut home = header(EntryType::Directory, b"home/ann/", b"", 0);
    home.set_mode(0o700);
    home.set_uid(1000);
    home.set_gid(1001);
    home.set_cksum();
    let mut pile = Pile::of(vec![Tar::new().raw(&home, b""), Tar::new().file("other", "x")]);
    pile.add(Tar::new().file("home/ann/x", "x").file("home/bob/x", "x")).unwrap();
    let stat = pile.at("home/ann").metadata().unwrap();
    assert_eq!(stat.mode() & 0o7777, 0o700);
    if marks() == Marks::Trusted {
        assert_eq!((stat.uid(), stat.gid()), (1000, 1001));
    }
    assert_eq!(pile.at("home/bob").metadata().unwrap().mode() & 0o7777, 0o755);
    // Unless that one was removed.
    pile.add(Tar::new().file("home/.wh.ann", "")).unwrap();
    pile.add(Tar::new().file("home/ann/y", "y")).unwrap();
    assert_eq!(pile.at("home/ann").metadata().unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn a_hard_link_may_be_to_a_file_of_an_earlier_layer() {
    let mut pile = Pile::of(vec![merged_usr().file("etc/marker", "marker").dir("etc/dir")]);
    pile.add(Tar::new().link("opt/h", "etc/marker").link("opt/sh", "/bin/sh")).unwrap();
    assert_eq!((pile.read("opt/h"), pile.read("opt/sh")), ("marker".to_owned(), "sh".to_owned()));
    let inode = |path: PathBuf| path.metadata().unwrap().ino();
    assert_eq!(inode(pile.at("opt/h")), inode(pile.root(0).join("etc/marker")));
    assert!(pile.is_absent("etc"), "only the new name is new");
    // What replaces the new name does not reach the file below.
    pile.add(Tar::new().link("opt/h", "etc/marker").file("opt/h", "changed")).unwrap();
    assert_eq!(std::fs::read_to_string(pile.root(0).join("etc/marker")).unwrap(), "marker");
    for (what, layer) in [
        ("gone", Tar::new().file("etc/.wh.marker", "").link("h", "etc/marker")),
        ("a directory", Tar::new().link("h", "etc/dir")),
        ("never there", Tar::new().link("h", "etc/nothing")),
        ("no directory", Tar::new().link("h", "etc/marker/x")),
    ] {
        let error = pile.add(layer).expect_err(what).to_string();
        assert!(error.contains("it links to"), "{what}: {error}");
        pile.layers -= 1;
        launcher::tree::remove(&pile.root(pile.layers)).unwrap();
    }
}

#[test]
fn links_below_lead_nobody_outside() {
    let mut pile = Pile::new();
    let out = pile.dir.path().join("outside").to_str().unwrap().to_owned();
    let up = "../".repeat(40);
    pile.add(
        Tar::new()
            .symlink("absolute", &out)
            .symlink("relative", "../outside")
            .symlink("far", &format!("{up}{}", out.trim_start_matches('/')))
            .symlink("chain", "absolute/../outside")
            .symlink("proc", "/proc/self/root")
            .symlink("self", "self")
            .symlink("ping", "pong")
            .symlink("pong", "ping/x")
            .symlink("file", "plain")
            .file("plain", "plain"),
    )
    .unwrap();
    pile.add(Tar::new().symlink("second", "relative").symlink("third", "../../third/..")).unwrap();
    for way in
        ["absolute", "relative", "far", "chain", "proc", "second", "self", "ping", "pong", "file", "third"]
    {
        let tries = [
            Tar::new().file(&format!("{way}/new"), "x"),
            Tar::new().file(&format!("{way}/.wh.kept"), ""),
            Tar::new().file(&format!("{way}/kept"), "changed"),
            Tar::new().link("mine", &format!("{way}/kept")),
            Tar::new().symlink("own", way).file("own/kept", "changed"),
        ];
        for layer in tries {
            // Whether it is taken or refused is not the question here.
            drop(pile.add(layer));
            let seen = pile.others();
            assert_eq!(std::fs::read(pile.dir.path().join("outside/kept")).unwrap(), b"kept", "{way}");
            assert_eq!(seen.keys().filter(|path| path.starts_with(&out)).count(), 2, "{way}: {seen:?}");
            pile.layers -= 1;
            launcher::tree::remove(&pile.root(pile.layers)).unwrap();
        }
    }
    for endless in ["self/x", "ping/x"] {
        let error = pile.add(Tar::new().file(endless, "x")).unwrap_err().to_string();
        assert!(error.contains("links without end"), "{error}");
        pile.layers -= 1;
    }
    let error = pile.add(Tar::new().file("file/x", "x")).unwrap_err().to_string();
    assert!(error.contains("leads to no directory"), "{error}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]
    #[test]
    fn whatever_the_layers_nothing_but_the_new_one_changes(
        entries in proptest::collection::vec((0u8..6, 0usize..12, 0usize..12), 4..30),
    ) {
        let mut pile = Pile::new();
        let out = pile.dir.path().join("outside").to_str().unwrap().to_owned();
        let names = [
            "a".to_owned(), "b".to_owned(), "a/b".to_owned(), "a/b/c".to_owned(), "b/c".to_owned(), "a/..".to_owned(),
            out.clone(), "../outside".to_owned(), "a/kept".to_owned(), "b/kept".to_owned(), "a/.wh.b".to_owned(),
            "b/.wh..wh..opq".to_owned(),
        ];
        for chunk in entries.chunks(4) {
            let mut layer = Tar::new();
            for (kind, name, link) in chunk {
                let kind = [
                    EntryType::Regular, EntryType::Directory, EntryType::Symlink, EntryType::Link, EntryType::Symlink,
                    EntryType::Regular,
                ][usize::from(*kind)];
                layer = layer.entry(kind, names[*name].as_bytes(), names[*link].as_bytes(), b"");
            }
            pile.layers += 1;
            let before = pile.others();
            pile.layers -= 1;
            // A layer that is refused is none, and what it left is no part of what comes next.
            if pile.add(layer).is_err() {
                pile.layers -= 1;
                launcher::tree::remove(&pile.root(pile.layers)).unwrap();
                pile.layers += 1;
                std::fs::create_dir(pile.root(pile.layers - 1)).unwrap();
            }
            proptest::prop_assert_eq!(pile.others(), before);
        }
    }
}
