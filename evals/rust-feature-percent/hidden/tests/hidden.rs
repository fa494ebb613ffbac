use percent::{half, percent};

#[test]
fn below() {
    assert_eq!((percent(-1), percent(-300), percent(i64::MIN)), (0, 0, 0));
}

#[test]
fn above() {
    assert_eq!((percent(101), percent(256), percent(i64::MAX)), (100, 100, 100));
}

#[test]
fn within_and_the_rest() {
    assert_eq!((percent(0), percent(1), percent(99), percent(100), half(-3)), (0, 1, 99, 100, -2));
}
