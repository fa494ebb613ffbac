//! The sandbox's network: loopback, and behind every other address a socket of ours.
//!
//! There is no interface to anywhere. The kernel takes every address for its own ("AnyIP") and redirects connections to
//! listeners on loopback, which are made here, before anything runs inside, and given to the monitor. So there is nothing
//! to route around, and no packet is ever handled in user space.

mod netlink;
mod redirect;
mod route;

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::fault::{Context, Fault, check};
use crate::spec::{Stage, ports};

/// Connections that nobody takes up yet wait here, also while the server restarts.
const BACKLOG: i32 = 1024;

/// The sockets of the namespace, in the order in which they are handed out: the proxy, names by datagram and by connection,
/// and, where the kernel redirects, connections and other datagrams.
pub(crate) type Sockets = Vec<OwnedFd>;

/// Makes loopback work and, if there is to be a way out, the sockets it leads to.
pub(crate) fn build(wanted: bool) -> Result<Sockets, Fault> {
    loopback_up()?;
    if !wanted {
        return Ok(Vec::new());
    }
    let stage = Stage::Network;
    let mut sockets = vec![listener(ports::PROXY)?, datagrams(ports::NAMES)?.into(), listener(ports::NAMES)?];
    let transparent = listener(ports::TRANSPARENT)?;
    let others = datagrams(ports::DATAGRAMS)?;
    switch_on(&others, libc::IP_RECVORIGDSTADDR).at(stage, "asking for the addresses of datagrams")?;
    switch_on(&others, libc::IP_TRANSPARENT).at(stage, "taking datagrams for every address")?;
    // A kernel that cannot redirect still has the proxy; without the route, everything else is refused at once.
    if redirect::install().is_ok() {
        route::every_address_is_here().at(stage, "leading every address to loopback")?;
        sockets.extend([transparent, others.into()]);
    }
    Ok(sockets)
}

fn here(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

fn listener(port: u16) -> Result<OwnedFd, Fault> {
    let listener = TcpListener::bind(here(port)).at(Stage::Network, &format!("taking port {port}"))?;
    rustix::net::listen(&listener, BACKLOG).at(Stage::Network, &format!("listening on port {port}"))?;
    Ok(listener.into())
}

fn datagrams(port: u16) -> Result<UdpSocket, Fault> {
    UdpSocket::bind(here(port)).at(Stage::Network, &format!("taking port {port}"))
}

fn switch_on(socket: &UdpSocket, option: libc::c_int) -> std::io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option takes an int, which is valid for the size that is passed.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(|_| ())
}

fn loopback_up() -> Result<(), Fault> {
    let stage = Stage::Network;
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .at(stage, "opening a socket")?;
    // SAFETY: an all-zero ifreq is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: `request` is a valid ifreq with a terminated name, and the kernel only reads it.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) })
        .at(stage, "bringing loopback up")
        .map(|_| ())
}
