//! OCI images, wherever their blobs come from: each layer is fetched once, checked, and becomes a layer of the driver.

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use oci_client::Reference;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::accounts::Accounts;
use super::cache::Blob;
use super::digest::Digest;
use super::manifest::{Config, Descriptor, Manifest};
use super::progress::{self, Progress};
use super::unpack::Bounds;
use super::{Bases, Resolved, blocking, scan};
use crate::{Archive, Base, Error, LayerId, Stack};

/// A stack with more layers of one image is made into one layer: every look-up of a file asks each.
const STACKED: usize = 8;

/// A configuration that is larger is none.
const CONFIG_BYTES: u64 = 8 << 20;

/// How often a blob is asked for when the connection breaks.
const ATTEMPTS: u32 = 3;

/// An image, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Name {
    /// In a registry.
    Registry(Reference),
    /// In a directory on the host.
    Layout { dir: PathBuf, tag: Option<String> },
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.starts_with('/') {
            let tag = |tag: &str| !tag.is_empty() && !tag.contains('/');
            return Ok(match text.rsplit_once(':').filter(|(_, end)| tag(end)) {
                Some((dir, tag)) => Self::Layout { dir: dir.into(), tag: Some(tag.to_owned()) },
                None => Self::Layout { dir: text.into(), tag: None },
            });
        }
        let unknown = |why: String| Error::Unsupported {
            message: format!("\"{}\" is no name of an image: {why}", text.escape_debug()),
            hint: "write it as in debian:12, ghcr.io/owner/name:tag or /srv/layout:tag".to_owned(),
        };
        if text.starts_with('.') {
            return Err(unknown("a layout directory is written from the root on".to_owned()));
        }
        text.parse().map(Self::Registry).map_err(|error: oci_client::ParseError| unknown(error.to_string()))
    }
}

/// Why a blob did not come.
pub(super) enum Trouble {
    /// The connection broke; it may work another time.
    Passing(Error),
    /// It will not get better.
    Lasting(Error),
}

impl Trouble {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Passing(error) | Self::Lasting(error) => error,
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Lasting(error)
    }
}

/// Where blobs come from.
#[async_trait::async_trait]
pub(super) trait Origin: Send + Sync {
    /// Writes the blob to the sink, which checks it.
    async fn fetch(&self, blob: &Descriptor, sink: &mut Sink<'_>) -> Result<(), Trouble>;
}

/// Takes in a blob: no more than was announced, and only with the right digest at the end.
pub(super) struct Sink<'a> {
    to: &'a mut (dyn Write + Send),
    hasher: Sha256,
    got: u64,
    blob: &'a Descriptor,
    label: &'a str,
    progress: &'a Progress<'a>,
}

impl Sink<'_> {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.got += bytes.len() as u64;
        if self.got > self.blob.size {
            return Err(self.wrong(format!("has more than the {} bytes it should have", self.blob.size)));
        }
        self.hasher.update(bytes);
        self.to.write_all(bytes).map_err(Error::io(self.label))?;
        self.progress.step(|| format!("{}: {}", self.label, progress::of(self.got, self.blob.size)));
        Ok(())
    }

    fn wrong(&self, what: String) -> Error {
        Error::Build {
            message: format!("the blob {} {what}", self.blob.digest),
            hint: "it is damaged or was tampered with; nothing of it was used. Push the image again, or use another"
                .to_owned(),
        }
    }

    fn finish(self) -> Result<(), Error> {
        if self.got < self.blob.size {
            return Err(
                self.wrong(format!("has {} of the {} bytes it should have", self.got, self.blob.size))
            );
        }
        let digest = Digest::from_hasher(self.hasher.clone());
        match digest == self.blob.digest {
            true => Ok(()),
            false => Err(self.wrong(format!("has other content, {digest}"))),
        }
    }
}

/// Where images that were brought in are remembered. Another name whenever their layers are made differently, so that
/// none of before is taken for one of now.
const IMAGES: &str = "images-2";

/// An image that was brought in.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    layers: Vec<LayerId>,
    env: Vec<(String, String)>,
}

impl Bases {
    /// An image that was brought in before, if all its layers are still there.
    pub(super) async fn known_image(&self, manifest: &Digest) -> Result<Option<Resolved>, Error> {
        let Some(kept) = self.cache.record::<Kept>(IMAGES, manifest.hex())? else { return Ok(None) };
        for layer in &kept.layers {
            if self.driver.layer(layer).await?.is_none() {
                return Ok(None);
            }
        }
        let stack = Stack { base: Base::Scratch, layers: kept.layers, env: kept.env };
        Ok(Some(Resolved { stack, key: manifest.to_string() }))
    }

    /// Brings an image in, by its manifest.
    pub(super) async fn image(
        &self,
        origin: &dyn Origin,
        manifest: &[u8],
        progress: &Progress<'_>,
    ) -> Result<Resolved, Error> {
        let digest = Digest::of(manifest);
        if let Some(known) = self.known_image(&digest).await? {
            return Ok(known);
        }
        let Manifest::Image { config, layers } = Manifest::parse(manifest)? else {
            return Err(Error::Build {
                message: "the image's list of manifests names another list".to_owned(),
                hint: "push the image again with a current tool, or use another".to_owned(),
            });
        };
        let config = self.config(origin, &config, layers.len(), progress).await?;
        let mut stack: Vec<LayerId> = Vec::new();
        let mut accounts = Vec::new();
        for (at, (blob, content)) in layers.iter().zip(config.contents()).enumerate() {
            let label = format!("layer {} of {}", at + 1, layers.len());
            let (layer, known) = self.blob_layer(origin, blob, content, &stack, &label, progress).await?;
            stack.insert(0, layer);
            accounts.insert(0, known);
        }
        if stack.len() > STACKED {
            let all: Vec<&str> = stack.iter().map(LayerId::as_str).collect();
            let one = Digest::of(all.join(" ").as_bytes()).layer("oci")?;
            progress.say(format!("making {} layers into one", stack.len()));
            self.driver.squash(&stack, &one).await?;
            stack = vec![one];
        }
        if let Some(fit) = self.fit(&accounts, &stack, progress).await? {
            stack.insert(0, fit);
        }
        let kept = Kept { layers: stack, env: config.env() };
        self.cache.keep(IMAGES, digest.hex(), &kept)?;
        let stack = Stack { base: Base::Scratch, layers: kept.layers, env: kept.env };
        Ok(Resolved { stack, key: digest.to_string() })
    }

    async fn config(
        &self,
        origin: &dyn Origin,
        blob: &Descriptor,
        layers: usize,
        progress: &Progress<'_>,
    ) -> Result<Config, Error> {
        if blob.size > CONFIG_BYTES {
            return Err(Error::Build {
                message: format!("the image's configuration has {} bytes", blob.size),
                hint: "use another image".to_owned(),
            });
        }
        let mut bytes = Vec::new();
        for attempt in 1.. {
            bytes.clear();
            match take_in(origin, blob, &mut bytes, "configuration", progress).await {
                Ok(()) => break,
                Err(Trouble::Passing(_)) if attempt < ATTEMPTS => pause(attempt).await,
                Err(trouble) => return Err(trouble.into_error()),
            }
        }
        Config::parse(&bytes, layers)
    }

    /// One layer of an image, over those below it, as a layer of the driver.
    async fn blob_layer(
        &self,
        origin: &dyn Origin,
        blob: &Descriptor,
        content: &Digest,
        below: &[LayerId],
        label: &str,
        progress: &Progress<'_>,
    ) -> Result<(LayerId, Accounts), Error> {
        let layer = blob.digest.layer_over("oci", below)?;
        if let Some(accounts) = self.known_layer(&layer).await? {
            return Ok((layer, accounts));
        }
        let _lock = self.cache.lock(layer.as_str(), progress).await?;
        if let Some(accounts) = self.known_layer(&layer).await? {
            return Ok((layer, accounts));
        }
        let whole = self.download(origin, blob, label, progress).await?;
        let archive = Archive { path: whole.path.clone(), whiteouts: true, below: below.to_vec() };
        let imported = self.import_blob(&archive, &layer, content, label, progress).await;
        // Either it is a layer now, or it is of no use to anybody.
        std::fs::remove_file(&whole.path).map_err(Error::io(&whole.path))?;
        Ok((layer, imported?))
    }

    async fn import_blob(
        &self,
        archive: &Archive,
        layer: &LayerId,
        content: &Digest,
        label: &str,
        progress: &Progress<'_>,
    ) -> Result<Accounts, Error> {
        progress.say(format!("unpacking {label}"));
        let file = archive.path.clone();
        let scanned = blocking(move || scan::scan(&file, true, Bounds::default())).await?;
        if scanned.content != *content {
            return Err(Error::Build {
                message: format!(
                    "{label} has other content ({}) than the image's configuration says ({content})",
                    scanned.content
                ),
                hint: "it is damaged or was tampered with; nothing of it was used. Push the image again, or use another"
                    .to_owned(),
            });
        }
        let room = self.make_room(scanned.bytes).await?;
        self.driver.import(layer, archive).await?;
        drop(room);
        self.cache.keep("layers", layer.as_str(), &scanned.accounts)?;
        Ok(scanned.accounts)
    }

    /// A blob in the cache, with the digest it should have.
    async fn download(
        &self,
        origin: &dyn Origin,
        blob: &Descriptor,
        label: &str,
        progress: &Progress<'_>,
    ) -> Result<Blob, Error> {
        if let Some(whole) = self.cache.blob(&blob.digest)? {
            // Left over from somebody who died after the download.
            let file = whole.path.clone();
            if blocking(move || Digest::of_file(&file)).await? == blob.digest {
                return Ok(whole);
            }
        }
        let label = format!("downloading {label}");
        let _room = self.make_room(blob.size).await?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut file = self.cache.new_blob()?;
            match take_in(origin, blob, file.as_file_mut(), &label, progress).await {
                Ok(()) => return self.cache.keep_blob(file, &blob.digest),
                Err(Trouble::Passing(error)) if attempt < ATTEMPTS => {
                    progress.say(format!("{label} broke off and is tried again: {error}"));
                    pause(attempt).await;
                }
                Err(trouble) => return Err(trouble.into_error()),
            }
        }
    }
}

async fn take_in(
    origin: &dyn Origin,
    blob: &Descriptor,
    to: &mut (dyn Write + Send),
    label: &str,
    progress: &Progress<'_>,
) -> Result<(), Trouble> {
    let mut sink = Sink { to, hasher: Sha256::new(), got: 0, blob, label, progress };
    origin.fetch(blob, &mut sink).await?;
    Ok(sink.finish()?)
}

async fn pause(attempt: u32) {
    tokio::time::sleep(Duration::from_millis(200) * attempt * attempt).await;
}
