//! Socket families, raw packets, and changing the network.

use super::sys::{at, at_mut, socket, sys};
use super::{Case, Verdict, case, holds, refused};

/// Families that a developer's programs need; all others must give no socket.
const ALLOWED: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Families that the filter itself must refuse, whether this kernel has them or not.
const FILTERED: [(&str, i32); 8] = [
    ("AF_ALG", libc::AF_ALG),
    ("AF_VSOCK", libc::AF_VSOCK),
    ("AF_PACKET", libc::AF_PACKET),
    ("AF_KEY", libc::AF_KEY),
    ("AF_XDP", libc::AF_XDP),
    ("AF_RDS", libc::AF_RDS),
    ("AF_SMC", 43),
    ("a family that is yet to be invented", 60),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, family) in FILTERED {
        for (kind_name, kind) in
            [("stream", libc::SOCK_STREAM), ("raw", libc::SOCK_RAW), ("seqpacket", libc::SOCK_SEQPACKET)]
        {
            cases.push(case(format!("{name} {kind_name}"), move || {
                refused(socket(family, kind, 0), &[libc::EPERM])
            }));
        }
        cases.push(case(format!("{name} with an ignored bit"), move || {
            let family = u64::from(family.cast_unsigned()) | 1 << 40;
            refused(sys(libc::SYS_socket, [family, libc::SOCK_SEQPACKET as u64, 0]), &[libc::EPERM])
        }));
        cases.push(case(format!("{name} pair"), move || {
            let mut pair = [0_i32; 2];
            let family = u64::from(family.cast_unsigned());
            let call = [family, libc::SOCK_SEQPACKET as u64, 0, at_mut(&mut pair)];
            refused(sys(libc::SYS_socketpair, call), &[libc::EPERM])
        }));
    }
    cases.extend([
        case("any other family", || {
            let got: Vec<String> = (1..64)
                .filter(|family| !ALLOWED.contains(family))
                .flat_map(|family| (1..=5).map(move |kind| (family, kind)))
                .filter(|(family, kind)| socket(*family, *kind, 0) != Err(libc::EPERM))
                .map(|(family, kind)| format!("family {family} kind {kind}"))
                .collect();
            holds(got.is_empty(), got.join(", "))
        }),
        case("raw IPv4", || {
            refused(socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW), &[libc::EPERM])
        }),
        case("raw ICMP", || {
            refused(socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP), &[libc::EPERM])
        }),
        case("raw IPv6", || {
            refused(
                socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_RAW),
                &[libc::EPERM, libc::EAFNOSUPPORT],
            )
        }),
        case("any other protocol of IP", || {
            let got: Vec<String> = [libc::AF_INET, libc::AF_INET6]
                .into_iter()
                .flat_map(|family| (1..=6).map(move |kind| (family, kind)))
                .flat_map(|(family, kind)| {
                    [libc::IPPROTO_SCTP, libc::IPPROTO_DCCP, libc::IPPROTO_UDPLITE, 115, 262]
                        .map(|protocol| (family, kind, protocol))
                })
                .filter(|(family, kind, protocol)| socket(*family, *kind, *protocol) != Err(libc::EPERM))
                .map(|(family, kind, protocol)| format!("family {family} kind {kind} protocol {protocol}"))
                .collect();
            holds(got.is_empty(), got.join(", "))
        }),
        case("news and questions of the kernel but those of addresses", || {
            let got: Vec<String> = (1..32)
                .filter(|family| socket(libc::AF_NETLINK, libc::SOCK_RAW, *family) != Err(libc::EPERM))
                .map(|family| family.to_string())
                .collect();
            holds(got.is_empty(), got.join(", "))
        }),
        case("sockets that programs need", || {
            let needed = [
                (libc::AF_UNIX, libc::SOCK_STREAM, 0),
                (libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::IPPROTO_TCP),
                (libc::AF_INET, libc::SOCK_DGRAM, 0),
                (libc::AF_INET6, libc::SOCK_STREAM, 0),
                (libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP),
                (libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE),
            ];
            let missing: Vec<_> = needed
                .into_iter()
                .map(|(family, kind, protocol)| (family, kind, socket(family, kind, protocol)))
                .filter(|(.., got)| matches!(got, Err(errno) if *errno != libc::EAFNOSUPPORT))
                .collect();
            let mut pair = [0_i32; 2];
            let call = [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, at_mut(&mut pair)];
            let paired = sys(libc::SYS_socketpair, call);
            holds(missing.is_empty() && paired.is_ok(), format!("{missing:?} {paired:?}"))
        }),
        case("a new route", || netlink(libc::NETLINK_ROUTE, &[route_message()], libc::EPERM)),
        case("a new interface", || {
            netlink(libc::NETLINK_ROUTE, &[link_message(libc::RTM_NEWLINK)], libc::EPERM)
        }),
        case("taking loopback down", || {
            netlink(libc::NETLINK_ROUTE, &[link_message(libc::RTM_DELLINK)], libc::EPERM)
        }),
        case("a new rule of the packet filter", || {
            let table = nft_message(0);
            netlink(libc::NETLINK_NETFILTER, &[nft_batch(16), table, nft_batch(17)], libc::EPERM)
        }),
        case("removing the packet filter", || {
            let table = nft_message(2);
            netlink(libc::NETLINK_NETFILTER, &[nft_batch(16), table, nft_batch(17)], libc::EPERM)
        }),
        case("changing an interface by ioctl", || {
            let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map(i64::cast_unsigned);
            let mut request = [0_u8; 40];
            request[..2].copy_from_slice(b"lo");
            let down = socket.and_then(|s| sys(libc::SYS_ioctl, [s, libc::SIOCSIFFLAGS, at(&request)]));
            refused(down, &[libc::EPERM])
        }),
        case("a transparent socket", || {
            let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0).map(i64::cast_unsigned);
            let one = 1_i32;
            let set = socket.and_then(|s| {
                let call = [s, libc::SOL_IP as u64, libc::IP_TRANSPARENT as u64, at(&one), 4];
                sys(libc::SYS_setsockopt, call)
            });
            refused(set, &[libc::EPERM])
        }),
        case("a mark on packets", || {
            let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0).map(i64::cast_unsigned);
            let one = 1_i32;
            let set = socket.and_then(|s| {
                let call = [s, libc::SOL_SOCKET as u64, libc::SO_MARK as u64, at(&one), 4];
                sys(libc::SYS_setsockopt, call)
            });
            refused(set, &[libc::EPERM])
        }),
        case("low ports", || {
            let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0).map(i64::cast_unsigned);
            // AF_INET, port 53 in network order, 127.0.0.1.
            let address: [u8; 16] = [2, 0, 0, 53, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
            let bound = socket.and_then(|s| sys(libc::SYS_bind, [s, at(&address), 16]));
            refused(bound, &[libc::EACCES])
        }),
        case("no interface but loopback", || {
            let devices = std::fs::read_to_string("/proc/net/dev").unwrap();
            let others: Vec<&str> = devices
                .lines()
                .filter_map(|line| Some(line.split_once(':')?.0.trim()))
                .filter(|name| *name != "lo")
                .collect();
            holds(others.is_empty(), others.join(", "))
        }),
    ]);
    cases
}

/// A message with its header: type, flags, and body.
fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + body.len()).unwrap();
    let mut message = Vec::new();
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    message.extend(body);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

const MAKE: u16 = (libc::NLM_F_ACK | libc::NLM_F_CREATE) as u16;

/// The default route through loopback.
fn route_message() -> Vec<u8> {
    let route = [libc::AF_INET as u8, 0, 0, 0, libc::RT_TABLE_MAIN, 4, 0, 1, 0, 0, 0, 0];
    let through = [8, 0, libc::RTA_OIF as u8, 0, 1, 0, 0, 0];
    message(libc::RTM_NEWROUTE, MAKE, &[&route[..], &through].concat())
}

/// About interface 1, loopback.
fn link_message(kind: u16) -> Vec<u8> {
    let mut body = [0_u8; 16];
    body[4] = 1;
    message(kind, MAKE, &body)
}

fn nft_batch(kind: u16) -> Vec<u8> {
    message(kind, 0, &[0, 0, 0, 10])
}

/// Makes (0) or removes (2) a table called `x` in family ip.
fn nft_message(what: u16) -> Vec<u8> {
    let name = [6, 0, 1, 0, b'x', 0, 0, 0];
    message(10 << 8 | what, MAKE, &[&[2, 0, 0, 0][..], &name].concat())
}

/// Sends messages and holds if the answer is this error.
fn netlink(family: i32, messages: &[Vec<u8>], wanted: i32) -> Verdict {
    let socket = match socket(libc::AF_NETLINK, libc::SOCK_RAW, family) {
        Ok(socket) => socket.cast_unsigned(),
        Err(libc::EPERM | libc::EPROTONOSUPPORT) => return Verdict::Held,
        Err(errno) => return Verdict::Open(format!("no socket: errno {errno}")),
    };
    let all = messages.concat();
    let mut kernel = [0_u8; 12];
    kernel[0] = libc::AF_NETLINK as u8;
    let sent = sys(libc::SYS_sendto, [socket, at(all.as_slice()), all.len() as u64, 0, at(&kernel), 12]);
    if let Err(errno) = sent {
        return refused(Err(errno), &[wanted]);
    }
    let mut answer = [0_u8; 4096];
    let flags = libc::MSG_DONTWAIT as u64;
    match sys(libc::SYS_recvfrom, [socket, at_mut(&mut answer), 4096, flags, 0, 0]) {
        Ok(length) if length >= 20 => {
            let error = i32::from_ne_bytes(answer[16..20].try_into().unwrap());
            holds(error == -wanted, format!("the answer is {error}"))
        }
        other => Verdict::Open(format!("no answer: {other:?}")),
    }
}
