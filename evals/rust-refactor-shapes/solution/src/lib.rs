//! Areas and perimeters of shapes, given as lines such as "rectangle 3 4".

pub mod shape;

use shape::Shape;

/// The area of the shape in each line; a line that is no shape is left out.
pub fn areas(lines: &str) -> Vec<f64> {
    shapes(lines).map(|shape| shape.area()).collect()
}

/// The perimeter of the shape in each line; a line that is no shape is left out.
pub fn perimeters(lines: &str) -> Vec<f64> {
    shapes(lines).map(|shape| shape.perimeter()).collect()
}

fn shapes(lines: &str) -> impl Iterator<Item = Shape> + '_ {
    lines.lines().filter_map(|line| line.parse().ok())
}
