//! Makes images.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// This machine's architecture, as images call it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// An image: its manifest, and everything that belongs to it by digest.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) manifest: Vec<u8>,
    pub(crate) layers: Vec<String>,
    pub(crate) blobs: HashMap<String, Vec<u8>>,
}

/// How a layer is packed.
#[derive(Clone, Copy)]
pub(crate) enum Packed {
    Plain,
    Gzip,
    Zstd,
}

impl Image {
    /// Of layers, lowest first.
    pub(crate) fn new(layers: &[(Packed, Vec<u8>)]) -> Self {
        let diff_ids: Vec<String> = layers.iter().map(|(_, tar)| digest(tar)).collect();
        Self::with(layers, &diff_ids, architecture())
    }

    pub(crate) fn with(layers: &[(Packed, Vec<u8>)], diff_ids: &[String], architecture: &str) -> Self {
        let mut blobs = HashMap::new();
        let mut descriptors: Vec<Value> = Vec::new();
        for (packed, tar) in layers {
            let (kind, bytes) = match packed {
                Packed::Plain => ("application/vnd.oci.image.layer.v1.tar", tar.clone()),
                Packed::Gzip => {
                    ("application/vnd.docker.image.rootfs.diff.tar.gzip", super::archives::gzip(tar))
                }
                Packed::Zstd => ("application/vnd.oci.image.layer.v1.tar+zstd", super::archives::zstd(tar)),
            };
            descriptors.push(json!({"mediaType": kind, "digest": digest(&bytes), "size": bytes.len()}));
            blobs.insert(digest(&bytes), bytes);
        }
        let config = json!({
            "architecture": architecture, "os": "linux",
            "config": {"Env": ["PATH=/image/bin", "LANG=C"], "User": "1234", "Entrypoint": ["/bin/false"]},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": digest(&config), "size": config.len(),
            },
            "layers": descriptors,
        });
        blobs.insert(digest(&config), config);
        let names = descriptors.iter().map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect();
        Self { manifest: manifest.to_string().into_bytes(), layers: names, blobs }
    }

    pub(crate) fn digest(&self) -> String {
        digest(&self.manifest)
    }

    /// A list with this image for this machine, between others.
    pub(crate) fn list(&self) -> Vec<u8> {
        let entry = |digest: &str, os: &str, architecture: &str| {
            json!({
                "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest,
                "size": self.manifest.len(), "platform": {"os": os, "architecture": architecture},
            })
        };
        let other = format!("sha256:{}", "0".repeat(64));
        let list = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [
                entry(&other, "windows", architecture()), entry(&other, "linux", "s390x"),
                entry(&self.digest(), "linux", architecture()), entry(&other, "unknown", "unknown"),
            ],
        });
        list.to_string().into_bytes()
    }

    /// As a layout directory, with a tag.
    pub(crate) fn write_layout(&self, dir: &Path, tag: &str) {
        let blobs = dir.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).unwrap();
        let write = |bytes: &[u8]| std::fs::write(blobs.join(&digest(bytes)[7..]), bytes).unwrap();
        self.blobs.values().for_each(|bytes| write(bytes));
        write(&self.manifest);
        std::fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        let index = json!({"schemaVersion": 2, "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": self.digest(),
            "size": self.manifest.len(), "annotations": {"org.opencontainers.image.ref.name": tag},
        }]});
        std::fs::write(dir.join("index.json"), index.to_string()).unwrap();
    }
}
