use duration::{format, parse};

#[test]
fn formats() {
    assert_eq!(format(3723), "1h 2m 3s");
    assert_eq!(format(0), "0s");
}

#[test]
fn parses_what_it_formats() {
    for seconds in [0, 1, 60, 3600, 3723, 86_399] {
        assert_eq!(parse(&format(seconds)), Ok(seconds));
    }
}

#[test]
fn refuses_what_is_no_duration() {
    assert!(parse("").is_err());
    assert!(parse("3x").is_err());
}
