//! Commands in the files that tell a CI service what to run, as far as they are plain commands of known tools, each with the
//! folder in which it runs there. Of one whose folder is not plain nothing is taken: elsewhere it would be another command.

use super::{Found, Role, yaml};
use crate::affected::quoted;
use yaml::{Entry, Step};

/// Where CI services look for what to run.
pub(super) fn is_ci_file(path: &str) -> bool {
    let yaml = path.ends_with(".yml") || path.ends_with(".yaml");
    (path.starts_with(".github/workflows/") && yaml)
        || matches!(path, ".gitlab-ci.yml" | ".travis.yml" | ".circleci/config.yml" | "azure-pipelines.yml")
}

/// The checks that a CI file runs, in its order, each once. `names` are the paths that are known of the repository.
pub(super) fn checks(path: &str, text: &str, names: &[&str]) -> Vec<Found> {
    let entries = yaml::entries(text);
    let scripts = match path {
        ".gitlab-ci.yml" => gitlab(&entries),
        ".travis.yml" => travis(&entries),
        _ => steps(&entries, path),
    };
    let mut found: Vec<Found> = Vec::new();
    for (folder, command) in scripts.into_iter().flat_map(Script::commands) {
        let Some((language, role, parser)) = known(&command) else { continue };
        if !can_run(names, &folder, &command) {
            continue;
        }
        let run = match folder.as_str() {
            "" => command,
            folder => format!("cd {} && {command}", quoted(folder)),
        };
        if !found.iter().any(|before| before.check.run == run) {
            found.push(Found { folder, ..Found::new(language, role, &run, parser, path) });
        }
    }
    found
}

/// Lines that one shell runs.
struct Script {
    /// Where it begins; None where that is not plain.
    folder: Option<String>,
    lines: Vec<String>,
}

impl Script {
    /// Its commands, each with the folder in which it runs, as long as that is plain.
    fn commands(self) -> Vec<(String, String)> {
        let mut commands = Vec::new();
        let mut folder = self.folder;
        let mut lines = self.lines.into_iter();
        while let Some(mut line) = lines.next() {
            while let Some(begun) = line.strip_suffix('\\') {
                line = format!("{begun} {}", lines.next().unwrap_or_default().trim());
            }
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if is_opaque(line) {
                break;
            }
            // What is in brackets leaves the others where they are.
            let inside = line.strip_prefix('(').and_then(|line| line.strip_suffix(')'));
            let mut here = folder.clone();
            for part in inside.unwrap_or(line).split(" && ").map(str::trim) {
                let to = part.strip_prefix("cd ").or_else(|| part.strip_prefix("pushd "));
                match (to, &here) {
                    (Some(to), Some(at)) => here = joined(at, to),
                    (Some(_), None) => {}
                    (None, _) if part == "cd" || part.starts_with("popd") => here = None,
                    (None, Some(at)) => commands.push((at.clone(), part.to_owned())),
                    (None, None) => {}
                }
            }
            if inside.is_none() {
                folder = here;
            }
        }
        commands
    }
}

/// Whether nobody can tell from a line what the lines after it are: they may be text, or run only sometimes.
fn is_opaque(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    line.contains("<<")
        || matches!(
            first,
            "if" | "for" | "while" | "until" | "case" | "function" | "select" | "exit" | "return"
        )
        || first.starts_with('*')
        || line.ends_with('{')
}

/// The folder that one comes to from another; None where that is outside, or known to the CI service alone.
fn joined(at: &str, to: &str) -> Option<String> {
    let to = to.trim().trim_matches(['"', '\'']);
    if to.is_empty()
        || to.starts_with(['/', '~', '-'])
        || to.contains(['$', '*', '`', '{', '\\', ';', '|', '&', '"', '\''])
    {
        return None;
    }
    let mut parts: Vec<&str> = at.split('/').filter(|part| !part.is_empty()).collect();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The value of a key, as the file has it at this path.
fn value<'a>(entries: &'a [Entry], path: &[Step]) -> Option<&'a str> {
    let entry = entries.iter().find(|entry| entry.path == path)?;
    entry.lines.first().map(String::as_str)
}

fn keys(path: &[&str]) -> Vec<Step> {
    path.iter().map(|key| Step::Key((*key).to_owned())).collect()
}

/// Steps with a shell of their own, as GitHub, CircleCI and Azure have them. The folder is written beside the command, or at its
/// job, or for all.
fn steps(entries: &[Entry], file: &str) -> Vec<Script> {
    let mut scripts = Vec::new();
    for entry in entries {
        let Some(at) = entry.path.iter().rposition(|step| matches!(step, Step::Item(_))) else { continue };
        let inside: Vec<&str> = entry.path[at + 1..].iter().filter_map(Step::key).collect();
        let in_steps = at > 0 && entry.path[at - 1].key() == Some("steps");
        let circle = file.starts_with(".circleci/");
        let beside = match inside.as_slice() {
            ["run"] | ["script" | "bash"] => &entry.path[..=at],
            ["run", "command"] if circle => &entry.path[..=at + 1],
            _ => continue,
        };
        if !in_steps {
            continue;
        }
        let of = |path: &[Step], rest: &[&str]| {
            let path: Vec<Step> = path.iter().cloned().chain(keys(rest)).collect();
            value(entries, &path)
        };
        if of(beside, &["shell"]).is_some_and(|shell| shell.starts_with("python")) {
            continue;
        }
        let own = ["working-directory", "workingDirectory", "working_directory"];
        let job = &entry.path[..at - 1];
        let folder = own
            .iter()
            .find_map(|key| of(beside, &[key]))
            .or_else(|| of(job, &["defaults", "run", "working-directory"]))
            .or_else(|| of(&[], &["defaults", "run", "working-directory"]));
        let folder = folder.map_or(Some(String::new()), |folder| joined("", folder));
        scripts.push(Script { folder, lines: entry.lines.clone() });
    }
    scripts
}

/// The lines of every list that is at a path.
fn lines(entries: &[Entry], path: &[Step]) -> Vec<String> {
    let inside = |entry: &&Entry| {
        let rest = entry.path.strip_prefix(path);
        rest.is_some_and(|rest| rest.iter().all(|step| matches!(step, Step::Item(_))))
    };
    entries.iter().filter(inside).flat_map(|entry| entry.lines.clone()).collect()
}

/// The jobs of GitLab: what comes before a script is run by the same shell.
fn gitlab(entries: &[Entry]) -> Vec<Script> {
    const OTHERS: [&str; 9] = [
        "default",
        "include",
        "stages",
        "variables",
        "workflow",
        "image",
        "services",
        "cache",
        "before_script",
    ];
    let mut jobs: Vec<&str> = Vec::new();
    for job in entries.iter().filter_map(|entry| entry.path.first()?.key()) {
        if !OTHERS.contains(&job) && !jobs.contains(&job) {
            jobs.push(job);
        }
    }
    let before = |path: &[&str]| Some(lines(entries, &keys(path))).filter(|lines| !lines.is_empty());
    let of_job = |job: &str| {
        let script = lines(entries, &keys(&[job, "script"]));
        // What another job has in its place is not looked up.
        let merged = entries.iter().any(|entry| {
            entry.path.first().and_then(Step::key) == Some(job)
                && entry.path.get(1).and_then(Step::key).is_some_and(|key| matches!(key, "extends" | "<<"))
        });
        let own = before(&[job, "before_script"]);
        let folder = (!merged || own.is_some()).then(String::new);
        let mut lines = own
            .or_else(|| before(&["default", "before_script"]))
            .or_else(|| before(&["before_script"]))
            .unwrap_or_default();
        lines.extend(script);
        Script { folder, lines }
    };
    jobs.into_iter().map(of_job).collect()
}

/// The one job that Travis has at the top: all of its lists are run by one shell.
fn travis(entries: &[Entry]) -> Vec<Script> {
    let parts = ["before_install", "install", "before_script", "script"];
    let lines = parts.iter().flat_map(|part| lines(entries, &keys(&[part]))).collect();
    vec![Script { folder: Some(String::new()), lines }]
}

/// Whether what a command needs is there: what is run where its manifest is not can never pass. Folders that were not looked into
/// have the benefit of the doubt.
fn can_run(names: &[&str], folder: &str, command: &str) -> bool {
    let below = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    let top = folder.split('/').next().unwrap_or_default();
    if !folder.is_empty() && !names.iter().any(|name| *name == top || name.starts_with(&format!("{top}/"))) {
        return false;
    }
    let looked_into = folder.is_empty() || names.iter().any(|name| name.starts_with(&format!("{folder}/")));
    let words: Vec<&str> = command.split_whitespace().collect();
    let elsewhere = ["--prefix", "--cwd", "-C", "--dir", "--manifest-path", "-f", "-p"]
        .iter()
        .any(|option| words.iter().any(|word| word == option || word.starts_with(&format!("{option}="))));
    if !looked_into || elsewhere {
        return true;
    }
    let needs: &[&str] = match words.first().copied().unwrap_or_default() {
        "npm" | "pnpm" | "yarn" | "bun" => &["package.json"],
        "cargo" => &["Cargo.toml"],
        "go" => &["go.mod", "go.work"],
        "make" => &["Makefile", "makefile", "GNUmakefile"],
        "mvn" => &["pom.xml"],
        "./mvnw" => &["mvnw"],
        "./gradlew" => &["gradlew"],
        _ => return true,
    };
    needs.iter().any(|name| names.contains(&below(name).as_str()))
}

/// Language, role and parser of a command of a known tool. One with shell syntax, or with values that only the CI service
/// has, is not taken.
fn known(command: &str) -> Option<(&'static str, Role, &'static str)> {
    if command.len() > 200 || command.contains(['$', ';', '|', '&', '<', '>', '`', '(', '{', '\\', '#']) {
        return None;
    }
    let words: Vec<&str> = command.split_whitespace().collect();
    // `uv run pytest` and its like.
    let words = match words.as_slice() {
        ["uv" | "poetry" | "pipenv" | "hatch" | "pdm", "run", rest @ ..] => rest,
        all => all,
    };
    let words = match words {
        ["python" | "python3", "-m", rest @ ..] => rest,
        ["npx" | "bunx", rest @ ..] => rest,
        all => all,
    };
    Some(match words {
        ["cargo", "test", ..] | ["cargo", "nextest", "run", ..] => ("rust", Role::Test, "cargo"),
        ["cargo", "clippy", ..] => ("rust", Role::Lint, "cargo"),
        ["cargo", "fmt", rest @ ..] if rest.contains(&"--check") => ("rust", Role::Format, "auto"),
        ["cargo", "check", ..] => ("rust", Role::Types, "cargo"),
        ["pytest", ..] => ("python", Role::Test, "pytest"),
        ["unittest", ..] => ("python", Role::Test, "unittest"),
        ["ruff", "check", rest @ ..] if !rest.contains(&"--fix") => ("python", Role::Lint, "ruff"),
        ["ruff", "format", rest @ ..] if rest.contains(&"--check") => ("python", Role::Format, "auto"),
        ["flake8" | "pylint", ..] => ("python", Role::Lint, "auto"),
        ["mypy", ..] => ("python", Role::Types, "mypy"),
        ["pyright", ..] => ("python", Role::Types, "pyright"),
        ["go", "test", ..] => ("go", Role::Test, "go"),
        ["go", "vet", ..] => ("go", Role::Lint, "go"),
        ["golangci-lint", "run", ..] => ("go", Role::Lint, "auto"),
        ["npm" | "pnpm" | "yarn" | "bun", "test", ..] => ("node", Role::Test, "auto"),
        ["npm" | "pnpm" | "yarn" | "bun", "run", script, ..] => ("node", Role::of_script(script)?, "auto"),
        ["eslint", ..] => ("node", Role::Lint, "eslint"),
        ["tsc", ..] => ("node", Role::Types, "tsc"),
        ["vitest", "run", ..] => ("node", Role::Test, "vitest"),
        ["jest", ..] => ("node", Role::Test, "jest"),
        ["make", target] => ("make", Role::of_script(target)?, "auto"),
        ["mvn" | "./mvnw", rest @ ..] if rest.contains(&"test") || rest.contains(&"verify") => {
            ("java", Role::Test, "javac")
        }
        ["gradle" | "./gradlew", rest @ ..] if rest.contains(&"test") || rest.contains(&"check") => {
            ("java", Role::Test, "gradle")
        }
        _ => return None,
    })
}
