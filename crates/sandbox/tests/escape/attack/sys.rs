//! Raw system calls, and the few that are made over and over.

use std::ffi::CString;

/// A system call; the error is the error number.
pub(super) fn sys<const N: usize>(number: i64, arguments: [u64; N]) -> Result<i64, i32> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    // SAFETY: every caller passes numbers, or addresses of values that live through the call and have the size the call
    // expects. Most of these calls are to be refused before the kernel looks at them.
    let result = unsafe { libc::syscall(number, all[0], all[1], all[2], all[3], all[4], all[5]) };
    if result < 0 { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(result) }
}

/// The address of a value.
pub(super) fn at<T: ?Sized>(value: &T) -> u64 {
    std::ptr::from_ref(value).cast::<u8>() as u64
}

/// The address of a value that the kernel writes to.
pub(super) fn at_mut<T: ?Sized>(value: &mut T) -> u64 {
    std::ptr::from_mut(value).cast::<u8>() as u64
}

/// A negative number as an argument.
pub(super) fn signed(value: i64) -> u64 {
    value.cast_unsigned()
}

pub(super) const HERE: u64 = libc::AT_FDCWD as i64 as u64;

/// Opens a file; gives the descriptor.
pub(super) fn open(path: &str, flags: i32) -> Result<i64, i32> {
    let path = CString::new(path).map_err(|_| libc::EINVAL)?;
    let flags = u64::from(flags.cast_unsigned());
    sys(libc::SYS_openat, [HERE, at(path.as_bytes_with_nul()), flags, 0o644])
}

/// Opens an existing file and writes to it.
pub(super) fn write_to(path: &str, text: &str) -> Result<i64, i32> {
    let file = open(path, libc::O_WRONLY | libc::O_CLOEXEC)?;
    let result = sys(libc::SYS_write, [file.cast_unsigned(), at(text.as_bytes()), text.len() as u64]);
    sys(libc::SYS_close, [file.cast_unsigned()])?;
    result
}

/// Opens a file and reads the first bytes of it; gives how many.
pub(super) fn read_from(path: &str) -> Result<i64, i32> {
    let file = open(path, libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK)?;
    let mut buffer = [0_u8; 256];
    let result = sys(libc::SYS_read, [file.cast_unsigned(), at_mut(&mut buffer), buffer.len() as u64]);
    sys(libc::SYS_close, [file.cast_unsigned()])?;
    result
}

/// A socket; gives the descriptor.
pub(super) fn socket(family: i32, kind: i32, protocol: i32) -> Result<i64, i32> {
    let number = |value: i32| u64::from(value.cast_unsigned());
    sys(libc::SYS_socket, [number(family), number(kind), number(protocol)])
}

/// Whether there is no other user than the one inside, because an ordinary user runs the driver: then the files of the
/// base are its own, in a layer of its own.
pub(super) fn is_only_user() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().last() == Some("1")
}
