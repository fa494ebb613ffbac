use percent::{half, percent};

#[test]
fn halves() {
    assert_eq!(half(7), 3);
}

#[test]
fn large_values_are_limited() {
    assert_eq!(percent(50), 50);
    assert_eq!(percent(150), 100);
}
