//! The recipe of an environment with several repositories. What each of them says by itself is about its own directory, so it is
//! said again for the workspace that all of them lie in.

use forge::{Tip, placed};
use protocol::{Check, Environment, Hook, McpProgram, Policy, PolicyRule, Service, SetupStep};

use super::recipe::{Resolved, check_services, resolve_one};
use crate::failure::Failure;
use crate::joint::{Joint, about, of};

/// Where policies that name files by their whole path begin.
const WORKSPACE: &str = sandbox::WORKSPACE;

/// Completes the environment's recipe from all repositories. What the environment says itself is for the workspace, and wins.
pub(super) async fn resolve(
    environment: &Environment,
    mirrors: &Joint,
    tip: &Tip,
) -> Result<Resolved, Failure> {
    let mut whole = Resolved { base: environment.base.clone(), ..Resolved::default() };
    let mut instructions = vec![layout(environment, tip)];
    instructions.extend(environment.instructions.clone());
    // Where the environment says something, that is instead of what the repositories say, but for their `AGENTS.md`.
    let said = environment.instructions.as_ref().map(|_| String::new());
    let alone = Environment { instructions: said, ..environment.clone() };
    for (number, (place, mirror)) in mirrors.parts().enumerate() {
        let tip = Tip { branch: of(&tip.branch, number).into(), commit: of(&tip.commit, number).into() };
        let own = resolve_one(&alone, mirror, &tip).await.map_err(|failure| about(place, failure))?;
        let mut own = moved(place, own);
        whole.setup.append(&mut own.setup);
        whole.warm.append(&mut own.warm);
        whole.services.append(&mut own.services);
        whole.checks.append(&mut own.checks);
        whole.hooks.append(&mut own.hooks);
        for gate in own.approve {
            if !whole.approve.contains(&gate) {
                whole.approve.push(gate);
            }
        }
        if !own.policy.is_empty() {
            whole.policies.push(own.policy);
        }
        for program in own.mcp {
            match whole.mcp.iter().any(|known| known.name == program.name) {
                true => whole.notices.push(format!(
                    "{place}: the MCP server \"{}\" was ignored; there is another of that name",
                    program.name.escape_debug()
                )),
                false => whole.mcp.push(program),
            }
        }
        whole.has_skills |= own.has_skills;
        instructions.extend((!own.instructions.is_empty()).then_some(own.instructions));
        whole.notices.extend(own.notices.into_iter().map(|notice| format!("{place}: {notice}")));
    }
    if !environment.setup.is_empty() {
        whole.setup.clone_from(&environment.setup);
    }
    if !environment.warm.is_empty() {
        whole.warm.clone_from(&environment.warm);
    }
    if !environment.checks.is_empty() {
        whole.checks.clone_from(&environment.checks);
    }
    if !environment.services.is_empty() {
        whole.services.clone_from(&environment.services);
    }
    check_services(&whole.services, "the services of the repositories together")?;
    whole.instructions = instructions.join("\n\n");
    Ok(whole)
}

/// What the agent is told of where it works.
fn layout(environment: &Environment, tip: &Tip) -> String {
    let mut text = format!(
        "The workspace, {WORKSPACE}, holds several repositories, each a git clone in a directory of its own:\n"
    );
    for (number, (repo, place)) in environment.repos.iter().zip(environment.places()).enumerate() {
        let (url, branch) = (forge::public_url(&repo.url), of(&tip.branch, number));
        text.push_str(&format!("- {place}/ is {url}, branch {branch}\n"));
    }
    text.push_str(
        "Commands run in the workspace, which is no repository itself: use `git -C DIRECTORY`, or go there first. Paths of files \
         begin at the workspace. Change what the task needs in whichever of them; each repository that changed is delivered as a \
         branch and a pull request of its own, linked with the others. Nothing beside the repositories is kept.",
    );
    text
}

/// What a repository says of itself, as it is to be said where it lies.
fn moved(place: &str, own: Resolved) -> Resolved {
    let step = |step: SetupStep| SetupStep {
        run: inside(place, &step.run),
        inputs: step.inputs.iter().map(|input| placed(place, input)).collect(),
        ..step
    };
    let check =
        |check: Check| Check { name: placed(place, &check.name), run: inside(place, &check.run), ..check };
    let service = |mut service: Service| {
        service.run = inside(place, &service.run);
        service.ready.run = service.ready.run.map(|run| inside(place, &run));
        service
    };
    let program = |program: McpProgram| McpProgram {
        command: ["/bin/sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh", place]
            .into_iter()
            .map(str::to_owned)
            .chain(program.command)
            .collect(),
        ..program
    };
    let rule = |rule: PolicyRule| PolicyRule { path: rule.path.map(|path| below(place, &path)), ..rule };
    let instructions = match own.instructions.trim() {
        "" => String::new(),
        text => format!("For what is below {place}/:\n{text}"),
    };
    Resolved {
        setup: own.setup.into_iter().map(step).collect(),
        warm: own.warm.into_iter().map(step).collect(),
        services: own.services.into_iter().map(service).collect(),
        checks: own.checks.into_iter().map(check).collect(),
        hooks: own.hooks.into_iter().map(|hook| Hook { run: inside(place, &hook.run), ..hook }).collect(),
        mcp: own.mcp.into_iter().map(program).collect(),
        policy: Policy { rules: own.policy.rules.into_iter().map(rule).collect(), ..own.policy },
        instructions,
        ..own
    }
}

/// A command of a repository, run from the workspace.
fn inside(place: &str, command: &str) -> String {
    let between = if command.contains('\n') { "\n" } else { " && " };
    format!("cd {place}{between}{command}")
}

/// A pattern of a repository's files, seen from the workspace.
fn below(place: &str, pattern: &str) -> String {
    let inside = pattern.strip_prefix(WORKSPACE).and_then(|rest| rest.strip_prefix('/')).unwrap_or(pattern);
    if inside.starts_with('/') {
        return pattern.to_owned();
    }
    // One without a slash is about every directory.
    match inside.contains('/') {
        true => format!("{place}/{inside}"),
        false => format!("{place}/**/{inside}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_repository_says_is_about_its_own_directory() {
        let step = SetupStep {
            run: "npm ci".into(),
            inputs: vec!["package-lock.json".into()],
            ..Default::default()
        };
        let own = Resolved {
            setup: vec![step],
            checks: vec![Check { name: "test".into(), run: "npm test".into(), parser: "auto".into() }],
            instructions: "Use tabs.".into(),
            ..Resolved::default()
        };
        let moved = moved("apps/web", own);
        assert_eq!(moved.setup[0].run, "cd apps/web && npm ci");
        assert_eq!(moved.setup[0].inputs, ["apps/web/package-lock.json"]);
        assert_eq!(
            (moved.checks[0].name.as_str(), moved.checks[0].run.as_str()),
            ("apps/web/test", "cd apps/web && npm test")
        );
        assert_eq!(moved.instructions, "For what is below apps/web/:\nUse tabs.");
        assert_eq!(inside("api", "a\nb"), "cd api\na\nb");
    }

    #[test]
    fn patterns_of_a_repository_are_about_nothing_else() {
        for (pattern, seen) in [
            ("src/**", "api/src/**"),
            ("*.lock", "api/**/*.lock"),
            ("/workspace/a", "api/**/a"),
            ("/etc/x", "/etc/x"),
        ] {
            assert_eq!(below("api", pattern), seen);
        }
    }
}
