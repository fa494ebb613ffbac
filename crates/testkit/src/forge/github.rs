//! GitHub's REST API, and the two mutations of its GraphQL that make a draft and end it.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::app;
use super::asked::{Asked, Decided};
use super::hooks::Event;
use super::ledger::{Login, PullRequest, Said, Store};
use super::merge::{has, is_ancestor, tip};
use super::schema::{self, Field, Is, Wrong};
use super::server::{On, nothing};

const PAGES: [Field; 2] = [("per_page", Is::Number), ("page", Is::Number)];
const LIST: [Field; 7] = [
    ("state", Is::OneOf(&["open", "closed", "all"])),
    ("head", Is::Text),
    ("base", Is::Text),
    ("sort", Is::OneOf(&["created", "updated", "popularity", "long-running"])),
    ("direction", Is::OneOf(&["asc", "desc"])),
    PAGES[0],
    PAGES[1],
];

/// What a request asks for.
pub(super) fn on(asked: &Asked<'_>) -> On {
    let parts = asked.parts();
    match (asked.method(), &parts[1..]) {
        ("POST", ["graphql"]) => On::Update,
        ("GET", ["v3", "repos", _, _, "pulls"]) => On::LookUp,
        ("POST", ["v3", "repos", _, _, "pulls"]) => On::Open,
        (
            "GET",
            ["v3", "repos", _, _]
            | ["v3", "repositories", _]
            | ["v3", "repos", _, _, "pulls", _]
            | ["v3", "repos", _, _, "issues" | "pulls", _, "comments"],
        ) => On::Read,
        ("PATCH", ["v3", "repos", _, _, "pulls", _]) => On::Update,
        ("POST", ["v3", "repos", _, _, "pulls", _, "requested_reviewers"])
        | ("POST", ["v3", "repos", _, _, "issues", _, "labels"]) => On::Mark,
        (
            "POST",
            ["v3", "repos", _, _, "issues", _, "comments"]
            | ["v3", "repos", _, _, "pulls", _, "comments", _, "replies"],
        ) => On::Comment,
        ("GET", ["v3", "repos", _, _, "actions", "jobs", _, "logs"]) => On::Log,
        ("GET", ["v3", "user"]) => On::Who,
        ("GET", ["v3", "repos", _, _, "commits", _, "check-runs" | "status"]) => On::Checks,
        ("GET", ["v3", "repos", _, _, "installation"])
        | ("POST", ["v3", "app", "installations", _, "access_tokens"]) => On::Mint,
        _ => On::Other,
    }
}

/// Answers a request.
pub(super) fn answer(store: &mut Store, asked: &Asked<'_>) -> Decided {
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
        store.violation(format!("headers that are wrong or missing: {}", missing.join(", ")));
        return said(403, "Request forbidden by administrative rules.");
    }
    let parts = asked.parts();
    match (asked.method(), &parts[1..]) {
        ("GET", ["v3", "repos", owner, name, "installation"]) => {
            return app::installation(store, asked, &format!("{owner}/{name}"));
        }
        ("POST", ["v3", "app", "installations", id, "access_tokens"]) => return app::mint(store, asked, id),
        _ => {}
    }
    let header = asked.header("authorization").unwrap_or_default();
    let token = header.strip_prefix("Bearer ").or_else(|| header.strip_prefix("token "));
    let Some(login) = token.and_then(|token| store.login(token)).cloned() else {
        return said(401, "Bad credentials");
    };
    if let ("GET", ["v3", "user"]) = (asked.method(), &parts[1..]) {
        return Decided::new(200, json!({"login": login.user, "id": 1}));
    }
    if let ["graphql"] = &parts[1..] {
        return graphql(store, asked, &login);
    }
    if let ("GET", ["v3", "repositories", "1"]) = (asked.method(), &parts[1..]) {
        // Where moved ones lead to.
        let Some(new) = store.moved.values().next() else { return said(404, "Not Found") };
        let shown = json!({"id": 1, "full_name": new, "html_url": format!("{}/{new}", asked.url)});
        return Decided::new(200, shown);
    }
    let ["v3", "repos", owner, repo, rest @ ..] = &parts[1..] else { return nothing(store, asked) };
    let name = format!("{owner}/{repo}");
    if store.moved.contains_key(&name) {
        let place = format!("{}/api/v3/repositories/1/{}", asked.url, rest.join("/"));
        return Decided::new(301, json!({"message": "Moved Permanently", "url": place.clone()}))
            .header("location", place);
    }
    let Some(path) = store.repository(&name, &login) else { return said(404, "Not Found") };
    store.refresh();
    let done = match (asked.method(), rest) {
        ("GET", []) => Ok(Decided::new(
            200,
            json!({"id": 1, "full_name": name, "html_url": format!("{}/{name}", asked.url)}),
        )),
        ("GET", ["pulls"]) => list(store, asked, &name),
        ("POST", ["pulls"]) => create(store, asked, (&name, &path), &login),
        ("GET", ["pulls", number]) => read(store, asked, &name, number),
        ("PATCH", ["pulls", number]) => edit(store, asked, &name, number),
        ("POST", ["pulls", number, "requested_reviewers"]) => review(store, asked, &name, number),
        ("POST", ["issues", number, "labels"]) => label(store, asked, &name, number),
        ("GET", ["issues", number, "comments"]) => comments(store, asked, (&name, number), false),
        ("GET", ["pulls", number, "comments"]) => comments(store, asked, (&name, number), true),
        ("POST", ["pulls", number, "comments", thread, "replies"]) => {
            reply(store, asked, (&name, number, thread), &login)
        }
        ("GET", ["actions", "jobs", job, "logs"]) => {
            let place = format!("{}/logs/{job}", asked.url);
            Ok(Decided::new(302, Value::Null).header("location", place))
        }
        ("POST", ["issues", number, "comments"]) => comment(store, asked, (&name, number), &login),
        ("GET", ["commits", commit, "check-runs"]) if has(&path, commit) => runs(store, asked, &name, commit),
        ("GET", ["commits", commit, "status"]) if has(&path, commit) => status(store, asked, &name, commit),
        ("GET", ["commits", commit, "check-runs" | "status"]) => {
            Ok(said(422, &format!("No commit found for SHA: {commit}")))
        }
        _ => return nothing(store, asked),
    };
    done.unwrap_or_else(|refused| wrong(store, &refused))
}

fn said(status: u16, message: &str) -> Decided {
    let docs = "https://docs.github.com/rest";
    Decided::new(status, json!({"message": message, "documentation_url": docs, "status": status.to_string()}))
}

fn invalid(error: Value) -> Decided {
    Decided::new(422, json!({"message": "Validation Failed", "errors": [error], "status": "422"}))
}

/// What GitHub answers to a request that it does not understand.
pub(super) fn wrong(store: &mut Store, wrong: &Wrong) -> Decided {
    store.violation(format!("GitHub does not understand this: {wrong:?}"));
    match wrong {
        Wrong::NotJson => said(400, "Problems parsing JSON"),
        Wrong::Missing(name) => said(422, &format!("Invalid request.\n\n\"{name}\" wasn't supplied.")),
        Wrong::Unknown(name) => said(422, &format!("Invalid request.\n\n\"{name}\" is not a permitted key.")),
        Wrong::Type(name) => said(422, &format!("Invalid request.\n\nFor '{name}', this is not valid.")),
    }
}

fn found<'a>(store: &'a mut Store, name: &str, number: &str) -> Result<&'a mut PullRequest, Decided> {
    store.pull(name, number).ok_or_else(|| said(404, "Not Found"))
}

fn list(store: &mut Store, asked: &Asked<'_>, name: &str) -> Result<Decided, Wrong> {
    schema::query(asked, &LIST)?;
    let (state, head) = (asked.queried("state").unwrap_or("open"), asked.queried("head"));
    if head.is_some_and(|head| !head.contains(':')) {
        return Err(Wrong::Type("head".to_owned()));
    }
    let owner = name.split('/').next().unwrap_or_default();
    let wanted = |pull: &&PullRequest| {
        pull.repository == name
            && (state == "all" || pull.open == (state == "open"))
            && head.is_none_or(|head| *head == format!("{owner}:{}", pull.branch))
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
    let optional = [
        ("body", Is::Text),
        ("head_repo", Is::Text),
        ("maintainer_can_modify", Is::Flag),
        ("draft", Is::Flag),
        ("issue", Is::Number),
    ];
    let new = schema::body(asked, &[("title", Is::Text), ("head", Is::Text), ("base", Is::Text)], &optional)?;
    let text = |key: &str| schema::text(&new, key).unwrap_or_default();
    let owner = name.split('/').next().unwrap_or_default();
    let branch = text("head").strip_prefix(&format!("{owner}:")).unwrap_or(text("head"));
    let field = |field: &str| invalid(json!({"resource": "PullRequest", "field": field, "code": "invalid"}));
    let custom =
        |message: String| invalid(json!({"resource": "PullRequest", "code": "custom", "message": message}));
    let Some(commit) = tip(path, branch) else { return Ok(field("head")) };
    if store.kept_out.contains(&login.user) {
        return Ok(custom("must be a collaborator".to_owned()));
    }
    let Some(base_commit) = tip(path, text("base")) else { return Ok(field("base")) };
    if let Some(refused) = too_long(&new) {
        return Ok(refused);
    }
    if is_ancestor(path, &commit, &base_commit) {
        return Ok(custom(format!("No commits between {} and {branch}", text("base"))));
    }
    let known = |pull: &PullRequest| {
        pull.open && pull.repository == name && pull.branch == branch && pull.base == text("base")
    };
    if store.pull_requests.iter().any(known) {
        return Ok(custom(format!("A pull request already exists for {owner}:{branch}.")));
    }
    let pull = store.add(PullRequest {
        repository: name.to_owned(),
        branch: branch.to_owned(),
        base: text("base").to_owned(),
        commit,
        title: text("title").to_owned(),
        body: text("body").to_owned(),
        draft: new.get("draft") == Some(&json!(true)),
        author: login.user.clone(),
        ..PullRequest::default()
    });
    Ok(Decided::acted(201, shown(&pull, asked.url)))
}

fn too_long(new: &Map<String, Value>) -> Option<Decided> {
    let count = |key: &str| schema::text(new, key).unwrap_or_default().chars().count();
    let over = |field: &str, limit: usize| {
        let message = format!("{field} is too long (maximum is {limit} characters)");
        let error = json!({"resource": "PullRequest", "code": "custom", "field": field, "message": message});
        (count(field) > limit).then(|| invalid(error))
    };
    over("title", 256).or_else(|| over("body", 65_536))
}

fn read(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    schema::query(asked, &[])?;
    Ok(match found(store, name, number) {
        Ok(pull) => Decided::new(200, shown(pull, asked.url)),
        Err(refused) => refused,
    })
}

fn edit(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    let optional = [
        ("title", Is::Text),
        ("body", Is::Text),
        ("state", Is::OneOf(&["open", "closed"])),
        ("base", Is::Text),
        ("maintainer_can_modify", Is::Flag),
    ];
    let new = schema::body(asked, &[], &optional)?;
    if let Some(refused) = too_long(&new) {
        return Ok(refused);
    }
    let pull = match found(store, name, number) {
        Ok(pull) => pull,
        Err(refused) => return Ok(refused),
    };
    if let Some(title) = schema::text(&new, "title") {
        pull.title = title.to_owned();
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
    Ok(Decided::acted(200, body))
}

fn review(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    let fields = [("reviewers", Is::Texts), ("team_reviewers", Is::Texts)];
    let reviewers = schema::texts(&schema::body(asked, &[], &fields)?, "reviewers");
    let unknown = reviewers.iter().any(|name| store.person(name).is_none());
    let pull = match found(store, name, number) {
        Ok(pull) => pull,
        Err(refused) => return Ok(refused),
    };
    if unknown {
        return Ok(said(
            422,
            "Reviews may only be requested from collaborators. One or more of the users is not one.",
        ));
    }
    if reviewers.contains(&pull.author) {
        return Ok(said(422, "Review cannot be requested from pull request author."));
    }
    let new: Vec<String> = reviewers.into_iter().filter(|name| !pull.reviewers.contains(name)).collect();
    pull.reviewers.extend(new);
    Ok(Decided::acted(201, shown(pull, asked.url)))
}

fn label(store: &mut Store, asked: &Asked<'_>, name: &str, number: &str) -> Result<Decided, Wrong> {
    let labels = schema::texts(&schema::body(asked, &[], &[("labels", Is::Texts)])?, "labels");
    for label in &labels {
        store.label(label);
    }
    Ok(match found(store, name, number) {
        Ok(pull) => {
            let new: Vec<String> = labels.into_iter().filter(|label| !pull.labels.contains(label)).collect();
            pull.labels.extend(new);
            let shown: Vec<Value> = pull.labels.iter().map(|label| json!({"name": label})).collect();
            Decided::acted(200, Value::Array(shown))
        }
        Err(refused) => refused,
    })
}

fn comments(
    store: &mut Store,
    asked: &Asked<'_>,
    (name, number): (&str, &str),
    of_reviews: bool,
) -> Result<Decided, Wrong> {
    schema::query(asked, &[("since", Is::Text), PAGES[0], PAGES[1]])?;
    Ok(match found(store, name, number) {
        Ok(pull) => {
            let said = pull.comments.iter().filter(|said| said.thread.is_some() == of_reviews);
            Decided::new(200, asked.page(said.map(shown_comment).collect(), "per_page"))
        }
        Err(refused) => refused,
    })
}

fn comment(
    store: &mut Store,
    asked: &Asked<'_>,
    (name, number): (&str, &str),
    login: &Login,
) -> Result<Decided, Wrong> {
    let new = schema::body(asked, &[("body", Is::Text)], &[])?;
    let text = schema::text(&new, "body").unwrap_or_default().to_owned();
    let pull = match found(store, name, number) {
        Ok(pull) => pull,
        Err(refused) => return Ok(refused),
    };
    let body = shown_comment(pull.say(&login.user, &text, None));
    let event = Event::commented(pull);
    store.events.push(event);
    Ok(Decided::acted(201, body))
}

fn reply(
    store: &mut Store,
    asked: &Asked<'_>,
    (name, number, thread): (&str, &str, &str),
    login: &Login,
) -> Result<Decided, Wrong> {
    let new = schema::body(asked, &[("body", Is::Text)], &[])?;
    let text = schema::text(&new, "body").unwrap_or_default().to_owned();
    let pull = match found(store, name, number) {
        Ok(pull) => pull,
        Err(refused) => return Ok(refused),
    };
    let Some(thread) = thread.parse().ok().filter(|id| pull.has_thread(*id)) else {
        return Ok(said(404, "Not Found"));
    };
    let body = shown_comment(pull.say(&login.user, &text, Some(thread)));
    let event = Event::commented(pull);
    store.events.push(event);
    Ok(Decided::acted(201, body))
}

fn runs(store: &mut Store, asked: &Asked<'_>, name: &str, commit: &str) -> Result<Decided, Wrong> {
    let fields = [
        ("check_name", Is::Text),
        ("status", Is::OneOf(&["queued", "in_progress", "completed"])),
        ("filter", Is::OneOf(&["latest", "all"])),
        ("app_id", Is::Number),
        PAGES[0],
        PAGES[1],
    ];
    schema::query(asked, &fields)?;
    // Those with a slash are statuses of the older kind.
    let of = store.statuses.iter().filter(|known| known.repository == name && known.commit == commit);
    let runs: Vec<Value> = of
        .filter(|known| !known.name.contains('/'))
        .map(|known| {
            let done = known.state != "pending";
            json!({
                "id": known.job, "name": known.name, "head_sha": commit, "html_url": format!("{}/checks/1", asked.url),
                "status": if done { "completed" } else { "in_progress" },
                "conclusion": if done { Value::String(known.state.clone()) } else { Value::Null },
            })
        })
        .collect();
    let count = runs.len();
    Ok(Decided::new(200, json!({"total_count": count, "check_runs": asked.page(runs, "per_page")})))
}

fn status(store: &mut Store, asked: &Asked<'_>, name: &str, commit: &str) -> Result<Decided, Wrong> {
    schema::query(asked, &PAGES)?;
    let of = store.statuses.iter().filter(|known| known.repository == name && known.commit == commit);
    let statuses: Vec<Value> = of
        .filter(|known| known.name.contains('/'))
        .map(|known| json!({"context": known.name, "state": known.state, "target_url": null, "description": null}))
        .collect();
    Ok(Decided::new(
        200,
        json!({
            "state": "pending", "sha": commit, "total_count": statuses.len(), "statuses": asked.page(statuses, "per_page"),
        }),
    ))
}

fn graphql(store: &mut Store, asked: &Asked<'_>, login: &Login) -> Decided {
    let optional = [("variables", Is::Object), ("operationName", Is::Text)];
    let new = match schema::body(asked, &[("query", Is::Text)], &optional) {
        Ok(new) => new,
        Err(refused) => return wrong(store, &refused),
    };
    let query = schema::text(&new, "query").unwrap_or_default();
    let draft = match (
        query.contains("convertPullRequestToDraft"),
        query.contains("markPullRequestReadyForReview"),
    ) {
        (true, false) => true,
        (false, true) => false,
        _ => {
            store.violation(format!("GraphQL has other words: {query}"));
            return Decided::new(200, json!({"errors": [{"message": "Parse error"}]}));
        }
    };
    if !query.trim_start().starts_with("mutation") || !query.contains("input: {pullRequestId: $id}") {
        store.violation(format!("this is no mutation with an input: {query}"));
    }
    let id =
        new.get("variables").and_then(|variables| variables["id"].as_str()).unwrap_or_default().to_owned();
    let reach = login.reach.clone();
    let may = |name: &String| reach.as_ref().is_none_or(|reach| reach.contains(name));
    match store.pull_requests.iter_mut().find(|pull| node(pull) == id && may(&pull.repository)) {
        Some(pull) => {
            pull.draft = draft;
            Decided::acted(200, json!({"data": {"done": {"pullRequest": {"isDraft": draft}}}}))
        }
        None => {
            let message = format!("Could not resolve to a node with the global id of '{id}'.");
            Decided::new(200, json!({"data": null, "errors": [{"type": "NOT_FOUND", "message": message}]}))
        }
    }
}

fn node(pull: &PullRequest) -> String {
    format!("PR_node{}", pull.number)
}

fn shown_comment(said: &Said) -> Value {
    json!({"id": said.id, "body": said.text, "user": {"login": said.author}})
}

pub(super) fn shown(pull: &PullRequest, url: &str) -> Value {
    let owner = pull.repository.split('/').next().unwrap_or_default();
    let merged = if pull.merged { json!("2026-01-01T00:00:00Z") } else { Value::Null };
    let reviewers: Vec<Value> = pull.reviewers.iter().map(|name| json!({"login": name})).collect();
    let labels: Vec<Value> = pull.labels.iter().map(|name| json!({"name": name})).collect();
    json!({
        "number": pull.number,
        "node_id": node(pull),
        "html_url": format!("{url}/{}/pull/{}", pull.repository, pull.number),
        "state": if pull.open { "open" } else { "closed" },
        "merged_at": merged,
        "title": pull.title,
        "body": pull.body,
        "draft": pull.draft,
        "user": {"login": pull.author},
        "requested_reviewers": reviewers,
        "labels": labels,
        "head": {"label": format!("{owner}:{}", pull.branch), "ref": pull.branch, "sha": pull.commit},
        "base": {"label": format!("{owner}:{}", pull.base), "ref": pull.base},
    })
}
