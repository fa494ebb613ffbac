//! As much of YAML as files of CI need: which text stands at which place. Anchors, tags and flow mappings are text like any other.

/// One step on the way to a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The value of a key.
    Key(String),
    /// An item of a list; no two have the same number.
    Item(usize),
}

impl Step {
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Key(key) => Some(key),
            Self::Item(_) => None,
        }
    }
}

/// A text and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: Vec<Step>,
    /// Its lines; those of a list in brackets are its items.
    pub(super) lines: Vec<String>,
}

/// Every text, in order.
pub(super) fn entries(text: &str) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    // What is open, each with how far it is indented.
    let mut open: Vec<(usize, Step)> = Vec::new();
    let mut items = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let mut bare = line.trim_start();
        let outer = line.len() - bare.len();
        if bare.is_empty() || bare.starts_with('#') || bare.starts_with("---") {
            continue;
        }
        let mut indent = outer;
        let is_item = |text: &str| text == "-" || text.starts_with("- ");
        // A list may stand as far left as the key that it belongs to.
        let stays = |at: usize, step: &Step, item: bool| {
            at < indent || item && at == indent && matches!(step, Step::Key(_))
        };
        open.retain(|(at, step)| stays(*at, step, is_item(bare)));
        while is_item(bare) {
            items += 1;
            open.push((indent, Step::Item(items)));
            let rest = bare[1..].trim_start();
            indent += bare.len() - rest.len();
            bare = rest;
        }
        let path = |open: &[(usize, Step)]| open.iter().map(|(_, step)| step.clone()).collect::<Vec<_>>();
        let Some((key, value)) = key_and_value(bare) else {
            if !bare.is_empty() {
                found.push(Entry { path: path(&open), lines: vec![plain(bare)] });
            }
            continue;
        };
        open.push((indent, Step::Key(key.to_owned())));
        if value.starts_with(['|', '>']) {
            let mut block = Vec::new();
            while let Some(next) = lines.peek() {
                let within = next.trim_start();
                if !within.is_empty() && next.len() - within.len() <= outer {
                    break;
                }
                block.push(within.trim_end().to_owned());
                lines.next();
            }
            if value.starts_with('>') {
                block = vec![block.join(" ")];
            }
            found.push(Entry { path: path(&open), lines: block });
        } else if let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
            found.push(Entry { path: path(&open), lines: list.split(',').map(plain).collect() });
        } else if !value.is_empty() {
            found.push(Entry { path: path(&open), lines: vec![plain(value)] });
        }
    }
    found
}

/// `key: value`; None for what is no key. A command may have a colon, and no space behind it.
fn key_and_value(text: &str) -> Option<(&str, &str)> {
    let at = text.find(": ").or_else(|| text.ends_with(':').then(|| text.len() - 1))?;
    let key = text[..at].trim().trim_matches(['"', '\'']);
    let named = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_./<: ".contains(c));
    let is_text = text.starts_with(['"', '\'']) && !text[..at].ends_with(['"', '\'']);
    (named && !is_text).then(|| (key, text[at + 1..].trim()))
}

/// A text without its quotes, and without the comment behind it.
fn plain(text: &str) -> String {
    let text = text.trim();
    let quoted = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    quoted.unwrap_or_else(|| text.split(" #").next().unwrap_or(text).trim_end()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let step = |step: &Step| step.key().map_or_else(|| "-".to_owned(), str::to_owned);
        let path = |entry: &Entry| entry.path.iter().map(step).collect::<Vec<_>>().join(" ");
        entries(text).iter().map(|entry| format!("{} = {}", path(entry), entry.lines.join("|"))).collect()
    }

    #[test]
    fn texts_are_found_with_their_places() {
        let text = "on: push # all\njobs:\n  a:\n    steps:\n    - uses: x@v4\n    - name: 'Run'\n      run: |\n        cd api\n\n        npm test\n    - run: >-\n        npm\n        test\n  b: {c: d}\nlist: [a, \"b\"]\nscript:\n  - echo: no\n  - npm test -- --a:b\n  -\n    - deep\n";
        assert_eq!(
            told(text),
            [
                "on = push",
                "jobs a steps - uses = x@v4",
                "jobs a steps - name = Run",
                "jobs a steps - run = cd api||npm test",
                "jobs a steps - run = npm test",
                "jobs b = {c: d}",
                "list = a|b",
                "script - echo = no",
                "script - = npm test -- --a:b",
                "script - - = deep",
            ]
        );
        for text in ["-", "- - -\n-", ": x", "a:\n\tb: |", "é: ü\n- é", "[", "a: [\n]", "\"a: b\": c"] {
            drop(entries(text));
        }
    }
}
