//! Dockerfiles and devcontainer.json, with scripts in place of the build programs. They are strict about how they are
//! called and give out an image that was made before.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandbox::Error;

use super::archives::Tar;
use super::driver::World;
use super::images::{Image, Packed, digest};

fn image() -> Image {
    Image::new(&[(Packed::Plain, Tar::new().file("etc/passwd", "d:x:1000:1000::/:/bin/sh\n").finish())])
}

fn program(world: &World, name: &str, script: &str) {
    let dir = world.dir.path().join("programs");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    // A file that is open for writing in this process cannot be run, and a child of another test may hold it open for a
    // moment; so another process writes it.
    let status = std::process::Command::new("sh")
        .arg("-c")
        .arg("printf '%s' \"$2\" > \"$1\"")
        .arg("sh")
        .args([path.as_os_str(), script.as_ref()])
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn checkout(world: &World) -> PathBuf {
    let dir = world.dir.path().join("checkout");
    std::fs::create_dir_all(dir.join("docker")).unwrap();
    std::fs::write(dir.join("Dockerfile"), "FROM scratch").unwrap();
    std::fs::write(dir.join("docker/Dockerfile"), "FROM scratch").unwrap();
    dir
}

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A script that takes `build` with exactly these words after the file for the id, and then gives the image out.
fn script(expected: &str, first: &str, give: &str) -> String {
    format!(
        r#"#!/bin/sh
set -eu
say() {{ echo "$*" >&2; exit 9; }}
[ -z "${{CANARY_OF_THE_SERVER-}}" ] || say leaked
case "$1" in
build)
    shift
    {first}
    case "$1" in --iidfile=*) echo "sha256:{ID}" > "${{1#--iidfile=}}" ;; *) say "no id file: $1" ;; esac
    shift
    got=""
    for word in "$@"; do got="$got[$word]"; done
    [ "$got" = '{expected}' ] || say "called with $got"
    echo "STEP 1: FROM scratch"
    ;;
{give}
*) say "unknown $1" ;;
esac
"#
    )
}

fn buildah(expected: &str, layout: &Path) -> String {
    let give = format!(
        r#"push)
    [ "$#" = 4 ] && [ "$2" = --format=oci ] && [ "$3" = {ID} ] || say "pushed with $*"
    to="${{4#oci:}}"; to="${{to%:base}}"
    cp -r '{}' "$to"
    ;;"#,
        layout.display()
    );
    script(expected, r#"[ "$1" = --layers ] || say "no layers"; shift"#, &give)
}

fn docker(expected: &str, archive: &Path) -> String {
    let give = format!(
        r#"version)
    [ "$#" = 2 ] && [ "$2" = '--format={{{{.Server.Version}}}}' ] || say "asked with $*"
    echo 28.0
    ;;
save)
    [ "$#" = 3 ] && [ "$3" = sha256:{ID} ] || say "saved with $*"
    cp '{}' "${{2#--output=}}"
    ;;"#,
        archive.display()
    );
    script(expected, r#"[ "$1" = --force-rm ] || say "containers would be left"; shift"#, &give)
}

fn message(result: Result<sandbox::base::Resolved, Error>) -> String {
    result.unwrap_err().to_string()
}

#[tokio::test]
async fn buildah_builds_a_dockerfile() {
    let world = World::new();
    let (checkout, layout) = (checkout(&world), world.dir.path().join("layout"));
    image().write_layout(&layout, "base");
    let expected = format!("[--file={0}/docker/Dockerfile][{0}]", checkout.display());
    program(&world, "buildah", &buildah(&expected, &layout));
    let resolved = world.resolve("dockerfile:docker/Dockerfile", Some(&checkout)).await.unwrap();
    assert_eq!(resolved.key, image().digest());
    assert!(world.told().contains("STEP 1: FROM scratch"), "{}", world.told());
    assert_eq!(world.left_over(), Vec::<PathBuf>::new());
    assert!(message(world.resolve("dockerfile", None).await).contains("there is none"));
    let error = message(world.resolve("dockerfile", Some(&checkout)).await);
    assert!(error.contains("called with") && error.contains("buildah build failed"), "{error}");
}

#[tokio::test]
async fn docker_builds_what_a_devcontainer_says() {
    let world = World::new();
    let (checkout, archive) = (checkout(&world), world.dir.path().join("saved.tar"));
    let (image, config) = (image(), serde_json::from_slice::<serde_json::Value>(&image().manifest).unwrap());
    let config = config["config"]["digest"].as_str().unwrap().to_owned();
    let list = serde_json::json!([{"Config": "config.json", "RepoTags": null, "Layers": ["a/layer.tar", "b/layer.tar"]}]);
    let mut configuration: serde_json::Value = serde_json::from_slice(&image.blobs[&config]).unwrap();
    let same = configuration["rootfs"]["diff_ids"][0].clone();
    configuration["rootfs"]["diff_ids"] = serde_json::json!([same, same]);
    let layer = String::from_utf8(image.blobs[&image.layers[0]].clone()).unwrap();
    let saved = Tar::new()
        .file("manifest.json", &list.to_string())
        .file("config.json", &configuration.to_string())
        .file("a/layer.tar", &layer)
        .symlink("b/layer.tar", "../a/layer.tar")
        .finish();
    std::fs::write(&archive, saved).unwrap();
    std::fs::write(
        checkout.join(".devcontainer.json"),
        r#"{ // from the top of the repository
            "build": {"dockerfile": "Dockerfile", "args": {"A": "b c; $(touch x)"}, "target": "dev",},
            "containerEnv": {"LANG": "de", "TOKEN": "${localEnv:TOKEN}"},
        }"#,
    )
    .unwrap();
    let expected = format!(
        "[--file={0}/Dockerfile][--target=dev][--build-arg=A=b c; $(touch x)][{0}]",
        checkout.display()
    );
    program(&world, "docker", &docker(&expected, &archive));
    let resolved = world.resolve("devcontainer", Some(&checkout)).await.unwrap();
    let layer = format!("oci-{}", &digest(layer.as_bytes())[7..31]);
    let layers: Vec<&str> = resolved.stack.layers.iter().map(|id| id.as_str()).collect();
    assert_eq!((layers.len(), layers[1]), (2, layer.as_str()));
    assert_ne!(layers[0], layers[1], "the same once more is another layer, because it is over the first");
    let env = [("PATH", "/image/bin"), ("LANG", "de")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(resolved.stack.env, env);
    assert!(world.told().contains("left out TOKEN"));
    assert_eq!(world.left_over(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn without_a_program_that_works_it_says_what_to_do() {
    let world = World::new();
    let checkout = checkout(&world);
    let error = message(world.resolve("dockerfile", Some(&checkout)).await);
    assert!(error.contains("neither buildah nor docker") && error.contains("install buildah"), "{error}");
    program(&world, "docker", "#!/bin/sh\necho Cannot connect to the daemon >&2\nexit 1\n");
    let error = message(world.resolve("dockerfile", Some(&checkout)).await);
    assert!(error.contains("Cannot connect") && error.contains("oci:NAME"), "{error}");
}

#[tokio::test]
async fn a_repository_cannot_name_what_is_on_the_host() {
    let world = World::new();
    let checkout = checkout(&world);
    std::os::unix::fs::symlink("/etc/hostname", checkout.join("Linked")).unwrap();
    assert!(message(world.resolve("dockerfile:Linked", Some(&checkout)).await).contains("leads elsewhere"));
    assert!(
        message(world.resolve("dockerfile:None", Some(&checkout)).await)
            .contains("no file or directory \"None\"")
    );
    assert!(message(world.resolve("devcontainer", Some(&checkout)).await).contains(".devcontainer.json"));
    for (image, word) in [
        ("/srv/layout", "on this machine"),
        ("localhost:1/a/b", "on this machine"),
        ("127.0.0.1:1/a/b", "on this machine"),
        ("./x", "no name of an image"),
    ] {
        let text = format!(r#"{{"image":"{image}"}}"#);
        std::fs::write(checkout.join(".devcontainer.json"), text).unwrap();
        let error = message(world.resolve("devcontainer", Some(&checkout)).await);
        assert!(error.contains(word), "{image}: {error}");
    }
}

#[tokio::test]
async fn a_program_that_writes_more_than_there_is_room_for_is_broken_off() {
    let world = World::new();
    let checkout = checkout(&world);
    let pid = world.dir.path().join("pid");
    let give = format!(
        r#"version) echo 28.0 ;;
save)
    echo $$ > '{}'
    head -c 4194304 /dev/zero > "${{2#--output=}}"
    exec sleep 600
    ;;"#,
        pid.display()
    );
    let expected = format!("[--file={0}/Dockerfile][{0}]", checkout.display());
    program(&world, "docker", &script(&expected, "shift", &give));
    world.bases.ask_for_room(std::sync::Arc::new(super::tar_base::Little(1 << 20)));
    let error = message(world.resolve("dockerfile", Some(&checkout)).await);
    assert!(error.contains("bytes do not fit"), "{error}");
    assert_eq!(world.left_over(), Vec::<PathBuf>::new());
    let pid = std::fs::read_to_string(pid).unwrap();
    let ended = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    for _ in 0..500 {
        if ended() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{pid} goes on");
}
