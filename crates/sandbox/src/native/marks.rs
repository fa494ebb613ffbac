//! The marks that overlayfs leaves on files, and which attributes a layer keeps.

use std::ffi::CStr;
use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;

/// An attribute that is longer is not copied; file systems allow no more.
const VALUE: usize = 64 * 1024;

/// Where overlayfs keeps its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marks {
    /// As root.
    Trusted,
    /// As an ordinary user.
    User,
}

impl Marks {
    fn prefix(self) -> &'static str {
        match self {
            Self::Trusted => "trusted.overlay.",
            Self::User => "user.overlay.",
        }
    }

    /// The attribute of a directory that hides everything below it.
    fn opaque(self) -> &'static CStr {
        match self {
            Self::Trusted => c"trusted.overlay.opaque",
            Self::User => c"user.overlay.opaque",
        }
    }

    /// Whether a directory hides what layers below have in its place.
    pub(super) fn is_opaque(self, directory: impl AsFd) -> std::io::Result<bool> {
        let mut value = [0; 8];
        match fgetxattr(directory, self.opaque(), &mut value) {
            Ok(length) => Ok(value.get(..length) == Some(b"y")),
            // Longer than any mark.
            Err(Errno::NODATA | Errno::RANGE | Errno::NOTSUP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a directory hide what layers below have in its place.
    pub(super) fn set_opaque(self, directory: impl AsFd) -> std::io::Result<()> {
        Ok(fsetxattr(directory, self.opaque(), b"y", XattrFlags::empty())?)
    }

    /// Lets overlayfs look for removals in a directory. Without it, it does so only where a layer below has the directory
    /// too, and shows the names of what was removed where none has.
    pub(super) fn has_whiteouts(self, directory: impl AsFd) -> std::io::Result<()> {
        let origin = match self {
            Self::Trusted => c"trusted.overlay.origin",
            Self::User => c"user.overlay.origin",
        };
        match fsetxattr(directory, origin, b"", XattrFlags::CREATE) {
            Err(Errno::EXIST) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Whether a layer keeps an attribute. Of overlayfs's own it keeps what hides things; the others tell where a file
    /// came from, which is no longer true of a copy.
    fn keeps(self, name: &str) -> bool {
        match name.strip_prefix(self.prefix()) {
            // In a sandbox that makes overlays itself, the kernel puts its marks below another `overlay.`.
            Some(own) => own == "opaque" || own.starts_with("overlay."),
            None => {
                name.starts_with("user.")
                    || matches!(name, "system.posix_acl_access" | "system.posix_acl_default")
            }
        }
    }

    /// Copies the attributes that a layer keeps.
    pub(super) fn copy(self, from: impl AsFd, to: impl AsFd) -> std::io::Result<()> {
        for (name, value) in self.read(from)? {
            set(&to, &name, &value)?;
        }
        Ok(())
    }

    /// The attributes that a layer keeps.
    pub(super) fn read(self, from: impl AsFd) -> std::io::Result<Vec<(String, Vec<u8>)>> {
        let mut small = [0; 512];
        let mut large = Vec::new();
        let names = match flistxattr(&from, &mut small) {
            Ok(0) => return Ok(Vec::new()),
            Ok(length) => small.get(..length).unwrap_or_default(),
            Err(Errno::RANGE) => {
                large.resize(VALUE, 0);
                let length = flistxattr(&from, &mut large[..])?;
                large.get(..length).unwrap_or_default()
            }
            Err(Errno::NOTSUP) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut kept = Vec::new();
        // A name that is no text is neither overlayfs's nor one that programs could ask for by name.
        let names = names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
        for name in names.filter(|name| self.keeps(name)) {
            let mut value = vec![0; VALUE];
            match fgetxattr(&from, name, &mut value[..]) {
                Ok(length) => {
                    value.truncate(length);
                    value.shrink_to_fit();
                    kept.push((name.to_owned(), value));
                }
                // It went away meanwhile.
                Err(Errno::NODATA) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(kept)
    }
}

/// Gives a file an attribute.
pub(super) fn set(to: impl AsFd, name: &str, value: &[u8]) -> std::io::Result<()> {
    Ok(fsetxattr(to, name, value, XattrFlags::empty())?)
}
