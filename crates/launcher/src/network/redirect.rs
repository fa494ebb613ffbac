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
//!         meta l4proto udp redirect to :DATAGRAMS
//!     }
//! }
//! ```

use super::netlink::{Attributes, Batch};
use crate::spec::ports;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;

const TABLE: &str = "slipway";
const CHAIN: &str = "out";

/// Where in the path of a packet: as it leaves a local process, before anything else translates addresses.
const HOOK_OUTPUT: u32 = 3;
const PRIORITY: i32 = -100;
const ACCEPT: u32 = 1;
const RETURN: i32 = -5;

const VERDICT: u32 = 0;
const REGISTER: u32 = 1;

/// Parts of a packet.
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const DESTINATION_ADDRESS: u32 = 16;
const DESTINATION_PORT: u32 = 2;
const L4PROTO: u32 = 16;

/// One step of a rule.
enum Step {
    /// Goes on if so many bytes of the packet are these.
    Packet(u32, u32, &'static [u8]),
    /// Goes on if it is of this protocol.
    Protocol(libc::c_int),
    /// Leaves the packet alone.
    LeaveAlone,
    /// Leads it to this port of ours.
    Redirect(u16),
}

/// Makes the table, all of it or nothing.
pub(super) fn install() -> std::io::Result<()> {
    let mut batch = Batch::default();
    let version = 0;
    // The family and, for the borders of the batch, the subsystem with its most significant byte first.
    let border = [libc::AF_UNSPEC as u8, version, 0, SUBSYSTEM as u8];
    let family = [libc::AF_INET as u8, version, 0, 0];
    let make = libc::NLM_F_REQUEST | libc::NLM_F_CREATE | libc::NLM_F_ACK;
    batch.message(BATCH_BEGIN, libc::NLM_F_REQUEST, &border, |_| {});
    batch.message(NEW_TABLE, make, &family, |table| {
        table.name(1, TABLE);
    });
    batch.message(NEW_CHAIN, make, &family, |chain| {
        let hook = |hook: &mut Attributes<'_>| {
            hook.number(1, HOOK_OUTPUT).number(2, PRIORITY as u32);
        };
        chain.name(1, TABLE).name(3, CHAIN).nest(4, hook).number(5, ACCEPT).name(7, "nat");
    });
    use Step::{LeaveAlone, Packet, Protocol, Redirect};
    for steps in [
        &[Packet(NETWORK_HEADER, DESTINATION_ADDRESS, &[127]), LeaveAlone] as &[Step],
        &[
            Protocol(libc::IPPROTO_UDP),
            Packet(TRANSPORT_HEADER, DESTINATION_PORT, &[0, 53]),
            Redirect(ports::NAMES),
        ],
        &[Protocol(libc::IPPROTO_TCP), Redirect(ports::TRANSPARENT)],
        &[Protocol(libc::IPPROTO_UDP), Redirect(ports::DATAGRAMS)],
    ] {
        batch.message(NEW_RULE, make | libc::NLM_F_APPEND, &family, |rule| {
            rule.name(1, TABLE).name(2, CHAIN).nest(4, |list| {
                for step in steps {
                    step.write(list);
                }
            });
        });
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
            Self::LeaveAlone => expression(list, "immediate", |verdict| {
                verdict.number(1, VERDICT).nest(2, |data| {
                    data.nest(2, |code| {
                        code.number(1, RETURN as u32);
                    });
                });
            }),
            Self::Redirect(port) => {
                expression(list, "immediate", |load| {
                    load.number(1, REGISTER).nest(2, |data| {
                        data.bytes(1, &port.to_be_bytes());
                    });
                });
                expression(list, "redir", |redirect| {
                    redirect.number(1, REGISTER);
                });
            }
        }
    }
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
