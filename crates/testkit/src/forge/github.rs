//! GitHub's pull requests: the rules of `GET` and `POST /repos/{owner}/{repo}/pulls`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::ledger::{PullRequest, Store};
use super::server::{Asked, Decided};

/// Keys that a new pull request may have.
const KEYS: [&str; 8] =
    ["title", "head", "head_repo", "base", "body", "maintainer_can_modify", "draft", "issue"];

/// Whether this is where pull requests are.
pub(super) fn is_pulls(path: &str) -> bool {
    repository(path).is_some()
}

/// `owner/name` in a path.
fn repository(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/api/repos/")?.strip_suffix("/pulls")?;
    let (owner, name) = rest.split_once('/')?;
    (!owner.is_empty() && !name.is_empty() && !name.contains('/')).then(|| rest.to_owned())
}

/// What is wrong with a request before it is looked at: who asks, and how.
fn refuse<'a>(store: &mut Store, asked: &Asked<'a>) -> Result<(String, std::path::PathBuf), Decided> {
    let mut missing = Vec::new();
    if asked.header("accept") != Some("application/vnd.github+json") {
        missing.push("accept: application/vnd.github+json");
    }
    if asked.header("x-github-api-version") != Some("2022-11-28") {
        missing.push("x-github-api-version: 2022-11-28");
    }
    if asked.header("user-agent").is_none_or(str::is_empty) {
        missing.push("user-agent");
    }
    if !missing.is_empty() {
        store.violations.push(format!("headers that are wrong or missing: {}", missing.join(", ")));
        return Err(Decided::new(403, json!({"message": "Request forbidden by administrative rules."})));
    }
    let bearer = asked.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    if bearer != Some(asked.token) {
        return Err(Decided::new(401, json!({"message": "Bad credentials", "status": "401"})));
    }
    let name = repository(asked.head.uri.path()).unwrap_or_default();
    match store.repositories.get(&name) {
        Some(path) => Ok((name, path.clone())),
        None => Err(Decided::new(404, json!({"message": "Not Found", "status": "404"}))),
    }
}

/// Lists pull requests.
pub(super) fn look_up(store: &mut Store, asked: &Asked<'_>) -> Decided {
    let (name, path) = match refuse(store, asked) {
        Ok(found) => found,
        Err(refused) => return refused,
    };
    let (mut state, mut head) = ("open".to_owned(), None);
    for (key, value) in pairs(asked.head.uri.query().unwrap_or_default()) {
        let valid = match key.as_str() {
            "state" => ["open", "closed", "all"].contains(&value.as_str()),
            "head" => {
                value.split_once(':').is_some_and(|(owner, branch)| !owner.is_empty() && !branch.is_empty())
            }
            "sort" => ["created", "updated", "popularity", "long-running"].contains(&value.as_str()),
            "direction" => ["asc", "desc"].contains(&value.as_str()),
            "per_page" => value.parse::<u32>().is_ok_and(|count| (1..=100).contains(&count)),
            "page" => value.parse::<u32>().is_ok_and(|page| page >= 1),
            "base" => !value.is_empty(),
            _ => false,
        };
        if !valid {
            store.violations.push(format!("the query {key}={value} means nothing"));
            return Decided::new(422, json!({"message": "Validation Failed", "errors": []}));
        }
        match key.as_str() {
            "state" => state = value,
            "head" => head = Some(value),
            _ => {}
        }
    }
    let owner = name.split('/').next().unwrap_or_default().to_owned();
    let url = asked.url.to_owned();
    let mut found: Vec<Value> = Vec::new();
    for pull in store.pull_requests.iter_mut().rev().filter(|pull| pull.repository == name) {
        if pull.open
            && let Some(tip) = tip(&path, &pull.branch)
        {
            pull.commit = tip;
        }
        let wanted = match state.as_str() {
            "open" => pull.open,
            "closed" => !pull.open,
            _ => true,
        };
        if wanted && head.as_ref().is_none_or(|head| *head == format!("{owner}:{}", pull.branch)) {
            found.push(shown(pull, &url));
        }
    }
    Decided::new(200, Value::Array(found))
}

/// Opens a pull request.
pub(super) fn open(store: &mut Store, asked: &Asked<'_>) -> Decided {
    let (name, path) = match refuse(store, asked) {
        Ok(found) => found,
        Err(refused) => return refused,
    };
    let body: Value = serde_json::from_slice(asked.body).unwrap_or_default();
    let is_json = asked.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    let Some(object) = body.as_object().filter(|_| is_json) else {
        store.violations.push("the body of a new pull request is no JSON object".to_owned());
        return Decided::new(400, json!({"message": "Problems parsing JSON"}));
    };
    let unknown: Vec<&String> = object.keys().filter(|key| !KEYS.contains(&key.as_str())).collect();
    let text = |key: &str| body.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (Some(title), Some(head), Some(base), []) = (text("title"), text("head"), text("base"), &unknown[..])
    else {
        store.violations.push(format!("a new pull request lacks a key, or has {unknown:?}: {body}"));
        return Decided::new(422, json!({"message": "Invalid request."}));
    };
    let owner = name.split('/').next().unwrap_or_default();
    let branch = head.strip_prefix(&format!("{owner}:")).unwrap_or(head);
    let invalid = |field: &str| {
        let error = json!({"resource": "PullRequest", "field": field, "code": "invalid"});
        Decided::new(422, json!({"message": "Validation Failed", "errors": [error]}))
    };
    let custom = |message: String| {
        let error = json!({"resource": "PullRequest", "code": "custom", "message": message});
        Decided::new(422, json!({"message": "Validation Failed", "errors": [error]}))
    };
    let Some(commit) = tip(&path, branch) else { return invalid("head") };
    let Some(base_commit) = tip(&path, base) else { return invalid("base") };
    if title.chars().count() > 256 || text("body").is_some_and(|body| body.chars().count() > 65_536) {
        return custom("title or body is too long".to_owned());
    }
    if is_ancestor(&path, &commit, &base_commit) {
        return custom(format!("No commits between {base} and {branch}"));
    }
    let known = |pull: &PullRequest| {
        pull.open && pull.repository == name && pull.branch == branch && pull.base == base
    };
    if store.pull_requests.iter().any(known) {
        return custom(format!("A pull request already exists for {owner}:{branch}."));
    }
    let pull = PullRequest {
        number: store.pull_requests.len() as u64 + 1,
        repository: name.clone(),
        branch: branch.to_owned(),
        base: base.to_owned(),
        commit,
        title: title.to_owned(),
        body: text("body").unwrap_or_default().to_owned(),
        open: true,
    };
    let body = shown(&pull, asked.url);
    store.pull_requests.push(pull);
    Decided { status: 201, body, acted: true }
}

fn shown(pull: &PullRequest, url: &str) -> Value {
    let owner = pull.repository.split('/').next().unwrap_or_default();
    json!({
        "number": pull.number,
        "html_url": format!("{url}/{}/pull/{}", pull.repository, pull.number),
        "state": if pull.open { "open" } else { "closed" },
        "title": pull.title,
        "body": pull.body,
        "draft": false,
        "head": {"label": format!("{owner}:{}", pull.branch), "ref": pull.branch, "sha": pull.commit},
        "base": {"label": format!("{owner}:{}", pull.base), "ref": pull.base},
    })
}

fn tip(repository: &Path, branch: &str) -> Option<String> {
    let name = format!("refs/heads/{branch}^0");
    let output = git(repository).args(["rev-parse", "--verify", "--quiet", &name]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn is_ancestor(repository: &Path, old: &str, new: &str) -> bool {
    let status = git(repository).args(["merge-base", "--is-ancestor", old, new]).status();
    status.is_ok_and(|status| status.success())
}

fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(repository).stdin(Stdio::null()).stderr(Stdio::null());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

/// The pairs of a query.
fn pairs(query: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (decode(key), decode(value))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
