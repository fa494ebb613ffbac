//! What is delivered is what was on the disk while the checks passed, whatever git is told in the sandbox about its files.

use protocol::{Outcome, SetupStep};
use serde_json::json;
use testkit::model::Script;
use testkit::repo::Repo;

use crate::support::{Finished, Follow, World, create};

const TEST: &str = "grep -q right value\n";

/// What a turn came to that ran this command and then says that it is done.
struct Did {
    finished: Finished,
    /// The branch that was delivered.
    branch: Option<String>,
    told: String,
    world: World,
}

impl Did {
    fn file(&self, path: &str) -> Option<String> {
        self.world.repo.file(self.branch.as_deref().expect("a branch was delivered"), path)
    }
}

async fn does(files: &[(&str, &str)], setup: Option<&str>, check: &str, command: &str) -> Did {
    let script = Script::new().call("shell", json!({"command": command})).say("Done.").repeat_last();
    let all = [&[("value", "right\n"), ("test.sh", TEST)], files].concat();
    let world = World::with(Repo::bare_with(&all), script).await.environment(|environment| {
        environment.checks[0].run = check.into();
        let step = |run: &str| SetupStep { run: run.to_owned(), ..SetupStep::default() };
        environment.setup.extend(setup.map(step));
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Work").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert!(!follow.last_output().contains("fatal:"), "{}", follow.last_output());
    let branch = follow.deliveries().last().map(|delivery| delivery.branch.clone());
    let told = world.model.requests().last().unwrap().json.to_string();
    world.end(sessions).await;
    Did { finished, branch, told, world }
}

/// Ways to let git see the old text of `$T` where another one lies on the disk.
const TRICKS: &[&str] = &[
    // A filter of the clone, and an index that was made with it.
    "git config filter.x.clean \"git show HEAD:$T\"; echo \"$T filter=x\" >> .git/info/attributes; \
     echo 'exit 0' > $T; git add $T",
    // A filter and attributes of the user.
    "cp $T /tmp/old; git config --global filter.y.clean 'cat /tmp/old'; echo \"$T filter=y\" > /tmp/attributes; \
     git config --global core.attributesFile /tmp/attributes; echo 'exit 0' > $T",
    // An edit that leaves size and time as they were.
    "git config core.trustctime false; git config core.checkStat minimal; touch -r $T /tmp/t; \
     printf 'exit 0 # grep -q right valu\\n' > $T; touch -r /tmp/t $T; git update-index -q --refresh",
    // An index that says so.
    "old=$(git rev-parse HEAD:$T); echo 'exit 0 # changed' > $T; git add $T; python3 - $old $T <<'E'\n\
     import hashlib, subprocess, sys\n\
     new = subprocess.check_output(['git', 'rev-parse', ':' + sys.argv[2]], text=True).strip()\n\
     index = open('.git/index', 'rb').read()[:-20].replace(bytes.fromhex(new), bytes.fromhex(sys.argv[1]))\n\
     open('.git/index', 'wb').write(index + hashlib.sha1(index).digest())\nE\n",
    "git update-index --assume-unchanged $T; echo 'exit 0' > $T",
    "git update-index --skip-worktree $T; echo 'exit 0' > $T",
    "git rm -q --cached $T; echo $T > /tmp/no; git config core.excludesFile /tmp/no; echo 'exit 0' > $T",
    "git rm -q --cached $T; echo $T >> .git/info/exclude; echo 'exit 0' > $T",
    // Another work tree.
    "mkdir /tmp/w; cp -r . /tmp/w; git config core.worktree /tmp/w; echo 'exit 0' > $T",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_setting_of_git_makes_what_is_delivered_other_than_what_was_checked() {
    let names: Vec<String> = (0..TRICKS.len()).map(|n| format!("t{n}.sh")).collect();
    let files: Vec<(&str, String)> =
        names.iter().map(|name| (name.as_str(), format!("# {name}\n{TEST}"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let tricks: Vec<String> =
        TRICKS.iter().zip(&names).map(|(trick, name)| format!("T={name}\n{trick}")).collect();
    let command = format!("{}\necho wrong > value", tricks.join("\n"));
    let did = does(&files, None, "for t in t?.sh; do sh $t || exit 1; done", &command).await;
    assert_eq!(did.finished.outcome, Outcome::Done, "{:?}", did.finished.reason);
    for (trick, name) in TRICKS.iter().zip(&names) {
        let test = did.file(name).unwrap_or_default();
        assert!(test.starts_with("exit 0"), "{trick}: {test}");
    }
    assert_eq!(did.file("value").as_deref(), Some("wrong\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_git_converts_is_checked_as_it_is_delivered() {
    // What is between the dollars is no part of the file.
    let files = [(".gitattributes", "*.sh ident\n"), ("test.sh", "true \"$Id$\"\ngrep -q right value\n")];
    let hide = "cat > test.sh <<'E'\ntrue \"$Id: \"; exit 0; true \" $\"\ngrep -q right value\nE\necho wrong > value";
    let did = does(&files, None, "sh test.sh", hide).await;
    assert_eq!(did.finished.outcome, Outcome::Escalated, "{:?}", did.finished);
    assert_eq!(did.branch, None);

    // Whoever checks a batch file out gets it so, and the check sees it so.
    let files = [(".gitattributes", "*.bat eol=crlf\n")];
    let did = does(&files, None, "grep -q ' right.$' run.bat", "echo 'echo right' > run.bat").await;
    assert_eq!(did.finished.outcome, Outcome::Done, "{:?}", did.finished.reason);
    assert_eq!(did.file("run.bat").as_deref(), Some("echo right\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_not_on_the_disk_are_no_part_of_what_passed() {
    let hide = "git sparse-checkout set --no-cone '/*' '!/test.sh'; echo wrong > value";
    let did = does(&[], None, "if [ -e test.sh ]; then sh test.sh; fi", hide).await;
    assert_eq!(did.finished.outcome, Outcome::Escalated, "{:?}", did.finished);
    assert!(did.told.contains("not on the disk") && did.told.contains(": test.sh."), "{}", did.told);

    // Where people wanted it so, the rest is as it was.
    let setup = "git sparse-checkout set --no-cone '/*' '!/test.sh'";
    let did = does(&[], Some(setup), "! [ -e test.sh ]", "echo better > value").await;
    assert_eq!(did.finished.outcome, Outcome::Done, "{:?}", did.finished.reason);
    assert_eq!(did.file("test.sh").as_deref(), Some(TEST));
    assert_eq!(did.file("value").as_deref(), Some("better\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_of_the_set_up_apply_and_those_of_the_session_are_refused() {
    let files = [(".gitattributes", "*.up filter=up\n")];
    let setup = "git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge cat";
    let did = does(&files, Some(setup), "grep -q loud a.up", "echo loud > a.up").await;
    assert_eq!(did.finished.outcome, Outcome::Done, "{:?}", did.finished.reason);
    assert_eq!(did.file("a.up").as_deref(), Some("LOUD\n"));

    let did = does(&files, None, "true", &format!("{setup}; echo loud > a.up")).await;
    assert_eq!(did.finished.outcome, Outcome::Escalated, "{:?}", did.finished);
    assert!(did.told.contains("a filter of git that was configured in this session: a.up."), "{}", did.told);
}

#[tokio::test(flavor = "multi_thread")]
async fn which_files_are_tracked_is_the_agents_to_say() {
    let files = [(".gitignore", "out/\n"), ("stamp", "0\n")];
    let command = "mkdir out; echo 1 > out/wanted; echo 2 > out/other; git add -f out/wanted; \
                   git rm -q --cached stamp; echo stamp >> .gitignore";
    let did = does(&files, None, "test -e stamp && sh test.sh", command).await;
    assert_eq!(did.finished.outcome, Outcome::Done, "{:?}", did.finished.reason);
    assert_eq!(did.file("out/wanted").as_deref(), Some("1\n"));
    assert_eq!((did.file("out/other"), did.file("stamp")), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_did_not_change_are_as_new_attributes_make_them() {
    // Whoever checks it out gets a test that is never right.
    let did = does(&[], None, "sh test.sh", "echo 'test.sh eol=crlf' > .gitattributes").await;
    assert_eq!(did.finished.outcome, Outcome::Escalated, "{:?}", did.finished);
    assert_eq!(did.branch, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_hides_stays_refused_also_beside_what_people_hid() {
    let setup = "git update-index --skip-worktree local; rm local";
    let hide = "git update-index --skip-worktree test.sh; rm test.sh; echo wrong > value";
    let check = "if [ -e test.sh ]; then sh test.sh; fi";
    let lists = "rm -f .git/slipway-index; echo test.sh >> .git/slipway-hidden";
    for command in [hide, &format!("{hide}; {lists}")] {
        let did = does(&[("local", "mine\n")], Some(setup), check, command).await;
        assert_eq!(did.finished.outcome, Outcome::Escalated, "{command}: {:?}", did.finished);
        assert!(did.told.contains("not on the disk"), "{}", did.told);
        assert_eq!(did.branch, None);
    }
    // Nor is it for a check to hide anything.
    let check = "sh test.sh && git update-index --skip-worktree test.sh && rm test.sh";
    let did = does(&[], None, check, "echo 'right too' > value").await;
    assert_eq!(did.finished.outcome, Outcome::Escalated, "{:?}", did.finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_every_kind_can_be_delivered() {
    let files = [(".gitattributes", "* text=auto\n*.bat eol=crlf\n"), ("config", "old\n")];
    // People told git not to look at it; what is there then is delivered all the same.
    let setup = "git update-index --assume-unchanged config";
    let command = "echo new > config; echo x > \"$(printf 'Icon\\r')\"; echo a > r.bat; chmod 444 r.bat; \
                   mkdir out; echo 1 > out/a; echo out >> .gitignore; git add -f out/a; rm -r out; ln -s /tmp out";
    let did = does(&files, Some(setup), "sh test.sh", command).await;
    assert_eq!(did.finished.outcome, Outcome::Done, "{:?}", did.finished.reason);
    assert_eq!(did.file("config").as_deref(), Some("new\n"));
    assert_eq!(did.file("Icon\r").as_deref(), Some("x\n"));
    assert_eq!(did.file("r.bat").as_deref(), Some("a\n"));
}
