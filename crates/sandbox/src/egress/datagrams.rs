//! Datagrams that are no questions for names. None is let out; where they were to go is told.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::decide::{Gate, Refusal, Remedy};
use super::rules::Host;
use super::{OTHERS, UNKNOWN};

/// One destination is told of once in this time.
const QUIET: Duration = Duration::from_secs(1);

/// Destinations that are remembered for that.
const MOST: usize = 256;

/// Where a datagram was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wanted {
    Address(SocketAddr),
    /// Some kernels have forgotten it by now.
    Unknown,
    /// To one of more destinations than are remembered.
    Others,
}

/// What was told just now.
#[derive(Default)]
struct Told(HashMap<Wanted, Instant>);

impl Told {
    /// What is to be told of a datagram; None if it was told just now.
    fn now(&mut self, to: Wanted, now: Instant) -> Option<Wanted> {
        self.0.retain(|_, at| now.duration_since(*at) < QUIET);
        let to = if self.0.len() >= MOST && !self.0.contains_key(&to) { Wanted::Others } else { to };
        // What is told again and again is told once in that time, and not only when there was a pause.
        if self.0.contains_key(&to) {
            return None;
        }
        self.0.insert(to, now);
        Some(to)
    }
}

/// Serves the socket.
pub(super) async fn serve(gate: Arc<Gate>, socket: UdpSocket) {
    let ipv6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
    if let Err(error) = ask_for_destinations(socket.as_raw_fd(), ipv6) {
        tracing::warn!(%error, "where a sandbox's datagrams were to go cannot be told");
    }
    let mut told = Told::default();
    loop {
        let received = socket.async_io(Interest::READABLE, || receive(socket.as_raw_fd())).await;
        let to = match received {
            Ok(to) => to.filter(|to| !to.ip().is_loopback()).map_or(Wanted::Unknown, Wanted::Address),
            Err(error) => {
                tracing::debug!(%error, "a datagram did not arrive");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let Some(to) = told.now(to, Instant::now()) else { continue };
        let why = "UDP is not let out";
        let refusal = match to {
            Wanted::Address(to) => {
                let address = to.ip();
                let host = gate.name_of(address).unwrap_or(Host::Address(address));
                Refusal::new(host, to.port(), why, Remedy::Nothing)
            }
            Wanted::Unknown => Refusal::new(UNKNOWN, 0, why, Remedy::Nothing),
            Wanted::Others => Refusal::new(OTHERS, 0, why, Remedy::Nothing),
        };
        gate.tell(&refusal);
    }
}

fn ask_for_destinations(socket: RawFd, ipv6: bool) -> std::io::Result<()> {
    let (level, option) = match ipv6 {
        false => (libc::SOL_IP, libc::IP_RECVORIGDSTADDR),
        true => (libc::SOL_IPV6, libc::IPV6_RECVORIGDSTADDR),
    };
    let on: libc::c_int = 1;
    // SAFETY: the value is an int that lives through the call, and its size is given.
    let set = unsafe {
        libc::setsockopt(
            socket,
            level,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Takes one datagram, throws it away, and returns where it was to go, if the kernel says so.
fn receive(socket: RawFd) -> std::io::Result<Option<SocketAddr>> {
    /// Aligned as control messages must be.
    #[repr(C, align(16))]
    struct Control([u8; 128]);
    let mut control = Control([0; 128]);
    let mut byte = [0u8; 1];
    let mut slice = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    // SAFETY: all zeroes are a valid msghdr; what is used is set below.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: every pointer in the message points to memory of the given size that lives through the call.
    let received = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_DONTWAIT) };
    if received < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: recvmsg filled the message; these functions walk its control messages within their length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !next.is_null() {
        // SAFETY: it is not null, so it points to a whole header within the control messages.
        let header = unsafe { std::ptr::read_unaligned(next) };
        // SAFETY: these only add up the length of a message with so much in it.
        let [v4, v6] = [size_of::<libc::sockaddr_in>(), size_of::<libc::sockaddr_in6>()]
            .map(|length| unsafe { libc::CMSG_LEN(length as u32) } as usize);
        match (header.cmsg_level, header.cmsg_type, header.cmsg_len as usize) {
            (libc::SOL_IP, libc::IP_ORIGDSTADDR, length) if length >= v4 => {
                // SAFETY: the message is at least as long as what is read.
                let address =
                    unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(next).cast::<libc::sockaddr_in>()) };
                let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
                return Ok(Some((ip, u16::from_be(address.sin_port)).into()));
            }
            (libc::SOL_IPV6, libc::IPV6_ORIGDSTADDR, length) if length >= v6 => {
                // SAFETY: the message is at least as long as what is read.
                let address =
                    unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(next).cast::<libc::sockaddr_in6>()) };
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                return Ok(Some((ip, u16::from_be(address.sin6_port)).into()));
            }
            _ => {}
        }
        // SAFETY: the header belongs to this message.
        next = unsafe { libc::CMSG_NXTHDR(&raw const message, next) };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_destination_is_told_or_that_there_were_others() {
        let mut told = Told::default();
        let begin = Instant::now();
        let to = |n: u16| Wanted::Address((Ipv4Addr::new(192, 0, 2, 1), n).into());
        let mut all =
            |at: Instant| -> Vec<Wanted> { (0..1000).filter_map(|n| told.now(to(n), at)).collect() };
        let first = all(begin);
        assert_eq!(first.len(), MOST + 1);
        assert_eq!((first[0], first[MOST]), (to(0), Wanted::Others));
        assert_eq!(all(begin + QUIET / 2), [], "just now");
        assert_eq!(all(begin + QUIET).len(), MOST + 1, "also without a pause");
    }
}
