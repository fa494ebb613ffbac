//! Trees of every shape survive being saved and stacked, saved while the sandbox runs and when it stops.

use guest::ProcessSpec;
use sandbox::{Life, Save, Stack};

use super::layers::grow;
use super::{Ability, Harness, World, layer, look, sh};

/// Makes a tree, changes it in another sandbox on top of it, saves that both ways, and compares.
async fn survives<H: Harness>(below: &str, change: &str, check: Option<&str>) {
    let world = World::<H>::new();
    let stack = grow(&world, &Stack::host(), "below", below).await;
    let sandbox = world.create(&stack, Life::Own).await;
    sh(&*sandbox, change).await;
    let wanted = look(&*sandbox, "/workspace").await;
    let seen = match check {
        Some(check) => sh(&*sandbox, check).await,
        None => String::new(),
    };
    world.driver.save(sandbox.id(), &layer("live"), Save::Live { like: None }).await.unwrap();
    let like = layer("live");
    world.driver.save(sandbox.id(), &layer("again"), Save::Live { like: Some(&like) }).await.unwrap();
    world.driver.save(sandbox.id(), &layer("stopped"), Save::Stop { without: &[] }).await.unwrap();
    world.driver.squash(&[layer("stopped"), layer("below")], &layer("merged")).await.unwrap();
    let stacks = ["live", "again", "stopped"].map(|name| stack.with(layer(name)));
    for stack in stacks.into_iter().chain([Stack::host().with(layer("merged"))]) {
        let restored = world.create(&stack, Life::Own).await;
        assert_eq!(look(&*restored, "/workspace").await, wanted, "{:?}", stack.layers);
        if let Some(check) = check {
            assert_eq!(sh(&*restored, check).await, seen, "{:?}", stack.layers);
        }
        world.driver.remove(restored.id()).await.unwrap();
    }
    world.close().await;
}

pub async fn removals_survive<H: Harness>() {
    let below = "mkdir -p d/e; echo 1 > a; echo 1 > d/b; echo 1 > d/e/c; ln -s a l";
    survives::<H>(below, "rm a d/b l; rm -r d/e", None).await;
}

pub async fn replaced_directories_survive<H: Harness>() {
    let below = "mkdir -p d/e f g; echo 1 > d/x; echo 1 > d/e/y; echo 1 > f/z; echo 1 > file; echo 1 > g/x";
    let change = "rm -r d; mkdir -p d/e; echo 2 > d/new; rm -r f; echo file > f; rm file; mkdir file; echo 2 > file/x; \
                  rm -r g; ln -s d g";
    survives::<H>(below, change, None).await;
}

pub async fn renames_survive<H: Harness>() {
    let below = "mkdir -p a/b/c; for i in 1 2 3; do echo $i > a/b/c/$i; done; echo x > file; mkdir empty";
    let change =
        "mv a moved; mv moved/b/c moved/c; mv file moved/file; mv empty moved/empty; mkdir a; echo new > a/x";
    survives::<H>(below, change, None).await;
}

pub async fn changed_permissions_survive<H: Harness>() {
    let below = "mkdir d; echo x > f; echo x > d/g; chmod 600 f";
    let change = "chmod 755 f; chmod 700 d; chmod 444 d/g; touch -d @1500000000 f d/g";
    survives::<H>(below, change, Some("stat -c '%a %Y' f d/g")).await;
}

pub async fn odd_names_survive<H: Harness>() {
    let change = "a=$(printf 'line\\nbreak'); echo 1 > \"$a\"; echo 2 > \"$(printf '\\001\\033[31m\\177')\"; \
                  echo 3 > \"$(printf 'bad\\377\\200')\"; echo 4 > ' lead '; echo 5 > -- -dash; \
                  echo 6 > $(head -c 255 /dev/zero | tr '\\0' n); mkdir .wh.x; echo 7 > .wh.x/.wh..wh..opq; \
                  echo 8 > 'x (deleted)'; echo 9 > 'back\\012slash'; mkdir 'a:b,c'; echo 10 > 'a:b,c/d=e'";
    survives::<H>("echo 1 > -x", change, Some("ls -1 | wc -l")).await;
}

pub async fn odd_kinds_of_files_survive<H: Harness>() {
    let change = "mkfifo -m 604 pipe; ln -s /nowhere dangling; ln -s . loop; \
                  command -v setfattr >/dev/null && { echo x > marked; setfattr -n user.colour -v red marked; }; : > empty; \
                  echo s > sticky; chmod 2755 sticky; mkdir t; chmod 1777 t";
    let check = "test -p pipe; readlink dangling; command -v getfattr >/dev/null && getfattr -n user.colour marked; true";
    survives::<H>("true", change, Some(check)).await;
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    let socket = "import socket,os\ns=socket.socket(socket.AF_UNIX)\ns.bind('/workspace/socket')";
    if super::run(&*sandbox, &format!("python3 -c \"{socket}\" && test -S socket")).await.1.code == 0 {
        world.driver.save(sandbox.id(), &layer("live"), Save::Live { like: None }).await.unwrap();
        world.driver.save(sandbox.id(), &layer("stopped"), Save::Stop { without: &[] }).await.unwrap();
        for name in ["live", "stopped"] {
            let restored = world.create(&Stack::host().with(layer(name)), Life::Own).await;
            assert_eq!(sh(&*restored, "ls -A").await, "", "a socket is nothing without its owner");
        }
    } else {
        eprintln!("skipped in part: there is no python3 on this host to make a socket with");
    }
    world.close().await;
}

pub async fn a_deep_tree_survives<H: Harness>() {
    let change = "for i in $(seq 300); do mkdir deep && cd deep || exit 1; done; echo bottom > x; ln x y";
    // Deeper than a path can be long; shells cannot go there.
    let deeper =
        "import os\nfor i in range(60):\n  os.mkdir('n'*200); os.chdir('n'*200)\nopen('x','w').write('far')";
    let check = "find . | wc -l; for i in $(seq 300); do cd deep; done; cat x y";
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    sh(&*sandbox, change).await;
    if super::run(&*sandbox, "command -v python3").await.1.code == 0 {
        sh(&*sandbox, &format!("python3 -c \"{deeper}\"")).await;
    }
    let wanted = sh(&*sandbox, check).await;
    world.driver.save(sandbox.id(), &layer("live"), Save::Live { like: None }).await.unwrap();
    world.driver.save(sandbox.id(), &layer("stopped"), Save::Stop { without: &[] }).await.unwrap();
    world.driver.squash(&[layer("live"), layer("stopped")], &layer("merged")).await.unwrap();
    for name in ["live", "stopped", "merged"] {
        let restored = world.create(&Stack::host().with(layer(name)), Life::Own).await;
        assert_eq!(sh(&*restored, check).await, wanted, "{name}");
    }
    world.close().await;
}

pub async fn closed_directories_survive<H: Harness>() {
    let below = "mkdir -p d/e; echo 1 > d/e/x; echo 1 > f";
    let change = "echo 2 > d/e/y; chmod 0 d/e; chmod 400 d; mkdir n; echo 3 > n/z; chmod 0 n/z; chmod 100 n; chmod 0 f";
    // Looked at with the doors open; that they were closed is looked at before.
    let check = "stat -c %a d n f; chmod 700 d n; stat -c %a d/e n/z; chmod 700 d/e; cat d/e/x d/e/y; \
                 chmod 0 d/e; chmod 400 d; chmod 100 n";
    let world = World::<H>::new();
    let stack = grow(&world, &Stack::host(), "below", below).await;
    let sandbox = world.create(&stack, Life::Own).await;
    sh(&*sandbox, change).await;
    let wanted = sh(&*sandbox, check).await;
    world.driver.save(sandbox.id(), &layer("live"), Save::Live { like: None }).await.unwrap();
    assert_eq!(sh(&*sandbox, check).await, wanted, "a save leaves everything as it was");
    world.driver.save(sandbox.id(), &layer("stopped"), Save::Stop { without: &[] }).await.unwrap();
    world.driver.squash(&[layer("stopped"), layer("below")], &layer("merged")).await.unwrap();
    let stacks =
        [stack.with(layer("live")), stack.with(layer("stopped")), Stack::host().with(layer("merged"))];
    for stack in stacks {
        let restored = world.create(&stack, Life::Own).await;
        assert_eq!(sh(&*restored, check).await, wanted, "{:?}", stack.layers);
    }
    world.close().await;
}

pub async fn holes_and_links_survive<H: Harness>() {
    let change = "truncate -s 3G sparse; printf end | dd of=sparse bs=1 seek=1073741824 conv=notrunc 2>/dev/null; \
                  echo x > one; ln one two; mkdir d; ln one d/three; ln -s one l; ln l m";
    // How many names a file has is not looked at: layers that share it have some of them.
    let check = "stat -c %s sparse one; test $(stat -c %b sparse) -lt 1000 && echo sparse; \
                 test one -ef two && test one -ef d/three && echo linked; \
                 dd if=sparse bs=1 skip=1073741824 count=3 2>/dev/null";
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    sh(&*sandbox, change).await;
    let wanted = sh(&*sandbox, check).await;
    let saved = world.driver.save(sandbox.id(), &layer("live"), Save::Live { like: None }).await.unwrap();
    assert!(saved.bytes < 1 << 20, "{saved:?}");
    let like = layer("live");
    world.driver.save(sandbox.id(), &layer("again"), Save::Live { like: Some(&like) }).await.unwrap();
    for name in ["live", "again"] {
        let restored = world.create(&Stack::host().with(layer(name)), Life::Own).await;
        assert_eq!(sh(&*restored, check).await, wanted, "{name}");
    }
    world.close().await;
}

pub async fn what_writes_meanwhile_leads_nowhere<H: Harness>() {
    let world = World::<H>::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "of the host").unwrap();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    let place = outside.path().display();
    // A directory and a file that are links every other moment, and a file that grows and shrinks.
    let storm = format!(
        "mkdir -p a/b; echo in > a/b/secret; echo in > f; while :; do mv a/b a/c; ln -s {place} a/b; rm a/b; mv a/c a/b; \
         rm f; ln -s {place}/secret f; rm f; echo in > f; head -c 100k /dev/zero > g; : > g; done"
    );
    let argv = ["/bin/sh", "-c", &storm].map(str::to_owned).into();
    sandbox.guest().start("storm", &ProcessSpec { argv, ..Default::default() }).await.unwrap();
    for round in 0..8 {
        let name = layer(&format!("storm-{round}"));
        // Without a way to stop it, a save may fail; it never shows what is not the sandbox's.
        match world.driver.save(sandbox.id(), &name, Save::Live { like: None }).await {
            Ok(_) => {}
            Err(error) => assert!(world.skips(Ability::Freeze), "{error}"),
        }
    }
    for saved in world.driver.layers().await.unwrap() {
        let restored = world.create(&Stack::host().with(saved.id), Life::Own).await;
        assert_eq!(sh(&*restored, "grep -rs 'of the host' /workspace || true").await, "");
        world.driver.remove(restored.id()).await.unwrap();
    }
    world.close().await;
}
