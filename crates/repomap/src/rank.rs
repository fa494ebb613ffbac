//! Which files and definitions matter: a file matters when files that matter use what it defines, and when the task speaks
//! of it.

use std::collections::{BTreeSet, HashMap};

use crate::symbols::FileSymbols;

/// How much of a file's weight goes on to what it uses.
const DAMPING: f64 = 0.85;
/// Rounds until the weights hardly change.
const ROUNDS: usize = 30;
/// A name that more files define says little about any of them.
const SHARED: usize = 5;
/// A name of this length is hardly a coincidence.
const LONG: usize = 8;
/// How much more counts what the task speaks of.
const SPOKEN_OF: f64 = 10.0;
const FILE_SPOKEN_OF: f64 = 50.0;

/// Who uses what: one name of one file, used by another.
struct Use {
    from: usize,
    to: usize,
    weight: f64,
}

/// What a task speaks of.
pub(crate) struct Task {
    words: BTreeSet<String>,
    text: String,
}

impl Task {
    pub(crate) fn new(text: &str) -> Self {
        let part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let words = text.split(|letter| !part(letter)).filter(|word| word.len() > 2);
        Self { words: words.map(str::to_owned).collect(), text: text.to_owned() }
    }

    fn names(&self, name: &str) -> bool {
        self.words.contains(name)
    }

    /// Whether it names the file: by its place, its name, or its name without the ending.
    fn names_file(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = name.split('.').next().unwrap_or(name);
        self.text.contains(name) || stem.len() > 3 && self.words.contains(stem)
    }
}

/// The weight of each definition, in the order of the files and of what they define.
pub(crate) fn weights(files: &[FileSymbols], task: &Task) -> Vec<Vec<f64>> {
    let mut definers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        let names: BTreeSet<&str> = file.definitions.iter().map(|found| found.name.as_str()).collect();
        for name in names {
            definers.entry(name).or_default().push(index);
        }
    }
    let worth = |name: &str, definers: usize| {
        let mut worth = 1.0;
        if task.names(name) {
            worth *= SPOKEN_OF;
        }
        if name.len() >= LONG {
            worth *= 3.0;
        }
        if name.starts_with('_') {
            worth *= 0.1;
        }
        if definers > SHARED {
            worth *= 0.1;
        }
        worth
    };
    let mut uses = Vec::new();
    let mut given: HashMap<(usize, &str), f64> = HashMap::new();
    let mut out = vec![0.0; files.len()];
    for (from, file) in files.iter().enumerate() {
        for (name, count) in &file.names {
            let Some(to_all) = definers.get(name.as_str()) else { continue };
            let weight = worth(name, to_all.len()) * f64::from(*count).sqrt();
            for to in to_all.iter().copied().filter(|to| *to != from) {
                uses.push((name.as_str(), Use { from, to, weight }));
                out[from] += weight;
            }
        }
    }
    let start = files.iter().map(|file| if task.names_file(&file.path) { FILE_SPOKEN_OF } else { 1.0 });
    let mut start: Vec<f64> = start.collect();
    let sum: f64 = start.iter().sum();
    start.iter_mut().for_each(|weight| *weight /= sum.max(1.0));
    let mut rank = start.clone();
    for _ in 0..ROUNDS {
        let mut next: Vec<f64> = start.iter().map(|weight| weight * (1.0 - DAMPING)).collect();
        let mut idle = 0.0;
        for (index, rank) in rank.iter().enumerate() {
            if out[index] == 0.0 {
                idle += rank;
            }
        }
        for (_, Use { from, to, weight }) in &uses {
            next[*to] += DAMPING * rank[*from] * weight / out[*from];
        }
        // What uses nothing gives its weight to where the task begins.
        next.iter_mut().zip(&start).for_each(|(next, start)| *next += DAMPING * idle * start);
        rank = next;
    }
    for (name, Use { from, to, weight }) in &uses {
        *given.entry((*to, name)).or_default() += rank[*from] * weight / out[*from];
    }
    let of_file = |(index, file): (usize, &FileSymbols)| -> Vec<f64> {
        let mut seen: HashMap<&str, f64> = HashMap::new();
        let named = task.names_file(&file.path);
        let weight = |found: &crate::Definition| {
            let spoken = task.names(&found.name);
            let used = given.get(&(index, found.name.as_str())).copied().unwrap_or_default();
            // What nobody uses is still there. What the task names comes before everything else, used or not: all that is
            // used has a weight of one together.
            let mut own = rank[index] * 0.01;
            if spoken {
                own += 1.0;
            } else if named {
                own += 0.5;
            }
            used + own
        };
        let mut all = Vec::with_capacity(file.definitions.len());
        for found in &file.definitions {
            // Of several with one name the first is where to look.
            let times = seen.entry(found.name.as_str()).or_default();
            *times += 1.0;
            all.push(weight(found) / *times);
        }
        all
    };
    files.iter().enumerate().map(of_file).collect()
}
