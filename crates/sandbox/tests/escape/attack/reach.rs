//! Reaching what is outside: the host's sockets, shared memory and queues, another sandbox's, and the network.

use std::io::Read;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::time::Duration;

use super::sys::{at, open, socket, sys};
use super::{Case, Verdict, case, fact, holds, refused};

/// Long enough for a connection on one machine; a case that waits this long fails with the wrong error.
const WAIT: Duration = Duration::from_secs(2);

fn errno(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

fn connect(address: &str, wanted: &[i32]) -> Verdict {
    let address: SocketAddr = match address.parse() {
        Ok(address) => address,
        Err(error) => return Verdict::Open(format!("no address was told: {error}")),
    };
    refused(TcpStream::connect_timeout(&address, WAIT).map(|_| 0).map_err(|error| errno(&error)), wanted)
}

fn abstract_socket(name: &str) -> Verdict {
    let address = UnixAddr::from_abstract_name(name).unwrap();
    let result = UnixStream::connect_addr(&address).map(|_| 0).map_err(|error| errno(&error));
    // The second is what Landlock says.
    refused(result, &[libc::ECONNREFUSED, libc::EPERM])
}

fn path_socket(path: &str) -> Verdict {
    let result = UnixStream::connect(path).map(|_| 0).map_err(|error| errno(&error));
    refused(result, &[libc::ENOENT, libc::EACCES])
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("a port of the host", || {
            connect(&format!("127.0.0.1:{}", fact("HOST_TCP")), &[libc::ECONNREFUSED])
        }),
        case("a port of the host, through the address of everybody", || {
            connect(&format!("0.0.0.0:{}", fact("HOST_TCP")), &[libc::ECONNREFUSED])
        }),
        case("a port of the host, by IPv6", || {
            let refusals = [libc::ECONNREFUSED, libc::ENETUNREACH, libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT];
            connect(&format!("[::1]:{}", fact("HOST_TCP")), &refusals)
        }),
        case("a datagram to the host", || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(format!("127.0.0.1:{}", fact("HOST_UDP"))).unwrap();
            // The first may be sent into the void; its refusal comes back with the second. That nothing arrived is
            // seen outside.
            drop(socket.send(b"canary"));
            refused(socket.send(b"canary").map(|_| 0).map_err(|error| errno(&error)), &[libc::ECONNREFUSED])
        }),
        case("an abstract socket of the host", || abstract_socket(&fact("HOST_ABSTRACT"))),
        case("a socket of the host by its path", || path_socket(&fact("HOST_SOCKET"))),
        case("the guest's own socket", || path_socket(&fact("GUEST_SOCKET"))),
        case("the monitor's socket", || path_socket(&fact("CONTROL_SOCKET"))),
        case("sockets of the guest in the list", || {
            let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
            let found = sockets.lines().find(|line| line.contains(".sock"));
            holds(found.is_none(), found.unwrap_or_default())
        }),
        case("a file of the host", || {
            refused(open(&fact("HOST_FILE"), libc::O_RDONLY), &[libc::ENOENT, libc::EACCES])
        }),
        case("a process of the host", || {
            let pid: u64 = fact("HOST_PID").parse().unwrap();
            if std::path::Path::new(&format!("/proc/{pid}")).exists() {
                return Verdict::Skipped("the same number is taken inside".to_owned());
            }
            refused(sys(libc::SYS_kill, [pid, 0]), &[libc::ESRCH])
        }),
        case("shared memory of the host", || shared_memory("HOST_IPC")),
        case("a semaphore of the host", || {
            let key: u64 = fact("HOST_IPC").parse().unwrap();
            refused(sys(libc::SYS_semget, [key, 0, 0]), &[libc::ENOENT])
        }),
        case("a queue of the host", || {
            let key: u64 = fact("HOST_IPC").parse().unwrap();
            refused(sys(libc::SYS_msgget, [key, 0]), &[libc::ENOENT])
        }),
        case("a POSIX queue of the host", || posix_queue("HOST_QUEUE")),
        case("a POSIX shared memory of the host", || {
            refused(open(&format!("/dev/shm/{}", fact("HOST_QUEUE")), libc::O_RDONLY), &[libc::ENOENT])
        }),
        case("an address outside", || connect("192.0.2.1:80", &[libc::ENETUNREACH])),
        case("an address outside, by IPv6", || {
            connect("[2001:db8::1]:80", &[libc::ENETUNREACH, libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT])
        }),
        case("the address of a cloud's secrets", || connect("169.254.169.254:80", &[libc::ENETUNREACH])),
    ]
}

fn shared_memory(name: &str) -> Verdict {
    let key: u64 = fact(name).parse().unwrap();
    refused(sys(libc::SYS_shmget, [key, 0, 0]), &[libc::ENOENT])
}

fn posix_queue(name: &str) -> Verdict {
    let name = std::ffi::CString::new(fact(name)).unwrap();
    let result = sys(libc::SYS_mq_open, [name.as_ptr() as u64, libc::O_RDONLY as u64, 0, 0]);
    refused(result, &[libc::ENOENT, libc::ENOSYS])
}

/// What a sandbox has that its neighbour must not reach: it stays until it is ended.
pub(super) fn listen_cases() -> Vec<Case> {
    vec![case("be there", || {
        let port: u16 = fact("PORT").parse().unwrap();
        let tcp = std::net::TcpListener::bind(("0.0.0.0", port)).unwrap();
        let udp = UdpSocket::bind(("0.0.0.0", port)).unwrap();
        let name = UnixAddr::from_abstract_name(fact("ABSTRACT")).unwrap();
        let unix = std::os::unix::net::UnixListener::bind_addr(&name).unwrap();
        let key: u64 = fact("KEY").parse().unwrap();
        let memory = sys(libc::SYS_shmget, [key, 4096, libc::IPC_CREAT as u64 | 0o666]).unwrap();
        std::fs::write(format!("/dev/shm/{}", fact("ABSTRACT")), "x").unwrap();
        std::fs::write("/workspace/ready", "x").unwrap();
        // Until the test has seen enough, and closes its end.
        let mut rest = String::new();
        std::io::stdin().read_to_string(&mut rest).unwrap();
        for (what, listening) in [("tcp", tcp.set_nonblocking(true)), ("unix", unix.set_nonblocking(true))] {
            assert!(listening.is_ok(), "{what}");
        }
        udp.set_nonblocking(true).unwrap();
        let came = tcp.accept().is_ok() || unix.accept().is_ok() || udp.recv(&mut [0; 8]).is_ok();
        sys(libc::SYS_shmctl, [memory.cast_unsigned(), libc::IPC_RMID as u64, 0]).unwrap();
        holds(!came, "somebody came")
    })]
}

/// From the other sandbox.
pub(super) fn neighbour_cases() -> Vec<Case> {
    vec![
        case("a port of a neighbour", || {
            connect(&format!("127.0.0.1:{}", fact("PORT")), &[libc::ECONNREFUSED])
        }),
        case("a datagram to a neighbour", || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(format!("127.0.0.1:{}", fact("PORT"))).unwrap();
            drop(socket.send(b"canary"));
            refused(socket.send(b"canary").map(|_| 0).map_err(|error| errno(&error)), &[libc::ECONNREFUSED])
        }),
        case("an abstract socket of a neighbour", || abstract_socket(&fact("ABSTRACT"))),
        case("shared memory of a neighbour", || shared_memory("KEY")),
        case("files in memory of a neighbour", || {
            refused(open(&format!("/dev/shm/{}", fact("ABSTRACT")), libc::O_RDONLY), &[libc::ENOENT])
        }),
        case("files of a neighbour", || refused(open("/workspace/ready", libc::O_RDONLY), &[libc::ENOENT])),
        case("processes of a neighbour", || {
            let pid: u64 = fact("NEIGHBOUR_PID").parse().unwrap();
            if std::path::Path::new(&format!("/proc/{pid}")).exists() {
                return Verdict::Skipped("the same number is taken inside".to_owned());
            }
            let signal = sys(libc::SYS_kill, [pid, libc::SIGKILL as u64]);
            let trace = sys(libc::SYS_ptrace, [u64::from(libc::PTRACE_ATTACH), pid, 0, 0]);
            match refused(signal, &[libc::ESRCH]) {
                Verdict::Held => refused(trace, &[libc::ESRCH, libc::EPERM]),
                open => open,
            }
        }),
        case("the directory of a neighbour", || {
            refused(open(&fact("NEIGHBOUR_DIR"), libc::O_RDONLY), &[libc::ENOENT, libc::EACCES])
        }),
        case("the list of processes", || {
            let names: Vec<String> = std::fs::read_dir("/proc")
                .unwrap()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| name.parse::<u32>().is_ok())
                .collect();
            holds(names.len() < 6, format!("{names:?}"))
        }),
    ]
}

/// In a sandbox whose connections end at the driver's sockets: what is no TCP and no question for a name goes nowhere.
pub(super) fn network_cases() -> Vec<Case> {
    vec![
        case("IPv6", || at_the_test_or_nowhere("[2001:db8::1]:80")),
        case("a private address of IPv6", || at_the_test_or_nowhere("[fd00::1]:22")),
        // It is IPv4 all the same.
        case("an IPv4 address in the form of IPv6", || at_the_test_or_nowhere("[::ffff:192.0.2.7]:80")),
        case("a listener on every address does not take what is for outside by IPv6", || {
            let Ok(own) = std::net::TcpListener::bind("[::]:8081") else {
                return Verdict::Skipped("there is no IPv6".to_owned());
            };
            own.set_nonblocking(true).unwrap();
            let verdict = at_the_test_or_nowhere("[2001:db8::9]:8081");
            match own.accept() {
                Ok(_) => Verdict::Open("it got the connection itself".to_owned()),
                Err(_) => verdict,
            }
        }),
        case("an address outside ends at the driver's socket", || ends_at_the_test("192.0.2.1:80")),
        case("the address of a cloud's secrets ends there, too", || ends_at_the_test("169.254.169.254:80")),
        case("a private address ends there, too", || ends_at_the_test("10.0.0.1:22")),
        case("a question to any name server ends there, too", || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(WAIT)).unwrap();
            socket.connect("192.0.2.53:53").unwrap();
            let mut word = [0; 64];
            let answer = socket.send(b"question").and_then(|_| socket.recv(&mut word));
            let word = answer.map(|length| String::from_utf8_lossy(&word[..length]).into_owned());
            holds(word.as_ref().is_ok_and(|word| *word == fact("WORD")), format!("{word:?}"))
        }),
        case("raw packets", || {
            refused(socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP), &[libc::EPERM])
        }),
        case("packets past the filter", || {
            refused(socket(libc::AF_PACKET, libc::SOCK_RAW, 0), &[libc::EPERM])
        }),
        case("taking the proxy's port", || {
            refused(
                std::net::TcpListener::bind("127.0.0.1:3128").map(|_| 0).map_err(|error| errno(&error)),
                &[libc::EADDRINUSE],
            )
        }),
        case("sharing the proxy's port", || share_port(3128)),
        case("a listener on every address does not take what is for outside", || {
            let own = std::net::TcpListener::bind("0.0.0.0:8080").unwrap();
            own.set_nonblocking(true).unwrap();
            let verdict = ends_at_the_test("192.0.2.9:8080");
            match own.accept() {
                Ok(_) => Verdict::Open("it got the connection itself".to_owned()),
                Err(_) => verdict,
            }
        }),
        case("an own name server cannot be made", || {
            refused(
                UdpSocket::bind("127.0.0.1:53").map(|_| 0).map_err(|error| errno(&error)),
                &[libc::EACCES, libc::EADDRINUSE],
            )
        }),
    ]
}

/// It ends at the driver's socket, or where the kernel has no way to lead it there, nowhere.
fn at_the_test_or_nowhere(address: &str) -> Verdict {
    match TcpStream::connect_timeout(&address.parse::<SocketAddr>().unwrap(), WAIT) {
        Ok(mut stream) => at_the_test(&mut stream),
        Err(error) => refused(
            Err(errno(&error)),
            &[libc::ENETUNREACH, libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT, libc::EINVAL],
        ),
    }
}

/// The test answers on the driver's sockets with a word of its own.
fn ends_at_the_test(address: &str) -> Verdict {
    match TcpStream::connect_timeout(&address.parse().unwrap(), WAIT) {
        Ok(mut stream) => at_the_test(&mut stream),
        Err(error) => Verdict::Open(format!("it went elsewhere: {error}")),
    }
}

fn at_the_test(stream: &mut TcpStream) -> Verdict {
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let mut word = String::new();
    let read = stream.read_to_string(&mut word);
    holds(word == fact("WORD") && !word.is_empty(), format!("{read:?}: {word:?}"))
}

/// A socket that allows others on its port is still a second one, of another user.
fn share_port(port: u16) -> Verdict {
    let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap().cast_unsigned();
    let one = 1_i32;
    for option in [libc::SO_REUSEADDR, libc::SO_REUSEPORT] {
        sys(libc::SYS_setsockopt, [socket, libc::SOL_SOCKET as u64, option as u64, at(&one), 4]).unwrap();
    }
    let [high, low] = port.to_be_bytes();
    let address: [u8; 16] = [2, 0, high, low, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let bound = sys(libc::SYS_bind, [socket, at(&address), 16]);
    match bound.and_then(|_| sys(libc::SYS_listen, [socket, 8])) {
        Ok(_) => Verdict::Open("it listens there, too".to_owned()),
        Err(errno) => refused(Err(errno), &[libc::EADDRINUSE]),
    }
}
