//! What images are described with: manifests, lists of them, and configurations, of Docker and of OCI alike.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::digest::Digest;
use crate::Error;

/// What we ask registries for.
pub(super) const ACCEPTED: &[&str] = &[
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// Layers of one image; nobody has as many.
const LAYERS: usize = 1000;

/// Where the name of an image is in a layout.
const TAG: &str = "org.opencontainers.image.ref.name";

/// A blob, by its digest.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: Digest,
    pub(super) size: u64,
    platform: Option<Platform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Either {
    schema_version: u32,
    #[serde(default)]
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

/// A manifest, or a list to choose one from.
#[derive(Debug)]
pub(super) enum Manifest {
    /// One image: its configuration and its layers, lowest first.
    Image { config: Descriptor, layers: Vec<Descriptor> },
    /// One image for each machine.
    List(Vec<Descriptor>),
}

fn bad(message: String) -> Error {
    Error::Build { message, hint: "push the image again with a current tool, or use another".to_owned() }
}

impl Manifest {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let either: Either = serde_json::from_slice(bytes)
            .map_err(|error| bad(format!("the image's manifest cannot be read: {error}")))?;
        match either.config {
            _ if either.schema_version != 2 => {
                Err(bad(format!("the image's manifest has version {}, not 2", either.schema_version)))
            }
            None if !either.manifests.is_empty() => Ok(Self::List(either.manifests)),
            None => Err(bad("the image's manifest names no image for any machine".to_owned())),
            Some(_) if either.layers.is_empty() => Err(bad("the image has no layers".to_owned())),
            Some(_) if either.layers.len() > LAYERS => {
                Err(bad(format!("the image has {} layers", either.layers.len())))
            }
            Some(config) => {
                for layer in &either.layers {
                    layer.check_kind()?;
                }
                Ok(Self::Image { config, layers: either.layers })
            }
        }
    }
}

impl Descriptor {
    fn check_kind(&self) -> Result<(), Error> {
        let kind = self.media_type.as_str();
        let layer = ["application/vnd.oci.image.layer.", "application/vnd.docker.image.rootfs."]
            .iter()
            .any(|begin| kind.starts_with(begin));
        let packed = [".tar", ".tar+gzip", ".tar.gzip", ".tar+zstd", ".tar.zstd"]
            .iter()
            .any(|end| kind.ends_with(end));
        if layer && packed {
            return Ok(());
        }
        Err(bad(format!(
            "the image has a layer of the kind \"{}\", which is no file tree",
            kind.escape_debug()
        )))
    }

    fn fits(&self) -> bool {
        let here = |platform: &Platform| platform.os == "linux" && platform.architecture == architecture();
        self.platform.as_ref().is_some_and(here)
    }
}

/// The one of a list that is for this machine.
pub(super) fn choose(list: Vec<Descriptor>) -> Result<Descriptor, Error> {
    let there: Vec<String> = list
        .iter()
        .filter_map(|one| one.platform.as_ref())
        .map(|platform| format!("{}/{}", platform.os.escape_debug(), platform.architecture.escape_debug()))
        .collect();
    let alone = list.len() == 1 && there.is_empty();
    list.into_iter().find(|one| alone || one.fits()).ok_or_else(|| Error::Build {
        message: format!(
            "the image is not there for linux/{}, only for {}",
            architecture(),
            if there.is_empty() { "machines it does not name".to_owned() } else { there.join(", ") }
        ),
        hint: "use an image for this kind of machine".to_owned(),
    })
}

/// Those of a layout's list that have a tag; all of them without one.
pub(super) fn tagged(list: Vec<Descriptor>, tag: Option<&str>) -> Vec<Descriptor> {
    list.into_iter()
        .filter(|one| tag.is_none() || one.annotations.get(TAG).map(String::as_str) == tag)
        .collect()
}

/// This machine's architecture, as images call it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// An image's configuration, as far as it matters here.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    architecture: Option<String>,
    os: Option<String>,
    config: Option<Runtime>,
    rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
struct Runtime {
    #[serde(rename = "Env", default)]
    env: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<Digest>,
}

impl Config {
    pub(super) fn parse(bytes: &[u8], layers: usize) -> Result<Self, Error> {
        let config: Self = serde_json::from_slice(bytes)
            .map_err(|error| bad(format!("the image's configuration cannot be read: {error}")))?;
        if config.rootfs.diff_ids.len() != layers {
            return Err(bad(format!(
                "the image has {layers} layers, and its configuration speaks of {}",
                config.rootfs.diff_ids.len()
            )));
        }
        let os = config.os.as_deref().filter(|os| !os.is_empty()).unwrap_or("linux");
        let machine =
            config.architecture.as_deref().filter(|name| !name.is_empty()).unwrap_or(architecture());
        if (os, machine) != ("linux", architecture()) {
            return Err(Error::Build {
                message: format!(
                    "the image is for {}/{}, and this machine is linux/{}",
                    os.escape_debug(),
                    machine.escape_debug(),
                    architecture()
                ),
                hint: "use an image for this kind of machine".to_owned(),
            });
        }
        Ok(config)
    }

    /// Digests of the layers uncompressed, lowest first.
    pub(super) fn contents(&self) -> &[Digest] {
        &self.rootfs.diff_ids
    }

    /// The variables that come with the image.
    pub(super) fn env(&self) -> Vec<(String, String)> {
        let env = self.config.as_ref().and_then(|config| config.env.as_deref()).unwrap_or_default();
        let pairs = env.iter().filter_map(|line| line.split_once('='));
        pairs
            .filter(|(name, value)| !name.is_empty() && !name.contains('\0') && !value.contains('\0'))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_is_refused() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let with_layer = |kind: &str| {
            format!(
                r#"{{"schemaVersion":2,"config":{{"mediaType":"c","digest":"{digest}","size":2}},
                "layers":[{{"mediaType":"{kind}","digest":"{digest}","size":2}}]}}"#
            )
        };
        for good in [
            "application/vnd.oci.image.layer.v1.tar",
            "application/vnd.oci.image.layer.v1.tar+zstd",
            "application/vnd.docker.image.rootfs.diff.tar.gzip",
        ] {
            assert!(Manifest::parse(with_layer(good).as_bytes()).is_ok(), "{good}");
        }
        for bad in ["application/vnd.cncf.helm.chart.content.v1.tar+gzip", "", "text/plain"] {
            assert!(Manifest::parse(with_layer(bad).as_bytes()).is_err(), "{bad}");
        }
        for bad in ["", "{}", r#"{"schemaVersion":1}"#, r#"{"schemaVersion":2}"#] {
            assert!(Manifest::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let climbing =
            with_layer("application/vnd.oci.image.layer.v1.tar").replace(&digest, "sha256:../../x");
        assert!(Manifest::parse(climbing.as_bytes()).is_err());
    }
}
