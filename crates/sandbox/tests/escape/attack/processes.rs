//! Pid 1, other processes, descriptors that were left open, and what /proc can be made to do.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::sys::{at, at_mut, is_only_user, open, read_from, sys, write_to};
use super::{Case, Verdict, case, fact, holds, refused};

const PRIVATE: [&str; 13] = [
    "environ",
    "mem",
    "maps",
    "smaps",
    "auxv",
    "stack",
    "io",
    "syscall",
    "pagemap",
    "personality",
    "map_files",
    "fd",
    "fdinfo",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for name in PRIVATE {
        cases.push(case(format!("read /proc/1/{name}"), move || {
            let path = format!("/proc/1/{name}");
            let result = read_from(&path);
            // A directory can be opened; what is in it is what must not be seen.
            match result {
                Err(libc::EISDIR) => match std::fs::read_dir(&path) {
                    Ok(entries) => holds(entries.count() == 0, "its entries can be listed"),
                    Err(error) => {
                        refused(Err(error.raw_os_error().unwrap_or(0)), &[libc::EACCES, libc::EPERM])
                    }
                },
                other => refused(other, &[libc::EACCES, libc::EPERM, libc::ENOENT]),
            }
        }));
    }
    for name in ["root", "cwd", "exe"] {
        cases.push(case(format!("follow /proc/1/{name}"), move || {
            refused(open(&format!("/proc/1/{name}"), libc::O_RDONLY), &[libc::EACCES])
        }));
    }
    for name in
        ["oom_score_adj", "comm", "coredump_filter", "clear_refs", "autogroup", "timerslack_ns", "sched"]
    {
        cases.push(case(format!("write /proc/1/{name}"), move || {
            refused(write_to(&format!("/proc/1/{name}"), "1"), &[libc::EACCES, libc::EPERM, libc::ENOENT])
        }));
    }
    cases.extend([
        case("write to the program of pid 1", || {
            refused(open("/proc/1/exe", libc::O_WRONLY), &[libc::EACCES])
        }),
        case("trace pid 1", || {
            let attach = sys(libc::SYS_ptrace, [u64::from(libc::PTRACE_ATTACH), 1, 0, 0]);
            refused(attach, &[libc::EPERM])
        }),
        case("seize pid 1", || {
            let seize = sys(libc::SYS_ptrace, [0x4206, 1, 0, 0]);
            refused(seize, &[libc::EPERM])
        }),
        case("read the memory of pid 1", || {
            let mut buffer = [0_u8; 8];
            let (local, remote) = ([at_mut(&mut buffer), 8], [0x40_0000_u64, 8]);
            refused(sys(libc::SYS_process_vm_readv, [1, at(&local), 1, at(&remote), 1, 0]), &[libc::EPERM])
        }),
        case("take a descriptor of pid 1", || {
            let handle = sys(libc::SYS_pidfd_open, [1, 0]).unwrap().cast_unsigned();
            refused(sys(libc::SYS_pidfd_getfd, [handle, 3, 0]), &[libc::EPERM])
        }),
        case("signals end nobody outside", || {
            // Every number that is no process inside, up to what a host usually has.
            let inside = |pid: u64| std::path::Path::new(&format!("/proc/{pid}")).exists();
            let reached = (2..40_000_u64)
                .find(|pid| sys(libc::SYS_kill, [*pid, 0]) != Err(libc::ESRCH) && !inside(*pid));
            match reached {
                // Threads have numbers, too, and no directory in the list.
                Some(pid) if std::path::Path::new(&format!("/proc/{pid}/status")).exists() => Verdict::Held,
                Some(pid) => Verdict::Open(format!("process {pid} can be signalled")),
                None => Verdict::Held,
            }
        }),
        case("open descriptors are the three it was given", descriptors),
        case("the working directory is the workspace", || {
            let cwd = std::fs::read_link("/proc/self/cwd").unwrap();
            holds(cwd == std::path::Path::new("/workspace"), cwd.display().to_string())
        }),
        case("nothing of the driver's environment", || {
            let canary = fact("CANARY");
            let mut found = Vec::new();
            for pid in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
                let name = pid.file_name();
                // The attempt itself was told what to look for.
                let own = std::fs::read(pid.path().join("environ")).unwrap_or_default();
                let told = own.windows(7).any(|part| part == b"CANARY=");
                if !told
                    && !canary.is_empty()
                    && own.windows(canary.len()).any(|part| part == canary.as_bytes())
                {
                    found.push(name.to_string_lossy().into_owned());
                }
            }
            holds(!canary.is_empty() && found.is_empty(), format!("processes {found:?} have it"))
        }),
        case("no keys are inherited", || {
            let keys = std::fs::read("/proc/keys").unwrap_or_default();
            holds(keys.is_empty(), String::from_utf8_lossy(&keys))
        }),
        case("a terminal that somebody else uses", || {
            refused(open("/dev/tty", libc::O_RDWR), &[libc::ENXIO])
        }),
    ]);
    cases
}

fn descriptors() -> Verdict {
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        let Ok(target) = std::fs::read_link(&path) else { continue };
        let target = target.to_string_lossy().into_owned();
        let data = std::fs::metadata(&path);
        let own = target.starts_with("pipe:")
            || target == "/dev/null"
            || target.starts_with("/proc/")
            // The test program has none but pipes; a directory, a file or a socket was left by somebody.
            || data.is_ok_and(|data| data.file_type().is_fifo());
        if !own {
            return Verdict::Open(format!("{} is {target}", path.display()));
        }
    }
    Verdict::Held
}

/// Files of /proc that would change the host.
const READ_ONLY: [&str; 10] = [
    "/proc/pressure/memory",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/shmmax",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/fs/file-max",
    "/proc/sys/net/ipv4/ip_forward",
];

/// Files of /proc that tell about the host: covered, and so empty.
const COVERED: [&str; 6] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/timer_list",
    "/proc/sysrq-trigger",
    "/proc/kallsyms",
];

const CLOSED: [&str; 6] = [
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/vmallocinfo",
    "/proc/slabinfo",
    "/proc/kpagecgroup",
];

/// What must not be there at all.
const ABSENT: [&str; 12] = [
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup",
    "/sys/class",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/proc/sys/fs/binfmt_misc/register",
    "/cgroup",
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/systemd",
    "/run/dbus",
    "/root/.ssh",
];

pub(super) fn proc_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in READ_ONLY {
        cases.push(case(format!("write {path}"), move || {
            refused(write_to(path, "1"), &[libc::EROFS, libc::EACCES, libc::ENOENT])
        }));
    }
    for path in COVERED {
        cases.push(case(format!("{path} is covered"), move || match std::fs::metadata(path) {
            // The device 1:3 is null: what is written to it goes nowhere.
            Ok(data) if data.file_type().is_char_device() && data.rdev() == 0x103 => {
                holds(read_from(path) == Ok(0), "something can be read")
            }
            Ok(_) => Verdict::Open("it is the kernel's own".to_owned()),
            Err(_) => Verdict::Held,
        }));
    }
    for path in CLOSED {
        cases.push(case(format!("read {path}"), move || {
            refused(read_from(path), &[libc::EACCES, libc::EPERM, libc::ENOENT])
        }));
    }
    for path in ABSENT {
        cases.push(case(format!("{path} is not there"), move || {
            refused(open(path, libc::O_RDONLY), &[libc::ENOENT])
        }));
    }
    for path in ["/proc/acpi", "/proc/scsi", "/proc/driver", "/sys"] {
        cases.push(case(format!("{path} is empty"), move || match std::fs::read_dir(path) {
            Ok(entries) => holds(entries.count() == 0, "it has entries"),
            Err(_) => Verdict::Held,
        }));
    }
    cases.extend([
        case("nothing below /proc/sys can be written", || {
            let found = writable(std::path::Path::new("/proc/sys"));
            holds(found.is_none(), found.unwrap_or_default())
        }),
        case("a control group of its own is the only one it sees", || {
            let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
            let other = groups.lines().find(|line| line.splitn(3, ':').nth(2) != Some("/"));
            // Where the host gives the driver none, the sandbox is where the driver is, and that is shown as the root.
            holds(other.is_none(), other.unwrap_or_default())
        }),
        case("no control groups are mounted", || {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
            let group = mounts.lines().find(|line| line.contains(" - cgroup"));
            holds(group.is_none(), group.unwrap_or_default())
        }),
        case("the kernel's memory is not in iomem", || {
            let text = std::fs::read_to_string("/proc/iomem").unwrap_or_default();
            let shown = text.lines().find(|line| !line.trim_start().starts_with("00000000-00000000"));
            holds(shown.is_none(), shown.unwrap_or_default())
        }),
        case("a link that leads a write of the kernel's elsewhere", || {
            // If something outside wrote to /proc/self/attr or /proc/sys by name, a link here could lead it astray; so
            // these must not be replaceable.
            let link = |target: &str| {
                let made = std::ffi::CString::new(target).unwrap();
                sys(libc::SYS_symlink, [at(c"/proc/sysrq-trigger"), made.as_ptr() as u64])
            };
            let mut places = vec!["/proc/x", "/proc/self/attr/x", "/sys/x", "/x"];
            // The directory of devices is root's, where there is one inside; what is mounted in it is nobody's.
            if !is_only_user() {
                places.push("/dev/x");
            }
            // So is the root of an ordinary user's sandbox, where no Landlock keeps it from being written.
            // SAFETY: asks who this is.
            let user = unsafe { libc::geteuid() };
            let own = |place: &str| {
                let dir = std::path::Path::new(place).parent().unwrap();
                !place.starts_with("/proc") && dir.metadata().unwrap().uid() == user
            };
            if fact("UNFENCED") == "1" {
                places.retain(|place| !own(place));
            }
            let made: Vec<&str> = places.into_iter().filter(|place| link(place).is_ok()).collect();
            holds(made.is_empty(), made.join(", "))
        }),
    ]);
    cases
}

/// The first file below that can be opened for writing.
fn writable(dir: &std::path::Path) -> Option<String> {
    for entry in std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if let Some(found) = writable(&path) {
                return Some(found);
            }
        } else if open(&path.display().to_string(), libc::O_WRONLY).is_ok() {
            return Some(path.display().to_string());
        }
    }
    None
}
