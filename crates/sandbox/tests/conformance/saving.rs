//! What a sandbox changed becomes a layer, while it runs or when it stops.

use std::sync::Arc;

use guest::ProcessSpec;
use protocol::{SessionId, TurnId};
use sandbox::snapshot::{How, Snapshots};
use sandbox::{Error, Life, Sandbox, Save, Stack};

use super::{Ability, Harness, World, layer, look, sh};

const LIVE: Save<'_> = Save::Live { like: None };

pub async fn a_live_save_is_a_moment_and_the_sandbox_goes_on<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    sh(&*sandbox, "mkdir d; echo 1 > d/x; echo home > ~/y; (while :; do sleep 0.01; done) & echo $! > pid")
        .await;
    let before = look(&*sandbox, "/workspace").await;
    let saved = world.driver.save(sandbox.id(), &layer("first"), LIVE).await.unwrap();
    assert!(saved.inodes > 3 && saved.bytes > 0, "{saved:?}");
    sh(&*sandbox, "kill -0 $(cat pid) && echo 2 > d/x && rm pid").await;
    assert_eq!(world.driver.list().await.unwrap()[0].state, sandbox::State::Running);
    let restored = world.create(&Stack::host().with(layer("first")), Life::Own).await;
    assert_eq!(look(&*restored, "/workspace").await, before);
    assert_eq!(sh(&*restored, "cat ~/y").await, "home");
    world.close().await;
}

pub async fn a_stopped_sandbox_becomes_a_layer<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    sh(&*sandbox, "mkdir d; echo 1 > d/x; echo home > ~/y; (setsid sleep 1000 &)").await;
    let before = look(&*sandbox, "/workspace").await;
    world.driver.save(sandbox.id(), &layer("first"), Save::Stop { without: &[] }).await.unwrap();
    assert!(world.driver.list().await.unwrap().is_empty());
    assert_eq!(world.harness.traces(sandbox.id()), Vec::<String>::new());
    let error = world.driver.save(sandbox.id(), &layer("again"), LIVE).await.err().unwrap();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    let restored = world.create(&Stack::host().with(layer("first")), Life::Own).await;
    assert_eq!(look(&*restored, "/workspace").await, before);
    assert_eq!(sh(&*restored, "cat ~/y").await, "home");
    world.close().await;
}

pub async fn two_sandboxes_of_one_layer_are_independent<H: Harness>() {
    let world = World::<H>::new();
    let stack = super::layers::grow(&world, &Stack::host(), "fork", "mkdir d; echo common > d/x").await;
    let one = world.create(&stack, Life::Own).await;
    let other = world.create(&stack, Life::Own).await;
    sh(&*one, "echo one >> d/x; touch d/one").await;
    sh(&*other, "rm -r d; mkdir d; touch d/other").await;
    assert_eq!(sh(&*one, "cat d/x; ls d").await, "common\none\none\nx");
    assert_eq!(sh(&*other, "ls d").await, "other");
    let third = world.create(&stack, Life::Own).await;
    assert_eq!(sh(&*third, "cat d/x; ls d").await, "common\nx");
    world.close().await;
}

pub async fn what_is_left_out_is_not_in_the_layer<H: Harness>() {
    let world = World::<H>::new();
    let script = "mkdir -p cache/deep kept; echo base > cache/deep/x; echo base > kept/x";
    let stack = super::layers::grow(&world, &Stack::host(), "base", script).await;
    let sandbox = world.create(&stack, Life::Own).await;
    sh(
        &*sandbox,
        "echo more > cache/deep/x; echo more > kept/x; ln -s / root; mkdir closed; touch closed/x; chmod 0 closed; \
         mkdir -p /home/dev/.cache && echo x > /home/dev/.cache/y",
    )
    .await;
    let without = [
        "/workspace/cache/deep",
        "home/dev/.cache",
        "/workspace/root/etc",
        "/workspace/closed/x",
        "/workspace/not/there",
    ];
    world.driver.save(sandbox.id(), &layer("top"), Save::Stop { without: &without }).await.unwrap();
    assert!(std::path::Path::new("/etc").is_dir());
    let restored = world.create(&stack.with(layer("top")), Life::Own).await;
    let text =
        sh(&*restored, "cat cache/deep/x kept/x; ls -A ~; readlink root; chmod 700 closed; ls closed").await;
    assert_eq!(text, "base\nmore\n/");
    world.close().await;
}

pub async fn saves_share_what_did_not_change<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    sh(&*sandbox, "mkdir d; for i in $(seq 40); do echo $i > d/$i; done; ln d/1 d/one; sleep 0.2").await;
    let mut last = None;
    let mut wanted = Vec::new();
    for round in 0..5 {
        let name = layer(&format!("save-{round}"));
        let like = last.as_ref();
        world.driver.save(sandbox.id(), &name, Save::Live { like }).await.unwrap();
        wanted.push((name.clone(), look(&*sandbox, "/workspace").await));
        last = Some(name);
        // Same size, right after the save; another name; other permissions; and one that goes.
        let change = format!(
            "printf '%s' {round} | dd of=d/2 conv=notrunc 2>/dev/null; mv d/{} d/moved-{round}; \
             chmod 600 d/{}; rm d/{}; echo {round} >> d/one",
            round + 3,
            round + 13,
            round + 23,
        );
        sh(&*sandbox, &change).await;
    }
    // The one that the others were made from may go at any time.
    world.driver.remove_layer(&layer("save-1")).await.unwrap();
    let gone = layer("save-1");
    world.driver.save(sandbox.id(), &layer("last"), Save::Live { like: Some(&gone) }).await.unwrap();
    wanted.push((layer("last"), look(&*sandbox, "/workspace").await));
    for (name, wanted) in wanted {
        if name != gone {
            let restored = world.create(&Stack::host().with(name.clone()), Life::Own).await;
            assert_eq!(look(&*restored, "/workspace").await, wanted, "{name}");
            world.driver.remove(restored.id()).await.unwrap();
        }
    }
    world.close().await;
}

/// Writes a number through a mapping whenever a line comes in, and tells when it is done.
const MAPPER: &str = "import mmap,os,sys\n\
    f=open('/workspace/mapped','r+b'); m=mmap.mmap(f.fileno(),4096)\n\
    n=0\n\
    while sys.stdin.readline():\n\
    \x20 n+=1; m[0:4]=b'%04d'%n; open('/workspace/done','w').write(str(n))\n";

pub async fn a_file_that_is_mapped_is_never_stale<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    if super::run(&*sandbox, "command -v python3").await.1.code != 0 {
        eprintln!("skipped: there is no python3 on this host");
        return world.close().await;
    }
    sh(&*sandbox, "head -c 4096 /dev/zero > mapped; echo 0 > done").await;
    let argv = ["python3", "-c", MAPPER].map(str::to_owned).into();
    let spec = ProcessSpec { argv, stdin: true, ..Default::default() };
    sandbox.guest().start("mapper", &spec).await.unwrap();
    let mut last = None;
    for round in 1..=3 {
        sandbox.guest().write_stdin("mapper", "go\n".into()).await.unwrap();
        sh(&*sandbox, &format!("until [ \"$(cat done)\" = {round} ]; do sleep 0.01; done; sleep 0.1")).await;
        let name = layer(&format!("save-{round}"));
        world.driver.save(sandbox.id(), &name, Save::Live { like: last.as_ref() }).await.unwrap();
        let restored = world.create(&Stack::host().with(name.clone()), Life::Own).await;
        assert_eq!(sh(&*restored, "head -c 4 mapped").await, format!("{round:04}"));
        world.driver.remove(restored.id()).await.unwrap();
        last = Some(name);
    }
    world.close().await;
}

pub async fn a_save_does_not_block_commands<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    sh(&*sandbox, "for i in $(seq 300); do echo $i > f-$i; done").await;
    let name = layer("meanwhile");
    let save = world.driver.save(sandbox.id(), &name, LIVE);
    let commands = async {
        for number in 0..5 {
            assert_eq!(sh(&*sandbox, &format!("echo {number}")).await, number.to_string());
        }
    };
    let (saved, ()) = tokio::join!(save, commands);
    saved.unwrap();
    // A caller that goes away does not leave it frozen.
    let abandoned = layer("abandoned");
    let save = world.driver.save(sandbox.id(), &abandoned, LIVE);
    drop(tokio::time::timeout(std::time::Duration::from_micros(300), save).await);
    assert_eq!(sh(&*sandbox, "echo goes on").await, "goes on");
    // Whatever became of that save, the next one waits for it.
    world.driver.save(sandbox.id(), &layer("after"), LIVE).await.unwrap();
    world.close().await;
}

pub async fn a_save_is_of_one_moment<H: Harness>() {
    in_step::<H>(&["/bin/sh", "-c", "n=0; while :; do n=$((n+1)); echo $n >> a; echo $n >> m/z/z; done"])
        .await;
}

/// No process lives longer than one step.
const CHAIN: &str = "import os,signal\n\
    if os.fork(): signal.pause()\n\
    a,z=[os.open(p,os.O_WRONLY|os.O_APPEND) for p in ('a','m/z/z')]\n\
    n=0\n\
    while True:\n\
    \x20 n+=1\n\
    \x20 for f in (a,z): os.write(f,b'%d\\n'%n)\n\
    \x20 if os.fork(): os._exit(0)\n";

pub async fn what_begins_others_is_caught<H: Harness>() {
    in_step::<H>(&["python3", "-c", CHAIN]).await;
}

/// Takes snapshots while a program writes numbers, each first into `a` and then into `z`. What is written second is never
/// ahead of what is written first, and never more than one behind.
async fn in_step<H: Harness>(program: &[&str]) {
    let world = World::<H>::new();
    if world.skips(Ability::Freeze) {
        return world.close().await;
    }
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    if super::run(&*sandbox, &format!("command -v {}", program[0])).await.1.code != 0 {
        eprintln!("skipped: there is no {} on this host", program[0]);
        return world.close().await;
    }
    // Whoever reads all of this sees `a` long before `z`.
    sh(&*sandbox, "mkdir -p m/z; for i in $(seq 200); do echo $i > m/$i; done; touch a m/z/z").await;
    let argv = program.iter().map(|word| (*word).to_owned()).collect();
    let spec = ProcessSpec { argv, cwd: Some(sandbox::WORKSPACE.to_owned()), ..Default::default() };
    sandbox.guest().start("writer", &spec).await.unwrap();
    let beat = "n=$(stat -c %s m/z/z); until [ $(stat -c %s m/z/z) -gt $n ]; do sleep 0.01; done";
    for round in 0..6 {
        sh(&*sandbox, beat).await;
        // A machine that is busy enough stops nothing in time, and then says so.
        let mut tries = (0..8).map(|number| layer(&format!("moment-{round}-{number}")));
        let name = loop {
            let name = tries.next().unwrap_or_else(|| panic!("every save was blurred"));
            if !world.driver.save(sandbox.id(), &name, LIVE).await.unwrap().blurred {
                break name;
            }
            eprintln!("{name} is blurred");
        };
        let restored = world.create(&Stack::host().with(name), Life::Own).await;
        let text = sh(&*restored, "tail -qn1 a m/z/z").await;
        let numbers: Vec<i64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!((0..=1).contains(&(numbers[0] - numbers[1])), "{text}");
        world.driver.remove(restored.id()).await.unwrap();
    }
    sh(&*sandbox, beat).await;
    world.close().await;
}

pub async fn what_was_stopped_stays_so<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    start(&*sandbox, "stopped", "echo $$ > stopped; kill -STOP $$; touch woken; sleep 1000").await;
    start(&*sandbox, "goes", "echo $$ > goes; while sleep 0.01; do echo x >> beat; done").await;
    let state = "for p in stopped goes; do sed 's/.*) //; s/ .*//' /proc/$(cat $p)/stat; done";
    sh(
        &*sandbox,
        &format!("until [ -s beat ] && [ -s stopped ] && {state} | head -1 | grep -q T; do :; done"),
    )
    .await;
    for round in 0..3 {
        let name = layer(&format!("save-{round}"));
        world.driver.save(sandbox.id(), &name, LIVE).await.unwrap();
        sh(&*sandbox, "rm -f beat; until [ -s beat ]; do sleep 0.01; done").await;
        assert!(sh(&*sandbox, state).await.starts_with("T\n"));
    }
    sh(&*sandbox, "[ ! -e woken ]; kill -CONT $(cat stopped); until [ -e woken ]; do sleep 0.01; done").await;
    world.close().await;
}

/// Waits for a child as a shell with job control does, and tells what it saw of it.
const WATCHER: &str = "import os,time\n\
    pid=os.fork()\n\
    if pid==0:\n\
    \x20 while not os.path.exists('/workspace/enough'): time.sleep(0.001)\n\
    \x20 os._exit(7)\n\
    open('/workspace/ready','w').close()\n\
    while True:\n\
    \x20 _,s=os.waitpid(pid,os.WUNTRACED)\n\
    \x20 open('/workspace/seen','a').write('stopped ' if os.WIFSTOPPED(s) else 'ended %d'%os.WEXITSTATUS(s))\n\
    \x20 if os.WIFEXITED(s): break\n";

pub async fn nobody_sees_a_child_stop<H: Harness>() {
    let Some((world, sandbox)) = with_python::<H>(WATCHER).await else { return };
    for round in 0..10 {
        world.driver.save(sandbox.id(), &layer(&format!("save-{round}")), LIVE).await.unwrap();
    }
    let seen = sh(&*sandbox, "touch enough; until grep -sq ended seen; do sleep 0.01; done; cat seen").await;
    assert_eq!(seen, "ended 7");
    world.close().await;
}

/// Begins a program whose input is opened while its parent still waits for it to be a program of its own.
const LENDER: &str = "import os\n\
    os.mkfifo('/workspace/fifo')\n\
    open('/workspace/ready','w').close()\n\
    pid=os.posix_spawn('/bin/cat',['cat'],{},file_actions=[(os.POSIX_SPAWN_OPEN,0,'/workspace/fifo',os.O_RDONLY,0)])\n\
    open('/workspace/ended','w').write(str(os.waitpid(pid,0)[1]))\n";

pub async fn one_that_lent_its_memory_goes_on<H: Harness>() {
    let Some((world, sandbox)) = with_python::<H>(LENDER).await else { return };
    sh(&*sandbox, "until [ -p fifo ]; do sleep 0.01; done; sleep 0.1").await;
    let saved = world.driver.save(sandbox.id(), &layer("lent"), LIVE).await.unwrap();
    assert!(!saved.blurred);
    sh(&*sandbox, "echo done > fifo; until [ -s ended ]; do sleep 0.01; done").await;
    assert_eq!(sh(&*sandbox, "cat ended").await, "0");
    world.close().await;
}

/// Traces a child as a debugger does, which lets it run, and tells of every signal that it is given.
const TRACER: &str = "import ctypes,os,time\n\
    ptrace=ctypes.CDLL(None,use_errno=True).ptrace\n\
    ptrace.argtypes=[ctypes.c_long,ctypes.c_long,ctypes.c_void_p,ctypes.c_void_p]\n\
    pid=os.fork()\n\
    if pid==0:\n\
    \x20 while not os.path.exists('/workspace/enough'): time.sleep(0.001)\n\
    \x20 os._exit(7)\n\
    assert ptrace(0x4206,pid,None,None)==0\n\
    open('/workspace/ready','w').close()\n\
    while True:\n\
    \x20 _,s=os.waitpid(pid,0)\n\
    \x20 open('/workspace/seen','a').write('ended' if os.WIFEXITED(s) else '%d '%os.WSTOPSIG(s))\n\
    \x20 if os.WIFEXITED(s): break\n\
    \x20 ptrace(7,pid,None,os.WSTOPSIG(s))\n";

pub async fn what_is_traced_is_left_alone<H: Harness>() {
    let Some((world, sandbox)) = with_python::<H>(TRACER).await else { return };
    let saved = world.driver.save(sandbox.id(), &layer("traced"), LIVE).await.unwrap();
    eprintln!("all of it stood still: {}", !saved.blurred);
    let seen = sh(&*sandbox, "touch enough; until grep -sq ended seen; do sleep 0.01; done; cat seen").await;
    assert_eq!(seen, "ended");
    world.close().await;
}

async fn start(sandbox: &dyn Sandbox, id: &str, script: &str) {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).into();
    sandbox.guest().start(id, &ProcessSpec { argv, ..Default::default() }).await.unwrap();
}

/// A sandbox in which a program runs that says when it is ready; None without python3.
async fn with_python<H: Harness>(program: &str) -> Option<(World<H>, Arc<dyn Sandbox>)> {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    if super::run(&*sandbox, "command -v python3").await.1.code != 0 {
        eprintln!("skipped: there is no python3 on this host");
        world.close().await;
        return None;
    }
    let argv = ["python3", "-c", program].map(str::to_owned).into();
    sandbox.guest().start("program", &ProcessSpec { argv, ..Default::default() }).await.unwrap();
    sh(&*sandbox, "until [ -e ready ]; do sleep 0.01; done").await;
    Some((world, sandbox))
}

pub async fn a_tied_sandbox_cannot_be_kept<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Tied).await;
    let error =
        world.driver.save(sandbox.id(), &layer("x"), Save::Stop { without: &[] }).await.err().unwrap();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert_eq!(sh(&*sandbox, "echo lives").await, "lives");
    world.driver.save(sandbox.id(), &layer("x"), LIVE).await.unwrap();
    drop(sandbox);
    world.close().await;
}

pub async fn saves_at_once_wait_for_each_other<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    sh(&*sandbox, "echo 1 > x").await;
    let names = ["a", "b", "c", "d"].map(layer);
    let saves = names.iter().map(|name| world.driver.save(sandbox.id(), name, LIVE));
    for saved in futures_util::future::join_all(saves).await {
        saved.unwrap();
    }
    assert_eq!(sh(&*sandbox, "echo goes on").await, "goes on");
    let stop = layer("e");
    let (saved, removed) = tokio::join!(
        world.driver.save(sandbox.id(), &stop, Save::Stop { without: &[] }),
        world.driver.remove(sandbox.id()),
    );
    removed.unwrap();
    match saved {
        Ok(_) | Err(Error::NotFound(_)) => {}
        Err(error) => panic!("{error}"),
    }
    world.close().await;
}

pub async fn a_large_tree_is_saved_whole<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    // More than is copied while it stands still, and something that changes all the time.
    sh(&*sandbox, "for d in $(seq 20); do mkdir $d; for i in $(seq 50); do echo $d-$i > $d/$i; done; done")
        .await;
    sh(&*sandbox, "head -c 20M /dev/urandom > large; sleep 0.2").await;
    let argv =
        ["/bin/sh", "-c", "while :; do echo x >> /tmp/log; sleep 0.001; done"].map(str::to_owned).into();
    sandbox.guest().start("noise", &ProcessSpec { argv, ..Default::default() }).await.unwrap();
    let before = look(&*sandbox, "/workspace").await;
    world.driver.save(sandbox.id(), &layer("one"), LIVE).await.unwrap();
    sh(&*sandbox, "echo changed > 7/7").await;
    let like = layer("one");
    world.driver.save(sandbox.id(), &layer("two"), Save::Live { like: Some(&like) }).await.unwrap();
    let restored = world.create(&Stack::host().with(layer("one")), Life::Own).await;
    assert_eq!(look(&*restored, "/workspace").await, before);
    let after = look(&*sandbox, "/workspace").await;
    let restored = world.create(&Stack::host().with(layer("two")), Life::Own).await;
    assert_eq!(look(&*restored, "/workspace").await, after);
    if world.skips(Ability::Freeze) {
        eprintln!("(it was saved without being frozen)");
    }
    world.close().await;
}

pub async fn a_session_goes_on_for_many_snapshots<H: Harness>() {
    let world = World::<H>::new();
    let dir = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::open(dir.path(), Arc::clone(&world.driver)).unwrap();
    let session = SessionId::new();
    let mut stack = super::layers::grow(&world, &Stack::host(), "image", "echo image > x").await;
    let mut wanted = Vec::new();
    for round in 0..16 {
        let sandbox = world.create(&stack, Life::Own).await;
        sh(&*sandbox, &format!("echo {round} > y; echo {round} > r-{round}; rm -f r-{}", round - 3)).await;
        let live = snapshots.take(&*sandbox, session, TurnId::new(), How::Live).await.unwrap();
        sh(&*sandbox, &format!("echo {round} > stopped")).await;
        let stopped = snapshots.take(&*sandbox, session, TurnId::new(), How::Stop).await.unwrap();
        stack = stopped.stack.clone();
        assert!(stack.layers.len() <= 12 && stack.layers.last() == Some(&layer("image")), "{stack:?}");
        wanted.push((live, stopped));
    }
    assert_eq!(snapshots.of(session).len(), 32);
    assert!(snapshots.of(SessionId::new()).is_empty());
    std::fs::write(dir.path().join("broken.json"), "{").unwrap();
    let again = Snapshots::open(dir.path(), Arc::clone(&world.driver)).unwrap();
    assert_eq!(again.all(), snapshots.all());
    for round in [0, 11, 15] {
        let (live, stopped) = &wanted[round];
        let sandbox = world.create(&again.get(live.id).unwrap().stack, Life::Own).await;
        assert_eq!(sh(&*sandbox, "cat x y; ls -v r-* | tail -1").await, format!("image\n{round}\nr-{round}"));
        let sandbox = world.create(&again.get(stopped.id).unwrap().stack, Life::Own).await;
        assert_eq!(sh(&*sandbox, "cat x y stopped").await, format!("image\n{round}\n{round}"));
    }
    again.forget(wanted[0].0.id).unwrap();
    again.forget(wanted[0].0.id).unwrap();
    assert!(again.get(wanted[0].0.id).is_none());
    assert_eq!(Snapshots::open(dir.path(), Arc::clone(&world.driver)).unwrap().all().len(), 31);
    world.close().await;
}
