//! What is kept of repeated samples. The machine is noisy and the noise only ever adds, so a mean would tell more of
//! the neighbours than of us: the median stands for the usual case, the minimum for the quiet one, p90 for the bad one.

use serde::Serialize;

/// Samples in a few numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// How many samples.
    pub(crate) count: usize,
    /// The least.
    pub(crate) min: f64,
    /// Half of the samples are at most this.
    pub(crate) median: f64,
    /// Nine of ten samples are at most this.
    pub(crate) p90: f64,
}

impl Summary {
    /// None when there are no samples.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let min = *sorted.first()?;
        let middle = count / 2;
        let median =
            if count % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        // The nearest rank: a value that was measured, not one between two.
        let p90 = sorted[(count * 9).div_ceil(10) - 1];
        Some(Self { count, min, median, p90 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_an_outlier_moves_nothing_but_itself() {
        let summary = Summary::of(&[5.0, 1.0, 900.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0]).unwrap();
        assert_eq!(summary, Summary { count: 10, min: 1.0, median: 5.5, p90: 9.0 });
    }

    #[test]
    fn one_sample_is_everything() {
        assert_eq!(Summary::of(&[7.0]), Some(Summary { count: 1, min: 7.0, median: 7.0, p90: 7.0 }));
    }

    #[test]
    fn no_samples_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
    }
}
