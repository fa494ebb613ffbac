//! What is about to leave the machine is looked through first: for what looks like a secret, in every commit that goes, and
//! for files that a policy wants a person to see. Git on the host reads it, out of what was verified.

use std::collections::HashSet;

use protocol::{Code, Permission, Policy, Problem};

use super::Context;
use crate::failure::Failure;
use crate::joint::of;
use crate::secrets::Known;

/// Most findings that are named.
const NAMED: usize = 10;

/// What there is to say about a delivery before it is made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Concerns {
    /// What looks like a secret, with its place and without its value.
    leaks: Vec<String>,
    /// Files that a person must see, and why.
    asked: Vec<String>,
    /// Files that must not go, and why.
    denied: Vec<String>,
}

impl Concerns {
    /// Whether a person must be asked.
    pub(crate) fn ask(&self) -> bool {
        !self.leaks.is_empty() || !self.asked.is_empty()
    }

    /// What is put to a person.
    pub(crate) fn words(&self) -> String {
        let mut text = String::new();
        if !self.leaks.is_empty() {
            text.push_str(&format!("\nThis looks like a secret:{}", list(&self.leaks)));
        }
        if !self.asked.is_empty() {
            text.push_str(&format!("\nA person must see these files first:{}", list(&self.asked)));
        }
        text
    }

    /// Why it cannot be delivered whoever says so.
    pub(crate) fn denial(&self) -> Option<Problem> {
        if self.denied.is_empty() {
            return None;
        }
        let title = format!("a policy does not let these files be delivered:{}", list(&self.denied));
        let hint =
            "the work is kept: prompt the session to put them back, or change the rules for the tool deliver";
        Some(Problem::new(Code::Forbidden, title).hint(hint))
    }

    /// Why somebody who asks for the delivery does not get it without saying more.
    pub(crate) fn doubt(&self) -> Option<Problem> {
        if self.leaks.is_empty() {
            return None;
        }
        let title = format!("what would be pushed looks like it has secrets in it:{}", list(&self.leaks));
        let hint = "if none of them is one, deliver with --allow-secrets; else replace the secret where it is valid, and fork \
                    the session from a snapshot that does not have it";
        Some(Problem::new(Code::Conflict, title).hint(hint))
    }
}

/// What a file is called, each name once.
fn names_of<'a>(name: &'a str, inside: &'a str) -> Vec<&'a str> {
    if name == inside { vec![name] } else { vec![name, inside] }
}

fn list(lines: &[String]) -> String {
    let more = lines.len().saturating_sub(NAMED);
    let mut text: String = lines.iter().take(NAMED).map(|line| format!("\n- {}", harmless(line))).collect();
    if more > 0 {
        text.push_str(&format!("\n- and {more} more"));
    }
    text
}

fn harmless(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// What in a patch of the workspace looks like a secret, as the model is told it.
pub(super) async fn leaks_in(context: &Context, patch: String) -> Option<String> {
    let found = leaks(context, patch).await;
    (!found.is_empty()).then(|| {
        format!(
            "The changes have what looks like secrets, which must not be pushed:{}\nTake them out: read them from the \
             environment, or put a value there that is plainly none. If one of them is no secret, leave it as it is and say \
             so; a person is asked before anything is pushed.",
            list(&found)
        )
    })
}

/// What in some patches looks like a secret, and what is one that is known here. What cannot be looked through is for a person.
async fn leaks(context: &Context, patches: String) -> Vec<String> {
    let options = std::sync::Arc::clone(&context.options);
    let recipes = context.workspace.secrets().to_vec();
    let look = move || {
        let known = Known::read(&options, &recipes);
        let found = checks::leaked_or_known(&patches, &|text| known.told_in(text));
        found.iter().map(ToString::to_string).collect()
    };
    tokio::task::spawn_blocking(look).await.unwrap_or_else(|error| {
        tracing::error!(%error, "patches could not be looked through for secrets");
        vec!["nobody knows: the commits could not be looked through".to_owned()]
    })
}

/// Looks through everything of a commit that nobody has looked through. What cannot be looked through is for a person.
pub(crate) async fn look(context: &Context, commit: &str) -> Concerns {
    match try_look(context, commit).await {
        Ok(concerns) => concerns,
        Err(failure) => {
            let why = failure.into_problem().title;
            let leaks = vec![format!("nobody knows: the commits could not be looked through: {why}")];
            Concerns { leaks, ..Concerns::default() }
        }
    }
}

async fn try_look(context: &Context, commit: &str) -> Result<Concerns, Failure> {
    let Some(saved) = context.workspace.saved() else { return Ok(Concerns::default()) };
    if saved.cleared.as_deref() == Some(commit) {
        return Ok(Concerns::default());
    }
    let mirrors = context.workspace.mirrors().await?;
    let mut found: Vec<String> = Vec::new();
    let mut moved = Vec::new();
    for (number, (place, mirror)) in mirrors.parts().enumerate() {
        let known = std::iter::once(saved.base.as_str()).chain(saved.cleared.as_deref());
        let known: Vec<&str> = known.map(|known| of(known, number)).collect();
        let commit = of(commit, number);
        let patches = mirror.patches(commit, &known).await?;
        found.extend(leaks(context, patches.text).await);
        if patches.cut {
            found.push("nobody knows of the rest: there is more than can be looked through".to_owned());
        }
        let mut messages = String::new();
        for (commit, message) in mirror.messages(commit, &known).await? {
            let short = commit.get(..12).unwrap_or(&commit);
            messages.push_str(&as_patch(&message, &format!("the message of commit {short}")));
        }
        found.extend(leaks(context, messages).await);
        if mirror.uses_lfs(commit).await? {
            for pointer in mirror.new_pointers(commit).await? {
                let path = forge::placed(place, &pointer.path);
                let text = large_text(&mirror.large_object(&pointer.oid), &path).await;
                found.extend(leaks(context, text.unwrap_or_default()).await);
            }
        }
        let own = mirror.moved_submodules(of(&saved.base, number), commit).await?;
        moved.extend(own.into_iter().map(|moved| (forge::placed(place, &moved.path), moved, mirror.clone())));
    }
    let mut concerns = Concerns { leaks: found, ..Concerns::default() };
    let own = context.recorder.stream().with_state(|state| state.policy().clone());
    let policies = context.workspace.policies(&own);
    let policies: Vec<&Policy> = policies.iter().collect();
    let mut names = mirrors.differing(&saved.base, commit).await?;
    if let Some(cleared) = &saved.cleared {
        // What somebody has seen already is not put to them again.
        let since: HashSet<_> = mirrors.differing(cleared, commit).await?.into_iter().collect();
        names.retain(|name| since.contains(name));
    }
    for (name, inside) in names {
        let said = match moved.iter().find(|(at, ..)| *at == name) {
            Some((_, moved, mirror)) => submodule(context, mirror, &policies, (&name, moved)).await,
            None => agent::policy::delivers(&policies, &names_of(&name, &inside)),
        };
        let line = format!("{name}: {}", said.why);
        match said.then {
            Permission::Allow => {}
            Permission::Ask => concerns.asked.push(line),
            Permission::Deny => concerns.denied.push(line),
        }
    }
    Ok(concerns)
}

/// What is to be said of a submodule that is at another commit: it goes if its own repository has that, and a rule allows it.
async fn submodule(
    context: &Context,
    mirror: &forge::Mirror,
    policies: &[&Policy],
    (name, moved): (&str, &forge::Moved),
) -> agent::policy::Delivers {
    let short = moved.commit.get(..12).unwrap_or(&moved.commit);
    let back = format!(
        "put it back with `git submodule update --force -- {0}`, or `git checkout {1} -- {0}`",
        moved.path,
        context.workspace.saved().map_or_else(|| "HEAD".to_owned(), |saved| saved.source)
    );
    let deny = |why: String| agent::policy::Delivers { then: Permission::Deny, why };
    let Some(listed) = &moved.listed else {
        return deny(format!("it is a submodule at {short} that .gitmodules does not have; {back}"));
    };
    if let Err(why) = context.workspace.submodule(mirror, listed).await {
        return deny(format!(
            "it is a submodule that was moved to {short}, which nobody else would find: {why}. Push it there first; or {back}"
        ));
    }
    let said = agent::policy::delivers_submodule(policies, &[name, &moved.path]);
    said.unwrap_or_else(|| {
        deny(format!(
            "it is a submodule that was moved to {short}, and no rule lets that go: allow it with {{ then = \"allow\", tool = \
             \"deliver\", path = {name:?} }}; or {back}"
        ))
    })
}

/// The content of a large file as a patch that adds it, if it is of a size that people write.
async fn large_text(file: &std::path::Path, path: &str) -> Option<String> {
    let size = tokio::fs::metadata(file).await.ok()?.len();
    if size > forge::READ_LIMIT {
        return None;
    }
    let text = tokio::fs::read(file).await.ok()?;
    Some(as_patch(&String::from_utf8_lossy(&text), path))
}

/// A text as a patch that adds a file with it.
fn as_patch(text: &str, path: &str) -> String {
    let (path, lines) = (harmless(path), text.lines().count());
    let mut patch =
        format!("diff --git a/{path} b/{path}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{lines} @@\n");
    for line in text.lines() {
        patch.push_str(&format!("+{line}\n"));
    }
    patch
}
