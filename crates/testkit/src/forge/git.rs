//! Git over HTTP, by git's own server program. Whoever comes without a good token is asked for one, as the forges do for
//! private repositories; a token is the password of HTTP's basic scheme.

use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::asked::{Asked, Decided};
use super::ledger::Store;
use super::server::{On, lock};

/// What of git a request asks for.
pub(super) fn on(asked: &Asked<'_>) -> Option<On> {
    let parts = asked.parts();
    let at = parts.iter().position(|part| part.ends_with(".git"))?;
    if at == 0 || parts.len() == at + 1 {
        return None;
    }
    if super::large::is_here(asked) {
        return Some(On::Large);
    }
    let pushes =
        asked.queried("service") == Some("git-receive-pack") || parts.last() == Some(&"git-receive-pack");
    Some(if pushes { On::Push } else { On::Fetch })
}

/// Serves it.
pub(super) async fn serve(store: &Mutex<Store>, root: &Path, asked: &Asked<'_>) -> Decided {
    if let Some(decided) = super::large::store(store, asked) {
        return decided;
    }
    let path = asked.head.uri.path();
    let name = path.split(".git/").next().unwrap_or_default().trim_start_matches('/').to_owned();
    let (user, repository) = {
        let store = lock(store);
        let login = password(asked).and_then(|token| store.login(&token).cloned());
        let Some(login) = login else {
            return Decided::new(401, json!({"message": "Authentication required"}))
                .header("www-authenticate", "Basic realm=\"forge\"");
        };
        if let Some(new) = store.moved.get(&name) {
            let rest = path.split_once(".git/").map_or("", |(_, rest)| rest);
            let query = asked.head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            return Decided::new(301, json!({}))
                .header("location", format!("{}/{new}.git/{rest}{query}", asked.url));
        }
        let Some(repository) = store.repository(&name, &login) else {
            return Decided::new(404, json!({"message": "Not Found"}));
        };
        (login.user, repository)
    };
    if super::large::is_here(asked) {
        return super::large::answer(store, &repository, &name, asked);
    }
    match backend(root, asked, &user).await {
        Ok(decided) => {
            lock(store).refresh();
            decided
        }
        Err(error) => {
            lock(store).violation(format!("git http-backend failed: {error}"));
            Decided::new(500, json!({"message": "git http-backend failed"}))
        }
    }
}

fn password(asked: &Asked<'_>) -> Option<String> {
    let basic = asked.header("authorization")?.strip_prefix("Basic ")?;
    let pair = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
    let (user, password) = pair.split_once(':')?;
    (!user.is_empty()).then(|| password.to_owned())
}

async fn backend(root: &Path, asked: &Asked<'_>, user: &str) -> std::io::Result<Decided> {
    let mut command = Command::new("git");
    command
        .args(["-c", "safe.directory=*", "http-backend"])
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("PATH_INFO", asked.head.uri.path())
        .env("QUERY_STRING", asked.head.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", asked.method())
        .env("CONTENT_TYPE", asked.header("content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", asked.body.len().to_string())
        .env("REMOTE_USER", user)
        .env("REMOTE_ADDR", "127.0.0.1");
    for (name, header) in [("HTTP_CONTENT_ENCODING", "content-encoding"), ("GIT_PROTOCOL", "git-protocol")] {
        if let Some(value) = asked.header(header) {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().ok_or_else(|| std::io::Error::other("no input"))?;
    let feed = async {
        // It may rightly end before it has read everything.
        drop(stdin.write_all(asked.body).await);
        drop(stdin);
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    let output = output?.stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end else { return Err(std::io::Error::other("it gave no headers")) };
    let mut decided = Decided::new(200, json!({}));
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("status") => {
                decided.status = value.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(500);
            }
            Some((name, value)) => decided = decided.header(&name.to_ascii_lowercase(), value),
            None => {}
        }
    }
    decided.raw = Some(output[end + 4..].to_vec());
    decided.acted = asked.path.last().is_some_and(|part| part == "git-receive-pack");
    Ok(decided)
}
