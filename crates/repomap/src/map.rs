//! The map itself: the definitions that matter most, file by file, in as many bytes as there is room for.

use serde::{Deserialize, Serialize};

use crate::rank::{Task, weights};
use crate::symbols::FileSymbols;

/// Most definitions that are shown of one file, so that one large file is not the whole map.
const PER_FILE: usize = 12;

/// What a repository's files define, at one commit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// The commit.
    pub commit: String,
    /// How many files the repository has in all.
    pub total: usize,
    /// Those that were read.
    pub files: Vec<FileSymbols>,
}

impl Map {
    /// The map for a task, in at most so many bytes; None where nothing is known.
    ///
    /// The same map, task and room give the same text.
    pub fn text(&self, task: &str, room: usize) -> Option<String> {
        let weights = weights(&self.files, &Task::new(task));
        let mut ranked: Vec<(f64, usize, usize)> = Vec::new();
        for (file, of_file) in weights.iter().enumerate() {
            ranked.extend(of_file.iter().enumerate().map(|(place, weight)| (*weight, file, place)));
        }
        ranked.sort_by(|one, other| {
            other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)).then(one.2.cmp(&other.2))
        });
        // Files in the order in which their first definition comes, each with the lines that were chosen of it.
        let mut order: Vec<usize> = Vec::new();
        let mut chosen: Vec<Vec<usize>> = vec![Vec::new(); self.files.len()];
        let mut bytes = 0;
        for (_, file, place) in ranked {
            let shown = &mut chosen[file];
            if shown.len() >= PER_FILE {
                continue;
            }
            let definition = &self.files[file].definitions[place];
            if shown.iter().any(|other| self.files[file].definitions[*other].line == definition.line) {
                continue;
            }
            let head = if shown.is_empty() { self.files[file].path.len() + 1 } else { 0 };
            let cost = head + row(definition.line, &definition.text).len();
            if bytes + cost > room {
                break;
            }
            bytes += cost;
            if shown.is_empty() {
                order.push(file);
            }
            shown.push(place);
        }
        let mut text = String::with_capacity(bytes);
        for file in &order {
            text.push_str(&self.files[*file].path);
            text.push('\n');
            chosen[*file].sort_unstable();
            for place in &chosen[*file] {
                let definition = &self.files[*file].definitions[*place];
                text.push_str(&row(definition.line, &definition.text));
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

fn row(line: u32, text: &str) -> String {
    format!("{line:>6}  {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(files: &[(&str, &str)]) -> Map {
        let files = files.iter().map(|(path, text)| FileSymbols::of(path, "", text.as_bytes())).collect();
        Map { commit: String::new(), total: 0, files }
    }

    fn shop() -> Map {
        map(&[
            (
                "src/money.rs",
                "pub struct Money(i64);\nimpl Money {\n    pub fn add(self, other: Money) -> Money { self }\n}\nfn round_half_even() {}\n",
            ),
            (
                "src/cart.rs",
                "use crate::Money;\npub struct Cart;\nimpl Cart {\n    pub fn checkout_total(&self) -> Money { Money(1) }\n}\n",
            ),
            (
                "src/api.rs",
                "use crate::{Cart, Money};\nfn get(cart: Cart) -> Money { cart.checkout_total() }\n",
            ),
            ("src/print.rs", "use crate::Money;\nfn show(money: Money) {}\n"),
            ("src/lonely.rs", "fn nobody_calls_me() {}\n"),
        ])
    }

    #[test]
    fn what_others_use_comes_first() {
        let text = shop().text("Make it faster", 120).unwrap();
        let expected = "src/money.rs\n     1  pub struct Money(i64);\nsrc/cart.rs\n     4  pub fn checkout_total(&self) -> Money { Money(1) }\n";
        assert_eq!(text, expected);
        let text = shop().text("Make it faster", 4_000).unwrap();
        assert!(text.find("money.rs").unwrap() < text.find("lonely.rs").unwrap(), "{text}");
    }

    #[test]
    fn the_task_decides_with() {
        for task in ["nobody_calls_me is wrong", "look at lonely.rs", "mend src/lonely.rs please"] {
            let text = shop().text(task, 60).unwrap();
            assert!(text.starts_with("src/lonely.rs\n     1  fn nobody_calls_me()"), "{task}: {text}");
        }
    }

    #[test]
    fn the_room_is_kept_to_and_the_text_is_the_same_again() {
        for room in [0, 20, 60, 100, 200, 10_000] {
            let text = shop().text("cart", room);
            assert!(text.as_deref().map_or(0, str::len) <= room);
            assert_eq!(text, shop().text("cart", room));
        }
        assert_eq!(Map::default().text("x", 100), None);
    }
}
