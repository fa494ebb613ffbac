//! Whether a server cuts conversations in silence. It answers as if nothing were missing; only the number of tokens that it
//! says it read does not grow any more with what it is sent.

/// Windows are set to multiples of this.
const STEP: u64 = 256;
/// Fewer tokens than any window has, and fewer for a thousand bytes than any text: who reports so few counts something else.
const TOKENS: u64 = 1024;
const RATE: u64 = 60;

/// A request: its bytes, and the tokens that its server says it read.
#[derive(Debug, Clone, Copy)]
struct Read {
    bytes: u64,
    tokens: u64,
}

/// What an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing to doubt.
    Whole,
    /// Too few tokens for so many bytes; the next answer will tell.
    Doubtful,
    /// The server reads so many tokens and no more.
    Cut(u64),
}

/// The answers so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plateau {
    last: Option<Read>,
    /// The longest request that was read whole, as far as can be told.
    whole: Option<Read>,
    /// A longer one, of which that cannot be told.
    doubtful: Option<Read>,
}

impl Plateau {
    /// Takes the next answer: the bytes of its request, and the tokens that these were.
    pub(crate) fn saw(&mut self, bytes: u64, tokens: u64) -> Seen {
        if tokens < TOKENS || tokens.saturating_mul(1000) < bytes.saturating_mul(RATE) {
            return Seen::Whole;
        }
        let now = Read { bytes, tokens };
        let last = self.last.replace(now);
        if last.is_some_and(|last| now.is_as_round_as(last)) {
            return Seen::Cut(tokens);
        }
        let Some(whole) = self.whole else {
            self.whole = Some(now);
            return Seen::Whole;
        };
        // Who tells less than half counts only what it had not read before.
        if bytes <= whole.bytes || tokens < whole.tokens / 2 {
            return Seen::Whole;
        }
        let doubtful = self.doubtful.filter(|doubtful| doubtful.bytes < bytes);
        let grows = now.grew_since(whole, whole)
            || (tokens > whole.tokens && doubtful.is_some_and(|doubtful| now.grew_since(doubtful, whole)));
        if grows {
            (self.whole, self.doubtful) = (Some(now), None);
            return Seen::Whole;
        }
        self.doubtful = Some(now);
        match doubtful {
            Some(doubtful) if bytes - whole.bytes > whole.bytes / 10 => {
                Seen::Cut(tokens.max(doubtful.tokens).max(whole.tokens))
            }
            Some(_) | None => Seen::Doubtful,
        }
    }
}

impl Read {
    /// Whether the tokens became more with the bytes. A quarter of the usual rate is enough: there are texts of few tokens.
    fn grew_since(self, before: Self, usual: Self) -> bool {
        let more = self.tokens.saturating_sub(before.tokens);
        let bytes = self.bytes.saturating_sub(before.bytes);
        u128::from(more) * 4 * u128::from(usual.bytes) >= u128::from(bytes) * u128::from(usual.tokens)
    }

    /// Whether requests of different length were the same number of tokens, and one to which windows are set.
    fn is_as_round_as(self, other: Self) -> bool {
        self.tokens == other.tokens
            && self.tokens.is_multiple_of(STEP)
            && self.bytes.abs_diff(other.bytes) > self.bytes / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a series of answers shows, until one shows a cut.
    fn cut(reads: impl IntoIterator<Item = (u64, u64)>) -> Option<(usize, u64)> {
        let mut plateau = Plateau::default();
        reads.into_iter().enumerate().find_map(|(number, (bytes, tokens))| match plateau.saw(bytes, tokens) {
            Seen::Cut(tokens) => Some((number, tokens)),
            Seen::Whole | Seen::Doubtful => None,
        })
    }

    #[test]
    fn a_server_that_reads_no_further_is_noticed() {
        let sizes = (0..60).map(|step| 9000 + 1400 * step);
        let (number, tokens) = cut(sizes.clone().map(|bytes| (bytes, (bytes * 2 / 7).min(4096)))).unwrap();
        assert_eq!(tokens, 4096);
        assert!(number <= 6, "{number}: the fifth is the first that is cut");
        // One that drops whole messages reads sometimes more and sometimes less.
        let dropping = |bytes: u64| (bytes, (bytes * 2 / 7).min(4090 - bytes / 100 % 7 * 60));
        let (number, tokens) = cut(sizes.map(dropping)).unwrap();
        assert!(number <= 12 && (3600..=4090).contains(&tokens), "{number}: {tokens}");
        // In rounds the requests do not grow.
        assert_eq!(cut([(31_000, 4096), (29_000, 4096)]), Some((1, 4096)));
    }

    #[test]
    fn a_server_that_reads_all_is_not_doubted_for_long() {
        let sizes = || (0..300).map(|step| 9000 + 700 * step);
        for rate in [100, 250, 450, 1000] {
            assert_eq!(cut(sizes().map(|bytes| (bytes, bytes * rate / 1000))), None);
        }
        // Twenty thousand times the same letter are few tokens.
        let drone = |bytes: u64| (bytes, if bytes > 30_000 { bytes - 19_000 } else { bytes } / 4);
        assert_eq!(
            cut(sizes().map(|bytes| drone(if bytes > 30_000 { bytes + 20_000 } else { bytes }))),
            None
        );
        // What was read before is counted only once, or nothing that makes sense is counted at all.
        assert_eq!(cut(sizes().map(|bytes| (bytes, if bytes == 9000 { 3000 } else { 1100 }))), None);
        assert_eq!(cut(sizes().map(|bytes| (bytes, 40))), None);
        // A request that became shorter says nothing.
        assert_eq!(cut([(40_000, 10_000), (20_000, 5000), (21_000, 5200), (40_500, 10_100)]), None);
    }
}
