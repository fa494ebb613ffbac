//! Signing in by device, as GitHub and GitLab do it: a program shows a code, a person types it in at the forge, and the
//! program gets a token of theirs. Gitea has no such flow: its tokens are made by hand.

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
    if let Some((name, _)) = fields
        .iter()
        .find(|(name, _)| !["client_id", "scope", "device_code", "grant_type"].contains(&name.as_str()))
    {
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
            "interval": 5,
        });
        store.devices.push(device);
        return Decided::acted(200, body);
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
    let token = format!("{}{user}-{code}", if github { "ghu_" } else { "glo_" });
    store.logins.push(Login { token: token.clone(), user, ends: None, reach: None });
    Decided::acted(200, json!({"access_token": token, "token_type": "bearer", "scope": "api"}))
}
