//! Images of a registry and of layout directories.

use std::os::unix::fs::FileTypeExt;

use sandbox::{Base, Error};

use super::archives::Tar;
use super::driver::World;
use super::images::{Image, Packed, architecture, digest};
use super::registry::Registry;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n";

fn lowest() -> Vec<u8> {
    Tar::new().file("etc/passwd", PASSWD).file("gone", "x").file("bin/tool", "tool").finish()
}

fn image() -> Image {
    Image::new(&[
        (Packed::Gzip, lowest()),
        (Packed::Zstd, Tar::new().file(".wh.gone", "").file("bin/tool", "newer").finish()),
        (Packed::Plain, Tar::new().file("top", "top").finish()),
    ])
}

fn message(result: Result<sandbox::base::Resolved, Error>) -> String {
    result.unwrap_err().to_string()
}

#[tokio::test]
async fn an_image_becomes_a_stack() {
    let (world, registry) = (World::new(), Registry::start().await);
    let image = image();
    registry.put("v1", &image);
    registry.put_manifest("v1", image.list());
    let resolved = world.resolve(&registry.base("v1"), None).await.unwrap();
    assert_eq!(resolved.key, image.digest());
    assert_eq!(resolved.stack.base, Base::Scratch);
    assert_eq!(resolved.stack.layers.len(), 3);
    assert_eq!(resolved.stack.layers[2].as_str(), format!("oci-{}", &image.layers[0][7..31]));
    let env = [("PATH", "/image/bin"), ("LANG", "C")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(resolved.stack.env, env);
    assert_eq!(world.read(&resolved.stack.layers[0], "top"), "top");
    assert_eq!(world.read(&resolved.stack.layers[1], "bin/tool"), "newer");
    let removal = world.path(&resolved.stack.layers[1]).join("gone").symlink_metadata().unwrap();
    assert!(removal.file_type().is_char_device());
    assert_eq!(world.left_over(), Vec::<std::path::PathBuf>::new());
    // Again, only the name is asked for.
    registry.asked("");
    assert_eq!(world.resolve(&registry.base("v1"), None).await.unwrap(), resolved);
    assert_eq!(registry.asked("/blobs/"), 0);
    assert_eq!(world.layers.work.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_tag_moves_and_shared_layers_are_fetched_once() {
    let (world, registry) = (World::new(), Registry::start().await);
    registry.put("latest", &image());
    let first = world.resolve(&registry.base("latest"), None).await.unwrap();
    let moved = Image::new(&[(Packed::Gzip, lowest()), (Packed::Gzip, Tar::new().file("top", "2").finish())]);
    registry.put("latest", &moved);
    registry.asked("");
    let second = world.resolve(&registry.base("latest"), None).await.unwrap();
    assert_ne!(first.key, second.key);
    assert_eq!(first.stack.layers.last(), second.stack.layers.last());
    assert_eq!(registry.asked("/blobs/"), 2, "the configuration and the one new layer");
}

#[tokio::test]
async fn without_the_registry_the_last_known_image_is_used() {
    let (world, registry) = (World::new(), Registry::start().await);
    registry.put("v1", &image());
    let base = registry.base("v1");
    let pinned = format!("oci:{}/team/image@{}", registry.address, image().digest());
    let first = world.resolve(&base, None).await.unwrap();
    assert_eq!(world.resolve(&pinned, None).await.unwrap(), first);
    drop(registry);
    tokio::task::yield_now().await;
    assert_eq!(world.resolve(&pinned, None).await.unwrap(), first);
    assert!(!world.told().contains("cannot be reached"));
    assert_eq!(world.resolve(&base, None).await.unwrap(), first);
    assert!(world.told().contains("cannot be reached"), "{}", world.told());
    let unknown = message(World::new().resolve(&base, None).await);
    assert!(unknown.contains("could not be fetched"), "{unknown}");
}

#[tokio::test]
async fn a_wrong_blob_is_named_and_leaves_nothing() {
    let good = image();
    for change in ["other", "longer", "shorter"] {
        let (world, registry) = (World::new(), Registry::start().await);
        registry.put("v1", &good);
        let name = good.layers[1].clone();
        {
            let mut stock = registry.stock.lock().unwrap();
            let blob = stock.blobs.get_mut(&name).unwrap();
            match change {
                "other" => blob[20] ^= 1,
                "longer" => blob.push(0),
                _ => drop(blob.pop()),
            }
        }
        let error = message(world.resolve(&registry.base("v1"), None).await);
        assert!(error.contains(&name) && error.contains("nothing of it was used"), "{change}: {error}");
        assert_eq!(world.left_over(), Vec::<std::path::PathBuf>::new(), "{change}");
        assert_eq!(world.layers.work.lock().unwrap().len(), 1, "only the layer below is there");
    }
}

#[tokio::test]
async fn a_layer_must_be_what_the_configuration_says() {
    let (world, registry) = (World::new(), Registry::start().await);
    let wrong = Image::with(&[(Packed::Gzip, lowest())], &[digest(b"something else")], architecture());
    registry.put("v1", &wrong);
    let error = message(world.resolve(&registry.base("v1"), None).await);
    assert!(error.contains(&digest(b"something else")), "{error}");
    assert!(world.layers.work.lock().unwrap().is_empty());
    assert_eq!(world.left_over(), Vec::<std::path::PathBuf>::new());
    let missing = Image::with(&[(Packed::Gzip, lowest())], &[], architecture());
    registry.put("v2", &missing);
    assert!(message(world.resolve(&registry.base("v2"), None).await).contains("speaks of 0"));
    let foreign = Image::with(&[(Packed::Plain, lowest())], &[digest(&lowest())], "s390x");
    registry.put("v3", &foreign);
    assert!(message(world.resolve(&registry.base("v3"), None).await).contains("s390x"));
}

#[tokio::test]
async fn a_download_that_breaks_off_is_tried_again_a_few_times() {
    let (world, registry) = (World::new(), Registry::start().await);
    registry.put("v1", &image());
    let name = image().layers[0].clone();
    registry.stock.lock().unwrap().broken.insert(name.clone(), 1);
    world.resolve(&registry.base("v1"), None).await.unwrap();
    assert!(world.told().contains("tried again"));
    let world = World::new();
    registry.stock.lock().unwrap().broken.insert(name, 100);
    let error = message(world.resolve(&registry.base("v1"), None).await);
    assert!(error.contains("could not be fetched"), "{error}");
    assert_eq!(world.left_over(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn tokens_and_logins() {
    let (world, registry) = (World::new(), Registry::start().await);
    registry.put("v1", &image());
    registry.stock.lock().unwrap().login = Some(String::new());
    world.resolve(&registry.base("v1"), None).await.unwrap();
    let world = World::new();
    registry.stock.lock().unwrap().login = Some("dXNlcjpwYXNz".to_owned());
    let error = message(world.resolve(&registry.base("v1"), None).await);
    assert!(error.contains("docker login"), "{error}");
    let logins = format!(r#"{{"auths":{{"{}":{{"auth":"dXNlcjpwYXNz"}}}}}}"#, registry.address);
    std::fs::write(world.dir.path().join("logins.json"), logins).unwrap();
    world.resolve(&registry.base("v1"), None).await.unwrap();
    assert!(!world.told().contains("pass"));
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let (world, registry) = (World::new(), Registry::start().await);
    let error = message(world.resolve(&registry.base("none"), None).await);
    assert!(error.contains("has no image") && error.contains("check the name"), "{error}");
    let list =
        String::from_utf8(image().list()).unwrap().replace(&format!("\"{}\"", architecture()), "\"mips\"");
    registry.put_manifest("mips", list.into_bytes());
    let error = message(world.resolve(&registry.base("mips"), None).await);
    assert!(error.contains("linux/mips") && error.contains(architecture()), "{error}");
}

#[tokio::test]
async fn many_layers_become_one_and_the_user_gets_a_name() {
    let (world, registry) = (World::new(), Registry::start().await);
    let layers: Vec<_> =
        (0..9).map(|n| (Packed::Gzip, Tar::new().file("n", &n.to_string()).finish())).collect();
    registry.put("v1", &Image::new(&layers));
    let resolved = world.resolve(&registry.base("v1"), None).await.unwrap();
    assert_eq!(resolved.stack.layers.len(), 2);
    let fit = &resolved.stack.layers[0];
    assert!(fit.as_str().starts_with("fit-"));
    assert!(world.read(fit, "etc/passwd").contains("dev:x:1000:1000:"));
    assert!(world.layers.work.lock().unwrap().contains(&format!("{} of 9", resolved.stack.layers[1])));
    // The nine can go: the one stands for them.
    for layer in sandbox::Driver::layers(&*world.layers).await.unwrap() {
        if !resolved.stack.layers.contains(&layer.id) {
            sandbox::Driver::remove_layer(&*world.layers, &layer.id).await.unwrap();
        }
    }
    registry.asked("");
    assert_eq!(world.resolve(&registry.base("v1"), None).await.unwrap(), resolved);
    assert_eq!(registry.asked("/blobs/"), 0);
}

#[tokio::test]
async fn two_at_once_fetch_each_layer_once() {
    let (world, registry) = (World::new(), Registry::start().await);
    registry.put("v1", &image());
    let base = registry.base("v1");
    let (one, two) = tokio::join!(world.resolve(&base, None), world.resolve(&base, None));
    assert_eq!(one.unwrap(), two.unwrap());
    assert_eq!(registry.asked(&image().layers[0]), 1);
    assert_eq!(world.left_over(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn a_layout_directory() {
    let world = World::new();
    let dir = world.dir.path().join("layout");
    image().write_layout(&dir, "v1");
    let tagged = format!("oci:{}:v1", dir.display());
    let resolved = world.resolve(&tagged, None).await.unwrap();
    assert_eq!(resolved.key, image().digest());
    assert_eq!(world.resolve(&format!("oci:{}", dir.display()), None).await.unwrap(), resolved);
    let error = message(world.resolve(&format!("oci:{}:v2", dir.display()), None).await);
    assert!(error.contains("v2"), "{error}");
    let error = message(world.resolve("oci:/nonexistent/layout", None).await);
    assert!(error.contains("/nonexistent/layout") && error.contains("the directory is missing"), "{error}");
    let world = World::new();
    let blob = dir.join("blobs/sha256").join(&image().layers[0][7..]);
    std::fs::write(&blob, b"something else").unwrap();
    let error = message(world.resolve(&tagged, None).await);
    assert!(error.contains(&image().layers[0]), "{error}");
    std::fs::remove_file(&blob).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &blob).unwrap();
    assert!(message(world.resolve(&tagged, None).await).contains("leads elsewhere"));
    assert!(world.layers.work.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_layer_is_what_it_is_over_those_below_it() {
    let (world, registry) = (World::new(), Registry::start().await);
    let tool = || (Packed::Gzip, Tar::new().file("bin/newtool", "new").finish());
    let linked = Tar::new().file("usr/bin/sh", "sh").symlink("bin", "usr/bin").finish();
    let plain = Tar::new().file("bin/sh", "sh").finish();
    registry.put("linked", &Image::new(&[(Packed::Gzip, linked), tool()]));
    registry.put("plain", &Image::new(&[(Packed::Gzip, plain), tool()]));
    let linked = world.resolve(&registry.base("linked"), None).await.unwrap().stack.layers;
    let plain = world.resolve(&registry.base("plain"), None).await.unwrap().stack.layers;
    // On top is the layer with the user's name.
    assert_eq!(world.read(&linked[1], "usr/bin/newtool"), "new");
    assert!(world.path(&linked[1]).join("bin").symlink_metadata().is_err(), "the link is not hidden");
    assert_eq!(world.read(&plain[1], "bin/newtool"), "new");
    assert_ne!(linked[1], plain[1], "the same archive over something else is another layer");
}

#[tokio::test]
async fn the_layer_with_the_name_of_the_user_hides_no_link() {
    let (world, registry) = (World::new(), Registry::start().await);
    let lowest = Tar::new().file("usr/etc/hosts", "hosts").symlink("etc", "usr/etc").finish();
    let users = Tar::new()
        .file("etc/passwd", "root:x:0:0::/root:/bin/sh\n")
        .file("etc/group", "root:x:0:\n")
        .finish();
    registry.put("v1", &Image::new(&[(Packed::Gzip, lowest), (Packed::Gzip, users)]));
    let layers = world.resolve(&registry.base("v1"), None).await.unwrap().stack.layers;
    assert!(layers[0].as_str().starts_with("fit-"), "{layers:?}");
    assert!(world.read(&layers[0], "usr/etc/passwd").contains("dev:x:1000:1000:"));
    assert!(world.path(&layers[0]).join("etc").symlink_metadata().is_err());
}

#[tokio::test]
async fn what_has_no_room_is_not_downloaded() {
    let (world, registry) = (World::new(), Registry::start().await);
    let content: String = (0..20_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_string()).collect();
    registry.put("big", &Image::new(&[(Packed::Plain, Tar::new().file("f", &content).finish())]));
    world.bases.ask_for_room(std::sync::Arc::new(super::tar_base::Little(64 << 10)));
    let error = message(world.resolve(&registry.base("big"), None).await);
    assert!(error.contains("bytes do not fit"), "{error}");
    assert_eq!(registry.asked("/blobs/"), 1, "only the configuration was fetched");
    assert_eq!(world.left_over(), Vec::<std::path::PathBuf>::new());
    world.bases.ask_for_room(std::sync::Arc::new(super::tar_base::Little(1 << 20)));
    world.resolve(&registry.base("big"), None).await.unwrap();
}
