//! The API through the front door: a real listener, real sessions with a real store and repository. No sandbox can be
//! made here, so turns fail at once, and everything around them can be seen.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests too")]

mod backup;
mod client;
mod events;
mod files;
mod fuzz;
mod images;
mod inbox;
mod lineage;
mod memory;
mod once;
mod places;
mod queue;
mod secrets;
mod sessions;
mod settings;
mod snapshots;
mod socket;
mod terminal;
mod wire;
mod world;

use std::collections::BTreeSet;
use std::io::ErrorKind;

use client::{get, send};
use server::{Access, Options};
use world::World;

#[tokio::test]
async fn an_open_address_is_not_served_without_a_token() {
    let world = World::start().await;
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let options = Options::new(world.sessions.clone(), Access::Loopback);
    let error = server::serve(listener, options, std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("set a token"), "{error}");
}

/// The web app's types are generated from this file. `UPDATE_GOLDEN=1 cargo test -p server` writes it anew.
#[test]
fn the_description_for_the_web_app_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/openapi.json");
    let current = server::openapi().unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == current, "web/openapi.json is old: slipway openapi > web/openapi.json");
}

#[tokio::test]
async fn the_description_and_the_routes_agree() {
    let world = World::start().await;
    let description = send(world.address, get("/api/v1/openapi.json"), "").await.json();
    let paths = description["paths"].as_object().unwrap();
    let mut operations = BTreeSet::new();
    for (path, methods) in paths {
        let path = path
            .replace("{id}", "ses_00000000000000000000000001")
            .replace("{prompt}", "prm_00000000000000000000000001")
            .replace("{approval}", "apr_00000000000000000000000001")
            .replace("{forge}", "nothing")
            .replace("{attempt}", "nothing")
            .replace("{name}", "nothing");
        for (method, operation) in methods.as_object().unwrap() {
            let request = hyper::Request::builder().method(method.to_uppercase().as_str()).uri(&path);
            let answer = send(world.address, request, "").await;
            operations.insert(operation["operationId"].as_str().unwrap());
            assert_ne!(answer.status.as_u16(), 405, "{method} {path}");
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(!text.contains("there is nothing at"), "{method} {path}: {text}");
        }
    }
    assert_eq!(operations.len(), 64, "a route is not described, two have one name, or this number is old");
    let text = description.to_string();
    let schemas = description["components"]["schemas"].as_object().unwrap();
    for named in text.split("#/components/schemas/").skip(1) {
        let name = named.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name} is used and not described");
    }
    for schema in [
        "CreateSession",
        "Session",
        "Event",
        "EventPage",
        "Problem",
        "Environment",
        "ModelList",
        "ImageStatus",
        "WarmStatus",
        "EgressStatus",
        "GarbageReport",
        "SnapshotList",
        "ForkSession",
        "SecretList",
        "SetSecret",
    ] {
        assert!(description["components"]["schemas"][schema].is_object(), "{schema}");
    }
}
