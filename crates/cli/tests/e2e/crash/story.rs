//! What happens while servers die: turns of every kind, a queue, a pause, a stop, an approval. Then everything is looked at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::repo::Repo;
use testkit::{forge, model};

use super::client::{Client, Way, summary};
use super::keeper::{Fate, Keeper, told};
use super::model::{COUNTER, Task, script};
use crate::harness::{CHECK, ENVIRONMENT, Events, PATIENCE, World, models};

/// The environment whose deliveries a person approves.
const CAREFUL: &str = "careful";
/// What the forge lets in.
const TOKEN: &str = "acme-token";

/// A world with servers that die.
pub(super) struct Story {
    world: Arc<World>,
    repo: Repo,
    /// Has pull requests, and is told what happens.
    forge: forge::Server,
    /// It answers as long as it is there.
    _model: model::Server,
    keeper: Arc<Keeper>,
    client: Client,
    /// Sessions in the order they were made, each with its prompts.
    sessions: Vec<(String, Vec<(Task, String)>)>,
    prompts: usize,
}

impl Story {
    pub(super) async fn begin(fates: Vec<Fate>, keys: &str, pool: u32) -> Self {
        let model = model::Server::start(script()).await;
        let repo = Repo::plain();
        // The ledger of every update of a branch.
        repo.git(&["config", "core.logAllRefUpdates", "always"]);
        let forge = forge::Server::start(TOKEN).await;
        let url = forge.serve("acme", "answers", &repo);
        let environment = |name: &str, more: &str| {
            format!(
                "[environments.{name}]\nrepos = [{{ url = \"{url}\", branch = \"main\" }}]\npool = {pool}\n\
                 checks = [{{ name = \"answer\", run = \"{CHECK}\" }}]\n{more}\n"
            )
        };
        let outside = format!(
            "[forges.acme]\nkind = \"github\"\nurl = \"{}\"\napi_url = \"{}\"\ntoken_env = \"ACME_TOKEN\"\n\n\
             [notify]\nwebhook = \"{}\"\n\n",
            forge.root().display(),
            forge.api_url(),
            forge.hook_url()
        );
        let mut world = World::new();
        world.set("ACME_TOKEN", TOKEN);
        let environments = environment(ENVIRONMENT, "") + &environment(CAREFUL, "approve = [\"delivery\"]");
        world.configure(&format!("{}{keys}{outside}{environments}", models(&model)));
        let world = Arc::new(world);
        let keeper = Arc::new(Keeper::start(&world, fates));
        let client = Client::new(&keeper);
        Self { world, repo, forge, _model: model, keeper, client, sessions: Vec::new(), prompts: 0 }
    }

    /// The keeper.
    pub(super) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Everything once.
    pub(super) async fn cycle(&mut self) {
        let session = self.create(ENVIRONMENT, Task::Mend).await;
        self.prompt(&session, Task::Count).await;
        self.prompt(&session, Task::Look).await;
        self.idle(&session).await;
        self.pause(&session, true).await;
        self.prompt(&session, Task::Mend).await;
        let queue = self.client.get(&format!("/sessions/{session}/queue")).await;
        assert_eq!(queue["paused"], true, "{queue}");
        assert_eq!(queue["prompts"].as_array().unwrap().len(), 1, "{queue}");
        self.pause(&session, false).await;
        self.idle(&session).await;
        self.prompt(&session, Task::Hang).await;
        let turns = self.sessions.last().unwrap().1.len();
        self.client
            .until(&session, "the command that hangs", |events| {
                let hangs = |data: &&Value| {
                    data["item"]["input"]["command"].as_str().is_some_and(|text| text.contains("hang-"))
                };
                let begun = events.of("turn.started").len() == turns;
                (begun && events.of("item.started").iter().any(hangs)).then_some(())
            })
            .await;
        // A stop that is asked for again, because its server died, must not reach the next turn.
        self.prompt(&session, Task::Count).await;
        let (status, answer) =
            self.client.command(Method::POST, &format!("/sessions/{session}/stop"), &json!({})).await;
        assert_eq!(status, 202, "{answer}");
        self.idle(&session).await;
        self.prompt(&session, Task::Tally).await;
        self.idle(&session).await;

        let session = self.create(CAREFUL, Task::Mend).await;
        let approval = self
            .client
            .until(&session, "a question", |events| {
                events
                    .of("approval.requested")
                    .first()
                    .map(|data| data["approval"].as_str().unwrap().to_owned())
            })
            .await;
        let path = format!("/sessions/{session}/approvals/{approval}");
        let (status, answer) = self.client.command(Method::POST, &path, &json!({"approved": true})).await;
        assert_eq!((status, &answer["approved"]), (200, &json!(true)), "{answer}");
        self.idle(&session).await;
        self.client.leave();
    }

    async fn create(&mut self, environment: &str, task: Task) -> String {
        let text = self.next(task);
        let body = json!({"environment": environment, "prompt": text});
        let (status, session) = self.client.command(Method::POST, "/sessions", &body).await;
        assert_eq!(status, 201, "{session}");
        let id = session["id"].as_str().unwrap().to_owned();
        self.client.follow(&id);
        self.sessions.push((id.clone(), vec![(task, text)]));
        id
    }

    async fn prompt(&mut self, session: &str, task: Task) {
        let text = self.next(task);
        let path = format!("/sessions/{session}/prompts");
        let (status, answer) = self.client.command(Method::POST, &path, &json!({"prompt": text})).await;
        assert_eq!(status, 202, "{answer}");
        self.sessions.last_mut().unwrap().1.push((task, text));
    }

    fn next(&mut self, task: Task) -> String {
        self.prompts += 1;
        task.prompt(self.prompts)
    }

    async fn pause(&self, session: &str, paused: bool) {
        let path = format!("/sessions/{session}/queue");
        let (status, answer) = self.client.command(Method::PUT, &path, &json!({"paused": paused})).await;
        assert_eq!((status, &answer["paused"]), (200, &json!(paused)), "{answer}");
    }

    /// Waits until every turn so far is finished.
    async fn idle(&self, session: &str) {
        let turns = self.sessions.last().unwrap().1.len();
        let finished = |events: &Events| (events.of("turn.finished").len() >= turns).then_some(());
        self.client.until(session, "the end of the turns", finished).await;
    }

    /// Looks at everything, stops the server and looks at what is left.
    pub(super) async fn end(self) {
        let list = self.client.get("/sessions").await;
        let made = list["sessions"].as_array().unwrap().len();
        assert_eq!(made, self.sessions.len(), "each session was made once");
        let mut notified = Vec::new();
        for (id, prompts) in &self.sessions {
            notified.extend(self.look_at(id, prompts).await);
        }
        self.look_at_forge(notified);
        self.client.leave();
        let Self { world, keeper, client, .. } = self;
        drop(client);
        Keeper::release(keeper).await;
        let said = told(&world);
        let world = Arc::into_inner(world).expect("nobody else has it");
        world.ok(&["gc"]).await;
        let sandboxes = world.json(&["sandbox", "ls"]).await;
        for sandbox in sandboxes["sandboxes"].as_array().unwrap() {
            assert!(sandbox["owner"]["session"].is_string(), "whose is {sandbox}?\n{said}");
        }
        world.remove_sandboxes().await;
        world.finish().await;
    }

    /// Looks at a session; gives the keys of its notifications.
    async fn look_at(&self, id: &str, prompts: &[(Task, String)]) -> Vec<String> {
        let end = tokio::time::Instant::now() + PATIENCE;
        while self.client.get(&format!("/sessions/{id}")).await["notifying"] == true {
            assert!(
                tokio::time::Instant::now() < end,
                "somebody is never told\n{}",
                summary(&self.log(id).await)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let log = self.log(id).await;
        log.assert_gap_free(0);
        for way in Way::ALL {
            let seen = self.client.seen(id, way).durable;
            assert!(seen.len() <= log.durable.len(), "{id} has lost events that were seen");
            assert_eq!(log.durable[..seen.len()], seen, "what was seen is what is kept");
        }
        let told = || summary(&log);

        let queued: Vec<&str> =
            log.of("prompt.queued").iter().map(|data| data["text"].as_str().unwrap()).collect();
        let asked: Vec<&str> = prompts.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(queued, asked, "each prompt was queued once\n{}", told());
        let started: Vec<&Value> = log.of("turn.started").iter().map(|data| &data["turn"]).collect();
        let finished: Vec<&Value> = log.of("turn.finished").iter().map(|data| &data["turn"]).collect();
        assert_eq!(started, finished, "each turn finished once, and in order\n{}", told());
        for (data, (task, text)) in log.of("turn.finished").iter().zip(prompts) {
            let expected = if *task == Task::Hang { "cancelled" } else { "done" };
            assert_eq!(data["outcome"], expected, "{text}\n{}", told());
        }
        self.look_at_pushes(&log, prompts, &told);
        if prompts.iter().any(|(task, _)| *task == Task::Tally) {
            look_at_commands(&log, &told);
        }
        let notified = log.of("notification.updated").into_iter().filter(|data| data["state"] == "sent");
        let mut keys: Vec<String> = notified.map(|data| data["key"].as_str().unwrap().to_owned()).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        let asked = log.of("approval.requested").len();
        assert_eq!((keys.len(), count), (prompts.len() + asked, keys.len()), "each is told once\n{}", told());
        keys
    }

    /// There is one pull request for each session, and every notification came, perhaps twice but under one key.
    fn look_at_forge(&self, mut told: Vec<String>) {
        assert_eq!(self.forge.violations(), Vec::<String>::new());
        let branches: BTreeSet<String> =
            self.forge.pull_requests().into_iter().map(|pull| pull.branch).collect();
        let opened = self.forge.requests(forge::On::Open).iter().filter(|entry| entry.acted).count();
        assert_eq!((branches.len(), opened), (self.sessions.len(), self.sessions.len()), "{branches:?}");
        told.sort();
        let received: Vec<String> = self.forge.received().into_iter().map(|(key, _, _)| key).collect();
        assert_eq!(received, told, "everybody was told of everything");
    }

    /// The branch was moved once for each turn that changed something.
    fn look_at_pushes(&self, log: &Events, prompts: &[(Task, String)], told: &dyn Fn() -> String) {
        let deliveries = log.of("delivery.updated");
        let pushed: Vec<&str> = deliveries
            .iter()
            .filter(|data| data["state"] == "pushed")
            .map(|data| data["commit"].as_str().unwrap())
            .collect();
        let changing = prompts.iter().filter(|(task, _)| matches!(task, Task::Mend | Task::Count)).count();
        assert_eq!(pushed.len(), changing, "one push for each turn that changed something\n{}", told());
        let branch = deliveries[0]["branch"].as_str().unwrap();
        let ledger = self.repo.path().join("logs/refs/heads").join(branch);
        let ledger = std::fs::read_to_string(ledger).unwrap();
        let moved: Vec<&str> = ledger.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(moved, pushed, "the remote's branch moved once for each push\n{}", told());
        let commits = self.repo.git(&["rev-list", "--count", &format!("main..{branch}")]);
        assert_eq!(commits.trim(), changing.to_string(), "no commit is there twice\n{}", told());
        assert_eq!(self.repo.file(branch, "answer.txt").as_deref(), Some("42\n"));
    }

    /// Every event of a session.
    async fn log(&self, id: &str) -> Events {
        let mut events = Events::default();
        loop {
            let after = events.durable.len();
            let page = self.client.get(&format!("/sessions/{id}/events?after={after}")).await;
            page["events"].as_array().unwrap().iter().for_each(|event| events.push(event.clone()));
            if page["more"] == false {
                return events;
            }
        }
    }
}

/// Each command ran once, and one that was interrupted not at all.
fn look_at_commands(log: &Events, told: &dyn Fn() -> String) {
    let shells = log.calls("shell");
    let tally = shells.iter().rev().find(|call| call["status"] == "completed").unwrap();
    let lines: Vec<&str> = tally["output"]["text"].as_str().unwrap().lines().collect();
    let mut expected = 0;
    for call in &shells {
        let command = call["input"]["command"].as_str().unwrap();
        let Some((token, _)) =
            command.split_once("; sleep 0.1; echo ").and_then(|(_, rest)| rest.split_once(' '))
        else {
            continue;
        };
        let times = lines.iter().filter(|line| **line == token).count();
        match call["status"].as_str().unwrap() {
            "completed" => {
                assert_eq!(times, 1, "{token} in {COUNTER}\n{}", told());
                let said = call["output"]["text"].as_str().unwrap();
                assert!(said.starts_with("begin\nleft\nend\n"), "{token} said {said:?}\n{}", told());
                expected += 1;
            }
            // Somebody else goes on with a command that has begun; only one that never did is interrupted.
            "interrupted" => assert_eq!(times, 0, "{token} in {COUNTER}\n{}", told()),
            "cancelled" => assert!(times <= 1, "{token} in {COUNTER}\n{}", told()),
            other => panic!("{token} is {other}\n{}", told()),
        }
    }
    assert!(expected >= 2, "{}", told());
}
