//! Terminals.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::wire::PtySize;

/// Both ends of a new terminal.
pub(super) struct Terminal {
    /// Ours.
    pub(super) controller: OwnedFd,
    /// The process's three standard descriptors.
    pub(super) user: OwnedFd,
}

/// Opens a terminal of this size.
pub(super) fn open(size: PtySize) -> io::Result<Terminal> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controller = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&controller)?;
    rustix::pty::unlockpt(&controller)?;
    // By descriptor and not by name, so that it is this terminal whatever the sandbox put at /dev/pts.
    let user = rustix::pty::ioctl_tiocgptpeer(&controller, flags)?;
    resize(&controller, size)?;
    Ok(Terminal { controller, user })
}

/// Changes the size; the kernel tells the foreground group with SIGWINCH.
pub(super) fn resize(controller: impl AsFd, size: PtySize) -> io::Result<()> {
    Ok(tcsetwinsize(
        controller,
        Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 },
    )?)
}
