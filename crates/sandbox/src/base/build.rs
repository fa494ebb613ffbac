//! Bases that are built from a Dockerfile, by `buildah` or `docker` where there is one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::program::{self, find};
use super::progress::Progress;
use super::{Bases, Resolved, beneath};
use crate::Error;

/// A build that takes longer does not end.
const LONGEST: Duration = Duration::from_secs(3600);

/// What to build, with paths in the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recipe {
    pub(super) dockerfile: String,
    /// The directory whose files the build can use; empty for the whole repository.
    pub(super) context: String,
    pub(super) args: Vec<(String, String)>,
    pub(super) target: Option<String>,
}

impl Recipe {
    /// A Dockerfile that uses the files of the repository.
    pub(super) fn of_dockerfile(path: &str) -> Self {
        Self { dockerfile: path.to_owned(), context: String::new(), args: Vec::new(), target: None }
    }
}

enum Builder {
    Buildah(PathBuf),
    Docker(PathBuf),
}

impl Bases {
    /// Builds the image with the program that is there, and brings it in.
    pub(super) async fn build(
        &self,
        recipe: &Recipe,
        checkout: &Path,
        progress: &Progress<'_>,
    ) -> Result<Resolved, Error> {
        let missing = |what: &str| Error::Build {
            message: format!("the repository has no file or directory \"{what}\""),
            hint: "add it, or name another path in the environment's base".to_owned(),
        };
        beneath::file(checkout, &recipe.dockerfile)?.ok_or_else(|| missing(&recipe.dockerfile))?;
        let dockerfile =
            beneath::path(checkout, &recipe.dockerfile)?.ok_or_else(|| missing(&recipe.dockerfile))?;
        let context = beneath::path(checkout, &recipe.context)?.ok_or_else(|| missing(&recipe.context))?;
        let builder = self.builder().await?;
        let scratch = self.cache.scratch()?;
        let id_file = scratch.path().join("id");
        let mut arguments: Vec<OsString> = vec!["build".into()];
        arguments.push(match builder {
            Builder::Buildah(_) => "--layers".into(),
            // Otherwise each step that fails leaves a container.
            Builder::Docker(_) => "--force-rm".into(),
        });
        arguments.push(option("--iidfile", &id_file));
        arguments.push(option("--file", &dockerfile));
        if let Some(target) = &recipe.target {
            arguments.push(format!("--target={target}").into());
        }
        for (name, value) in &recipe.args {
            arguments.push(format!("--build-arg={name}={value}").into());
        }
        arguments.push(context.into());
        match builder {
            Builder::Buildah(buildah) => {
                perform(&buildah, &arguments, progress).await?;
                let dir = scratch.path().join("layout");
                let mut to = OsString::from("oci:");
                to.push(&dir);
                to.push(":base");
                let id = image_id(&id_file)?;
                let push = ["push".into(), "--format=oci".into(), id.into(), to];
                self.with_room(scratch.path(), perform(&buildah, &push, progress)).await?;
                self.layout(&dir, Some("base"), progress).await
            }
            Builder::Docker(docker) => {
                perform(&docker, &arguments, progress).await?;
                let archive = scratch.path().join("image.tar");
                let id = format!("sha256:{}", image_id(&id_file)?);
                let save = ["save".into(), option("--output", &archive), id.into()];
                self.with_room(scratch.path(), perform(&docker, &save, progress)).await?;
                self.docker_archive(archive, progress).await
            }
        }
    }

    async fn builder(&self) -> Result<Builder, Error> {
        if let Some(buildah) = find(&self.programs, "buildah") {
            return Ok(Builder::Buildah(buildah));
        }
        let why = match find(&self.programs, "docker") {
            None => "there is neither buildah nor docker here".to_owned(),
            Some(docker) => {
                let ask = ["version".into(), "--format={{.Server.Version}}".into()];
                let answer = program::run(&docker, &ask, Duration::from_secs(20), None).await?;
                if answer.success {
                    return Ok(Builder::Docker(docker));
                }
                format!(
                    "there is no buildah here, and docker does not reach its daemon: {}",
                    answer.tail.trim()
                )
            }
        };
        Err(Error::Unsupported {
            message: format!("a base that is built from a Dockerfile needs a program that builds it: {why}"),
            hint: "install buildah, or build the image elsewhere once and use oci:NAME or tar:PATH"
                .to_owned(),
        })
    }
}

fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push("=");
    option.push(path);
    option
}

async fn perform(program: &Path, arguments: &[OsString], progress: &Progress<'_>) -> Result<(), Error> {
    let ended = program::run(program, arguments, LONGEST, Some(progress)).await?;
    if ended.success {
        return Ok(());
    }
    let verb = arguments.first().map(|verb| verb.to_string_lossy().into_owned()).unwrap_or_default();
    Err(Error::Build {
        message: format!("{} {verb} failed:\n{}", program.display(), ended.tail.trim_end()),
        hint: "run the same build by hand in a checkout of the repository to look into it".to_owned(),
    })
}

/// The id that the build program wrote, which is given back to it as an argument.
fn image_id(file: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(file).map_err(Error::io(file))?;
    let id = text.trim().trim_start_matches("sha256:");
    if id.len() == 64 && id.bytes().all(|letter| letter.is_ascii_hexdigit()) {
        return Ok(id.to_owned());
    }
    Err(Error::Build {
        message: "the build program did not say which image it built".to_owned(),
        hint: "update it, or build the image elsewhere and use oci:NAME".to_owned(),
    })
}
