//! Environments, the index, idempotency keys.

use protocol::{Environment, RefusedHost, Session, SessionId, Spend, Status, Timestamp};
use store::{Claim, Error, Store};
use tokio::task::JoinSet;

pub(crate) fn session(id: SessionId, seq: u64, second: i64) -> Session {
    Session {
        id,
        title: format!("at {seq}"),
        environment: "shop".into(),
        model: "main".into(),
        status: Status::Working,
        reason: None,
        created_at: Timestamp::from_second(1).unwrap(),
        updated_at: Timestamp::from_second(second).unwrap(),
        seq,
        lineage: None,
        spend: Spend::default(),
        spent: Vec::new(),
        turn_spend: Spend::default(),
        budgets: protocol::Budgets::default(),
        used: protocol::BudgetUse::default(),
        queued: Vec::new(),
        paused: false,
        approval: None,
        policy: protocol::Policy::default(),
        granted: Vec::new(),
        turn: None,
        delivery: None,
        deliveries: Vec::new(),
        notifying: false,
        sandbox: None,
        forked_from: None,
        skills: Vec::new(),
        listing: protocol::Listing::default(),
    }
}

#[tokio::test]
async fn environments_are_kept_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let plain = Environment::default();
    let told = Environment { instructions: Some("be kind".into()), ..plain.clone() };
    store.put_environment("shop", &plain).await.unwrap();
    store.put_environment("api", &plain).await.unwrap();
    store.put_environment("shop", &told).await.unwrap();
    drop(store);

    let store = Store::open(dir.path()).unwrap();
    let want = [("api".to_owned(), plain.clone()), ("shop".to_owned(), told.clone())];
    assert_eq!(store.environments().await.unwrap(), want);
    assert!(store.remove_environment("api").await.unwrap());
    assert!(!store.remove_environment("api").await.unwrap());
    assert_eq!(store.environments().await.unwrap(), want[1..]);
}

#[tokio::test]
async fn refusals_are_kept_by_environment() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let refused = |host: &str| RefusedHost {
        host: host.into(),
        port: 443,
        reason: "no rule allows it".into(),
        count: 2,
        last_at: Timestamp::from_second(1).unwrap(),
    };
    store.put_refused("shop", vec![refused("a.test")]).await.unwrap();
    store.put_refused("shop", vec![refused("b.test"), refused("a.test")]).await.unwrap();
    store.put_refused("api", vec![refused("c.test")]).await.unwrap();
    store.put_refused("api", Vec::new()).await.unwrap();
    drop(store);

    let store = Store::open(dir.path()).unwrap();
    let want = [("shop".to_owned(), vec![refused("b.test"), refused("a.test")])];
    assert_eq!(store.refused().await.unwrap(), want);
}

#[tokio::test]
async fn the_index_lists_the_last_changed_first_and_never_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (a, b) = (SessionId::new(), SessionId::new());
    store.index(&session(a, 5, 30), "").await.unwrap();
    store.index(&session(b, 2, 20), "").await.unwrap();
    store.index(&session(a, 4, 10), "").await.unwrap();
    drop(store);

    let store = Store::open(dir.path()).unwrap();
    let want = [session(a, 5, 30), session(b, 2, 20)];
    assert_eq!(store.indexed(10).await.unwrap(), want);
    assert_eq!(store.indexed(1).await.unwrap(), want[..1]);
    assert_eq!(store.indexed(usize::MAX).await.unwrap().len(), 2);
    assert_eq!(store.indexed_one(b).await.unwrap().as_ref(), Some(&want[1]));
    assert_eq!(store.indexed_one(SessionId::new()).await.unwrap(), None);
}

#[tokio::test]
async fn a_key_is_answered_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.claim_key("k", "f", "n").await.unwrap(), Claim::New);
    assert_eq!(store.claim_key("k", "f", "n").await.unwrap(), Claim::Pending);
    assert_eq!(store.claim_key("k", "other", "n").await.unwrap(), Claim::Mismatch);
    store.release_key("k").await.unwrap();
    assert_eq!(store.claim_key("k", "f", "n").await.unwrap(), Claim::New);
    store.settle_key("k", 201, "{}").await.unwrap();
    store.release_key("k").await.unwrap();
    let settled = Claim::Settled { status: 201, body: "{}".into() };
    assert_eq!(store.claim_key("k", "f", "n").await.unwrap(), settled);
    assert_eq!(store.claim_key("half", "f", "first").await.unwrap(), Claim::New);
    drop(store);

    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.claim_key("k", "f", "n").await.unwrap(), settled);
    let again = Claim::Again { name: "first".into() };
    assert_eq!(store.claim_key("half", "f", "second").await.unwrap(), again, "its server is gone");
    assert_eq!(store.claim_key("half", "f", "third").await.unwrap(), Claim::Pending);
    store.abandon_key("half").await.unwrap();
    assert_eq!(store.claim_key("half", "other", "third").await.unwrap(), Claim::Mismatch);
    assert_eq!(store.claim_key("half", "f", "third").await.unwrap(), again);
    store.settle_key("half", 202, "[]").await.unwrap();
    store.abandon_key("half").await.unwrap();
    let settled = Claim::Settled { status: 202, body: "[]".into() };
    assert_eq!(store.claim_key("half", "f", "fourth").await.unwrap(), settled, "an answer stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_claim_a_key_one_gets_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let store = store.clone();
        tasks.spawn(async move { store.claim_key("k", "f", "n").await.unwrap() });
    }
    let claims = tasks.join_all().await;
    assert_eq!(claims.iter().filter(|claim| **claim == Claim::New).count(), 1);
}

#[test]
fn a_newer_or_foreign_catalogue_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let path = dir.path().join("catalogue.db");
    let pragma = |name: &str, value: i32| {
        rusqlite::Connection::open(&path).unwrap().pragma_update(None, name, value).unwrap();
    };
    pragma("user_version", 99);
    let error = Store::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("it calls itself version 99, but has the tables of version 3"), "{error}");
    let sql = |sql: &str| rusqlite::Connection::open(&path).unwrap().execute(sql, ()).unwrap();
    sql("CREATE TABLE of_a_newer_version (x)");
    assert_eq!(Store::open(dir.path()).unwrap_err(), Error::Newer(path.clone()));
    sql("DROP TABLE of_a_newer_version");
    pragma("user_version", 3);
    drop(Store::open(dir.path()).unwrap());
    pragma("application_id", 1);
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(&error, Error::Damaged { path: file, .. } if *file == path), "{error}");
}
