//! Secrets on the wire: what is set, what is listed, and how an environment names one.

use protocol::{Secret, SecretList, SetSecret, StoredSecret};

use super::{at, compare, round_trip, whole_environment};

#[test]
fn secrets_are_written_as_they_always_were() {
    let set = StoredSecret {
        name: "MAIN".to_owned(),
        set_at: Some(at()),
        models: vec!["main".to_owned()],
        environments: vec!["shop".to_owned()],
        problem: None,
    };
    let unset = StoredSecret {
        set_at: None,
        models: Vec::new(),
        environments: Vec::new(),
        problem: Some("there is no secret".to_owned()),
        ..set.clone()
    };
    let used = Secret { env: None, secret: Some("MAIN".to_owned()), ..whole_environment().secrets.remove(0) };
    let body = SetSecret { value: "sk-shown-to-nobody".to_owned() };
    assert_eq!(format!("{body:?}"), "SetSecret(…)");
    let lines =
        vec![round_trip(&body), round_trip(&SecretList { secrets: vec![set, unset] }), round_trip(&used)];
    compare("secrets.jsonl", lines);
}
