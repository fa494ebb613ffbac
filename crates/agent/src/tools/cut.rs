//! Cutting long text for the model. What matters of a command's output stands at its start (the command line, the
//! first error) and at its end (the summary), so both are kept.

/// Cuts long text for the model: head and tail kept, whole lines where possible, and a line that says how much is missing.
pub fn cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    // The longest that the marker can become, with a line break on each side.
    let room = max_bytes.saturating_sub(marker(text).len() + 2);
    let head = head_end(text, room / 2);
    let tail = tail_start(text, head, room - room / 2);
    let missing = marker(&text[head..tail]);
    let before = if text[..head].is_empty() || text[..head].ends_with('\n') { "" } else { "\n" };
    let after = if text[tail..].is_empty() { "" } else { "\n" };
    format!("{}{before}{missing}{after}{}", &text[..head], &text[tail..])
}

fn marker(missing: &str) -> String {
    let lines = missing.lines().count();
    let unit = if lines == 1 { "line" } else { "lines" };
    format!("[… {} bytes ({} {unit}) cut …]", grouped(missing.len()), grouped(lines))
}

/// The end of the last whole line within `budget`, unless that would give up more than half of it.
fn head_end(text: &str, budget: usize) -> usize {
    let end = text.floor_char_boundary(budget);
    match text[..end].rfind('\n') {
        Some(at) if at + 1 >= end / 2 => at + 1,
        _ => end,
    }
}

/// The start of the first whole line within the last `budget` bytes, unless that would give up more than half of them.
fn tail_start(text: &str, head: usize, budget: usize) -> usize {
    let start = text.ceil_char_boundary((text.len() - budget.min(text.len())).max(head));
    match text[start..].find('\n') {
        Some(at) if at < (text.len() - start) / 2 => start + at + 1,
        _ => start,
    }
}

/// A number with commas between its thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_text_stays_as_it_is() {
        assert_eq!(cut("a\nb\n", 4), "a\nb\n");
    }

    #[test]
    fn head_and_tail_are_whole_lines() {
        let text: String = (1..=2000).map(|n| format!("line {n}\n")).collect();
        insta::assert_snapshot!(cut(&text, 90), @"
        line 1
        line 2
        line 3
        [… 18,852 bytes (1,995 lines) cut …]
        line 1999
        line 2000
        ");
    }

    #[test]
    fn one_long_line_is_cut_inside() {
        let text = "é".repeat(1000);
        insta::assert_snapshot!(cut(&text, 60), @"
        éééééé
        [… 1,976 bytes (1 line) cut …]
        éééééé
        ");
    }

    proptest! {
        #[test]
        fn what_is_kept_and_what_is_cut_add_up(text in "([a-zé]{0,30}\n?){0,60}", max in 0usize..400) {
            let short = cut(&text, max);
            prop_assert!(short.len() <= max.max(marker(&text).len()), "{} > {max}", short.len());
            if text.len() > max {
                let (head, rest) = short.split_once("[… ").unwrap();
                let (count, rest) = rest.split_once(" bytes").unwrap();
                let tail = rest.split_once("cut …]").unwrap().1;
                let tail = tail.strip_prefix('\n').unwrap_or(tail);
                let cut: usize = count.replace(',', "").parse().unwrap();
                // The line break before the marker is the text's own or was added.
                let heads = [head, head.strip_suffix('\n').unwrap_or(head)];
                prop_assert!(heads.iter().any(|head| {
                    text.starts_with(head) && text.ends_with(tail) && head.len() + cut + tail.len() == text.len()
                }), "{short}");
            }
        }
    }
}
