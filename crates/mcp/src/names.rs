//! The names under which models call the tools of servers: `server__tool`, in letters that every provider takes.

use sha2::{Digest as _, Sha256};

/// What stands between the name of a server and that of its tool.
pub const SEPARATOR: &str = "__";
/// Longest name that providers take.
const LONGEST: usize = 64;
/// Longest name of a server, so that most of a name is the tool's.
const SERVER: usize = 24;

/// What is wrong with a name for a server.
pub fn check_name(name: &str) -> Result<(), String> {
    let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let begins = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    if begins && name.len() <= SERVER && name.chars().all(good) {
        return Ok(());
    }
    Err(format!(
        "\"{}\" cannot be the name of an MCP server: use up to {SERVER} lower-case letters, digits and dashes, and begin with a letter",
        name.escape_debug()
    ))
}

/// The name of a server's tool for models. Where letters must be replaced or the name is too long, a sum of the whole name
/// keeps it apart from others, and the same tool has the same name each time.
pub fn namespaced(server: &str, tool: &str) -> String {
    let good = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let clean: String = tool.chars().map(|letter| if good(letter) { letter } else { '_' }).collect();
    let whole = format!("{server}{SEPARATOR}{clean}");
    if clean == tool && !tool.is_empty() && whole.len() <= LONGEST {
        return whole;
    }
    let sum: String =
        Sha256::digest(tool.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let room = LONGEST - sum.len() - 1;
    let begin: String = whole.chars().take(room).collect();
    format!("{begin}_{sum}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_short_and_stable() {
        assert_eq!(namespaced("sentry", "get_issue"), "sentry__get_issue");
        let odd = namespaced("sentry", "issue/get by.id");
        assert_eq!(odd, namespaced("sentry", "issue/get by.id"));
        assert!(odd.starts_with("sentry__issue_get_by_id_"), "{odd}");
        assert_ne!(odd, namespaced("sentry", "issue.get.by.id"), "two names stay two");
        for tool in ["", "é", &"x".repeat(300), "a b"] {
            let name = namespaced("a-server-of-24-letters-x", tool);
            assert!(name.len() <= LONGEST && name.is_ascii(), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name}");
        }
    }

    #[test]
    fn a_server_has_a_plain_name() {
        for name in ["sentry", "s3", "my-server"] {
            check_name(name).unwrap();
        }
        for name in ["", "3s", "a_b", "A", "a b", "-a", &"a".repeat(25)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
