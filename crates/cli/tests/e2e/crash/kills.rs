//! Servers that are killed: at every named place, and at any instant.

use std::time::Duration;

use super::keeper::Fate;
use super::story::Story;

/// Numbers that look random and follow from a seed.
struct Dice(u64);

impl Dice {
    /// A number below `limit`.
    fn roll(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % limit
    }
}

/// Goes on until every fate is met.
async fn play(fates: Vec<Fate>, keys: &str, pool: u32) {
    let count = fates.len();
    let mut story = Story::begin(fates, keys, pool).await;
    let mut without = 0;
    while without < 4 {
        let before = story.keeper().met();
        story.cycle().await;
        let met = story.keeper().met();
        if met == count {
            break;
        }
        without = if met == before { without + 1 } else { 0 };
    }
    let (met, left) = (story.keeper().met(), story.keeper().to_come());
    story.end().await;
    assert_eq!(met, count, "{left:?} and the one before never came");
}

/// Servers that are killed at any instant; one of four while it still takes up what the one before left.
#[expect(clippy::print_stderr, reason = "whoever wants to see it again needs the seed")]
fn any_instant(count: usize) -> Vec<Fate> {
    let seed = std::env::var("SLIPWAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(now.as_nanos() & u128::from(u32::MAX)).unwrap()
    });
    eprintln!("SLIPWAY_SEED={seed}");
    let mut dice = Dice(seed);
    let fate = |_| match dice.roll(4) {
        0 => Fate::After(Duration::from_millis(dice.roll(300))),
        _ => Fate::After(Duration::from_millis(100 + dice.roll(1500))),
    };
    (0..count).map(fate).collect()
}

#[cfg(feature = "failpoints")]
mod at_named_places {
    use failpoint::Point;

    use super::*;

    /// A share of the places, so that several tests can run beside each other.
    fn places(share: usize, of: usize, hit: u32) -> Vec<Fate> {
        let all = Point::ALL.iter().skip(share).step_by(of);
        all.map(|point| Fate::At(point.name(), hit)).collect()
    }

    #[tokio::test]
    async fn the_first_time_one_half() {
        play(places(0, 2, 1), "", 0).await;
    }

    #[tokio::test]
    async fn the_first_time_other_half() {
        play(places(1, 2, 1), "", 0).await;
    }

    #[tokio::test]
    #[ignore = "takes a minute: every place again, when it is reached for the second time"]
    async fn the_second_time() {
        play(places(0, 1, 2), "", 0).await;
    }
}

#[tokio::test]
async fn at_any_instant() {
    play(any_instant(10), "", 0).await;
}

#[tokio::test]
#[ignore = "takes minutes: hundreds of servers are killed"]
async fn at_any_instant_hundreds_of_times() {
    // Sandboxes are stopped soon, and claimed of a pool that is filled beside it.
    play(any_instant(300), "[sandbox]\nidle_s = 5\n\n", 1).await;
}

#[tokio::test]
async fn a_server_that_is_held_up() {
    let mut story =
        Story::begin(vec![Fate::Held(Duration::from_millis(700), Duration::from_secs(3))], "", 0).await;
    story.cycle().await;
    story.end().await;
}
