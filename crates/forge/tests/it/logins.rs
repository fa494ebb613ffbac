//! Git over HTTP with the forge's own tokens: it reads and pushes, also when a token lasts only for a while, and nothing of a
//! token is left in the mirror or said in an error.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forge::app::App;
use forge::gitea::Gitea;
use forge::github::GitHub;
use forge::gitlab::GitLab;
use forge::{Forge, Forges, Mirrors, NewPullRequest, Readiness, Token};
use tempfile::TempDir;
use testkit::forge::{APP_ID, APP_KEY, Fault, Kind, On, Server};
use testkit::repo::{Repo, git_in};

const TOKEN: &str = "forge-token-4711";

fn forges(server: &Server, kind: Kind, token: &str) -> Forges {
    let (api, token) = (server.api_of(kind), Some(Token::new(token)));
    let mut forges = Forges::default();
    match kind {
        Kind::GitHub => forges
            .add_with_logins(server.url(), Arc::new(GitHub::new(&api, token, "FORGE_TOKEN").unwrap()))
            .unwrap(),
        Kind::GitLab => forges
            .add_with_logins(server.url(), Arc::new(GitLab::new(&api, token, "FORGE_TOKEN").unwrap()))
            .unwrap(),
        Kind::Gitea => forges
            .add_with_logins(server.url(), Arc::new(Gitea::new(&api, token, "FORGE_TOKEN").unwrap()))
            .unwrap(),
    }
    forges
}

fn app(server: &Server) -> GitHub {
    let app = App::new(&server.api_url(), APP_ID, &Token::new(APP_KEY)).unwrap();
    GitHub::with_app(&server.api_url(), app).unwrap()
}

/// A commit of a sandbox, taken into the mirror.
async fn work(mirror: &forge::Mirror, directory: &Path) -> String {
    let base = mirror.tip(None).await.unwrap().commit;
    let bundle = directory.join("to.bundle");
    mirror.bundle("work", &base, &bundle).await.unwrap();
    git_in(directory, &["clone", "--quiet", "-b", "work", "to.bundle", "clone"]);
    let clone = directory.join("clone");
    std::fs::write(clone.join("answer.txt"), "42\n").unwrap();
    git_in(&clone, &["commit", "--quiet", "-am", "Mend the answer"]);
    let from = directory.join("from.bundle");
    git_in(&clone, &["bundle", "create", "--quiet", from.to_str().unwrap(), &format!("{base}..work")]);
    mirror.take(&from, "work", &base, ("ses_1", None), None).await.unwrap().commit
}

fn holds(directory: &Path, text: &str) -> bool {
    std::fs::read_dir(directory).unwrap().flatten().any(|entry| match entry.file_type().unwrap().is_dir() {
        true => holds(&entry.path(), text),
        false => std::fs::read(entry.path())
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes())),
    })
}

#[tokio::test]
async fn every_forge_lets_git_in_with_its_token() {
    for kind in Kind::ALL {
        let server = Server::start(TOKEN).await;
        let repo = Repo::plain();
        server.serve("acme", "shop", &repo);
        let directory = TempDir::new().unwrap();
        let url = server.git_url("acme", "shop");
        let mirrors = Mirrors::new(&directory.path().join("mirrors"));
        let shut_out = mirrors.fetch(&url).await.unwrap_err().to_string();
        assert!(shut_out.contains("credentials"), "{kind:?}: {shut_out}");
        let mirrors = mirrors.with_logins(forges(&server, kind, TOKEN));
        let mirror = mirrors.fetch(&url).await.unwrap();
        let commit = work(&mirror, directory.path()).await;
        // The answer is lost after the branch was taken, and it is found there.
        server.fail_times(On::Push, Fault::Pass, 2);
        server.fail(On::Push, Fault::ActThenRefuse(502));
        mirror.push(&commit, "slipway/mend").await.unwrap();
        assert_eq!(repo.tip("slipway/mend"), commit, "{kind:?}");
        assert!(!holds(&directory.path().join("mirrors"), TOKEN), "{kind:?}: a token is in the mirror");

        server.revoke(TOKEN);
        let refused = mirror.push(&commit, "slipway/other").await.unwrap_err();
        assert!(!refused.to_string().contains(TOKEN) && !refused.is_passing(), "{kind:?}: {refused}");
        assert!(refused.to_string().contains("does not accept the token"), "{kind:?}: {refused}");
        assert_eq!(server.violations(), Vec::<String>::new(), "{kind:?}");
    }
}

#[tokio::test]
async fn an_app_mints_tokens_for_git_and_for_pull_requests_and_again_when_they_end() {
    let server = Server::start(TOKEN).await;
    let repo = Repo::plain();
    server.serve("acme", "shop", &repo);
    server.serve("acme", "other", &repo);
    let directory = TempDir::new().unwrap();
    let github = Arc::new(app(&server));
    let mut forges = Forges::default();
    forges.add_with_logins(server.url(), Arc::clone(&github)).unwrap();
    let mirrors = Mirrors::new(&directory.path().join("mirrors")).with_logins(forges.clone());
    let url = server.git_url("acme", "shop");
    let mirror = mirrors.fetch(&url).await.unwrap();
    let commit = work(&mirror, directory.path()).await;
    mirror.push(&commit, "slipway/mend").await.unwrap();
    let (_, repository) = forges.of(&url).unwrap();
    let wanted = NewPullRequest {
        repository,
        branch: "slipway/mend".to_owned(),
        commit,
        base: "main".to_owned(),
        title: "Mend".to_owned(),
        body: String::new(),
        readiness: Readiness::Ready,
        person: None,
    };
    github.open(&wanted).await.unwrap().unwrap();
    assert_eq!(server.pull_requests()[0].author, "slipway[bot]");
    assert_eq!(server.minted(), 1, "a token that lasts is used again");
    mirrors.fetch(&server.git_url("acme", "other")).await.unwrap();
    assert_eq!(server.minted(), 2, "each repository has its own");

    // A token that ends soon is not begun with.
    server.tokens_last(Duration::from_secs(60));
    let fresh = Mirrors::new(&directory.path().join("more"));
    let mut forges = Forges::default();
    forges.add_with_logins(server.url(), Arc::new(app(&server))).unwrap();
    let fresh = fresh.with_logins(forges);
    fresh.fetch(&url).await.unwrap();
    let minted = server.minted();
    fresh.fetch(&url).await.unwrap();
    assert!(server.minted() > minted);
    for place in ["mirrors", "more"] {
        assert!(!holds(&directory.path().join(place), "ghs_minted"), "a token is in {place}");
    }
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_token_of_an_app_that_was_taken_back_is_minted_anew() {
    let server = Server::start(TOKEN).await;
    let repo = Repo::plain();
    server.serve("acme", "shop", &repo);
    let directory = TempDir::new().unwrap();
    let github = Arc::new(app(&server));
    let mut forges = Forges::default();
    forges.add_with_logins(server.url(), Arc::clone(&github)).unwrap();
    let mirrors = Mirrors::new(&directory.path().join("mirrors")).with_logins(forges.clone());
    let url = server.git_url("acme", "shop");
    let mirror = mirrors.fetch(&url).await.unwrap();
    let commit = work(&mirror, directory.path()).await;
    let (_, repository) = forges.of(&url).unwrap();
    server.revoke("ghs_minted001canary");
    mirror.push(&commit, "slipway/mend").await.unwrap();
    assert_eq!((repo.tip("slipway/mend"), server.minted()), (commit.clone(), 2));
    server.revoke("ghs_minted002canary");
    // One request is refused, and those after it have the new token at once.
    assert_eq!(github.checks(&repository, &commit).await.unwrap(), []);
    let refused = server.requests(On::Checks).iter().filter(|entry| entry.status == 401).count();
    assert_eq!((refused, server.minted()), (1, 3));
    server.revoke("ghs_minted003canary");
    mirrors.fetch(&url).await.unwrap();
    assert_eq!(server.minted(), 4);
    // Where the app itself is shut out, that is what is said, and no token.
    server.revoke("ghs_minted004canary");
    server.fail_times(On::Mint, Fault::Refuse(401), 9);
    let said = github.checks(&repository, &commit).await.unwrap_err().to_string();
    assert!(said.contains("does not accept the key of app") && !said.contains("ghs_"), "{said}");
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn an_app_that_cannot_mint_says_why() {
    let server = Server::start(TOKEN).await;
    let repo = Repo::plain();
    server.serve("acme", "shop", &repo);
    let directory = TempDir::new().unwrap();
    let mut forges = Forges::default();
    let stranger = App::new(&server.api_url(), "1", &Token::new(APP_KEY)).unwrap();
    let stranger = GitHub::with_app(&server.api_url(), stranger).unwrap();
    forges.add_with_logins(server.url(), Arc::new(stranger)).unwrap();
    let mirrors = Mirrors::new(directory.path()).with_logins(forges);
    let refused = mirrors.fetch(&server.git_url("acme", "shop")).await.unwrap_err();
    assert!(refused.to_string().contains("Integration not found") && !refused.is_passing(), "{refused}");

    let mut forges = Forges::default();
    forges.add_with_logins(server.url(), Arc::new(app(&server))).unwrap();
    let mirrors = Mirrors::new(directory.path()).with_logins(forges);
    let refused = mirrors.fetch(&server.git_url("acme", "gone")).await.unwrap_err();
    assert!(refused.to_string().contains("not installed"), "{refused}");
    server.fail(On::Mint, Fault::Refuse(503));
    let refused = mirrors.fetch(&server.git_url("acme", "shop")).await.unwrap_err();
    assert!(refused.is_passing(), "{refused}");
    for bad in ["", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----"] {
        let error = App::new(&server.api_url(), APP_ID, &Token::new(bad)).unwrap_err();
        assert!(error.contains("BEGIN RSA PRIVATE KEY") && !error.contains("AAAA"), "{error}");
    }
}

#[tokio::test]
async fn a_repository_that_was_renamed_is_told_with_where_it_is() {
    for kind in Kind::ALL {
        let server = Server::start(TOKEN).await;
        let repo = Repo::plain();
        server.serve("acme", "shop", &repo);
        let directory = TempDir::new().unwrap();
        let mirrors = Mirrors::new(&directory.path().join("mirrors"));
        let mirrors = mirrors.with_logins(forges(&server, kind, TOKEN));
        let url = server.git_url("acme", "shop");
        let mirror = mirrors.fetch(&url).await.unwrap();
        let commit = work(&mirror, directory.path()).await;
        server.rename("acme/shop", "acme/store").unwrap();
        let now = format!("it has moved to {}/acme/store: give the environment that address", server.url());
        for refused in [
            mirrors.fetch(&url).await.unwrap_err(),
            mirror.remote_tip("main").await.unwrap_err(),
            mirror.push(&commit, "slipway/mend").await.unwrap_err(),
        ] {
            assert!(refused.to_string().contains(&now) && !refused.is_passing(), "{kind:?}: {refused}");
            assert!(!refused.to_string().contains(TOKEN), "{kind:?}: {refused}");
        }
        mirrors.fetch(&server.git_url("acme", "store")).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_without_a_word_may_be_well_again_later() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4096];
            drop(tokio::io::AsyncReadExt::read(&mut stream, &mut asked).await);
        }
    });
    let directory = TempDir::new().unwrap();
    let url = format!("http://{address}/acme/shop.git");
    let refused = Mirrors::new(directory.path()).fetch(&url).await.unwrap_err();
    silent.abort();
    assert!(refused.is_passing(), "{refused}");
    assert!(refused.to_string().contains("Empty reply"), "{refused}");
}
