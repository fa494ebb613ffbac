//! `[mcp.NAME]`: MCP servers that environments can name. What holds a secret stays on this machine; what runs in a sandbox is
//! given none.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use mcp::presets::{self, SignIn};
use mcp::{Auth, Filter, Http, Key, Place, Program, Server, Value};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::keys;

/// One server.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Mcp {
    /// A hosted server that is known by name.
    preset: Option<String>,
    /// A program and its arguments.
    command: Vec<String>,
    /// Where the program runs.
    #[serde(rename = "where")]
    place: Option<Where>,
    /// Variables of the program.
    env: BTreeMap<String, Given>,
    /// The address of a server.
    url: Option<String>,
    /// Headers of requests to it.
    headers: BTreeMap<String, Given>,
    token_env: Option<String>,
    token_file: Option<PathBuf>,
    token_secret: Option<String>,
    /// Whether a person signs in.
    oauth: Option<bool>,
    /// A client that was registered by hand.
    client_id: Option<String>,
    /// What is asked for when a person signs in.
    scopes: Vec<String>,
    tools: Vec<String>,
    without: Vec<String>,
    timeout_s: Option<u64>,
}

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Where {
    Sandbox,
    Host,
}

/// A value as it is written, or where it is.
#[derive(Clone, PartialEq)]
struct Given(Value);

/// It may be a secret.
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Found {
            env: Option<String>,
            file: Option<PathBuf>,
            secret: Option<String>,
        }
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Given;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or { env = … }, { file = … } or { secret = … }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Given, E> {
                Ok(Given(Value::Text(text.to_owned())))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Given, A::Error> {
                let found = Found::deserialize(de::value::MapAccessDeserializer::new(map))?;
                match (found.env, found.file, found.secret) {
                    (Some(name), None, None) => Ok(Given(Value::Key(Key::Env(name)))),
                    (None, Some(path), None) => Ok(Given(Value::Key(Key::File(path)))),
                    (None, None, Some(name)) => Ok(Given(Value::Key(Key::Secret(name)))),
                    _ => Err(de::Error::custom("a value is in one place: { env }, { file } or { secret }")),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl Mcp {
    /// The server, or what is wrong with its description.
    pub(crate) fn server(&self, name: &str) -> anyhow::Result<Server> {
        if let Err(why) = mcp::check_name(name) {
            bail!("[mcp.{}]: {why}", name.escape_debug());
        }
        if self.timeout_s == Some(0) {
            bail!("[mcp.{name}] timeout_s is 1 or more seconds");
        }
        let place = match (self.command.is_empty(), self.url.is_some() || self.preset.is_some()) {
            (false, false) => self.program(name)?,
            (true, true) => Place::Http(self.http(name)?),
            (false, true) => bail!("[mcp.{name}] has a command and an address (url or preset): keep one"),
            (true, false) => bail!(
                "[mcp.{name}] says nothing of where it is: give it preset = \"…\" (one of {}), url = \"https://…\", or command = [\"…\"]",
                presets::names()
            ),
        };
        Ok(Server {
            name: name.to_owned(),
            place,
            filter: Filter { only: self.tools.clone(), without: self.without.clone() },
            timeout: self.timeout_s.map_or(mcp::TIMEOUT, Duration::from_secs),
        })
    }

    fn program(&self, name: &str) -> anyhow::Result<Place> {
        let of_addresses = [
            ("headers", !self.headers.is_empty()),
            ("token_env", self.token_env.is_some()),
            ("token_file", self.token_file.is_some()),
            ("token_secret", self.token_secret.is_some()),
            ("oauth", self.oauth.is_some()),
            ("client_id", self.client_id.is_some()),
            ("scopes", !self.scopes.is_empty()),
        ];
        if let Some((key, _)) = of_addresses.iter().find(|(_, set)| *set) {
            bail!(
                "[mcp.{name}] {key} is for servers behind an address; a program has env = {{ NAME = {{ secret = \"…\" }} }}"
            );
        }
        let program = Program { command: self.command.clone(), env: self.values(name, "env", &self.env)? };
        match self.place.unwrap_or(Where::Sandbox) {
            Where::Host => Ok(Place::Host(program)),
            Where::Sandbox => match program.env.iter().find(|(_, value)| matches!(value, Value::Key(_))) {
                Some((variable, _)) => bail!(
                    "[mcp.{name}] env: {variable} is a secret, and none goes into a sandbox\n  \
                     give the environment secrets = [{{ name = \"{variable}\", … , hosts = […] }}]: then the program finds a \
                     placeholder in that variable, which is replaced on its way out; or run the program on this machine with \
                     where = \"host\""
                ),
                None => Ok(Place::Sandbox(program)),
            },
        }
    }

    fn http(&self, name: &str) -> anyhow::Result<Http> {
        if self.place.is_some() || !self.env.is_empty() {
            bail!("[mcp.{name}] where and env are for programs (command), and this one has an address");
        }
        let preset = match &self.preset {
            Some(wanted) => match presets::find(wanted) {
                Some(preset) => Some(preset),
                None => bail!(
                    "[mcp.{name}] preset = \"{wanted}\" is not known; the presets are: {}",
                    presets::names()
                ),
            },
            None => None,
        };
        let url = self.url.clone().or_else(|| preset.map(|preset| preset.url.to_owned())).unwrap_or_default();
        if let Err(error) = mcp::check_url(&url) {
            bail!("[mcp.{name}]: {error}");
        }
        let headers = self.values(name, "headers", &self.headers)?;
        Ok(Http { auth: self.auth(name, preset.map(|preset| preset.sign_in))?, url, headers })
    }

    fn auth(&self, name: &str, preset: Option<SignIn>) -> anyhow::Result<Auth> {
        let tokens = [
            self.token_env.clone().map(|name| ("token_env", Key::Env(name))),
            self.token_file.clone().map(|path| ("token_file", Key::File(path))),
            self.token_secret.clone().map(|name| ("token_secret", Key::Secret(name))),
        ];
        let mut tokens: Vec<(&str, Key)> = tokens.into_iter().flatten().collect();
        if let [(one, _), (other, _), ..] = tokens.as_slice() {
            bail!("[mcp.{name}] has {one} and {other}: keep one");
        }
        if let Some((setting, key)) = tokens.pop() {
            if self.oauth == Some(true) {
                bail!("[mcp.{name}] has {setting} and oauth = true: keep one");
            }
            check_key(&format!("[mcp.{name}] {setting}"), &key)?;
            return Ok(Auth::Token(key));
        }
        let by_headers = !self.headers.is_empty();
        let signs_in = self.oauth.unwrap_or(preset == Some(SignIn::OAuth) && !by_headers);
        if signs_in {
            return Ok(Auth::OAuth { client_id: self.client_id.clone(), scopes: self.scopes.clone() });
        }
        if self.client_id.is_some() || !self.scopes.is_empty() {
            bail!("[mcp.{name}] client_id and scopes are for oauth = true");
        }
        if preset == Some(SignIn::Token) && !by_headers {
            bail!(
                "[mcp.{name}] needs a token: token_env, token_file, or token_secret with `slipway secret set NAME`"
            );
        }
        Ok(Auth::None)
    }

    /// Values with what is rather a secret refused.
    fn values(
        &self,
        name: &str,
        what: &str,
        given: &BTreeMap<String, Given>,
    ) -> anyhow::Result<BTreeMap<String, Value>> {
        let mut values = BTreeMap::new();
        for (key, Given(value)) in given {
            let setting = format!("[mcp.{name}] {what}: {key}");
            match value {
                Value::Text(text) => {
                    let bare = text.strip_prefix("Bearer ").unwrap_or(text);
                    if keys::looks_like_key(bare) || key.eq_ignore_ascii_case("authorization") {
                        bail!(
                            "{setting} looks like a secret, and none is written here\n  \
                             write {{ env = \"VARIABLE\" }}, {{ file = \"/path\" }} or {{ secret = \"NAME\" }} in its place; for a \
                             token of an address token_env, token_file or token_secret"
                        );
                    }
                }
                Value::Key(found) => check_key(&setting, found)?,
            }
            values.insert(key.clone(), value.clone());
        }
        Ok(values)
    }

    /// Paths are relative to the file that they stand in.
    pub(super) fn resolve_paths(&mut self, dir: Option<&Path>) -> anyhow::Result<()> {
        let given = self.env.values_mut().chain(self.headers.values_mut());
        let files = given.filter_map(|Given(value)| match value {
            Value::Key(Key::File(path)) => Some(path),
            Value::Key(Key::Env(_) | Key::Secret(_)) | Value::Text(_) => None,
        });
        for path in files.chain(self.token_file.as_mut()) {
            if let Some(text) = path.to_str() {
                *path = super::resolve(text, dir)?.into();
            }
        }
        Ok(())
    }
}

fn check_key(setting: &str, key: &Key) -> anyhow::Result<()> {
    match key {
        Key::Env(name) => keys::check_variable(setting, name),
        Key::Secret(name) => {
            keys::check_secret(setting, name)?;
            match store::Secrets::check_name(name) {
                Ok(()) => Ok(()),
                Err(error) => bail!("{setting}: {}", error.advice()),
            }
        }
        Key::File(_) => Ok(()),
    }
}

/// All servers of a configuration, by name.
pub(crate) fn servers(all: &BTreeMap<String, Mcp>) -> anyhow::Result<Vec<Server>> {
    all.iter().map(|(name, one)| one.server(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(text: &str) -> anyhow::Result<Server> {
        let config = Config::parse(&format!("[mcp.one]\n{text}"))?;
        config.mcp["one"].server("one")
    }

    #[test]
    fn a_program_runs_in_the_sandbox_unless_it_is_said() {
        let program = |server: Server| match server.place {
            Place::Sandbox(program) => ("sandbox", program),
            Place::Host(program) => ("host", program),
            Place::Http(_) => panic!(),
        };
        let (place, inside) = program(read("command = [\"a\", \"b\"]\nenv = { X = \"y\" }").unwrap());
        assert_eq!((place, inside.command.len(), inside.env.len()), ("sandbox", 2, 1));
        let (place, outside) =
            program(read("command = [\"a\"]\nwhere = \"host\"\nenv = { X = { secret = \"K\" } }").unwrap());
        assert_eq!((place, &outside.env["X"]), ("host", &Value::Key(Key::Secret("K".into()))));
    }

    #[test]
    fn an_address_has_a_way_to_sign_in() {
        let http = |text: &str| match read(text).unwrap().place {
            Place::Http(http) => http,
            Place::Sandbox(_) | Place::Host(_) => panic!(),
        };
        let sentry = http("preset = \"sentry\"");
        assert_eq!(sentry.url, "https://mcp.sentry.dev/mcp");
        assert!(matches!(sentry.auth, Auth::OAuth { .. }));
        assert_eq!(http("preset = \"github\"\ntoken_env = \"GH\"").auth, Auth::Token(Key::Env("GH".into())));
        let own = http("preset = \"linear\"\nurl = \"http://127.0.0.1:1/mcp\"\noauth = false");
        assert_eq!((own.url.as_str(), own.auth), ("http://127.0.0.1:1/mcp", Auth::None));
        let keys = "preset = \"datadog\"\nheaders = { DD_API_KEY = { env = \"A\" }, DD_APPLICATION_KEY = { file = \"/b\" } }";
        assert_eq!((http(keys).auth, http(keys).headers.len()), (Auth::None, 2));
        assert_eq!(http("url = \"https://x.test/\"").auth, Auth::None);
        let server =
            read("url = \"https://x.test/\"\ntimeout_s = 5\ntools = [\"a*\"]\nwithout = [\"ab\"]").unwrap();
        assert_eq!(server.timeout, Duration::from_secs(5));
        assert!(server.filter.takes("aa") && !server.filter.takes("ab"));
    }

    #[test]
    fn what_does_not_fit_together_is_told_and_no_secret_is_shown() {
        for (text, words) in [
            ("", "says nothing of where it is"),
            ("preset = \"senty\"", "the presets are: sentry, datadog"),
            ("preset = \"github\"", "needs a token"),
            ("command = [\"a\"]\nurl = \"https://x.test/\"", "keep one"),
            ("command = [\"a\"]\ntoken_env = \"X\"", "token_env is for servers behind an address"),
            ("command = [\"a\"]\nenv = { X = { secret = \"K\" } }", "none goes into a sandbox"),
            ("command = [\"a\"]\nwhere = \"moon\"", "sandbox"),
            ("command = [\"a\"]\nenv = { X = { env = \"A\", file = \"b\" } }", "in one place"),
            ("command = [\"a\"]\nenv = { X = { value = \"A\" } }", "unknown field"),
            ("url = \"http://x.test/\"", "use https"),
            ("url = \"https://x.test/\"\nwhere = \"host\"", "are for programs"),
            (
                "url = \"https://x.test/\"\ntoken_env = \"A\"\ntoken_secret = \"B\"",
                "token_env and token_secret: keep one",
            ),
            ("url = \"https://x.test/\"\ntoken_env = \"sk-secret-1\"", "is the name of a variable"),
            ("url = \"https://x.test/\"\ntoken = \"sk-secret-1\"", "keys are not written here"),
            ("url = \"https://x.test/\"\nheaders = { \"X-Key\" = \"sk-secret-1\" }", "looks like a secret"),
            (
                "url = \"https://x.test/\"\nheaders = { Authorization = \"Bearer sk-secret-1\" }",
                "looks like a secret",
            ),
            ("url = \"https://x.test/\"\nscopes = [\"a\"]", "are for oauth = true"),
            ("url = \"https://x.test/\"\ntimeout_s = 0", "1 or more"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(words) && !error.contains("sk-secret-1"), "{text}: {error}");
        }
        let named = format!("{:#}", Config::parse("[mcp.A_b]\nurl = \"https://x.test/\"").unwrap_err());
        assert!(named.contains("cannot be the name of an MCP server"), "{named}");
        let unknown = "[environments.e]\nrepos = [{ url = \"/r\" }]\nmcp = [\"nobody\"]";
        let unknown = format!("{:#}", Config::parse(unknown).unwrap_err());
        assert!(unknown.contains("[environments.e] mcp names \"nobody\""), "{unknown}");
    }
}
