//! What the host and other sandboxes have, and that nothing inside reaches it.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use launcher::spec::files;

use super::world::{World, all_hold, arm, attempt, exists, finish, judge, modest, still_answers, until};

/// Things of System V and POSIX on the host, removed at the end.
struct HostIpc {
    key: i32,
    memory: i32,
    semaphore: i32,
    queue: i32,
    name: std::ffi::CString,
}

impl HostIpc {
    fn make() -> Self {
        let key = 0x5110_0000 + i32::try_from(std::process::id() & 0xf_ffff).unwrap();
        let name = std::ffi::CString::new(format!("slipway-escape-{}", std::process::id())).unwrap();
        let make = libc::IPC_CREAT | 0o600;
        // SAFETY: these take numbers and a name that is terminated; what they make is removed on drop.
        let ipc = unsafe {
            let mode: libc::mode_t = 0o600;
            let no_attributes = std::ptr::null::<libc::c_void>();
            libc::syscall(
                libc::SYS_mq_open,
                name.as_ptr(),
                libc::O_CREAT | libc::O_RDWR,
                mode,
                no_attributes,
            );
            Self {
                key,
                memory: libc::shmget(key, 4096, make),
                semaphore: libc::semget(key, 1, make),
                queue: libc::msgget(key, make),
                name,
            }
        };
        assert!(ipc.memory >= 0 && ipc.semaphore >= 0 && ipc.queue >= 0, "the host gave no shared memory");
        std::fs::write(ipc.shared_file(), "canary").unwrap();
        ipc
    }

    fn shared_file(&self) -> String {
        format!("/dev/shm/{}", self.name.to_string_lossy())
    }
}

impl Drop for HostIpc {
    fn drop(&mut self) {
        // SAFETY: removes what `make` made; the name is terminated.
        unsafe {
            libc::shmctl(self.memory, libc::IPC_RMID, std::ptr::null_mut());
            libc::semctl(self.semaphore, 0, libc::IPC_RMID);
            libc::msgctl(self.queue, libc::IPC_RMID, std::ptr::null_mut());
            libc::syscall(libc::SYS_mq_unlink, self.name.as_ptr());
        }
        std::fs::remove_file(self.shared_file()).unwrap();
    }
}

#[tokio::test]
async fn nothing_of_the_host_can_be_reached() {
    let world = World::new();
    let sandbox = world.armed(modest()).await;
    let tcp = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let udp = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let name = format!("slipway-escape-host-{}", std::process::id());
    let in_name_only = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let outside = world.outside();
    let by_path = UnixListener::bind(outside.join("host.sock")).unwrap();
    std::fs::write(outside.join("canary"), "canary").unwrap();
    let ipc = HostIpc::make();
    let directory = world.sandbox_dir(&*sandbox);
    let facts = [
        ("HOST_TCP", tcp.local_addr().unwrap().port().to_string()),
        ("HOST_UDP", udp.local_addr().unwrap().port().to_string()),
        ("HOST_ABSTRACT", name),
        ("HOST_SOCKET", outside.join("host.sock").display().to_string()),
        ("GUEST_SOCKET", directory.join(files::SOCKET).display().to_string()),
        ("CONTROL_SOCKET", directory.join(files::CONTROL).display().to_string()),
        ("HOST_FILE", outside.join("canary").display().to_string()),
        ("HOST_PID", std::process::id().to_string()),
        ("HOST_IPC", ipc.key.to_string()),
        ("HOST_QUEUE", ipc.name.to_string_lossy().into_owned()),
    ];
    all_hold(&*sandbox, "reach", &facts).await;
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    in_name_only.set_nonblocking(true).unwrap();
    by_path.set_nonblocking(true).unwrap();
    assert!(tcp.accept().is_err() && udp.recv(&mut [0; 8]).is_err(), "something came over the network");
    assert!(in_name_only.accept().is_err() && by_path.accept().is_err(), "something came over a socket");
}

#[tokio::test]
async fn sandboxes_cannot_reach_each_other() {
    let world = World::new();
    let one = world.armed(modest()).await;
    let other = world.sandbox(modest()).await;
    arm(&*other).await;
    let pid = sandbox::Driver::list(&*world.driver)
        .await
        .unwrap()
        .iter()
        .find_map(|info| (info.id == one.id()).then_some(info.pid)?)
        .unwrap();
    let facts = [
        ("PORT", "8765".to_owned()),
        ("ABSTRACT", format!("slipway-escape-neighbour-{}", std::process::id())),
        ("KEY", (0x5120_0000 + (std::process::id() & 0xf_ffff)).to_string()),
        ("NEIGHBOUR_PID", pid.to_string()),
        ("NEIGHBOUR_DIR", world.sandbox_dir(&*one).display().to_string()),
    ];
    let mut listening = one.guest().start("listen", &attempt("listen", &facts)).await.unwrap();
    until("the neighbour to listen", async || exists(&*one, "/workspace/ready").await).await;
    all_hold(&*other, "neighbour", &facts).await;
    one.guest().close_stdin("listen").await.unwrap();
    let (text, exit) = finish(&mut listening).await;
    judge("listen", &text, &exit);
    still_answers(&*one).await;
}

/// The files of a sandbox are on the host's disk with ids that real users may have; the way to them must be closed.
#[tokio::test]
async fn files_on_the_hosts_disk_are_behind_a_closed_door() {
    use std::os::unix::fs::MetadataExt;
    let place = tempfile::tempdir().unwrap();
    // A directory that somebody made beforehand is as open as most are.
    let dir = place.path().join("data");
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let driver = sandbox::native::Native::open(&dir).unwrap();
    let spec = sandbox::Spec::new(sandbox::Stack::host(), sandbox::Life::Own, sandbox::Owner::OneOff);
    let sandbox = sandbox::Driver::create(&driver, &spec).await.unwrap();
    super::world::sh(&*sandbox, "cp /bin/sh evil; chmod 6755 evil").await;
    let layer: sandbox::LayerId = "escape-door".parse().unwrap();
    let saved = sandbox::Driver::save(&driver, spec.id, &layer, sandbox::Save::Live { like: None }).await;
    let mut found = Vec::new();
    // A layer may come to the disk a moment after it was saved.
    super::world::until("the file to be in the sandbox and in the layer", async || {
        found.clear();
        super::world::walk(&dir, &mut found);
        found.iter().filter(|path| path.ends_with("workspace/evil")).count() == 2
    })
    .await;
    let evil: Vec<_> = found.iter().filter(|path| path.ends_with("workspace/evil")).collect();
    let closed = |path: &std::path::Path| {
        path.ancestors()
            .take_while(|above| above.starts_with(&dir))
            .any(|above| above.metadata().is_ok_and(|data| data.is_dir() && data.mode() & 0o011 == 0))
    };
    let open: Vec<_> = evil.iter().filter(|path| !closed(path)).collect();
    let mut sockets = found.iter().filter(|path| path.extension().is_some_and(|end| end == "sock"));
    let open_socket = sockets.find(|path| !closed(path)).cloned();
    sandbox::Driver::remove(&driver, spec.id).await.unwrap();
    assert!(open.is_empty(), "every user of the host can run these: {open:?}");
    assert_eq!(open_socket, None, "every user of the host can talk to this");
    saved.unwrap();
}
