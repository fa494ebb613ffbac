//! The goldens against the tools: each is run again on the sources in `tests/real`, and must say what its golden says.
//! `scripts/check-tools.py` installs the tools and says which there are. With `UPDATE_GOLDEN=1` the goldens are written anew.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first thing that is not as it must be")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use checks::parse;
use protocol::Report;
use serde_json::Value;

#[path = "real/cases.rs"]
mod cases;
use cases::{BY_HAND, CASES};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// What the script said that there is, and what not.
struct Tools {
    home: PathBuf,
    told: Value,
}

impl Tools {
    fn find() -> Self {
        let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        let cache = cache.unwrap_or_else(|| Path::new(&std::env::var("HOME").unwrap()).join(".cache"));
        let home = cache.join("slipway/tools");
        let told = std::fs::read_to_string(home.join("tools.json")).unwrap_or_else(|error| {
            panic!("run scripts/check-tools.py first, it writes tools.json: {error}")
        });
        Self { home, told: serde_json::from_str(&told).unwrap() }
    }

    fn names(&self, kind: &str) -> BTreeMap<&str, &Value> {
        self.told[kind].as_object().unwrap().iter().map(|(name, value)| (name.as_str(), value)).collect()
    }

    fn text(&self, tool: &str, key: &str) -> Option<&str> {
        self.told["have"][tool][key].as_str()
    }

    /// What the tool prints, both streams in the order in which they are written, as a check's output is. The command finds
    /// a copy of the sources and few variables, so that neither this machine nor the test runner shows.
    fn run(&self, tool: &str, folder: &str, command: &str) -> String {
        let near = self.text(tool, "near").map(PathBuf::from);
        let work = match &near {
            Some(near) => tempfile::Builder::new().prefix("work-").tempdir_in(near),
            None => tempfile::tempdir(),
        }
        .unwrap();
        copy(&tests().join("real").join(folder), work.path());
        let cache = tempfile::tempdir().unwrap();
        let cache = cache.path();
        let path = std::env::var("PATH").unwrap();
        let path = self.text(tool, "bin").map_or_else(|| path.clone(), |bin| format!("{bin}:{path}"));
        let kept = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "JAVA_HOME"];
        let kept = kept.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let locales = self.text(tool, "locales").map(|path| ("LOCPATH", path));
        let output = Command::new("sh")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(work.path())
            .env_clear()
            .envs(kept)
            .envs(locales)
            .env("PATH", path)
            .env("TERM", "dumb")
            .env("LC_ALL", "C.UTF-8")
            .env("XDG_CACHE_HOME", cache)
            .env("CARGO_NET_OFFLINE", "true")
            .env("GOCACHE", cache.join("go"))
            .env("GOFLAGS", "-mod=mod")
            .env("GOPROXY", "off")
            .env("GRADLE_USER_HOME", cache.join("gradle"))
            .env("MYPY_CACHE_DIR", cache.join("mypy"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("RUFF_NO_CACHE", "true")
            .output()
            .unwrap();
        self.scrub(&String::from_utf8_lossy(&output.stdout), folder, work.path(), near.as_deref())
    }

    /// The output as it would be in somebody's home, without the places and the name of this machine.
    fn scrub(&self, text: &str, folder: &str, work: &Path, near: Option<&Path>) -> String {
        let place = |from: &Path, to: &str| (from.to_str().unwrap().to_owned(), to.to_owned());
        let mut places = vec![place(work, &format!("/home/dev/{}", folder.replace('/', "-")))];
        places.extend(near.map(|near| place(near, "/home/dev")));
        places.push(place(&self.home, "/home/dev/tools"));
        let told = self.told["paths"].as_object().unwrap();
        places.extend(told.iter().map(|(from, to)| place(Path::new(from), to.as_str().unwrap())));
        let home = std::env::var("HOME").unwrap_or_default();
        places.extend((home.len() > 1).then(|| place(Path::new(&home), "/home/dev")));
        let text = places.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        text.replace(&format!("hostname=\"{}\"", host.trim()), "hostname=\"dev\"")
    }
}

/// Copies a folder; names end in `.txt` where the name itself would mean something here.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let to = to.join(name.strip_suffix(".txt").unwrap_or(name));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            std::fs::copy(&path, to).unwrap();
        }
    }
}

/// What of a report does not depend on where and when the tool ran.
fn facts(report: &Report) -> Vec<String> {
    let tests = report.tests.iter().map(|test| {
        let place = format!("{:?}:{:?}", test.file, test.line);
        format!("{} at {place} {:?} {:?} {}", test.name, test.expected, test.actual, steady(&test.message))
    });
    let found = report.diagnostics.iter().map(|found| {
        let place = format!("{:?}:{:?}:{:?}", found.file, found.line, found.column);
        format!("{:?} {place} {:?} {}", found.severity, found.code, steady(&found.message))
    });
    let mut facts: Vec<String> = tests.chain(found).collect();
    facts.sort();
    facts.insert(0, format!("{} {} {}", report.tests_passed, report.tests_failed, report.tests_skipped));
    facts.insert(0, report.parser.clone());
    facts
}

/// A message without what is another in each run: addresses, process ids, times and names of temporary files.
fn steady(message: &str) -> String {
    let words = message.split_inclusive([' ', '\n', ',', '>', ')']).map(|word| {
        let core = word.trim_end_matches([' ', '\n', ',', '>', ')']);
        let rest = &word[core.len()..];
        let number = core.trim_start_matches('(').trim_end_matches(['m', 's', ':']);
        let passes = core.starts_with("0x")
            || core.contains("/tmp/")
            || core.starts_with('(') && number.parse::<u64>().is_ok()
            || core.ends_with('s') && number.parse::<f64>().is_ok();
        if passes { format!("_{rest}") } else { word.to_owned() }
    });
    words.collect()
}

/// The lines of either that the other does not have.
fn difference(golden: &[String], ran: &[String]) -> String {
    let mut text = String::new();
    for line in golden.iter().filter(|line| !ran.contains(line)) {
        writeln!(text, "  golden: {line}").unwrap();
    }
    for line in ran.iter().filter(|line| !golden.contains(line)) {
        writeln!(text, "  ran:    {line}").unwrap();
    }
    text
}

#[test]
fn every_golden_has_the_command_that_gives_it() {
    let files: BTreeSet<String> = std::fs::read_dir(tests().join("golden"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let cases = CASES.iter().flat_map(|cases| cases.goldens.iter().map(|(golden, _)| *golden));
    let named: Vec<&str> = cases.chain(BY_HAND.iter().copied()).collect();
    let set: BTreeSet<String> = named.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(named.len(), set.len(), "a golden is named twice");
    assert_eq!(files, set);
    for cases in CASES {
        assert!(tests().join("real").join(cases.folder).is_dir(), "{}", cases.folder);
    }
}

#[test]
#[ignore = "runs the compilers and test runners themselves"]
fn the_goldens_are_what_the_tools_say() {
    let tools = Tools::find();
    let (have, lack) = (tools.names("have"), tools.names("lack"));
    let write = std::env::var_os("UPDATE_GOLDEN").is_some();
    let only = std::env::var("GOLDEN").ok();
    let mut ran: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut left_out: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut wrong = String::new();
    for cases in CASES {
        for (golden, command) in cases.goldens {
            if only.as_ref().is_some_and(|only| !golden.contains(only.as_str())) {
                continue;
            }
            if !have.contains_key(cases.tool) {
                left_out.entry(cases.tool).or_default().push(golden);
                continue;
            }
            let text = tools.run(cases.tool, cases.folder, command);
            let file = tests().join("golden").join(format!("{golden}.txt"));
            if write {
                std::fs::write(&file, &text).unwrap();
            }
            let wanted = std::fs::read_to_string(&file).unwrap();
            let (now, then) =
                (facts(&parse("auto", &text).unwrap()), facts(&parse("auto", &wanted).unwrap()));
            if now != then {
                let difference = difference(&then, &now);
                writeln!(wrong, "{golden}: `{command}` says something else:\n{difference}").unwrap();
            }
            ran.entry(cases.tool).or_default().push(golden);
        }
    }
    for (tool, goldens) in &ran {
        println!("ran {tool} {}: {}", tools.text(tool, "version").unwrap_or_default(), goldens.join(" "));
    }
    for (tool, goldens) in &left_out {
        let reason =
            lack.get(tool).and_then(|reason| reason.as_str()).unwrap_or("the script does not know it");
        println!("left out {tool}, {reason}: {}", goldens.join(" "));
    }
    let counted = ran.values().map(Vec::len).sum::<usize>();
    println!("{counted} goldens of {} tools ran, {} tools were left out", ran.len(), left_out.len());
    assert!(wrong.is_empty(), "{wrong}");
    if only.is_none() {
        assert_eq!(
            ran.keys().collect::<Vec<_>>(),
            have.keys().collect::<Vec<_>>(),
            "tools are here and did not run"
        );
    }
}
