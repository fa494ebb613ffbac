//! What goes out is looked through line by line: a line with the value of a secret that is known here, or with what looks like
//! one, is left out, and that is said.

use std::sync::Arc;

use super::Described;
use crate::Options;
use crate::runner::Context;

/// What begins what stands in place of a secret.
pub(crate) const LEFT_OUT: &str = "(left out: ";

/// A pull request's words without secrets.
pub(super) async fn described(context: &Context, described: Described) -> Described {
    let Described { title, body } = described;
    let (title, body) = (redacted(context, title).await, redacted(context, body).await);
    let title = title.lines().next().unwrap_or_default().to_owned();
    Described { title, body }
}

/// A text of a session without secrets.
pub(crate) async fn redacted(context: &Context, words: String) -> String {
    text(&context.options, context.workspace.secrets().to_vec(), words).await
}

/// A text without secrets. Where it cannot be looked through, nothing of it goes out.
pub(super) async fn text(options: &Arc<Options>, recipes: Vec<protocol::Secret>, text: String) -> String {
    let options = Arc::clone(options);
    let told = move |text: &str| crate::secrets::told_in(&options, &recipes, text);
    let cleaned = tokio::task::spawn_blocking(move || clean(&text, &told)).await;
    cleaned.unwrap_or_else(|error| {
        tracing::error!(%error, "a text could not be looked through for secrets");
        "(left out: it could not be looked through for secrets)".to_owned()
    })
}

fn clean(text: &str, told: &dyn Fn(&str) -> Option<String>) -> String {
    let known = told(text).is_some();
    let mut lines: Vec<String> = Vec::new();
    let mut in_key = false;
    for line in text.lines() {
        let begins = line.contains("-----BEGIN ") && line.contains("PRIVATE KEY");
        if in_key || begins {
            if begins && !in_key {
                lines.push("(left out: a private key)".to_owned());
            }
            in_key = !line.contains("-----END ");
            continue;
        }
        let found =
            checks::secret_in(line).map(str::to_owned).or_else(|| known.then(|| told(line)).flatten());
        match found {
            Some(what) => lines.push(format!("{LEFT_OUT}{what})")),
            None => lines.push(line.to_owned()),
        }
    }
    let mut cleaned = lines.join("\n");
    if text.ends_with('\n') {
        cleaned.push('\n');
    }
    // A value of several lines is in none of them.
    match known.then(|| told(&cleaned)).flatten() {
        Some(what) => format!("{LEFT_OUT}{what})\n"),
        None => cleaned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_secrets_are_left_out() {
        let told = |text: &str| text.contains("hunter2").then(|| "the secret DB".to_owned());
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0");
        let text = format!("one\nuse {token}\nit is hunter2!\nlast\n");
        assert_eq!(clean(&text, &told), "one\n(left out: a GitHub token)\n(left out: the secret DB)\nlast\n");
        assert_eq!(clean("plain\n\ntext", &|_| None), "plain\n\ntext");
    }

    #[test]
    fn a_key_is_left_out_whole() {
        let text = "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nb";
        assert_eq!(clean(text, &|_| None), "a\n(left out: a private key)\nb");
        assert_eq!(clean("-----BEGIN PRIVATE KEY-----\nMIIE", &|_| None), "(left out: a private key)");
    }

    #[test]
    fn a_value_of_several_lines_takes_everything_with_it() {
        let told = |text: &str| text.contains("one\ntwo").then(|| "the secret K".to_owned());
        assert_eq!(clean("x\none\ntwo\n", &told), "(left out: the secret K)\n");
    }
}
