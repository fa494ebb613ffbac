//! The rules that lead what goes out to our sockets, as the kernel's packet filter (nftables) takes them.
//!
//! In the words of its own program:
//!
//! ```text
//! table ip slipway {
//!     chain out {
//!         type nat hook output priority -100; policy accept;
//!         ip daddr 127.0.0.0/8 return
//!         udp dport 53 redirect to :NAMES
//!         meta l4proto tcp redirect to :TRANSPARENT
//!     }
//!     chain in {
//!         type filter hook prerouting priority -150; policy accept;
//!         ct direction reply return
//!         ip daddr 127.0.0.0/8 return
//!         meta l4proto udp tproxy to 127.0.0.1:DATAGRAMS accept
//!     }
//! }
//! ```
//!
//! and the same in `table ip6 slipway`, with `::1` for loopback.
//!
//! Of a redirected connection the kernel remembers where it wanted to go; of a redirected datagram it does not tell. So
//! datagrams are handed to our socket unchanged as they come back in over loopback. A kernel that cannot do that redirects
//! them too.

use super::Family;
use super::netlink::{Attributes, Batch};
use crate::spec::ports;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;

const TABLE: &str = "slipway";
/// A place in the path of a packet, and what happens there.
struct Chain {
    family: Family,
    name: &'static str,
    kind: &'static str,
    hook: u32,
    priority: i32,
    rules: Vec<Vec<Step>>,
}

/// As a packet leaves a local process, before anything else translates addresses.
const HOOK_OUTPUT: u32 = 3;
const TRANSLATION: i32 = -100;
/// As a packet arrives, once it is known which connection it belongs to.
const HOOK_PREROUTING: u32 = 0;
const MANGLING: i32 = -150;
const ACCEPT: i32 = 1;
const RETURN: i32 = -5;

const VERDICT: u32 = 0;
const REGISTER: u32 = 1;
const SECOND_REGISTER: u32 = 2;

/// Parts of a packet.
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const DESTINATION_ADDRESS: u32 = 16;
const DESTINATION_ADDRESS_OF_IPV6: u32 = 24;
const DESTINATION_PORT: u32 = 2;
const L4PROTO: u32 = 16;
const DIRECTION: u32 = 1;
const REPLY: u8 = 1;

/// One step of a rule.
enum Step {
    /// Goes on if so many bytes of the packet are these.
    Packet(u32, u32, Vec<u8>),
    /// Goes on if it is of this protocol.
    Protocol(libc::c_int),
    /// Goes on if it answers another.
    Answer,
    /// Leaves the packet alone.
    LeaveAlone,
    /// Leads it to this port of ours.
    Redirect(u16),
    /// Hands it, as it is, to the socket at this port of ours.
    HandOver(Family, u16),
}

/// What is led to our sockets.
pub(super) struct Redirected {
    /// Whether that is so for IPv6, too.
    pub(super) ipv6: bool,
}

/// Makes the tables: that of IPv4, all of it or nothing, and if it is wanted and can be that of IPv6.
pub(super) fn install(ipv6: bool) -> std::io::Result<Redirected> {
    use Family::{V4, V6};
    if ipv6 && make(&[leaving(V4, false), arriving(V4), leaving(V6, false), arriving(V6)]).is_ok() {
        return Ok(Redirected { ipv6: true });
    }
    make(&[leaving(V4, false), arriving(V4)]).or_else(|_| make(&[leaving(V4, true)]))?;
    Ok(Redirected { ipv6: false })
}

fn to_itself(family: Family) -> Vec<Step> {
    let loopback = match family {
        Family::V4 => Step::Packet(NETWORK_HEADER, DESTINATION_ADDRESS, vec![127]),
        Family::V6 => Step::Packet(NETWORK_HEADER, DESTINATION_ADDRESS_OF_IPV6, family.loopback()),
    };
    vec![loopback, Step::LeaveAlone]
}

fn leaving(family: Family, datagrams: bool) -> Chain {
    use Step::{Packet, Protocol, Redirect};
    let mut rules = vec![
        to_itself(family),
        vec![
            Protocol(libc::IPPROTO_UDP),
            Packet(TRANSPORT_HEADER, DESTINATION_PORT, vec![0, 53]),
            Redirect(ports::NAMES),
        ],
        vec![Protocol(libc::IPPROTO_TCP), Redirect(ports::TRANSPARENT)],
    ];
    if datagrams {
        rules.push(vec![Protocol(libc::IPPROTO_UDP), Redirect(ports::DATAGRAMS)]);
    }
    Chain { family, name: "out", kind: "nat", hook: HOOK_OUTPUT, priority: TRANSLATION, rules }
}

fn arriving(family: Family) -> Chain {
    let rules = vec![
        vec![Step::Answer, Step::LeaveAlone],
        to_itself(family),
        vec![Step::Protocol(libc::IPPROTO_UDP), Step::HandOver(family, ports::DATAGRAMS)],
    ];
    Chain { family, name: "in", kind: "filter", hook: HOOK_PREROUTING, priority: MANGLING, rules }
}

fn make(chains: &[Chain]) -> std::io::Result<()> {
    let mut batch = Batch::default();
    let version = 0;
    // The family and, for the borders of the batch, the subsystem with its most significant byte first.
    let border = [libc::AF_UNSPEC as u8, version, 0, SUBSYSTEM as u8];
    let make = libc::NLM_F_REQUEST | libc::NLM_F_CREATE | libc::NLM_F_ACK;
    batch.message(BATCH_BEGIN, libc::NLM_F_REQUEST, &border, |_| {});
    let mut before = None;
    for Chain { family, name, kind, hook, priority, rules } in chains {
        let fixed = [family.number(), version, 0, 0];
        if before.replace(*family) != Some(*family) {
            batch.message(NEW_TABLE, make, &fixed, |table| {
                table.name(1, TABLE);
            });
        }
        batch.message(NEW_CHAIN, make, &fixed, |chain| {
            let place = |place: &mut Attributes<'_>| {
                place.number(1, *hook).number(2, *priority as u32);
            };
            chain.name(1, TABLE).name(3, name).nest(4, place).number(5, ACCEPT as u32).name(7, kind);
        });
        for steps in rules {
            batch.message(NEW_RULE, make | libc::NLM_F_APPEND, &fixed, |rule| {
                rule.name(1, TABLE).name(2, name).nest(4, |list| {
                    for step in steps {
                        step.write(list);
                    }
                });
            });
        }
    }
    batch.message(BATCH_END, libc::NLM_F_REQUEST, &border, |_| {});
    batch.send(libc::NETLINK_NETFILTER)
}

impl Step {
    fn write(&self, list: &mut Attributes<'_>) {
        match self {
            Self::Packet(part, offset, wanted) => {
                expression(list, "payload", |load| {
                    load.number(1, REGISTER)
                        .number(2, *part)
                        .number(3, *offset)
                        .number(4, wanted.len() as u32);
                });
                equals(list, wanted);
            }
            Self::Protocol(protocol) => {
                expression(list, "meta", |load| {
                    load.number(1, REGISTER).number(2, L4PROTO);
                });
                equals(list, &[*protocol as u8]);
            }
            Self::Answer => {
                expression(list, "ct", |load| {
                    load.number(1, REGISTER).number(2, DIRECTION);
                });
                equals(list, &[REPLY]);
            }
            Self::LeaveAlone => decide(list, RETURN),
            Self::Redirect(port) => {
                put(list, REGISTER, &port.to_be_bytes());
                expression(list, "redir", |redirect| {
                    redirect.number(1, REGISTER);
                });
            }
            Self::HandOver(family, port) => {
                put(list, REGISTER, &family.loopback());
                put(list, SECOND_REGISTER, &port.to_be_bytes());
                expression(list, "tproxy", |socket| {
                    socket.number(1, family.number().into()).number(2, REGISTER).number(3, SECOND_REGISTER);
                });
                decide(list, ACCEPT);
            }
        }
    }
}

/// Puts bytes where a later expression finds them.
fn put(list: &mut Attributes<'_>, register: u32, bytes: &[u8]) {
    expression(list, "immediate", |load| {
        load.number(1, register).nest(2, |data| {
            data.bytes(1, bytes);
        });
    });
}

/// Ends the way through the rules.
fn decide(list: &mut Attributes<'_>, code: i32) {
    expression(list, "immediate", |verdict| {
        verdict.number(1, VERDICT).nest(2, |data| {
            data.nest(2, |verdict| {
                verdict.number(1, code as u32);
            });
        });
    });
}

fn equals(list: &mut Attributes<'_>, wanted: &[u8]) {
    expression(list, "cmp", |compare| {
        compare.number(1, REGISTER).number(2, 0).nest(3, |data| {
            data.bytes(1, wanted);
        });
    });
}

fn expression(list: &mut Attributes<'_>, name: &str, fill: impl FnOnce(&mut Attributes<'_>)) {
    list.nest(1, |element| {
        element.name(1, name).nest(2, fill);
    });
}
