//! Mirrors as one file, and back.

use forge::{Mirrors, Packed};
use testkit::repo::git_in;

use crate::World;

fn refs(mirrors: &std::path::Path, name: &str) -> String {
    git_in(&mirrors.join(format!("{name}.git")), &["for-each-ref", "--format=%(objectname) %(refname)"])
}

#[tokio::test]
async fn a_mirror_comes_back_with_the_work_in_it() {
    let world = World::new().await;
    world.mended().await;
    let dir = world.directory.path();
    let mirrors = Mirrors::new(&dir.join("mirrors"));
    let [name] = &mirrors.names().unwrap()[..] else { panic!("one mirror") };
    let bundle = dir.join("all.bundle");
    let packed = mirrors.pack(name, &bundle).await.unwrap();
    assert_eq!(
        packed,
        Packed { url: world.mirror.url().to_owned(), head: "refs/remotes/origin/main".into() }
    );

    let elsewhere = Mirrors::new(&dir.join("elsewhere"));
    assert_eq!(elsewhere.names().unwrap(), Vec::<String>::new());
    assert!(elsewhere.unpack(name, &packed, &bundle).await.unwrap(), "it is new");
    assert_eq!(elsewhere.names().unwrap(), std::slice::from_ref(name));
    assert_eq!(refs(&dir.join("elsewhere"), name), refs(&dir.join("mirrors"), name));
    let restored = elsewhere.existing(&world.remote.url()).unwrap();
    assert_eq!(restored.kept("ses_1").await.unwrap(), world.mirror.kept("ses_1").await.unwrap());
    assert_eq!(restored.tip(None).await.unwrap(), world.mirror.tip(None).await.unwrap());

    // One that is there gets what it lacks and keeps what it has.
    let path = dir.join("elsewhere").join(format!("{name}.git"));
    git_in(&path, &["update-ref", "refs/slipway/ses_1", &world.base]);
    git_in(&path, &["update-ref", "refs/slipway/ses_2", &world.base]);
    let mended = world.mirror.kept("ses_1").await.unwrap().unwrap();
    let source = dir.join("mirrors").join(format!("{name}.git"));
    git_in(&source, &["update-ref", "refs/slipway/ses_3", &mended]);
    std::fs::remove_file(&bundle).unwrap();
    let packed = mirrors.pack(name, &bundle).await.unwrap();
    assert!(!elsewhere.unpack(name, &packed, &bundle).await.unwrap(), "it was there");
    for (kept, commit) in [("ses_1", &world.base), ("ses_2", &world.base), ("ses_3", &mended)] {
        assert_eq!(restored.kept(kept).await.unwrap().as_ref(), Some(commit), "{kept}");
    }
    for bad in ["", "..", "../x", "a/b", "-x", ".git"] {
        assert!(elsewhere.unpack(bad, &packed, &bundle).await.is_err(), "{bad}");
    }
}
