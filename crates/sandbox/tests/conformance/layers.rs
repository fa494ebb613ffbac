//! Layers: what they show, what they hide, and how long they stay.

use sandbox::{Archive, Error, LayerId, Life, Owner, Save, Spec, Stack};
use tar::EntryType;

use super::{Harness, World, archive, layer, look, sh};

/// Ends a sandbox after a script and makes what it did a layer.
pub async fn grow<H: Harness>(world: &World<H>, stack: &Stack, name: &str, script: &str) -> Stack {
    let sandbox = world.create(stack, Life::Own).await;
    sh(&*sandbox, script).await;
    world.driver.save(sandbox.id(), &layer(name), Save::Stop { without: &[] }).await.unwrap();
    stack.with(layer(name))
}

pub async fn a_layer_that_is_not_there_is_said_to_be_missing<H: Harness>() {
    let world = World::<H>::new();
    let stack = Stack::host().with(layer("nowhere"));
    let spec = Spec::new(stack, Life::Own, Owner::OneOff);
    let error = world.driver.create(&spec).await.err().unwrap();
    assert!(matches!(&error, Error::NoLayer(id) if *id == layer("nowhere")), "{error}");
    assert!(world.driver.list().await.unwrap().is_empty());
    let error = world.driver.squash(&[layer("nowhere")], &layer("all")).await.err().unwrap();
    assert!(matches!(error, Error::NoLayer(_)), "{error}");
    assert!(world.driver.layer(&layer("nowhere")).await.unwrap().is_none());
    world.close().await;
}

pub async fn a_layer_in_use_stays<H: Harness>() {
    let world = World::<H>::new();
    let stack = grow(&world, &Stack::host(), "one", "echo 1 > x").await;
    let sandbox = world.create(&stack, Life::Own).await;
    // Not even another server removes it.
    let other = world.harness.open();
    let error = other.remove_layer(&layer("one")).await.err().unwrap();
    assert!(matches!(&error, Error::InUse { by, .. } if by.contains(&sandbox.id().to_string())), "{error}");
    assert_eq!(sh(&*sandbox, "cat x").await, "1");
    world.driver.remove(sandbox.id()).await.unwrap();
    other.remove_layer(&layer("one")).await.unwrap();
    assert!(world.driver.layers().await.unwrap().is_empty());
    world.close().await;
}

pub async fn a_lease_ends_with_the_sandbox<H: Harness>() {
    let world = World::<H>::new();
    let stack = grow(&world, &Stack::host(), "one", "echo 1 > x").await;
    // Whoever comes first: either the layer is gone and there is no sandbox, or there is one and the layer stays.
    for _ in 0..10 {
        let spec = Spec::new(stack.clone(), Life::Own, Owner::OneOff);
        let name = layer("one");
        let (made, removed) = tokio::join!(world.driver.create(&spec), world.driver.remove_layer(&name));
        match (made, removed) {
            (Ok(sandbox), Err(Error::InUse { .. })) => {
                assert_eq!(sh(&*sandbox, "cat x").await, "1");
                world.driver.remove(spec.id).await.unwrap();
            }
            (Err(Error::NoLayer(_)), Ok(())) => {
                grow(&world, &Stack::host(), "one", "echo 1 > x").await;
            }
            (made, removed) => panic!("{:?} {removed:?}", made.map(|sandbox| sandbox.id())),
        }
    }
    world.close().await;
}

pub async fn an_archive_becomes_a_layer<H: Harness>() {
    let world = World::<H>::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("odd.tar");
    archive(
        &path,
        &[
            ("workspace/", EntryType::Directory, ""),
            ("workspace/plain", EntryType::Regular, "text"),
            ("workspace/line\nbreak", EntryType::Regular, "odd"),
            ("workspace/link", EntryType::Symlink, "plain"),
            ("workspace/hard", EntryType::Link, "workspace/plain"),
            ("workspace/out", EntryType::Symlink, "/etc"),
            ("workspace/replaced", EntryType::Regular, "before"),
            ("workspace/replaced", EntryType::Regular, "after"),
            ("workspace/pipe", EntryType::Fifo, ""),
            ("workspace/.wh.name", EntryType::Regular, "an ordinary name"),
        ],
    );
    let layer = layer("odd");
    let whole = Archive { path: path.clone(), whiteouts: false, below: Vec::new() };
    let made = world.driver.import(&layer, &whole).await.unwrap();
    assert!(made.inodes >= 9 && made.bytes > 0, "{made:?}");
    assert_eq!(world.driver.layers().await.unwrap(), [made]);
    let sandbox = world.create(&Stack::host().with(layer), Life::Own).await;
    let text = sh(
        &*sandbox,
        "cat plain link hard replaced .wh.name 'line\nbreak'; echo; readlink out; stat -c %h hard; test -p pipe; \
         echo more >> plain && tail -c 5 plain",
    )
    .await;
    assert_eq!(text, "texttexttextafteran ordinary nameodd\n/etc\n2\nmore");
    world.close().await;
}

pub async fn an_import_is_done_once<H: Harness>() {
    let world = World::<H>::new();
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("one.tar", "one"), ("two.tar", "two")] {
        let entries = [("workspace/", EntryType::Directory, ""), ("workspace/x", EntryType::Regular, text)];
        archive(&dir.path().join(name), &entries);
    }
    let import = |name: &str| Archive { path: dir.path().join(name), whiteouts: true, below: Vec::new() };
    let first = world.driver.import(&layer("base"), &import("one.tar")).await.unwrap();
    let again = world.driver.import(&layer("base"), &import("two.tar")).await.unwrap();
    assert_eq!(first, again);
    std::fs::write(dir.path().join("broken.tar"), "this is no archive at all").unwrap();
    world.driver.import(&layer("broken"), &import("broken.tar")).await.err().unwrap();
    assert!(world.driver.layer(&layer("broken")).await.unwrap().is_none());
    let sandbox = world.create(&Stack::host().with(layer("base")), Life::Own).await;
    assert_eq!(sh(&*sandbox, "cat x").await, "one");
    world.close().await;
}

pub async fn an_archive_goes_through_the_links_below_it<H: Harness>() {
    let world = World::<H>::new();
    let dir = tempfile::tempdir().unwrap();
    let lower = [
        ("workspace/", EntryType::Directory, ""),
        ("workspace/usr/bin/sh", EntryType::Regular, "old"),
        ("workspace/bin", EntryType::Symlink, "usr/bin"),
        ("workspace/out", EntryType::Symlink, "/workspace/usr"),
    ];
    let upper = [
        ("workspace/bin/tool", EntryType::Regular, "new"),
        ("workspace/out/x", EntryType::Regular, "x"),
        ("workspace/hard", EntryType::Link, "workspace/bin/sh"),
    ];
    archive(&dir.path().join("lower.tar"), &lower);
    archive(&dir.path().join("upper.tar"), &upper);
    let import = |name: &str, below: &[LayerId]| Archive {
        path: dir.path().join(name),
        whiteouts: true,
        below: below.to_vec(),
    };
    world.driver.import(&layer("lower"), &import("lower.tar", &[])).await.unwrap();
    world.driver.import(&layer("upper"), &import("upper.tar", &[layer("lower")])).await.unwrap();
    let missing = world.driver.import(&layer("none"), &import("upper.tar", &[layer("nowhere")])).await;
    assert!(matches!(missing, Err(Error::NoLayer(_))), "{missing:?}");
    let stack = Stack::host().with(layer("lower")).with(layer("upper"));
    let sandbox = world.create(&stack, Life::Own).await;
    let seen = sh(&*sandbox, "readlink bin out; cat bin/sh bin/tool usr/x hard; echo; ls usr/bin").await;
    assert_eq!(seen, "usr/bin\n/workspace/usr\noldnewxold\nsh\ntool");
    world.close().await;
}

pub async fn ten_layers_and_more<H: Harness>() {
    let world = World::<H>::new();
    let mut stack = Stack::host();
    for number in 0..14 {
        let script = format!("echo {number} > last; echo {number} > own-{number}; rm -f own-{}", number - 2);
        stack = grow(&world, &stack, &format!("step-{number}"), &script).await;
    }
    let sandbox = world.create(&stack, Life::Own).await;
    assert_eq!(sh(&*sandbox, "cat last; ls").await, "13\nlast\nown-12\nown-13");
    world.close().await;
}

/// Four layers that do to each other whatever can be done.
async fn entangled<H: Harness>(world: &World<H>, below: &Stack) -> Stack {
    let first = "mkdir -p a/b/c d e f; echo 1 > a/b/c/x; echo 1 > d/y; echo 1 > e/z; echo 1 > keep; ln keep hard; \
                 mkdir deep; echo 1 > deep/one; echo 1 > f/one; ln -s keep link; mkfifo pipe; chmod 640 keep";
    let second = "rm -rf d; echo file > d; rm -r e; mkdir e; echo 2 > e/new; rm keep; echo 2 > deep/two; rm deep/one; mv f g";
    let third =
        "rm d; mkdir d; echo 3 > d/back; rm -r a/b; mkdir a/b; echo 3 > a/b/own; echo 3 > keep; chmod 700 e";
    let fourth = "rm a/b/own; echo 4 > deep/four; rm -rf gone; rm link; touch -d @1600000000 deep";
    let mut stack = below.clone();
    for (number, script) in [first, second, third, fourth].into_iter().enumerate() {
        stack = grow(world, &stack, &format!("part-{number}"), script).await;
    }
    stack
}

pub async fn merged_layers_look_the_same<H: Harness>() {
    let world = World::<H>::new();
    let stack = entangled(&world, &Stack::host()).await;
    let before = look(&*world.create(&stack, Life::Own).await, "/workspace").await;
    let merged = world.driver.squash(&stack.layers, &layer("merged")).await.unwrap();
    assert!(merged.inodes > 5, "{merged:?}");
    let sandbox = world.create(&Stack::host().with(layer("merged")), Life::Own).await;
    assert_eq!(look(&*sandbox, "/workspace").await, before);
    sh(&*sandbox, "echo more >> hard; rm -rf a; echo x > d/back").await;
    // The originals do not notice.
    let original = world.create(&stack, Life::Own).await;
    assert_eq!(look(&*original, "/workspace").await, before);
    world.close().await;
}

pub async fn a_merged_layer_hides_what_the_originals_hid<H: Harness>() {
    let world = World::<H>::new();
    let below = "mkdir -p a/b/c d e gone deep; for i in a a/b a/b/c d e gone deep; do echo below > $i/below; done; \
                 echo below > gone/x; echo below > keep";
    let base = grow(&world, &Stack::host(), "below", below).await;
    let stack = entangled(&world, &base).await;
    let before = look(&*world.create(&stack, Life::Own).await, "/workspace").await;
    let own = &stack.layers[..4];
    world.driver.squash(own, &layer("merged")).await.unwrap();
    let sandbox = world.create(&base.with(layer("merged")), Life::Own).await;
    assert_eq!(look(&*sandbox, "/workspace").await, before);
    world.close().await;
}
