//! Images as `docker save` writes them: one archive with a list, a configuration and the layers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

use super::digest::Digest;
use super::manifest::Descriptor;
use super::oci::{Origin, Sink, Trouble};
use super::progress::Progress;
use super::unpack::{self, Bounds, Marks};
use super::{Bases, Resolved, beneath, blocking, layout, scan};
use crate::{Archive, Error};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    config: String,
    layers: Vec<String>,
}

/// The files of such an archive, by what is in them.
struct Files(HashMap<Digest, PathBuf>);

#[async_trait::async_trait]
impl Origin for Files {
    async fn fetch(&self, blob: &Descriptor, sink: &mut Sink<'_>) -> Result<(), Trouble> {
        let missing = || broken(&format!("the file with the digest {}", blob.digest));
        let path = self.0.get(&blob.digest).ok_or_else(missing)?;
        let file = std::fs::File::open(path).map_err(Error::io(path))?;
        layout::copy(file, path, sink).await
    }
}

fn broken(what: &str) -> Error {
    Error::Build {
        message: format!("what `docker save` wrote has not {what}"),
        hint: "update docker, or build with buildah".to_owned(),
    }
}

/// Unpacks the archive and describes what is in it as any other image is described.
fn open(archive: &Path, into: &Path) -> Result<(Vec<u8>, Files), Error> {
    let whole = Archive { path: archive.to_owned(), whiteouts: false, below: Vec::new() };
    unpack::unpack(&whole, into, &[], Marks::User, Bounds::default())?;
    let list =
        beneath::read(into, "manifest.json", 4 << 20)?.ok_or_else(|| broken("the file manifest.json"))?;
    let list: Vec<Listed> = serde_json::from_slice(&list)
        .map_err(|error| broken(&format!("a list that can be read: {error}")))?;
    let [image] = <[Listed; 1]>::try_from(list).map_err(|_| broken("exactly one image"))?;
    let mut files = HashMap::new();
    let mut describe = |name: &str, kind: &str| -> Result<serde_json::Value, Error> {
        let path = beneath::path(into, name)?.ok_or_else(|| broken(&format!("the file {name}")))?;
        let digest = Digest::of_file(&path)?;
        let size = std::fs::metadata(&path).map_err(Error::io(&path))?.len();
        files.insert(digest.clone(), path);
        Ok(json!({"mediaType": kind, "digest": digest, "size": size}))
    };
    let config = describe(&image.config, "application/vnd.oci.image.config.v1+json")?;
    let layers = image
        .layers
        .iter()
        .map(|layer| describe(layer, "application/vnd.oci.image.layer.v1.tar"))
        .collect::<Result<Vec<_>, _>>()?;
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
    Ok((manifest.to_string().into_bytes(), Files(files)))
}

impl Bases {
    pub(super) async fn docker_archive(
        &self,
        archive: PathBuf,
        progress: &Progress<'_>,
    ) -> Result<Resolved, Error> {
        let scratch = self.cache.scratch()?;
        let into = scratch.path().join("image");
        let packed = archive.clone();
        let scanned = blocking(move || scan::scan(&packed, false, Bounds::default())).await?;
        let room = self.make_room(scanned.bytes).await?;
        let (manifest, files) = blocking(move || {
            let opened = open(&archive, &into)?;
            // All that is in it is beside it now.
            std::fs::remove_file(&archive).map_err(Error::io(&archive))?;
            Ok(opened)
        })
        .await?;
        drop(room);
        self.image(&files, &manifest, progress).await
    }
}
