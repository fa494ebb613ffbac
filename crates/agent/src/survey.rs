//! Which files of a workspace a model should see first, when it cannot ask for them.

/// Endings of files that programs are made of.
const SOURCES: [&str; 22] = [
    "rs", "py", "js", "mjs", "ts", "tsx", "jsx", "go", "c", "h", "cc", "cpp", "hpp", "java", "kt", "rb",
    "php", "sh", "swift", "cs", "html", "css",
];
/// Words in names of files that are made by programs or tell little.
const NOISE: [&str; 9] = [
    ".lock",
    "package-lock.json",
    "license",
    "changelog",
    ".min.",
    "vendor/",
    "node_modules/",
    ".svg",
    ".snap",
];

/// What a name loses that is among those.
const NOISY: i32 = 20;

/// The names with those that matter most first. `hints` are words among which names of files may be: the task, and what went
/// wrong last.
pub fn files_that_matter(names: &[String], hints: &str) -> Vec<String> {
    let mut ranked: Vec<(i32, &String)> = names.iter().map(|name| (rank(name, hints), name)).collect();
    // The order of equals stays, so that the same workspace gives the same request.
    ranked.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    ranked.into_iter().map(|(_, name)| name.clone()).collect()
}

/// Whether a model is shown what is in a file of this name, and not only that there is one.
pub fn is_worth_reading(name: &str, hints: &str) -> bool {
    rank(name, hints) > -NOISY / 2
}

fn rank(path: &str, hints: &str) -> i32 {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let lower = path.to_ascii_lowercase();
    let mut rank = 0;
    if path.len() > 2 && hints.contains(path) {
        rank += 100;
    } else if name.len() > 3 && hints.contains(name) {
        rank += 60;
    } else if stem.len() > 3 && hints.contains(stem) {
        rank += 30;
    }
    if SOURCES.contains(&ending) {
        rank += 10;
    }
    if lower.contains("test") {
        rank -= 2;
    }
    if NOISE.iter().any(|noise| lower.contains(noise)) || name.starts_with('.') {
        rank -= NOISY;
    }
    let depth = i32::try_from(path.matches('/').count()).unwrap_or(i32::MAX);
    rank - depth.min(5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_comes_first_and_what_tells_little_last() {
        let names =
            ["Cargo.lock", "README.md", "src/a.rs", "src/deep/parser.rs", "tests/parser_test.rs", "main.py"];
        let names: Vec<String> = names.map(Into::into).to_vec();
        let order = files_that_matter(&names, "The parser fails: see README.md");
        assert_eq!(
            order,
            ["README.md", "src/deep/parser.rs", "main.py", "src/a.rs", "tests/parser_test.rs", "Cargo.lock"]
        );
        let shown = |name, hints| is_worth_reading(name, hints);
        assert!(shown("src/a.rs", "") && shown("notes", "") && shown(".env.example", "in .env.example"));
        assert!(!shown("Cargo.lock", "") && !shown(".gitignore", "") && !shown("a/b/LICENSE", ""));
        assert_eq!(files_that_matter(&names, ""), files_that_matter(&names, "nothing of that"));
    }
}
