use shapes::shape::Shape;
use shapes::{areas, perimeters};

#[test]
fn every_shape() {
    let round = Shape::Circle { radius: 2.0 };
    assert!((round.area() - 12.566370614359172).abs() < 1e-9 && (round.perimeter() - 12.566370614359172).abs() < 1e-9);
    let square = Shape::Square { side: 3.0 };
    assert_eq!((square.area(), square.perimeter()), (9.0, 12.0));
    let rectangle = Shape::Rectangle { width: 1.0, height: 5.0 };
    assert_eq!((rectangle.area(), rectangle.perimeter()), (5.0, 12.0));
}

#[test]
fn parses() {
    assert_eq!("circle 2".parse::<Shape>().ok(), Some(Shape::Circle { radius: 2.0 }));
    assert_eq!("  square   1.5 ".parse::<Shape>().ok(), Some(Shape::Square { side: 1.5 }));
    assert_eq!("rectangle -1 2".parse::<Shape>().ok(), Some(Shape::Rectangle { width: -1.0, height: 2.0 }));
}

#[test]
fn refuses() {
    for text in ["", "circle", "circle x", "circle 1 2", "rectangle 1", "Circle 1", "square 1 m"] {
        assert!(text.parse::<Shape>().is_err(), "{text}");
    }
}

#[test]
fn lines_stay_as_they_were() {
    let lines = "circle 1\n\nsquare x\nsquare 2\r\nrectangle 1 2 3\nrectangle -1 2";
    assert_eq!(areas(lines), [std::f64::consts::PI, 4.0, -2.0]);
    assert_eq!(perimeters(lines), [2.0 * std::f64::consts::PI, 8.0, 2.0]);
}

#[test]
fn the_copies_are_gone() {
    let library = include_str!("../src/lib.rs");
    for left in ["\"circle\"", "\"square\"", "\"rectangle\"", "Circle", "parse::<f64>", "PI"] {
        assert!(!library.contains(left), "{left} is still in src/lib.rs");
    }
}
