//! Counts the pings that nobody answered.

/// A client that leaves this many pings unanswered is gone.
const UNANSWERED: u8 = 2;

/// Counts the pings that nobody answered.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    unanswered: u8,
}

/// What to do when it is time for a ping.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// Send one.
    Ping,
    /// Nobody is there.
    GiveUp,
}

impl Pulse {
    /// It is time for a ping.
    pub(super) fn beat(&mut self) -> Beat {
        if self.unanswered >= UNANSWERED {
            return Beat::GiveUp;
        }
        self.unanswered += 1;
        Beat::Ping
    }

    /// The client sent something.
    pub(super) fn heard(&mut self) {
        self.unanswered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_unanswered_pings_are_the_end() {
        let mut pulse = Pulse::default();
        assert_eq!([pulse.beat(), pulse.beat(), pulse.beat()], [Beat::Ping, Beat::Ping, Beat::GiveUp]);
        pulse.heard();
        assert_eq!(pulse.beat(), Beat::Ping);
    }
}
