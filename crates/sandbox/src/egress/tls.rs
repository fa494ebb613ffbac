//! TLS: which name a client asks for, before anything is decrypted; and how both sides are spoken to where secrets are
//! put in.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::rules::Host;

/// The most that a client's first message may have.
pub(super) const HELLO: usize = 32 << 10;

/// What a client's first bytes are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hello {
    /// More bytes are needed.
    Partial,
    /// It is not the beginning of TLS.
    Other,
    /// It begins like TLS and is wrong.
    Malformed,
    /// It is whole; with the name that is asked for. Of an encrypted one only the outer name is seen, and counts.
    Whole(Option<Host>),
}

/// Reads a client's first message, which may come in several records.
pub(super) fn client_hello(bytes: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        if let [kind, ..] = rest
            && *kind != 0x16
        {
            return if message.is_empty() { Hello::Other } else { Hello::Malformed };
        }
        if let [_, major, ..] = rest
            && *major != 3
        {
            return if message.is_empty() { Hello::Other } else { Hello::Malformed };
        }
        let [_, _, _, high, low, after @ ..] = rest else { return Hello::Partial };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length == 0 || length > 16384 {
            return Hello::Malformed;
        }
        let whole = after.len() >= length;
        message.extend_from_slice(&after[..after.len().min(length)]);
        match message.as_slice() {
            [kind, ..] if *kind != 1 => return Hello::Malformed,
            [_, a, b, c, body @ ..] => {
                let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
                if length > HELLO {
                    return Hello::Malformed;
                }
                if body.len() >= length {
                    return match server_name(&body[..length]) {
                        Some(name) => Hello::Whole(name),
                        None => Hello::Malformed,
                    };
                }
            }
            _ => {}
        }
        if !whole {
            return Hello::Partial;
        }
        rest = &after[length..];
    }
}

/// Reads from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, width: usize) -> Option<usize> {
        Some(self.take(width)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    fn vector(&mut self, width: usize) -> Option<&'a [u8]> {
        let length = self.number(width)?;
        self.take(length)
    }
}

/// The name in the body of a client's first message; None if the message is wrong.
fn server_name(body: &[u8]) -> Option<Option<Host>> {
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    reader.vector(1)?;
    reader.vector(2)?;
    reader.vector(1)?;
    if reader.0.is_empty() {
        return Some(None);
    }
    let mut extensions = Reader(reader.vector(2)?);
    if !reader.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let content = extensions.vector(2)?;
        if kind != 0 {
            continue;
        }
        let mut content = Reader(content);
        let mut list = Reader(content.vector(2)?);
        // Two names, or two lists of names, could be read differently by us and by the server.
        if found.is_some() || !content.0.is_empty() || list.number(1)? != 0 {
            return None;
        }
        let name = std::str::from_utf8(list.vector(2)?).ok()?;
        if !list.0.is_empty() {
            return None;
        }
        found = Some(Host::parse(name).ok()?);
    }
    Some(found)
}

/// How servers outside are spoken to.
pub(super) fn client_config(roots: Arc<RootCertStore>) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// How the sandbox is spoken to in place of a server.
pub(super) fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    // Only this one: each request is read.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustls::pki_types::ServerName;

    use super::*;

    /// The first message of a real client.
    fn real(name: &str) -> Vec<u8> {
        let config = Arc::new(client_config(Arc::new(RootCertStore::empty())).unwrap());
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = rustls::ClientConnection::new(config, name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// The same message in records of a few bytes each.
    fn in_records(bytes: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&bytes[..3], &(part.len() as u16).to_be_bytes(), part].concat();
        bytes[5..].chunks(size).flat_map(record).collect()
    }

    #[test]
    fn a_real_message_is_read_however_it_is_cut() {
        let bytes = real("Api.Example.com");
        let expected = Hello::Whole(Some(Host::parse("api.example.com").unwrap()));
        assert_eq!(client_hello(&bytes), expected);
        for size in [1, 2, 3, 7, 100] {
            assert_eq!(client_hello(&in_records(&bytes, size)), expected, "records of {size}");
        }
        for length in 0..bytes.len() {
            assert_eq!(client_hello(&bytes[..length]), Hello::Partial, "{length} bytes");
        }
        // An address is not sent as a name.
        assert_eq!(client_hello(&real("192.0.2.1")), Hello::Whole(None));
    }

    #[test]
    fn what_is_no_tls_and_what_is_wrong() {
        assert_eq!(client_hello(b"SSH-2.0-x"), Hello::Other);
        assert_eq!(client_hello(b"\x16\x01"), Hello::Other);
        assert_eq!(client_hello(b"\x16\x03\x01\x00\x00"), Hello::Malformed);
        assert_eq!(client_hello(b"\x16\x03\x01\xff\xff"), Hello::Malformed);
        assert_eq!(client_hello(b"\x16\x03\x01\x00\x04\x02\x00\x00\x00"), Hello::Malformed);
        assert_eq!(client_hello(b"\x16\x03\x01\x00\x04\x01\xff\xff\xff"), Hello::Malformed);
    }

    #[test]
    fn two_names_are_wrong() {
        let bytes = real("a.test");
        let name = bytes.windows(6).position(|window| window == b"a.test").unwrap();
        let extension = bytes[name - 9..name + 6].to_vec();
        let mut doubled = bytes.clone();
        doubled.splice(name + 6..name + 6, extension);
        // All lengths around it grow by the added extension.
        let grow = |bytes: &mut Vec<u8>, at: usize| {
            let grown = u16::from_be_bytes([bytes[at], bytes[at + 1]]) + 15;
            bytes[at..at + 2].copy_from_slice(&grown.to_be_bytes());
        };
        grow(&mut doubled, 3);
        grow(&mut doubled, 7);
        let session = usize::from(doubled[43]);
        let ciphers = usize::from(u16::from_be_bytes([doubled[44 + session], doubled[45 + session]]));
        grow(&mut doubled, 46 + session + ciphers + 2);
        assert_eq!(client_hello(&doubled), Hello::Malformed);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            client_hello(&bytes);
            client_hello(&[b"\x16\x03\x01".as_slice(), &bytes].concat());
        }

        #[test]
        fn no_change_of_a_message_panics(at in 0usize..200, to in any::<u8>()) {
            let mut bytes = real("a.test");
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
            client_hello(&bytes);
        }
    }
}
