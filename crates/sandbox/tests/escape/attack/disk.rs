//! Writing without end, in ways that somebody who counts files may not see.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::bombs::number;
use super::sys::sys;
use super::{Case, Verdict, case, holds};

const PIECE: usize = 1 << 20;

/// Slow enough for a limit that is looked at once a second; the end of the bomb is some ten seconds away.
const PAUSE: Duration = Duration::from_millis(10);

/// Signals that a limit of the disk may end it by.
const ENDS: &[i32] = &[libc::SIGKILL, libc::SIGXFSZ];

/// Adds pieces until something refuses one.
fn write_on(mut add: impl FnMut(u64) -> std::io::Result<()>) -> Verdict {
    for piece in 0..number("BYTES") / PIECE as u64 {
        if let Err(error) = add(piece) {
            let expected = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG];
            return holds(
                error.raw_os_error().is_some_and(|errno| expected.contains(&errno)),
                error.to_string(),
            );
        }
        std::thread::sleep(PAUSE);
    }
    Verdict::Open("all of it was written".to_owned())
}

fn bomb(name: &str, run: impl Fn() -> Verdict + 'static) -> Vec<Case> {
    vec![case(name, run).ends_by(ENDS)]
}

/// More than one, because each has a limit of its own.
const FILES: usize = 8;

fn write_to_all(mut files: Vec<File>) -> Verdict {
    write_on(|piece| files[piece as usize % FILES].write_all(&[1; PIECE]))
}

fn files_in(directory: &str) -> Vec<File> {
    std::fs::create_dir(directory).unwrap();
    (0..FILES).map(|file| File::create(format!("{directory}/{file}")).unwrap()).collect()
}

pub(super) fn cases() -> Vec<Case> {
    bomb("files in the open", || write_to_all(files_in("/workspace/bomb")))
}

pub(super) fn closed_cases() -> Vec<Case> {
    bomb("files in a directory without permissions", || {
        let files = files_in("/workspace/closed");
        std::fs::set_permissions("/workspace/closed", std::fs::Permissions::from_mode(0o000)).unwrap();
        write_to_all(files)
    })
}

pub(super) fn nameless_cases() -> Vec<Case> {
    bomb("files that are open and have no name", || {
        let files = files_in("/workspace/bomb");
        std::fs::remove_dir_all("/workspace/bomb").unwrap();
        write_to_all(files)
    })
}

pub(super) fn thread_cases() -> Vec<Case> {
    bomb("files that only one thread has open, of a process whose first thread has ended", || {
        let (verdict, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // A table of descriptors of its own; the others keep theirs.
            let apart = sys(libc::SYS_unshare, [libc::CLONE_FILES as u64]);
            let files = files_in("/workspace/bomb");
            std::fs::remove_dir_all("/workspace/bomb").unwrap();
            drop(verdict.send(holds(apart.is_ok(), format!("{apart:?}"))));
            write_to_all(files)
        });
        match receiver.recv() {
            // Ends this thread only.
            Ok(Verdict::Held) => drop(sys(libc::SYS_exit, [0])),
            Ok(other) => return other,
            Err(error) => return Verdict::Open(error.to_string()),
        }
        Verdict::Open("the first thread has not ended".to_owned())
    })
}

pub(super) fn mapped_cases() -> Vec<Case> {
    bomb("files that are mapped and have no name and no descriptor", || {
        write_on(|_| {
            let mut file =
                File::options().read(true).write(true).create(true).truncate(true).open("/workspace/bomb")?;
            std::fs::remove_file("/workspace/bomb")?;
            file.write_all(&[1; PIECE])?;
            // SAFETY: a new mapping where the kernel likes; it is never looked at.
            let place = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    PIECE,
                    libc::PROT_READ,
                    libc::MAP_SHARED,
                    file.as_raw_fd(),
                    0,
                )
            };
            if place == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        })
    })
}

pub(super) fn moving_cases() -> Vec<Case> {
    bomb("files in a directory that is renamed all the time", || {
        let files = files_in("/workspace/here");
        std::thread::spawn(|| {
            let (here, there) = (Path::new("/workspace/here"), Path::new("/workspace/there"));
            loop {
                // One of them is there, and never for long.
                drop(std::fs::rename(here, there));
                drop(std::fs::rename(there, here));
            }
        });
        write_to_all(files)
    })
}

pub(super) fn posted_cases() -> Vec<Case> {
    bomb("files that nobody has open, in the queue of a socket", || {
        let (sender, receiver) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let mut queues = vec![(sender, receiver)];
        let verdict = write_on(|_| {
            let mut file = File::create("/workspace/bomb")?;
            std::fs::remove_file("/workspace/bomb")?;
            file.write_all(&[1; PIECE])?;
            if post(&queues[queues.len() - 1].0, &file).is_err() {
                // This queue is full.
                queues.push(std::os::unix::net::UnixDatagram::pair()?);
                post(&queues[queues.len() - 1].0, &file)?;
            }
            Ok(())
        });
        drop(queues);
        verdict
    })
}

/// Sends a descriptor; whoever receives it has the file, and until then nobody has.
fn post(socket: &std::os::unix::net::UnixDatagram, file: &File) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    let byte = [0_u8];
    let mut piece = libc::iovec { iov_base: byte.as_ptr().cast_mut().cast(), iov_len: 1 };
    let mut control = [0_u64; 4];
    // SAFETY: an all-zero header is a valid value; every pointer put in it is to a local that lives through the call, and
    // the control buffer is aligned and larger than one descriptor needs.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(file.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &raw const message, 0)
    };
    if sent < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
