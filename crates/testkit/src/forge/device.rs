//! Signing in by device, as GitHub and GitLab do it: a program shows a code, a person types it in at the forge, and the
//! program gets a token of theirs. Gitea has no such flow: its tokens are made by hand.

use std::time::SystemTime;

use serde_json::json;

use super::asked::{Asked, Decided, pairs};
use super::ledger::{Login, Store};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A device that waits, or that somebody let in.
#[derive(Debug)]
pub(super) struct Device {
    device_code: String,
    pub(super) user_code: String,
    client: String,
    /// Who typed the code in.
    pub(super) user: Option<String>,
    done: bool,
}

/// Whether this is where devices sign in.
pub(super) fn is_here(asked: &Asked<'_>) -> bool {
    asked.method() == "POST"
        && matches!(
            asked.parts()[..],
            ["login", "device", "code"]
                | ["login", "oauth", "access_token"]
                | ["oauth", "authorize_device"]
                | ["oauth", "token"]
        )
}

/// Answers a device.
pub(super) fn answer(store: &mut Store, asked: &Asked<'_>) -> Decided {
    let github = asked.path[0] == "login";
    let form = asked
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    let fields = match form {
        true => pairs(&String::from_utf8_lossy(asked.body)),
        false => Vec::new(),
    };
    let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if github && asked.header("accept") != Some("application/json") {
        store.violation("without accept: application/json, GitHub answers a device with a form");
    }
    if let Some((name, _)) = fields.iter().find(|(name, _)| {
        !["client_id", "scope", "device_code", "grant_type", "refresh_token"].contains(&name.as_str())
    }) {
        store.violation(format!("a device that signs in has no field {name}"));
    }
    // GitHub answers with a success also when it is none.
    let failed = |error: &str| {
        let body = json!({"error": error, "error_description": format!("the request failed: {error}")});
        Decided::new(if github { 200 } else { 400 }, body)
    };
    let Some(client) = field("client_id") else {
        store.violation("a device that signs in needs a client_id");
        return failed("invalid_client");
    };
    if matches!(asked.parts()[..], ["login", "device", "code"] | ["oauth", "authorize_device"]) {
        let number = store.devices.len() + 1;
        let device = Device {
            device_code: format!("device-{number}"),
            user_code: format!("CODE-{number:04}"),
            client: client.to_owned(),
            user: None,
            done: false,
        };
        let page = if github { "login/device" } else { "oauth/device" };
        let body = json!({
            "device_code": device.device_code,
            "user_code": device.user_code,
            "verification_uri": format!("{}/{page}", asked.url),
            "expires_in": 900,
            "interval": store.interval,
        });
        store.devices.push(device);
        return Decided::acted(200, body);
    }
    if field("grant_type") == Some("refresh_token") {
        let renewal = field("refresh_token").unwrap_or_default();
        let place = store.renewals.iter().position(|(known, _)| known == renewal);
        let Some(place) = place else {
            return failed(if github { "bad_refresh_token" } else { "invalid_grant" });
        };
        let (_, user) = store.renewals.remove(place);
        return granted(store, github, user);
    }
    if field("grant_type") != Some(GRANT) {
        store.violation(format!("a device asks for a token with grant_type={GRANT}"));
        return failed("unsupported_grant_type");
    }
    let code = field("device_code").unwrap_or_default().to_owned();
    let found = store.devices.iter_mut().find(|device| device.device_code == code && device.client == client);
    let Some(device) = found.filter(|device| !device.done) else {
        return failed(if github { "incorrect_device_code" } else { "invalid_grant" });
    };
    let Some(user) = device.user.clone() else { return failed("authorization_pending") };
    device.done = true;
    granted(store, github, user)
}

/// A token that lasts for a while, and what renews it once.
fn granted(store: &mut Store, github: bool, user: String) -> Decided {
    let number = store.logins.len();
    let (kind, renews) = if github { ("ghu", "ghr") } else { ("glo", "glr") };
    let (token, renewal) = (format!("{kind}_{user}-{number}"), format!("{renews}_{user}-{number}"));
    let life = store.device_life;
    store.renewals.push((renewal.clone(), user.clone()));
    if store.person(&user).is_none() {
        store.people.push(user.clone());
    }
    store.logins.push(Login {
        token: token.clone(),
        user,
        ends: Some(SystemTime::now() + life),
        reach: None,
    });
    let body = json!({
        "access_token": token, "token_type": "bearer", "scope": "api", "expires_in": life.as_secs(), "refresh_token": renewal,
    });
    Decided::acted(200, body)
}
