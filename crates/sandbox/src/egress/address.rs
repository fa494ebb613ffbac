//! Addresses that are never let through, whatever the rules say and whatever name leads there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services of clouds that are not in a range that is refused anyway.
const METADATA: [Ipv4Addr; 1] = [Ipv4Addr::new(168, 63, 129, 16)];

/// IPv4 ranges: network, length of the prefix, what it is. Ranges for documentation are left out on purpose: nobody has
/// them, so tests can.
const V4: [(Ipv4Addr, u32, &str); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private address"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a private address of a provider's network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "a loopback address"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local address, where clouds have their metadata"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private address"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "a special-purpose address"),
    (Ipv4Addr::new(192, 31, 196, 0), 24, "a special-purpose address"),
    (Ipv4Addr::new(192, 52, 193, 0), 24, "a special-purpose address"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a relay address"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private address"),
    (Ipv4Addr::new(192, 175, 48, 0), 24, "a special-purpose address"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "an address for measurements in private networks"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast address"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "the broadcast address"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved address"),
];

/// IPv6 ranges, likewise.
const V6: [(Ipv6Addr, u32, &str); 8] = [
    (Ipv6Addr::UNSPECIFIED, 128, "no address"),
    (Ipv6Addr::LOCALHOST, 128, "a loopback address"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "a private address"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "a link-local address"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "a private address"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "a multicast address"),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, "a private address of a translator"),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, "an address that leads nowhere"),
];

/// Why an address is never let through; None if it is public.
pub(super) fn refused(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => refused_v4(v4),
        IpAddr::V6(v6) => refused_v6(v6),
    }
}

/// Why an address is never connected to, also if it is a public one; None if it may be.
pub(super) fn never(to: IpAddr) -> Option<String> {
    let to = to.to_canonical();
    if let Some(why) = refused(to) {
        return Some(why.to_owned());
    }
    match is_own(to) {
        Ok(true) => Some("an address of this machine".to_owned()),
        Ok(false) => None,
        Err(error) => Some(format!("perhaps this machine's own, which cannot be told ({error})")),
    }
}

fn refused_v4(address: Ipv4Addr) -> Option<&'static str> {
    if METADATA.contains(&address) {
        return Some("a cloud's metadata service");
    }
    let bits = address.to_bits();
    let within = |net: Ipv4Addr, prefix: u32| bits >> (32 - prefix) == net.to_bits() >> (32 - prefix);
    V4.iter().find(|(net, prefix, _)| within(*net, *prefix)).map(|(_, _, what)| *what)
}

fn refused_v6(address: Ipv6Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let within = |net: Ipv6Addr, prefix: u32| bits >> (128 - prefix) == net.to_bits() >> (128 - prefix);
    if let Some((_, _, what)) = V6.iter().find(|(net, prefix, _)| within(*net, *prefix)) {
        return Some(what);
    }
    embedded(address).into_iter().find_map(refused_v4)
}

/// The IPv4 addresses that an IPv6 address leads to through a translation or a tunnel.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    let last = v4(segments[6], segments[7]);
    match segments {
        // Mapped, compatible and translated addresses.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            vec![last]
        }
        // 6to4.
        [0x2002, high, low, ..] => vec![v4(high, low)],
        // Teredo: its server, and its client with every bit turned over.
        [0x2001, 0, high, low, ..] => vec![v4(high, low), Ipv4Addr::from_bits(!last.to_bits())],
        // ISATAP.
        [.., 0 | 0x200, 0x5efe, _, _] => vec![last],
        _ => Vec::new(),
    }
}

/// Whether an address is in a range for documentation.
fn is_documentation(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _]),
        IpAddr::V6(v6) => matches!(v6.segments(), [0x2001, 0xdb8, ..]),
    }
}

/// Whether an address is one of this machine's own, public or not: its services are not for sandboxes. An address for
/// documentation on the loopback interface does not count: there tests have what is outside for them, and no machine has
/// its services.
fn is_own(address: IpAddr) -> std::io::Result<bool> {
    let made_up = is_documentation(address);
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs writes a pointer to a list that is ours until freeifaddrs.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mut found = false;
    let mut next = list;
    while !next.is_null() {
        // SAFETY: every entry of the list is valid until freeifaddrs below.
        let entry = unsafe { &*next };
        // SAFETY: ifa_addr is null or points to a socket address that lives as long as the list.
        let same = unsafe { socket_address(entry.ifa_addr) } == Some(address);
        let loopback = entry.ifa_flags & libc::IFF_LOOPBACK.cast_unsigned() != 0;
        found |= same && !(made_up && loopback);
        next = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs and nothing of it is used afterwards.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// The address in a socket address of the system.
///
/// # Safety
/// The pointer is null or points to a whole socket address of the family that it names.
unsafe fn socket_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: it is not null, so by the caller's promise it has at least a family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says which type it is.
            let v4 = unsafe { std::ptr::read_unaligned(address.cast::<libc::sockaddr_in>()) };
            Some(Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says which type it is.
            let v6 = unsafe { std::ptr::read_unaligned(address.cast::<libc::sockaddr_in6>()) };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// The address that old resolvers read in a text such as `127.1`, `0x7f000001` or `0177.0.0.1`: one to four numbers, of
/// which the last fills what is left.
pub(super) fn spelled(text: &str) -> Option<Ipv4Addr> {
    let number = |text: &str| {
        let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None if text.len() > 1 && text.starts_with('0') => (text, 8),
            None => (text, 10),
        };
        let plain = digits.chars().all(|digit| digit.is_digit(radix));
        u32::from_str_radix(digits, radix).ok().filter(|_| plain)
    };
    let numbers: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, leading) = numbers.split_last()?;
    if leading.len() > 3 || leading.iter().any(|part| *part > 255) {
        return None;
    }
    let room = 32 - 8 * leading.len();
    if u64::from(*last) >= 1 << room {
        return None;
    }
    let high = leading.iter().enumerate().fold(0, |sum, (at, part)| sum | part << (24 - 8 * at));
    Some(Ipv4Addr::from_bits(high | last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_are_read_as_old_resolvers_do() {
        for (text, address) in [
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("203.0.113.010", "203.0.113.8"),
            ("10.0x10.257", "10.16.1.1"),
            ("4294967295", "255.255.255.255"),
        ] {
            assert_eq!(spelled(text), Some(address.parse().unwrap()), "{text}");
        }
        for text in ["", "a.1", "1.2.3.4.5", "256.1", "4294967296", "1.2.3.256", "09", "0x", "+1", "1..2"] {
            assert_eq!(spelled(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_never_let_through() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::10.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            // Teredo with a private server, and with a client that is 10.0.0.1.
            "2001:0:a00:1::ffff:fffe",
            "2001:0:808:808::f5ff:fffe",
            "2606:4700::5efe:a00:1",
        ] {
            assert!(refused(address.parse().unwrap()).is_some(), "{address}");
        }
    }

    #[test]
    fn what_is_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "2606:4700::1111",
            "2001:db8::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(refused(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn this_machines_own_addresses_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()).unwrap());
        assert!(!is_own("1.1.1.1".parse().unwrap()).unwrap());
        // What the machine has to the outside is its own whatever the range; asking for the way sends nothing.
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("1.1.1.1:9").is_ok() {
            assert!(is_own(socket.local_addr().unwrap().ip()).unwrap());
        }
    }
}
