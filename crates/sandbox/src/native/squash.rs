//! Makes one layer that shows what several show together. Files are linked, not copied.
//!
//! Whatever hides something further below goes on hiding it: the result can stand in the place of the originals on
//! anything.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, Stat, fstat, linkat, mkdirat};
use rustix::io::Errno;

use super::duplicate::{Duplicator, Metadata};
use super::trail::{Trail, is_whiteout, names, open_own, stat_at};

/// Merges the layers, topmost first, into `to`, which is empty.
pub(super) fn squash(layers: &[PathBuf], to: &Path, metadata: Metadata) -> io::Result<()> {
    let target_root = open_own(to)?;
    let trails = layers.iter().map(|layer| Ok(Trail::begin(open_own(layer)?)?)).collect::<io::Result<_>>()?;
    let target = Trail::begin(target_root.try_clone()?)?;
    Squash { metadata, trails, target, target_root }.run()
}

struct Squash {
    metadata: Metadata,
    trails: Vec<Trail>,
    target: Trail,
    target_root: OwnedFd,
}

/// A directory that is being merged.
struct Frame {
    /// Which layers have a part in it, topmost first.
    layers: Vec<usize>,
    stat: Stat,
    /// Whether what is further below is hidden.
    opaque: bool,
    left: Vec<Child>,
}

/// A directory in it that is still to be merged.
struct Child {
    name: CString,
    layers: Vec<usize>,
    opaque: bool,
}

/// What the layers have under one name so far.
enum Found {
    /// Something that hides whatever else has the name.
    Final,
    /// A directory: who has a part in it, and whether it is closed to layers further down.
    Directory(Vec<usize>, Marked),
}

/// Whether a directory still merges with what is below it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marked {
    Open,
    Closed,
}

impl Squash {
    fn run(&mut self) -> io::Result<()> {
        let all: Vec<usize> = (0..self.trails.len()).collect();
        let first = self.trails.first().ok_or(Errno::INVAL)?;
        let stat = fstat(first.here())?;
        let mut frames = vec![self.merge(all, stat, false)?];
        while let Some(frame) = frames.last_mut() {
            if let Some(child) = frame.left.pop() {
                let mut top = None;
                for layer in &child.layers {
                    let stat = self.trail(*layer)?.enter(&child.name)?;
                    top.get_or_insert(stat);
                }
                mkdirat(self.target.here(), &child.name, Mode::RWXU)?;
                self.target.enter(&child.name)?;
                let stat = top.ok_or(Errno::INVAL)?;
                frames.push(self.merge(child.layers, stat, child.opaque)?);
                continue;
            }
            let is_root = frames.len() == 1;
            let Some(frame) = frames.pop() else { break };
            if let Some(top) = frame.layers.first() {
                let from = self.trail(*top)?.here().try_clone_to_owned()?;
                self.metadata.marks.copy(&from, self.target.here())?;
            }
            if frame.opaque {
                self.metadata.marks.set_opaque(self.target.here())?;
            }
            let done = if is_root {
                self.target_root.try_clone()?
            } else {
                for layer in &frame.layers {
                    self.trail(*layer)?.leave()?;
                }
                self.target.leave()?
            };
            self.metadata.apply(&done, &(&frame.stat).into())?;
        }
        Ok(())
    }

    fn trail(&mut self, layer: usize) -> io::Result<&mut Trail> {
        self.trails.get_mut(layer).ok_or_else(|| Errno::INVAL.into())
    }

    /// Merges the files of the current directory, and finds out which directories are left.
    fn merge(&mut self, layers: Vec<usize>, stat: Stat, opaque: bool) -> io::Result<Frame> {
        let mut found: HashMap<CString, Found> = HashMap::new();
        for layer in &layers {
            let directory = self.trail(*layer)?.here().try_clone_to_owned()?;
            let is_last = layers.last() == Some(layer);
            names(directory.as_fd(), |name, kind| {
                match found.get_mut(name) {
                    Some(Found::Final) | Some(Found::Directory(_, Marked::Closed)) => {}
                    Some(Found::Directory(parts, marked)) if kind == FileType::Directory => {
                        parts.push(*layer);
                        *marked = self.marked(&directory, name)?;
                    }
                    // A directory over something else hides all that is below that.
                    Some(Found::Directory(_, marked)) => *marked = Marked::Closed,
                    None if kind == FileType::Directory => {
                        let marked = self.marked(&directory, name)?;
                        found.insert(name.to_owned(), Found::Directory(vec![*layer], marked));
                    }
                    None => {
                        self.link(&directory, name, opaque)?;
                        // The last layer's names need not be remembered: nothing of ours is below.
                        if !is_last {
                            found.insert(name.to_owned(), Found::Final);
                        }
                    }
                }
                Ok(())
            })?;
        }
        let left = found.into_iter().filter_map(|(name, found)| match found {
            Found::Directory(layers, marked) => {
                Some(Child { name, layers, opaque: marked == Marked::Closed })
            }
            Found::Final => None,
        });
        Ok(Frame { left: left.collect(), layers, stat, opaque })
    }

    fn marked(&self, parent: &OwnedFd, name: &CStr) -> io::Result<Marked> {
        let directory = Trail::begin_at(parent, name)?;
        Ok(if self.metadata.marks.is_opaque(directory.here())? { Marked::Closed } else { Marked::Open })
    }

    /// Puts anything but a directory into the result.
    fn link(&self, from: &OwnedFd, name: &CStr, opaque: bool) -> io::Result<()> {
        let to = self.target.here();
        let Some(stat) = stat_at(from.as_fd(), name)? else { return Ok(()) };
        if is_whiteout(&stat) && opaque {
            // What it hid is hidden by the directory.
            return Ok(());
        }
        match linkat(from, name, to, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            // More names than the file system gives one file, or a file system without links.
            Err(Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => {
                let mut duplicator = Duplicator::new(self.metadata, u64::MAX);
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => duplicator.regular((from.as_fd(), name), (to, name)).map(|_| ()),
                    _ => duplicator.special(from.as_fd(), to, name, &stat),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}
