//! Images in an OCI layout directory on the host.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::beneath;
use super::manifest::{Descriptor, Manifest, choose, tagged};
use super::oci::{Origin, Sink, Trouble};
use super::progress::Progress;
use super::{Bases, Resolved};
use crate::Error;

/// A manifest that is larger is none.
const MANIFEST_BYTES: u64 = 4 << 20;

struct Layout {
    dir: PathBuf,
}

fn place(blob: &Descriptor) -> String {
    format!("blobs/sha256/{}", blob.digest.hex())
}

impl Layout {
    fn missing(&self, what: &str) -> Error {
        Error::Build {
            message: format!("{} is not a whole OCI layout: {what} is missing", self.dir.display()),
            hint: "make it with `skopeo copy docker://NAME oci:DIR:TAG` or `buildah push NAME oci:DIR:TAG`"
                .to_owned(),
        }
    }

    /// The manifest for this machine, of the image with the tag.
    fn manifest(&self, tag: Option<&str>) -> Result<Vec<u8>, Error> {
        if !self.dir.is_dir() {
            return Err(self.missing("the directory"));
        }
        let index = beneath::read(&self.dir, "index.json", MANIFEST_BYTES)?
            .ok_or_else(|| self.missing("index.json"))?;
        let Manifest::List(list) = Manifest::parse(&index)? else {
            return Err(self.missing("the list of images in index.json"));
        };
        let mut list = tagged(list, tag);
        if list.is_empty() {
            return Err(Error::Build {
                message: format!("{} has no image \"{}\"", self.dir.display(), tag.unwrap_or_default()),
                hint: "name a tag that is in its index.json".to_owned(),
            });
        }
        for _ in 0..3 {
            // With one image there is nothing to choose, whatever it says about itself: its configuration is checked.
            let chosen = if list.len() == 1 { list.remove(0) } else { choose(list)? };
            let bytes = beneath::read(&self.dir, &place(&chosen), MANIFEST_BYTES)?
                .ok_or_else(|| self.missing(&chosen.digest.to_string()))?;
            let digest = super::digest::Digest::of(&bytes);
            if digest != chosen.digest {
                return Err(Error::Build {
                    message: format!("the blob {} has other content, {digest}", chosen.digest),
                    hint: "the layout is damaged; make it anew".to_owned(),
                });
            }
            match Manifest::parse(&bytes)? {
                Manifest::Image { .. } => return Ok(bytes),
                Manifest::List(inner) => list = inner,
            }
        }
        Err(self.missing("an image at the end of its lists"))
    }
}

#[async_trait::async_trait]
impl Origin for Layout {
    async fn fetch(&self, blob: &Descriptor, sink: &mut Sink<'_>) -> Result<(), Trouble> {
        let file = beneath::file(&self.dir, &place(blob))?;
        copy(file.ok_or_else(|| self.missing(&blob.digest.to_string()))?, &self.dir, sink).await
    }
}

/// Gives a file to a sink, and way to others now and then.
pub(super) async fn copy(mut file: std::fs::File, path: &Path, sink: &mut Sink<'_>) -> Result<(), Trouble> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer).map_err(Error::io(path))? {
            0 => return Ok(()),
            got => sink.write(&buffer[..got])?,
        }
        tokio::task::yield_now().await;
    }
}

impl Bases {
    pub(super) async fn layout(
        &self,
        dir: &Path,
        tag: Option<&str>,
        progress: &Progress<'_>,
    ) -> Result<Resolved, Error> {
        let layout = Layout { dir: dir.to_owned() };
        let manifest = layout.manifest(tag)?;
        self.image(&layout, &manifest, progress).await
    }
}
