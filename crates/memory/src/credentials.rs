//! Texts that look like a key or a password. A note is read by everybody of its scope and by every model, so none may have
//! one: whoever wants to tell of a secret tells its name.

/// What the keys and tokens of well-known services begin with.
const BEGINNINGS: [&str; 22] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "whsec_",
    "AIza",
    "AKIA",
    "ASIA",
    "xai-",
    "gsk_",
    "hf_",
    "pplx-",
    "nvapi-",
    "ya29.",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "npm_",
    "xox",
    "eyJ",
];

/// A key goes on for at least so many letters and digits after its beginning; "sk-learn" is none.
const REST: usize = 12;

/// From so many letters of all kinds on, without anything between them, it is no name that people give.
const LONG: usize = 32;

/// What in a text looks like a key or a password, in a word or two; None where nothing does.
pub(crate) fn credential_in(text: &str) -> Option<&'static str> {
    if text.contains("-----BEGIN") && text.contains("PRIVATE KEY") {
        return Some("a private key");
    }
    let in_word = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let words = || text.split(|letter| !in_word(letter)).map(|word| word.trim_matches('.'));
    if words().any(is_key) {
        return Some("a key or token");
    }
    text.split_whitespace().any(has_password).then_some("an address with a password")
}

fn is_key(word: &str) -> bool {
    let begins = |beginning: &&str| word.strip_prefix(*beginning).is_some_and(is_random);
    let any = |of: fn(&u8) -> bool| word.bytes().any(|byte| of(&byte));
    let jumbled = word.len() >= LONG
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && any(u8::is_ascii_digit)
        && any(u8::is_ascii_uppercase)
        && any(u8::is_ascii_lowercase);
    jumbled || BEGINNINGS.iter().any(begins)
}

/// Whether what follows a beginning was not thought of by a person: somewhere it goes on and on without a break.
fn is_random(rest: &str) -> bool {
    let mut runs = rest.split(|letter: char| !letter.is_ascii_alphanumeric());
    runs.any(|run| run.len() >= REST && run.bytes().any(|byte| byte.is_ascii_digit()))
}

/// Whether a word is an address with a user and a password.
fn has_password(word: &str) -> bool {
    let Some((_, place)) = word.split_once("://") else { return false };
    let host = place.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = host.rsplit_once('@') else { return false };
    user.split_once(':')
        .is_some_and(|(_, password)| !password.is_empty() && !password.starts_with(['$', '{', '<', '*', '…']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_passwords_are_recognised() {
        // Put together here, so that nobody who looks for keys in this file finds one.
        let random = "a1b2c3d4e5f6g7h8i9j0";
        for text in [
            &format!("The key is sk-{random}."),
            &format!("use ghp_{random} for the API"),
            &format!("AWS=AKIA{}", random.to_uppercase()),
            "-----BEGIN RSA PRIVATE KEY-----\nMII",
            "postgres://shop:hunter2@db.internal/shop",
            &format!("token {}", "A1b2C3d4".repeat(4)),
            &format!("eyJ{random}.eyJ{random}"),
        ] {
            assert!(credential_in(text).is_some(), "{text}");
        }
    }

    #[test]
    fn what_only_speaks_of_them_is_none() {
        for text in [
            "scikit-learn is imported as sk-learn-1.5.2-beta-with-extras",
            "npm_config_user_agent2 is set by npm",
            "STRIPE_KEY is read from the environment, never from a file.",
            "Commit 9fceb02d0ae598e95dc970b74767f19372d61af8 broke the build.",
            "postgres://shop:$PASSWORD@db/shop and https://git@forge.example/shop.git",
            "eyJ is how tokens begin; keys of Stripe begin with sk_live_",
            "error[E0277] in crates/money/src/sum_money_of_all_orders_and_invoices_2.rs",
            "node_modules/.pnpm/typescript@5.6.2/node_modules",
        ] {
            assert_eq!(credential_in(text), None, "{text}");
        }
    }
}
