//! The forge's client against the fake one, which is as strict as the real one.

use forge::github::GitHub;
use forge::{Forge, Forges, NewPullRequest, Refusal, Token, Webhook};
use testkit::forge::{Fault, On, Server};
use testkit::repo::Repo;

const TOKEN: &str = "forge-token-4711";

fn github(server: &Server, token: &str) -> GitHub {
    GitHub::new(&server.api_url(), Some(Token::new(token)), "FORGE_TOKEN").unwrap()
}

/// A repository with a branch, and what is wanted for it.
fn wanted(server: &Server, repo: &Repo) -> NewPullRequest {
    let url = server.serve("acme", "shop", repo);
    let mut forges = Forges::default();
    forges.add(&server.root().to_string_lossy(), std::sync::Arc::new(github(server, TOKEN))).unwrap();
    let (_, repository) = forges.of(&url).unwrap();
    NewPullRequest {
        repository,
        branch: "slipway/fix&more".to_owned(),
        commit: repo.commit("slipway/fix&more", &[("answer.txt", "42\n")]),
        base: "main".to_owned(),
        title: "Fix".repeat(200),
        body: "b".repeat(80_000),
        readiness: forge::Readiness::Ready,
        person: None,
    }
}

#[tokio::test]
async fn one_that_is_there_is_found_and_not_opened_again() {
    let server = Server::start(TOKEN).await;
    let repo = Repo::plain();
    let wanted = wanted(&server, &repo);
    let github = github(&server, TOKEN);
    assert_eq!(github.look_up(&wanted).await.unwrap(), None);
    let opened = github.open(&wanted).await.unwrap().unwrap();
    assert_eq!(opened.number, 1);
    assert_eq!(github.look_up(&wanted).await.unwrap(), Some(opened.clone()));
    assert_eq!(github.open(&wanted).await.unwrap(), None, "there is one already");

    // It was closed: that decides about this commit, and about no other.
    server.close(1);
    let closed = forge::PullRequest { state: forge::State::Closed, ..opened };
    assert_eq!(github.look_up(&wanted).await.unwrap(), Some(closed));
    let commit = repo.commit(&wanted.branch, &[("answer.txt", "43\n")]);
    let next = NewPullRequest { commit, ..wanted };
    assert_eq!(github.look_up(&next).await.unwrap(), None);
    let second = github.open(&next).await.unwrap().unwrap();
    assert_eq!(github.look_up(&next).await.unwrap(), Some(second));
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn refusals_say_what_to_do_and_hold_no_token() {
    let server = Server::start(TOKEN).await;
    let repo = Repo::plain();
    let wanted = wanted(&server, &repo);
    let final_words = |refusal: Refusal| match refusal {
        Refusal::Final { message } => message,
        Refusal::Later { .. } => panic!("it would be tried again: {refusal}"),
    };
    let said = final_words(github(&server, "wrong-token").look_up(&wanted).await.unwrap_err());
    assert!(said.contains("FORGE_TOKEN") && !said.contains("wrong-token"), "{said}");
    let none = GitHub::new(&server.api_url(), None, "FORGE_TOKEN").unwrap();
    assert!(final_words(none.open(&wanted).await.unwrap_err()).contains("set FORGE_TOKEN"));
    let github = github(&server, TOKEN);
    let gone = NewPullRequest { base: "gone".to_owned(), ..wanted.clone() };
    assert!(final_words(github.open(&gone).await.unwrap_err()).contains("base is invalid"));
    let same = NewPullRequest { branch: "main".to_owned(), ..wanted.clone() };
    assert!(final_words(github.open(&same).await.unwrap_err()).contains("No commits between"));
    let mut other = wanted.clone();
    other.repository.name = "other".to_owned();
    assert!(final_words(github.look_up(&other).await.unwrap_err()).contains("acme/other"));
}

#[tokio::test]
async fn it_is_known_whether_a_request_may_have_been_carried_out() {
    let server = Server::start(TOKEN).await;
    let repo = Repo::plain();
    let wanted = wanted(&server, &repo);
    let there = github(&server, TOKEN);
    for (fault, expected) in
        [(Fault::ActThenDrop, true), (Fault::Refuse(429), false), (Fault::Refuse(502), true)]
    {
        server.fail(On::Open, fault);
        match there.open(&wanted).await.unwrap_err() {
            Refusal::Later { doubtful, .. } => assert_eq!(doubtful, expected, "{fault:?}"),
            Refusal::Final { message } => panic!("{fault:?}: {message}"),
        }
    }
    // Nobody listens there any more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let away = GitHub::new(&format!("http://{closed}"), Some(Token::new(TOKEN)), "FORGE_TOKEN").unwrap();
    assert!(matches!(away.open(&wanted).await, Err(Refusal::Later { doubtful: false, .. })));
}

#[tokio::test]
async fn a_notification_that_is_confirmed_is_over_and_others_are_told_apart() {
    let server = Server::start(TOKEN).await;
    let hook = Webhook::new(&server.hook_url(), Some(Token::new("hook-secret"))).unwrap();
    let body = serde_json::json!({"key": "k1"});
    for (fault, later) in
        [(Fault::Refuse(503), true), (Fault::Refuse(409), true), (Fault::Refuse(404), false)]
    {
        server.fail(On::Notify, fault);
        let refusal = hook.post("k1", &body).await.unwrap_err();
        assert_eq!(matches!(refusal, Refusal::Later { .. }), later, "{fault:?}: {refusal}");
    }
    hook.post("k1", &body).await.unwrap();
    assert_eq!(server.received(), [("k1".to_owned(), body, 1)]);
    assert!(server.requests(On::Notify).iter().all(|entry| entry.signature.is_some()));
    assert_eq!(server.violations(), Vec::<String>::new());
}
