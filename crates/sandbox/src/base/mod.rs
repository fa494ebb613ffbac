//! Bases: what is below everything in an environment, brought in once and then only stacked.
//!
//! Whatever a base is written as, it ends as layers of the driver: an archive is one, an OCI image is one for each of its
//! own, and what a Dockerfile builds is an OCI image. On top there may be a tiny layer that gives the user inside a name.
//! Everything that is downloaded is checked against its digest before anything looks at it.

mod accounts;
mod below;
mod beneath;
mod build;
mod cache;
mod compressed;
mod credentials;
mod devcontainer;
mod digest;
mod docker_archive;
mod entries;
mod layout;
mod manifest;
mod oci;
mod program;
mod progress;
mod registry;
mod room;
mod scan;
mod source;
mod tar;
mod tree;
pub mod unpack;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::{Driver, Error, LayerId, Stack};

use cache::Cache;
use oci::Name;
use progress::Progress;

pub(crate) use cache::Download;
pub use room::{Held, Room};
pub use source::Source;

/// A base that is ready to be stacked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// What to stand on.
    pub stack: Stack,
    /// Changes when the base does.
    pub key: String,
}

/// Brings bases in, with a cache of what was downloaded.
pub struct Bases {
    driver: Arc<dyn Driver>,
    cache: Cache,
    programs: OsString,
    logins: Option<PathBuf>,
    room: Mutex<Option<Arc<dyn Room>>>,
}

impl Bases {
    /// With a directory of its own for downloads.
    pub fn new(driver: Arc<dyn Driver>, cache: PathBuf) -> Self {
        Self {
            driver,
            cache: Cache::new(cache),
            programs: std::env::var_os("PATH").unwrap_or_default(),
            logins: credentials::usual_file(),
            room: Mutex::default(),
        }
    }

    /// Looks for build programs in these directories, written as in `PATH`, instead of there.
    #[must_use]
    pub fn with_programs(mut self, programs: impl Into<OsString>) -> Self {
        self.programs = programs.into();
        self
    }

    /// Takes logins for registries from this file instead of `~/.docker/config.json`.
    #[must_use]
    pub fn with_logins(mut self, file: PathBuf) -> Self {
        self.logins = Some(file);
        self
    }

    /// Brings the base in unless it is there. `checkout` is a directory with the repository's files at the commit, for
    /// bases that are built from it; `progress` is told what happens, a line at a time.
    pub async fn resolve(
        &self,
        source: &Source,
        checkout: Option<&Path>,
        progress: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Resolved, Error> {
        let progress = Progress::new(progress);
        match source {
            Source::Host => Ok(Resolved { stack: Stack::host(), key: self.driver.host_key() }),
            Source::Tar(path) => self.tar(path, &progress).await,
            Source::Oci(name) => match name.parse()? {
                Name::Registry(reference) => self.registry(&reference, &progress).await,
                Name::Layout { dir, tag } => self.layout(&dir, tag.as_deref(), &progress).await,
            },
            Source::Dockerfile(path) => {
                let recipe = build::Recipe::of_dockerfile(path);
                self.build(&recipe, checkout_of(source, checkout)?, &progress).await
            }
            Source::Devcontainer(path) => {
                self.devcontainer(path, checkout_of(source, checkout)?, &progress).await
            }
        }
    }

    /// What is on its way to become a layer, or was when somebody died over it.
    pub(crate) async fn downloads(&self) -> Result<Vec<Download>, Error> {
        let cache = self.cache.clone();
        blocking(move || cache.downloads()).await
    }

    /// Removes one of these, unless somebody is at it.
    pub(crate) async fn remove_download(&self, name: &str) -> Result<(), Error> {
        let (cache, name) = (self.cache.clone(), name.to_owned());
        blocking(move || cache.remove_download(&name)).await
    }

    /// Forgets what is remembered of layers that are gone.
    pub async fn sweep(&self) -> Result<(), Error> {
        let layers = self.driver.layers().await?.into_iter().map(|layer| layer.id).collect::<Vec<LayerId>>();
        let cache = self.cache.clone();
        blocking(move || cache.sweep(&layers)).await
    }
}

fn checkout_of<'a>(source: &Source, checkout: Option<&'a Path>) -> Result<&'a Path, Error> {
    checkout.ok_or_else(|| Error::Build {
        message: format!("the base {source} is built from the repository, and there is none"),
        hint: "give the environment a repository, or use another base".to_owned(),
    })
}

/// Runs what reads and writes much on a thread where that holds nobody up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(Error::Start(format!("the server is stopping: {error}"))),
        },
    }
}
