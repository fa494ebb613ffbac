//! An OCI image from a registry: a real one, where its program is installed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::model::{Script, Server};

use super::base::archive;
use super::{inside, repository, world};
use crate::harness::{ENVIRONMENT, PATIENCE};

/// The registry's program, as Debian has it.
const PROGRAM: &str = "docker-registry";

/// A registry on loopback. It ends with this.
struct Registry {
    child: Child,
    address: String,
    http: reqwest::Client,
}

impl Registry {
    /// Starts one with its files in a directory; None where there is no such program.
    async fn start(dir: &Path) -> Option<Self> {
        // Nobody else asks for this port in the moment between.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let config = dir.join("registry.yml");
        let files = dir.join("files");
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            files.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Fails only when another test of this process was first.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let this = Self { child: command.spawn().ok()?, address, http };
        let end = tokio::time::Instant::now() + PATIENCE;
        while this.http.get(format!("http://{}/v2/", this.address)).send().await.is_err() {
            assert!(tokio::time::Instant::now() < end, "the registry does not answer");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Some(this)
    }

    /// Puts an image of one layer there.
    async fn push(&self, name: &str, tag: &str, layer: &Path, variables: &[&str]) {
        let layer_bytes = std::fs::read(layer).unwrap();
        let layer_digest = digest(layer);
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": { "Env": variables },
            "rootfs": { "type": "layers", "diff_ids": [layer_digest] },
        });
        let config = config.to_string().into_bytes();
        let config_digest = digest_of(&config, layer.parent().unwrap());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": config_digest,
                "size": config.len(),
            },
            "layers": [{
                "mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": layer_digest,
                "size": layer_bytes.len(),
            }],
        });
        for (bytes, digest) in [(layer_bytes, layer_digest), (config, config_digest)] {
            self.blob(name, bytes, &digest).await;
        }
        let put = self
            .http
            .put(format!("http://{}/v2/{name}/manifests/{tag}", self.address))
            .header("Content-Type", "application/vnd.oci.image.manifest.v1+json")
            .body(manifest.to_string())
            .send()
            .await
            .unwrap();
        assert!(put.status().is_success(), "{}", put.text().await.unwrap());
    }

    async fn blob(&self, name: &str, bytes: Vec<u8>, digest: &str) {
        let begun = self.http.post(format!("http://{}/v2/{name}/blobs/uploads/", self.address)).send().await;
        let place = begun.unwrap().headers()["Location"].to_str().unwrap().to_owned();
        let place = format!("{place}{}digest={digest}", if place.contains('?') { '&' } else { '?' });
        let put = self.http.put(place).body(bytes).send().await.unwrap();
        assert!(put.status().is_success(), "{}", put.text().await.unwrap());
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

fn digest(file: &Path) -> String {
    let said = Command::new("sha256sum").arg(file).output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    format!("sha256:{}", text.split_whitespace().next().unwrap().trim_start_matches('\\'))
}

fn digest_of(bytes: &[u8], dir: &Path) -> String {
    let file = dir.join("config.json");
    std::fs::write(&file, bytes).unwrap();
    digest(&file)
}

#[tokio::test]
#[ignore = "takes a while: run by make test-slow"]
#[allow(clippy::print_stdout, reason = "whoever runs the tests should know that one did not look")]
async fn an_image_comes_from_a_registry() {
    let dir = tempfile::tempdir().unwrap();
    let Some(layer) = archive(dir.path()) else {
        println!("skipped: no system can be made of this machine's programs");
        return;
    };
    let Some(registry) = Registry::start(dir.path()).await else {
        println!("skipped: {PROGRAM} is not installed (Debian: apt-get install docker-registry)");
        return;
    };
    registry.push("team/base", "v1", &layer, &["GREETING=hello"]).await;
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let base = format!("base = \"oci:{}/team/base:v1\"\n", registry.address);
    let world = world(&model, &repo, &format!("{base}setup = [{{ run = \"echo yes > prepared\" }}]\n"));
    let built = world.json(&["env", "build", ENVIRONMENT]).await;
    assert_eq!(built["state"], "ready", "{built}");
    assert_eq!(inside(&world, "cat /etc/made-of prepared; echo $GREETING").await, "a tar file\nyes\nhello\n");

    // What is not there, and a registry that does not answer, are told apart.
    let other = super::environment(&repo, &base.replace(":v1", ":v2"));
    world.configure(&format!("{}{other}", crate::harness::models(&model)));
    let output = world.run(&["env", "build", ENVIRONMENT]).await.expect_code(1);
    assert!(output.stderr.contains("has no image") && output.stderr.contains("the tag"), "{output}");
    drop(registry);
    let output = world.run(&["env", "build", ENVIRONMENT]).await.expect_code(1);
    assert!(output.stderr.contains("reaches the registry"), "{output}");
    world.finish().await;
}
