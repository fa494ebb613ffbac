//! What keys, tokens and passwords look like in a line.

/// A beginning that a service gives its keys, and what follows it.
struct Shape {
    kind: &'static str,
    begins: &'static str,
    /// At least so many letters follow.
    rest: usize,
    letters: Letters,
}

#[derive(Clone, Copy)]
enum Letters {
    /// Letters and digits.
    Plain,
    /// Also `-` and `_`.
    Dashed,
    /// Also dots.
    Dotted,
    /// Capital letters and digits.
    Capital,
}

const fn shape(kind: &'static str, begins: &'static str, rest: usize, letters: Letters) -> Shape {
    Shape { kind, begins, rest, letters }
}

const SHAPES: [Shape; 46] = [
    shape("a GitHub token", "ghp_", 30, Letters::Plain),
    shape("a GitHub token", "gho_", 30, Letters::Plain),
    shape("a GitHub token", "ghu_", 30, Letters::Plain),
    shape("a GitHub token", "ghs_", 30, Letters::Plain),
    shape("a GitHub token", "ghr_", 30, Letters::Plain),
    shape("a GitHub token", "github_pat_", 30, Letters::Dashed),
    shape("a GitLab token", "glpat-", 16, Letters::Dashed),
    shape("a GitLab token", "gldt-", 16, Letters::Dashed),
    shape("a GitLab token", "glrt-", 16, Letters::Dashed),
    shape("a GitLab token", "glptt-", 16, Letters::Dashed),
    shape("an AWS access key", "AKIA", 16, Letters::Capital),
    shape("an AWS access key", "ASIA", 16, Letters::Capital),
    shape("a Google API key", "AIza", 30, Letters::Dashed),
    shape("a Google OAuth token", "ya29.", 20, Letters::Dashed),
    shape("a Slack token", "xoxb-", 20, Letters::Dashed),
    shape("a Slack token", "xoxp-", 20, Letters::Dashed),
    shape("a Slack token", "xoxa-", 20, Letters::Dashed),
    shape("a Slack token", "xoxs-", 20, Letters::Dashed),
    shape("a Slack token", "xapp-", 20, Letters::Dashed),
    shape("an Anthropic key", "sk-ant-", 20, Letters::Dashed),
    shape("an OpenAI key", "sk-proj-", 20, Letters::Dashed),
    shape("an OpenRouter key", "sk-or-", 20, Letters::Dashed),
    shape("an API key", "sk-", 32, Letters::Plain),
    shape("a Stripe key", "sk_live_", 16, Letters::Plain),
    shape("a Stripe key", "rk_live_", 16, Letters::Plain),
    shape("a Stripe key", "sk_test_", 16, Letters::Plain),
    shape("a webhook secret", "whsec_", 20, Letters::Plain),
    shape("a Hugging Face token", "hf_", 30, Letters::Plain),
    shape("a Groq key", "gsk_", 30, Letters::Plain),
    shape("an xAI key", "xai-", 30, Letters::Plain),
    shape("a Perplexity key", "pplx-", 30, Letters::Plain),
    shape("an NVIDIA key", "nvapi-", 30, Letters::Dashed),
    shape("an npm token", "npm_", 30, Letters::Plain),
    shape("a PyPI token", "pypi-AgEI", 30, Letters::Dashed),
    shape("a DigitalOcean token", "dop_v1_", 40, Letters::Plain),
    shape("a SendGrid key", "SG.", 40, Letters::Dotted),
    shape("a Shopify token", "shpat_", 30, Letters::Plain),
    shape("a Shopify token", "shpss_", 30, Letters::Plain),
    shape("a Vault token", "hvs.", 24, Letters::Dashed),
    shape("a Tailscale key", "tskey-", 20, Letters::Dashed),
    shape("an age key", "AGE-SECRET-KEY-1", 40, Letters::Capital),
    shape("a Docker token", "dckr_pat_", 20, Letters::Dashed),
    shape("a Databricks token", "dapi", 32, Letters::Plain),
    shape("a Linear key", "lin_api_", 30, Letters::Plain),
    shape("a Notion token", "secret_", 40, Letters::Plain),
    shape("a Doppler token", "dp.pt.", 30, Letters::Plain),
];

/// Words in the name of what holds a secret.
const NAMES: [&str; 12] = [
    "secret",
    "token",
    "passwd",
    "password",
    "api_key",
    "apikey",
    "api-key",
    "private_key",
    "access_key",
    "accesskey",
    "credential",
    "auth_key",
];

/// Words in a value that stands for another.
const STAND_INS: [&str; 14] = [
    "example",
    "changeme",
    "change_me",
    "placeholder",
    "redacted",
    "dummy",
    "sample",
    "your",
    "xxxx",
    "todo",
    "insert",
    "replace",
    "0000000",
    "1234567890",
];

/// A value of an assignment has at least so many letters.
const VALUE: usize = 20;
/// And at least so many bits of surprise in each.
const BITS: f64 = 3.5;

/// Everything in a line that looks like a secret: what it looks like, and as much of it as can be shown.
pub(super) fn of(line: &str) -> Vec<(&'static str, String)> {
    if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY") {
        return vec![("a private key", "-----BEGIN … PRIVATE KEY-----".to_owned())];
    }
    let mut found = Vec::new();
    for shape in &SHAPES {
        found.extend(shape.find(line).map(|shown| (shape.kind, shown)));
    }
    if found.is_empty() {
        found.extend(web_token(line).map(|shown| ("a JSON web token", shown)));
    }
    if found.is_empty() {
        found.extend(password(line).map(|shown| ("an address with a password", shown)));
    }
    if found.is_empty() {
        found.extend(assignment(line).map(|shown| ("a value that looks random", shown)));
    }
    found.dedup();
    found
}

impl Shape {
    fn find(&self, line: &str) -> Option<String> {
        let mut from = 0;
        while let Some(at) = line.get(from..).and_then(|rest| rest.find(self.begins)).map(|at| from + at) {
            let after = at + self.begins.len();
            from = after;
            // A name such as `task-…` or `desk_live_…` only ends like one.
            let joined = line[..at].ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
            let rest = &line[after..];
            let length = rest.bytes().take_while(|byte| self.letters.has(*byte)).count();
            let value = &rest[..length];
            if !joined && length >= self.rest && is_random(value) && !stands_in(value) {
                return Some(format!("{}… ({} characters)", self.begins, self.begins.len() + length));
            }
        }
        None
    }
}

impl Letters {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Plain => byte.is_ascii_alphanumeric(),
            Self::Dashed => byte.is_ascii_alphanumeric() || b"-_".contains(&byte),
            Self::Dotted => byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
            Self::Capital => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        }
    }
}

/// Whether it was not thought of by a person.
fn is_random(value: &str) -> bool {
    let digits = value.bytes().any(|byte| byte.is_ascii_digit());
    let letters = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    digits && letters && bits(value) > 2.5
}

fn stands_in(value: &str) -> bool {
    let low = value.to_ascii_lowercase();
    STAND_INS.iter().any(|word| low.contains(word)) || is_placeholder(value)
}

/// What a sandbox has in place of a secret: `slipway-NAME-` and 32 hexadecimal digits. It is of no use outside of it.
fn is_placeholder(value: &str) -> bool {
    let named = value.strip_prefix("slipway-").and_then(|rest| rest.rsplit_once('-'));
    named.is_some_and(|(_, digits)| {
        digits.len() == 32
            && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

/// Three parts in base64 with dots between them, the first of which says what it is.
fn web_token(line: &str) -> Option<String> {
    let at = line.find("eyJ")?;
    let length = line[at..].bytes().take_while(|byte| Letters::Dotted.has(*byte)).count();
    let token = &line[at..at + length];
    let parts: Vec<&str> = token.split('.').collect();
    let whole = parts.len() == 3 && parts[1].starts_with("eyJ") && parts[2].len() >= 20;
    (whole && !stands_in(token)).then(|| format!("eyJ… ({length} characters)"))
}

/// An address with a user and a password that is no variable.
fn password(line: &str) -> Option<String> {
    let (before, place) = line.split_once("://")?;
    let host = place.split(['/', '?', '#', ' ', '"', '\'', '`', '<']).next()?;
    let (user, host) = host.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    let variable = password.starts_with(['$', '{', '<', '*', '…', '%', '#', '[']) || password.is_empty();
    let weak = ["password", "pass", "postgres", "root", "user", "admin", "test", "guest", "secret"];
    let local =
        ["localhost", "127.0.0.1", "db", "postgres"].iter().any(|name| host.split(':').next() == Some(*name));
    if variable || stands_in(password) || (local && weak.contains(&password)) || user.len() > 400 {
        return None;
    }
    let scheme: String = before.chars().rev().take_while(char::is_ascii_alphanumeric).collect();
    let scheme: String = scheme.chars().rev().collect();
    Some(format!("{scheme}://…:…@… (a password of {} characters)", password.chars().count()))
}

/// `name = "value"` where the name is that of a secret and the value was not thought of by a person.
fn assignment(line: &str) -> Option<String> {
    if line.len() > 2000 {
        return None;
    }
    let low = line.to_ascii_lowercase();
    for name in NAMES {
        let Some(at) = low.find(name) else { continue };
        let after = &line[at + name.len()..];
        let rest = after
            .trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "_-\"' ]".contains(letter));
        let Some(value) = rest.strip_prefix([':', '=']) else { continue };
        let value = value.trim_start_matches(['=', '>', ':', ' ']).trim_start_matches(['"', '\'', '`']);
        let length = value.bytes().take_while(|byte| is_of_value(*byte)).count();
        let (value, next) = value.split_at(length);
        // A call, a place or a variable is no value.
        let closed = next.is_empty() || next.starts_with(['"', '\'', '`', ' ', ',', ';', '\r', ')', '}']);
        let is_value = length >= VALUE
            && closed
            && value.bytes().any(|byte| byte.is_ascii_digit())
            && value.bytes().any(|byte| byte.is_ascii_alphabetic())
            && bits(value) >= BITS
            && !stands_in(value);
        if is_value {
            return Some(format!("{name} = … ({length} characters)"));
        }
    }
    None
}

fn is_of_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte)
}

/// Shannon's entropy of the letters.
fn bits(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = text.len() as f64;
    let share = |count: &u32| {
        let share = f64::from(*count) / all;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(line: &str) -> Vec<&'static str> {
        of(line).into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn keys_of_services_are_known_by_how_they_begin() {
        // Put together here, so that nobody who looks for keys in this file finds one.
        let random = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
        for (line, kind) in [
            (format!("token: ghp_{random}"), "a GitHub token"),
            (format!("GITLAB=glpat-{}", &random[..20]), "a GitLab token"),
            (format!("AWS=AKIA{}", &random.to_uppercase()[..16]), "an AWS access key"),
            (format!("x = 'sk-ant-api03-{random}'"), "an Anthropic key"),
            (format!("x = 'SG.{}.{random}'", &random[..22]), "a SendGrid key"),
            ("-----BEGIN RSA PRIVATE KEY-----".to_owned(), "a private key"),
            (format!("a eyJ{random}.eyJ{random}.{random} b"), "a JSON web token"),
            ("db = postgres://shop:hunter2@db.example.com/shop".to_owned(), "an address with a password"),
            (format!("client_secret = \"{random}\""), "a value that looks random"),
            (format!("\"apiKey\": \"{random}\","), "a value that looks random"),
            (format!("export API_TOKEN={random}"), "a value that looks random"),
        ] {
            assert_eq!(kinds(&line), [kind], "{line}");
            let shown = format!("{:?}", of(&line));
            assert!(!shown.contains(&random[4..20]) && !shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn what_only_speaks_of_them_is_none() {
        for line in [
            "token = os.environ[\"GITHUB_TOKEN\"]",
            "password = get_password_from_the_keychain_of_user1()",
            "api_key = \"YOUR_API_KEY_GOES_HERE_1234\"",
            "AKIAIOSFODNN7EXAMPLE",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "integrity sha512-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0==",
            "checksum = \"9fceb02d0ae598e95dc970b74767f19372d61af8\"",
            "postgres://shop:$PASSWORD@db.example.com/shop",
            "postgres://postgres:postgres@localhost:5432/test",
            "https://git@forge.example/shop.git",
            "the sk-learn-1-5-2-beta-with-many-extras-and-more-words",
            "secret_name = \"projects/shop/secrets/database\"",
            "token: ${{ secrets.GITHUB_TOKEN }}",
            "struct TokenBucket { capacity: u32, refill_per_second: u32 }",
            "password_hash_rounds_for_new_accounts = 12",
            "token: slipway-SHOP_TOKEN-0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        ] {
            assert_eq!(kinds(line), Vec::<&str>::new(), "{line}");
        }
    }

    #[test]
    fn no_line_makes_it_slow_or_fail() {
        for line in
            ["", "=", "token=", "ghp_", "eyJ", "://", "a://b:@c", "secret\u{fffd}=é", &"token=".repeat(300)]
        {
            of(line);
        }
    }
}
