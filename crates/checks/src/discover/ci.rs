//! Commands in the files that tell a CI service what to run, as far as they are plain commands of known tools.

use super::{Found, Role};

/// Where CI services look for what to run.
pub(super) fn is_ci_file(path: &str) -> bool {
    let yaml = path.ends_with(".yml") || path.ends_with(".yaml");
    (path.starts_with(".github/workflows/") && yaml)
        || matches!(path, ".gitlab-ci.yml" | ".travis.yml" | ".circleci/config.yml" | "azure-pipelines.yml")
}

/// The checks that a CI file runs, in its order, each once.
pub(super) fn checks(path: &str, text: &str) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for command in commands(text) {
        let Some((language, role, parser)) = known(&command) else { continue };
        if !found.iter().any(|before| before.check.run == command) {
            found.push(Found::new(language, role, &command, parser, path));
        }
    }
    found
}

/// Lines that are commands: behind `run:` and `script:`, in the block below them, and the items of a list below them.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    // Indentation of the key whose block is under way.
    let mut block: Option<usize> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        if bare.is_empty() {
            continue;
        }
        let indent = line.len() - bare.len();
        let item = bare.strip_prefix("- ").unwrap_or(bare);
        let key =
            ["run:", "script:", "command:", "before_script:"].iter().find_map(|key| item.strip_prefix(key));
        if let Some(value) = key {
            let value = value.trim();
            block = (value.is_empty() || value.starts_with(['|', '>'])).then_some(indent);
            if block.is_none() {
                commands.push(plain(value));
            }
        } else if let Some(begun) = block {
            // Items of a list may stand as far left as their key.
            if indent > begun || (indent == begun && bare.starts_with("- ")) {
                commands.push(plain(item));
            } else {
                block = None;
            }
        }
    }
    commands
}

fn plain(text: &str) -> String {
    let text = text.trim();
    let unquoted = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    unquoted.unwrap_or(text).to_owned()
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
