//! Reaches into a sandbox from the host. Files there belong to ids that only the sandbox has, so whoever makes one has to
//! be one of them for a moment.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;

/// The user that commands run as.
const USER: u32 = 1000;

/// Makes an empty file in the sandbox with this first process.
pub(super) fn touch(init: &str, path: &str) {
    let path = Path::new(path);
    let inside = path.parent().unwrap().strip_prefix("/").unwrap();
    let dir = File::open(Path::new("/proc").join(init).join("root").join(inside)).unwrap();
    let file = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(path.file_name().unwrap());
    let user = host_id(init, "uid_map");
    let group = host_id(init, "gid_map");
    // These ids are a thread's own; the thread ends, and nobody else is changed.
    let made = std::thread::spawn(move || {
        // SAFETY: both take a number and cannot fail in a way that matters: making the file would.
        unsafe {
            libc::setfsgid(group);
            libc::setfsuid(user);
        }
        OpenOptions::new().write(true).create(true).truncate(true).open(file).map(drop)
    });
    made.join().unwrap().unwrap();
    drop(dir);
}

/// The id on the host of the user or group that commands run as.
fn host_id(init: &str, map: &str) -> u32 {
    let text = std::fs::read_to_string(Path::new("/proc").join(init).join(map)).unwrap();
    let numbers =
        |line: &str| line.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<u32>>();
    let found = text.lines().map(numbers).find(|map| (map[0]..map[0] + map[2]).contains(&USER));
    let map = found.unwrap_or_else(|| panic!("{USER} is not in {text:?}"));
    map[1] + (USER - map[0])
}
