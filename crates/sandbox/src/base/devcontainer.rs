//! Bases that a repository describes in a `devcontainer.json`.
//!
//! The file comes with the repository, so it can name images and Dockerfiles, and nothing of the host: no paths outside
//! of the repository, no variables of the server, no registry on this machine.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::build::Recipe;
use super::digest::Digest;
use super::oci::Name;
use super::progress::Progress;
use super::source::{DEVCONTAINER, DEVCONTAINER_OTHER};
use super::{Bases, Resolved, beneath};
use crate::Error;

/// A file that is larger is none.
const BYTES: u64 = 1 << 20;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct File {
    image: Option<String>,
    build: Option<Build>,
    /// How it was written before there was `build`.
    docker_file: Option<String>,
    context: Option<String>,
    docker_compose_file: Option<serde_json::Value>,
    #[serde(default)]
    features: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    container_env: BTreeMap<String, Option<String>>,
    #[serde(default)]
    remote_env: BTreeMap<String, Option<String>>,
}

#[derive(Deserialize, Default)]
struct Build {
    dockerfile: Option<String>,
    context: Option<String>,
    #[serde(default)]
    args: BTreeMap<String, String>,
    target: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Image(String),
    Build(Recipe),
}

fn unsupported(what: &str, hint: &str) -> Error {
    Error::Unsupported { message: format!("the devcontainer.json {what}"), hint: hint.to_owned() }
}

impl File {
    fn parse(text: &str) -> Result<Self, Error> {
        serde_json::from_str(&plain(text)).map_err(|error| Error::Build {
            message: format!("the devcontainer.json cannot be read: {error}"),
            hint: "correct the file in the repository".to_owned(),
        })
    }

    /// What to do, with paths from the directory of the file on.
    fn plan(&self, dir: &str) -> Result<Plan, Error> {
        if self.docker_compose_file.is_some() {
            return Err(unsupported(
                "uses Docker Compose, which is not supported",
                "name an image or a Dockerfile in it, and declare what runs beside the work as services",
            ));
        }
        if !self.features.is_empty() {
            return Err(unsupported(
                "uses features, which are not supported",
                "put what they install into a Dockerfile or into the environment's setup steps",
            ));
        }
        let build = self.build.as_ref();
        let dockerfile = build.and_then(|build| build.dockerfile.as_ref()).or(self.docker_file.as_ref());
        if let Some(dockerfile) = dockerfile {
            let context = build.and_then(|build| build.context.as_ref()).or(self.context.as_ref());
            let args = build.map(|build| build.args.clone()).unwrap_or_default();
            for value in args.values().chain(build.and_then(|build| build.target.as_ref())) {
                literal(value)?;
            }
            return Ok(Plan::Build(Recipe {
                dockerfile: within(dir, dockerfile)?,
                context: within(dir, context.map_or(".", String::as_str))?,
                args: args.into_iter().collect(),
                target: build.and_then(|build| build.target.clone()),
            }));
        }
        match &self.image {
            Some(image) => literal(image).map(|()| Plan::Image(image.clone())),
            None => Err(unsupported("names neither an image nor a Dockerfile", "add one of them to it")),
        }
    }

    fn env(&self, progress: &Progress<'_>) -> Vec<(String, String)> {
        let mut env = BTreeMap::new();
        for (name, value) in self.container_env.iter().chain(&self.remote_env) {
            match value {
                Some(value) if literal(value).is_err() => {
                    progress.say(format!(
                        "left out {name} of the devcontainer.json: its value depends on variables"
                    ));
                }
                Some(value) => drop(env.insert(name.clone(), value.clone())),
                None => drop(env.remove(name)),
            }
        }
        env.into_iter().collect()
    }
}

/// Text without variables: those of the server are nothing for a repository.
fn literal(text: &str) -> Result<(), Error> {
    if !text.contains("${") {
        return Ok(());
    }
    Err(unsupported(
        &format!("uses variables in \"{}\", which are not supported", text.escape_debug()),
        "write the value itself",
    ))
}

/// A path from a directory of the repository on, which may go up as long as it stays in the repository.
fn within(dir: &str, path: &str) -> Result<String, Error> {
    literal(path)?;
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    let outside = || {
        unsupported(
            &format!("has the path \"{}\", which leaves the repository", path.escape_debug()),
            "use a path in the repository",
        )
    };
    if path.starts_with('/') || path.contains(|letter: char| letter.is_control()) {
        return Err(outside());
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(outside)?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// JSON without comments and without commas before a closing bracket. Line breaks stay, so that places in messages are
/// right.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.trim_start_matches('\u{feff}').chars().peekable();
    // Where a comma is that may turn out to be one too many.
    let mut comma = None;
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('"', _) => {
                comma = None;
                out.push('"');
                while let Some(letter) = letters.next() {
                    out.push(letter);
                    match letter {
                        '\\' => out.extend(letters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => while letters.next_if(|letter| *letter != '\n').is_some() {},
            ('/', Some('*')) => {
                letters.next();
                let mut star = false;
                for letter in letters.by_ref() {
                    if letter == '\n' {
                        out.push('\n');
                    }
                    if star && letter == '/' {
                        break;
                    }
                    star = letter == '*';
                }
            }
            (',', _) => {
                comma = Some(out.len());
                out.push(',');
            }
            ('}' | ']', _) => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
                out.push(letter);
            }
            (letter, _) => {
                if !letter.is_whitespace() {
                    comma = None;
                }
                out.push(letter);
            }
        }
    }
    out
}

impl Bases {
    pub(super) async fn devcontainer(
        &self,
        path: &str,
        checkout: &Path,
        progress: &Progress<'_>,
    ) -> Result<Resolved, Error> {
        let mut path = path;
        let mut bytes = beneath::read(checkout, path, BYTES)?;
        if bytes.is_none() && path == DEVCONTAINER {
            path = DEVCONTAINER_OTHER;
            bytes = beneath::read(checkout, path, BYTES)?;
        }
        let bytes = bytes.ok_or_else(|| Error::Build {
            message: format!("the repository has no {path}"),
            hint: "add it, or name another path in the environment's base".to_owned(),
        })?;
        let file = File::parse(&String::from_utf8_lossy(&bytes))?;
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        let mut resolved = match file.plan(dir)? {
            Plan::Build(recipe) => self.build(&recipe, checkout, progress).await?,
            Plan::Image(image) => match image.parse()? {
                Name::Registry(name) if !super::registry::is_loopback(name.resolve_registry()) => {
                    self.registry(&name, progress).await?
                }
                _ => {
                    return Err(unsupported(
                        &format!("names the image \"{}\", which is on this machine", image.escape_debug()),
                        "name an image of a registry; what is on this machine is named in the environment's base",
                    ));
                }
            },
        };
        let env = file.env(progress);
        if !env.is_empty() {
            let words: Vec<String> = env.iter().map(|(name, value)| format!("{name}\0{value}")).collect();
            resolved.key = format!("{}+{}", resolved.key, Digest::of(words.join("\0").as_bytes()).hex());
            resolved.stack.env.retain(|(name, _)| !env.iter().any(|(new, _)| new == name));
            resolved.stack.env.extend(env);
        }
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, Error> {
        File::parse(text)?.plan(".devcontainer")
    }

    #[test]
    fn comments_and_commas_are_taken_out_and_strings_are_not_touched() {
        let text = r#"{ // a comment
            /* and , another */ "image": "a//b /* c */ ,] \" // d", "x": [1, 2, ], "y": {"z": 1,},
            // the end
        }"#;
        let value: serde_json::Value = serde_json::from_str(&plain(text)).unwrap();
        assert_eq!(value["image"], "a//b /* c */ ,] \" // d");
        assert_eq!(value["x"], serde_json::json!([1, 2]));
        assert_eq!(plain(text).lines().count(), text.lines().count());
        for odd in ["", "\"", "/*", "//", "\"\\", ",}", "/", "[,,]"] {
            plain(odd);
        }
    }

    #[test]
    fn an_image_or_a_dockerfile() {
        assert_eq!(plan(r#"{"image":"debian:12"}"#).unwrap(), Plan::Image("debian:12".to_owned()));
        let Plan::Build(recipe) = plan(
            r#"{"build":{"dockerfile":"../docker/Dockerfile","context":"..","args":{"A":"b"},"target":"dev"}}"#,
        )
        .unwrap() else {
            panic!()
        };
        assert_eq!((recipe.dockerfile.as_str(), recipe.context.as_str()), ("docker/Dockerfile", ""));
        assert_eq!(recipe.args, [("A".to_owned(), "b".to_owned())]);
        let Plan::Build(recipe) = plan(r#"{"dockerFile":"Dockerfile"}"#).unwrap() else { panic!() };
        assert_eq!(recipe.dockerfile, ".devcontainer/Dockerfile");
        assert_eq!(recipe.context, ".devcontainer");
    }

    #[test]
    fn what_is_not_supported_or_not_the_repositorys_business_is_refused() {
        for (text, word) in [
            (r#"{"dockerComposeFile":"x.yml"}"#, "Compose"),
            (r#"{"image":"a","features":{"ghcr.io/x/y:1":{}}}"#, "features"),
            ("{}", "neither"),
            (r#"{"image":"${localEnv:TOKEN}"}"#, "variables"),
            (r#"{"build":{"dockerfile":"D","args":{"T":"${localEnv:TOKEN}"}}}"#, "variables"),
            (r#"{"build":{"dockerfile":"../../etc/passwd"}}"#, "leaves"),
            (r#"{"build":{"dockerfile":"/etc/passwd"}}"#, "leaves"),
            (r#"{"build":{"dockerfile":"D","context":"../.."}}"#, "leaves"),
            ("[", "read"),
        ] {
            let error = plan(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn only_literal_variables_come_in() {
        let text = r#"{"image":"a","containerEnv":{"A":"1","B":"${localEnv:B}","C":"2"},"remoteEnv":{"A":"3","C":null}}"#;
        let lines = std::sync::Mutex::new(Vec::new());
        let tell = |line: String| lines.lock().unwrap().push(line);
        let env = File::parse(text).unwrap().env(&Progress::new(&tell));
        assert_eq!(env, [("A".to_owned(), "3".to_owned())]);
        assert!(lines.lock().unwrap()[0].contains("left out B"));
    }
}
