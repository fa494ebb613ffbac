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

/// So many letters of a value tell what it is; where there are more, it goes on.
const LONGEST: usize = 300;
/// Most letters between the name of a secret and the mark before its value.
const AFTER_NAME: usize = 40;
/// A value of an assignment has at least so many letters.
const VALUE: usize = 20;
/// And at least so many bits of surprise in each.
const BITS: f64 = 3.5;

/// Everything in a line that looks like a secret: what it looks like, and as much of it as can be shown. It takes time in
/// proportion to the line, however long that is: nothing is looked at further than [`LONGEST`], or twice.
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
        found.extend(passwords(line).map(|shown| ("an address with a password", shown)));
    }
    if found.is_empty() {
        found.extend(assignment(line).map(|shown| ("a value that looks random", shown)));
    }
    found.dedup();
    found
}

/// How many letters at the beginning of a text are of this kind; no more than [`LONGEST`] are counted.
fn run(text: &str, is: impl Fn(u8) -> bool) -> usize {
    text.bytes().take(LONGEST).take_while(|byte| is(*byte)).count()
}

/// Where a text stands in a line, from the left. Whoever looks says how far they have come.
fn places<'a>(line: &'a str, what: &'a str) -> impl FnMut(usize) -> Option<usize> + 'a {
    move |from| line.get(from..)?.find(what).map(|at| from + at)
}

impl Shape {
    fn find(&self, line: &str) -> Option<String> {
        let (mut next, mut from) = (places(line, self.begins), 0);
        while let Some(at) = next(from) {
            let after = at + self.begins.len();
            from = after;
            // A name such as `task-…` or `desk_live_…` only ends like one.
            let joined = line[..at].ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
            let rest = &line[after..];
            let length = run(rest, |byte| self.letters.has(byte));
            let value = &rest[..length];
            if !joined && length >= self.rest && is_random(value) && !self.stands_in(value) {
                return Some(format!("{}… ({} characters)", self.begins, self.begins.len() + length));
            }
        }
        None
    }

    /// Whether a value of this shape is spelled out as standing for another. Where the letters of a key have no room for words
    /// between marks, nothing is: a key that is published as an example is told like any other, and a person says that it is one.
    fn stands_in(&self, value: &str) -> bool {
        let words = || value.split(['-', '_', '.']).map(str::to_ascii_lowercase);
        match self.letters {
            Letters::Plain | Letters::Capital => false,
            Letters::Dashed | Letters::Dotted => {
                words().any(|word| STAND_INS.contains(&word.as_str())) || is_placeholder(value)
            }
        }
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
    let (mut next, mut from) = (places(line, "eyJ"), 0);
    while let Some(at) = next(from) {
        let length = line[at..].bytes().take_while(|byte| Letters::Dotted.has(*byte)).count();
        let parts: Vec<&str> = line[at..at + length].split('.').collect();
        let whole = parts.windows(3).find(|parts| {
            let [head, claims, sum] = parts else { return false };
            let token = head.find("eyJ").is_some_and(|at| !stands_in(&head[at..]));
            token && claims.starts_with("eyJ") && sum.len() >= 20 && !stands_in(claims) && !stands_in(sum)
        });
        if let Some(parts) = whole {
            let length: usize = parts.iter().map(|part| part.len() + 1).sum();
            return Some(format!("eyJ… ({} characters)", length - 1));
        }
        from = at + length;
    }
    None
}

/// The first address with a password in a line.
fn passwords(line: &str) -> Option<String> {
    let (mut next, mut from) = (places(line, "://"), 0);
    while let Some(at) = next(from) {
        from = at + 3;
        if let Some(shown) = password(&line[..at], &line[from..]) {
            return Some(shown);
        }
    }
    None
}

/// An address with a user and a password that is no variable.
fn password(before: &str, place: &str) -> Option<String> {
    let length = run(place, |byte| !b"/?# \"'`<".contains(&byte));
    let (user, host) = place.get(..length)?.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    let variable = password.starts_with(['$', '{', '<', '*', '…', '%', '#', '[']) || password.is_empty();
    let weak = ["password", "pass", "postgres", "root", "user", "admin", "test", "guest", "secret"];
    let local =
        ["localhost", "127.0.0.1", "db", "postgres"].iter().any(|name| host.split(':').next() == Some(*name));
    if variable || stands_in(password) || (local && weak.contains(&password)) {
        return None;
    }
    let scheme: String = before.chars().rev().take(20).take_while(char::is_ascii_alphanumeric).collect();
    let scheme: String = scheme.chars().rev().collect();
    Some(format!("{scheme}://…:…@… (a password of {} characters)", password.chars().count()))
}

/// `name = "value"` where the name is that of a secret and the value was not thought of by a person.
fn assignment(line: &str) -> Option<String> {
    let low = line.to_ascii_lowercase();
    for name in NAMES {
        let (mut next, mut from) = (places(&low, name), 0);
        while let Some(at) = next(from) {
            from = at + name.len();
            let after = &line[from..];
            let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || b"_-\"' ]".contains(&byte);
            let marks = after.bytes().take(AFTER_NAME).take_while(|byte| goes_on(*byte)).count();
            let Some(value) = after[marks..].strip_prefix([':', '=']) else { continue };
            let marks = run(value, |byte| b"=>: ".contains(&byte));
            let value = value[marks..].trim_start_matches(['"', '\'', '`']);
            let length = run(value, is_of_value);
            let (value, rest) = value.split_at(length);
            // What was looked at as a value is not looked at again.
            from = line.len() - rest.len();
            // A call, a place or a variable is no value.
            let closed = length == LONGEST
                || rest.is_empty()
                || rest.starts_with(['"', '\'', '`', ' ', ',', ';', '\r', ')', '}']);
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
            // Also those that are made up or published: a person says that they are.
            ("AKIAIOSFODNN7EXAMPLE".to_owned(), "an AWS access key"),
            (format!("ghp_{}{}", "1234567890", "abcdefABCDEF1234567890abcdef"), "a GitHub token"),
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
            "sk-ant-api03-your-key-goes-here-0123456789",
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
    fn all_of_a_long_line_is_looked_at_in_time_that_grows_with_it() {
        let random = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
        let filler = "var a=b(c);".repeat(20_000);
        for (told, kind) in [
            (format!("ghp_{random}"), "a GitHub token"),
            (format!("x=eyJ.eyJ;y='eyJ{random}.eyJ{random}.{random}'"), "a JSON web token"),
            ("u='https://a.b/c',v='https://shop:hunter2@h'".to_owned(), "an address with a password"),
            (format!("token=1,b={{password:\"{random}\"}}"), "a value that looks random"),
        ] {
            assert_eq!(kinds(&format!("{filler}{told};{filler}")), [kind], "{told}");
        }
        let began = std::time::Instant::now();
        for piece in ["sk-or-", "eyJ", "eyJ.", "token=", "token ", "a://b:", "SG.", "secret=secret:"] {
            of(&piece.repeat(500_000 / piece.len()));
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
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
