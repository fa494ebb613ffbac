//! Where on the disk trees go.
//!
//! ext4 puts a new file near its directory, and looks at every place there whose file was deleted in the last minute or
//! minutes before it takes one that is free. Where trees come and go as layers and sandboxes do, that takes ten times as long
//! as making the file. A directory can be marked so that each one made in it begins somewhere else.

use std::path::Path;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;

use super::trail::open_own;

/// Lets what is made in a directory begin far from each other, on file systems that can.
pub(super) fn spread(dir: &Path) {
    let marked = open_own(dir).and_then(|directory| {
        let flags = ioctl_getflags(&directory)?;
        if !flags.contains(IFlags::TOPDIR) {
            ioctl_setflags(&directory, flags | IFlags::TOPDIR)?;
        }
        Ok(())
    });
    match marked {
        Ok(()) => {}
        // Other file systems have no such mark, and no need of it.
        Err(error)
            if [Errno::OPNOTSUPP, Errno::NOTTY, Errno::INVAL]
                .iter()
                .any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) => {}
        Err(error) => tracing::debug!(dir = %dir.display(), %error, "new files there may take longer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_marked_where_it_can_be_and_stays_of_use() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            spread(dir.path());
        }
        let directory = open_own(dir.path()).unwrap();
        if rustix::fs::fstatfs(&directory).unwrap().f_type as i64 == 0xef53 {
            assert!(ioctl_getflags(&directory).unwrap().contains(IFlags::TOPDIR));
        }
        std::fs::create_dir(dir.path().join("below")).unwrap();
        let below = open_own(&dir.path().join("below")).unwrap();
        if let Ok(flags) = ioctl_getflags(&below) {
            assert!(!flags.contains(IFlags::TOPDIR), "only what is right below it begins elsewhere");
        }
        spread(&dir.path().join("not there"));
    }
}
