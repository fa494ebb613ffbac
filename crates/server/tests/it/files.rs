//! The files of a workspace over the API: in the sandbox, and in the commit that the session began from.

use hyper::StatusCode;
use serde_json::{Value, json};
use session::ShutDown;

use crate::client::{Answer, get, send};
use crate::terminal::{open, until, write};
use crate::wire::connect;
use crate::world::World;

async fn ask(world: &World, path: String) -> Answer {
    send(world.address, get(&path), "").await
}

fn names(list: &Value) -> Vec<&str> {
    list["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_listed_and_read_as_they_are_and_as_they_were() {
    let world = World::start_with_sandboxes().await;
    let session = world.session().await;
    let (mut socket, _) = connect(world.address, "/api/v1/socket", &[]).await.unwrap();
    open(&mut socket, session, "main").await;
    write(&mut socket, "mkdir a; echo '<script>' > notes/new.html; echo 42 > answer.txt").await;
    write(&mut socket, "head -c 2000000 /dev/zero > large; printf 'a\\0b' > bytes; echo all $((1 + 1)) done")
        .await;
    until(&mut socket, "all 2 done").await;
    let of = |rest: &str| format!("/api/v1/sessions/{session}/{rest}");

    let root = ask(&world, of("files")).await.json();
    assert_eq!((&root["source"], &root["path"]), (&json!("sandbox"), &json!("")));
    let named = names(&root);
    assert_eq!(named[..3], [".git", "a", "notes"], "directories first: {root}");
    assert!(named.contains(&"README.md") && named.contains(&"large"), "{root}");
    let notes = ask(&world, of("files?path=notes/")).await.json();
    assert_eq!(names(&notes), ["new.html", "question.txt"]);
    assert_eq!(notes["entries"][0], json!({ "name": "new.html", "kind": "file", "size": 9 }));
    let before = ask(&world, of("files?path=notes&at=base")).await.json();
    assert_eq!((&before["source"], names(&before)), (&json!("base"), vec!["question.txt"]));

    let page = ask(&world, of("file?path=notes/new.html")).await;
    assert_eq!(page.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(page.body, "<script>\n");
    assert!(page.header("content-security-policy").unwrap().contains("sandbox"), "{page:?}");
    assert_eq!(ask(&world, of("file?path=answer.txt")).await.body, "42\n");
    assert_eq!(ask(&world, of("file?path=answer.txt&at=base")).await.body, "41\n");
    let bytes = ask(&world, of("file?path=bytes")).await;
    assert_eq!(bytes.header("content-type"), Some("application/octet-stream"));

    assert_eq!(ask(&world, of("file?path=large")).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    for gone in ["file?path=nothing", "file?path=", "files?path=nothing", "file?path=notes/new.html&at=base"]
    {
        assert_eq!(ask(&world, of(gone)).await.problem(), "not_found", "{gone}");
    }
    for odd in ["file?path=../etc/passwd", "files?path=a/../..", "files?at=then", "files?colour=red"] {
        assert_eq!(ask(&world, of(odd)).await.problem(), "bad_request", "{odd}");
    }
    drop(socket);
    world.sessions.shut_down(ShutDown::RemoveSandboxes).await;
    world.stop().await;
}
