//! A careful receiver of notifications: it knows each by its key, and does not take another under the same one.

use serde_json::{Value, json};

use super::asked::{Asked, Decided};
use super::ledger::Store;

/// Takes a notification.
pub(super) fn take(store: &mut Store, asked: &Asked<'_>) -> Decided {
    let mut refuse = |violation: String| {
        store.violations.push(violation.clone());
        Decided::new(400, json!({"message": violation}))
    };
    let plain =
        |key: &&str| !key.is_empty() && key.len() <= 255 && key.bytes().all(|byte| byte.is_ascii_graphic());
    let Some(key) = asked.header("idempotency-key").filter(plain) else {
        return refuse("a notification needs a header idempotency-key".to_owned());
    };
    let body: Value = serde_json::from_slice(asked.body).unwrap_or_default();
    if asked.header("content-type") != Some("application/json") || body.get("key") != Some(&json!(key)) {
        return refuse(format!("a notification is JSON and has its key in it: {body}"));
    }
    let acted = match store.received.get_mut(key) {
        Some((known, count)) if *known == body => {
            *count += 1;
            false
        }
        Some((known, _)) => {
            let violation = format!("{key} came with another body: {known} and {body}");
            return refuse(violation);
        }
        None => {
            store.received.insert(key.to_owned(), (body, 1));
            true
        }
    };
    Decided { acted, ..Decided::new(202, json!({})) }
}
