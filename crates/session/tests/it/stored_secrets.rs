//! Secrets of the store in an environment: a missing one is told with what to do, and one that is set is used.

use protocol::{Code, EventBody, Outcome, Secret};
use serde_json::json;
use testkit::model::Script;

use crate::support::{Follow, World, create};

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_not_set_is_told_and_one_that_is_set_is_used() {
    let script = Script::new().call("shell", json!({"command": "echo \"is <$TOKEN>\""})).say("Seen.");
    let world = World::new(script).await.environment(|environment| {
        environment.secrets = vec![Secret {
            name: "TOKEN".into(),
            env: None,
            file: None,
            secret: Some("KEPT".into()),
            hosts: vec!["api.example.com".into()],
            form: "bearer".into(),
        }];
    });
    let sessions = world.start().await;
    let listed = sessions.secrets().await.unwrap();
    assert_eq!((listed[0].name.as_str(), listed[0].set_at), ("KEPT", None));
    assert_eq!(listed[0].environments, ["plain"]);
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    let told = follow.events.iter().any(|event| match &event.body {
        EventBody::ErrorRaised { message, hint, .. } => {
            let text = format!("{message} {}", hint.clone().unwrap_or_default());
            text.contains("there is no secret \"KEPT\"") && text.contains("slipway secret set KEPT")
        }
        _ => false,
    });
    assert!(told, "{:?}", follow.events);
    assert!(world.model.requests().is_empty(), "nothing was asked of the model");

    let set = sessions.set_secret("KEPT", "kept-canary".into()).await.unwrap();
    assert!(set.set_at.is_some() && set.problem.is_none(), "{set:?}");
    let id = create(&sessions, "Look again").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().contains("is <slipway-TOKEN-"), "{}", follow.last_output());
    assert!(!format!("{:?}", follow.events).contains("kept-canary"));

    let refused = sessions.set_secret("no name", "kept-canary".into()).await.unwrap_err();
    assert!(refused.code == Code::BadRequest && !format!("{refused:?}").contains("canary"), "{refused:?}");
    sessions.remove_secret("KEPT", false).await.unwrap();
    assert_eq!(sessions.remove_secret("KEPT", false).await.unwrap_err().code, Code::NotFound);
    sessions.remove_secret("KEPT", true).await.unwrap();
    world.end(sessions).await;
}
