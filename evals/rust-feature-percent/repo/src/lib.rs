/// Half of the value, rounded down.
pub fn half(value: i64) -> i64 {
    value.div_euclid(2)
}
