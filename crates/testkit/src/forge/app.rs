//! The GitHub App: a statement signed with its RSA key is traded for a token that reaches some repositories for a while.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};

use super::asked::{Asked, Decided};
use super::ledger::{Login, Store};
use super::schema::{self, Is};

/// The id of the app that is installed on every repository.
pub const APP_ID: &str = "4711";
/// Its key. It was made for these tests and opens nothing else.
pub const APP_KEY: &str = include_str!("app-key.pem");

/// The number of its only installation.
const INSTALLATION: u64 = 99;

fn refused(said: &str) -> Decided {
    Decided::new(
        401,
        json!({"message": said, "documentation_url": "https://docs.github.com/rest", "status": "401"}),
    )
}

/// Looks at the statement of who asks.
fn check(asked: &Asked<'_>) -> Result<(), Decided> {
    let undecoded = || refused("A JSON web token could not be decoded");
    let bearer = asked.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let (text, signature) = bearer.and_then(|token| token.rsplit_once('.')).ok_or_else(undecoded)?;
    let (header, claims) = text.split_once('.').ok_or_else(undecoded)?;
    let read =
        |part: &str| -> Option<Value> { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok() };
    let (header, claims) = read(header).zip(read(claims)).ok_or_else(undecoded)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| undecoded())?;
    let public = public_key().ok_or_else(undecoded)?;
    let signed =
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public).verify(text.as_bytes(), &signature);
    if header["alg"] != "RS256" || signed.is_err() {
        return Err(undecoded());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let number = |name: &str| claims[name].as_u64();
    if claims["iss"] != json!(APP_ID) {
        return Err(refused("Integration not found"));
    }
    match (number("iat"), number("exp")) {
        (Some(iat), _) if iat > now => {
            Err(refused("'Issued at' claim ('iat') must be an Integer representing a time in the past"))
        }
        (Some(_), Some(exp)) if exp > now + 600 => {
            Err(refused("'Expiration time' claim ('exp') is too far in the future"))
        }
        (Some(_), Some(exp)) if exp > now => Ok(()),
        _ => Err(refused("'Expiration time' claim ('exp') must be a numeric value in the future")),
    }
}

fn public_key() -> Option<Vec<u8>> {
    let lines = APP_KEY.lines().filter(|line| !line.starts_with('-'));
    let der = STANDARD.decode(lines.collect::<String>()).ok()?;
    Some(RsaKeyPair::from_der(&der).ok()?.public_key().as_ref().to_vec())
}

/// `GET /repos/{owner}/{repo}/installation`
pub(super) fn installation(store: &mut Store, asked: &Asked<'_>, name: &str) -> Decided {
    if let Err(refused) = check(asked) {
        return refused;
    }
    match store.repositories.contains_key(name) {
        true => {
            Decided::new(200, json!({"id": INSTALLATION, "app_id": 4711, "repository_selection": "selected"}))
        }
        false => Decided::new(404, json!({"message": "Not Found", "status": "404"})),
    }
}

/// `POST /app/installations/{id}/access_tokens`
pub(super) fn mint(store: &mut Store, asked: &Asked<'_>, id: &str) -> Decided {
    if let Err(refused) = check(asked) {
        return refused;
    }
    if id != INSTALLATION.to_string() {
        return Decided::new(404, json!({"message": "Not Found", "status": "404"}));
    }
    let fields = [("repositories", Is::Texts), ("repository_ids", Is::Numbers), ("permissions", Is::Object)];
    let body = match schema::body(asked, &[], &fields) {
        Ok(body) => body,
        Err(wrong) => return super::github::wrong(store, &wrong),
    };
    let wanted = schema::texts(&body, "repositories");
    let known: Vec<String> = store
        .repositories
        .keys()
        .filter(|known| wanted.iter().any(|name| known.split_once('/').is_some_and(|(_, last)| last == name)))
        .cloned()
        .collect();
    if known.len() < wanted.len() {
        let said = "There is at least one repository that does not exist or is not accessible to the parent installation.";
        return Decided::new(422, json!({"message": said}));
    }
    store.minted += 1;
    let token = format!("ghs_minted{:03}canary", store.minted);
    let ends = SystemTime::now() + store.token_life;
    let reach = (!wanted.is_empty()).then_some(known);
    store.logins.push(Login {
        token: token.clone(),
        user: "slipway[bot]".to_owned(),
        ends: Some(ends),
        reach,
    });
    let seconds = ends.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let expires = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or(0)).unwrap_or_default();
    let body = json!({
        "token": token,
        "expires_at": expires.to_string(),
        "permissions": {"contents": "write", "pull_requests": "write", "metadata": "read"},
        "repository_selection": "selected",
    });
    Decided::acted(201, body)
}
