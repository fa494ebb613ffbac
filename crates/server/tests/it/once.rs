//! A server dies after it did what a command asked for and before its answer was kept. Whoever sends the command again,
//! when others have done something else since, gets the answer that it would have had, and nothing is done again.

use hyper::http::request::Builder;
use hyper::{Request, StatusCode, header};
use protocol::{
    Actor, CommandId, EditPrompt, EgressDecision, Environment, Place, PromptId, Repo, SandboxId, SetQueue,
    StopSession,
};
use serde_json::{Value, json};
use session::{Before, Cause, Command};
use sha2::{Digest, Sha256};
use store::Claim;

use crate::client::{Answer, send};
use crate::world::World;

/// One command of the user, whose key is its id.
struct Sent<'a> {
    world: &'a World,
    method: &'a str,
    path: String,
    body: Value,
    id: CommandId,
}

impl<'a> Sent<'a> {
    /// The server has the command's key, and has done nothing else for it.
    async fn begun(world: &'a World, method: &'a str, path: String, body: Value) -> Self {
        let sent = Self { world, method, path, body, id: CommandId::new() };
        let digest = Sha256::digest(sent.text());
        let fingerprint: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = sent.id.to_u128().to_string();
        let claim = world.sessions.store().claim_key(&sent.key(), &fingerprint, &name).await.unwrap();
        assert_eq!(claim, Claim::New);
        sent
    }

    fn text(&self) -> String {
        if self.body.is_null() { String::new() } else { self.body.to_string() }
    }

    fn key(&self) -> String {
        format!("local {} {} {}", self.method, self.path, self.id)
    }

    fn command(&self) -> Command {
        Command { id: self.id, before: Before::Never }
    }

    fn cause(&self) -> Cause {
        Cause { actor: Actor::user("local"), command: Some(self.command()) }
    }

    fn request(&self) -> Builder {
        let request = Request::builder().method(self.method).uri(&self.path);
        request
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", self.id.to_string())
    }

    /// Sends it again to the server that comes after the one that died; and something else under its key, which is refused.
    async fn again(self) -> Answer {
        self.world.sessions.store().abandon_key(&self.key()).await.unwrap();
        let other = send(self.world.address, self.request(), r#"{"other":1}"#).await;
        assert_eq!(other.problem(), "idempotency_mismatch");
        let answer = send(self.world.address, self.request(), self.text()).await;
        let replayed = send(self.world.address, self.request(), self.text()).await;
        assert_eq!(replayed.header("idempotency-replayed"), Some("true"));
        assert_eq!((replayed.status, &replayed.body), (answer.status, &answer.body));
        answer
    }
}

fn bob() -> Actor {
    Actor::user("bob")
}

fn edit(text: &str) -> EditPrompt {
    EditPrompt { prompt: Some(text.to_owned()), place: None }
}

#[tokio::test]
async fn a_change_of_the_queue_is_made_once() {
    let world = World::start().await;
    let (sessions, id) = (&world.sessions, world.session().await);
    sessions.stop_with(id, bob(), StopSession { pause: true }).await.unwrap();
    world.settled(id).await;
    let mut prompts = Vec::new();
    for text in ["one", "two", "three"] {
        prompts.push(sessions.prompt(id, bob(), text.to_owned()).await.unwrap());
    }
    let path = |prompt: PromptId| format!("/api/v1/sessions/{id}/prompts/{prompt}");

    let sent = Sent::begun(&world, "PATCH", path(prompts[0]), json!({"prompt": "eins"})).await;
    let first = sessions.edit_prompt(id, sent.cause(), prompts[0], edit("eins")).await.unwrap();
    sessions.edit_prompt(id, bob(), prompts[0], edit("un")).await.unwrap();
    assert_eq!(sent.again().await.json(), json!(first));
    assert_eq!(sessions.queue(id).await.unwrap().prompts[0].text, "un", "what bob wrote stands");

    let sent = Sent::begun(&world, "PATCH", path(prompts[2]), json!({"place": "first"})).await;
    let to_front = EditPrompt { prompt: None, place: Some(Place::First) };
    let first = sessions.edit_prompt(id, sent.cause(), prompts[2], to_front).await.unwrap();
    let last = EditPrompt { prompt: None, place: Some(Place::Last) };
    let after = sessions.edit_prompt(id, bob(), prompts[2], last).await.unwrap();
    assert_eq!(sent.again().await.json(), json!(first));
    assert_eq!(sessions.queue(id).await.unwrap(), after);

    let sent = Sent::begun(&world, "DELETE", path(prompts[1]), Value::Null).await;
    let first = sessions.remove_prompt(id, sent.cause(), prompts[1]).await.unwrap();
    sessions.edit_prompt(id, bob(), prompts[0], edit("deux")).await.unwrap();
    assert_eq!(sent.again().await.json(), json!(first));

    // One that the server died on before it did anything is done now.
    let sent = Sent::begun(&world, "PATCH", path(prompts[0]), json!({"prompt": "now"})).await;
    assert_eq!(sent.again().await.json()["prompts"][0]["text"], "now");
}

#[tokio::test]
async fn a_pause_and_a_stop_are_made_once() {
    let world = World::start().await;
    let (sessions, id) = (&world.sessions, world.session().await);
    world.settled(id).await;
    let resume = || async { sessions.set_queue(id, bob(), SetQueue { paused: false }).await.unwrap() };

    let path = format!("/api/v1/sessions/{id}/queue");
    let sent = Sent::begun(&world, "PUT", path, json!({"paused": true})).await;
    let first = sessions.set_queue(id, sent.cause(), SetQueue { paused: true }).await.unwrap();
    resume().await;
    assert_eq!(sent.again().await.json(), json!(first));
    assert!(!sessions.queue(id).await.unwrap().paused, "bob let it go on");

    let sent =
        Sent::begun(&world, "POST", format!("/api/v1/sessions/{id}/stop"), json!({"pause": true})).await;
    let first = sessions.stop_with(id, sent.cause(), StopSession { pause: true }).await.unwrap();
    resume().await;
    let again = sent.again().await;
    assert_eq!((again.status, again.json()), (StatusCode::ACCEPTED, json!(first)));
    assert!(!sessions.queue(id).await.unwrap().paused, "bob let it go on");
}

#[tokio::test]
async fn an_environment_is_changed_once() {
    let world = World::start().await;
    let sessions = &world.sessions;
    let recipe = |instructions: &str| Environment {
        repos: vec![Repo { url: world.repository.clone(), branch: None, path: None }],
        instructions: Some(instructions.to_owned()),
        ..Environment::default()
    };
    let path = || "/api/v1/environments/other".to_owned();

    let body = json!({"instructions": "one", "repos": [{"url": world.repository}]});
    let sent = Sent::begun(&world, "PUT", path(), body).await;
    let first = sessions.put_environment_as(Some(sent.command()), "other", recipe("one")).await.unwrap();
    sessions.put_environment("other", recipe("two")).await.unwrap();
    assert_eq!(sent.again().await.json(), json!(first));
    assert_eq!(sessions.environment("other").await.unwrap().recipe, recipe("two"));

    let allow = || vec!["a.test".to_owned()];
    let sent = Sent::begun(&world, "POST", format!("{}/egress", path()), json!({"allow": ["a.test"]})).await;
    sessions.allow_as(Some(sent.command()), "other", allow()).await.unwrap();
    sessions.put_environment("other", recipe("three")).await.unwrap();
    assert_eq!(sent.again().await.status, StatusCode::OK);
    assert_eq!(sessions.environment("other").await.unwrap().recipe, recipe("three"));

    let sent = Sent::begun(&world, "DELETE", path(), Value::Null).await;
    sessions.remove_environment_as(Some(sent.command()), "other").await.unwrap();
    sessions.put_environment("other", recipe("four")).await.unwrap();
    assert_eq!(sent.again().await.status, StatusCode::NO_CONTENT);
    assert_eq!(sessions.environment("other").await.unwrap().recipe, recipe("four"));

    let sent = Sent::begun(&world, "DELETE", path(), Value::Null).await;
    assert_eq!(sent.again().await.status, StatusCode::NO_CONTENT, "nothing was done for it yet");
    assert!(sessions.environment("other").await.is_err());
}

#[tokio::test]
async fn what_was_refused_is_counted_once() {
    let world = World::start().await;
    let decision = EgressDecision {
        sandbox: SandboxId::new(),
        host: "a.test".to_owned(),
        port: 443,
        allowed: false,
        rule: "no rule".to_owned(),
        connections: 2,
        sent: 0,
        received: 0,
    };
    let path = "/api/v1/environments/shop/egress/decisions".to_owned();
    let sent = Sent::begun(&world, "POST", path, json!({"decisions": [decision]})).await;
    world.sessions.note_egress("shop", &[decision], Some(sent.command())).await.unwrap();
    let again = sent.again().await.json();
    assert_eq!(again["refused"][0]["count"], 2, "{again}");
}
