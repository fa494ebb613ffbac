//! Where the links of a commit lead. The id of a link is that of its text, so whoever depends on what is behind it has to
//! follow it, as a program in the checkout would, but never out of the repository.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;

use crate::git::{LONG, Overflow};
use crate::{Error, Mirror};

const DIRECTORY: &[u8] = b"040000";
const LINK: &[u8] = b"120000";
const SUBMODULE: &[u8] = b"160000";

/// Links in a row that are followed, as Linux has it.
const HOPS: usize = 40;
/// Entries that are looked at for one path. Links to directories full of links multiply.
const LOOKS: usize = 500_000;
/// A longer listing is given up, and with it the question.
const LISTING: usize = 64 * 1024 * 1024;

/// What a tree says of one name in it. As text, mode and id: a file that becomes executable is another file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    mode: &'a [u8],
    object: &'a [u8],
}

impl Entry<'_> {
    pub(crate) fn is_directory(&self) -> bool {
        self.mode == DIRECTORY
    }

    pub(crate) fn is_link(&self) -> bool {
        self.mode == LINK
    }
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mode.escape_ascii(), self.object.escape_ascii())
    }
}

/// Names with their entries out of `<mode> SP <type> SP <object> TAB <path>`, each ended by a zero byte.
pub(crate) fn entries(listing: &[u8]) -> impl Iterator<Item = (&[u8], Entry<'_>)> {
    listing.split(|byte| *byte == 0).filter_map(|entry| {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let mut fields = entry[..tab].split(|byte| *byte == b' ');
        let (mode, _kind, object) = (fields.next()?, fields.next()?, fields.next()?);
        Some((&entry[tab + 1..], Entry { mode, object }))
    })
}

impl Mirror {
    /// Whether a directory has links at any depth; a directory too large to list may have some.
    pub(crate) async fn has_links(&self, commit: &str, directory: &str) -> Result<bool, Error> {
        let git = self.git("ls-tree").args(["-r", "-z", commit, "--", &format!("{directory}/")]);
        let listing = git.bound(LISTING, Overflow::Cut).limit(LONG).confined().succeed().await?;
        Ok(listing.cut || entries(&listing.stdout).any(|(_, entry)| entry.is_link()))
    }

    /// Everything of the commit that is read when a path is, with all links followed; None when that is not all in the
    /// repository, or cannot be told.
    pub(crate) async fn behind(&self, commit: &str, path: &str) -> Result<Option<String>, Error> {
        let git = self.git("ls-tree").args(["-r", "-t", "-z", commit, "--"]);
        let listing = git.bound(LISTING, Overflow::Cut).limit(LONG).confined().succeed().await?;
        let entries: BTreeMap<&[u8], Entry<'_>> = entries(&listing.stdout).collect();
        let links: BTreeSet<&[u8]> =
            entries.values().filter(|entry| entry.is_link()).map(|entry| entry.object).collect();
        if listing.cut || links.is_empty() {
            return Ok(None);
        }
        let wanted = links.into_iter().flat_map(|object| [object, b"\n"]).flatten().copied().collect();
        let git = self.git("cat-file").arg("--batch").stdin(wanted).bound(LISTING, Overflow::Cut);
        let said = git.limit(LONG).confined().succeed().await?;
        if said.cut {
            return Ok(None);
        }
        let tree = Tree { commit: commit.as_bytes(), entries, texts: texts(&said.stdout) };
        Ok(tree.behind(path.as_bytes(), LOOKS))
    }
}

/// The texts by id out of `<object> SP <type> SP <size> LF <text> LF`.
fn texts(mut batch: &[u8]) -> HashMap<&[u8], &[u8]> {
    let mut texts = HashMap::new();
    while let Some((object, text, rest)) = first_text(batch) {
        texts.insert(object, text);
        batch = rest;
    }
    texts
}

fn first_text(batch: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let line = batch.iter().position(|byte| *byte == b'\n')?;
    let mut fields = batch[..line].split(|byte| *byte == b' ');
    let (object, _kind, size) = (fields.next()?, fields.next()?, fields.next()?);
    let size = std::str::from_utf8(size).ok()?.parse().ok()?;
    let (text, rest) = batch[line + 1..].split_at_checked(size)?;
    Some((object, text, rest.get(1..)?))
}

/// All names of a commit, and the texts of its links.
struct Tree<'a> {
    commit: &'a [u8],
    entries: BTreeMap<&'a [u8], Entry<'a>>,
    texts: HashMap<&'a [u8], &'a [u8]>,
}

/// Where a path leads.
enum Place {
    There(Vec<u8>),
    /// To a name of the repository that the commit does not have. A step before may make it.
    Nowhere(Vec<u8>),
    /// Out of the repository, or further than it is followed.
    Outside,
}

impl<'a> Tree<'a> {
    fn entry(&self, path: &[u8]) -> Option<Entry<'a>> {
        // The root has no entry. All of the commit is behind it.
        let root = Entry { mode: DIRECTORY, object: self.commit };
        if path.is_empty() { Some(root) } else { self.entries.get(path).copied() }
    }

    /// All below a directory, which sorts between its name with a slash and with the byte after that.
    fn below(&self, directory: &[u8]) -> impl Iterator<Item = (&'a [u8], Entry<'a>)> {
        let (first, end) = ([directory, b"/"].concat(), [directory, b"0"].concat());
        let range = if directory.is_empty() {
            (Bound::Unbounded, Bound::Unbounded)
        } else {
            (Bound::Included(&first[..]), Bound::Excluded(&end[..]))
        };
        self.entries.range::<[u8], _>(range).map(|(name, entry)| (*name, *entry))
    }

    /// Every place that is reached from a path, with what is there, in an order of its own.
    fn behind(&self, path: &[u8], mut looks: usize) -> Option<String> {
        let Place::There(at) = self.follow(path, &mut looks) else { return None };
        let (mut reached, mut todo) = (BTreeSet::new(), vec![at]);
        while let Some(place) = todo.pop() {
            let entry = self.entry(&place)?;
            if !reached.insert(format!("{entry} {}", place.escape_ascii())) || !entry.is_directory() {
                continue;
            }
            for (name, entry) in self.below(&place) {
                looks = looks.checked_sub(1)?;
                if !entry.is_link() {
                    continue;
                }
                match self.follow(name, &mut looks) {
                    Place::There(there) => todo.push(there),
                    Place::Nowhere(missing) => {
                        reached.insert(format!("nowhere {}", missing.escape_ascii()));
                    }
                    Place::Outside => return None,
                }
            }
        }
        Some(reached.into_iter().collect::<Vec<_>>().join("\n"))
    }

    fn follow(&self, path: &[u8], looks: &mut usize) -> Place {
        let mut at: Vec<u8> = Vec::new();
        let mut todo: Vec<&[u8]> = backwards(path);
        let mut hops = 0;
        while let Some(part) = todo.pop() {
            let Some(fewer) = looks.checked_sub(1) else { return Place::Outside };
            *looks = fewer;
            let parent = at.len();
            match part {
                b"" | b"." => continue,
                b".." if at.is_empty() => return Place::Outside,
                b".." => {
                    at.truncate(at.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
                    continue;
                }
                _ if at.is_empty() => at.extend(part),
                _ => at.extend([b"/", part].concat()),
            }
            match self.entry(&at) {
                Some(entry) if entry.is_directory() => {}
                // What is below depends on this commit of another repository, and on nothing of ours.
                Some(entry) if entry.mode == SUBMODULE => return Place::There(at),
                Some(entry) if entry.is_link() => {
                    hops += 1;
                    match self.texts.get(entry.object) {
                        _ if hops > HOPS => return Place::Nowhere(at),
                        Some(text) if !text.is_empty() && !text.starts_with(b"/") => {
                            todo.extend(backwards(text));
                        }
                        _ => return Place::Outside,
                    }
                    at.truncate(parent);
                }
                Some(_) if todo.is_empty() => return Place::There(at),
                Some(_) | None => return Place::Nowhere(at),
            }
        }
        Place::There(at)
    }
}

/// The parts of a path, the first one last.
fn backwards(path: &[u8]) -> Vec<&[u8]> {
    path.rsplit(|byte| *byte == b'/').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of these names; a text makes a link of one, and none a file, or a directory where there is something below.
    fn tree<'a>(names: &[(&'a str, Option<&'a str>)]) -> Tree<'a> {
        let mut tree = Tree { commit: b"c", entries: BTreeMap::new(), texts: HashMap::new() };
        for (name, text) in names {
            let below = format!("{name}/");
            let mode = match text {
                Some(_) => LINK,
                None if names.iter().any(|(other, _)| other.starts_with(&below)) => DIRECTORY,
                None => b"100644",
            };
            tree.entries.insert(name.as_bytes(), Entry { mode, object: name.as_bytes() });
            tree.texts.extend(text.map(|text| (name.as_bytes(), text.as_bytes())));
        }
        tree
    }

    #[test]
    fn links_are_followed_as_in_a_checkout() {
        let tree = tree(&[
            ("lock", Some("./x/../d/far")),
            ("x", None),
            ("x/y", None),
            ("d", None),
            ("d/far", Some("../real")),
            ("real", None),
            ("s", Some("d")),
            ("up", Some("../real")),
            ("root", Some("/real")),
            ("loop", Some("loop")),
            ("below", Some("real/x")),
            ("dead", Some("gone")),
        ]);
        let behind = |path: &str| tree.behind(path.as_bytes(), LOOKS);
        assert_eq!(behind("lock").unwrap(), "100644 real real");
        assert_eq!(behind("s/far").unwrap(), "100644 real real", "a link on the way is followed too");
        assert_eq!(behind("s").unwrap(), "040000 d d\n100644 real real");
        for path in ["up", "root", "loop", "below", "dead", "gone"] {
            assert_eq!(behind(path), None, "{path}");
        }
        assert_eq!(tree.behind(b"lock", 3), None, "there is an end to it");
    }

    #[test]
    fn links_in_directories_count() {
        let names = [("d", None), ("d/self", Some(".")), ("d/dead", Some("../made")), ("e", None)];
        assert_eq!(tree(&names).behind(b"d", LOOKS).unwrap(), "040000 d d\nnowhere made");
        let there = [&names[..], &[("made", None)]].concat();
        assert_eq!(tree(&there).behind(b"d", LOOKS).unwrap(), "040000 d d\n100644 made made");
        let all = [&names[..], &[("f", None), ("f/all", Some(".."))]].concat();
        assert!(tree(&all).behind(b"f", LOOKS).unwrap().contains("040000 c \n"), "the root is the commit");
        let out = [&names[..], &[("d/out", Some("../../x"))]].concat();
        assert_eq!(tree(&out).behind(b"d", LOOKS), None);
    }

    #[test]
    fn texts_are_told_apart_by_their_size() {
        let texts = texts(b"aa blob 3\nx\ny\nbb blob 0\n\ncc missing\n");
        assert_eq!(texts.len(), 2);
        assert_eq!((texts[&b"aa"[..]], texts[&b"bb"[..]]), (&b"x\ny"[..], &b""[..]));
    }
}
