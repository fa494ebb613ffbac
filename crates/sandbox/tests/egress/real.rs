//! The same with a real sandbox: its kernel leads connections, names and datagrams here, and remembers where they were to go.

use std::sync::Arc;
use std::time::Duration;

use guest::{Output, ProcessSpec};
use protocol::Egress;
use sandbox::egress::{Decision, Proxy, Rules};
use sandbox::native::Native;
use sandbox::{Driver, Life, Network, Owner, Sandbox, Spec, Stack};

use crate::world::{Fake, http_server, public};

async fn bash(sandbox: &dyn Sandbox, id: &str, script: &str) -> String {
    let argv = ["/bin/bash", "-c", script].map(str::to_owned).into();
    let mut process = sandbox.guest().start(id, &ProcessSpec { argv, ..Default::default() }).await.unwrap();
    let mut text = Vec::new();
    loop {
        match process.next().await.unwrap() {
            Some(Output::Stdout { data, .. } | Output::Stderr { data, .. }) => text.extend_from_slice(&data),
            Some(Output::Exit(_)) | None => return String::from_utf8_lossy(&text).into_owned(),
        }
    }
}

async fn decided(
    decisions: &mut tokio::sync::watch::Receiver<Vec<Decision>>,
    like: impl Fn(&Decision) -> bool,
) -> Decision {
    let waiting = decisions.wait_for(|all| all.iter().any(&like));
    let all = tokio::time::timeout(Duration::from_secs(10), waiting)
        .await
        .expect("no such decision")
        .unwrap()
        .clone();
    all.into_iter().find(like).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_in_a_sandbox_reach_what_is_allowed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let driver = Native::open(dir.path()).unwrap();
    let spec = Spec { network: Network::Egress, ..Spec::new(Stack::host(), Life::Tied, Owner::OneOff) };
    let sandbox = driver.create(&spec).await.unwrap();
    let sockets = sandbox.sockets().await.unwrap().unwrap();
    let redirects = sockets.transparent.is_some();
    let ipv6 = sockets.ipv6.is_some();
    let outside = Arc::new(Fake::new());
    outside.names.lock().unwrap().insert("api.test".to_owned(), [vec![public(1)]].into());
    let server = http_server().await;
    outside.routes.lock().unwrap().insert((public(1), 80).into(), server);
    let (sender, mut decisions) = tokio::sync::watch::channel(Vec::new());
    let rules = Rules::parse(&Egress::Allow(vec!["api.test".to_owned()])).unwrap();
    let sink = Arc::new(move |decision| sender.send_modify(|all: &mut Vec<Decision>| all.push(decision)));
    let proxy = Proxy::start(sockets, rules, outside.clone(), sink).unwrap();

    let ask =
        "printf 'GET %s HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\n\\r\\n' \"$1\" >&3; cat <&3";
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/3128; set -- http://api.test/by-proxy; {ask}");
    let answer = bash(&*sandbox, "proxy", &script).await;
    assert!(answer.contains("GET /by-proxy\n"), "{answer}");
    // A question that comes over a connection: its length, and then as in a datagram.
    let question =
        r"\x00\x1a\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03api\x04test\x00\x00\x01\x00\x01";
    for server in ["127.0.0.1", "198.51.100.1"].into_iter().take(if redirects { 2 } else { 1 }) {
        let script = format!(
            "exec 3<>/dev/tcp/{server}/53; printf '{question}' >&3; head -c 44 <&3 | od -An -v -tx1 | tr -d ' \\n'"
        );
        let answer = bash(&*sandbox, &format!("ask-{server}"), &script).await;
        assert!(answer.starts_with("002a0007") && answer.ends_with("0004cb007101"), "{server}: {answer}");
    }
    if redirects {
        let script = format!("exec 3<>/dev/tcp/api.test/80; set -- /by-name; {ask}");
        let answer = bash(&*sandbox, "name", &script).await;
        assert!(answer.contains("GET /by-name\n"), "{answer}");
        for (n, address) in ["10.0.0.1", "169.254.169.254", "203.0.113.77"].into_iter().enumerate() {
            let script = format!("exec 3<>/dev/tcp/{address}/80 && set -- / && {ask}");
            let answer = bash(&*sandbox, &format!("refused{n}"), &script).await;
            assert!(!answer.contains("HTTP/1.1 200"), "{answer}");
            let host = if n == 2 { "api.test" } else { address };
            let told = decided(&mut decisions, |d| !d.allowed && d.host == host).await;
            assert_eq!(told.port, 80);
        }
        let answer = bash(&*sandbox, "unknown", "exec 3<>/dev/tcp/evil.test/80").await;
        assert!(answer.contains("evil.test"), "{answer}");
        decided(&mut decisions, |d| !d.allowed && d.host == "evil.test" && d.port == 53).await;
        bash(&*sandbox, "datagram", "echo x > /dev/udp/203.0.113.9/9999").await;
        let told = decided(&mut decisions, |d| d.rule == "UDP is not let out").await;
        assert_eq!((told.host.as_str(), told.port, told.allowed), ("203.0.113.9", 9999, false));
        // Asked for by name, it is told by name.
        bash(&*sandbox, "named", "echo x > /dev/udp/api.test/443").await;
        let told = decided(&mut decisions, |d| d.rule == "UDP is not let out" && d.port == 443).await;
        assert_eq!((told.host.as_str(), told.allowed), ("api.test", false));
    }
    if ipv6 {
        // Whoever has an address of IPv6 is decided on as anybody else, and so is whoever asks for names that way.
        bash(&*sandbox, "six", "exec 3<>/dev/tcp/2001:db8::5/443 && echo hello >&3 && cat <&3").await;
        let told = decided(&mut decisions, |d| d.host == "2001:db8::5").await;
        assert_eq!((told.port, told.allowed), (443, false));
        bash(&*sandbox, "six-datagram", "echo x > /dev/udp/2001:db8::6/9999").await;
        let told = decided(&mut decisions, |d| d.host == "2001:db8::6").await;
        assert_eq!((told.port, told.rule.as_str()), (9999, "UDP is not let out"));
        let question = r"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03six\x04test\x00\x00\x01\x00\x01";
        bash(&*sandbox, "six-name", &format!("printf '{question}' > /dev/udp/2001:db8::7/53")).await;
        let told = decided(&mut decisions, |d| d.host == "six.test").await;
        assert_eq!((told.port, told.allowed), (53, false));
        let own = "python3 -c 'import socket as s; l = s.create_server((\"::1\", 0), family=s.AF_INET6); \
                   c = s.create_connection(l.getsockname()[:2]); print(l.accept()[1][0])'";
        assert_eq!(bash(&*sandbox, "six-itself", own).await, "::1\n", "loopback is its own");
    } else {
        println!("skipped: this kernel cannot redirect IPv6");
    }
    drop(proxy);
    drop(sandbox);
    driver.remove(spec.id).await.unwrap();
}
