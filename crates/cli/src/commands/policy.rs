//! The policy of a session, as commands are given it.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use protocol::Policy;

use crate::exit::Usage;

/// What the calls of the model need before they run.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct Given {
    /// File with the session's own policy, in TOML or JSON: rules that say which calls run, wait for a person, or are
    /// refused. The environment's policy holds beside it
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Ask a person after every so many actions of a turn [5 when no number is given]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "5")]
    after_every: Option<u32>,
}

impl Given {
    /// The policy; None where nothing is said.
    pub(super) fn read(&self) -> anyhow::Result<Option<Policy>> {
        if self.policy.is_none() && self.after_every.is_none() {
            return Ok(None);
        }
        let mut policy = match &self.policy {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("the policy {} cannot be read", path.display()))
                    .map_err(Usage)?;
                parse(&text).with_context(|| format!("{} is no policy", path.display())).map_err(Usage)?
            }
            None => Policy::default(),
        };
        if self.after_every == Some(0) {
            return Err(Usage(anyhow!("--after-every is 1 or more actions")).into());
        }
        policy.after_every = self.after_every.or(policy.after_every);
        Ok(Some(policy))
    }
}

/// Reads a policy in either of its forms.
fn parse(text: &str) -> anyhow::Result<Policy> {
    if text.trim_start().starts_with('{') {
        return Ok(serde_json::from_str(text)?);
    }
    Ok(toml::from_str(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_in_both_forms_and_what_is_none_is_refused() {
        let toml =
            "after_every = true\nrules = [{ then = \"ask\", tool = \"shell\", command = \"git push *\" }]\n";
        let json =
            r#"{"after_every": 5, "rules": [{"then": "ask", "tool": "shell", "command": "git push *"}]}"#;
        assert_eq!(parse(toml).unwrap(), parse(json).unwrap());
        assert_eq!(parse("").unwrap(), Policy::default());
        for wrong in ["rule = []", "rules = [{ then = \"maybe\" }]", "{", "after_every = 0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
