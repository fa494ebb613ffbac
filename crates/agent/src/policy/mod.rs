//! Which calls run, wait for a person, or are refused. Pure: the same policies and the same call give the same decision.
//! What cannot be told for certain is asked, never allowed.

mod command;
mod deliver;
mod pattern;
mod runs;
mod target;
mod tree;

use protocol::{EditFormat, Permission, Policy, PolicyRule};

use crate::tools::{self, Invocation};
use pattern::{Fit, Pattern};
use target::Target;

pub use deliver::{DELIVER, Delivers, delivers, delivers_submodule};
pub use target::{Word, absolute, paths, words};
pub use tree::{names_below, needs_below};

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person decides.
    Ask {
        /// Why, for people.
        why: String,
        /// Rules that allow all of its kind; empty where no rule can say what its kind is.
        kind: Vec<PolicyRule>,
        /// Whether it is only asked because so many actions came before it.
        after_every: bool,
    },
    /// It is refused.
    Deny {
        /// What the model is told.
        why: String,
    },
}

/// What is known of a call beside what it says.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// What people allowed for the rest of the session. It overrides what asks, and nothing that denies.
    pub granted: &'a [PolicyRule],
    /// Where links lead, for each of [`paths`]; None where that cannot be told.
    pub real: Option<&'a [String]>,
    /// Where the words of commands lead, for each of [`words`] all that it stands for; None where that cannot be told.
    pub leads: Option<&'a [(Word, Vec<String>)]>,
    /// What lies below the directories among them and has one of [`names_below`]; None where that cannot be told.
    pub below: Option<&'a [String]>,
    /// Actions of the turn since a person last decided; None where nobody wants to be asked for that.
    pub actions: Option<u32>,
}

/// Decides on a call. Of several policies the strictest holds.
pub fn decide(policies: &[&Policy], call: &Invocation, known: Known<'_>) -> Decision {
    let targets = target::of(call, known.real, known.leads, known.below);
    let mut asked: Vec<Asked<'_>> = Vec::new();
    for target in &targets {
        for policy in policies {
            match judge(policy, call.tool(), target) {
                Judged::Allow => {}
                Judged::Deny(rule) => return Decision::Deny { why: denied(rule) },
                Judged::Ask(rule, sure) => {
                    let granted = known.granted.iter().any(|rule| grants(rule, call.tool(), target));
                    if !granted {
                        asked.push(Asked { target, rule, sure });
                    }
                }
            }
        }
    }
    // Who gives a file another name can read it by that one.
    let moved: Vec<Target> = target::moved(call, known.real);
    for (target, policy) in
        moved.iter().flat_map(|target| policies.iter().map(move |policy| (target, policy)))
    {
        match judge(policy, "read", target) {
            Judged::Allow => {}
            Judged::Deny(rule) => return Decision::Deny { why: denied(rule) },
            Judged::Ask(rule, sure) if !known.granted.iter().any(|rule| grants(rule, "read", target)) => {
                asked.push(Asked { target, rule, sure });
            }
            Judged::Ask(..) => {}
        }
    }
    if !asked.is_empty() {
        return ask(call.tool(), &asked);
    }
    let every = policies.iter().filter_map(|policy| policy.after_every).min();
    match (every, known.actions) {
        (Some(every), Some(actions)) if actions >= every && acts(call) => Decision::Ask {
            why: format!("{actions} actions since a person last looked"),
            kind: Vec::new(),
            after_every: true,
        },
        _ => Decision::Allow,
    }
}

/// The rule that denies a call for certain, whatever links there are.
pub fn denies<'a>(policies: &[&'a Policy], call: &Invocation) -> Option<&'a PolicyRule> {
    let targets = target::of(call, Some(&paths(call)), None, None);
    let judged = |target: &Target, policy: &&'a Policy| match judge(policy, call.tool(), target) {
        Judged::Deny(rule) => Some(rule),
        Judged::Allow | Judged::Ask(..) => None,
    };
    targets.iter().find_map(|target| policies.iter().find_map(|policy| judged(target, policy)))
}

/// Whether a call with this input, as the log has it, does more than look.
pub fn is_action(tool: &str, input: &serde_json::Value) -> bool {
    match tool {
        "read" | "search" | "list" | "plan" | "ask" | "recall" | "skill" | "mcp_tools" => false,
        // One tool that looks, writes and ends.
        "process" => tools::parse(EditFormat::default(), tool, &tools::replayed_arguments(input))
            .map_or(true, |call| acts(&call)),
        _ => true,
    }
}

/// Whether a call does more than look.
fn acts(call: &Invocation) -> bool {
    match call {
        Invocation::Read { .. }
        | Invocation::Search { .. }
        | Invocation::List { .. }
        | Invocation::Plan { .. }
        | Invocation::Ask { .. }
        | Invocation::Recall { .. }
        | Invocation::Skill { .. }
        | Invocation::McpTools { .. } => false,
        Invocation::Process { stdin, kill, .. } => stdin.is_some() || *kill,
        Invocation::Shell { .. }
        | Invocation::Write { .. }
        | Invocation::Edit { .. }
        | Invocation::Patch { .. }
        | Invocation::Check { .. }
        | Invocation::WebFetch { .. }
        | Invocation::Remember { .. }
        | Invocation::Mcp { .. } => true,
    }
}

/// Whether a policy says anything about files, so that it matters where links lead.
pub fn is_about_files(policies: &[&Policy]) -> bool {
    policies.iter().flat_map(|policy| &policy.rules).any(|rule| rule.path.is_some())
}

/// What one policy says of one target.
enum Judged<'a> {
    Allow,
    /// Whether the rule fits for certain.
    Ask(&'a PolicyRule, bool),
    Deny(&'a PolicyRule),
}

/// A target that a person must be asked for.
struct Asked<'a> {
    target: &'a Target,
    rule: &'a PolicyRule,
    sure: bool,
}

/// The first rule that fits decides. One that may fit and is strict is remembered: it must not be passed by.
fn judge<'a>(policy: &'a Policy, tool: &str, target: &Target) -> Judged<'a> {
    let mut feared: Option<&PolicyRule> = None;
    for rule in &policy.rules {
        match (fits(rule, tool, target), rule.then) {
            (Fit::No, _) | (Fit::Maybe, Permission::Allow) => {}
            (Fit::Maybe, Permission::Ask | Permission::Deny) => feared = feared.or(Some(rule)),
            (Fit::Yes, Permission::Allow) => break,
            (Fit::Yes, Permission::Ask) => return Judged::Ask(rule, true),
            (Fit::Yes, Permission::Deny) => return Judged::Deny(rule),
        }
    }
    feared.map_or(Judged::Allow, |rule| Judged::Ask(rule, false))
}

/// Whether what a person allowed has this in it.
fn grants(rule: &PolicyRule, tool: &str, target: &Target) -> bool {
    // Of a command its kind is compared, which is narrower than a pattern.
    let bare = PolicyRule { command: None, ..rule.clone() };
    rule.then == Permission::Allow
        && fits(&bare, tool, target) == Fit::Yes
        && rule.command.as_ref().is_none_or(|kind| target.is_of_kind(kind) == Fit::Yes)
}

fn fits(rule: &PolicyRule, tool: &str, target: &Target) -> Fit {
    let PolicyRule { then, tool: wanted, path, command, host, .. } = rule;
    // A rule for the network is decided on where connections are.
    if host.is_some() {
        return Fit::No;
    }
    let named = match wanted {
        Some(wanted) => has_tool(wanted, tool, target),
        // Nobody means the plan or a question to people who does not name it.
        None => !matches!(tool, "plan" | "ask"),
    };
    if !named {
        return Fit::No;
    }
    match (path, command) {
        (Some(path), _) => target.fits_path(&Pattern::path(path, target::WORKSPACE), *then),
        (None, Some(command)) => target.fits_command(command, *then),
        (None, None) => Fit::Yes,
    }
}

/// Whether a rule for this tool means that one, too: there are several ways to change a file, to read one, and to give a
/// command.
fn has_tool(wanted: &str, tool: &str, target: &Target) -> bool {
    const CHANGES: [&str; 3] = ["write", "edit", "apply_patch"];
    let fits = |name: &str| Pattern::name(wanted).fits(name) == Fit::Yes;
    fits(tool)
        || (CHANGES.contains(&tool) && CHANGES.into_iter().any(fits))
        || (tool == "search" && fits("read"))
        // Whoever names what calls them means all tools of servers.
        || (tools::calls_server(tool) && fits("mcp_call"))
        // To look at what runs is no command; what is written to it is one.
        || (tool == "process" && *target == Target::Line && fits("shell"))
}

/// Whether a hook for these tools, names with `|` between them, is for this call. As a rule of a policy it means every way to do
/// the same.
pub fn names_call(wanted: &str, call: &Invocation) -> bool {
    let targets = target::of(call, None, None, None);
    let means = |name: &str| targets.iter().any(|target| has_tool(name.trim(), call.tool(), target));
    wanted.split('|').any(means)
}

/// The name under which a tool is meant by a rule.
fn group(tool: &str) -> &str {
    match tool {
        "edit" | "apply_patch" => "write",
        other => other,
    }
}

fn reason(rule: &PolicyRule) -> String {
    rule.reason.as_ref().map(|reason| format!(": {}", reason.trim())).unwrap_or_default()
}

fn denied(rule: &PolicyRule) -> String {
    format!(
        "Not run: the policy of this session does not allow it ({rule}){}. Do not try to get around it. Do the work without \
         it, or, if that cannot be, say what is needed and why.",
        reason(rule)
    )
}

fn ask(tool: &str, asked: &[Asked<'_>]) -> Decision {
    let mut whys: Vec<String> = Vec::new();
    let mut kind: Vec<PolicyRule> = Vec::new();
    let mut all_have_one = true;
    for Asked { target, rule, sure } in asked {
        let doubt = if *sure { "" } else { ", which cannot be ruled out for this call" };
        let why = format!("{rule}{}{doubt}", reason(rule));
        if !whys.contains(&why) {
            whys.push(why);
        }
        match target.kind(group(tool), rule) {
            Some(one) if !kind.contains(&one) => kind.push(one),
            Some(_) => {}
            None => all_have_one = false,
        }
    }
    // Half of a kind would let half of such a call pass, and be asked again for the rest.
    let kind = if all_have_one { kind } else { Vec::new() };
    Decision::Ask { why: whys.join("; "), kind, after_every: false }
}

#[cfg(test)]
mod tests;
