//! GitLab's REST API, version 4: merge requests, their notes, people, and the statuses of commits.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::asked::{Asked, Decided};
use super::hooks::Event;
use super::ledger::{Login, PullRequest, Said, Store};
use super::merge::{has, tip};
use super::schema::{self, Field, Is, Wrong};
use super::server::{On, log_of, nothing};

const PAGES: [Field; 2] = [("per_page", Is::Number), ("page", Is::Number)];
const LIST: [Field; 9] = [
    ("state", Is::OneOf(&["opened", "closed", "locked", "merged", "all"])),
    ("source_branch", Is::Text),
    ("target_branch", Is::Text),
    ("order_by", Is::OneOf(&["created_at", "updated_at", "title"])),
    ("sort", Is::OneOf(&["asc", "desc"])),
    ("scope", Is::OneOf(&["created_by_me", "assigned_to_me", "all"])),
    ("author_username", Is::Text),
    PAGES[0],
    PAGES[1],
];
/// What a new merge request and a changed one may both have.
const COMMON: [Field; 9] = [
    ("description", Is::Text),
    ("labels", Is::Text),
    ("assignee_id", Is::Number),
    ("assignee_ids", Is::Numbers),
    ("reviewer_ids", Is::Numbers),
    ("milestone_id", Is::Number),
    ("remove_source_branch", Is::Flag),
    ("squash", Is::Flag),
    ("allow_collaboration", Is::Flag),
];
const DRAFT: [&str; 3] = ["draft:", "[draft]", "(draft)"];

/// What a request asks for.
pub(super) fn on(asked: &Asked<'_>) -> On {
    let parts = asked.parts();
    match (asked.method(), &parts[2..]) {
        ("GET", ["projects", _, "merge_requests"]) => On::LookUp,
        ("POST", ["projects", _, "merge_requests"]) => On::Open,
        (
            "GET",
            ["projects", _, "merge_requests", _] | ["projects", _, "merge_requests", _, "notes"] | ["users"],
        ) => On::Read,
        ("PUT", ["projects", _, "merge_requests", _]) => On::Update,
        (
            "POST",
            ["projects", _, "merge_requests", _, "notes"]
            | ["projects", _, "merge_requests", _, "discussions", _, "notes"],
        ) => On::Comment,
        ("GET", ["projects", _, "jobs", _, "trace"]) => On::Log,
        ("GET", ["user"]) => On::Who,
        ("GET", ["projects", _, "repository", "commits", _, "statuses"]) => On::Checks,
        _ => On::Other,
    }
}

/// Answers a request.
pub(super) fn answer(store: &mut Store, asked: &Asked<'_>) -> Decided {
    let bearer = asked.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let token = asked.header("private-token").or(bearer);
    let Some(login) = token.and_then(|token| store.login(token)).cloned() else {
        return match token {
            None => said(401, "401 Unauthorized"),
            Some(_) => Decided::new(
                401,
                json!({"error": "invalid_token", "error_description": "Token was revoked. You have to re-authorize from the user."}),
            ),
        };
    };
    let parts = asked.parts();
    let done = match (asked.method(), &parts[2..]) {
        ("GET", ["users"]) => users(store, asked),
        ("GET", ["user"]) => Ok(Decided::new(200, json!({"username": login.user, "id": 1}))),
        ("GET", ["projects", "1"]) => match store.moved.values().next() {
            // Where moved ones lead to.
            Some(new) => Ok(Decided::new(
                200,
                json!({"id": 1, "path_with_namespace": new, "web_url": format!("{}/{new}", asked.url)}),
            )),
            None => Ok(said(404, "404 Project Not Found")),
        },
        (method, ["projects", name, rest @ ..]) => {
            if store.moved.contains_key(*name) {
                return match method {
                    "GET" => {
                        Decided::new(301, json!({"message": "This resource has been moved permanently"}))
                            .header("location", format!("{}/api/v4/projects/1/{}", asked.url, rest.join("/")))
                    }
                    _ => said(405, "Non GET methods are not allowed for moved projects"),
                };
            }
            let Some(path) = store.repository(name, &login) else {
                return said(404, "404 Project Not Found");
            };
            store.refresh();
            match (method, rest) {
                ("GET", []) => {
                    let shown = json!({"id": 1, "path_with_namespace": name, "web_url": format!("{}/{name}", asked.url)});
                    Ok(Decided::new(200, shown))
                }
                ("GET", ["merge_requests"]) => list(store, asked, name),
                ("POST", ["merge_requests"]) => create(store, asked, (name, &path), &login),
                ("GET", ["merge_requests", number]) => read(store, asked, name, number),
                ("PUT", ["merge_requests", number]) => edit(store, asked, name, number),
                ("GET", ["merge_requests", number, "notes"]) => notes(store, asked, name, number),
                ("POST", ["merge_requests", number, "notes"]) => {
                    note(store, asked, (name, number), None, &login)
                }
                ("POST", ["merge_requests", number, "discussions", thread, "notes"]) => {
                    note(store, asked, (name, number), Some(thread), &login)
                }
                ("GET", ["jobs", job, "trace"]) => Ok(log_of(store, asked, job)),
                ("GET", ["repository", "commits", commit, "statuses"]) if has(&path, commit) => {
                    statuses(store, asked, name, commit)
                }
                ("GET", ["repository", "commits", _, "statuses"]) => Ok(said(404, "404 Commit Not Found")),
                _ => return nothing(store, asked),
            }
        }
        _ => return nothing(store, asked),
    };
    done.unwrap_or_else(|wrong| {
        store.violation(format!("GitLab does not understand this: {wrong:?}"));
        let error = match wrong {
            Wrong::NotJson => "the body is no JSON".to_owned(),
            Wrong::Missing(name) => format!("{name} is missing"),
            Wrong::Unknown(name) | Wrong::Type(name) => format!("{name} is invalid"),
        };
        Decided::new(400, json!({"error": error}))
    })
}

fn said(status: u16, message: &str) -> Decided {
    Decided::new(status, json!({"message": message}))
}

fn found<'a>(store: &'a mut Store, name: &str, number: &str) -> Result<&'a mut PullRequest, Decided> {
    store.pull(name, number).ok_or_else(|| said(404, "404 Not found"))
}

fn users(store: &mut Store, asked: &Asked<'_>) -> Result<Decided, Wrong> {
    schema::query(asked, &[("username", Is::Text), ("search", Is::Text), PAGES[0], PAGES[1]])?;
    let wanted = asked.queried("username").unwrap_or_default();
    let known = store.people.iter().filter(|name| name.eq_ignore_ascii_case(wanted));
    Ok(Decided::new(200, known.map(|name| user(store, name)).collect()))
}

fn user(store: &Store, name: &str) -> Value {
    json!({"id": store.person(name), "username": name, "state": "active"})
}

fn list(store: &mut Store, asked: &Asked<'_>, name: &str) -> Result<Decided, Wrong> {
    schema::query(asked, &LIST)?;
    let (state, branch) = (asked.queried("state").unwrap_or("all"), asked.queried("source_branch"));
    let wanted = |pull: &&PullRequest| {
        pull.repository == name
            && (state == "all" || state == self::state(pull))
            && branch.is_none_or(|branch| branch == pull.branch)
    };
    let all = store.pull_requests.iter().rev().filter(wanted).map(|pull| shown(pull, asked.url)).collect();
    Ok(Decided::new(200, asked.page(all, "per_page")))
}

fn create(
    store: &mut Store,
    asked: &Asked<'_>,
    (name, path): (&str, &PathBuf),
    login: &Login,
) -> Result<Decided, Wrong> {
    let needed = [("source_branch", Is::Text), ("target_branch", Is::Text), ("title", Is::Text)];
    let mut optional = COMMON.to_vec();
    optional.push(("target_project_id", Is::Number));
    let new = schema::body(asked, &needed, &optional)?;
    let text = |key: &str| schema::text(&new, key).unwrap_or_default();
    if let Some(refused) = too_long(&new) {
        return Ok(refused);
    }
    if store.kept_out.contains(&login.user) {
        return Ok(said(403, "403 Forbidden"));
    }
    if text("source_branch") == text("target_branch") {
        let words = ["You can't use same project/branch for source and target"];
        return Ok(Decided::new(422, json!({"message": words})));
    }
    let commit = tip(path, text("source_branch"));
    for branch in [text("source_branch"), text("target_branch")] {
        if tip(path, branch).is_none() {
            let kind = if branch == text("source_branch") { "Source" } else { "Target" };
            let words = [format!("{kind} branch \"{branch}\" does not exist")];
            return Ok(Decided::new(422, json!({"message": words})));
        }
    }
    let known = store.pull_requests.iter().find(|pull| {
        pull.open
            && pull.repository == name
            && pull.branch == text("source_branch")
            && pull.base == text("target_branch")
    });
    if let Some(known) = known {
        let words =
            [format!("Another open merge request already exists for this source branch: !{}", known.number)];
        return Ok(Decided::new(409, json!({"message": words})));
    }
    let pull = store.add(PullRequest {
        repository: name.to_owned(),
        branch: text("source_branch").to_owned(),
        base: text("target_branch").to_owned(),
        commit: commit.unwrap_or_default(),
        title: text("title").to_owned(),
        body: text("description").to_owned(),
        draft: is_draft(text("title")),
        author: login.user.clone(),
        ..PullRequest::default()
    });
    Ok(Decided::acted(201, shown(&pull, asked.url)))
}

fn is_draft(title: &str) -> bool {
    let title = title.to_lowercase();
    DRAFT.iter().any(|prefix| title.starts_with(prefix))
}

fn too_long(new: &Map<String, Value>) -> Option<Decided> {
    let over = |field: &str, limit: usize| {
        let count = schema::text(new, field).unwrap_or_default().chars().count();
        let words = format!("is too long (maximum is {limit} characters)");
        (count > limit).then(|| Decided::new(400, json!({"message": {field: [words]}})))
    };
    over("title", 255).or_else(|| over("description", 1_048_576))
}

fn read(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    schema::query(asked, &[])?;
    let people = store.people.clone();
    Ok(match found(store, name, number) {
        Ok(pull) => Decided::new(200, with_reviewers(shown(pull, asked.url), pull, &people)),
        Err(refused) => refused,
    })
}

fn with_reviewers(mut shown: Value, pull: &PullRequest, people: &[String]) -> Value {
    let id = |name: &String| people.iter().position(|known| known == name).map(|at| at + 1);
    let reviewers: Vec<Value> =
        pull.reviewers.iter().map(|name| json!({"id": id(name), "username": name})).collect();
    shown["reviewers"] = Value::Array(reviewers);
    shown
}

fn edit(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    let mut optional = COMMON.to_vec();
    optional.extend([
        ("title", Is::Text),
        ("target_branch", Is::Text),
        ("state_event", Is::OneOf(&["close", "reopen"])),
        ("add_labels", Is::Text),
        ("remove_labels", Is::Text),
        ("discussion_locked", Is::Flag),
    ]);
    let new = schema::body(asked, &[], &optional)?;
    if new.is_empty() {
        store.violation("GitLab refuses a change of nothing");
        return Ok(Decided::new(400, json!({"error": "at least one parameter must be provided"})));
    }
    if let Some(refused) = too_long(&new) {
        return Ok(refused);
    }
    let people = store.people.clone();
    let pull = match found(store, name, number) {
        Ok(pull) => pull,
        Err(refused) => return Ok(refused),
    };
    if let Some(title) = schema::text(&new, "title") {
        pull.title = title.to_owned();
        pull.draft = is_draft(title);
    }
    if let Some(body) = schema::text(&new, "description") {
        pull.body = body.to_owned();
    }
    let labels = schema::text(&new, "add_labels").unwrap_or_default();
    for label in labels.split(',').map(str::trim).filter(|label| !label.is_empty()) {
        if !pull.labels.iter().any(|known| known == label) {
            pull.labels.push(label.to_owned());
        }
    }
    if let Some(ids) = new.get("reviewer_ids").and_then(Value::as_array) {
        let person = |id: &Value| {
            let at = usize::try_from(id.as_u64()?).ok()?.checked_sub(1)?;
            people.get(at).cloned()
        };
        pull.reviewers = ids.iter().filter_map(person).collect();
    }
    let closes = schema::text(&new, "state_event") == Some("close") && pull.open;
    if closes {
        pull.open = false;
    }
    let (body, event) = (with_reviewers(shown(pull, asked.url), pull, &people), Event::closed(pull));
    if closes {
        store.events.push(event);
    }
    Ok(Decided::acted(200, body))
}

fn notes(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    let order =
        [("sort", Is::OneOf(&["asc", "desc"])), ("order_by", Is::OneOf(&["created_at", "updated_at"]))];
    schema::query(asked, &[order[0], order[1], PAGES[0], PAGES[1]])?;
    Ok(match found(store, name, number) {
        Ok(pull) => {
            let all = pull.comments.iter().rev().map(shown_note).collect();
            Decided::new(200, asked.page(all, "per_page"))
        }
        Err(refused) => refused,
    })
}

fn note(
    store: &mut Store,
    asked: &Asked<'_>,
    (name, number): (&str, &str),
    thread: Option<&str>,
    login: &Login,
) -> Result<Decided, Wrong> {
    let new =
        schema::body(asked, &[("body", Is::Text)], &[("internal", Is::Flag), ("created_at", Is::Text)])?;
    let text = schema::text(&new, "body").unwrap_or_default().to_owned();
    let pull = match found(store, name, number) {
        Ok(pull) => pull,
        Err(refused) => return Ok(refused),
    };
    let thread = match thread.map(|thread| thread.strip_prefix('d').and_then(|id| id.parse().ok())) {
        Some(Some(id)) if pull.comments.iter().any(|said| said.id == id) => Some(id),
        Some(_) => return Ok(said(404, "404 Discussion Not Found")),
        None => None,
    };
    let body = shown_note(pull.say(&login.user, &text, thread));
    let event = Event::commented(pull);
    store.events.push(event);
    Ok(Decided::acted(201, body))
}

fn statuses(store: &mut Store, asked: &Asked<'_>, name: &str, commit: &str) -> Result<Decided, Wrong> {
    let fields =
        [("ref", Is::Text), ("stage", Is::Text), ("name", Is::Text), ("all", Is::Flag), PAGES[0], PAGES[1]];
    schema::query(asked, &fields)?;
    let of = store.statuses.iter().filter(|known| known.repository == name && known.commit == commit);
    let all = of
        .map(|known| {
            let status = if known.state == "failure" { "failed" } else { &known.state };
            json!({
                "id": 1, "sha": commit, "name": known.name, "status": status, "allow_failure": false,
                "target_url": format!("{}/jobs/1", asked.url),
            })
        })
        .collect();
    Ok(Decided::new(200, asked.page(all, "per_page")))
}

fn shown_note(said: &Said) -> Value {
    json!({"id": said.id, "body": said.text, "author": {"username": said.author}, "system": false})
}

fn state(pull: &PullRequest) -> &'static str {
    match (pull.open, pull.merged) {
        (true, _) => "opened",
        (false, true) => "merged",
        (false, false) => "closed",
    }
}

pub(super) fn shown(pull: &PullRequest, url: &str) -> Value {
    json!({
        "id": 1000 + pull.number,
        "iid": pull.number,
        "project_id": 1,
        "source_project_id": 1,
        "target_project_id": 1,
        "web_url": format!("{url}/{}/-/merge_requests/{}", pull.repository, pull.number),
        "state": state(pull),
        "title": pull.title,
        "description": pull.body,
        "draft": pull.draft,
        "author": {"username": pull.author},
        "labels": pull.labels,
        "reviewers": [],
        "sha": pull.commit,
        "source_branch": pull.branch,
        "target_branch": pull.base,
    })
}
