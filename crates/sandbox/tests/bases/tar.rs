//! Archives on the host as bases.

use sandbox::Base;

use super::archives::{Tar, gzip};
use super::driver::World;

#[tokio::test]
async fn an_archive_is_a_base_and_its_content_is_its_key() {
    let world = World::new();
    let path = world.dir.path().join("base.tar.gz");
    let base = format!("tar:{}", path.display());
    let archive = |text: &str| {
        gzip(&Tar::new().dir("etc/").file("etc/passwd", "root:x:0:0::/:/bin/sh\n").file("f", text).finish())
    };
    std::fs::write(&path, archive("one")).unwrap();
    let one = world.resolve(&base, None).await.unwrap();
    assert_eq!((one.stack.base, one.stack.layers.len()), (Base::Scratch, 2));
    assert_eq!(world.read(&one.stack.layers[1], "f"), "one");
    let passwd = world.read(&one.stack.layers[0], "etc/passwd");
    assert_eq!(passwd, "root:x:0:0::/:/bin/sh\ndev:x:1000:1000:dev:/home/dev:/bin/sh\n");
    assert_eq!(world.resolve(&base, None).await.unwrap(), one);
    assert_eq!(world.layers.work.lock().unwrap().len(), 2, "it was unpacked once");
    // The same name and length, and other content.
    std::fs::write(&path, archive("two")).unwrap();
    let two = world.resolve(&base, None).await.unwrap();
    assert_ne!(one.key, two.key);
    assert_eq!(world.read(&two.stack.layers[1], "f"), "two");
    assert_eq!(world.read(&two.stack.layers[0], "etc/passwd"), passwd);
    assert_eq!(world.left_over(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn a_layer_that_went_is_brought_in_again() {
    let world = World::new();
    let path = world.dir.path().join("base.tar");
    std::fs::write(&path, Tar::new().file("f", "f").finish()).unwrap();
    let base = format!("tar:{}", path.display());
    let first = world.resolve(&base, None).await.unwrap();
    for layer in &first.stack.layers {
        sandbox::Driver::remove_layer(&*world.layers, layer).await.unwrap();
    }
    world.bases.sweep().await.unwrap();
    assert_eq!(world.resolve(&base, None).await.unwrap(), first);
    assert_eq!(world.read(&first.stack.layers[1], "f"), "f");
}

#[tokio::test]
async fn what_is_no_archive_is_said_and_leaves_nothing() {
    let world = World::new();
    let path = world.dir.path().join("base.tar");
    std::fs::write(&path, "hello, this is no archive at all".repeat(100)).unwrap();
    for (base, word) in [
        (format!("tar:{}", path.display()), "no tar archive"),
        (format!("tar:{}", world.dir.path().display()), "something else"),
        ("tar:/nonexistent/base.tar".to_owned(), "/nonexistent/base.tar"),
    ] {
        let error = world.resolve(&base, None).await.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    assert!(world.layers.work.lock().unwrap().is_empty());
    assert_eq!(world.left_over(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn an_archive_without_anything_in_it_is_no_base() {
    let world = World::new();
    let path = world.dir.path().join("base.tar");
    for empty in [Vec::new(), gzip(&[]), Tar::new().finish(), gzip(&Tar::new().finish())] {
        std::fs::write(&path, &empty).unwrap();
        let error = world.resolve(&format!("tar:{}", path.display()), None).await.unwrap_err().to_string();
        assert!(error.contains("has nothing in it") && error.contains("root file system"), "{error}");
    }
    assert!(world.layers.work.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_host_needs_nothing() {
    let world = World::new();
    let host = world.resolve("host", None).await.unwrap();
    assert_eq!(host.stack, sandbox::Stack::host());
    assert_eq!(host.key, "host");
}

/// Has room for so many bytes.
pub(crate) struct Little(pub(crate) u64);

#[async_trait::async_trait]
impl sandbox::base::Room for Little {
    async fn make(&self, bytes: u64) -> Result<sandbox::base::Held, sandbox::Error> {
        let (message, hint) = (format!("{bytes} bytes do not fit"), String::new());
        if bytes <= self.0 { Ok(Box::new(())) } else { Err(sandbox::Error::NoRoom { message, hint }) }
    }
}

#[tokio::test]
async fn what_has_no_room_is_not_unpacked() {
    let world = World::new();
    let path = world.dir.path().join("base.tar.gz");
    let base = format!("tar:{}", path.display());
    let archive = gzip(&Tar::new().dir("d/").file("d/f", &"0".repeat(1 << 20)).finish());
    assert!(archive.len() < 1 << 14);
    std::fs::write(&path, archive).unwrap();
    world.bases.ask_for_room(std::sync::Arc::new(Little(1 << 20)));
    let error = world.resolve(&base, None).await.unwrap_err().to_string();
    assert!(error.contains(&format!("{} bytes do not fit", (1 << 20) + 4096)), "{error}");
    assert_eq!(*world.layers.work.lock().unwrap(), Vec::<String>::new(), "nothing was unpacked");
    world.bases.ask_for_room(std::sync::Arc::new(Little(2 << 20)));
    world.resolve(&base, None).await.unwrap();
}
