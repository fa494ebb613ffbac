//! Hooks and sources of skills as they must be, whoever declares them.

use protocol::{Code, Hook, Problem, SkillSource};

/// Longest time that a hook may have.
const LONGEST: u64 = 600;
/// Most hooks, and most sources of skills.
const MOST: usize = 50;

fn refuse(title: String, hint: impl Into<String>) -> Problem {
    Problem::new(Code::BadRequest, title).hint(hint)
}

/// Hooks that can be run, for tools that there are.
pub(crate) fn check_hooks(hooks: &[Hook]) -> Result<(), Problem> {
    if hooks.len() > MOST {
        return Err(refuse(format!("there are {} hooks", hooks.len()), format!("use {MOST} at most")));
    }
    let tools: Vec<&str> = agent::tools::names().collect();
    for Hook { tool, run, timeout_s, .. } in hooks {
        if run.trim().is_empty() {
            return Err(refuse(
                format!("the hook for \"{tool}\" has no command"),
                "give it one: { on = \"before\", tool = \"shell\", run = \"…\" }",
            ));
        }
        let known = |name: &str| name.contains('*') || tools.contains(&name);
        if let Some(unknown) = tool.split('|').map(str::trim).find(|name| !known(name)) {
            return Err(refuse(
                format!("the hook `{run}` names an unknown tool, \"{unknown}\""),
                format!(
                    "the tools are: {}; | stands between several, and * for any part of a name",
                    tools.join(", ")
                ),
            ));
        }
        if timeout_s.is_some_and(|seconds| seconds == 0 || seconds > LONGEST) {
            return Err(refuse(
                format!("the hook `{run}` has a time limit that is out of range"),
                format!("timeout_s is 1 to {LONGEST} seconds"),
            ));
        }
    }
    Ok(())
}

/// Sources of skills that name one place each.
pub(crate) fn check_skills(sources: &[SkillSource]) -> Result<(), Problem> {
    if sources.len() > MOST {
        return Err(refuse(
            format!("there are {} sources of skills", sources.len()),
            format!("use {MOST} at most"),
        ));
    }
    for SkillSource { url, revision, path, folder } in sources {
        let hint = "a source is { url = \"https://…\", revision = \"v1\" } or { path = \"/srv/skills\" }, with a folder if \
                    the skills are not in its root";
        match (url, path) {
            (Some(url), None) if url.trim().is_empty() => {
                return Err(refuse("a source of skills has no address".to_owned(), hint));
            }
            // What is in a recipe is in the log of every session.
            (Some(url), None) if forge::public_url(url) != *url => {
                return Err(refuse(
                    format!("the source of skills {} has credentials in its address", forge::public_url(url)),
                    "leave them out and let git on the server find them, with a credential helper or over ssh",
                ));
            }
            (Some(_), None) => {}
            (None, Some(path)) if !path.starts_with('/') => {
                return Err(refuse(
                    format!("the source of skills \"{path}\" is no absolute path"),
                    "name a directory of the server's machine from its root",
                ));
            }
            (None, Some(path)) if revision.is_some() => {
                return Err(refuse(
                    format!("the directory {path} cannot have a revision"),
                    "only a repository has revisions: name it with url, which also takes a path",
                ));
            }
            (None, Some(_)) => {}
            (Some(_), Some(_)) | (None, None) => {
                return Err(refuse("a source of skills must name one place".to_owned(), hint));
            }
        }
        let inside = |folder: &String| !folder.split('/').any(|part| matches!(part, "" | "." | ".."));
        if let Some(folder) = folder.as_ref().filter(|folder| !inside(folder)) {
            return Err(refuse(
                format!("\"{folder}\" is no folder of a source of skills"),
                "name it from the source's root, such as \"team/skills\"",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use protocol::HookPoint;

    use super::*;

    fn hook(tool: &str, run: &str, timeout_s: Option<u64>) -> Hook {
        Hook { on: HookPoint::Before, tool: tool.to_owned(), run: run.to_owned(), timeout_s }
    }

    #[test]
    fn hooks_name_tools_that_there_are() {
        for tool in ["*", "shell|write", "shell | edit", "mcp_*"] {
            check_hooks(&[hook(tool, "true", Some(10))]).unwrap();
        }
        let error = check_hooks(&[hook("shell|bash", "true", None)]).unwrap_err();
        assert!(error.title.contains("unknown tool, \"bash\""), "{error}");
        assert!(error.hint.unwrap().contains("shell, process, read"));
        for wrong in [hook("", "true", None), hook("shell", " ", None), hook("shell", "x", Some(0))] {
            check_hooks(&[wrong]).unwrap_err();
        }
        let unknown = r#"{"on": "before", "tool": "shell", "run": "x", "timeout": 5}"#;
        assert!(serde_json::from_str::<Hook>(unknown).unwrap_err().to_string().contains("timeout"));
    }

    #[test]
    fn a_source_of_skills_names_one_place() {
        let source = |url: Option<&str>, path: Option<&str>| SkillSource {
            url: url.map(str::to_owned),
            path: path.map(str::to_owned),
            ..SkillSource::default()
        };
        check_skills(&[source(Some("https://git.test/a.git"), None), source(None, Some("/srv/skills"))])
            .unwrap();
        for wrong in [
            source(None, None),
            source(Some("/a"), Some("/b")),
            source(None, Some("skills")),
            source(Some("https://ann:s3cret@git.test/a.git"), None),
            SkillSource { revision: Some("v1".into()), ..source(None, Some("/srv/skills")) },
            SkillSource { folder: Some("../x".into()), ..source(None, Some("/srv/skills")) },
        ] {
            let error = check_skills(&[wrong]).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}
