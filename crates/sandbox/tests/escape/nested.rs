//! Environments that let programs make namespaces of their own: what works then, and that every other wall stands.

use super::world::{World, all_hold, modest, sh, still_answers};
use sandbox::Limits;

fn nesting() -> Limits {
    Limits { user_namespaces: true, ..modest() }
}

/// Landlock has no rules about files then.
fn unfenced() -> (&'static str, String) {
    ("UNFENCED", "1".to_owned())
}

#[tokio::test]
async fn namespaces_can_be_made_only_where_it_is_allowed() {
    let world = World::new();
    let (plain, allowed) = (world.sandbox(modest()).await, world.sandbox(nesting()).await);
    let (text, exit) = sh(&*allowed, "command -v unshare").await;
    if exit.code != 0 {
        println!("skipped: unshare is not installed: {text}");
        return;
    }
    for works in [
        "unshare -Ur true",
        "test $(unshare -Ur id -u) = 0",
        "unshare -Urmpf --kill-child sh -c 'mount -t tmpfs none /tmp && touch /tmp/x'",
        "unshare -Urn true",
        "unshare -Uru hostname elsewhere",
    ] {
        let (text, exit) = sh(&*allowed, works).await;
        assert_eq!(exit.code, 0, "{works}: {text}");
        let (text, exit) = sh(&*plain, works).await;
        assert_ne!(exit.code, 0, "{works}: {text}");
    }
    // Nothing of it is seen by anybody else inside.
    let (text, _) = sh(&*allowed, "hostname; ls /tmp").await;
    assert_eq!(text, "sandbox");
}

#[tokio::test]
async fn a_program_that_makes_sandboxes_works_inside() {
    let world = World::new();
    let sandbox = world.sandbox(nesting()).await;
    let (text, exit) = sh(&*sandbox, "command -v bwrap").await;
    if exit.code != 0 {
        println!("skipped: bwrap is not installed: {text}");
        return;
    }
    let inner = "bwrap --ro-bind / / --dev /dev --bind /proc /proc --tmpfs /tmp --unshare-user --unshare-pid \
                 --unshare-net --unshare-ipc --unshare-uts --hostname inner --die-with-parent";
    let (text, exit) =
        sh(&*sandbox, &format!("{inner} sh -c 'hostname; touch /tmp/x && ! touch /workspace/x'")).await;
    assert!(exit.code == 0 && text.starts_with("inner"), "{text}");
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn who_is_root_of_a_namespace_is_root_of_nothing_else() {
    let world = World::new();
    let sandbox = world.armed(nesting()).await;
    all_hold(&*sandbox, "nested", &[unfenced()]).await;
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn the_other_walls_stand_where_namespaces_are_allowed() {
    // SAFETY: nothing else in this program reads this variable, and each test has a process of its own under nextest.
    unsafe { std::env::set_var("SLIPWAY_ESCAPE_CANARY", "canary-of-the-driver") };
    let world = World::new();
    let sandbox = world.armed(nesting()).await;
    for group in ["sockets", "devices", "privileges", "proc"] {
        all_hold(&*sandbox, group, &[unfenced()]).await;
    }
    all_hold(&*sandbox, "processes", &[("CANARY", "canary-of-the-driver".to_owned())]).await;
    still_answers(&*sandbox).await;
}
