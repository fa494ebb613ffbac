//! Shapes.

use std::str::FromStr;

/// A shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// A circle.
    Circle { radius: f64 },
    /// A rectangle.
    Rectangle { width: f64, height: f64 },
    /// A square.
    Square { side: f64 },
}

impl Shape {
    /// Its area.
    pub fn area(&self) -> f64 {
        match self {
            Self::Circle { radius } => std::f64::consts::PI * radius * radius,
            Self::Rectangle { width, height } => width * height,
            Self::Square { side } => side * side,
        }
    }

    /// Its perimeter.
    pub fn perimeter(&self) -> f64 {
        match self {
            Self::Circle { radius } => 2.0 * std::f64::consts::PI * radius,
            Self::Rectangle { width, height } => 2.0 * (width + height),
            Self::Square { side } => 4.0 * side,
        }
    }
}

/// A text that is no shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoShape;

impl FromStr for Shape {
    type Err = NoShape;

    fn from_str(text: &str) -> Result<Self, NoShape> {
        let number = |text: &str| text.parse::<f64>().map_err(|_| NoShape);
        let parts: Vec<&str> = text.split_whitespace().collect();
        match parts.as_slice() {
            ["circle", radius] => Ok(Self::Circle { radius: number(radius)? }),
            ["rectangle", width, height] => {
                Ok(Self::Rectangle { width: number(width)?, height: number(height)? })
            }
            ["square", side] => Ok(Self::Square { side: number(side)? }),
            _ => Err(NoShape),
        }
    }
}
