//! Unpacking: what honest archives mean, and what hostile ones cannot do.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sandbox::base::unpack::{Bounds, Marks, Unpacked, unpack};
use sandbox::{Archive, Error};
use tar::EntryType;

use super::archives::{Tar, gzip, header, zstd};
use super::driver::marks;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("outside/kept"), "kept").unwrap();
        std::fs::create_dir(dir.path().join("into")).unwrap();
        Self { dir }
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join("into")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.target().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    fn unpack_with(&self, bytes: &[u8], whiteouts: bool, bounds: Bounds) -> Result<Unpacked, Error> {
        let path = self.dir.path().join("archive");
        std::fs::write(&path, bytes).unwrap();
        let archive = Archive { path: path.clone(), whiteouts, below: Vec::new() };
        let result = unpack(&archive, &self.target(), &[], marks(), bounds);
        std::fs::remove_file(path).unwrap();
        result
    }

    fn unpack(&self, archive: Tar) -> Result<Unpacked, Error> {
        self.unpack_with(&archive.finish(), false, Bounds::default())
    }

    /// Everything that is not in the directory that is unpacked to.
    fn outside(&self) -> BTreeMap<PathBuf, (u32, u64, i64, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.dir.path().to_owned()];
        while let Some(path) = todo.pop() {
            let stat = path.symlink_metadata().unwrap();
            if path == self.target() {
                continue;
            }
            let mut content = Vec::new();
            if stat.is_dir() {
                todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if stat.is_file() {
                content = std::fs::read(&path).unwrap();
            }
            // The top changes its time because the archive comes and goes there.
            let changed =
                if path == self.dir.path() { 0 } else { stat.ctime() * 1_000_000_000 + stat.ctime_nsec() };
            found.insert(path, (stat.mode(), stat.nlink(), changed, content));
        }
        found
    }
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 256];
    let got = rustix::fs::lgetxattr(path, name, &mut value).ok()?;
    Some(value[..got].to_vec())
}

fn opaque(path: &Path) -> bool {
    let name = match marks() {
        Marks::Trusted => "trusted.overlay.opaque",
        Marks::User => "user.overlay.opaque",
    };
    xattr(path, name).as_deref() == Some(b"y")
}

fn is_whiteout(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|stat| stat.file_type().is_char_device() && stat.rdev() == 0)
}

#[test]
fn every_kind_of_entry_is_there_afterwards() {
    let place = Place::new();
    let mut suid = header(EntryType::Regular, b"bin/su", b"", 2);
    suid.set_mode(0o4751);
    suid.set_uid(7);
    suid.set_gid(70000);
    suid.set_cksum();
    let mut closed = header(EntryType::Directory, b"closed/", b"", 0);
    closed.set_mode(0o050);
    closed.set_mtime(77);
    closed.set_cksum();
    let long = format!("{}/file", ["directory-with-a-long-name"; 12].join("/"));
    let archive = Tar::new()
        .dir("./")
        .dir("bin/")
        .raw(&suid, b"su")
        .raw(&closed, b"")
        .file("closed/inner", "inner")
        .file(&long, "long")
        .link(&format!("{long}.again"), &long)
        .symlink("sh", "/bin/dash")
        .link("sh2", "sh")
        .entry(EntryType::Fifo, b"pipe", b"", b"")
        .pax(&[("path", "näme\nwith break".as_bytes()), ("mtime", b"12.5"), ("comment", b"a\nb=c")])
        .file("short", "pax")
        .entry(EntryType::Char, b"dev/null", b"", b"")
        .file("implied/deep/er", "x")
        .file("tmp/x", "x");
    let done = place.unpack(archive).unwrap();
    assert_eq!(done.notes.len(), if marks() == Marks::Trusted { 2 } else { 1 }, "{:?}", done.notes);
    assert!(done.notes.iter().any(|note| note.contains("dev/null")));
    let stat = place.at("bin/su").metadata().unwrap();
    assert_eq!(stat.mode() & 0o7777, 0o4751);
    assert_eq!(stat.mtime(), 1_000_000);
    let closed = place.at("closed").metadata().unwrap();
    assert_eq!(closed.mtime(), 77, "the time of a directory survives what is put into it");
    match marks() {
        Marks::Trusted => {
            assert_eq!((stat.uid(), stat.gid()), (7, 65534));
            assert_eq!(closed.mode() & 0o7777, 0o050);
        }
        Marks::User => {
            assert_eq!(stat.uid(), rustix::process::geteuid().as_raw());
            assert_eq!(closed.mode() & 0o7777, 0o750);
        }
    }
    assert_eq!(place.read(&long), "long");
    assert_eq!(place.at(&long).metadata().unwrap().nlink(), 2);
    assert_eq!(std::fs::read_link(place.at("sh")).unwrap(), Path::new("/bin/dash"));
    assert_eq!(std::fs::read_link(place.at("sh2")).unwrap(), Path::new("/bin/dash"));
    assert!(place.at("pipe").symlink_metadata().unwrap().file_type().is_fifo());
    assert_eq!(place.read("näme\nwith break"), "pax");
    assert_eq!(place.at("näme\nwith break").metadata().unwrap().mtime_nsec(), 500_000_000);
    assert!(!place.at("dev/null").exists());
    assert_eq!(place.at("implied/deep").metadata().unwrap().mode() & 0o7777, 0o755);
    assert_eq!(place.at("tmp").metadata().unwrap().mode() & 0o7777, 0o1777);
}

#[test]
fn every_packing_unpacks() {
    let plain = Tar::new().file("a", &"text ".repeat(5000)).finish();
    for packed in
        [plain.clone(), gzip(&plain), zstd(&plain), [gzip(&plain[..700]), gzip(&plain[700..])].concat()]
    {
        let place = Place::new();
        place.unpack_with(&packed, false, Bounds::default()).unwrap();
        assert_eq!(place.read("a").len(), 25_000);
    }
}

#[test]
fn holes_stay_holes() {
    let place = Place::new();
    let mut old = header(EntryType::GNUSparse, b"old", b"", 512);
    {
        let gnu = old.as_gnu_mut().unwrap();
        gnu.sparse[0].offset[..11].copy_from_slice(b"00004000000");
        gnu.sparse[0].numbytes[..11].copy_from_slice(b"00000001000");
        gnu.sparse[1].offset[..11].copy_from_slice(b"00010000000");
        gnu.sparse[1].numbytes[..11].copy_from_slice(b"00000000000");
        gnu.realsize[..11].copy_from_slice(b"00010000000");
    }
    old.set_cksum();
    let mut map = b"2\n1048576\n3\n2097152\n0\n".to_vec();
    map.resize(512, 0);
    map.extend_from_slice(b"new");
    let archive = Tar::new()
        .raw(&old, &[b'o'; 512])
        .pax(&[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"new"),
            ("GNU.sparse.realsize", b"2097152"),
        ])
        .entry(EntryType::Regular, b"GNUSparseFile.0/new", b"", &map)
        .pax(&[("GNU.sparse.map", b"10,1"), ("GNU.sparse.size", b"20"), ("GNU.sparse.numblocks", b"1")])
        .file("middle", "m")
        .file("after", "after");
    place.unpack(archive).unwrap();
    let old = std::fs::read(place.at("old")).unwrap();
    assert_eq!(old.len(), 2 << 20);
    assert!(old[1 << 20..(1 << 20) + 512].iter().all(|byte| *byte == b'o'));
    assert_eq!(old.iter().filter(|byte| **byte != 0).count(), 512);
    let new = std::fs::read(place.at("new")).unwrap();
    assert_eq!((new.len(), &new[1 << 20..(1 << 20) + 4]), (2 << 20, &b"new\0"[..]));
    assert_eq!(std::fs::read(place.at("middle")).unwrap(), b"\0\0\0\0\0\0\0\0\0\0m\0\0\0\0\0\0\0\0\0");
    assert_eq!(place.read("after"), "after");
    let lie = Tar::new()
        .pax(&[("GNU.sparse.map", b"10,1"), ("GNU.sparse.size", b"5"), ("GNU.sparse.numblocks", b"1")])
        .file("lie", "m");
    assert!(Place::new().unpack(lie).is_err());
}

#[test]
fn later_entries_replace_earlier_ones() {
    let place = Place::new();
    let archive = Tar::new()
        .file("a", "first")
        .file("a", "second")
        .file("b/c/d", "tree")
        .file("b", "file")
        .file("e", "file")
        .file("e/f", "in a directory now")
        .symlink("g", "nowhere")
        .dir("g")
        .file("h", "h")
        .link("h", "h")
        .dir("keep")
        .file("keep/x", "x")
        .dir("keep");
    place.unpack(archive).unwrap();
    assert_eq!(place.read("a"), "second");
    assert_eq!(place.read("b"), "file");
    assert_eq!(place.read("e/f"), "in a directory now");
    assert!(place.at("g").symlink_metadata().unwrap().is_dir());
    assert_eq!(place.read("h"), "h");
    assert_eq!(place.read("keep/x"), "x");
}

#[test]
fn removals_become_marks_of_the_overlay() {
    let archive = || {
        Tar::new()
            .dir("etc/")
            .file("etc/.wh.gone", "")
            .file("opaque/.wh..wh..opq", "")
            .file("opaque/own", "own")
            .file(".wh.again", "")
            .file("again/x", "x")
            .file("both/x", "x")
            .file(".wh.both", "")
            .file("file", "own")
            .file(".wh.file", "")
            .file(".wh..wh.plnk", "")
            .finish()
    };
    let place = Place::new();
    place.unpack_with(&archive(), true, Bounds::default()).unwrap();
    assert!(is_whiteout(&place.at("etc/gone")));
    assert!(!place.at("etc/.wh.gone").exists());
    assert!(!opaque(&place.at("etc")));
    assert!(opaque(&place.at("opaque")));
    assert_eq!(place.read("opaque/own"), "own");
    assert!(opaque(&place.at("again")), "a directory in the place of a removal hides what was removed");
    assert!(opaque(&place.at("both")));
    assert_eq!(place.read("both/x"), "x");
    assert_eq!(place.read("file"), "own");
    let place = Place::new();
    place.unpack_with(&archive(), false, Bounds::default()).unwrap();
    assert_eq!(place.read("etc/.wh.gone"), "");
    assert!(!place.at("etc/gone").exists());
    for odd in [".wh.", ".wh..", ".wh..."] {
        let place = Place::new();
        let archive = Tar::new().file(odd, "").finish();
        assert!(place.unpack_with(&archive, true, Bounds::default()).is_err(), "{odd}");
    }
}

#[test]
fn attributes_cannot_talk_to_the_overlay() {
    let place = Place::new();
    let fields: [(&str, &[u8]); 5] = [
        ("SCHILY.xattr.user.colour", b"red\n"),
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
        ("SCHILY.xattr.security.capability", b"\x01\x00\x00\x02\x0a"),
    ];
    let done = place.unpack(Tar::new().pax(&fields).file("f", "").pax(&fields).dir("d")).unwrap();
    for name in ["f", "d"] {
        let at = place.at(name);
        if done.notes.is_empty() {
            assert_eq!(xattr(&at, "user.colour").as_deref(), Some(&b"red\n"[..]));
        }
        for bad in
            ["user.overlay.opaque", "user.overlay.redirect", "trusted.overlay.opaque", "security.capability"]
        {
            assert_eq!(xattr(&at, bad), None, "{bad} of {name}");
        }
    }
}

#[test]
fn nothing_reaches_outside() {
    let outside = |place: &Place| place.dir.path().join("outside").to_str().unwrap().to_owned();
    type Make = fn(&str) -> Tar;
    let hostile: &[(&str, Make)] = &[
        ("goes up", |_| Tar::new().file("../outside/new", "x")),
        ("goes up later", |_| Tar::new().file("a/../../outside/new", "x")),
        ("links outside", |out| Tar::new().link("mine", &format!("{out}/kept"))),
        ("links up", |_| Tar::new().link("mine", "../outside/kept")),
        ("links through a link", |out| Tar::new().symlink("way", out).link("mine", "way/kept")),
        ("the root is a link", |out| Tar::new().symlink(".", out)),
        ("the root is a file", |_| Tar::new().file("./", "x").entry(EntryType::Fifo, b"/", b"", b"")),
        ("a zero byte", |_| Tar::new().pax(&[("path", b"a\0b")]).file("x", "x")),
    ];
    for (what, make) in hostile {
        let place = Place::new();
        let before = place.outside();
        let result = place.unpack(make(&outside(&place)));
        assert!(result.is_err(), "{what}: {result:?}");
        assert_eq!(place.outside(), before, "{what}");
    }
    // These mean something harmless, inside.
    let place = Place::new();
    let before = place.outside();
    let out = outside(&place);
    let archive = Tar::new()
        .file(&format!("{out}/kept"), "inside")
        .symlink("link", &format!("{out}/kept"))
        .file("link", "a file in place of the link")
        .symlink("dir", &out)
        .file("dir/new", "in the directory of that name inside")
        .symlink("way", "../outside")
        .file("way/new", "in a directory that was not there")
        .symlink("up", "../../../../../../../..")
        .file("up/top", "top")
        .symlink("self", "/proc/self/root")
        .dir("self");
    place.unpack(archive).unwrap();
    assert_eq!(place.outside(), before);
    assert_eq!(place.read("link"), "a file in place of the link");
    assert_eq!(
        place.read(&format!("{}/new", out.trim_start_matches('/'))),
        "in the directory of that name inside"
    );
    assert_eq!(place.read("outside/new"), "in a directory that was not there");
    assert_eq!(place.read("top"), "top");
}

#[test]
fn bombs_are_bounded() {
    let small = Bounds { bytes: 1 << 20, entries: 50 };
    let zeros = gzip(&Tar::new().file("z", &"\0".repeat(8 << 20)).finish());
    let mut many = Tar::new();
    for n in 0..60 {
        many = many.file(&format!("f{n}"), "");
    }
    let deep = Tar::new().file(&"d/".repeat(60), "").finish();
    let mut hole = header(EntryType::GNUSparse, b"hole", b"", 0);
    hole.as_gnu_mut().unwrap().realsize[..11].copy_from_slice(b"77777777777");
    hole.set_cksum();
    let huge_header = header(EntryType::XHeader, b"x", b"", 5 << 20);
    let huge = Tar::new().raw(&huge_header, &vec![b' '; 5 << 20]).file("x", "").finish();
    let mut endless = header(EntryType::Regular, b"e", b"", 0);
    endless.as_old_mut().size[..11].copy_from_slice(b"77777777777");
    endless.set_cksum();
    let long = Tar::new().file(&"n/".repeat(9000), "").finish();
    for (what, bytes) in [
        ("zeros", zeros),
        ("many", many.finish()),
        ("deep", deep),
        ("hole", Tar::new().raw(&hole, b"").finish()),
        ("endless", Tar::new().raw(&endless, b"").finish()),
        ("huge header", gzip(&huge)),
        ("long name", long),
        ("noise", (0..4096u32).map(|n| (n * 7 + 3) as u8).collect()),
    ] {
        let place = Place::new();
        let error = place.unpack_with(&bytes, false, small).expect_err(what).to_string();
        assert!(error.contains("cannot be unpacked"), "{what}: {error}");
    }
    let place = Place::new();
    place.unpack(Tar::new().file(&format!("{}end", "deep/".repeat(900)), "x")).unwrap();
    launcher::tree::remove(&place.target()).unwrap();
}

#[test]
fn odd_names_are_only_names() {
    let place = Place::new();
    let names: [&[u8]; 5] = [b"a\nb", b"\x1b[2J", b"\xff\xfe", b" ", b"-rf"];
    let mut archive = Tar::new();
    for name in names {
        archive = archive.entry(EntryType::Regular, name, b"", b"x");
    }
    place.unpack(archive).unwrap();
    let mut there: Vec<Vec<u8>> = std::fs::read_dir(place.target())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect();
    there.sort();
    let mut names: Vec<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
    names.sort();
    assert_eq!(there, names);
    let error = Place::new().unpack(Tar::new().file("../\x1b[2J", "x")).unwrap_err().to_string();
    assert!(!error.contains('\x1b'), "{error:?}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]
    #[test]
    fn whatever_the_archive_nothing_outside_changes(
        entries in proptest::collection::vec((0u8..7, 0usize..14, 0usize..14, proptest::bool::ANY), 1..25),
        whiteouts in proptest::bool::ANY,
    ) {
        let place = Place::new();
        let out = place.dir.path().join("outside").to_str().unwrap().to_owned();
        let names = [
            "a".to_owned(), "b".to_owned(), "a/b".to_owned(), "a/b/c".to_owned(), "b/c".to_owned(), "./a".to_owned(),
            out.clone(), format!("{out}/kept"), "../outside".to_owned(), "../outside/kept".to_owned(),
            "a/kept".to_owned(), "b/kept".to_owned(), "a/.wh.b".to_owned(), "b/.wh..wh..opq".to_owned(),
        ];
        let before = place.outside();
        for chunk in entries.chunks(5) {
            let mut archive = Tar::new();
            for (kind, name, link, slash) in chunk {
                let kind = [
                    EntryType::Regular, EntryType::Directory, EntryType::Symlink, EntryType::Link, EntryType::Fifo,
                    EntryType::Char, EntryType::Symlink,
                ][usize::from(*kind)];
                let name = format!("{}{}", names[*name], if *slash { "/" } else { "" });
                archive = archive.entry(kind, name.as_bytes(), names[*link].as_bytes(), b"");
            }
            // Whether it is taken or refused is not the question here.
            drop(place.unpack_with(&archive.finish(), whiteouts, Bounds::default()));
        }
        proptest::prop_assert_eq!(place.outside(), before);
    }
}
