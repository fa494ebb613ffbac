use shapes::shape::Shape;
use shapes::{areas, perimeters};

#[test]
fn lines() {
    let lines = "rectangle 3 4\nsquare 2\nhexagon 1\n";
    assert_eq!((areas(lines), perimeters(lines)), (vec![12.0, 4.0], vec![14.0, 8.0]));
}

#[test]
fn a_shape() {
    let shape: Shape = "rectangle 3 4".parse().unwrap_or(Shape::Square { side: 0.0 });
    assert_eq!((shape.area(), shape.perimeter()), (12.0, 14.0));
}
