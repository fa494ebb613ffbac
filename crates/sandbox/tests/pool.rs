//! The warm pool: what it holds ready, what it hands out, and that it leaves nothing behind.

#![allow(clippy::unwrap_used)] // a test says what went wrong by panicking

mod fake;

use std::sync::Arc;
use std::time::Duration;

use fake::Fake;
use protocol::{Egress, Service, SessionId, Timestamp, WarmStatus};
use sandbox::image::Image;
use sandbox::native::Native;
use sandbox::pool::{Pool, Target};
use sandbox::{Driver, Limits, Network, Owner, Stack, egress};

/// Nothing is out there.
struct Nowhere;

#[async_trait::async_trait]
impl egress::Outside for Nowhere {
    async fn resolve(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        Ok(Vec::new())
    }

    async fn connect(&self, _: std::net::SocketAddr) -> std::io::Result<tokio::net::TcpStream> {
        Err(std::io::ErrorKind::NetworkUnreachable.into())
    }

    fn roots(&self) -> Arc<rustls::RootCertStore> {
        Arc::new(rustls::RootCertStore::empty())
    }
}

fn target(size: u32, key: &str) -> Target {
    let image = Image {
        environment: "app".to_owned(),
        key: key.to_owned(),
        stack: Stack::host(),
        url: String::new(),
        branch: "main".to_owned(),
        commit: String::new(),
        built_at: Timestamp::now(),
        duration_ms: 0,
        bytes: 0,
        notes: Vec::new(),
    };
    Target {
        size,
        image,
        limits: Limits::default(),
        network: Network::None,
        rules: egress::Rules::parse(&Egress::default()).unwrap(),
        outside: Arc::new(Nowhere),
        services: Vec::new(),
    }
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited in vain for: {what}");
}

async fn ready(pool: &Pool, count: u32) {
    until("sandboxes that are ready", || pool.status("app") == WarmStatus { ready: count, starting: 0 })
        .await;
}

fn somebody() -> Owner {
    Owner::Session(SessionId::new())
}

#[tokio::test]
async fn what_is_claimed_is_replaced() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    pool.set("app", target(2, "one"));
    ready(&pool, 2).await;
    assert!(pool.claim("app", "two", &somebody()).await.is_none(), "of another image");
    assert!(pool.claim("other", "one", &somebody()).await.is_none(), "of another environment");
    let owner = somebody();
    let claimed = pool.claim("app", "one", &owner).await.unwrap();
    assert_eq!(claimed.image.key, "one");
    assert_eq!(fake.inside().sandboxes[&claimed.sandbox.id()].owner.as_ref(), Some(&owner));
    ready(&pool, 2).await;
    pool.close().await;
    assert_eq!(fake.owners(), [owner.to_string()], "only what was claimed is left");
    assert!(pool.claim("app", "one", &somebody()).await.is_none());
    pool.set("app", target(2, "one"));
    assert_eq!(pool.warm("app").await, WarmStatus { ready: 0, starting: 0 }, "a closed pool makes nothing");
}

#[tokio::test]
async fn a_dead_one_is_skipped_and_removed() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    pool.set("app", target(2, "one"));
    ready(&pool, 2).await;
    let oldest = *fake.inside().sandboxes.keys().next().unwrap();
    let other = *fake.inside().sandboxes.keys().nth(1).unwrap();
    fake.kill(oldest);
    fake.kill(other);
    assert!(pool.claim("app", "one", &somebody()).await.is_none());
    ready(&pool, 2).await;
    until("the dead to be removed", || fake.owners() == ["one", "one"]).await;
    let claimed = pool.claim("app", "one", &somebody()).await.unwrap();
    assert!(claimed.sandbox.id() != oldest && claimed.sandbox.id() != other);
    pool.close().await;
}

/// Nobody claims it, and nobody asks.
#[tokio::test]
async fn a_dead_one_is_noticed_and_replaced() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    pool.set("app", target(2, "one"));
    ready(&pool, 2).await;
    let dead = *fake.inside().sandboxes.keys().next().unwrap();
    fake.kill(dead);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    until("the dead one to be removed", || !fake.inside().sandboxes.contains_key(&dead)).await;
    ready(&pool, 2).await;
    assert_eq!(fake.inside().attempts, 3);
    pool.close().await;
    assert!(fake.owners().is_empty());
}

#[tokio::test]
async fn whoever_warms_is_not_told_of_a_dead_one() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    pool.set("app", target(1, "one"));
    ready(&pool, 1).await;
    let dead = *fake.inside().sandboxes.keys().next().unwrap();
    fake.kill(dead);
    assert_eq!(pool.warm("app").await, WarmStatus { ready: 0, starting: 1 });
    ready(&pool, 1).await;
    let claimed = pool.claim("app", "one", &somebody()).await.unwrap();
    assert_ne!(claimed.sandbox.id(), dead);
    pool.close().await;
}

#[tokio::test]
async fn a_new_image_replaces_the_old_one_new_ones_first() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    pool.set("app", target(2, "old"));
    ready(&pool, 2).await;
    fake.starts.forget_permits(usize::MAX);
    pool.set("app", target(2, "new"));
    until("new ones to be begun", || fake.inside().attempts == 4).await;
    assert_eq!(pool.status("app"), WarmStatus { ready: 0, starting: 2 });
    assert_eq!(fake.owners(), ["old", "old"], "nothing goes before there is something new");
    assert!(pool.claim("app", "new", &somebody()).await.is_none());
    let claimed = pool.claim("app", "old", &Owner::OneOff).await.unwrap();
    assert_eq!(claimed.image.key, "old");
    fake.starts.add_permits(1);
    until("the first new one", || pool.status("app").ready == 1).await;
    assert_eq!(fake.owners(), ["one command", "old", "new"], "one is still wanting");
    fake.starts.add_permits(1);
    ready(&pool, 2).await;
    until("the old to go", || fake.owners() == ["one command", "new", "new"]).await;
    assert!(pool.claim("app", "old", &somebody()).await.is_none());
    pool.close().await;
}

#[tokio::test]
async fn other_limits_are_as_much_a_change_as_another_image() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    pool.set("app", target(1, "one"));
    ready(&pool, 1).await;
    fake.starts.forget_permits(usize::MAX);
    let other =
        [Limits { processes: 7, ..Limits::default() }, Limits { user_namespaces: true, ..Limits::default() }];
    for limits in other {
        pool.set("app", Target { limits, ..target(1, "one") });
        assert!(pool.claim("app", "one", &somebody()).await.is_none(), "made with other limits");
    }
    pool.set("app", target(1, "one"));
    assert_eq!(
        pool.status("app"),
        WarmStatus { ready: 1, starting: 0 },
        "wanted again before it was replaced"
    );
    assert!(pool.claim("app", "one", &Owner::OneOff).await.is_some());
    fake.starts.add_permits(9);
    ready(&pool, 1).await;
    until("those that were begun in vain to go", || fake.owners() == ["one command", "one"]).await;
    pool.close().await;
}

#[tokio::test]
async fn one_that_is_being_made_when_nobody_wants_it_any_more_goes() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    fake.starts.forget_permits(usize::MAX);
    pool.set("app", target(2, "one"));
    until("two to be begun", || fake.inside().attempts == 2).await;
    pool.unset("app");
    assert_eq!(pool.status("app"), WarmStatus { ready: 0, starting: 0 });
    let closing = tokio::spawn({
        let pool = Arc::clone(&pool);
        async move { pool.close().await }
    });
    tokio::task::yield_now().await;
    assert!(!closing.is_finished(), "two are still being made");
    fake.starts.add_permits(2);
    closing.await.unwrap();
    assert!(fake.owners().is_empty());
    assert!(fake.inside().most <= 2);
}

#[tokio::test]
async fn warming_makes_one_and_it_goes_when_nobody_comes() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    assert_eq!(pool.warm("app").await, WarmStatus { ready: 0, starting: 0 }, "of what?");
    pool.set("app", target(0, "one"));
    assert_eq!(pool.status("app"), WarmStatus { ready: 0, starting: 0 });
    assert_eq!(pool.warm("app").await, WarmStatus { ready: 0, starting: 1 });
    assert_eq!(pool.warm("app").await, WarmStatus { ready: 0, starting: 1 }, "one is enough");
    ready(&pool, 1).await;
    assert_eq!(pool.warm("app").await, WarmStatus { ready: 1, starting: 0 });
    assert!(pool.claim("app", "one", &Owner::OneOff).await.is_some());
    assert_eq!(
        pool.status("app"),
        WarmStatus { ready: 0, starting: 0 },
        "whoever was about to ask has asked"
    );
    pool.warm("app").await;
    ready(&pool, 1).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(590)).await;
    assert_eq!(pool.status("app").ready, 1);
    tokio::time::advance(Duration::from_secs(20)).await;
    until("it to go", || fake.owners() == ["one command"]).await;
    assert_eq!(pool.status("app"), WarmStatus { ready: 0, starting: 0 });
    pool.close().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_it_waits_longer_and_longer() {
    let fake = Fake::new();
    fake.inside().failures = (0..20).map(|_| "no room".to_owned()).collect();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    let began = tokio::time::Instant::now();
    pool.set("app", target(1, "one"));
    let mut waits = Vec::new();
    for attempt in 1..=9 {
        while fake.inside().attempts < attempt {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        waits.push(began.elapsed().as_secs());
    }
    assert_eq!(waits, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    until("the error", || pool.error("app").is_some()).await;
    assert!(pool.error("app").unwrap().contains("no room"));
    pool.warm("app").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.inside().attempts, 9, "asking does not make it try more often");
    // What is to be made changed, so it is worth a try at once.
    fake.inside().failures.clear();
    fake.inside().failures.push_back("still none".to_owned());
    pool.set("app", target(1, "two"));
    until("the other error", || pool.error("app").is_some_and(|error| error.contains("still none"))).await;
    assert_eq!(fake.inside().attempts, 10);
    pool.close().await;
}

#[tokio::test]
async fn a_claim_that_is_given_up_leaves_nothing() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    pool.set("app", target(1, "one"));
    ready(&pool, 1).await;
    let first = *fake.inside().sandboxes.keys().next().unwrap();
    let owner = somebody();
    let mut claim = Box::pin(pool.claim("app", "one", &owner));
    assert!(futures_util::poll!(&mut claim).is_pending(), "giving it takes a moment");
    drop(claim);
    until("it to be removed", || !fake.inside().sandboxes.contains_key(&first)).await;
    ready(&pool, 1).await;
    pool.close().await;
    assert!(fake.owners().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_what_another_got() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    pool.set("app", target(4, "key-0"));
    let claims = (0..8).map(|_| {
        let pool = Arc::clone(&pool);
        tokio::spawn(async move {
            let mut got = Vec::new();
            for round in 0..200 {
                let key = format!("key-{}", (round / 20) % 3);
                if let Some(claimed) = pool.claim("app", &key, &Owner::OneOff).await {
                    assert_eq!(claimed.image.key, key);
                    got.push(claimed.sandbox.id());
                }
                if round % 20 == 0 {
                    pool.set("app", target(4, &key));
                }
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            got
        })
    });
    let mut all = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        all.extend(claim.await.unwrap());
    }
    pool.close().await;
    assert!(!all.is_empty());
    let mut left: Vec<_> = fake.inside().sandboxes.keys().copied().collect();
    all.sort();
    left.sort();
    assert_eq!(all, left, "each was handed out once, and all others are gone");
}

#[tokio::test]
async fn a_pool_that_is_dropped_stops() {
    let fake = Fake::new();
    let pool = Pool::new(Arc::clone(&fake) as Arc<dyn Driver>);
    fake.starts.forget_permits(usize::MAX);
    pool.set("app", target(1, "one"));
    until("one to be begun", || fake.inside().attempts == 1).await;
    drop(pool);
    fake.starts.add_permits(1);
    // The tasks hold the driver; once they are gone it is ours alone.
    until("all tasks to end", || Arc::strong_count(&fake) == 1).await;
    assert!(fake.owners().is_empty());
}

#[tokio::test]
async fn real_sandboxes_are_claimed_with_their_services_up() {
    let dir = tempfile::tempdir().unwrap();
    let driver: Arc<dyn Driver> = Arc::new(Native::open(dir.path()).unwrap());
    let pool = Pool::new(Arc::clone(&driver));
    let mark = Service {
        name: "mark".to_owned(),
        run: "echo up > mark; exec sleep 600".to_owned(),
        ..Service::default()
    };
    let mark = Service {
        ready: protocol::Probe { run: Some("test -s mark".to_owned()), ..protocol::Probe::default() },
        ..mark
    };
    pool.set("app", Target { services: vec![mark], ..target(1, "one") });
    ready(&pool, 1).await;
    let owner = somebody();
    let claimed = pool.claim("app", "one", &owner).await.unwrap();
    let (text, _) = claimed.sandbox.guest().read_file("/workspace/mark", 0, 99).await.unwrap();
    assert_eq!(&text[..], b"up\n");
    let infos = driver.list().await.unwrap();
    let info = infos.iter().find(|info| info.id == claimed.sandbox.id()).unwrap();
    assert_eq!(info.owner, Some(owner));
    let broken =
        Service { name: "broken".to_owned(), run: "echo sorry; exit 3".to_owned(), ..Service::default() };
    pool.set("app", Target { services: vec![broken], ..target(1, "one") });
    until("the failure", || pool.error("app").is_some()).await;
    let error = pool.error("app").unwrap();
    assert!(error.contains("service broken exited with 3") && error.contains("sorry"), "{error}");
    pool.close().await;
    driver.remove(claimed.sandbox.id()).await.unwrap();
    assert!(driver.list().await.unwrap().is_empty());
}
