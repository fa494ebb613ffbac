//! Attempts by a program that is root of namespaces of its own, where the environment lets programs make some: with every
//! capability there is, but over nothing that the sandbox is made of.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::sys::{at, is_only_user, open, read_from, sys, write_to};
use super::{Case, Verdict, apart, case, holds, kernel, processes, refused, sockets};

/// Every kind but those of control groups and time.
const ALL: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// What says that something must not be done, whichever part of the kernel says it.
const NO: &[i32] = &[libc::EPERM, libc::EINVAL, libc::EACCES, libc::EROFS, libc::EBUSY, libc::ENOSYS];

/// What the root of a namespace may do to what is its own: a name, and a network that leads nowhere. And the one that looks
/// whether a filter can be undone by trying what is allowed here.
const OWN: [&str; 11] = [
    "sethostname",
    "setdomainname",
    "a filter of its own does not open the one above",
    "raw ICMP",
    "a new route",
    "a new interface",
    "taking loopback down",
    "changing an interface by ioctl",
    "a transparent socket",
    "a mark on packets",
    "low ports",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("it is root with every capability", || {
            as_root(|| {
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let has = |line: &str| status.lines().any(|found| found.starts_with(line));
                holds(
                    has("Uid:\t0") && has("CapEff:\t000001ff") && mount(None, "/tmp", "tmpfs", 0).is_ok(),
                    status.clone(),
                )
            })
        }),
        case("a namespace of control groups", || {
            let made = sys(libc::SYS_unshare, [flags(libc::CLONE_NEWUSER | libc::CLONE_NEWCGROUP)]);
            if may_show_others_groups() {
                refused(made, &[libc::EPERM])
            } else {
                // The groups are there to be looked at and no more, see below; or the sandbox has none of its own.
                holds(matches!(made, Ok(_) | Err(libc::EPERM)), format!("{made:?}"))
            }
        }),
        case("a namespace of time", || {
            refused(sys(libc::SYS_unshare, [flags(libc::CLONE_NEWUSER) | 0x80]), &[libc::EPERM])
        }),
        case("control groups cannot be written", || {
            groups(&["memory.max", "cgroup.procs", "cgroup.kill", "cgroup.freeze"])
        }),
    ];
    for (name, attempt) in mounts() {
        cases.push(case(format!("root of a namespace: {name}"), move || as_root(attempt)));
    }
    let others = kernel::cases().into_iter().chain(sockets::cases()).chain(processes::proc_cases());
    for other in others.filter(|case| !OWN.contains(&case.name.as_str())) {
        let (name, ends_by) = (format!("root of a namespace: {}", other.name), other.ends_by);
        let run = Box::new(move || enter().map_or_else(failed, |()| apart(&other)));
        cases.push(Case { name, run, ends_by });
    }
    // The last one: namespaces go some time after whoever kept them.
    cases.push(case("namespaces without end", || {
        let mut kept = Vec::new();
        loop {
            match kept_namespace() {
                Ok(namespace) if kept.len() < 2000 => kept.push(namespace),
                Ok(_) => return Verdict::Open("there is no end to them".to_owned()),
                // The kernel has no room for another, which is what it says where a limit is reached.
                Err(errno) => {
                    return holds(
                        errno == libc::ENOSPC && kept.len() > 500,
                        format!("{errno}, {}", kept.len()),
                    );
                }
            }
        }
    }));
    cases
}

/// An attempt by root, and its name.
type Attempt = (&'static str, fn() -> Verdict);

/// What is tried with mounts, and with what else needs capabilities.
fn mounts() -> Vec<Attempt> {
    vec![
        ("a new /proc without what covers it", || refused(mount(None, "/tmp", "proc", 0), NO)),
        ("a new /sys", || refused(mount(None, "/tmp", "sysfs", 0), NO)),
        ("control groups of the sandbox", || {
            let kinds = ["cgroup", "cgroup2"].map(|kind| mount(None, "/tmp", kind, 0));
            holds(kinds.iter().all(Result::is_err), format!("{kinds:?}"))
        }),
        ("devices", || refused(mount(None, "/tmp", "devtmpfs", 0), NO)),
        ("the kernel's own file systems", || {
            let kinds = ["debugfs", "tracefs", "securityfs", "configfs", "bpf", "efivarfs", "binfmt_misc"];
            let made = kinds.into_iter().find(|kind| {
                // These two can be had by anybody's root, empty, and without a way to use them.
                mount(None, "/tmp", kind, 0).is_ok() && !["bpf", "binfmt_misc"].contains(kind)
            });
            holds(made.is_none(), made.unwrap_or_default())
        }),
        ("/proc without what is mounted on it", || {
            refused(mount(Some("/proc"), "/tmp", "", libc::MS_BIND), NO)
        }),
        ("/proc with what is mounted on it keeps that", || {
            let bound = mount(Some("/proc"), "/tmp", "", libc::MS_BIND | libc::MS_REC);
            if bound.is_err() {
                return Verdict::Open(format!("{bound:?}"));
            }
            let uncovered = uncover("/tmp");
            holds(uncovered.is_none(), uncovered.unwrap_or_default())
        }),
        ("what covers parts of /proc", || {
            let uncovered = uncover("/proc");
            holds(uncovered.is_none(), uncovered.unwrap_or_default())
        }),
        ("an overlay over /proc", || {
            for dir in ["/dev/shm/upper", "/dev/shm/work"] {
                std::fs::create_dir(dir).unwrap();
            }
            let options =
                ["lowerdir=/proc:/sys", "lowerdir=/proc,upperdir=/dev/shm/upper,workdir=/dev/shm/work"];
            let made = options.map(|options| mount_with("/tmp", "overlay", options));
            holds(made.iter().all(Result::is_err), format!("{made:?}"))
        }),
        ("the system read-write", || {
            let again = ["/usr", "/proc/sys", "/proc/bus"].map(|place| {
                mount(None, place, "", libc::MS_REMOUNT | libc::MS_BIND).err().unwrap_or_default()
            });
            holds(
                again.iter().all(|errno| NO.contains(errno) || *errno == libc::ENOENT),
                format!("{again:?}"),
            )
        }),
        ("a copy of the system read-write", || {
            let copied = mount(Some("/usr"), "/tmp", "", libc::MS_BIND | libc::MS_REC);
            if copied.is_err() {
                return Verdict::Open(format!("{copied:?}"));
            }
            refused(mount(None, "/tmp", "", libc::MS_REMOUNT | libc::MS_BIND), NO)
        }),
        ("set-user-id and devices on the root", || {
            refused(mount(None, "/", "", libc::MS_REMOUNT | libc::MS_BIND), NO)
        }),
        ("another root does not uncover the old one", || {
            mount(None, "/tmp", "tmpfs", 0).unwrap();
            std::fs::create_dir("/tmp/old").unwrap();
            let pivoted = sys(libc::SYS_pivot_root, [at(c"/tmp"), at(c"/tmp/old")]);
            if pivoted.is_err() {
                return Verdict::Open(format!("{pivoted:?}"));
            }
            let uncovered = uncover("/old/proc");
            holds(uncovered.is_none(), uncovered.unwrap_or_default())
        }),
        ("chroot and back leads to the same root", || {
            let place = |path: &str| std::fs::metadata(path).map(|data| (data.dev(), data.ino())).unwrap();
            let before = place("/");
            std::fs::create_dir_all("/workspace/jail").unwrap();
            let done = sys(libc::SYS_chroot, [at(c"/workspace/jail")]);
            let up = CString::new("../".repeat(40)).unwrap();
            let out = sys(libc::SYS_chdir, [up.as_ptr() as u64]).and(sys(libc::SYS_chroot, [at(c".")]));
            holds(
                done.and(out).is_ok() && place("/") == before && place("/..") == before,
                "it is somewhere else",
            )
        }),
        ("mount points that another namespace does not have", || {
            // What is unlinked takes along what is mounted on it, in every namespace.
            let dev = open("/dev", libc::O_RDONLY | libc::O_DIRECTORY).unwrap().cast_unsigned();
            let own = std::fs::metadata("/dev").unwrap().uid() == 0;
            mount(None, "/tmp", "tmpfs", 0).unwrap();
            sys(libc::SYS_chdir, [at(c"/tmp")]).unwrap();
            let alone = sys(libc::SYS_pivot_root, [at(c"."), at(c".")])
                .and(sys(libc::SYS_umount2, [at(c"."), flags(libc::MNT_DETACH)]));
            if alone.is_err() {
                return Verdict::Open(format!("{alone:?}"));
            }
            // Where there is no other user the directory is its own, and it may take from itself what it likes.
            let gone = sys(libc::SYS_unlinkat, [dev, at(c"tty"), 0]);
            holds(gone.is_err() || own, "a device was removed")
        }),
        ("nodes", || {
            mount(None, "/tmp", "tmpfs", 0).unwrap();
            let node = sys(libc::SYS_mknodat, [0, at(c"/tmp/null"), u64::from(libc::S_IFCHR | 0o666), 0x103]);
            refused(node, &[libc::EPERM])
        }),
        ("more ids than its own", || {
            let maps = ["/proc/self/uid_map", "/proc/self/gid_map"].map(|map| write_to(map, "0 0 65536"));
            holds(maps.iter().all(Result::is_err), format!("{maps:?}"))
        }),
        ("the sandbox's own namespaces", || {
            let joined = ["mnt", "net", "user", "cgroup"].map(|kind| {
                let old = open(&format!("/proc/1/ns/{kind}"), libc::O_RDONLY)?;
                sys(libc::SYS_setns, [old.cast_unsigned(), 0])
            });
            holds(joined.iter().all(Result::is_err), format!("{joined:?}"))
        }),
        ("packet filters", || {
            let number = |value: i32| u64::from(value.cast_unsigned());
            for (family, level) in [(libc::AF_INET, libc::IPPROTO_IP), (libc::AF_INET6, libc::IPPROTO_IPV6)] {
                let Ok(socket) = super::sys::socket(family, libc::SOCK_DGRAM, 0) else { continue };
                let table = [0_u8; 96];
                let set = [socket.cast_unsigned(), number(level), 64, at(&table), table.len() as u64];
                match sys(libc::SYS_setsockopt, set) {
                    Err(libc::EPERM) => {}
                    other => return Verdict::Open(format!("{other:?}")),
                }
            }
            Verdict::Held
        }),
    ]
}

/// Tries to take away what covers parts of /proc; says which part could be seen.
fn uncover(proc: &str) -> Option<String> {
    for name in ["kcore", "keys", "sysrq-trigger", "timer_list", "kallsyms"] {
        let path = format!("{proc}/{name}");
        let Ok(data) = std::fs::metadata(&path) else { continue };
        if !data.file_type().is_char_device() {
            return Some(format!("{path} is not covered"));
        }
        let place = CString::new(path.clone()).unwrap();
        for how in [0, libc::MNT_DETACH] {
            if sys(libc::SYS_umount2, [place.as_ptr() as u64, flags(how)]).is_ok() {
                return Some(format!("{path} was uncovered"));
            }
        }
        if mount(Some(&path), "/dev/shm", "", libc::MS_MOVE).is_ok() || read_from(&path) != Ok(0) {
            return Some(format!("{path} was moved or shows something"));
        }
    }
    let settings = CString::new(format!("{proc}/sys")).unwrap();
    let taken = sys(libc::SYS_umount2, [settings.as_ptr() as u64, flags(libc::MNT_DETACH)]);
    let written = write_to(&format!("{proc}/sys/kernel/core_pattern"), "|/bin/true");
    (taken.is_ok() || written.is_ok()).then(|| format!("{proc}/sys: {taken:?} {written:?}"))
}

/// Whether a namespace of control groups would show some that are not the sandbox's own, or let it write to its own.
fn may_show_others_groups() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    is_only_user() || groups.lines().any(|line| !line.starts_with("0::"))
}

/// Mounts the control groups that a namespace of their own shows, and tries to write to these files.
fn groups(files: &[&str]) -> Verdict {
    if may_show_others_groups() {
        return Verdict::Skipped("no such namespace can be made".to_owned());
    }
    if let Err(errno) = enter_with(ALL | libc::CLONE_NEWCGROUP) {
        return failed(errno);
    }
    let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
    apart(&case("", move || {
        let kinds: [(&str, &str); 4] =
            [("cgroup2", ""), ("cgroup", "memory"), ("cgroup", "pids"), ("cgroup", "freezer")];
        let mut seen = 0;
        for (kind, options) in kinds {
            if mount_with("/tmp", kind, options).is_err() {
                continue;
            }
            seen += 1;
            // Only the root of the hierarchy has no type.
            if kind == "cgroup2" && !std::path::Path::new("/tmp/cgroup.type").exists() {
                return Verdict::Open("the host's own group is shown".to_owned());
            }
            let more = [
                "release_agent",
                "notify_on_release",
                "memory.limit_in_bytes",
                "tasks",
                "freezer.state",
                "pids.max",
            ];
            for file in files.iter().map(String::as_str).chain(more) {
                if write_to(&format!("/tmp/{file}"), "1").is_ok() {
                    return Verdict::Open(format!("{file} of {kind} {options} was written"));
                }
            }
            if std::fs::create_dir("/tmp/below").is_ok() {
                return Verdict::Open(format!("a group of {kind} {options} was made"));
            }
            sys(libc::SYS_umount2, [at(c"/tmp"), 0]).unwrap();
        }
        if seen == 0 { Verdict::Skipped("none can be mounted".to_owned()) } else { Verdict::Held }
    }))
}

/// A new user namespace that no process is in, but that a descriptor keeps.
fn kept_namespace() -> Result<OwnedFd, i32> {
    let (mut reader, writer) = std::io::pipe().unwrap();
    // SAFETY: the child has only this thread; it makes system calls and waits to be ended.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let made = sys(libc::SYS_unshare, [flags(libc::CLONE_NEWUSER)]).err().unwrap_or_default();
        let told = sys(libc::SYS_write, [writer.as_raw_fd() as u64, at(&made), 4]);
        loop {
            // SAFETY: waits for a signal, which ends it.
            unsafe { libc::pause() };
            assert!(told.is_ok());
        }
    }
    drop(writer);
    let mut errno = [0; 4];
    reader.read_exact(&mut errno).unwrap();
    let kept = match i32::from_ne_bytes(errno) {
        0 => std::fs::File::open(format!("/proc/{child}/ns/user"))
            .map_err(|error| error.raw_os_error().unwrap_or(0)),
        errno => Err(errno),
    };
    // SAFETY: the child is ours and not reaped yet.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    kept.map(OwnedFd::from)
}

fn flags(flags: i32) -> u64 {
    u64::from(flags.cast_unsigned())
}

fn mount(source: Option<&str>, target: &str, kind: &str, flags: u64) -> Result<i64, i32> {
    let [source, target, kind] =
        [source.unwrap_or("none"), target, kind].map(|text| CString::new(text).unwrap());
    let text = |text: &CString| text.as_ptr() as u64;
    sys(libc::SYS_mount, [text(&source), text(&target), text(&kind), flags, 0])
}

fn mount_with(target: &str, kind: &str, options: &str) -> Result<i64, i32> {
    let [target, kind, options] = [target, kind, options].map(|text| CString::new(text).unwrap());
    let text = |text: &CString| text.as_ptr() as u64;
    sys(libc::SYS_mount, [at(c"none"), text(&target), text(&kind), 0, text(&options)])
}

/// Becomes root of new namespaces; what is started next is the first process in them.
fn enter() -> Result<(), i32> {
    enter_with(ALL)
}

fn enter_with(kinds: i32) -> Result<(), i32> {
    sys(libc::SYS_unshare, [flags(kinds)])?;
    write_to("/proc/self/setgroups", "deny")?;
    write_to("/proc/self/uid_map", "0 1000 1")?;
    write_to("/proc/self/gid_map", "0 1000 1").map(|_| ())
}

fn failed(errno: i32) -> Verdict {
    Verdict::Open(format!("it did not become root: {}", std::io::Error::from_raw_os_error(errno)))
}

/// Runs an attempt as root of new namespaces, as the first process in them.
fn as_root(attempt: fn() -> Verdict) -> Verdict {
    enter().map_or_else(failed, |()| apart(&case("", attempt)))
}
