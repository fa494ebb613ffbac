use median::median;

#[test]
fn the_middle_one() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[]), None);
}

#[test]
fn the_mean_of_two() {
    assert_eq!(median(&[1.0, 2.0, 3.0, 4.0]), Some(2.5));
}
