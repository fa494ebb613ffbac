//! Output in which each line begins with who wrote it or when: of programs that run others beside each other, and of CI services.
//! The lines of one writer belong together, whatever stands between them.

use std::collections::HashMap;

/// Longest prefix.
const LONGEST: usize = 80;
/// Most writers: more are no writers.
const WRITERS: usize = 200;

/// The text without the beginnings of its lines, each writer's lines together; None where most lines have none.
pub(crate) fn without(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().collect();
    let written = lines.iter().filter(|line| !line.trim().is_empty()).count();
    let known = lines.iter().filter(|line| split(line).is_some()).count();
    if known < 3 || known * 5 < written * 3 {
        return None;
    }
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut texts: Vec<String> = Vec::new();
    let mut before = "";
    for line in lines {
        // What begins with nothing goes on with what is above.
        let (writer, text) = split(line).unwrap_or((before, line));
        before = writer;
        let next = texts.len();
        let place = *places.entry(writer).or_insert(next);
        if place == next {
            if next == WRITERS {
                return None;
            }
            texts.push(String::new());
        }
        if let Some(all) = texts.get_mut(place) {
            all.push_str(text);
            all.push('\n');
        }
    }
    Some(texts.concat())
}

/// Who wrote a line, or nobody where it only says when, and the line.
fn split(line: &str) -> Option<(&str, &str)> {
    if let Some(rest) = after_time(line) {
        return Some(("", rest));
    }
    let end = line.floor_char_boundary(LONGEST);
    let head = &line[..end];
    // `[backend] …`, `[0] …`
    if let Some(rest) = head.strip_prefix('[') {
        let (name, _) = rest.split_once(']')?;
        let text = &line[name.len() + 2..];
        return (is_name(name) && (text.is_empty() || text.starts_with(' ')))
            .then(|| (&line[..name.len() + 2], text.strip_prefix(' ').unwrap_or(text)));
    }
    // `backend-1  | …`
    if let Some((name, _)) = head.split_once('|').filter(|(name, _)| is_name(name.trim_end())) {
        let text = &line[name.len() + 1..];
        return name.ends_with(' ').then(|| (name, text.strip_prefix(' ').unwrap_or(text)));
    }
    // `web:test: …` and `packages/web test: …`
    let (name, _) = head.split_once(": ").or_else(|| head.strip_suffix(':').map(|name| (name, "")))?;
    let (package, task) = name.rsplit_once([':', ' '])?;
    let script = |c: char| c.is_ascii_alphabetic() || "-_".contains(c);
    let good = is_name(package) && !package.contains('.') && !task.is_empty() && task.chars().all(script);
    let text = &line[name.len() + 1..];
    good.then(|| (name, text.strip_prefix(' ').unwrap_or(text)))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "@/-_.:".contains(c))
}

/// What follows `2026-11-18T20:00:00.123Z `.
fn after_time(line: &str) -> Option<&str> {
    let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let fits = time.len() >= shape.len()
        && time.len() <= 40
        && time.bytes().zip(shape).all(|(byte, wanted)| match wanted {
            b'd' => byte.is_ascii_digit(),
            wanted => byte == *wanted,
        });
    fits.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_each_writer_come_together() {
        let output = "[a] one\n[b] 1\n[a] two\n\n[b] 2\n";
        assert_eq!(without(output).as_deref(), Some("one\ntwo\n\n1\n2\n"));
        let turbo = "web:test: one\napi:test: 1\nweb:test:   two\napi:test:\n";
        assert_eq!(without(turbo).as_deref(), Some("one\n  two\n1\n\n"));
        let pnpm = "packages/a test: one\npackages/b test: 1\npackages/a test: two\n";
        assert_eq!(without(pnpm).as_deref(), Some("one\ntwo\n1\n"));
        let compose = "web-1  | one\ndb-1   | 1\nweb-1  | two\n";
        assert_eq!(without(compose).as_deref(), Some("one\ntwo\n1\n"));
        let times = "2026-11-18T20:00:00.0000000Z one\n2026-11-18T20:00:01Z  two\n2026-11-18T20:00:01Z\n";
        assert_eq!(without(times).as_deref(), Some("one\n two\n\n"));
    }

    #[test]
    fn what_is_written_plainly_is_left() {
        for output in [
            "",
            "one\ntwo\nthree\n",
            "src/a.py:3: error: bad\nsrc/b.py:4: error: bad\nsrc/c.py:4: error: bad\n",
            "a.c:1:1: warning: x\na.c:2:1: warning: x\na.c:3:1: note: x\n",
            "[a] one\nplain\nplain\nplain\nplain\n",
        ] {
            assert_eq!(without(output), None, "{output}");
        }
    }
}
