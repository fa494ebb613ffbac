//! The one route: every address is this machine's own.

use super::Family;
use super::netlink::Batch;

/// Of the kernel's interface, in every network namespace the first.
const LOOPBACK: u32 = 1;

const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;

/// `local 0.0.0.0/0 dev lo src 127.0.0.1`, or the same of IPv6, in the table that the kernel looks at first. Names have no
/// IPv6 addresses inside, so only programs that were given such an address come this way.
pub(super) fn every_address_is_here(family: Family) -> std::io::Result<()> {
    let (no_bits, no_service) = (0, 0);
    #[rustfmt::skip]
    let fixed = [
        family.number(), no_bits, no_bits, no_service,
        libc::RT_TABLE_LOCAL, libc::RTPROT_BOOT, libc::RT_SCOPE_HOST, libc::RTN_LOCAL,
        0, 0, 0, 0,
    ];
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut batch = Batch::default();
    batch.message(libc::RTM_NEWROUTE, flags, &fixed, |attributes| {
        attributes.bytes(RTA_OIF, &LOOPBACK.to_ne_bytes()).bytes(RTA_PREFSRC, &family.loopback());
    });
    batch.send(libc::NETLINK_ROUTE)
}
