/// The median of the values: the middle one when they are sorted, or the mean of the two in the middle. None without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() {
        return None;
    }
    if sorted.len() % 2 == 0 {
        return Some((sorted[0] + sorted[sorted.len() - 1]) / 2.0);
    }
    Some(sorted[sorted.len() / 2])
}
