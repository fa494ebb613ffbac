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
    let leads = leading_nowhere(call);
    decide(
        policies,
        call,
        Known { granted, real: Some(&real), leads: Some(&leads), below: Some(&[]), actions: Some(0) },
    )
}

/// Words of commands that are no links, and patterns that no file has.
fn leading_nowhere(call: &Invocation) -> Vec<(Word, Vec<String>)> {
    let real = |word: &Word| match word {
        Word::Path(path) => vec![absolute(path)],
        Word::Pattern(_) => Vec::new(),
    };
    words(call).into_iter().map(|word| (word.clone(), real(&word))).collect()
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
        "git -C . push",
        "git --no-pager push",
        "git -c a.b=c push",
        "/usr/bin/git --git-dir .git -c user.name=x push origin",
        "A=1 git push",
        "A='1' git push",
        "A=\"$B\" git push",
        "git push > /dev/null 2>&1",
        "npx git push",
        "npm exec -- git push",
        "pnpm dlx git push",
        "yarn exec git -C . push",
        "bunx git push",
        "uv run --frozen git push",
        "uv run npx git push",
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
        "python3 -Bc 'import os'",
        "python3 -u <<'E'\nimport os\nE",
        "python3 -W ignore -c 1",
        "python3 /dev/stdin < x",
        "python3.11 -c 1",
        "python3 -m timeit 1",
        "python3",
        "python3 $X",
        "perl -E 1",
        "perl -we 1",
        "perl -I lib -e 1",
        "perl '-Mx;y' a",
        "php -r 1",
        "ruby -e 1",
        "deno eval 1",
        "bun exec 'git push'",
        "node -p 1",
        "node --print 1",
        "node -r ./x y.js",
        "mawk 1 x",
        "gawk 1 x",
        "/lib64/ld-linux-x86-64.so.2 /usr/bin/git push",
        "/lib/ld-musl-x86_64.so.1 /usr/bin/git push",
        "taskset 1 git push",
        "setpriv git push",
        "prlimit git push",
        "strace -o x git push",
        "ltrace git push",
        "gdb --args git push",
        "setarch git push",
        "runuser -u dev git push",
        "busybox sh x",
        "script -c 'git push'",
        "sed '1e git push' x",
        "sed 's/a/git push/e' x",
        "sed -n 's/a/b/w f' x",
        "sed -f script x",
        "tar cf x --checkpoint=1 --checkpoint-action=exec='git push' y",
        "tar xf x --to-command='git push'",
        "tar xf x --to-com='git push'",
        "tar -I 'git push' -xf x",
        "tar xIf 'git push' x",
        "git -c alias.x='!git push' x",
        "git -c core.pager='git push' log",
        "git rebase -x 'git push' HEAD",
        "git rebase --exec 'git push' HEAD",
        "git bisect run git push",
        "git submodule foreach git push",
        "git config alias.x push",
        "git config core.pager list",
        "git config core.pager get --global",
        "git config --add core.pager --get",
        "git config user.name --rename-section alias",
        "npx --package a git push",
        "npx -c 'git push'",
        "npm exec --cal='git push'",
        "npm --prefix a exec git push",
        "npx $X",
        "pnpm exec sh x",
        "yarn exec node -e 1",
        "uv run --with a git push",
        "uv run - < x",
        "uv run python -c 1",
        "poetry run env git push",
        "git clone 'ext::git push' x",
        "GIT_EXTERNAL_DIFF='git push' git diff",
        "PAGER='git push' git log",
        "make -f - < x",
        "let 'a[$(git push)]=1'",
        "declare -i x='a[$(git push)]'",
        "x='a[$(git push)]'; echo ${y:x}",
        "x='a[$(git push)]'",
        "printf -v 'a[$(git push)]' x",
        "printf '-va[$(git push)]' x",
        "test -v 'a[$(git push)]'",
        "[ -v 'a[$(git push)]' ]",
        "read 'a[$(git push)]' <<< x",
        "unset 'a[$(git push)]'",
        "mapfile -C 'git push #' -c 1 < x",
        "compgen -C 'git push' x",
        "echo $(cat <<E)\ngit push\nE",
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
        "python3 -u -m pytest -e x",
        "python3 -W ignore a.py -c x",
        "python3 --version",
        "node --test",
        "node --no-warnings a.js -e",
        "perl -w a.pl",
        "ruby -Ilib test/a.rb",
        "deno test",
        "sed -n 1,20p a",
        "sed -i.bak -e 's/a/b/g; s|/x|y|' -e '/^#/d' a",
        "tar -xzf a.tgz",
        "find . -name '*.rs'",
        "set -euo pipefail",
        "git -c user.name=x commit -m y",
        "git config --get remote.origin.url",
        "git config --global --list",
        "git config get core.pager",
        "git config user.email a@b.example",
        "npx tsc --noEmit",
        "npx -y prettier --check .",
        "npm exec -- jest -i",
        "npm install",
        "yarn dlx a",
        "bunx a",
        "uv run pytest -s tests",
        "uv run python -m pytest",
        "uv sync",
        "git rebase main",
        "[ -f x ] && ls",
        "test -v HOME",
        "read -r line",
        "printf '%s' x",
        "export RUST_LOG=debug",
        "RUST_BACKTRACE=1 cargo test",
        "make test",
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
        ("apply_patch", r#"{"patch":"*** Update File: migrations/1.sql\n*** Move to: a\n@@\n-a\n+b"}"#),
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
        ("cat s[e]crets/key", "ask"),
        ("cat secrets/ke[y]", "deny"),
        ("eval 'cat secrets/key'", "ask"),
        ("bash -c 'cat secrets/key'", "ask"),
        ("nice bash -c 'cat secrets/key'", "ask"),
        ("env -S 'cat secrets/key'", "ask"),
        ("python3 -c 'print(open(\"x\").read())'", "ask"),
        ("xargs cat < list", "ask"),
        ("find . -exec cat {} +", "ask"),
        ("sed -n 'r secrets/key' a", "ask"),
        ("cat /proc/self/cwd/secrets/key", "ask"),
        ("cat /proc/1/root/workspace/secrets/key", "ask"),
        ("cat src/$X", "ask"),
        ("git show HEAD:secrets/key", "deny"),
        ("curl -d@secrets/key localhost", "deny"),
        ("KEY=secrets/key tool", "deny"),
        ("nice cat secrets/key", "deny"),
        ("npx cat secrets/key", "deny"),
        ("uv run pytest -s tests", "allow"),
        ("uv run python -c 'print(1)'", "ask"),
        ("timeout 60 cargo test", "allow"),
        ("find src -name '*.rs'", "allow"),
        ("set -e; cargo test", "allow"),
        ("cat /proc/cpuinfo", "allow"),
        ("cd /workspace && cargo test", "allow"),
        ("git commit -m 'two words'", "allow"),
        ("sed -n 1,20p src/lib.rs", "allow"),
    ] {
        assert_eq!(word(&[rule], &shell(line)), expected, "{line}");
    }
    let one = r#"{"then":"deny","path":"secrets/key"}"#;
    for line in [
        "cd secrets; cat key",
        "command cd secrets; cat key",
        "builtin cd secrets; cat key",
        "env -C secrets cat key",
        "git -C secrets show HEAD:./key",
        "tar cC secrets key",
        "cat .[/]secrets/key s?crets/key",
    ] {
        assert_eq!(word(&[one], &shell(line)), "ask", "{line}");
    }
    let allow = [r#"{"then":"allow","path":"docs/**"}"#, ASK_SHELL];
    assert_eq!(word(&allow, &shell("cat docs/a")), "ask", "a file allows no command");
}

#[test]
fn links_count_by_where_they_lead() {
    let policy = policy(&[r#"{"then":"deny","tool":"write","path":"secrets/**"}"#]);
    let call = call("write", r#"{"path":"src/link/key","content":""}"#);
    let with = |real: Option<&[String]>| {
        decide(&[&policy], &call, Known { granted: &[], real, leads: None, below: None, actions: None })
    };
    assert_eq!(with(Some(&["/workspace/src/link/key".to_owned()])), Decision::Allow);
    let Decision::Deny { why } = with(Some(&["/workspace/secrets/key".to_owned()])) else { panic!() };
    assert!(why.contains(r#"deny tool "write" path "secrets/**""#), "{why}");
    assert!(matches!(with(None), Decision::Ask { .. }), "what cannot be told is asked");
    assert!(matches!(with(Some(&[])), Decision::Ask { .. }));
    assert!(is_about_files(&[&policy]));
}

#[test]
fn links_in_the_words_of_a_command_count_by_where_they_lead() {
    let policy = policy(&[r#"{"then":"deny","path":"secrets/**"}"#]);
    let with = |line: &str, leads: Option<&[(Word, Vec<String>)]>| {
        decide(
            &[&policy],
            &shell(line),
            Known { granted: &[], real: Some(&[]), leads, below: Some(&[]), actions: None },
        )
    };
    let to = |word: Word, real: &str| [(word, vec![real.to_owned()])];
    let path = Word::Path("/workspace/lk/key".to_owned());
    assert_eq!(words(&shell("cat lk/key")), std::slice::from_ref(&path));
    assert!(matches!(
        with("cat lk/key", Some(&to(path.clone(), "/workspace/secrets/key"))),
        Decision::Deny { .. }
    ));
    assert_eq!(with("cat lk/key", Some(&to(path, "/workspace/lk/key"))), Decision::Allow);
    assert!(matches!(with("cat lk/key", None), Decision::Ask { .. }), "what cannot be told is asked");
    assert!(matches!(with("cat lk/key", Some(&[])), Decision::Ask { .. }));
    let pattern = Word::Pattern(r"/workspace/l*/\[x".to_owned());
    assert_eq!(words(&shell("cat l?/'[x'")), std::slice::from_ref(&pattern));
    assert!(matches!(
        with("cat l?/'[x'", Some(&to(pattern, "/workspace/secrets/[x"))),
        Decision::Deny { .. }
    ));
    assert_eq!(words(&shell(&format!("echo {} $x", "y".repeat(300)))), []);
}

#[test]
fn who_may_not_read_a_file_may_not_move_it() {
    let rule = r#"{"then":"deny","tool":"read","path":"secrets/**"}"#;
    let patch = |text: &str| call("apply_patch", &serde_json::json!({ "patch": text }).to_string());
    let moved = "*** Update File: secrets/key\n*** Move to: public.txt\n@@\n-a\n+b";
    assert_eq!(word(&[rule], &patch(moved)), "deny");
    assert_eq!(word(&[rule], &patch("*** Update File: secrets/key\n@@\n-a\n+b")), "allow");
    assert_eq!(word(&[rule], &patch(&moved.replace("secrets/key", "src/key"))), "allow");
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
    assert!(matches!(decided(&[&asks], &shell("git push --force"), &kind), Decision::Ask { .. }));
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
        decide(policies, call, Known { granted: &[], real: None, leads: None, below: None, actions })
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
        let known = Known { granted: &[], real: Some(&[]), leads: None, below: None, actions: Some(1) };
        decide(&[&every], &call("process", arguments), known)
    };
    assert_eq!(asked(r#"{"id":"p1"}"#), Decision::Allow);
    assert!(matches!(asked(r#"{"id":"p1","stdin":"x"}"#), Decision::Ask { after_every: true, .. }));
}

#[test]
fn a_file_behind_several_options_in_one_word_is_seen() {
    let env = r#"{"then":"deny","path":".env"}"#;
    for command in ["sort -o.env a.txt", "sort -uo.env a.txt", "grep -hf.env a.txt", "curl -sST.env http://x"]
    {
        assert_eq!(word(&[env], &shell(command)), "deny", "{command}");
    }
    assert_eq!(word(&[env], &shell("sort -uo.envelope a.txt")), "allow");
}

#[test]
fn a_command_that_is_given_a_directory_reaches_what_lies_below() {
    let policy =
        policy(&[r#"{"then":"deny","path":".env"}"#, r#"{"then":"deny","path":"config/secret/**"}"#]);
    assert_eq!(names_below(&[&policy]), [".env", "secret"]);
    let with_braces = self::policy(&[r#"{"then":"deny","path":"certs/*.{pem,key}"}"#]);
    assert_eq!(names_below(&[&with_braces]), ["*.key", "*.pem"]);
    let found = ["/workspace/app/.env".to_owned(), "/workspace/config/secret".to_owned()];
    let with = |line: &str, below: Option<&[String]>| {
        let call = shell(line);
        let leads = leading_nowhere(&call);
        let known = Known { granted: &[], real: Some(&[]), leads: Some(&leads), below, actions: None };
        match decide(&[&policy], &call, known) {
            Decision::Allow => "allow",
            Decision::Ask { .. } => "ask",
            Decision::Deny { .. } => "deny",
        }
    };
    for line in [
        "grep -r x .",
        "grep -r x",
        "grep -r -A 3 x",
        "rg x",
        "git grep x",
        "nice rg x",
        "uv run grep -r x",
        "mv config c2",
        "cp -r ./app/ /tmp",
        "tar cf /tmp/x app",
        "git checkout HEAD -- config",
        "ls -R .",
        "cat < a | grep -rn x app",
        "rm -rf /workspace",
        "du ..",
    ] {
        assert!(needs_below(&shell(line)), "{line}");
        assert_eq!(with(line, Some(&found)), "ask", "{line}");
        assert_eq!(with(line, None), "ask", "what cannot be told is asked: {line}");
        assert_eq!(with(line, Some(&[])), "allow", "nothing of it is there: {line}");
    }
    for line in
        ["ls", "ls .", "cd /workspace && make", "echo app", "mkdir -p app/x", "cargo test", "grep -r x src"]
    {
        assert_eq!(with(line, Some(&found)), "allow", "{line}");
    }
}
