//! Policies: which calls of the model run, which wait for a person, and which are refused. What is written here is data;
//! `agent::policy` decides by it.

mod path;

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::ItemId;

pub use path::alternatives;

/// How many actions come between two looks of a person, where only `true` is said.
pub const AFTER_EVERY: u32 = 5;

/// Files that belong together, which a rule for what is delivered names with `@`.
pub const FILE_GROUPS: [&str; 4] = ["workflows", "owners", "lockfiles", "sources"];
/// Most rules of one policy.
const RULES: usize = 200;
/// Longest pattern and reason.
const LENGTH: usize = 1000;

/// What the calls of a session's model need before they run. Of several policies the strictest holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Policy {
    /// In order: the first that fits decides. What none fits is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PolicyRule>,
    /// A person is asked after so many actions of a turn, and again after so many more; `true` for 5. An action is a call
    /// that does more than look.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "after_every")]
    pub after_every: Option<u32>,
}

/// One rule of a policy. It fits what all of its patterns fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PolicyRule {
    /// What happens to what it fits.
    pub then: Permission,
    /// Name of the tool, in which `*` stands for anything. `write`, `edit` and `apply_patch` are one: they change files.
    /// `read` means `search` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Files, from the workspace unless it begins with a slash: `*` within a name, `**` over directories, `?` for a letter,
    /// `{a,b}` for either. Without a slash it means files of this name in every directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A command of the shell, such as `git push *`: `*` stands for anything, and a `*` after a space for nothing, too. Each
    /// command of a line is looked at by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A host that the sandbox connects to, as in the egress of an environment. It stands in a rule of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Why, for the model and for whoever is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What may happen to a call, the strictest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Permission {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It is refused.
    Deny,
}

impl Permission {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl Policy {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it can be used; the error says which rule cannot, and why.
    pub fn check(&self) -> Result<(), String> {
        if self.rules.len() > RULES {
            return Err(format!("a policy has at most {RULES} rules; this one has {}", self.rules.len()));
        }
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check().map_err(|why| format!("rule {} of the policy ({rule}) {why}", index + 1))?;
        }
        Ok(())
    }
}

impl PolicyRule {
    /// A rule for a tool.
    pub fn tool(then: Permission, tool: impl Into<String>) -> Self {
        Self { then, tool: Some(tool.into()), path: None, command: None, host: None, reason: None }
    }

    fn check(&self) -> Result<(), String> {
        let Self { tool, path, command, host, reason, .. } = self;
        for (key, pattern) in
            [("tool", tool), ("path", path), ("command", command), ("host", host), ("reason", reason)]
        {
            let Some(pattern) = pattern else { continue };
            if pattern.trim().is_empty() {
                return Err(format!("has an empty {key}: leave it out to mean every one"));
            }
            if pattern.len() > LENGTH {
                return Err(format!("has a {key} of {} bytes; {LENGTH} are allowed", pattern.len()));
            }
            if pattern.chars().any(char::is_control) {
                return Err(format!("has a {key} with characters that cannot be seen"));
            }
        }
        if host.is_some() && (tool.is_some() || path.is_some() || command.is_some()) {
            return Err(
                "has a host beside a tool, path or command: give the host a rule of its own".to_owned()
            );
        }
        if command.is_some() && path.is_some() {
            return Err("has a command and a path: give each a rule of its own".to_owned());
        }
        if command.is_some() && tool.as_deref().is_some_and(|tool| tool != "shell") {
            return Err("has a command, which only the tool shell has".to_owned());
        }
        // A word after an `@` is a group and no name, for what is delivered.
        let is_delivery = tool.as_deref().map(str::trim) == Some("deliver");
        let group = path.as_deref().filter(|_| is_delivery).and_then(|path| path.trim().strip_prefix('@'));
        if let Some(group) = group
            && group.bytes().all(|byte| byte.is_ascii_alphabetic())
            && !FILE_GROUPS.contains(&group)
        {
            let known: Vec<String> = FILE_GROUPS.iter().map(|group| format!("@{group}")).collect();
            return Err(format!("has a group of files that there is not: there are {}", known.join(", ")));
        }
        path.as_deref().map_or(Ok(()), path::check)
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.then.as_str())?;
        let Self { tool, path, command, host, .. } = self;
        for (key, pattern) in [("tool", tool), ("path", path), ("command", command), ("host", host)] {
            if let Some(pattern) = pattern {
                write!(f, " {key} \"{}\"", pattern.escape_debug())?;
            }
        }
        Ok(())
    }
}

/// `true` or a number from 1.
fn after_every<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    struct Reader;
    impl Visitor<'_> for Reader {
        type Value = Option<u32>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true, false or a number of actions from 1")
        }

        fn visit_bool<E: de::Error>(self, on: bool) -> Result<Option<u32>, E> {
            Ok(on.then_some(AFTER_EVERY))
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Option<u32>, E> {
            match u32::try_from(number) {
                Ok(number) if number > 0 => Ok(Some(number)),
                Ok(_) | Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
            }
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Option<u32>, E> {
            match u64::try_from(number) {
                Ok(number) => self.visit_u64(number),
                Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
            }
        }

        fn visit_unit<E: de::Error>(self) -> Result<Option<u32>, E> {
            Ok(None)
        }
    }
    deserializer.deserialize_any(Reader)
}

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AskedCall {
    /// Its item.
    pub item: ItemId,
    /// Name of the tool.
    pub tool: String,
    /// The arguments, as the model wrote them.
    pub input: Value,
    /// Why it is asked.
    pub why: String,
    /// What `all` of an approval allows for the rest of the session. Empty where it is nothing that a rule can say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kind: Vec<PolicyRule>,
    /// Whether it is asked because so many actions came before it. Then `all` means not to be asked for that again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_every: bool,
    /// Answers to choose from, where it is a question; any other is one, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What it would change in the files as they are, as git writes it; absent where it changes none, and where that cannot be
    /// told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// What was changed until a person is asked, since the session began; `GET /sessions/{id}/diff` has all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DiffSummary {
    /// The files; the first hundred.
    pub files: Vec<FileChange>,
    /// How many there are.
    pub count: u32,
    /// Lines added.
    pub insertions: u32,
    /// Lines removed.
    pub deletions: u32,
}

/// What was changed in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileChange {
    /// The file.
    pub path: String,
    /// Lines added.
    pub insertions: u32,
    /// Lines removed.
    pub deletions: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_every_is_a_switch_or_a_number() {
        let read = |text: &str| serde_json::from_str::<Policy>(text).map(|policy| policy.after_every);
        assert_eq!(read(r#"{"after_every":true}"#).unwrap(), Some(5));
        assert_eq!(read(r#"{"after_every":false}"#).unwrap(), None);
        assert_eq!(read(r#"{"after_every":null}"#).unwrap(), None);
        assert_eq!(read("{}").unwrap(), None);
        assert_eq!(read(r#"{"after_every":12}"#).unwrap(), Some(12));
        for wrong in ["0", "-1", "\"5\"", "1.5", "4294967296"] {
            let error = read(&format!(r#"{{"after_every":{wrong}}}"#)).unwrap_err().to_string();
            assert!(error.contains("true, false or a number of actions from 1"), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_is_misspelt_is_no_policy() {
        for wrong in [
            r#"{"rule":[]}"#,
            r#"{"rules":[{"then":"aks"}]}"#,
            r#"{"rules":[{"tool":"shell"}]}"#,
            r#"{"rules":[{"then":"deny","tol":"shell"}]}"#,
        ] {
            assert!(serde_json::from_str::<Policy>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_that_mean_nothing_are_told() {
        let check = |rule: &str| {
            let policy: Policy = serde_json::from_str(&format!(r#"{{"rules":[{rule}]}}"#)).unwrap();
            policy.check()
        };
        assert!(check(r#"{"then":"ask"}"#).is_ok());
        assert!(check(r#"{"then":"ask","tool":"write","path":"migrations/**"}"#).is_ok());
        assert!(check(r#"{"then":"deny","tool":"shell","command":"rm *"}"#).is_ok());
        assert!(check(r#"{"then":"allow","tool":"deliver","path":"@lockfiles"}"#).is_ok());
        assert!(check(r#"{"then":"deny","path":"@types"}"#).is_ok(), "a name may begin so");
        for (rule, says) in [
            (r#"{"then":"ask","tool":" "}"#, "an empty tool"),
            (r#"{"then":"ask","path":"a","command":"b"}"#, "a rule of its own"),
            (r#"{"then":"ask","path":"a","host":"b"}"#, "a rule of its own"),
            (r#"{"then":"ask","tool":"read","command":"b"}"#, "only the tool shell"),
            (r#"{"then":"ask","path":"a\nb"}"#, "cannot be seen"),
            (
                r#"{"then":"allow","tool":"deliver","path":"@lockfile"}"#,
                "there are @workflows, @owners, @lockfiles",
            ),
            (r#"{"then":"deny","path":"sub/../.env"}"#, "write where it leads"),
        ] {
            let error = check(rule).unwrap_err();
            assert!(error.contains(says) && error.contains("rule 1"), "{rule}: {error}");
        }
        let long = format!(r#"{{"then":"ask","path":"{}"}}"#, "a".repeat(LENGTH + 1));
        assert!(check(&long).unwrap_err().contains("1001 bytes"));
    }
}
