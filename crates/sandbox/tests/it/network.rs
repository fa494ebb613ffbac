//! Connections out of a sandbox end at sockets that the driver hands out, and nowhere else.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use sandbox::native::Native;
use sandbox::{Driver, Life, Network, Owner, Sandbox, Spec, Stack, egress};

use crate::{Host, sh};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn spec(life: Life) -> Spec {
    Spec { network: Network::Egress, ..Spec::new(Stack::host(), life, Owner::OneOff) }
}

async fn sockets(sandbox: &Arc<dyn Sandbox>) -> egress::Sockets {
    let sockets = sandbox.sockets().await.unwrap().unwrap();
    sockets.dns.set_read_timeout(PATIENCE).unwrap();
    if let Some(datagrams) = &sockets.datagrams {
        datagrams.set_read_timeout(PATIENCE).unwrap();
    }
    sockets
}

/// Where a redirected connection wanted to go.
fn original(stream: &TcpStream) -> SocketAddr {
    // SAFETY: an all-zero sockaddr_in is a valid value.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: the address is writable for the length that is passed.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_IP,
            libc::SO_ORIGINAL_DST,
            (&raw mut address).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
    SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into()
}

/// Takes one connection, reads a line and answers it.
fn answer(listener: TcpListener, seen: impl FnOnce(&TcpStream)) -> String {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(PATIENCE).unwrap();
    seen(&stream);
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    (&stream).write_all(b"from outside\n").unwrap();
    line
}

fn talk(host: &str, port: u16) -> String {
    format!("bash -c 'exec 3<>/dev/tcp/{host}/{port} && echo hello >&3 && read line <&3 && echo $line'")
}

#[tokio::test]
async fn connections_to_any_address_arrive_with_where_they_wanted_to_go() {
    let host = Host::new();
    let sandbox = host.driver.create(&spec(Life::Tied)).await.unwrap();
    let sockets = sockets(&sandbox).await;
    let proxy = std::thread::spawn(move || answer(sockets.proxy, |_| {}));
    let (text, _) = sh(&*sandbox, &talk("127.0.0.1", egress::PROXY_PORT)).await;
    assert_eq!((text.as_str(), proxy.join().unwrap().as_str()), ("from outside", "hello\n"));
    let Some(transparent) = sockets.transparent else {
        println!("skipped: this kernel cannot redirect");
        return;
    };
    let redirected = std::thread::spawn(move || {
        answer(transparent, |stream| assert_eq!(original(stream), "192.0.2.7:443".parse().unwrap()))
    });
    let (text, _) = sh(&*sandbox, &talk("192.0.2.7", 443)).await;
    assert_eq!((text.as_str(), redirected.join().unwrap().as_str()), ("from outside", "hello\n"));
    let Some(ipv6) = sockets.ipv6 else {
        let (text, exit) = sh(&*sandbox, "bash -c 'echo > /dev/tcp/2001:db8::1/443' 2>&1").await;
        assert_ne!(exit.code, 0, "there is no way out over IPv6: {text}");
        return;
    };
    let redirected = std::thread::spawn(move || {
        answer(ipv6.transparent, |stream| {
            let to = rustix::net::sockopt::ipv6_original_dst(stream).unwrap();
            assert_eq!(to, "[2001:db8::1]:443".parse().unwrap());
        })
    });
    let (text, _) = sh(&*sandbox, &talk("2001:db8::1", 443)).await;
    assert_eq!((text.as_str(), redirected.join().unwrap().as_str()), ("from outside", "hello\n"));
}

const ASK: &str = r#"
import socket, sys
def ask(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.connect(address)
    s.send(b"question")
    print(s.recv(100).decode())
"#;

#[tokio::test]
async fn questions_for_names_and_other_datagrams_arrive() {
    let host = Host::new();
    let sandbox = host.driver.create(&spec(Life::Tied)).await.unwrap();
    let sockets = sockets(&sandbox).await;
    let serve = |socket: UdpSocket, times: usize| {
        std::thread::spawn(move || {
            for _ in 0..times {
                let mut question = [0; 100];
                let (length, from) = socket.recv_from(&mut question).unwrap();
                assert_eq!(&question[..length], b"question");
                socket.send_to(b"answer", from).unwrap();
            }
        })
    };
    let redirects = sockets.transparent.is_some();
    let names = serve(sockets.dns, if redirects { 2 } else { 1 });
    let (text, _) = sh(&*sandbox, "cat /etc/resolv.conf").await;
    assert_eq!(text, "nameserver 127.0.0.1");
    let (text, exit) = sh(&*sandbox, &format!("python3 -c '{ASK}\nask((\"127.0.0.1\", 53))'")).await;
    assert_eq!((text.as_str(), exit.code), ("answer", 0));
    if redirects {
        let (text, exit) = sh(&*sandbox, &format!("python3 -c '{ASK}\nask((\"198.51.100.1\", 53))'")).await;
        assert_eq!((text.as_str(), exit.code), ("answer", 0));
        let others = sockets.datagrams.unwrap();
        let (text, exit) = sh(&*sandbox, "bash -c 'echo -n other > /dev/udp/198.51.100.1/4500'").await;
        assert_eq!(exit.code, 0, "{text}");
        let mut datagram = [0; 100];
        let length = others.recv(&mut datagram).unwrap();
        assert_eq!(&datagram[..length], b"other");
    }
    names.join().unwrap();
}

const THEFT: &str = r#"
import socket
for port in (3128, 61129, 61130, 53):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for address in ("127.0.0.1", "0.0.0.0"):
            s = socket.socket(socket.AF_INET, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            try:
                s.bind((address, port))
                if kind == socket.SOCK_STREAM:
                    s.listen()
                print(address, port, kind.name)
            except OSError:
                pass
"#;

#[tokio::test]
async fn programs_inside_cannot_take_the_ports() {
    let host = Host::new();
    let sandbox = host.driver.create(&spec(Life::Tied)).await.unwrap();
    if sockets(&sandbox).await.transparent.is_none() {
        println!("skipped: this kernel cannot redirect");
        return;
    }
    let (text, exit) = sh(&*sandbox, &format!("python3 -c '{}'", THEFT.replace('\'', "\""))).await;
    assert_eq!(exit.code, 0, "{text}");
    // Those of the other protocol are nobody's.
    let stolen = |line: &&str| {
        let ours = ["3128 SOCK_STREAM", "61129 SOCK_STREAM", "61130 SOCK_DGRAM"];
        line.contains(" 53 ") || ours.iter().any(|port| line.ends_with(port))
    };
    assert_eq!(text.lines().filter(stolen).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[tokio::test]
async fn connections_wait_for_a_server_that_restarts() {
    let host = Host::new();
    let sandbox = host.driver.create(&spec(Life::Own)).await.unwrap();
    let id = sandbox.id();
    drop(sockets(&sandbox).await);
    let waiting = tokio::spawn(async move { sh(&*sandbox, &talk("127.0.0.1", egress::PROXY_PORT)).await });
    // Another driver on the same directory is what a restarted server has.
    let driver = Native::open(host.dir.path()).unwrap();
    let again = driver.adopt(id).await.unwrap();
    let proxy = sockets(&again).await.proxy;
    let said = tokio::task::spawn_blocking(move || answer(proxy, |_| {})).await.unwrap();
    assert_eq!((waiting.await.unwrap().0.as_str(), said.as_str()), ("from outside", "hello\n"));
    driver.remove(id).await.unwrap();
}

#[tokio::test]
async fn a_sandbox_without_a_network_has_no_sockets_and_long_paths_work() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("long".repeat(25)).join("path".repeat(25));
    std::fs::create_dir_all(&deep).unwrap();
    let driver = Native::open(&deep).unwrap();
    let alone = driver.create(&Spec::new(Stack::host(), Life::Own, Owner::OneOff)).await.unwrap();
    assert!(alone.sockets().await.unwrap().is_none());
    let connected = driver.create(&spec(Life::Own)).await.unwrap();
    assert!(connected.sockets().await.unwrap().is_some());
    driver.give(connected.id(), &Owner::Build("web".to_owned())).await.unwrap();
    for sandbox in [alone, connected] {
        driver.remove(sandbox.id()).await.unwrap();
    }
}
