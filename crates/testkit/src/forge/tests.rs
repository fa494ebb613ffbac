use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{On, Server};
use crate::repo::Repo;

const HEADERS: &str =
    "accept: application/vnd.github+json\r\nx-github-api-version: 2022-11-28\r\nuser-agent: test\r\n";

/// Sends a request by hand, and gives the status and the body.
async fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let address = server.api_url();
    let address = address.trim_start_matches("http://").trim_end_matches("/api").to_owned();
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test]
async fn what_the_real_forge_refuses_is_refused() {
    let server = Server::start("token").await;
    let repo = Repo::plain();
    server.serve("acme", "shop", &repo);
    let pulls = "/api/repos/acme/shop/pulls";
    let with_token = format!("{HEADERS}authorization: Bearer token\r\ncontent-type: application/json\r\n");
    let new = |head: &str| format!(r#"{{"title":"t","head":"{head}","base":"main"}}"#);
    assert_eq!(send(&server, "GET", pulls, "", "").await.0, 403, "without headers");
    assert_eq!(send(&server, "GET", pulls, HEADERS, "").await.0, 401, "without a token");
    assert_eq!(send(&server, "GET", "/api/repos/acme/other/pulls", &with_token, "").await.0, 404);
    assert_eq!(send(&server, "GET", &format!("{pulls}?stat=all"), &with_token, "").await.0, 422);
    assert_eq!(send(&server, "POST", pulls, &with_token, "{}").await.0, 422);
    let (status, said) = send(&server, "POST", pulls, &with_token, &new("gone")).await;
    assert!(status == 422 && said.contains("\"field\":\"head\""), "{said}");
    repo.git(&["branch", "same", "main"]);
    let (status, said) = send(&server, "POST", pulls, &with_token, &new("same")).await;
    assert!(status == 422 && said.contains("No commits between"), "{said}");
    let commit = repo.commit("work", &[("new.txt", "new\n")]);
    assert_eq!(send(&server, "POST", pulls, &with_token, &new("work")).await.0, 201);
    let (status, said) = send(&server, "POST", pulls, &with_token, &new("acme:work")).await;
    assert!(status == 422 && said.contains("already exists for acme:work"), "{said}");
    let (_, found) =
        send(&server, "GET", &format!("{pulls}?state=all&head=acme%3Awork"), &with_token, "").await;
    assert!(found.contains(&commit) && found.contains("/acme/shop/pull/1"), "{found}");
    server.close(1);
    assert_eq!(send(&server, "GET", &format!("{pulls}?state=open"), &with_token, "").await.1, "[]");
    assert_eq!(server.requests(On::Open).len(), 5);
    assert_eq!(server.pull_requests().len(), 1);
}

#[tokio::test]
async fn a_notification_is_known_by_its_key() {
    let server = Server::start("token").await;
    let headers = "content-type: application/json\r\nidempotency-key: k1\r\n";
    for _ in 0..2 {
        assert_eq!(send(&server, "POST", "/hook", headers, r#"{"key":"k1"}"#).await.0, 202);
    }
    assert_eq!(server.received().len(), 1);
    assert_eq!(server.received()[0].2, 2);
    assert_eq!(send(&server, "POST", "/hook", headers, r#"{"key":"k1","x":1}"#).await.0, 400);
    assert_eq!(send(&server, "POST", "/hook", "content-type: application/json\r\n", "{}").await.0, 400);
    assert_eq!(server.violations().len(), 2);
}
