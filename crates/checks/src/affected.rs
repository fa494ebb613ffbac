//! The part of a check that changed files touch, as a command of its own: quick to run, and first. What passes says
//! nothing of the rest, so the whole check is still run before work is called done.

mod names;

use self::names::{package_of, tests_of};

/// Most files or packages named in a command; more are not a part.
const MAX_NAMED: usize = 20;

/// What is known of the workspace.
pub struct Workspace<'a> {
    /// Its files, without what git ignores.
    pub names: &'a [String],
    /// Reads one of them.
    pub read: &'a dyn Fn(&str) -> Option<String>,
}

/// The command for the part of a check that these changed files touch; None where the tool cannot run a part, or where it
/// is not plain which.
pub fn affected(command: &str, changed: &[String], workspace: &Workspace<'_>) -> Option<String> {
    if let Some((folder, rest)) = in_folder(command) {
        return of_folder(folder, rest, changed, workspace);
    }
    // A command with shell syntax may do more than the tool's name says.
    if command.contains(['$', ';', '|', '&', '<', '>', '`', '(', '\n', '\\', '"', '\'', '*']) {
        return None;
    }
    let words: Vec<&str> = command.split_whitespace().collect();
    let tool = words.iter().position(|word| !is_assignment(word))?;
    let (_, call) = words.split_at(tool);
    let files: Vec<&str> = changed
        .iter()
        .map(String::as_str)
        .filter(|path| workspace.names.iter().any(|name| name == path))
        .collect();
    match call {
        ["cargo", "test" | "clippy" | "check" | "build" | "t" | "c", ..]
        | ["cargo", "nextest", "run", ..] => cargo(&words, changed, workspace),
        ["go", "test" | "vet" | "build", rest @ ..] if rest.contains(&"./...") => go(&words, changed, &files),
        ["pytest", rest @ ..]
        | ["python" | "python3", "-m", "pytest", rest @ ..]
        | ["uv" | "poetry" | "pipenv" | "pdm" | "hatch", "run", "pytest", rest @ ..] => {
            pytest(&words, rest, &files, workspace)
        }
        ["python" | "python3", "-m", "unittest", rest @ ..]
        | [
            "uv" | "poetry" | "pipenv" | "pdm" | "hatch",
            "run",
            "python" | "python3",
            "-m",
            "unittest",
            rest @ ..,
        ] => unittest(&words[..words.len() - rest.len()], rest, &files, workspace),
        ["ruff", "check", rest @ ..] if only_dots(rest) => files_instead(&words, &files, &[".py", ".pyi"]),
        ["eslint", rest @ ..] | ["npx", "eslint", rest @ ..] if only_dots(rest) => {
            files_instead(&words, &files, &[".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs"])
        }
        ["jest", rest @ ..] | ["npx", "jest", rest @ ..] if options_only(rest) => {
            related(&words, &files, "--findRelatedTests")
        }
        ["vitest", "run", rest @ ..] if options_only(rest) => vitest(&words[..tool], "vitest", rest, &files),
        ["npx", "vitest", "run", rest @ ..] if options_only(rest) => {
            vitest(&words[..tool], "npx vitest", rest, &files)
        }
        ["npm" | "pnpm" | "yarn", "test"] | ["npm" | "pnpm" | "yarn", "run", "test"] => {
            script(call[0], &files, workspace)
        }
        ["node", rest @ ..] if rest.contains(&"--test") => node(&words[..=tool], rest, &files, workspace),
        ["mvn" | "./mvnw", .., "test"] => classes(&words, &files, workspace, "pom.xml", "-Dtest=", ","),
        ["gradle" | "./gradlew", .., "test"] => gradle(&words, &files, workspace),
        _ => None,
    }
}

/// The folder in which a command begins, and what it runs there: `cd backend && go test ./...`.
fn in_folder(command: &str) -> Option<(&str, &str)> {
    let (folder, rest) = command.strip_prefix("cd ")?.split_once(" && ")?;
    let folder = folder.trim().trim_matches('\'').trim_end_matches('/');
    let folder = folder.strip_prefix("./").unwrap_or(folder);
    let plain =
        |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['$', '"', '\'', '~', '\\', '`']);
    folder.split('/').all(plain).then_some((folder, rest.trim()))
}

/// Where a command runs, from the workspace: the folder that it goes into, and those that it goes into from there.
pub fn folder_of(command: &str) -> String {
    let (mut folders, mut rest) = (Vec::new(), command);
    while let Some((folder, next)) = in_folder(rest) {
        folders.push(folder);
        rest = next;
    }
    folders.join("/")
}

/// The same for what runs in a folder, where files have other names.
fn of_folder(folder: &str, command: &str, changed: &[String], workspace: &Workspace<'_>) -> Option<String> {
    let below = format!("{folder}/");
    let inside = |paths: &[String]| -> Vec<String> {
        paths.iter().filter_map(|path| path.strip_prefix(&below)).map(str::to_owned).collect()
    };
    let names = inside(workspace.names);
    let read = |name: &str| (workspace.read)(&format!("{below}{name}"));
    let part = affected(command, &inside(changed), &Workspace { names: &names, read: &read })?;
    Some(format!("cd {} && {part}", quoted(folder)))
}

fn cargo(words: &[&str], changed: &[String], workspace: &Workspace<'_>) -> Option<String> {
    let chosen = ["-p", "--package", "--manifest-path", "--exclude", "--test", "--bin", "--lib", "--doc"];
    let arguments = || words.iter().take_while(|word| **word != "--");
    if arguments()
        .any(|word| chosen.iter().any(|option| word == option || word.starts_with(&format!("{option}="))))
    {
        return None;
    }
    let manifests =
        workspace.names.iter().filter(|name| *name == "Cargo.toml" || name.ends_with("/Cargo.toml")).count();
    let mut packages: Vec<String> = Vec::new();
    for path in changed {
        // What they all stand on is not the matter of one.
        if !path.contains('/')
            && (path == "Cargo.toml" || path == "Cargo.lock" || path.starts_with("rust-toolchain"))
            || path.starts_with(".cargo/")
        {
            return None;
        }
        if let Some(package) = package_of(path, workspace)
            && !packages.contains(&package)
        {
            packages.push(package);
        }
    }
    if packages.is_empty() || packages.len() > MAX_NAMED / 4 || manifests < 2 {
        return None;
    }
    let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let mut all: Vec<String> = words[..at]
        .iter()
        .filter(|word| !matches!(**word, "--workspace" | "--all"))
        .map(|word| (*word).to_owned())
        .collect();
    packages.iter().for_each(|package| all.extend(["-p".to_owned(), quoted(package)]));
    all.extend(words[at..].iter().map(|word| (*word).to_owned()));
    Some(all.join(" "))
}

fn go(words: &[&str], changed: &[String], files: &[&str]) -> Option<String> {
    if changed
        .iter()
        .any(|path| path.ends_with("go.mod") || path.ends_with("go.sum") || path.ends_with("go.work"))
    {
        return None;
    }
    let mut folders: Vec<String> = Vec::new();
    for path in files.iter().filter(|path| path.ends_with(".go")) {
        let folder = match path.rsplit_once('/') {
            Some((folder, _)) => format!("./{folder}"),
            None => ".".to_owned(),
        };
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    if folders.is_empty() || folders.len() > MAX_NAMED {
        return None;
    }
    let folders: Vec<String> = folders.iter().map(|folder| quoted(folder)).collect();
    let all = words.iter().map(|word| if *word == "./..." { folders.join(" ") } else { (*word).to_owned() });
    Some(all.collect::<Vec<_>>().join(" "))
}

fn pytest(words: &[&str], rest: &[&str], files: &[&str], workspace: &Workspace<'_>) -> Option<String> {
    // A word that is no option is a path, or the value of the option before it; either way somebody chose already.
    if !options_only(rest) || rest.iter().any(|word| matches!(*word, "-k" | "-m")) {
        return None;
    }
    // Fixtures are everybody's.
    if files.iter().any(|path| path.ends_with("conftest.py")) {
        return None;
    }
    let python: Vec<&str> = files.iter().copied().filter(|path| path.ends_with(".py")).collect();
    listed(words, &tests_of(&python, workspace.names))
}

/// The modules of the tests, or one pattern after the other where they are looked for in a folder.
fn unittest(call: &[&str], rest: &[&str], files: &[&str], workspace: &Workspace<'_>) -> Option<String> {
    let python: Vec<&str> = files.iter().copied().filter(|path| path.ends_with(".py")).collect();
    let tests = tests_of(&python, workspace.names);
    // As it goes by itself, only these are looked for.
    let usual = |path: &&String| path.rsplit('/').next().is_some_and(|name| name.starts_with("test"));
    let is_package = |folder: &str| {
        folder.is_empty() || workspace.names.iter().any(|name| *name == format!("{folder}/__init__.py"))
    };
    // Whether a folder is found from one above it: each on the way is a package.
    let found_from = |top: &str, folder: &str| {
        let mut at = folder;
        while at != top {
            if at.is_empty() || !is_package(at) {
                return false;
            }
            at = at.rsplit_once('/').map_or("", |(above, _)| above);
        }
        true
    };
    let folder_and_name = |path: &'_ str| -> (String, String) {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        (folder.to_owned(), name.to_owned())
    };
    match rest {
        ["discover", "-s", top] => {
            let top = top.trim_start_matches("./").trim_end_matches('/');
            let names: Vec<String> = tests
                .iter()
                .filter(usual)
                .map(|path| folder_and_name(path))
                .filter(|(folder, _)| found_from(top, folder))
                .map(|(_, name)| name)
                .collect();
            if names.is_empty() || names.len() > MAX_NAMED / 4 {
                return None;
            }
            let one =
                |name: &String| format!("{} discover -s {} -p {}", call.join(" "), quoted(top), quoted(name));
            Some(names.iter().map(one).collect::<Vec<_>>().join(" && "))
        }
        options if options_only(options) && !options.contains(&"-k") => {
            let modules: Vec<String> = tests
                .iter()
                .filter(usual)
                .filter(|path| found_from("", &folder_and_name(path).0))
                .map(|path| path.trim_end_matches(".py").replace('/', "."))
                .collect();
            listed(&[call, options].concat(), &modules)
        }
        _ => None,
    }
}

/// The files of tests in place of the folders that somebody chose, as far as they are in those.
fn node(call: &[&str], rest: &[&str], files: &[&str], workspace: &Workspace<'_>) -> Option<String> {
    let (options, chosen): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| word.starts_with('-'));
    // A word may also be the value of the option before it, and a pattern stands for what nobody can tell.
    let folder = |word: &&str| {
        let word = word.trim_start_matches("./").trim_end_matches('/');
        !word.contains(['*', '?', '[', '{', '"', '\'', '!'])
            && workspace.names.iter().any(|name| name.starts_with(&format!("{word}/")))
    };
    if !chosen.iter().all(folder) || options.iter().any(|option| option.contains("watch")) {
        return None;
    }
    let mut tests = tests_of(&scripts(files).iter().map(String::as_str).collect::<Vec<_>>(), workspace.names);
    tests.retain(|path| {
        let within = |folder: &&str| {
            path.starts_with(&format!("{}/", folder.trim_start_matches("./").trim_end_matches('/')))
        };
        chosen.is_empty() || chosen.iter().any(within)
    });
    listed(&[call, &options].concat(), &tests)
}

fn files_instead(words: &[&str], files: &[&str], endings: &[&str]) -> Option<String> {
    let own: Vec<String> = files
        .iter()
        .filter(|path| endings.iter().any(|ending| path.ends_with(ending)))
        .map(|path| (*path).to_owned())
        .collect();
    let before: Vec<&str> = words.iter().copied().filter(|word| *word != ".").collect();
    listed(&before, &own)
}

fn related(words: &[&str], files: &[&str], option: &str) -> Option<String> {
    let own = scripts(files);
    let mut all = words.to_vec();
    all.extend(["--passWithNoTests", option]);
    listed(&all, &own)
}

fn vitest(assigned: &[&str], program: &str, rest: &[&str], files: &[&str]) -> Option<String> {
    let mut all: Vec<&str> = assigned.to_vec();
    all.extend(program.split(' '));
    all.extend(["related", "--run", "--passWithNoTests"]);
    all.extend(rest);
    listed(&all, &scripts(files))
}

/// What `npm test` runs, where that is one plain command.
fn script(manager: &str, files: &[&str], workspace: &Workspace<'_>) -> Option<String> {
    let text = (workspace.read)("package.json")?;
    let package: serde_json::Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?;
    let script = package.get("scripts")?.get("test")?.as_str()?;
    let words: Vec<&str> = script.split_whitespace().collect();
    let run = if manager == "npm" { "npx" } else { manager };
    match words.as_slice() {
        ["vitest"] | ["vitest", "run"] => vitest(&[], &format!("{run} vitest"), &[], files),
        ["jest", rest @ ..] if options_only(rest) && rest.iter().all(|word| !word.contains("watch")) => {
            let mut all = vec![run, "jest"];
            all.extend(rest);
            related(&all, files, "--findRelatedTests")
        }
        ["node", rest @ ..]
            if rest.contains(&"--test") && !script.contains(['$', ';', '|', '&', '<', '>', '`', '(']) =>
        {
            node(&words[..1], rest, files, workspace)
        }
        _ => None,
    }
}

fn classes(
    words: &[&str],
    files: &[&str],
    workspace: &Workspace<'_>,
    manifest: &str,
    option: &str,
    between: &str,
) -> Option<String> {
    let several = workspace.names.iter().filter(|name| name.ends_with(manifest)).count() > 1;
    let names = class_names(files, workspace);
    if several
        || names.is_empty()
        || names.len() > MAX_NAMED
        || words.iter().any(|word| word.starts_with(option))
    {
        return None;
    }
    Some(format!("{} {}", words.join(" "), quoted(&format!("{option}{}", names.join(between)))))
}

fn gradle(words: &[&str], files: &[&str], workspace: &Workspace<'_>) -> Option<String> {
    let builds = |name: &&String| name.ends_with("build.gradle") || name.ends_with("build.gradle.kts");
    let names = class_names(files, workspace);
    if workspace.names.iter().filter(builds).count() > 1
        || names.is_empty()
        || names.len() > MAX_NAMED
        || words.contains(&"--tests")
    {
        return None;
    }
    let chosen: Vec<String> =
        names.iter().map(|name| format!("--tests {}", quoted(&format!("*{name}")))).collect();
    Some(format!("{} {}", words.join(" "), chosen.join(" ")))
}

/// The test classes of changed Java and Kotlin files.
fn class_names(files: &[&str], workspace: &Workspace<'_>) -> Vec<String> {
    let own: Vec<&str> =
        files.iter().copied().filter(|path| path.ends_with(".java") || path.ends_with(".kt")).collect();
    let stem = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split('.').next().unwrap_or(name).to_owned()
    };
    tests_of(&own, workspace.names).iter().map(stem).collect()
}

fn scripts(files: &[&str]) -> Vec<String> {
    let endings = [".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"];
    files
        .iter()
        .filter(|path| endings.iter().any(|ending| path.ends_with(ending)))
        .map(|path| (*path).to_owned())
        .collect()
}

fn listed(words: &[&str], paths: &[String]) -> Option<String> {
    if paths.is_empty() || paths.len() > MAX_NAMED {
        return None;
    }
    let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
    Some(format!("{} {}", words.join(" "), paths.join(" ")))
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn options_only(words: &[&str]) -> bool {
    words.iter().all(|word| word.starts_with('-') && *word != "--")
}

fn only_dots(words: &[&str]) -> bool {
    words.iter().all(|word| *word == "." || word.starts_with('-')) && !words.contains(&"--fix")
}

/// A word as a shell reads it. One that looks like an option is kept from being one.
pub(crate) fn quoted(word: &str) -> String {
    let word =
        if word.starts_with('-') && !word.starts_with("-D") { format!("./{word}") } else { word.to_owned() };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=@+:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(command: &str, changed: &[&str], files: &[(&str, &str)]) -> Option<String> {
        let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        let read =
            |name: &str| files.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        let changed: Vec<String> = changed.iter().map(|path| (*path).to_owned()).collect();
        affected(command, &changed, &Workspace { names: &names, read: &read })
    }

    #[test]
    fn cargo_runs_the_packages_of_the_files() {
        let files = [
            ("Cargo.toml", "[workspace]"),
            ("crates/a/Cargo.toml", "[package]\nname = \"till-a\"\n"),
            ("crates/a/src/lib.rs", ""),
            ("crates/b/Cargo.toml", "[package]\nname = 'b'\n"),
            ("crates/b/src/lib.rs", ""),
        ];
        let run = |command: &str, changed: &[&str]| part(command, changed, &files);
        assert_eq!(run("cargo test", &["crates/a/src/lib.rs"]).as_deref(), Some("cargo test -p till-a"));
        assert_eq!(
            run(
                "cargo clippy --workspace --all-targets -- -D warnings",
                &["crates/a/src/x.rs", "crates/b/src/lib.rs"]
            )
            .as_deref(),
            Some("cargo clippy --all-targets -p till-a -p b -- -D warnings")
        );
        assert_eq!(
            run("RUST_LOG=off cargo nextest run", &["crates/b/src/lib.rs"]).as_deref(),
            Some("RUST_LOG=off cargo nextest run -p b")
        );
        assert_eq!(run("cargo test -p b", &["crates/a/src/lib.rs"]), None);
        assert_eq!(run("cargo test", &["Cargo.lock", "crates/a/src/lib.rs"]), None);
        assert_eq!(run("cargo test", &["README.md"]), None);
        assert_eq!(run("cargo test && true", &["crates/a/src/lib.rs"]), None);
        assert_eq!(
            part(
                "cargo test",
                &["src/lib.rs"],
                &[("Cargo.toml", "[package]\nname=\"a\""), ("src/lib.rs", "")]
            ),
            None
        );
    }

    #[test]
    fn pytest_runs_the_tests_of_the_files() {
        let files = [
            ("shop/till.py", ""),
            ("tests/test_till.py", ""),
            ("tests/test_other.py", ""),
            ("tests/conftest.py", ""),
            ("shop/lone.py", ""),
        ];
        let run = |command: &str, changed: &[&str]| part(command, changed, &files);
        assert_eq!(run("pytest", &["tests/test_other.py"]).as_deref(), Some("pytest tests/test_other.py"));
        assert_eq!(
            run("python3 -m pytest -q", &["shop/till.py", "tests/test_till.py"]).as_deref(),
            Some("python3 -m pytest -q tests/test_till.py")
        );
        assert_eq!(
            run("uv run pytest -x", &["shop/till.py"]).as_deref(),
            Some("uv run pytest -x tests/test_till.py")
        );
        assert_eq!(run("pytest", &["shop/lone.py"]), None);
        assert_eq!(run("pytest", &["tests/conftest.py", "shop/till.py"]), None);
        assert_eq!(run("pytest tests", &["shop/till.py"]), None);
        assert_eq!(run("pytest", &["gone/test_gone.py"]), None);
        assert_eq!(run("ruff check .", &["shop/till.py"]).as_deref(), Some("ruff check shop/till.py"));
        assert_eq!(run("mypy .", &["shop/till.py"]), None);
    }

    #[test]
    fn unittest_runs_the_modules_of_the_files() {
        let files = [
            ("shop.py", ""),
            ("test_shop.py", ""),
            ("till/__init__.py", ""),
            ("till/cash.py", ""),
            ("till/test_cash.py", ""),
            ("tests/test_shop.py", ""),
            ("tests/test_more.py", ""),
        ];
        let run = |command: &str, changed: &[&str]| part(command, changed, &files);
        assert_eq!(
            run("python3 -m unittest -v", &["shop.py", "till/cash.py"]).as_deref(),
            Some("python3 -m unittest -v test_shop till.test_cash"),
            "what is in no package is not found from the root"
        );
        assert_eq!(
            run("uv run python -m unittest", &["till/test_cash.py"]).as_deref(),
            Some("uv run python -m unittest till.test_cash")
        );
        let discover = "python3 -m unittest discover -s tests";
        assert_eq!(
            run(discover, &["shop.py", "tests/test_more.py"]).as_deref(),
            Some(
                "python3 -m unittest discover -s tests -p test_shop.py && python3 -m unittest discover -s tests -p test_more.py"
            )
        );
        assert_eq!(run(discover, &["till/cash.py"]), None);
        assert_eq!(run("python3 -m unittest", &["README.md"]), None);
        assert_eq!(run("python3 -m unittest test_shop", &["shop.py"]), None);
        assert_eq!(run("python3 -m unittest discover -s tests -p x.py", &["shop.py"]), None);
        assert_eq!(
            part(
                &format!("cd app && {discover}"),
                &["app/a.py"],
                &[("app/a.py", ""), ("app/tests/test_a.py", "")]
            )
            .as_deref(),
            Some("cd app && python3 -m unittest discover -s tests -p test_a.py")
        );
    }

    #[test]
    fn node_runs_the_files_of_tests() {
        let of = |script: &str| format!(r#"{{"scripts":{{"test":"{script}"}}}}"#);
        let run = |script: &str, changed: &str| {
            let package = of(script);
            let files = [
                ("package.json", package.as_str()),
                ("src/till.js", ""),
                ("test/till.test.js", ""),
                ("src/till.test.js", ""),
            ];
            part("npm test", &[changed], &files)
        };
        assert_eq!(
            run("node --test", "src/till.js").as_deref(),
            Some("node --test test/till.test.js src/till.test.js")
        );
        assert_eq!(
            run("node --import=tsx --test ./test/", "src/till.js").as_deref(),
            Some("node --import=tsx --test test/till.test.js")
        );
        assert_eq!(run("node --test", "package.json"), None);
        for other in [
            "node --test src/**/*.js",
            "node --test --watch",
            "node --test && tsc",
            "node --test --import tsx",
        ] {
            assert_eq!(run(other, "src/till.js"), None, "{other}");
        }
    }

    #[test]
    fn what_runs_in_a_folder_is_cut_to_the_files_in_it() {
        let files = [
            ("backend/go.mod", ""),
            ("backend/till/till.go", ""),
            ("web app/package.json", r#"{"scripts":{"test":"vitest run"}}"#),
            ("web app/src/a.ts", ""),
            ("till/till.go", ""),
        ];
        let run = |command: &str, changed: &[&str]| part(command, changed, &files);
        let go = "cd backend && go test ./...";
        let changed = ["backend/till/till.go", "web app/src/a.ts"];
        assert_eq!(run(go, &changed).as_deref(), Some("cd backend && go test ./till"));
        assert_eq!(
            run("cd 'web app' && npm test", &changed).as_deref(),
            Some("cd 'web app' && npx vitest related --run --passWithNoTests src/a.ts")
        );
        assert_eq!(run(go, &["till/till.go"]), None);
        assert_eq!(run("cd backend && go test ./... && cd x && y", &changed), None);
        assert_eq!(folder_of("cd apps/web && cd './a b/' && npm test"), "apps/web/a b");
        assert_eq!(folder_of("npm test"), "");
        for other in ["cd .. && go test ./...", "cd $X && go test ./...", "cd / && go test ./..."] {
            assert_eq!(in_folder(other), None, "{other}");
        }
    }

    #[test]
    fn go_runs_the_folders_of_the_files() {
        let files = [("go.mod", ""), ("till.go", ""), ("a/b/x.go", ""), ("a b/y.go", "")];
        let run = |changed: &[&str]| part("go test ./...", changed, &files);
        assert_eq!(run(&["a/b/x.go"]).as_deref(), Some("go test ./a/b"));
        assert_eq!(run(&["till.go", "a b/y.go"]).as_deref(), Some("go test . './a b'"));
        assert_eq!(run(&["go.mod", "till.go"]), None);
        assert_eq!(run(&["README.md"]), None);
    }

    #[test]
    fn runners_of_javascript_find_what_is_related() {
        let files = [
            ("package.json", r#"{"scripts":{"test":"vitest run"}}"#),
            ("src/till.ts", ""),
            ("src/till.test.ts", ""),
            ("x'y.ts", ""),
        ];
        let run = |command: &str, changed: &[&str]| part(command, changed, &files);
        let related = "npx vitest related --run --passWithNoTests src/till.ts";
        assert_eq!(run("npm test", &["src/till.ts"]).as_deref(), Some(related));
        assert_eq!(run("npx vitest run", &["src/till.ts"]).as_deref(), Some(related));
        assert_eq!(
            run("npx jest --ci", &["src/till.ts"]).as_deref(),
            Some("npx jest --ci --passWithNoTests --findRelatedTests src/till.ts")
        );
        assert_eq!(run("npx eslint .", &["x'y.ts"]).as_deref(), Some(r"npx eslint 'x'\''y.ts'"));
        assert_eq!(run("node --test", &["src/till.ts"]).as_deref(), Some("node --test src/till.test.ts"));
        assert_eq!(run("npm test", &["README.md"]), None);
        let both = [("package.json", r#"{"scripts":{"test":"tsc && vitest run"}}"#), ("a.ts", "")];
        assert_eq!(part("npm test", &["a.ts"], &both), None);
    }

    #[test]
    fn java_runs_the_classes() {
        let files = [
            ("pom.xml", ""),
            ("build.gradle", ""),
            ("src/main/java/shop/Till.java", ""),
            ("src/test/java/shop/TillTest.java", ""),
        ];
        let changed = &["src/main/java/shop/Till.java"];
        assert_eq!(part("mvn -B test", changed, &files).as_deref(), Some("mvn -B test -Dtest=TillTest"));
        assert_eq!(
            part("./gradlew test", changed, &files).as_deref(),
            Some("./gradlew test --tests '*TillTest'")
        );
    }

    #[test]
    fn what_is_not_plain_is_run_whole() {
        let files = [("a.py", ""), ("test_a.py", "")];
        for command in
            ["make test", "pytest; true", "pytest | tee log", "pytest -k 'a or b'", "bash -c pytest", ""]
        {
            assert_eq!(part(command, &["a.py"], &files), None, "{command}");
        }
    }
}
