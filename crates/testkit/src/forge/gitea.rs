//! Gitea's REST API, version 1, which Forgejo shares: pull requests, comments, labels, and the status of commits.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::asked::{Asked, Decided};
use super::hooks::Event;
use super::ledger::{Login, PullRequest, Said, Store};
use super::merge::{has, tip};
use super::schema::{self, Field, Is, Wrong};
use super::server::{On, log_of, nothing};

const PAGES: [Field; 2] = [("limit", Is::Number), ("page", Is::Number)];
const LIST: [Field; 7] = [
    ("state", Is::OneOf(&["open", "closed", "all"])),
    (
        "sort",
        Is::OneOf(&[
            "oldest",
            "recentupdate",
            "recentclose",
            "leastupdate",
            "mostcomment",
            "leastcomment",
            "priority",
        ]),
    ),
    ("milestone", Is::Number),
    ("poster", Is::Text),
    ("base_branch", Is::Text),
    PAGES[0],
    PAGES[1],
];
/// What a new pull request and a changed one may both have.
const COMMON: [Field; 6] = [
    ("body", Is::Text),
    ("assignee", Is::Text),
    ("assignees", Is::Texts),
    ("labels", Is::Numbers),
    ("milestone", Is::Number),
    ("due_date", Is::Text),
];

/// What a request asks for.
pub(super) fn on(asked: &Asked<'_>) -> On {
    let parts = asked.parts();
    match (asked.method(), &parts[2..]) {
        ("POST", ["repos", _, _, "pulls", _, "requested_reviewers"])
        | ("POST", ["repos", _, _, "issues", _, "labels"])
        | ("POST", ["repos", _, _, "labels"]) => On::Mark,
        (
            "GET",
            ["repos", _, _, "pulls", _]
            | ["repos", _, _, "issues", _, "comments"]
            | ["repos", _, _, "labels"],
        ) => On::Read,
        ("GET", ["repos", _, _, "pulls", ..]) => On::LookUp,
        ("POST", ["repos", _, _, "pulls"]) => On::Open,
        ("PATCH", ["repos", _, _, "pulls", _]) => On::Update,
        ("POST", ["repos", _, _, "issues", _, "comments"]) => On::Comment,
        ("GET", ["repos", _, _, "commits", _, "status"]) => On::Checks,
        ("GET", ["repos", _, _, "actions", "jobs", _, "logs"]) => On::Log,
        ("GET", ["user"]) => On::Who,
        _ => On::Other,
    }
}

/// Answers a request.
pub(super) fn answer(store: &mut Store, asked: &Asked<'_>) -> Decided {
    let header = asked.header("authorization").unwrap_or_default();
    let token = header.strip_prefix("token ").or_else(|| header.strip_prefix("Bearer "));
    let Some(login) = token.and_then(|token| store.login(token)).cloned() else {
        return said(asked, 401, "user does not exist [uid: 0, name: ]");
    };
    let parts = asked.parts();
    if let ("GET", ["user"]) = (asked.method(), &parts[2..]) {
        return Decided::new(200, json!({"login": login.user, "id": 1}));
    }
    let ["repos", owner, repo, rest @ ..] = &parts[2..] else { return nothing(store, asked) };
    let name = format!("{owner}/{repo}");
    if let Some(new) = store.moved.get(&name) {
        let place = format!("/api/v1/repos/{new}/{}", rest.join("/"));
        return Decided::new(301, Value::Null).header("location", place);
    }
    let Some(path) = store.repository(&name, &login) else {
        return said(asked, 404, "The target couldn't be found.");
    };
    store.refresh();
    let done = match (asked.method(), rest) {
        ("GET", [] | [""]) => Ok(Decided::new(
            200,
            json!({"id": 1, "full_name": name, "html_url": format!("{}/{name}", asked.url)}),
        )),
        ("GET", ["pulls"]) => list(store, asked, &name),
        ("GET", ["actions", "jobs", job, "logs"]) => Ok(log_of(store, asked, job)),
        ("POST", ["pulls"]) => create(store, asked, (&name, &path), &login),
        ("GET", ["pulls", number]) => read(store, asked, &name, number),
        ("PATCH", ["pulls", number]) => edit(store, asked, &name, number),
        ("POST", ["pulls", number, "requested_reviewers"]) => review(store, asked, &name, number),
        ("GET", ["pulls", base, head @ ..]) => by_branches(store, asked, &name, (base, &head.join("/"))),
        ("GET", ["labels"]) => labels(store, asked),
        ("POST", ["labels"]) => new_label(store, asked),
        ("POST", ["issues", number, "labels"]) => label(store, asked, &name, number),
        ("GET", ["issues", number, "comments"]) => comments(store, asked, &name, number),
        ("POST", ["issues", number, "comments"]) => comment(store, asked, (&name, number), &login),
        ("GET", ["commits", commit, "status"]) if has(&path, commit) => status(store, asked, &name, commit),
        ("GET", ["commits", _, "status"]) => Ok(said(asked, 404, "The target couldn't be found.")),
        _ => return nothing(store, asked),
    };
    done.unwrap_or_else(|wrong| {
        store.violation(format!("Gitea does not understand this: {wrong:?}"));
        match wrong {
            Wrong::NotJson => said(asked, 422, "the body is no JSON"),
            Wrong::Missing(name) => said(asked, 422, &format!("[{name}]: Required")),
            Wrong::Unknown(name) => said(asked, 422, &format!("[{name}]: Unknown")),
            Wrong::Type(name) => said(asked, 422, &format!("json: cannot unmarshal {name}")),
        }
    })
}

fn said(asked: &Asked<'_>, status: u16, message: &str) -> Decided {
    Decided::new(status, json!({"message": message, "url": format!("{}/api/swagger", asked.url)}))
}

fn found<'a>(
    store: &'a mut Store,
    asked: &Asked<'_>,
    name: &str,
    number: &str,
) -> Result<&'a mut PullRequest, Decided> {
    store.pull(name, number).ok_or_else(|| said(asked, 404, "The target couldn't be found."))
}

fn list(store: &mut Store, asked: &Asked<'_>, name: &str) -> Result<Decided, Wrong> {
    schema::query(asked, &LIST)?;
    let state = asked.queried("state").unwrap_or("open");
    let wanted =
        |pull: &&PullRequest| pull.repository == name && (state == "all" || pull.open == (state == "open"));
    let all = store.pull_requests.iter().rev().filter(wanted).map(|pull| shown(pull, asked.url)).collect();
    Ok(Decided::new(200, asked.page(all, "limit")))
}

fn by_branches(
    store: &mut Store,
    asked: &Asked<'_>,
    name: &str,
    (base, head): (&str, &str),
) -> Result<Decided, Wrong> {
    schema::query(asked, &[])?;
    let open = store
        .pull_requests
        .iter()
        .find(|pull| pull.open && pull.repository == name && pull.base == base && pull.branch == head);
    Ok(match open {
        Some(pull) => Decided::new(200, shown(pull, asked.url)),
        None => said(asked, 404, "The target couldn't be found."),
    })
}

fn create(
    store: &mut Store,
    asked: &Asked<'_>,
    (name, path): (&str, &PathBuf),
    login: &Login,
) -> Result<Decided, Wrong> {
    let mut optional = COMMON.to_vec();
    optional.extend([
        ("reviewers", Is::Texts),
        ("team_reviewers", Is::Texts),
        ("allow_maintainer_edit", Is::Flag),
    ]);
    let new = schema::body(asked, &[("title", Is::Text), ("head", Is::Text), ("base", Is::Text)], &optional)?;
    let text = |key: &str| schema::text(&new, key).unwrap_or_default();
    if store.kept_out.contains(&login.user) {
        return Ok(said(asked, 403, "user should have permission to write code"));
    }
    if text("head") == text("base") {
        return Ok(said(
            asked,
            422,
            "Invalid PullRequest: There are no changes between the head and the base",
        ));
    }
    if let Some(refused) = too_long(asked, &new) {
        return Ok(refused);
    }
    let (Some(commit), Some(_)) = (tip(path, text("head")), tip(path, text("base"))) else {
        return Ok(said(asked, 404, "The target couldn't be found."));
    };
    let known = store.pull_requests.iter().find(|pull| {
        pull.open && pull.repository == name && pull.branch == text("head") && pull.base == text("base")
    });
    if let Some(known) = known {
        let words = format!(
            "pull request already exists for these targets [id: {}, issue_id: {}, head_repo_id: 1, base_repo_id: 1, \
             head_branch: {}, base_branch: {}]",
            known.number, known.number, known.branch, known.base
        );
        return Ok(said(asked, 409, &words));
    }
    let pull = store.add(PullRequest {
        repository: name.to_owned(),
        branch: text("head").to_owned(),
        base: text("base").to_owned(),
        commit,
        title: text("title").to_owned(),
        body: text("body").to_owned(),
        draft: is_draft(text("title")),
        author: login.user.clone(),
        ..PullRequest::default()
    });
    Ok(Decided::acted(201, shown(&pull, asked.url)))
}

fn is_draft(title: &str) -> bool {
    let title = title.to_uppercase();
    title.starts_with("WIP:") || title.starts_with("[WIP]")
}

fn too_long(asked: &Asked<'_>, new: &Map<String, Value>) -> Option<Decided> {
    let count = schema::text(new, "title").unwrap_or_default().chars().count();
    (count > 255).then(|| said(asked, 422, "[Title]: MaxSize"))
}

fn read(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    schema::query(asked, &[])?;
    Ok(match found(store, asked, name, number) {
        Ok(pull) => Decided::new(200, shown(pull, asked.url)),
        Err(refused) => refused,
    })
}

fn edit(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    let mut optional = COMMON.to_vec();
    optional.extend([
        ("title", Is::Text),
        ("base", Is::Text),
        ("state", Is::OneOf(&["open", "closed"])),
        ("unset_due_date", Is::Flag),
        ("allow_maintainer_edit", Is::Flag),
        ("content_version", Is::Number),
    ]);
    let new = schema::body(asked, &[], &optional)?;
    if let Some(refused) = too_long(asked, &new) {
        return Ok(refused);
    }
    let pull = match found(store, asked, name, number) {
        Ok(pull) => pull,
        Err(refused) => return Ok(refused),
    };
    if new.contains_key("state") && pull.merged {
        let words = "cannot change state of this pull request, it was already merged";
        return Ok(said(asked, 412, words));
    }
    if let Some(title) = schema::text(&new, "title").filter(|title| !title.is_empty()) {
        pull.title = title.to_owned();
        pull.draft = is_draft(title);
    }
    if let Some(body) = schema::text(&new, "body") {
        pull.body = body.to_owned();
    }
    let closes = schema::text(&new, "state") == Some("closed") && pull.open;
    if closes {
        pull.open = false;
    }
    let (body, event) = (shown(pull, asked.url), Event::closed(pull));
    if closes {
        store.events.push(event);
    }
    Ok(Decided::acted(201, body))
}

fn review(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    let fields = [("reviewers", Is::Texts), ("team_reviewers", Is::Texts)];
    let reviewers = schema::texts(&schema::body(asked, &[], &fields)?, "reviewers");
    let unknown = reviewers.iter().find(|name| store.person(name).is_none()).cloned();
    let pull = match found(store, asked, name, number) {
        Ok(pull) => pull,
        Err(refused) => return Ok(refused),
    };
    if let Some(unknown) = unknown {
        return Ok(said(asked, 404, &format!("user does not exist [uid: 0, name: {unknown}]")));
    }
    if reviewers.contains(&pull.author) {
        return Ok(said(asked, 422, "poster of pr can't be reviewer [user_id: 1, repo_id: 1]"));
    }
    let new: Vec<String> = reviewers.into_iter().filter(|name| !pull.reviewers.contains(name)).collect();
    let shown: Vec<Value> =
        new.iter().map(|name| json!({"id": 1, "state": "REQUEST_REVIEW", "user": {"login": name}})).collect();
    pull.reviewers.extend(new);
    Ok(Decided::acted(201, Value::Array(shown)))
}

fn labels(store: &mut Store, asked: &Asked<'_>) -> Result<Decided, Wrong> {
    schema::query(asked, &PAGES)?;
    let all = store.labels.iter().enumerate().map(|(at, name)| shown_label(at + 1, name)).collect();
    Ok(Decided::new(200, asked.page(all, "limit")))
}

fn new_label(store: &mut Store, asked: &Asked<'_>) -> Result<Decided, Wrong> {
    let optional = [("description", Is::Text), ("exclusive", Is::Flag), ("is_archived", Is::Flag)];
    let new = schema::body(asked, &[("name", Is::Text), ("color", Is::Text)], &optional)?;
    let name = schema::text(&new, "name").unwrap_or_default().to_owned();
    if !schema::text(&new, "color").is_some_and(|color| color.starts_with('#') && color.len() == 7) {
        return Err(Wrong::Type("color".to_owned()));
    }
    let id = store.label(&name);
    Ok(Decided::acted(201, shown_label(id, &name)))
}

fn shown_label(id: usize, name: &str) -> Value {
    json!({"id": id, "name": name, "color": "ededed", "description": ""})
}

fn label(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    let new = schema::body(asked, &[], &[("labels", Is::Numbers)])?;
    let ids = new.get("labels").and_then(Value::as_array).cloned().unwrap_or_default();
    let known = store.labels.clone();
    let named = |id: &Value| known.get(usize::try_from(id.as_u64()?).ok()?.checked_sub(1)?).cloned();
    let wanted: Vec<String> = ids.iter().filter_map(named).collect();
    Ok(match found(store, asked, name, number) {
        Ok(pull) => {
            let new: Vec<String> = wanted.into_iter().filter(|label| !pull.labels.contains(label)).collect();
            pull.labels.extend(new);
            let shown: Vec<Value> = pull.labels.iter().map(|label| shown_label(1, label)).collect();
            Decided::acted(200, Value::Array(shown))
        }
        Err(refused) => refused,
    })
}

fn comments(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    schema::query(asked, &[("since", Is::Text), ("before", Is::Text)])?;
    Ok(match found(store, asked, name, number) {
        Ok(pull) => Decided::new(200, pull.comments.iter().map(shown_comment).collect()),
        Err(refused) => refused,
    })
}

fn comment(
    store: &mut Store,
    asked: &Asked<'_>,
    (name, number): (&str, &str),
    login: &Login,
) -> Result<Decided, Wrong> {
    let new = schema::body(asked, &[("body", Is::Text)], &[("updated_at", Is::Text)])?;
    let text = schema::text(&new, "body").unwrap_or_default().to_owned();
    let pull = match found(store, asked, name, number) {
        Ok(pull) => pull,
        Err(refused) => return Ok(refused),
    };
    let body = shown_comment(pull.say(&login.user, &text, None));
    let event = Event::commented(pull);
    store.events.push(event);
    Ok(Decided::acted(201, body))
}

fn shown_comment(said: &Said) -> Value {
    json!({"id": 1, "body": said.text, "user": {"login": said.author}})
}

fn status(store: &mut Store, asked: &Asked<'_>, name: &str, commit: &str) -> Result<Decided, Wrong> {
    schema::query(asked, &PAGES)?;
    let of = store.statuses.iter().filter(|known| known.repository == name && known.commit == commit);
    let statuses: Vec<Value> = of
        .map(|known| json!({"id": 1, "context": known.name, "status": known.state, "target_url": "", "description": ""}))
        .collect();
    // The count is that of the page, and a page of none is null.
    let page = asked.page(statuses, "limit");
    let count = page.as_array().map_or(0, Vec::len);
    let statuses = if count == 0 { Value::Null } else { page };
    Ok(Decided::new(200, json!({"state": "", "sha": commit, "total_count": count, "statuses": statuses})))
}

pub(super) fn shown(pull: &PullRequest, url: &str) -> Value {
    let labels: Vec<Value> = pull.labels.iter().map(|label| shown_label(1, label)).collect();
    json!({
        "number": pull.number,
        "html_url": format!("{url}/{}/pulls/{}", pull.repository, pull.number),
        "state": if pull.open { "open" } else { "closed" },
        "merged": pull.merged,
        "title": pull.title,
        "body": pull.body,
        "draft": pull.draft,
        "user": {"login": pull.author},
        "labels": labels,
        "head": {"label": pull.branch, "ref": pull.branch, "sha": pull.commit, "repo_id": 1},
        "base": {"label": pull.base, "ref": pull.base, "sha": "", "repo_id": 1},
    })
}
