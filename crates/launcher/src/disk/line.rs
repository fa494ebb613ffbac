//! One limit of the disk, and how far beyond it a sandbox is.

/// What follows from a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Nothing.
    Fine,
    /// The limit was reached, again or for the first time: whoever writes is ended.
    Reached,
    /// It took more and more beyond its limit: the sandbox is ended.
    Beyond,
}

/// How much of everything was seen. What was counted is there in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// All of it.
    Whole,
    /// All but what went from one place to another meanwhile.
    Moving,
    /// Counting ended early.
    Partial,
}

/// A limit. Whoever is over it may still run what makes room, but takes hardly more: each further bit ends its processes, and
/// in the end the sandbox.
#[derive(Debug)]
pub(super) struct Line {
    limit: u64,
    /// What may be taken beyond what there is, such as to make room.
    slack: u64,
    /// How far beyond the least that there was, since the limit was reached, the sandbox is ended.
    excess: u64,
    level: Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Within the limit.
    Within,
    /// The limit was just reached; how far beyond it is shows the next count, when its processes have ended.
    Reached,
    /// Beyond it.
    Over {
        /// The least since it was reached.
        least: u64,
        /// With more than this and the slack, it is reached again.
        mark: u64,
    },
}

impl Line {
    /// With a slack and an excess that are a part of the limit, but at least this.
    pub(super) fn new(limit: u64, slack: u64, excess: u64) -> Self {
        let (slack, excess) = ((limit / 64).clamp(slack, 16 * slack), (limit / 2).max(excess));
        Self { limit, slack, excess, level: Level::Within }
    }

    /// Whether it is exceeded.
    pub(super) fn is_over(&self) -> bool {
        self.level != Level::Within
    }

    /// Whether it was just reached, and is to be counted again.
    pub(super) fn is_open(&self) -> bool {
        self.level == Level::Reached
    }

    /// More than this need not be counted.
    pub(super) fn enough(&self) -> u64 {
        match self.level {
            Level::Within => self.limit,
            // What was written before anybody looked is not known, and must not be taken for new. Yet counting has an end.
            Level::Reached => self.limit.saturating_add(self.excess.saturating_mul(16)).saturating_mul(4),
            Level::Over { least, .. } => least.saturating_add(self.excess),
        }
    }

    /// Takes in what was counted.
    pub(super) fn judge(&mut self, used: u64, sight: Sight) -> Verdict {
        let enough = self.enough();
        let (level, verdict) = match self.level {
            level if used <= self.limit => {
                (if sight == Sight::Partial { level } else { Level::Within }, Verdict::Fine)
            }
            Level::Within => (Level::Reached, Verdict::Reached),
            level if used > enough => (level, Verdict::Beyond),
            Level::Over { least, mark } if used > mark.saturating_add(self.slack) => {
                (Level::Over { least, mark: used }, Verdict::Reached)
            }
            Level::Reached if sight != Sight::Partial => {
                (Level::Over { least: used, mark: used }, Verdict::Fine)
            }
            Level::Over { least, mark } if sight == Sight::Whole => {
                (Level::Over { least: least.min(used), mark: mark.min(used) }, Verdict::Fine)
            }
            // What was not seen must not be taken for new when it is.
            level => (level, Verdict::Fine),
        };
        self.level = level;
        verdict
    }

    /// What may still be taken before something follows from it.
    pub(super) fn left(&self, used: u64) -> u64 {
        let height = match self.level {
            Level::Within => self.limit,
            Level::Reached => used,
            Level::Over { mark, .. } => mark.saturating_add(self.slack),
        };
        height.saturating_sub(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line { limit: 100, slack: 5, excess: 50, level: Level::Within }
    }

    #[test]
    fn a_limit_is_reached_again_only_by_taking_more() {
        let mut line = line();
        assert_eq!(line.judge(100, Sight::Whole), Verdict::Fine);
        assert_eq!(line.judge(101, Sight::Whole), Verdict::Reached);
        assert!(line.is_over());
        assert_eq!(
            line.judge(230, Sight::Whole),
            Verdict::Fine,
            "so much was there already when it was reached"
        );
        assert_eq!(line.judge(235, Sight::Whole), Verdict::Fine);
        assert_eq!(line.left(231), 4);
        assert_eq!(line.judge(236, Sight::Whole), Verdict::Reached);
        assert_eq!(line.judge(236, Sight::Whole), Verdict::Fine);
        assert_eq!(line.judge(150, Sight::Whole), Verdict::Fine, "room is being made");
        assert_eq!(line.judge(156, Sight::Whole), Verdict::Reached, "and is not taken again");
        assert_eq!(line.judge(99, Sight::Whole), Verdict::Fine);
        assert!(!line.is_over());
        assert_eq!(line.judge(120, Sight::Whole), Verdict::Reached);
    }

    #[test]
    fn what_was_not_seen_is_not_new_when_it_is() {
        let mut line = line();
        assert_eq!(line.judge(101, Sight::Partial), Verdict::Reached);
        assert_eq!(line.judge(120, Sight::Partial), Verdict::Fine);
        assert!(line.is_open(), "how much there is remains to be seen");
        assert_eq!(line.judge(230, Sight::Moving), Verdict::Fine);
        assert!(!line.is_open(), "there may always be something that moves");
        for sight in [Sight::Partial, Sight::Moving] {
            assert_eq!(line.judge(110, sight), Verdict::Fine);
            assert_eq!(line.judge(230, Sight::Whole), Verdict::Fine, "it was there all along");
        }
        assert_eq!(line.judge(20, Sight::Partial), Verdict::Fine);
        assert!(line.is_over());
        assert_eq!(line.judge(236, Sight::Partial), Verdict::Reached, "there is at least that much");
        assert_eq!(line.judge(281, Sight::Moving), Verdict::Beyond);
        assert_eq!(line.judge(20, Sight::Moving), Verdict::Fine);
        assert!(!line.is_over());
    }

    #[test]
    fn whoever_takes_a_little_again_and_again_comes_to_an_end() {
        let mut line = line();
        assert_eq!(line.judge(101, Sight::Whole), Verdict::Reached);
        assert_eq!(line.judge(110, Sight::Whole), Verdict::Fine);
        let mut used = 110;
        let mut reached = 0;
        loop {
            used += 6;
            match line.judge(used, Sight::Whole) {
                Verdict::Fine => panic!("{used} is more than the slack"),
                Verdict::Reached => reached += 1,
                Verdict::Beyond => break,
            }
        }
        assert_eq!((used, reached), (164, 8), "110 and the excess of 50");
        assert!(line.enough() < used);
    }

    #[test]
    fn the_slack_is_a_part_of_the_limit_within_bounds() {
        for (limit, slack, excess) in [(100, 10, 1000), (6400, 100, 3200), (1 << 20, 160, 1 << 19)] {
            let line = Line::new(limit, 10, 1000);
            assert_eq!((line.slack, line.excess), (slack, excess), "{limit}");
        }
    }
}
