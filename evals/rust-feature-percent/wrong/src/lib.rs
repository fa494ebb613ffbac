/// Half of the value, rounded down.
pub fn half(value: i64) -> i64 {
    value.div_euclid(2)
}

/// The value limited to the range from 0 to 100.
pub fn percent(value: i64) -> u8 {
    value.min(100) as u8
}
