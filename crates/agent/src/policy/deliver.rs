//! Which changed files may be delivered. Rules for it name the tool `deliver`, which no model has: what is pushed is decided
//! on by what changed, whichever way it did.

use protocol::{Permission, Policy, PolicyRule};

use super::pattern::{Fit, Pattern};
use super::target::WORKSPACE;

/// The name that rules give it.
pub const DELIVER: &str = "deliver";

/// Files for which a person is asked where no rule says otherwise, and why: what they say takes effect when they are pushed,
/// before anybody has reviewed them, or decides who reviews, or is what reviewers do not read. Rules name a group with `@`.
const ASKED: [Group; 4] = [
    Group {
        name: "workflows",
        why: "it runs with the repository's secrets once it is pushed",
        files: &[
            ".github/workflows/**",
            ".github/actions/**",
            ".gitea/workflows/**",
            ".forgejo/workflows/**",
            ".gitlab-ci.yml",
            ".circleci/**",
            ".buildkite/**",
            ".woodpecker/**",
            ".woodpecker.yml",
            ".woodpecker.yaml",
            ".cirrus.yml",
            ".gitlab/ci/**",
            ".azure-pipelines/**",
            ".appveyor.yml",
            ".drone.yml",
            ".travis.yml",
            "Jenkinsfile",
            "azure-pipelines.yml",
            "bitbucket-pipelines.yml",
            "appveyor.yml",
        ],
    },
    Group { name: "owners", why: "it says who reviews", files: &["CODEOWNERS"] },
    Group {
        name: "lockfiles",
        why: "it says whose code is installed and run, and few people read it in a review",
        files: &[
            "Cargo.lock",
            "package-lock.json",
            "npm-shrinkwrap.json",
            "yarn.lock",
            "pnpm-lock.yaml",
            "bun.lock",
            "bun.lockb",
            "deno.lock",
            "poetry.lock",
            "uv.lock",
            "pdm.lock",
            "pylock.toml",
            "pylock.*.toml",
            "Pipfile.lock",
            "conda-lock.yml",
            "pixi.lock",
            "go.sum",
            "go.work.sum",
            "Gemfile.lock",
            "gems.locked",
            "composer.lock",
            "mix.lock",
            "rebar.lock",
            "pubspec.lock",
            "Podfile.lock",
            "Cartfile.resolved",
            "Package.resolved",
            "packages.lock.json",
            "paket.lock",
            "gradle.lockfile",
            "buildscript-gradle.lockfile",
            "gradle/verification-metadata.xml",
            "cabal.project.freeze",
            "stack.yaml.lock",
            "flake.lock",
            "Manifest.toml",
            "conan.lock",
            "MODULE.bazel.lock",
            ".terraform.lock.hcl",
            "Chart.lock",
        ],
    },
    Group {
        name: "sources",
        why: "it says where other repositories or large files come from",
        files: &[".gitmodules", ".lfsconfig"],
    },
];

/// Files that are meant together.
struct Group {
    name: &'static str,
    why: &'static str,
    files: &'static [&'static str],
}

impl Group {
    fn has(&self, path: &str) -> Fit {
        self.files.iter().map(|pattern| Pattern::path(pattern, WORKSPACE).fits(path)).max().unwrap_or(Fit::No)
    }
}

/// What is said of the delivery of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivers {
    /// Whether it may be pushed.
    pub then: Permission,
    /// Why it may not, or not without being asked.
    pub why: String,
}

/// Decides on a submodule that is at another commit: it brings what nobody reviews here, so a rule must let it go.
pub fn delivers_submodule(policies: &[&Policy], names: &[&str]) -> Option<Delivers> {
    let paths: Vec<String> = names.iter().map(|name| format!("{WORKSPACE}/{name}")).collect();
    let strictest =
        policies.iter().filter_map(|policy| first(policy, &paths)).max_by_key(|rule| rule.then)?;
    let why = strictest.reason.clone().unwrap_or_else(|| "a policy says so".to_owned());
    Some(Delivers { then: strictest.then, why: why.trim().to_owned() })
}

/// Decides on a file of the workspace that changed. In each policy the first rule that fits decides, of several policies the
/// strictest holds, and where none says anything, people are asked for files of CI and of review, and for lockfiles.
///
/// The names are that of the file in the workspace and, where it is another, that in its repository; a rule can be about either.
pub fn delivers(policies: &[&Policy], names: &[&str]) -> Delivers {
    let paths: Vec<String> = names.iter().map(|name| format!("{WORKSPACE}/{name}")).collect();
    let strictest = policies.iter().filter_map(|policy| first(policy, &paths)).max_by_key(|rule| rule.then);
    if let Some(rule) = strictest {
        let why = rule.reason.clone().unwrap_or_else(|| "a policy says so".to_owned());
        return Delivers { then: rule.then, why: why.trim().to_owned() };
    }
    let built_in = ASKED.iter().find(|group| paths.iter().any(|path| group.has(path) != Fit::No));
    match built_in {
        Some(group) => Delivers { then: Permission::Ask, why: group.why.to_owned() },
        None => Delivers { then: Permission::Allow, why: String::new() },
    }
}

fn first<'a>(policy: &'a Policy, paths: &[String]) -> Option<&'a PolicyRule> {
    policy.rules.iter().filter(|rule| rule.tool.as_deref().map(str::trim) == Some(DELIVER)).find(|rule| {
        let Some(pattern) = rule.path.as_deref() else { return true };
        paths.iter().map(|path| fit(pattern, path)).any(|fit| {
            // What cannot be told for certain is not allowed.
            fit == Fit::Yes || (fit == Fit::Maybe && rule.then != Permission::Allow)
        })
    })
}

fn fit(pattern: &str, path: &str) -> Fit {
    match pattern.trim().strip_prefix('@').and_then(|name| ASKED.iter().find(|group| group.name == name)) {
        Some(group) => group.has(path),
        None => Pattern::path(pattern, WORKSPACE).fits(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_files_that_belong_together() {
        let open = policy(r#"{"then":"allow","tool":"deliver","path":"@lockfiles"}"#);
        let shut = policy(r#"{"then":"deny","tool":"deliver","path":"@workflows","reason":"by hand"}"#);
        let then = |policies: &[&Policy], path: &str| delivers(policies, &[path]).then;
        assert_eq!(then(&[&open], "web/yarn.lock"), Permission::Allow);
        assert_eq!(then(&[&open], "CODEOWNERS"), Permission::Ask, "it is in another group");
        assert_eq!(then(&[&shut], ".gitlab-ci.yml"), Permission::Deny);
        assert_eq!(then(&[&shut], "src/lib.rs"), Permission::Allow);
        assert_eq!(then(&[&open, &shut], "uv.lock"), Permission::Allow);
        let own = policy(r#"{"then":"deny","tool":"deliver","path":"@acme/**"}"#);
        assert_eq!(then(&[&own], "@acme/x.js"), Permission::Deny, "a name may begin so");
        let names: Vec<&str> = ASKED.iter().map(|group| group.name).collect();
        assert_eq!(names, protocol::policy::FILE_GROUPS, "what can be named is what there is");
    }

    fn policy(rules: &str) -> Policy {
        serde_json::from_str(&format!(r#"{{"rules":[{rules}]}}"#)).unwrap()
    }

    #[test]
    fn a_rule_is_about_a_file_of_its_repository_or_of_the_workspace() {
        let names = ["api/.github/workflows/ci.yml", ".github/workflows/ci.yml"];
        assert_eq!(delivers(&[], &names).then, Permission::Ask, "it is a file of CI where it lies");
        for path in ["api/.github/**", ".github/**"] {
            let open = policy(&format!(r#"{{"then":"allow","tool":"deliver","path":"{path}"}}"#));
            assert_eq!(delivers(&[&open], &names).then, Permission::Allow, "{path}");
        }
        let other = policy(r#"{"then":"deny","tool":"deliver","path":"web/**"}"#);
        assert_eq!(delivers(&[&other], &names).then, Permission::Ask);
    }

    #[test]
    fn files_that_nobody_reviews_in_time_are_asked_for_unless_a_rule_says_otherwise() {
        let then = |policies: &[&Policy], path: &str| delivers(policies, &[path]).then;
        for path in [
            ".github/workflows/ci.yml",
            "CODEOWNERS",
            ".github/CODEOWNERS",
            "docs/CODEOWNERS",
            ".gitlab-ci.yml",
            ".gitlab/CODEOWNERS",
            ".azure-pipelines/build.yml",
            ".lfsconfig",
            "Cargo.lock",
            "web/package-lock.json",
            "go.sum",
            "requirements/pylock.dev.toml",
        ] {
            assert_eq!(then(&[], path), Permission::Ask, "{path}");
        }
        for path in [
            "src/lib.rs",
            "Cargo.toml",
            "package.json",
            "src/lock.rs",
            ".github/ISSUE_TEMPLATE.md",
            "docs/github/workflows/x",
        ] {
            assert_eq!(then(&[], path), Permission::Allow, "{path}");
        }
        let open = policy(r#"{"then":"allow","tool":"deliver","path":".github/**"}"#);
        assert_eq!(then(&[&open], ".github/workflows/ci.yml"), Permission::Allow);
        assert_eq!(then(&[&open], ".gitlab-ci.yml"), Permission::Ask);
        let strict = policy(
            r#"{"then":"ask","tool":"deliver","path":"*.lock","reason":"locked"},{"then":"deny","tool":"deliver","path":".github/**"}"#,
        );
        assert_eq!(
            delivers(&[&strict], &["web/yarn.lock"]),
            Delivers { then: Permission::Ask, why: "locked".into() }
        );
        assert_eq!(then(&[&open, &strict], ".github/workflows/ci.yml"), Permission::Deny);
        assert_eq!(then(&[&strict], "web/Cargo.lock"), Permission::Ask);
        let calls = policy(r#"{"then":"deny","path":"src/**"},{"then":"deny","tool":"*"}"#);
        assert_eq!(then(&[&calls], "src/lib.rs"), Permission::Allow, "rules for calls are for calls");
    }
}
