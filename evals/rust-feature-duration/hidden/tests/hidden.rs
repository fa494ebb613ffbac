use duration::{ParseError, format, parse};

#[test]
fn without_and_with_much_space() {
    assert_eq!((parse("1h2m3s"), parse("  1h \t 3s\n")), (Ok(3723), Ok(3603)));
}

#[test]
fn counts_may_be_large() {
    assert_eq!((parse("90m"), parse("100s"), parse("1h 90m")), (Ok(5400), Ok(100), Ok(9000)));
}

#[test]
fn empty() {
    assert_eq!((parse(""), parse("  ")), (Err(ParseError::Empty), Err(ParseError::Empty)));
}

#[test]
fn bad_parts() {
    for text in ["3x", "3", "h", "-3s", "+3s", "1.5h", "1h 2", "1 h", "3 s", "1h,2m", "٣s"] {
        assert!(matches!(parse(text), Err(ParseError::BadPart(_))), "{text}: {:?}", parse(text));
    }
}

#[test]
fn order() {
    for text in ["1m 1h", "1s 1m", "1h 1h", "1m2m"] {
        assert_eq!(parse(text), Err(ParseError::Order), "{text}");
    }
}

#[test]
fn too_large() {
    for text in ["99999999999999999999s", "5124095576030432h", "18446744073709551615s", "18446744073709551615m"] {
        let expected = if text == "18446744073709551615s" { Ok(u64::MAX) } else { Err(ParseError::TooLarge) };
        assert_eq!(parse(text), expected, "{text}");
    }
    assert_eq!(parse("5124095576030431h 15s"), Ok(u64::MAX));
    assert_eq!(parse("5124095576030431h 16s"), Err(ParseError::TooLarge));
}

#[test]
fn the_error_is_one() {
    let error: Box<dyn std::error::Error> = Box::new(parse("1y").unwrap_err());
    assert!(!error.to_string().is_empty());
    assert_eq!(format(3600), "1h");
}
