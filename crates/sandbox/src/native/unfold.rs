//! Makes the tree of what was captured. Names are opened one at a time here too: what is captured is data.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, ftruncate, linkat, mkdirat};
use rustix::io::Errno;

use super::duplicate::{Duplicator, Metadata, create, write_all};
use super::marks::set;
use super::pack::{Contents, Decoder, Entry, broken, file_name};
use super::trail::{Trail, open_own};

/// Unfolds into an empty directory. Likes are the roots of the earlier copies, in the order they had. When it is told to
/// stop it ends with the error `Interrupted`.
pub(super) fn unfold(
    contents: &Contents,
    likes: Vec<OwnedFd>,
    to: &Path,
    metadata: Metadata,
    stop: &AtomicBool,
) -> io::Result<()> {
    let root = open_own(to)?;
    let mut unfold = Unfold {
        metadata,
        target: Trail::begin(root.try_clone()?)?,
        root,
        likes: likes.into_iter().map(Reach::begin).collect::<io::Result<_>>()?,
        data: &contents.data,
        depth: 0,
    };
    let mut entries = Decoder(&contents.entries);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if unfold.make(entries.entry()?)? == Step::Last {
            break;
        }
    }
    if !entries.is_empty() || !unfold.data.is_empty() {
        return Err(broken());
    }
    unfold.likes.into_iter().try_for_each(Reach::end)
}

#[derive(PartialEq, Eq)]
enum Step {
    Next,
    /// The root is finished.
    Last,
}

struct Unfold<'a> {
    metadata: Metadata,
    root: OwnedFd,
    target: Trail,
    likes: Vec<Reach>,
    /// Bytes of the files that are still to come.
    data: &'a [u8],
    depth: usize,
}

impl Unfold<'_> {
    fn make(&mut self, entry: Entry) -> io::Result<Step> {
        match entry {
            Entry::Enter { name } => {
                mkdirat(self.target.here(), &name, Mode::RWXU)?;
                self.target.enter(&name)?;
                self.depth += 1;
            }
            Entry::Leave { kept, attributes, whiteouts } => {
                for (name, value) in &attributes {
                    set(self.target.here(), name, value)?;
                }
                if whiteouts {
                    self.metadata.marks.has_whiteouts(self.target.here())?;
                }
                if self.depth == 0 {
                    self.metadata.apply(&self.root, &kept)?;
                    return Ok(Step::Last);
                }
                self.depth -= 1;
                let done = self.target.leave()?;
                self.metadata.apply(&done, &kept)?;
            }
            Entry::File { name, kept, attributes, size, parts } => {
                let pieces: Vec<(u64, &[u8])> = parts
                    .into_iter()
                    .map(|(start, length)| Ok((start, self.take(length)?)))
                    .collect::<io::Result<_>>()?;
                let file = create(self.target.here(), &name)?;
                let end = pieces.last().map(|(start, piece)| start.saturating_add(piece.len() as u64));
                for (start, piece) in pieces {
                    write_all(file.as_fd(), piece, start)?;
                }
                if end.unwrap_or_default() != size {
                    ftruncate(&file, size)?;
                }
                for (name, value) in &attributes {
                    set(&file, name, value)?;
                }
                self.metadata.apply(&file, &kept)?;
            }
            Entry::Same { name, like, path } => {
                let reach = self.likes.get_mut(usize::from(like)).ok_or_else(broken)?;
                let original = reach.to(&path)?;
                link(self.metadata, (reach.trail.here(), &original), (self.target.here(), &name))?;
            }
            Entry::Link { name, path } => {
                // From the root anew each time: directories on the way may have been finished since.
                let mut reach = Reach::begin(self.root.try_clone()?)?;
                let original = reach.to(&path)?;
                link(self.metadata, (reach.trail.here(), &original), (self.target.here(), &name))?;
                reach.end()?;
            }
            Entry::Special { name, kept, special } => {
                self.metadata.make(&special, self.target.here(), &name, &kept)?;
            }
        }
        Ok(Step::Next)
    }
}

impl<'a> Unfold<'a> {
    /// The next bytes of files.
    fn take(&mut self, length: u64) -> io::Result<&'a [u8]> {
        let length = usize::try_from(length).map_err(|_| broken())?;
        let (piece, rest) = self.data.split_at_checked(length).ok_or_else(broken)?;
        self.data = rest;
        Ok(piece)
    }
}

/// Gives a file another name, or makes a copy where it can have no more.
fn link(metadata: Metadata, from: (BorrowedFd<'_>, &CStr), to: (BorrowedFd<'_>, &CStr)) -> io::Result<()> {
    match linkat(from.0, from.1, to.0, to.1, AtFlags::empty()) {
        Err(Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => {
            match Duplicator::new(metadata, u64::MAX).regular(from, to)? {
                Some(_) => Ok(()),
                None => Err(broken()),
            }
        }
        other => Ok(other?),
    }
}

/// Goes from file to file in a tree, most of which are near each other.
struct Reach {
    trail: Trail,
    /// The names of the directories on the way to where we are.
    way: Vec<CString>,
}

impl Reach {
    fn begin(root: OwnedFd) -> io::Result<Self> {
        Ok(Self { trail: Trail::begin(root)?, way: Vec::new() })
    }

    /// Goes to the directory of a file; gives the file's name in it.
    fn to(&mut self, path: &[u8]) -> io::Result<CString> {
        let mut parts = path.split(|byte| *byte == b'/').map(file_name).collect::<io::Result<Vec<_>>>()?;
        let name = parts.pop().ok_or_else(broken)?;
        let common = self.way.iter().zip(&parts).take_while(|(one, other)| one == other).count();
        while self.way.len() > common {
            self.trail.leave()?;
            self.way.pop();
        }
        for part in parts.into_iter().skip(common) {
            self.trail.enter(&part)?;
            self.way.push(part);
        }
        Ok(name)
    }

    /// Goes back up, so that every directory is as it was.
    fn end(mut self) -> io::Result<()> {
        for _ in 0..self.way.len() {
            self.trail.leave()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;

    use launcher::spec::Disk;
    use proptest::prelude::*;

    use super::super::capture::capture;
    use super::super::copy::{Like, Order, copy};
    use super::super::duplicate::{Kept, Owners};
    use super::super::marks::Marks;
    use super::super::pack::Encoder;
    use super::*;

    const ALL: Disk = Disk { bytes: 1 << 26, inodes: 1 << 20 };
    const NAMES: [&[u8]; 6] = [b"a", b"line\nbreak", b"\xff\xfe", b" ", b"...", b".wh.x"];

    fn metadata() -> Metadata {
        match rustix::process::geteuid().is_root() {
            true => Metadata { marks: Marks::Trusted, owners: Owners::Inside },
            false => Metadata { marks: Marks::User, owners: Owners::Own },
        }
    }

    /// One step of growing a tree: what, in which directory, under which name, and a number for whatever varies.
    type Step = (u8, usize, usize, u32);

    fn grow(root: &Path, steps: &[Step]) {
        let mut directories = vec![root.to_owned()];
        let mut files: Vec<PathBuf> = Vec::new();
        for (kind, parent, name, number) in steps {
            let path = directories[parent % directories.len()].join(OsStr::from_bytes(NAMES[name % 6]));
            if path.symlink_metadata().is_ok() {
                continue;
            }
            match kind % 8 {
                0 | 1 => {
                    std::fs::create_dir(&path).unwrap();
                    directories.push(path);
                }
                2 => symlink("../../\u{e9}", &path).unwrap(),
                3 => {
                    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR, 0)
                        .unwrap();
                }
                4 if rustix::process::geteuid().is_root() => {
                    let kind = rustix::fs::FileType::CharacterDevice;
                    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, Mode::empty(), 0).unwrap();
                }
                5 if !files.is_empty() => {
                    std::fs::hard_link(&files[*number as usize % files.len()], &path).unwrap();
                }
                _ => {
                    let file = std::fs::File::create(&path).unwrap();
                    // Holes at the beginning, in the middle and at the end.
                    for piece in 0..number % 4 {
                        file.write_all_at(&vec![7; (number % 9000) as usize], u64::from(piece) * 50_000)
                            .unwrap();
                    }
                    if number % 5 == 0 {
                        file.set_len(200_000).unwrap();
                    }
                    if number % 3 == 0 {
                        set(&file, "user.note", &number.to_le_bytes()).unwrap();
                    }
                    let mode = [0o644, 0o400, 0o755, 0o4711][*number as usize % 4];
                    file.set_permissions(PermissionsExt::from_mode(mode)).unwrap();
                    files.push(path);
                }
            }
        }
        for (number, directory) in directories.iter().enumerate() {
            if number % 3 == 0 {
                metadata().marks.set_opaque(std::fs::File::open(directory).unwrap()).unwrap();
            }
            std::fs::set_permissions(directory, PermissionsExt::from_mode(0o1700 + number as u32 % 8))
                .unwrap();
        }
    }

    /// All there is to know of a tree; files that are one have the same number, and so have those of an earlier copy.
    fn describe(root: &Path, earlier: &HashSet<u64>) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        let mut left = vec![PathBuf::new()];
        while let Some(path) = left.pop() {
            let whole = root.join(&path);
            let data = whole.symlink_metadata().unwrap();
            let kind = data.file_type();
            let mut text = format!(
                "{:o} {}:{} {}.{} ",
                data.mode(),
                data.uid(),
                data.gid(),
                data.mtime(),
                data.mtime_nsec()
            );
            if kind.is_dir() {
                let mut names: Vec<_> = std::fs::read_dir(&whole).unwrap().map(Result::unwrap).collect();
                names.sort_by_key(std::fs::DirEntry::file_name);
                left.extend(names.iter().rev().map(|entry| path.join(entry.file_name())));
            } else {
                let next = numbers.len();
                let number = numbers.entry(data.ino()).or_insert(next);
                text += &format!("file {number} shared {} ", earlier.contains(&data.ino()));
            }
            if kind.is_symlink() {
                text += &format!("{:?} ", std::fs::read_link(&whole).unwrap());
            }
            if kind.is_file() {
                let bytes = std::fs::read(&whole).unwrap();
                text += &format!(
                    "{} of {} in {} ",
                    data.len(),
                    bytes.iter().map(|b| u64::from(*b)).sum::<u64>(),
                    data.blocks()
                );
            }
            if kind.is_dir() || kind.is_file() {
                let file = std::fs::File::open(&whole).unwrap();
                text += &format!("{:?}", metadata().marks.read(file).unwrap());
            }
            found.insert(path, text);
        }
        found
    }

    fn inodes(root: &Path) -> HashSet<u64> {
        let mut found = HashSet::new();
        let mut left = vec![root.to_owned()];
        while let Some(path) = left.pop() {
            let data = path.symlink_metadata().unwrap();
            if data.is_dir() {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            found.insert(data.ino());
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_unfolded_equals_a_direct_copy(
            steps in proptest::collection::vec((any::<u8>(), any::<usize>(), any::<usize>(), any::<u32>()), 0..60),
            more in proptest::collection::vec((6_u8..8, any::<usize>(), any::<usize>(), any::<u32>()), 0..10),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let [from, first, direct, unfolded] =
                ["from", "first", "direct", "unfolded"].map(|name| dir.path().join(name));
            for path in [&from, &first, &direct, &unfolded] {
                std::fs::create_dir(path).unwrap();
            }
            grow(&from, &steps);
            let none = HashSet::new();
            let order = Order {
                metadata: metadata(),
                limit: ALL,
                patience: None,
                likes: &[],
                settled: i128::MAX,
                mapped: &none,
            };
            let index = copy(&from, &first, &order).unwrap().index;
            grow(&from, &more);
            let root = open_own(&first).unwrap();
            let likes = [Like { root: Some(root.try_clone().unwrap()), index }];
            let order = Order { likes: &likes, ..order };
            let copied = copy(&from, &direct, &order).unwrap();
            let captured = capture(&from, &order, ALL).unwrap();
            prop_assert!(captured.copied.whole);
            prop_assert_eq!(copied.size, captured.copied.size);
            unfold(&captured.contents, vec![root], &unfolded, metadata(), &AtomicBool::new(false)).unwrap();
            let earlier = inodes(&first);
            prop_assert_eq!(describe(&direct, &earlier), describe(&unfolded, &earlier));
        }

        #[test]
        fn a_damaged_pack_never_leads_out_of_its_tree(
            at in any::<usize>(), byte in any::<u8>(), cut in any::<bool>(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let [outer, from] = ["outer", "from"].map(|name| dir.path().join(name));
            std::fs::create_dir_all(outer.join("to")).unwrap();
            std::fs::create_dir(&from).unwrap();
            grow(&from, &[(0, 0, 0, 0), (7, 1, 1, 9001), (5, 0, 2, 0), (2, 0, 3, 0), (0, 1, 4, 0)]);
            let none = HashSet::new();
            let order = Order {
                metadata: metadata(),
                limit: ALL,
                patience: None,
                likes: &[],
                settled: i128::MAX,
                mapped: &none,
            };
            let mut contents = capture(&from, &order, ALL).unwrap().contents;
            let at = at % contents.entries.len();
            if cut {
                contents.entries.truncate(at);
            } else {
                contents.entries[at] = byte;
            }
            // It may be another good pack, or none; it must end, and nothing may be anywhere else.
            let done = unfold(&contents, Vec::new(), &outer.join("to"), metadata(), &AtomicBool::new(false));
            prop_assert!(!cut || done.is_err());
            prop_assert_eq!(std::fs::read_dir(&outer).unwrap().count(), 1);
            prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        let kept = Kept { mode: 0o600, user: 0, group: 0, seconds: 0, nanoseconds: 0 };
        for name in [c"..", c".", c"", c"a/b", c"/x"] {
            let dir = tempfile::tempdir().unwrap();
            let to = dir.path().join("to");
            std::fs::create_dir(&to).unwrap();
            for kind in 0..4 {
                let mut contents = Contents::default();
                let mut encoder = Encoder(&mut contents.entries);
                match kind {
                    0 => encoder.enter(name),
                    1 => encoder.file(name, &kept, &[], 0, &[]),
                    2 => encoder.link(c"fine", name.to_bytes()),
                    _ => encoder.same(c"fine", 0, name.to_bytes()),
                }
                let likes = vec![open_own(dir.path()).unwrap()];
                let error = unfold(&contents, likes, &to, metadata(), &AtomicBool::new(false)).unwrap_err();
                let refused = [io::ErrorKind::InvalidData, io::ErrorKind::NotFound].contains(&error.kind());
                assert!(refused, "{name:?}: {error}");
                assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
            }
        }
    }
}
