//! A secret: its value, the hosts it is for, and the one place in a request where it may stand.

use std::fmt;
use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::rules::{Host, Pattern};
use super::scrub::Scrubber;
use crate::Error;
use crate::base64;

/// Headers that frame or route a request: a secret there would do something else than prove who asks.
const NOT_FOR_SECRETS: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "accept-encoding",
];

/// The most that a value may have; more does not fit into a request's head.
const LONGEST: usize = 16 << 10;

/// A secret with its value. It cannot be printed.
#[derive(Clone)]
pub struct Secret {
    name: String,
    hosts: Vec<Pattern>,
    form: Form,
    value: Arc<Value>,
    placeholder: Option<String>,
}

/// Where in a request a secret may stand.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Bearer,
    Basic,
    Header(HeaderName),
}

/// Gives the value of a secret that the server keeps under a name; otherwise what is wrong, and what to do.
pub type Stored<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, (String, String)>;

/// Overwritten before its memory is given back.
struct Value(Vec<u8>);

impl Drop for Value {
    fn drop(&mut self) {
        for byte in &mut self.0 {
            // SAFETY: a reference is valid for writes. Volatile, so that it is not left out as useless.
            unsafe { std::ptr::write_volatile(byte, 0) };
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).field("form", &self.form).finish_non_exhaustive()
    }
}

impl Secret {
    /// Reads a secret's value from where the recipe says it is.
    pub fn read(recipe: &protocol::Secret, stored: Stored<'_>) -> Result<Self, Error> {
        let name = &recipe.name;
        let wrong = |why: String, hint: &str| Error::Build {
            message: format!("the secret {name:?} cannot be used: {why}"),
            hint: hint.to_owned(),
        };
        if !is_variable(name) || super::proxy::OWN_VARIABLES.contains(&name.as_str()) {
            let why = "its name is no variable that is free inside".to_owned();
            return Err(wrong(why, "use letters, digits and _, such as GITHUB_TOKEN"));
        }
        if recipe.hosts.is_empty() {
            return Err(wrong(
                "it is for no host".to_owned(),
                "name its hosts: hosts = [\"api.github.com\"]",
            ));
        }
        let mut hosts = Vec::new();
        for text in &recipe.hosts {
            let pattern = match Pattern::parse(text) {
                Ok(Pattern::Host(Host::Address(_))) => {
                    Err("a secret is for a name, not for an address".to_owned())
                }
                other => other,
            };
            let hint = "write a host such as \"api.github.com\", or \"*.example.com\", without a port";
            hosts.push(pattern.map_err(|why| wrong(format!("its host {text:?}: {why}"), hint))?);
        }
        let form = Form::parse(&recipe.form).ok_or_else(|| {
            wrong(format!("it has no form {:?}", recipe.form), "use bearer, basic or header:NAME")
        })?;
        let value = match (&recipe.env, &recipe.file, &recipe.secret) {
            (Some(variable), None, None) => {
                std::env::var_os(variable).map(std::os::unix::ffi::OsStringExt::into_vec).ok_or_else(
                    || wrong(format!("the server has no variable {variable}"), "set it and start again"),
                )?
            }
            (None, None, Some(name)) => stored(name).map_err(|(why, hint)| wrong(why, &hint))?,
            (None, Some(file), None) => std::fs::read(file).map_err(|error| {
                wrong(format!("{file} cannot be read: {error}"), "make it readable for the server")
            })?,
            _ => {
                return Err(wrong(
                    "its value comes from exactly one place".to_owned(),
                    "give one of env = \"VARIABLE\", file = \"PATH\" and secret = \"NAME\"",
                ));
            }
        };
        let value = Value(value);
        let line = value.0.strip_suffix(b"\n").unwrap_or(&value.0);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Err(wrong("its value is empty".to_owned(), "put the value where the recipe says it is"));
        }
        if line.len() > LONGEST || line.iter().any(|byte| byte.is_ascii_control()) {
            let why = "its value does not fit into one line of a request".to_owned();
            return Err(wrong(why, "a value is one line without control characters, of at most 16 KiB"));
        }
        Ok(Self { name: name.clone(), hosts, form, value: Arc::new(Value(line.to_vec())), placeholder: None })
    }

    /// The same secret, with what stands for it inside. Without, each proxy makes up its own.
    pub fn known_as(self, placeholder: String) -> Self {
        Self { placeholder: Some(placeholder), ..self }
    }

    pub(super) fn placeholder(&self) -> Option<&str> {
        self.placeholder.as_deref()
    }

    /// All that a sandbox can notice of it, in words: its name, what stands for it, where it goes. Never the value.
    pub(crate) fn words(&self) -> Vec<String> {
        let form = match &self.form {
            Form::Bearer => "bearer".to_owned(),
            Form::Basic => "basic".to_owned(),
            Form::Header(name) => format!("header:{name}"),
        };
        let mut hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        hosts.sort_unstable();
        let placeholder = self.placeholder.clone().unwrap_or_default();
        [self.name.clone(), placeholder, form].into_iter().chain(hosts).collect()
    }

    /// The variable inside.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether its value stands in a text, in one of the spellings that are looked for in answers too.
    pub fn is_told_in(&self, text: &str) -> bool {
        let mut scrubber = Scrubber::default();
        scrubber.add(self.value(), "");
        !scrubber.runs(text.as_bytes(), text.len(), None).is_empty()
    }

    /// Whether it is for this host.
    pub(super) fn is_for(&self, host: &Host) -> bool {
        self.hosts.iter().any(|pattern| pattern.covers(host))
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value.0
    }

    /// The header with the value in place of the placeholder, if it stands exactly where it may.
    pub(super) fn put(
        &self,
        header: &HeaderName,
        value: &HeaderValue,
        placeholder: &str,
    ) -> Option<HeaderValue> {
        let put = match &self.form {
            Form::Header(name) if name == header => {
                (value.as_bytes() == placeholder.as_bytes()).then(|| self.value().to_vec())
            }
            Form::Bearer if header == AUTHORIZATION => {
                let (scheme, rest) = split_scheme(value)?;
                let known = scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token");
                (known && rest == placeholder).then(|| [scheme.as_bytes(), b" ", self.value()].concat())
            }
            Form::Basic if header == AUTHORIZATION => {
                let (scheme, rest) = split_scheme(value)?;
                let pair = base64::decode(rest).filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
                let colon = pair.iter().position(|byte| *byte == b':')?;
                let (user, password) = (&pair[..colon], &pair[colon + 1..]);
                let swap = |part: &[u8]| match part == placeholder.as_bytes() {
                    true => self.value().to_vec(),
                    false => part.to_vec(),
                };
                let swapped = [swap(user), b":".to_vec(), swap(password)].concat();
                (swapped != pair).then(|| format!("{scheme} {}", base64::encode(&swapped)).into_bytes())
            }
            Form::Header(_) | Form::Bearer | Form::Basic => None,
        }?;
        let mut header = HeaderValue::from_bytes(&put).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

fn split_scheme(value: &HeaderValue) -> Option<(&str, &str)> {
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    Some((scheme, rest.trim_matches(' ')))
}

impl Form {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "bearer" => Some(Self::Bearer),
            "basic" => Some(Self::Basic),
            other => {
                let name = other.strip_prefix("header:")?.to_ascii_lowercase();
                let framing = NOT_FOR_SECRETS.contains(&name.as_str()) || name.starts_with("proxy-");
                name.parse().ok().filter(|_| !framing).map(Self::Header)
            }
        }
    }
}

fn is_variable(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
        && !name.starts_with("LD_")
        && name != "PATH"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(file: &std::path::Path, form: &str) -> protocol::Secret {
        protocol::Secret {
            name: "TOKEN".to_owned(),
            env: None,
            file: Some(file.to_str().unwrap().to_owned()),
            secret: None,
            hosts: vec!["api.test".to_owned(), "*.api.test".to_owned()],
            form: form.to_owned(),
        }
    }

    /// A store with one secret.
    fn stored(name: &str) -> Result<Vec<u8>, (String, String)> {
        match name {
            "KEPT" => Ok(b"kept-value".to_vec()),
            _ => Err(("there is none".to_owned(), "set it".to_owned())),
        }
    }

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    #[test]
    fn a_value_is_one_line_and_is_not_printed() {
        let file = file(b"canary-value\n");
        let secret = Secret::read(&recipe(file.path(), "bearer"), &stored).unwrap();
        assert_eq!(secret.value(), b"canary-value");
        let kept =
            protocol::Secret { file: None, secret: Some("KEPT".to_owned()), ..recipe(file.path(), "bearer") };
        assert_eq!(Secret::read(&kept, &stored).unwrap().value(), b"kept-value");
        assert!(!format!("{secret:?}").contains("canary"), "{secret:?}");
        assert!(secret.is_for(&Host::parse("API.test").unwrap()));
        assert!(secret.is_for(&Host::parse("a.api.test").unwrap()));
        assert!(!secret.is_for(&Host::parse("other.test").unwrap()));
    }

    #[test]
    fn errors_say_what_is_wrong_and_never_the_value() {
        let good = file(b"canary-value");
        let base = recipe(good.path(), "bearer");
        let (empty, lines) = (file(b"\n"), file(b"canary\nvalue"));
        let change = |change: &dyn Fn(&mut protocol::Secret)| {
            let mut changed = base.clone();
            change(&mut changed);
            changed
        };
        for (recipe, says) in [
            (change(&|s| s.name = "1X".to_owned()), "no variable"),
            (change(&|s| s.name = "HTTP_PROXY".to_owned()), "no variable"),
            (change(&|s| s.hosts.clear()), "for no host"),
            (change(&|s| s.hosts = vec!["1.1.1.1".to_owned()]), "not for an address"),
            (change(&|s| s.hosts = vec!["a.test:443".to_owned()]), "without a port"),
            (change(&|s| s.form = "query".to_owned()), "no form"),
            (change(&|s| s.form = "header:Host".to_owned()), "no form"),
            (change(&|s| s.env = Some("X".to_owned())), "exactly one place"),
            (change(&|s| s.file = None), "exactly one place"),
            (change(&|s| s.secret = Some("KEPT".to_owned())), "exactly one place"),
            (
                change(&|s| {
                    s.file = None;
                    s.secret = Some("OTHER".to_owned());
                }),
                "there is none",
            ),
            (change(&|s| s.file = Some("/nonexistent/secret".to_owned())), "cannot be read"),
            (recipe(empty.path(), "bearer"), "is empty"),
            (recipe(lines.path(), "bearer"), "one line"),
        ] {
            let error = Secret::read(&recipe, &stored).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_placeholder_is_swapped_only_where_it_may_stand() {
        let file = file(b"value");
        let swapped = |form: &str, header: &'static str, text: &str| {
            let secret = Secret::read(&recipe(file.path(), form), &stored).unwrap();
            let put = secret.put(&HeaderName::from_static(header), &text.parse().unwrap(), "PLACE")?;
            Some(put.to_str().unwrap().to_owned())
        };
        let basic = |pair: &str| format!("Basic {}", base64::encode(pair.as_bytes()));
        assert_eq!(swapped("bearer", "authorization", "Bearer PLACE").unwrap(), "Bearer value");
        assert_eq!(swapped("bearer", "authorization", "token PLACE").unwrap(), "token value");
        assert_eq!(swapped("basic", "authorization", &basic("me:PLACE")).unwrap(), basic("me:value"));
        assert_eq!(swapped("basic", "authorization", &basic("PLACE:")).unwrap(), basic("value:"));
        assert_eq!(swapped("header:X-Key", "x-key", "PLACE").unwrap(), "value");
        for (form, header, text) in [
            ("bearer", "authorization", "Bearer PLACEX".to_owned()),
            ("bearer", "authorization", "PLACE".to_owned()),
            ("bearer", "x-key", "Bearer PLACE".to_owned()),
            ("bearer", "authorization", basic("me:PLACE")),
            ("basic", "authorization", "Bearer PLACE".to_owned()),
            ("basic", "authorization", basic("me:xPLACE")),
            ("basic", "authorization", "Basic %%%".to_owned()),
            ("header:X-Key", "authorization", "PLACE".to_owned()),
        ] {
            assert_eq!(swapped(form, header, &text), None, "{form} {header} {text}");
        }
    }
}
