use median::median;

#[test]
fn two_in_the_middle_that_are_not_the_ends() {
    assert_eq!(median(&[1.0, 2.0, 4.0, 100.0]), Some(3.0));
}

#[test]
fn in_any_order() {
    assert_eq!(median(&[10.0, 1.0, 5.0, 2.0]), Some(3.5));
}

#[test]
fn one_and_two() {
    assert_eq!((median(&[7.0]), median(&[7.0, 8.0])), (Some(7.0), Some(7.5)));
}

#[test]
fn odd_and_none() {
    assert_eq!((median(&[9.0, 1.0, 3.0]), median(&[])), (Some(3.0), None));
}
