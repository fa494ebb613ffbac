//! The sandbox's network: loopback, and behind every other address a socket of ours.
//!
//! There is no interface to anywhere. The kernel takes every address for its own ("AnyIP") and redirects connections to
//! listeners on loopback, which are made here, before anything runs inside, and given to the monitor. So there is nothing
//! to route around, and no packet is ever handled in user space.

mod netlink;
mod redirect;
mod route;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::fault::{Context, Fault, check};
use crate::spec::{Stage, ports};

/// Connections that nobody takes up yet wait here, also while the server restarts.
const BACKLOG: i32 = 1024;

/// The sockets of the namespace, in the order in which they are handed out: the proxy, names by datagram and by connection,
/// and, where the kernel redirects, connections and other datagrams; where it does so for IPv6 too, the connections, names
/// and other datagrams of that.
pub(crate) type Sockets = Vec<OwnedFd>;

/// Makes loopback work and, if there is to be a way out, the sockets it leads to.
pub(crate) fn build(wanted: bool) -> Result<Sockets, Fault> {
    loopback_up()?;
    if !wanted {
        return Ok(Vec::new());
    }
    let stage = Stage::Network;
    let here = Ipv4Addr::LOCALHOST.into();
    let listener4 =
        |port: u16| listener(here, port).at(stage, &format!("listening on port {port} of {here}"));
    let mut sockets = vec![
        listener4(ports::PROXY)?,
        datagrams(here, ports::NAMES).at(stage, "taking the port of names")?,
        listener4(ports::NAMES)?,
    ];
    let transparent = listener4(ports::TRANSPARENT)?;
    let others = every_datagram(here).at(stage, "taking datagrams for every address")?;
    // A kernel without IPv6 has no way there that would have to be led here.
    let six = sockets_for_ipv6().ok();
    // A kernel that cannot redirect still has the proxy; without the route, everything else is refused at once.
    if let Ok(redirected) = redirect::install(six.is_some()) {
        route::every_address_is_here(Family::V4).at(stage, "leading every address to loopback")?;
        sockets.extend([transparent, others]);
        if let Some(six) = six.filter(|_| redirected.ipv6) {
            route::every_address_is_here(Family::V6).at(stage, "leading every IPv6 address to loopback")?;
            sockets.extend(six);
        }
    }
    Ok(sockets)
}

/// A family of addresses, of each of which loopback has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    /// The kernel's number for it.
    fn number(self) -> u8 {
        match self {
            Self::V4 => libc::AF_INET as u8,
            Self::V6 => libc::AF_INET6 as u8,
        }
    }

    /// Loopback's address.
    fn loopback(self) -> Vec<u8> {
        match self {
            Self::V4 => Ipv4Addr::LOCALHOST.octets().to_vec(),
            Self::V6 => Ipv6Addr::LOCALHOST.octets().to_vec(),
        }
    }
}

fn sockets_for_ipv6() -> std::io::Result<[OwnedFd; 3]> {
    let here = Ipv6Addr::LOCALHOST.into();
    Ok([listener(here, ports::TRANSPARENT)?, datagrams(here, ports::NAMES)?, every_datagram(here)?])
}

fn listener(here: IpAddr, port: u16) -> std::io::Result<OwnedFd> {
    let listener = TcpListener::bind((here, port))?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener.into())
}

fn datagrams(here: IpAddr, port: u16) -> std::io::Result<OwnedFd> {
    Ok(UdpSocket::bind((here, port))?.into())
}

/// Takes datagrams for every address, and tells for which.
fn every_datagram(here: IpAddr) -> std::io::Result<OwnedFd> {
    let socket = datagrams(here, ports::DATAGRAMS)?;
    let (level, options) = match here {
        IpAddr::V4(_) => (libc::IPPROTO_IP, [libc::IP_RECVORIGDSTADDR, libc::IP_TRANSPARENT]),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, [libc::IPV6_RECVORIGDSTADDR, libc::IPV6_TRANSPARENT]),
    };
    for option in options {
        switch_on(&socket, level, option)?;
    }
    Ok(socket)
}

fn switch_on(socket: &OwnedFd, level: libc::c_int, option: libc::c_int) -> std::io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option takes an int, which is valid for the size that is passed.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
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
