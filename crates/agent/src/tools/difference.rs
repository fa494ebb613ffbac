//! The difference between two texts of a file, as git writes it: for people who decide on a call before it runs.

/// Lines around a change.
const AROUND: usize = 3;
/// Lines that differ up to which the shortest difference is looked for; more are told as all old lines and all new ones.
const MOST_EDITS: usize = 800;

/// What becomes of a file.
#[derive(Debug, Clone, Copy)]
pub struct Difference<'a> {
    /// Its name; the one before, where it gets another.
    pub path: &'a str,
    /// Its name afterwards, where that is another one.
    pub to: Option<&'a str>,
    /// Its text; None where it is not there.
    pub before: Option<&'a str>,
    /// Its text afterwards; None where it goes.
    pub after: Option<&'a str>,
}

impl Difference<'_> {
    /// As git writes it; empty where nothing changes.
    pub fn patch(&self) -> String {
        let to = self.to.unwrap_or(self.path);
        let (before, after) = (self.before.unwrap_or_default(), self.after.unwrap_or_default());
        if self.before.is_some() == self.after.is_some() && before == after && to == self.path {
            return String::new();
        }
        let (old, new) = (quoted('a', self.path), quoted('b', to));
        let mut text = format!("diff --git {old} {new}\n");
        match (self.before, self.after) {
            (None, _) => text.push_str("new file mode 100644\n"),
            (_, None) => text.push_str("deleted file mode 100644\n"),
            _ if to != self.path => {
                let name = |side, path: &str| quoted(side, path).replacen(&format!("{side}/"), "", 1);
                text.push_str(&format!(
                    "rename from {}\nrename to {}\n",
                    name('a', self.path),
                    name('b', to)
                ));
            }
            _ => {}
        }
        let hunks = hunks(&lines(before), &lines(after));
        if !hunks.is_empty() {
            let old = if self.before.is_some() { &old } else { "/dev/null" };
            let new = if self.after.is_some() { &new } else { "/dev/null" };
            text.push_str(&format!("--- {old}\n+++ {new}\n{hunks}"));
        }
        text
    }
}

/// A name after its side; in quotes where it has characters that would end it.
fn quoted(side: char, path: &str) -> String {
    let plain = |letter: char| !letter.is_control() && letter != '"' && letter != '\\';
    if path.chars().all(plain) {
        return format!("{side}/{path}");
    }
    let mut text = format!("\"{side}/");
    for letter in path.chars() {
        if plain(letter) {
            text.push(letter);
        } else {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                text.push_str(&format!("\\{byte:03o}"));
            }
        }
    }
    text + "\""
}

/// The lines of a text, each with its end.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same,
    Gone,
    New,
}

fn hunks(old: &[&str], new: &[&str]) -> String {
    let edits = edits(old, new);
    let mut text = String::new();
    let changed: Vec<usize> = (0..edits.len()).filter(|at| edits[*at].0 != Kind::Same).collect();
    let mut rest = changed.as_slice();
    while let Some(first) = rest.first() {
        // Changes whose surroundings touch are one piece.
        let apart = rest.windows(2).position(|two| two[1] - two[0] > 2 * AROUND + 1);
        let (piece, others) = rest.split_at(apart.map_or(rest.len(), |at| at + 1));
        let from = first.saturating_sub(AROUND);
        let until = (piece[piece.len() - 1] + AROUND + 1).min(edits.len());
        let count = |gone: Kind, range: &[(Kind, &str)]| range.iter().filter(|edit| edit.0 != gone).count();
        let start = |side: Kind, lines: usize| {
            let before = count(side, &edits[..from]);
            if lines == 0 { before } else { before + 1 }
        };
        let (olds, news) = (count(Kind::New, &edits[from..until]), count(Kind::Gone, &edits[from..until]));
        text.push_str(&format!(
            "@@ -{},{olds} +{},{news} @@\n",
            start(Kind::New, olds),
            start(Kind::Gone, news)
        ));
        for (kind, line) in &edits[from..until] {
            text.push(match kind {
                Kind::Same => ' ',
                Kind::Gone => '-',
                Kind::New => '+',
            });
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
        rest = others;
    }
    text
}

/// All lines, and what becomes of each.
fn edits<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Kind, &'a str)> {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail =
        old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old_rest, new_rest) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let same = |line: &&'a str| (Kind::Same, *line);
    let mut edits: Vec<_> = old[..head].iter().map(same).collect();
    edits.extend(shortest(old_rest, new_rest).unwrap_or_else(|| {
        let gone = old_rest.iter().map(|line| (Kind::Gone, *line));
        gone.chain(new_rest.iter().map(|line| (Kind::New, *line))).collect()
    }));
    edits.extend(old[old.len() - tail..].iter().map(same));
    edits
}

/// The shortest way from one to the other, after Myers; None where it is longer than is worth it.
fn shortest<'a>(old: &[&'a str], new: &[&'a str]) -> Option<Vec<(Kind, &'a str)>> {
    let most = MOST_EDITS.min(old.len() + new.len());
    // How far one comes in `old` on each diagonal; the middle one is that of no difference in length.
    let mut reach = vec![0_usize; 2 * most + 3];
    let mut trace: Vec<Vec<usize>> = Vec::new();
    let place = |diagonal: isize| usize::try_from(diagonal + most as isize + 1).unwrap_or_default();
    for edits in 0..=most as isize {
        trace.push(reach.clone());
        for diagonal in (-edits..=edits).step_by(2) {
            let down = diagonal == -edits
                || (diagonal != edits && reach[place(diagonal - 1)] < reach[place(diagonal + 1)]);
            let mut x = if down { reach[place(diagonal + 1)] } else { reach[place(diagonal - 1)] + 1 };
            let y_of = |x: usize| usize::try_from(x as isize - diagonal).ok();
            while let Some(y) = y_of(x)
                && x < old.len()
                && y < new.len()
                && old[x] == new[y]
            {
                x += 1;
            }
            reach[place(diagonal)] = x;
            if x >= old.len() && y_of(x).is_some_and(|y| y >= new.len()) {
                return Some(back(old, new, &trace, &place));
            }
        }
    }
    None
}

/// The way that was found, from its end.
fn back<'a>(
    old: &[&'a str],
    new: &[&'a str],
    trace: &[Vec<usize>],
    place: &dyn Fn(isize) -> usize,
) -> Vec<(Kind, &'a str)> {
    let (mut x, mut y) = (old.len(), new.len());
    let mut edits = Vec::new();
    for (number, reach) in trace.iter().enumerate().rev() {
        let (number, diagonal) = (number as isize, x as isize - y as isize);
        let down = diagonal == -number
            || (diagonal != number && reach[place(diagonal - 1)] < reach[place(diagonal + 1)]);
        let before = if down { diagonal + 1 } else { diagonal - 1 };
        let (from_x, from_y) = match number {
            0 => (0, 0),
            _ => {
                let x = reach[place(before)];
                (x, usize::try_from(x as isize - before).unwrap_or_default())
            }
        };
        while x > from_x && y > from_y {
            (x, y) = (x - 1, y - 1);
            edits.push((Kind::Same, old[x]));
        }
        if number > 0 && down {
            y -= 1;
            edits.push((Kind::New, new[y]));
        } else if number > 0 {
            x -= 1;
            edits.push((Kind::Gone, old[x]));
        }
    }
    edits.reverse();
    edits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patch(before: &str, after: &str) -> String {
        Difference { path: "a.txt", to: None, before: Some(before), after: Some(after) }.patch()
    }

    #[test]
    fn changes_have_the_lines_around_them_and_the_end_of_the_file() {
        let text = patch("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10");
        let head = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n";
        let hunk =
            "@@ -2,8 +2,9 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n+10\n\\ No newline at end of file\n";
        assert_eq!(text, format!("{head}{hunk}"));
        let far = patch(&"x\n".repeat(40), &format!("a\n{}b\n", "x\n".repeat(40)));
        assert_eq!(far.matches("@@ -").count(), 2, "{far}");
        assert!(
            far.contains("@@ -1,3 +1,4 @@\n+a\n x\n") && far.ends_with("@@ -38,3 +39,4 @@\n x\n x\n x\n+b\n")
        );
        let end = patch("a\n", "a");
        assert!(end.ends_with("-a\n+a\n\\ No newline at end of file\n"), "{end}");
        assert_eq!(patch("a", "a"), "");
    }

    #[test]
    fn files_come_go_and_move() {
        let of = |to, before, after| Difference { path: "a\n\"b", to, before, after }.patch();
        let new = of(None, None, Some("x\n"));
        assert!(
            new.contains("new file mode") && new.contains("--- /dev/null\n+++ \"b/a\\012\\042b\"\n"),
            "{new}"
        );
        assert!(new.ends_with("@@ -0,0 +1,1 @@\n+x\n"), "{new}");
        let gone = of(None, Some("x\n"), None);
        assert!(gone.contains("+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"), "{gone}");
        let moved = of(Some("c"), Some("x\n"), Some("x\n"));
        assert!(moved.ends_with("rename from \"a\\012\\042b\"\nrename to c\n"), "{moved}");
        assert!(of(None, None, Some("")).ends_with("new file mode 100644\n"));
    }

    #[test]
    fn what_has_nothing_in_common_takes_no_time() {
        let many = |letter: char| (0..20_000).map(|n| format!("{letter}{n}\n")).collect::<String>();
        let text = patch(&many('a'), &many('b'));
        assert_eq!(text.lines().count(), 3 + 1 + 40_000);
    }

    proptest! {
        #[test]
        fn both_texts_are_in_the_difference(old in "[ab\n]{0,40}", new in "[ab\n]{0,40}") {
            let (old, new) = (lines(&old), lines(&new));
            let edits = edits(&old, &new);
            let side = |other: Kind| edits.iter().filter(|edit| edit.0 != other).map(|edit| edit.1).collect::<Vec<_>>();
            prop_assert_eq!(side(Kind::New), old);
            prop_assert_eq!(side(Kind::Gone), new);
        }
    }
}
