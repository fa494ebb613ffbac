//! The checksum chain of a log: each event's checksum covers the one before it, so that a flipped bit, a missing event
//! and a swapped one are all seen. It is 64-bit FNV-1a: any single changed byte is certain to show, other damage is as
//! good as certain. It finds damage, not malice: whoever can write the file can also write a fitting chain.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A checksum under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain(u64);

impl Chain {
    /// The link before the first event. It depends on the session, so that a log in the wrong place does not fit.
    pub(crate) fn genesis(session: &str) -> u64 {
        Self(OFFSET).text(session).0
    }

    /// Begins the link that follows `previous`.
    pub(crate) fn after(previous: u64) -> Self {
        Self(OFFSET).number(previous)
    }

    pub(crate) fn number(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// The length goes in first, so that bytes cannot move from one field to the next unseen.
    pub(crate) fn text(self, text: &str) -> Self {
        self.blob(text.as_bytes())
    }

    /// Like a text, of any bytes.
    pub(crate) fn blob(self, bytes: &[u8]) -> Self {
        self.number(bytes.len() as u64).bytes(bytes)
    }

    pub(crate) fn finish(self) -> u64 {
        self.0
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        assert_eq!(Chain(OFFSET).bytes(b"").0, 0xcbf2_9ce4_8422_2325);
        assert_eq!(Chain(OFFSET).bytes(b"a").0, 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Chain(OFFSET).bytes(b"foobar").0, 0x8594_4171_f739_67e8);
    }

    #[test]
    fn fields_do_not_run_together() {
        assert_ne!(
            Chain::after(1).text("ab").text("c").finish(),
            Chain::after(1).text("a").text("bc").finish()
        );
    }
}
