//! Policies against calls, for and against.

use super::*;
use crate::tools::parse_any;

fn rule(json: &str) -> PolicyRule {
    serde_json::from_str(json).unwrap()
}

fn policy(rules: &[&str]) -> Policy {
    let policy = Policy { rules: rules.iter().map(|text| rule(text)).collect(), after_every: None };
    policy.check().unwrap();
    policy
}

fn shell(command: &str) -> Invocation {
    Invocation::Shell { command: command.to_owned(), timeout_ms: 1, background: false }
}

fn call(tool: &str, arguments: &str) -> Invocation {
    parse_any(tool, arguments).unwrap()
}

/// With links that lead nowhere else.
fn decided(policies: &[&Policy], call: &Invocation, granted: &[PolicyRule]) -> Decision {
    let real = paths(call);
    decide(policies, call, Known { granted, real: Some(&real), actions: Some(0) })
}

fn word(rules: &[&str], call: &Invocation) -> &'static str {
    match decided(&[&policy(rules)], call, &[]) {
        Decision::Allow => "allow",
        Decision::Ask { .. } => "ask",
        Decision::Deny { .. } => "deny",
    }
}

const NO_PUSH: &str = r#"{"then":"deny","command":"git push *"}"#;
const NO_RM: &str = r#"{"then":"deny","command":"rm *"}"#;
const ASK_SHELL: &str = r#"{"then":"ask","tool":"shell"}"#;
const CARGO: &str = r#"{"then":"allow","command":"cargo *"}"#;

#[test]
fn without_a_rule_that_fits_everything_is_allowed() {
    assert_eq!(word(&[], &shell("rm -rf /")), "allow");
    assert_eq!(word(&[NO_PUSH], &shell("git status")), "allow");
    assert_eq!(word(&[NO_PUSH], &call("read", r#"{"path":"git push x"}"#)), "allow");
}

#[test]
fn the_first_rule_that_fits_decides() {
    assert_eq!(word(&[CARGO, ASK_SHELL], &shell("cargo test")), "allow");
    assert_eq!(word(&[ASK_SHELL, CARGO], &shell("cargo test")), "ask");
    assert_eq!(word(&[CARGO, NO_RM, ASK_SHELL], &shell("rm x")), "deny");
    assert_eq!(word(&[CARGO, r#"{"then":"deny"}"#], &call("list", "{}")), "deny");
}

#[test]
fn a_denied_command_is_found_wherever_it_stands() {
    for line in [
        "git push",
        "git push origin main",
        "ls; git push",
        "ls && git push",
        "ls || git push",
        "ls | git push",
        "ls & git push",
        "ls\ngit push",
        "(git push)",
        "{ git push; }",
        "echo $(git push)",
        "echo \"$(git push)\"",
        "cat <(git push)",
        "if true; then git push; fi",
        "for x in a; do git push; done",
        "! git push",
        "git 'push'",
        "\"git\" push",
        "g\\it push",
        "git  \t push",
        "git \\\npush",
        "/usr/bin/git push",
        "A=1 git push",
        "git push > /dev/null 2>&1",
        "> f git push",
        "echo `date`; git push",
    ] {
        // One that cannot be taken apart is asked, which is the least.
        let expected = if line.contains('`') { "ask" } else { "deny" };
        assert_eq!(word(&[NO_PUSH], &shell(line)), expected, "{line}");
    }
}

#[test]
fn what_could_be_a_denied_command_is_asked() {
    for line in [
        "git $X",
        "git p*",
        "$X",
        "$(echo git) push",
        "`git push`",
        "eval 'git push'",
        "sh -c 'git push'",
        "bash deploy.sh",
        "env git push",
        "sudo git push",
        "xargs git < x",
        "timeout 5 git push",
        "time -p git push",
        "find . -exec git push \\;",
        "python3 -c 'import os'",
        "node -e 1",
        "source x",
        ". ./x",
        "f() { git push; }; f",
        "alias x='git push'\nx",
        "case a in a) git push;; esac",
        "echo 'open",
        "git ${X:-push}",
        "{git,push}",
        "command git push",
        "exec git push",
        "echo \u{1b}[2K",
    ] {
        assert_eq!(word(&[NO_PUSH], &shell(line)), "ask", "{line}");
    }
}

#[test]
fn what_only_looks_like_it_is_not_asked() {
    for line in [
        "git status",
        "git stash push-x",
        "echo git push",
        "echo 'git push'",
        "# git push",
        "ls # git push",
        "cat <<'E'\ngit push\nE",
        "python3 manage.py test",
        "node server.js",
        "git log --grep='git push'",
        "cargo test $FLAGS",
    ] {
        assert_eq!(word(&[NO_PUSH], &shell(line)), "allow", "{line}");
    }
}

#[test]
fn an_allowed_command_takes_no_other_with_it() {
    for line in [
        "cargo test",
        "cargo",
        "cargo test 2>&1",
        "cargo test > /dev/null",
        "cargo test $X",
        "cargo a; cargo b",
        "(cargo a)",
    ] {
        assert_eq!(word(&[CARGO, ASK_SHELL], &shell(line)), "allow", "{line}");
    }
    for line in [
        "cargo test; rm x",
        "cargo test && rm x",
        "cargo test | sh",
        "cargo test & rm x",
        "cargo test\nrm x",
        "cargo test $(rm x)",
        "cargo test `rm x`",
        "cargo test > src/lib.rs",
        "cargo test <(rm x)",
        "PATH=/tmp cargo test",
        "PATH=/tmp; cargo test",
        "export PATH=/tmp; cargo test",
        "for PATH in /tmp; do cargo test; done",
        "/tmp/cargo test",
        "./cargo test",
        "cargox",
        "cargo() { rm x; }; cargo",
        "alias cargo=rm\ncargo x",
        "$X cargo",
        "",
    ] {
        assert_eq!(word(&[CARGO, ASK_SHELL], &shell(line)), "ask", "{line}");
    }
    let with_file = r#"{"then":"allow","command":"echo * > log"}"#;
    assert_eq!(word(&[with_file, ASK_SHELL], &shell("echo a > log")), "allow");
    assert_eq!(word(&[with_file, ASK_SHELL], &shell("echo a > src/lib.rs")), "ask");
    assert_eq!(word(&[with_file, ASK_SHELL], &shell("echo a > log > src/lib.rs")), "ask");
}

#[test]
fn every_way_to_change_a_file_is_one() {
    let calls = [
        ("write", r#"{"path":"migrations/1.sql","content":""}"#),
        ("edit", r#"{"path":"./migrations/1.sql","old":"a","new":"b"}"#),
        ("write", r#"{"path":"src/../migrations//1.sql","content":""}"#),
        ("write", r#"{"path":"/workspace/migrations/1.sql","content":""}"#),
        ("write", r#"{"path":"/tmp/../workspace/migrations/x/1.sql","content":""}"#),
        ("apply_patch", r#"{"patch":"*** Delete File: migrations/1.sql"}"#),
        ("apply_patch", r#"{"patch":"*** Add File: a\n+x\n*** Delete File: migrations/1.sql"}"#),
        ("apply_patch", r#"{"patch":"*** Update File: a\n*** Move to: migrations/1.sql\n@@\n-a\n+b"}"#),
    ];
    for tool in ["write", "edit", "apply_patch", "apply_*"] {
        let rule = format!(r#"{{"then":"ask","tool":"{tool}","path":"migrations/**"}}"#);
        for (name, arguments) in calls {
            assert_eq!(word(&[&rule], &call(name, arguments)), "ask", "{tool}: {name} {arguments}");
        }
        for (name, arguments) in [
            ("write", r#"{"path":"src/migrations/1.sql","content":""}"#),
            ("write", r#"{"path":"migrations/../a","content":""}"#),
            ("read", r#"{"path":"migrations/1.sql"}"#),
            ("shell", r#"{"command":"cat migrations/1.sql"}"#),
        ] {
            assert_eq!(word(&[&rule], &call(name, arguments)), "allow", "{tool}: {name} {arguments}");
        }
    }
}

#[test]
fn what_is_read_is_read_by_search_too() {
    let rule = r#"{"then":"deny","tool":"read","path":"secrets/**"}"#;
    for (tool, arguments, expected) in [
        ("read", r#"{"path":"secrets/key"}"#, "deny"),
        ("search", r#"{"pattern":"x","path":"secrets"}"#, "deny"),
        ("search", r#"{"pattern":"x","path":"secrets/a"}"#, "deny"),
        ("search", r#"{"pattern":"x"}"#, "ask"),
        ("search", r#"{"pattern":"x","path":"src"}"#, "allow"),
        ("list", r#"{"path":"secrets"}"#, "allow"),
        ("read", r#"{"path":"src/lib.rs"}"#, "allow"),
    ] {
        assert_eq!(word(&[rule], &call(tool, arguments)), expected, "{tool} {arguments}");
    }
    let allow = [r#"{"then":"allow","tool":"read","path":"src/**"}"#, r#"{"then":"ask","tool":"read"}"#];
    assert_eq!(word(&allow, &call("search", r#"{"pattern":"x","path":"src"}"#)), "allow");
    assert_eq!(word(&allow, &call("search", r#"{"pattern":"x"}"#)), "ask");
}

#[test]
fn a_rule_for_files_sees_the_words_of_a_command() {
    let rule = r#"{"then":"deny","path":"secrets/**"}"#;
    for (line, expected) in [
        ("cat secrets/key", "deny"),
        ("cat ./secrets/../secrets/key", "deny"),
        ("tool --file=secrets/key", "deny"),
        ("echo x > secrets/key", "deny"),
        ("wc < /workspace/secrets/key", "deny"),
        ("cat secrets/*", "deny"),
        ("cat s*/key", "ask"),
        ("cat $X", "ask"),
        ("cd secrets && cat key", "deny"),
        ("cd x && cat key", "ask"),
        ("cat src/lib.rs", "allow"),
        ("cat *.rs", "allow"),
        ("echo `x`", "ask"),
    ] {
        assert_eq!(word(&[rule], &shell(line)), expected, "{line}");
    }
    let allow = [r#"{"then":"allow","path":"docs/**"}"#, ASK_SHELL];
    assert_eq!(word(&allow, &shell("cat docs/a")), "ask", "a file allows no command");
}

#[test]
fn links_count_by_where_they_lead() {
    let policy = policy(&[r#"{"then":"deny","tool":"write","path":"secrets/**"}"#]);
    let call = call("write", r#"{"path":"src/link/key","content":""}"#);
    let with =
        |real: Option<&[String]>| decide(&[&policy], &call, Known { granted: &[], real, actions: None });
    assert_eq!(with(Some(&["/workspace/src/link/key".to_owned()])), Decision::Allow);
    let Decision::Deny { why } = with(Some(&["/workspace/secrets/key".to_owned()])) else { panic!() };
    assert!(why.contains(r#"deny tool "write" path "secrets/**""#), "{why}");
    assert!(matches!(with(None), Decision::Ask { .. }), "what cannot be told is asked");
    assert!(matches!(with(Some(&[])), Decision::Ask { .. }));
    assert!(is_about_files(&[&policy]));
}

#[test]
fn of_several_policies_the_strictest_holds() {
    let (lax, asks, denies) = (
        policy(&[r#"{"then":"allow"}"#]),
        policy(&[ASK_SHELL]),
        policy(&[r#"{"then":"deny","tool":"shell","reason":"this team does not"}"#]),
    );
    let command = shell("ls");
    assert_eq!(decided(&[&lax], &command, &[]), Decision::Allow);
    assert!(matches!(decided(&[&lax, &asks], &command, &[]), Decision::Ask { .. }));
    assert!(matches!(decided(&[&asks, &lax], &command, &[]), Decision::Ask { .. }));
    let Decision::Deny { why } = decided(&[&asks, &denies, &lax], &command, &[]) else { panic!() };
    assert!(why.contains("this team does not"), "{why}");
}

#[test]
fn what_was_granted_is_not_asked_again_and_overrides_no_denial() {
    let asks = policy(&[NO_RM, ASK_SHELL]);
    let Decision::Ask { kind, why, after_every } = decided(&[&asks], &shell("git push origin main"), &[])
    else {
        panic!()
    };
    assert_eq!(kind, [rule(r#"{"then":"allow","tool":"shell","command":"git push *"}"#)]);
    assert_eq!((why.as_str(), after_every), (r#"ask tool "shell""#, false));
    assert_eq!(decided(&[&asks], &shell("git push"), &kind), Decision::Allow);
    assert!(matches!(decided(&[&asks], &shell("git pull"), &kind), Decision::Ask { .. }));
    assert!(matches!(decided(&[&asks], &shell("git push; git pull"), &kind), Decision::Ask { .. }));
    assert!(matches!(decided(&[&asks], &shell("git push; rm x"), &kind), Decision::Deny { .. }));
    assert!(matches!(
        decided(&[&asks], &shell("rm x"), &[rule(r#"{"then":"allow"}"#)]),
        Decision::Deny { .. }
    ));

    // Of two commands both must have a kind.
    let Decision::Ask { kind, .. } = decided(&[&asks], &shell("git push && npm run x"), &[]) else {
        panic!()
    };
    assert_eq!(kind.len(), 2);
    let Decision::Ask { kind, .. } = decided(&[&asks], &shell("git push > x"), &[]) else { panic!() };
    assert!(kind.is_empty(), "{kind:?}");
    let Decision::Ask { kind, .. } = decided(&[&asks], &shell("echo `x`"), &[]) else { panic!() };
    assert!(kind.is_empty(), "{kind:?}");
}

#[test]
fn the_kind_of_a_file_is_what_the_rule_asks_for() {
    let asks = policy(&[
        r#"{"then":"ask","tool":"edit","path":"migrations/**","reason":"the data team looks first"}"#,
    ]);
    let write = call("write", r#"{"path":"migrations/1.sql","content":""}"#);
    let Decision::Ask { kind, why, .. } = decided(&[&asks], &write, &[]) else { panic!() };
    assert_eq!(kind, [rule(r#"{"then":"allow","tool":"write","path":"migrations/**"}"#)]);
    assert!(why.ends_with(": the data team looks first"), "{why}");
    let edit = call("edit", r#"{"path":"migrations/2.sql","old":"a","new":"b"}"#);
    assert_eq!(decided(&[&asks], &edit, &kind), Decision::Allow);
}

#[test]
fn after_so_many_actions_a_person_is_asked() {
    let every = Policy { after_every: Some(3), ..Policy::default() };
    let often = Policy { after_every: Some(2), ..Policy::default() };
    let at = |policies: &[&Policy], call: &Invocation, actions: Option<u32>| {
        decide(policies, call, Known { granted: &[], real: None, actions })
    };
    assert_eq!(at(&[&every], &shell("ls"), Some(2)), Decision::Allow);
    let Decision::Ask { after_every: true, kind, why } = at(&[&every], &shell("ls"), Some(3)) else {
        panic!()
    };
    assert!(kind.is_empty() && why.contains("3 actions"), "{why}");
    assert_eq!(
        at(&[&every], &shell("ls"), None),
        Decision::Allow,
        "nobody wants to be asked for it any more"
    );
    assert_eq!(
        at(&[&every], &call("read", r#"{"path":"a"}"#), Some(9)),
        Decision::Allow,
        "who looks is not stopped"
    );
    assert!(matches!(at(&[&every, &often], &shell("ls"), Some(2)), Decision::Ask { .. }));
}

#[test]
fn the_plan_and_the_network_are_meant_only_by_name() {
    let plan = call("plan", r#"{"items":"[ ] a"}"#);
    assert_eq!(word(&[r#"{"then":"deny"}"#], &plan), "allow");
    assert_eq!(word(&[r#"{"then":"deny","tool":"plan"}"#], &plan), "deny");
    assert_eq!(word(&[r#"{"then":"deny","host":"*"}"#], &shell("curl x")), "allow");
}

#[test]
fn what_is_written_to_a_program_is_a_command_that_nobody_can_tell() {
    let write = call("process", r#"{"id":"p1","stdin":"git push\n"}"#);
    assert_eq!(word(&[], &write), "allow");
    // Rules for commands and files cannot be passed by, and what allows some allows none of it.
    for rules in [
        &[NO_PUSH][..],
        &[NO_RM],
        &[ASK_SHELL],
        &[r#"{"then":"ask","tool":"shell","command":"git *"}"#],
        &[r#"{"then":"deny","path":".env"}"#],
        &[CARGO, ASK_SHELL],
    ] {
        assert_eq!(word(rules, &write), "ask", "{rules:?}");
    }
    let no_shell = r#"{"then":"deny","tool":"shell"}"#;
    assert_eq!(word(&[no_shell], &write), "deny");
    assert_eq!(word(&[CARGO, no_shell], &write), "deny");
    // Who allows every command allows this too, and so does whoever names it.
    assert_eq!(word(&[r#"{"then":"allow","tool":"shell"}"#, r#"{"then":"deny"}"#], &write), "allow");
    assert_eq!(word(&[r#"{"then":"allow","tool":"process"}"#, ASK_SHELL, NO_PUSH], &write), "allow");
    match decided(&[&policy(&[ASK_SHELL])], &write, &[]) {
        Decision::Ask { kind, .. } => assert_eq!(kind, [], "one approval is not one for all that follows"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn to_look_at_what_runs_and_to_end_it_is_no_command() {
    for arguments in [r#"{"id":"p1"}"#, r#"{"id":"p1","kill":true}"#, "{}"] {
        let look = call("process", arguments);
        assert_eq!(word(&[NO_PUSH, ASK_SHELL], &look), "allow", "{arguments}");
        assert_eq!(word(&[r#"{"then":"deny","tool":"process"}"#], &look), "deny");
    }
    let counted = |input: serde_json::Value| is_action("process", &input);
    assert!(!counted(serde_json::json!({"id": "p1", "chars": ""})));
    assert!(counted(serde_json::json!({"id": "p1", "chars": "x"})));
    assert!(counted(serde_json::json!({"id": "p1", "kill": true})) && counted(serde_json::json!(3)));
    let every = Policy { after_every: Some(1), ..Policy::default() };
    let asked = |arguments: &str| {
        let known = Known { granted: &[], real: Some(&[]), actions: Some(1) };
        decide(&[&every], &call("process", arguments), known)
    };
    assert_eq!(asked(r#"{"id":"p1"}"#), Decision::Allow);
    assert!(matches!(asked(r#"{"id":"p1","stdin":"x"}"#), Decision::Ask { after_every: true, .. }));
}
