use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Kind, On, Order, Server};
use crate::repo::Repo;

const HEADERS: &str =
    "accept: application/vnd.github+json\r\nx-github-api-version: 2022-11-28\r\nuser-agent: test\r\n";

/// Sends a request by hand, and gives the status and the body.
async fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let address = server.api_url();
    let address = address.trim_start_matches("http://").trim_end_matches("/api/v3").to_owned();
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
    let pulls = "/api/v3/repos/acme/shop/pulls";
    let with_token = format!("{HEADERS}authorization: Bearer token\r\ncontent-type: application/json\r\n");
    let new = |head: &str| format!(r#"{{"title":"t","head":"{head}","base":"main"}}"#);
    assert_eq!(send(&server, "GET", pulls, "", "").await.0, 403, "without headers");
    assert_eq!(send(&server, "GET", pulls, HEADERS, "").await.0, 401, "without a token");
    assert_eq!(send(&server, "GET", "/api/v3/repos/acme/other/pulls", &with_token, "").await.0, 404);
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

#[tokio::test]
async fn gitlab_and_gitea_refuse_what_they_do_not_know() {
    let server = Server::start("token").await;
    let repo = Repo::plain();
    server.serve("acme", "shop", &repo);
    repo.commit("work", &[("new.txt", "new\n")]);
    let json = "content-type: application/json\r\n";
    let bearer = format!("{json}authorization: Bearer token\r\n");
    let merges = "/api/v4/projects/acme%2Fshop/merge_requests";
    assert_eq!(send(&server, "GET", merges, "", "").await.0, 401);
    let revoked = "authorization: Bearer other\r\n";
    assert!(send(&server, "GET", merges, revoked, "").await.1.contains("invalid_token"));
    assert_eq!(send(&server, "GET", merges, "private-token: token\r\n", "").await.0, 200);
    let (status, said) = send(&server, "POST", merges, &bearer, r#"{"source_branch":"work"}"#).await;
    assert!(status == 400 && said.contains("is missing"), "{said}");
    for (body, wrong) in [
        (r#"{"source_branch":"work","target_branch":"main","title":"t","head":"x"}"#, "head is invalid"),
        (r#"{"source_branch":"work","target_branch":"main","title":7}"#, "title is invalid"),
    ] {
        let (status, said) = send(&server, "POST", merges, &bearer, body).await;
        assert!(status == 400 && said.contains(wrong), "{said}");
    }
    let long = format!(r#"{{"source_branch":"work","target_branch":"main","title":"{}"}}"#, "t".repeat(256));
    assert!(send(&server, "POST", merges, &bearer, &long).await.1.contains(r#"{"title":["is too long"#));

    let pulls = "/api/v1/repos/acme/shop/pulls";
    let token = format!("{json}authorization: token token\r\n");
    let (status, said) = send(&server, "POST", pulls, &token, r#"{"head":"work","base":"main"}"#).await;
    assert!(status == 422 && said.contains("[title]: Required"), "{said}");
    let labels = r#"{"title":"t","head":"work","base":"main","labels":["bug"]}"#;
    assert_eq!(send(&server, "POST", pulls, &token, labels).await.0, 422, "labels go by number");
    assert_eq!(server.pull_requests(), []);
    assert_eq!(server.violations().len(), 5, "{:?}", server.violations());

    // One store: what was opened in one manner is there in the others.
    let new = r#"{"title":"WIP: t","head":"work","base":"main"}"#;
    assert_eq!(send(&server, "POST", pulls, &token, new).await.0, 201);
    let (_, found) = send(&server, "GET", merges, &bearer, "").await;
    assert!(found.contains(r#""iid":1"#) && found.contains(r#""draft":true"#), "{found}");
    let new = r#"{"source_branch":"work","target_branch":"main","title":"t"}"#;
    let (status, said) = send(&server, "POST", merges, &bearer, new).await;
    assert!(status == 409 && said.contains("source branch: !1"), "{said}");
}

#[tokio::test]
async fn a_device_gets_a_token_once_somebody_let_it_in() {
    let server = Server::start("token").await;
    let form = "content-type: application/x-www-form-urlencoded\r\naccept: application/json\r\n";
    for (number, (begin, end, pending)) in [
        ("/login/device/code", "/login/oauth/access_token", 200),
        ("/oauth/authorize_device", "/oauth/token", 400),
    ]
    .into_iter()
    .enumerate()
    {
        let (_, code) = send(&server, "POST", begin, form, "client_id=slipway&scope=repo").await;
        let code: serde_json::Value = serde_json::from_str(&code).unwrap();
        let device = code["device_code"].as_str().unwrap();
        let ask = format!(
            "client_id=slipway&device_code={device}&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code"
        );
        let (status, said) = send(&server, "POST", end, form, &ask).await;
        assert!(status == pending && said.contains("authorization_pending"), "{said}");
        assert!(server.approve(code["user_code"].as_str().unwrap(), "ann"));
        let (_, token) = send(&server, "POST", end, form, &ask).await;
        let token: serde_json::Value = serde_json::from_str(&token).unwrap();
        let bearer = format!("authorization: Bearer {}\r\n", token["access_token"].as_str().unwrap());
        assert_eq!(send(&server, "GET", "/api/v4/users?username=ann", &bearer, "").await.0, 200, "{number}");
        assert!(send(&server, "POST", end, form, &ask).await.1.contains("error"), "a code is used once");
    }
    assert_eq!(server.violations(), Vec::<String>::new());
}

/// A port that takes webhooks, and gives each with its head.
async fn listener() -> (String, tokio::sync::mpsc::UnboundedReceiver<(String, serde_json::Value)>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    let (give, take) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut text = Vec::new();
            loop {
                let mut chunk = [0; 4096];
                let count = stream.read(&mut chunk).await.unwrap();
                text.extend_from_slice(&chunk[..count]);
                let whole = String::from_utf8_lossy(&text).into_owned();
                if let Some((head, body)) = whole.split_once("\r\n\r\n")
                    && let Ok(body) = serde_json::from_str(body)
                {
                    give.send((head.to_owned(), body)).unwrap();
                    break;
                }
            }
            stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await.unwrap();
        }
    });
    (url, take)
}

#[tokio::test]
async fn webhooks_are_signed_and_come_twice_or_in_another_order_on_demand() {
    let server = Server::start("token").await;
    let repo = Repo::plain();
    server.serve("acme", "shop", &repo);
    repo.commit("work", &[("new.txt", "new\n")]);
    let (url, mut hooks) = listener().await;
    server.tell(Kind::GitHub, &url, "secret");
    let headers = format!("{HEADERS}authorization: Bearer token\r\ncontent-type: application/json\r\n");
    let new = r#"{"title":"t","head":"work","base":"main"}"#;
    send(&server, "POST", "/api/v3/repos/acme/shop/pulls", &headers, new).await;
    let (head, body) = hooks.recv().await.unwrap();
    assert_eq!((&body["action"], &body["number"]), (&"opened".into(), &1.into()));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"secret");
    let signature: String = ring::hmac::sign(&key, body.to_string().as_bytes())
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert!(head.contains(&format!("x-hub-signature-256: sha256={signature}")), "{head}");
    assert!(head.contains("x-github-event: pull_request"), "{head}");

    server.order(Order::Twice);
    server.say(1, "ann", "@slipway more");
    let ((first, said), (second, again)) = (hooks.recv().await.unwrap(), hooks.recv().await.unwrap());
    assert_eq!((first, &said["comment"]["body"]), (second, &"@slipway more".into()));
    assert_eq!(said, again);

    server.tell(Kind::GitLab, &url, "secret");
    server.tell(Kind::Gitea, &url, "secret");
    server.order(Order::Held);
    server.say(1, "ann", "and more");
    server.merge(1).unwrap();
    server.order(Order::Straight);
    let mut heads = Vec::new();
    for _ in 0..6 {
        heads.push(hooks.recv().await.unwrap());
    }
    let (head, body) = &heads[0];
    assert!(head.contains("x-gitea-event: pull_request") && head.contains("x-gitea-signature: "), "{head}");
    assert_eq!((&body["action"], &body["pull_request"]["merged"]), (&"closed".into(), &true.into()));
    let (head, body) = &heads[1];
    assert!(head.contains("x-gitlab-token: secret") && head.contains("Merge Request Hook"), "{head}");
    assert_eq!(body["object_attributes"]["action"], "merge");
    assert!(heads[2].1["pull_request"]["merged_at"].is_string());
    assert_eq!(heads[5].1["comment"]["body"], "and more", "what came first comes last");
}
