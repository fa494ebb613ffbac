//! The store of Git LFS, as its API is published: a batch says where each object is fetched from or goes to, with addresses
//! that are good by themselves. What is stored lies in the repository's directory where git-lfs itself keeps it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::asked::{Asked, Decided};
use super::ledger::Store;
use super::server::lock;

/// What requests and answers are.
const KIND: &str = "application/vnd.git-lfs+json";
/// What makes an address good by itself.
const SIGNATURE: &str = "good-for-one-object";

/// Whether a request is for it.
pub(super) fn is_here(asked: &Asked<'_>) -> bool {
    asked.head.uri.path().contains(".git/info/lfs/")
}

/// Answers somebody who may be here.
pub(super) fn answer(store: &Mutex<Store>, repository: &Path, name: &str, asked: &Asked<'_>) -> Decided {
    let end = asked.head.uri.path().split(".git/info/lfs/").nth(1).unwrap_or_default();
    match (asked.method(), end) {
        ("POST", "objects/batch") => {
            for header in ["accept", "content-type"] {
                if !asked.header(header).is_some_and(|value| value.starts_with(KIND)) {
                    lock(store).violation(format!("{header} of a batch is not {KIND}"));
                    return Decided::new(406, json!({"message": "Not Acceptable"}));
                }
            }
            let body: Value = serde_json::from_slice(asked.body).unwrap_or_default();
            let objects = body["objects"].as_array().cloned().unwrap_or_default();
            let answers: Vec<Value> = objects
                .iter()
                .map(|object| place(repository, name, asked.url, &body["operation"], object))
                .collect();
            Decided::new(200, json!({"transfer": "basic", "objects": answers})).header("content-type", KIND)
        }
        _ => {
            lock(store).violation(format!("there is no {} {end} for large files", asked.method()));
            Decided::new(404, json!({"message": "Not Found"}))
        }
    }
}

/// Where an object is or goes to.
fn place(repository: &Path, name: &str, url: &str, operation: &Value, object: &Value) -> Value {
    let oid = object["oid"].as_str().unwrap_or_default();
    let there = file(repository, oid).is_file();
    let href = format!("{url}/{name}.git/info/lfs/store/{oid}?signature={SIGNATURE}");
    let mut answer = json!({"oid": oid, "size": object["size"], "authenticated": true});
    match (operation.as_str(), there) {
        (Some("download"), true) => answer["actions"] = json!({"download": {"href": href}}),
        (Some("upload"), false) => answer["actions"] = json!({"upload": {"href": href}}),
        (Some("upload"), true) => {}
        _ => answer["error"] = json!({"code": 404, "message": "Object does not exist"}),
    }
    answer
}

/// Gives or takes an object, at an address that is good by itself. None where it is not such an address.
pub(super) fn store(store: &Mutex<Store>, asked: &Asked<'_>) -> Option<Decided> {
    let (name, oid) = asked.head.uri.path().split_once(".git/info/lfs/store/")?;
    let mut store = lock(store);
    if asked.queried("signature") != Some(SIGNATURE) {
        return Some(Decided::new(403, json!({"message": "Forbidden"})));
    }
    if asked.header("authorization").is_some() {
        store.violation("a token was carried to where large files are kept");
    }
    let Some(repository) = store.repositories.get(name.trim_start_matches('/')).cloned() else {
        return Some(Decided::new(404, json!({"message": "Not Found"})));
    };
    let path = file(&repository, oid);
    Some(match asked.method() {
        "GET" => match std::fs::read(&path) {
            Ok(bytes) => {
                let mut decided =
                    Decided::new(200, Value::Null).header("content-type", "application/octet-stream");
                decided.raw = Some(bytes);
                decided
            }
            Err(_) => Decided::new(404, json!({"message": "Not Found"})),
        },
        "PUT" => {
            let sum: String =
                digest(&SHA256, asked.body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            if sum != oid {
                store.violation(format!("an object was sent as {oid} that is {sum}"));
                return Some(Decided::new(422, json!({"message": "it is something else"})));
            }
            let written = std::fs::create_dir_all(path.parent().unwrap_or(&path))
                .and_then(|()| std::fs::write(&path, asked.body));
            Decided::acted(if written.is_ok() { 200 } else { 500 }, json!({}))
        }
        _ => Decided::new(405, json!({"message": "Method Not Allowed"})),
    })
}

/// Where git-lfs keeps an object.
fn file(repository: &Path, oid: &str) -> PathBuf {
    let part = |from, to| oid.get(from..to).unwrap_or("none");
    repository.join("lfs/objects").join(part(0, 2)).join(part(2, 4)).join(oid)
}
