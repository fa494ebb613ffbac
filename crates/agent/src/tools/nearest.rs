//! The part of a file that looks most like a text that is not in it, for the answer to an edit that missed.

use similar::TextDiff;

use super::read::push_numbered;

/// Below this likeness a line is not worth showing.
const ALIKE: f32 = 0.6;
/// How many lines are compared letter by letter.
const COMPARED: usize = 200;
/// How many places are looked at closely.
const CANDIDATES: usize = 8;
/// Lines shown before and after the block.
const AROUND: usize = 2;
/// Most lines of a block that are compared and shown.
const BLOCK: usize = 30;
/// Bytes of a line that are compared; beyond that a line is data rather than code.
const WIDTH: usize = 300;

/// The lines of `content` nearest to `wanted`, numbered; none when nothing is similar.
pub(super) fn nearest(content: &str, wanted: &str) -> Option<String> {
    let lines: Vec<&str> = content.lines().collect();
    let wanted: Vec<&str> = wanted.lines().take(BLOCK).collect();
    // The longest line is the most telling one; the rest only decides between the places where it seems to be.
    let (anchor, telling) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    // A comparison letter by letter is dear, so only the lines that can be alike at all are compared, the likeliest first.
    let mut possible: Vec<(f32, usize)> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (shared_at_most(line.trim(), telling.trim()), index))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    possible.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut places: Vec<(f32, usize)> = possible
        .into_iter()
        .take(COMPARED)
        .map(|(_, index)| (likeness(lines[index], telling), index))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    places.sort_by(|a, b| b.0.total_cmp(&a.0));
    places.truncate(CANDIDATES);
    let block_likeness = |first: usize| {
        wanted
            .iter()
            .enumerate()
            .map(|(index, line)| likeness(lines.get(first + index).unwrap_or(&""), line))
            .sum::<f32>()
    };
    let (_, first) = places
        .into_iter()
        .map(|(_, index)| index.saturating_sub(anchor))
        .map(|first| (block_likeness(first), first))
        // The first of equals, so that the answer does not depend on the order of the search.
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    let mut text = String::new();
    let end = (first + wanted.len() + AROUND).min(lines.len());
    for (index, line) in lines.iter().enumerate().take(end).skip(first.saturating_sub(AROUND)) {
        push_numbered(&mut text, index + 1, &line[..line.floor_char_boundary(WIDTH)]);
    }
    Some(text)
}

/// From 0 (nothing in common) to 1 (the same), white space at the ends aside.
fn likeness(a: &str, b: &str) -> f32 {
    let (a, b) = (a.trim(), b.trim());
    let (a, b) = (&a[..a.floor_char_boundary(WIDTH)], &b[..b.floor_char_boundary(WIDTH)]);
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    if shared_at_most(a, b) < ALIKE { 0.0 } else { TextDiff::from_chars(a, b).ratio() }
}

/// What the likeness can hardly exceed, from the bytes alone; it spares most of the comparisons.
fn shared_at_most(a: &str, b: &str) -> f32 {
    let mut counts = [0i32; 256];
    for byte in a.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let mut shared = 0;
    for byte in b.bytes() {
        let count = &mut counts[usize::from(byte)];
        if *count > 0 {
            *count -= 1;
            shared += 1;
        }
    }
    (2 * shared) as f32 / (a.len() + b.len()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_searched_and_the_best_block_wins() {
        let mut content: String =
            (0..20_000).map(|n| format!("    let value_{n} = compute({n});\n")).collect();
        content.push_str("fn end() {\n    let total = values.sum();\n    total\n}\n");
        let block = nearest(&content, "fn end() {\n    let totals = values.sum()\n    totals\n}").unwrap();
        insta::assert_snapshot!(block, @"
        19999	    let value_19998 = compute(19998);
        20000	    let value_19999 = compute(19999);
        20001	fn end() {
        20002	    let total = values.sum();
        20003	    total
        20004	}
        ");
        assert_eq!(nearest(&content, "????"), None);
        assert_eq!(nearest("", "a"), None);
    }
}
