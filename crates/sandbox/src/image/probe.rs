//! Whether a base can hold a session: what Slipway itself runs in a sandbox must be there.

use std::time::Duration;

use super::build::Build;
use super::{inside, key};
use crate::base::{Resolved, Source};
use crate::{Error, Sandbox};

/// The programs that scripts of Slipway call in every sandbox. Others are done without where they are missing.
const NEEDED: [&str; 12] =
    ["sh", "cat", "cp", "find", "git", "grep", "mkdir", "rm", "stat", "tr", "wc", "xargs"];
/// It takes milliseconds; this is for a machine that is very busy.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Prints those of its arguments that are no programs, a line each.
const LOOK: &str = r#"for program; do command -v "$program" >/dev/null 2>&1 || echo "$program"; done"#;

impl Build<'_> {
    /// Fails where a program is missing, once for each base. The host's own system is looked at by what runs on it:
    /// every clone is made there.
    pub(super) async fn probe(&self, base: &Resolved) -> Result<(), Error> {
        let key = key::probed(&base.key, &NEEDED);
        if self.recipe.base == Source::Host || self.images.files.has_note(&key) {
            return Ok(());
        }
        let missing = self.missing(&base.stack, &NEEDED).await?;
        if missing.is_empty() {
            return self.images.files.note(&key, "it has the programs that every session needs");
        }
        Err(Error::Build {
            message: format!(
                "the base lacks {}, without which no session can work in it",
                missing.join(", ")
            ),
            hint: "add it to the image".to_owned(),
        })
    }
}

/// Those of the programs that are not in a sandbox.
pub(super) async fn missing(sandbox: &dyn Sandbox, programs: &[&str]) -> Result<Vec<String>, Error> {
    // Without a shell the question cannot even be put.
    let nothing = crate::shell::script(":", &[], Some(TIMEOUT));
    if let Err(guest::Error::Refused(why)) = sandbox.guest().start("probe-shell", &nothing).await {
        return Ok(vec![format!("sh ({why})")]);
    }
    let script = crate::shell::script(LOOK, programs, Some(TIMEOUT));
    let (exit, said) = inside::capture(sandbox, &script).await?;
    match exit.code {
        0 => Ok(said.lines().map(str::to_owned).collect()),
        code => Err(Error::Build {
            message: format!("the base's shell could not look for programs: it exited with {code}: {said}"),
            hint: "look at /bin/sh in the image".to_owned(),
        }),
    }
}
