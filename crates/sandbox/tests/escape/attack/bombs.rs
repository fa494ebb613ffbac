//! Using up what there is. Every bomb has an end of its own, so that a missing wall is a failed test and not a dead host.

use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::sys::{HERE, at, open, sys};
use super::{Case, Verdict, case, fact, holds, refused};

/// As many as were asked for outside.
pub(super) fn number(name: &str) -> u64 {
    fact(name).parse().unwrap_or(0)
}

pub(super) fn fork_cases() -> Vec<Case> {
    vec![case("processes without end", || {
        let limit = number("LIMIT");
        let mut made = Vec::new();
        let mut error = 0;
        for _ in 0..limit * 4 {
            // SAFETY: the child does nothing but wait for its end.
            match unsafe { libc::fork() } {
                0 => loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                },
                -1 => {
                    error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
                    break;
                }
                child => made.push(child),
            }
        }
        for child in &made {
            // SAFETY: ends and collects our own children.
            unsafe {
                libc::kill(*child, libc::SIGKILL);
                libc::waitpid(*child, std::ptr::null_mut(), 0);
            }
        }
        holds(
            error == libc::EAGAIN && (made.len() as u64) < limit,
            format!("{} made, errno {error}", made.len()),
        )
    })]
}

pub(super) fn memory_cases() -> Vec<Case> {
    let touch = |flags: i32| {
        move || {
            let size = usize::try_from(number("BYTES")).unwrap();
            let both = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a new mapping where the kernel likes.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), size, both, flags, -1, 0) };
            if start == libc::MAP_FAILED {
                return Verdict::Held;
            }
            for page in (0..size).step_by(4096) {
                // SAFETY: inside the mapping that was just made.
                unsafe { start.cast::<u8>().add(page).write_volatile(1) };
            }
            Verdict::Open("all of it was given".to_owned())
        }
    };
    vec![
        case("private memory", touch(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)).ends_by(&[libc::SIGKILL]),
        case("shared memory", touch(libc::MAP_SHARED | libc::MAP_ANONYMOUS)).ends_by(&[libc::SIGKILL]),
    ]
}

pub(super) fn memory_file_cases() -> Vec<Case> {
    vec![
        case("a file in memory", || {
            let file = sys(libc::SYS_memfd_create, [at(c"bomb"), 0]).unwrap().cast_unsigned();
            let piece = vec![1_u8; 1 << 20];
            for _ in 0..number("BYTES") >> 20 {
                if let Err(errno) = sys(libc::SYS_write, [file, at(piece.as_slice()), 1 << 20]) {
                    return refused(Err(errno), &[libc::ENOSPC, libc::ENOMEM, libc::EFBIG]);
                }
            }
            Verdict::Open("all of it was given".to_owned())
        })
        .ends_by(&[libc::SIGKILL]),
    ]
}

/// Writes pieces of a MiB until it is refused; None if it never was.
fn fill(path: &str, pieces: u64) -> Option<i32> {
    let mut file = std::fs::File::create(path).unwrap();
    let piece = vec![1_u8; 1 << 20];
    for _ in 0..pieces {
        if let Err(error) = file.write_all(&piece) {
            return error.raw_os_error();
        }
    }
    None
}

pub(super) fn shm_cases() -> Vec<Case> {
    vec![
        case("/dev/shm", || {
            let result = fill("/dev/shm/bomb", number("BYTES") >> 20);
            std::fs::remove_file("/dev/shm/bomb").unwrap();
            holds(result == Some(libc::ENOSPC), format!("{result:?}"))
        }),
        case("/dev itself", || refused(open("/dev/bomb", libc::O_CREAT | libc::O_WRONLY), &[libc::EACCES])),
    ]
}

pub(super) fn inode_cases() -> Vec<Case> {
    vec![
        case("files without end", || {
            std::fs::create_dir_all("/workspace/many").unwrap();
            for file in 0..number("FILES") {
                if let Err(error) = std::fs::write(format!("/workspace/many/{file}"), "") {
                    return refused(Err(error.raw_os_error().unwrap_or(0)), &[libc::ENOSPC, libc::EDQUOT]);
                }
                if file % 50 == 0 {
                    std::thread::sleep(Duration::from_millis(25));
                }
            }
            Verdict::Open("all of them were made".to_owned())
        })
        .ends_by(&[libc::SIGKILL]),
    ]
}

/// Names that break what takes them for text, lines or options.
pub(crate) fn odd_names() -> Vec<Vec<u8>> {
    vec![
        b"a\nb".to_vec(),
        b"\x1b[31mred\x07".to_vec(),
        b"\xff\xfe not text".to_vec(),
        b"-rf".to_vec(),
        b"...".to_vec(),
        b" ".to_vec(),
        b"\\".to_vec(),
        b"%2e%2e%2f".to_vec(),
        b".wh.x".to_vec(),
        b".wh..wh..opq".to_vec(),
        "\u{202e}cod.exe".as_bytes().to_vec(),
        vec![b'x'; 255],
        vec![0xc3; 255],
    ]
}

pub(super) fn tree_cases() -> Vec<Case> {
    vec![
        case("odd names", || {
            std::fs::create_dir_all("/workspace/odd").unwrap();
            for name in odd_names() {
                let path = std::path::Path::new("/workspace/odd").join(std::ffi::OsStr::from_bytes(&name));
                std::fs::write(path, "x").unwrap();
            }
            Verdict::Held
        }),
        case("files of more bytes than a disk has", || {
            let file = open("/workspace/sparse", libc::O_CREAT | libc::O_RDWR).unwrap().cast_unsigned();
            let most = sys(libc::SYS_ftruncate, [file, i64::MAX.cast_unsigned()]);
            if most.is_ok() {
                return Verdict::Held;
            }
            // As large as it gets, and with a byte far out; a limit on the size of a file is as good.
            for power in (30..63).rev() {
                if sys(libc::SYS_ftruncate, [file, 1 << power]).is_ok() {
                    break;
                }
            }
            refused(most, &[libc::EFBIG, libc::EINVAL])
        })
        .ends_by(&[libc::SIGXFSZ]),
        case("many entries", || {
            std::fs::create_dir_all("/workspace/entries").unwrap();
            for entry in 0..number("ENTRIES") {
                std::fs::File::create(format!("/workspace/entries/{entry:06}")).unwrap();
            }
            Verdict::Held
        }),
        case("pipes and sockets where files are expected", || {
            let made =
                sys(libc::SYS_mknodat, [HERE, at(c"/workspace/pipe"), u64::from(libc::S_IFIFO) | 0o666, 0]);
            let socket = std::os::unix::net::UnixListener::bind("/workspace/socket");
            holds(made.is_ok() && socket.is_ok(), format!("{made:?} {socket:?}"))
        }),
        case("directories and files that nobody may enter", || {
            use std::os::unix::fs::PermissionsExt;
            std::fs::create_dir_all("/workspace/closed/inner").unwrap();
            std::fs::write("/workspace/closed/inner/file", "x").unwrap();
            for path in ["/workspace/closed/inner/file", "/workspace/closed/inner", "/workspace/closed"] {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
            }
            Verdict::Held
        }),
        case("rings of links", || {
            std::os::unix::fs::symlink("ring", "/workspace/ring").unwrap();
            std::os::unix::fs::symlink(".", "/workspace/self").unwrap();
            std::os::unix::fs::symlink("/", "/workspace/root").unwrap();
            Verdict::Held
        }),
    ]
}

pub(super) fn deep_cases() -> Vec<Case> {
    vec![case("a deep tree", || {
        std::env::set_current_dir("/workspace").unwrap();
        let name = CString::new("deep").unwrap();
        for _ in 0..number("DEPTH") {
            let made = sys(libc::SYS_mkdirat, [HERE, name.as_ptr() as u64, 0o755]);
            if made.and_then(|_| sys(libc::SYS_chdir, [name.as_ptr() as u64])).is_err() {
                return Verdict::Open(format!("{made:?}"));
            }
        }
        Verdict::Held
    })]
}
