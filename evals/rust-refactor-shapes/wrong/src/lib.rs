//! Areas and perimeters of shapes, given as lines such as "rectangle 3 4".

pub mod shape;

/// The area of the shape in each line; a line that is no shape is left out.
pub fn areas(lines: &str) -> Vec<f64> {
    let mut result = Vec::new();
    for line in lines.lines() {
        let parts: Vec<&str> = line.split_whitespace().collect();
        match parts.as_slice() {
            ["circle", radius] => {
                if let Ok(radius) = radius.parse::<f64>() {
                    result.push(std::f64::consts::PI * radius * radius);
                }
            }
            ["rectangle", width, height] => {
                if let (Ok(width), Ok(height)) = (width.parse::<f64>(), height.parse::<f64>()) {
                    result.push(width * height);
                }
            }
            ["square", side] => {
                if let Ok(side) = side.parse::<f64>() {
                    result.push(side * side);
                }
            }
            _ => {}
        }
    }
    result
}

/// The perimeter of the shape in each line; a line that is no shape is left out.
pub fn perimeters(lines: &str) -> Vec<f64> {
    let mut result = Vec::new();
    for line in lines.lines() {
        let parts: Vec<&str> = line.split_whitespace().collect();
        match parts.as_slice() {
            ["circle", radius] => {
                if let Ok(radius) = radius.parse::<f64>() {
                    result.push(2.0 * std::f64::consts::PI * radius);
                }
            }
            ["rectangle", width, height] => {
                if let (Ok(width), Ok(height)) = (width.parse::<f64>(), height.parse::<f64>()) {
                    result.push(2.0 * (width + height));
                }
            }
            ["square", side] => {
                if let Ok(side) = side.parse::<f64>() {
                    result.push(4.0 * side);
                }
            }
            _ => {}
        }
    }
    result
}
