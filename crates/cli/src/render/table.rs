//! Tables: columns as wide as they need to be, the last one as long as it is.

/// Formats rows under a head.
pub(crate) fn format(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut lines = vec![head.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>()];
    lines.extend(rows);
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            lines.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let format_row = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(format_row).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "long title".to_owned()], vec!["bcd".to_owned(), "x".to_owned()]];
        assert_eq!(super::format(&["id", "title"], rows), "id   title\na    long title\nbcd  x");
    }
}
