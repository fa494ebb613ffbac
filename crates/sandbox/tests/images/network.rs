//! What steps can reach, and that nothing secret stays in an image.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use protocol::Secret;
use rustls::RootCertStore;
use sandbox::egress::{Decision, Outside, Rules};
use sandbox::image::{Egress, Recipe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{World, step};

const CANARY: &str = "canary-value-of-the-token";

/// Asks the proxy that the variable names for a page, with nothing but a shell.
const FETCH: &str = r#"fetch() {
  proxy=${http_proxy#http://}
  exec 3<>"/dev/tcp/${proxy%:*}/${proxy#*:}"
  printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" "$1" >&3
  cat <&3 > /tmp/answer
  grep -q 'from the registry' /tmp/answer
}
"#;

/// One public address, behind which is a server on this machine's loopback.
struct Registry(SocketAddr);

#[async_trait::async_trait]
impl Outside for Registry {
    async fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![[192, 0, 2, 7].into()])
    }

    async fn connect(&self, _address: SocketAddr) -> std::io::Result<TcpStream> {
        TcpStream::connect(self.0).await
    }

    fn roots(&self) -> Arc<RootCertStore> {
        Arc::new(RootCertStore::empty())
    }
}

/// Answers every request in the same way.
async fn serve(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            assert!(read > 0);
            let answer =
                "HTTP/1.1 200 OK\r\nContent-Length: 18\r\nConnection: close\r\n\r\nfrom the registry\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
    }
}

/// A secret for one host.
fn token(world: &World, host: &str) -> sandbox::egress::Secret {
    let file = world.images_dir().join("../token");
    std::fs::write(&file, CANARY).unwrap();
    let secret = Secret {
        name: "TOKEN".to_owned(),
        env: None,
        file: Some(file.to_str().unwrap().to_owned()),
        secret: None,
        hosts: vec![host.to_owned()],
        form: "bearer".to_owned(),
    };
    sandbox::egress::Secret::read(&secret, &|_| unreachable!("it is in a file")).unwrap()
}

async fn recipe(world: &World, decisions: &Arc<Mutex<Vec<Decision>>>) -> Recipe {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outside = Arc::new(Registry(listener.local_addr().unwrap()));
    tokio::spawn(serve(listener));
    let decisions = Arc::clone(decisions);
    let egress = Egress {
        rules: Rules::parse(&protocol::Egress::Allow(vec!["registry.example.com".to_owned()])).unwrap(),
        secrets: vec![token(world, "registry.example.com")],
        outside,
        sink: Arc::new(move |decision| decisions.lock().unwrap().push(decision)),
    };
    Recipe { egress: Some(egress), ..world.recipe() }
}

#[tokio::test]
async fn a_step_reaches_what_is_allowed_and_leaves_no_secret() {
    let world = World::new();
    let decisions = Arc::default();
    let mut recipe = recipe(&world, &decisions).await;
    let look = "mkdir deps; cp /tmp/answer deps/answer; env > deps/env; test -s /run/slipway/ca.pem";
    recipe.setup = vec![step(&format!("{FETCH}fetch registry.example.com && {look}"))];
    let image = world.images.build(&recipe).await.unwrap();
    let seen = world.show(&image, "tail -n 1 deps/answer; grep -c '^TOKEN=' deps/env; ls /run/slipway").await;
    assert_eq!(seen, "from the registry\n1");
    assert!(decisions.lock().unwrap().iter().any(|decision| decision.allowed && decision.port == 80));
    // What was let through is in the log of the build, and with it what a secret may have gone to.
    let log = world.log();
    let line = log.lines().find(|line| line.contains("let through: registry.example.com:80"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("(rule registry.example.com), connections 1, bytes out "), "{line}");
    let search = format!("cd /; grep -rl {CANARY} workspace home etc run var tmp 2>/dev/null");
    assert_eq!(world.show(&image, &search).await, "");
    assert!(!world.log().contains(CANARY));
    for layer in &image.stack.layers {
        assert!(!world.layer_root(layer).join("run/slipway").exists());
    }
}

#[tokio::test]
async fn a_step_that_was_refused_something_says_what() {
    let world = World::new();
    let decisions = Arc::default();
    let mut recipe = recipe(&world, &decisions).await;
    recipe.setup = vec![step(&format!("{FETCH}fetch evil.example.net"))];
    let error = world.images.build(&recipe).await.unwrap_err().to_string();
    assert!(error.contains("it was refused evil.example.net:80"), "{error}");
    assert!(error.contains("egress"), "{error}");
    assert!(world.log().contains("=== refused: evil.example.net:80 (no rule"), "{}", world.log());
    assert!(decisions.lock().unwrap().iter().all(|decision| !decision.allowed));
}

#[tokio::test]
async fn a_layer_is_only_for_environments_where_its_step_meets_the_same() {
    const INSTALL: &str = "mkdir -p deps && cp lock deps/lock";
    let world = World::new();
    let way_out = recipe(&world, &Arc::default()).await.egress.unwrap();
    let allowing = |rules: &[&str]| {
        let rules = protocol::Egress::Allow(rules.iter().map(|rule| (*rule).to_owned()).collect());
        Some(Egress { rules: Rules::parse(&rules).unwrap(), secrets: Vec::new(), ..way_out.clone() })
    };
    let open = Rules::parse(&protocol::Egress::Open).unwrap();
    let with_secret = |host: &str, placeholder: &str| {
        let secrets = vec![token(&world, host).known_as(placeholder.to_owned())];
        Some(Egress { secrets, ..allowing(&["a.test"]).unwrap() })
    };
    let (here, there) = ("registry.example.com", "other.example.com");
    use protocol::StepState::{Built, Cached};
    for (number, (egress, state)) in [
        (Some(Egress { rules: open, secrets: Vec::new(), ..way_out.clone() }), Built),
        (None, Built),
        (None, Cached),
        (allowing(&[]), Built),
        (allowing(&["a.test"]), Built),
        (allowing(&["b.test", "a.test"]), Built),
        (allowing(&["A.test", "b.test", "a.test"]), Cached),
        (with_secret(here, "one"), Built),
        (with_secret(here, "two"), Built),
        (with_secret(there, "one"), Built),
        (with_secret(here, "one"), Cached),
    ]
    .into_iter()
    .enumerate()
    {
        let environment = format!("env{number}");
        let warm = vec![step("cp deps/lock deps/warm")];
        let recipe = Recipe { environment, egress, warm, ..world.recipe_with_lock(INSTALL) };
        world.images.build(&recipe).await.unwrap();
        let steps = world.images.status(&recipe.environment).steps;
        let states: Vec<_> = steps[2..].iter().map(|step| step.state).collect();
        assert_eq!(states, [state, state], "of set-up and warm step, number {number}");
    }
    // Another branch with the same lock file shares the dependencies, and nothing that depends on the commit.
    world.git(&["checkout", "-q", "-b", "release"]);
    let commit = world.commit(&[("main", "release\n")]);
    let bundle = world.images_dir().join("../release.bundle");
    world.git(&["bundle", "create", "-q", bundle.to_str().unwrap(), "refs/heads/release"]);
    let mut recipe = world.recipe_with_lock(INSTALL);
    recipe.repo = sandbox::image::Repo { branch: "release".to_owned(), commit, bundle, ..recipe.repo };
    recipe.warm = vec![step("cp deps/lock deps/warm")];
    world.images.build(&recipe).await.unwrap();
    let states: Vec<_> = world.states().into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, [Cached, Built, Cached, Built]);
}
