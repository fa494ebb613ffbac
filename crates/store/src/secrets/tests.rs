//! What is sealed comes back with its key, under its name, and in no other way.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const VALUE: &str = "sk-canary-0123456789";

fn everything(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(everything(&entry.path())),
            false => all.extend(fs::read(entry.path()).unwrap()),
        }
    }
    all
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_value_comes_back_by_its_name_and_is_not_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), None);
    assert_eq!(secrets.list().unwrap(), []);
    let error = secrets.get("KEY").unwrap_err();
    assert_eq!(error.advice(), "there is no secret \"KEY\"; set it with: slipway secret set KEY");
    let set_at = secrets.set("KEY", VALUE).unwrap();
    assert_eq!(*secrets.get("KEY").unwrap(), VALUE);
    let known = secrets.list().unwrap();
    assert_eq!(known, [KnownSecret { name: "KEY".to_owned(), set_at: Some(set_at), problem: None }]);
    let disk = everything(dir.path());
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    for spelling in [VALUE.as_bytes(), hex.as_bytes()] {
        assert!(!disk.windows(spelling.len()).any(|window| window == spelling));
    }
    assert_eq!((mode(secrets.key_file()), mode(&dir.path().join("secrets/KEY"))), (0o600, 0o600));
    assert_eq!(mode(&dir.path().join("secrets")), 0o700);
    assert!(!secrets.key_is_exposed());

    // Another process sees what was set last, and the same value is sealed differently each time.
    let first = secrets.all_sealed().unwrap();
    secrets.set("KEY", VALUE).unwrap();
    let value = |sealed: &[Sealed]| serde_json::to_value(&sealed[0]).unwrap()["value"].clone();
    assert_ne!(value(&first), value(&secrets.all_sealed().unwrap()));
    secrets.set("KEY", "another").unwrap();
    assert_eq!(*Secrets::new(dir.path(), None).get("KEY").unwrap(), "another");
    assert!(secrets.remove("KEY").unwrap() && !secrets.remove("KEY").unwrap());
    assert_eq!(secrets.list().unwrap(), []);
    assert!(matches!(secrets.get("KEY"), Err(SecretError::Missing(_))));
}

#[test]
fn names_and_values_have_limits() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), None);
    let long = "n".repeat(64);
    for name in ["A", "a.b-c_9", "0", &long] {
        assert_eq!(Secrets::check_name(name), Ok(()), "{name}");
    }
    let longer = "n".repeat(65);
    for name in ["", ".", "..", ".a", "-a", "_a", "a/b", "../x", "a b", "a\n", "ä", "a\0", &longer] {
        assert_eq!(secrets.set(name, "v"), Err(SecretError::Name), "{name:?}");
        assert_eq!(secrets.get(name).map(drop), Err(SecretError::Name), "{name:?}");
        assert_eq!(secrets.remove(name), Err(SecretError::Name), "{name:?}");
    }
    for (value, said) in
        [(String::new(), "empty"), ("a\0b".to_owned(), "NUL"), ("v".repeat(65_537), "64 KiB")]
    {
        let error = secrets.set("A", &value).unwrap_err();
        assert!(error.advice().contains(said) && error.advice().contains("1 to 65536 bytes"), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was written");
    let widest = "ü\n".repeat(65_536 / 3) + "x";
    assert_eq!(widest.len(), 65_536);
    secrets.set("A", &widest).unwrap();
    assert_eq!(*secrets.get("A").unwrap(), widest);
}

#[test]
fn without_its_key_a_secret_stays_closed_and_it_is_said_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), None);
    secrets.set("KEY", VALUE).unwrap();
    let right = fs::read_to_string(secrets.key_file()).unwrap();

    fs::remove_file(secrets.key_file()).unwrap();
    for error in [secrets.get("KEY").map(drop).unwrap_err(), secrets.set("OTHER", "v").map(drop).unwrap_err()]
    {
        assert!(matches!(error, SecretError::NoKey { configured: false, .. }), "{error}");
        assert!(error.advice().contains("put it back") && error.advice().contains("secret.key"), "{error}");
    }
    assert!(!secrets.key_file().exists(), "a new key would hide that the old one is gone");
    assert!(secrets.list().unwrap()[0].problem.is_some());

    for text in ["", "short", &"x".repeat(64), &format!("{}00", right.trim())] {
        fs::write(secrets.key_file(), text).unwrap();
        let error = secrets.get("KEY").map(drop).unwrap_err();
        assert_eq!(error, SecretError::BadKey(secrets.key_file().to_owned()), "{text:?}");
        assert!(error.advice().contains("64 hexadecimal digits"), "{error}");
        assert!(text.is_empty() || !error.advice().contains(text), "the file's content is not repeated");
    }
    fs::write(secrets.key_file(), "0".repeat(64)).unwrap();
    let error = secrets.get("KEY").map(drop).unwrap_err();
    assert!(matches!(error, SecretError::OtherKey { .. }), "{error}");
    assert!(error.advice().contains("slipway secret set KEY"), "{error}");
    // Beside it, another one can be set with the key that there is now; each says which it needs.
    secrets.set("OTHER", "v").unwrap();
    let list = secrets.list().unwrap();
    assert_eq!(list.iter().map(|known| known.problem.is_some()).collect::<Vec<_>>(), [true, false]);

    fs::write(secrets.key_file(), format!("  {}\n\n", right.trim().to_uppercase())).unwrap();
    assert_eq!(*secrets.get("KEY").unwrap(), VALUE, "however the digits are written");
}

#[test]
fn a_key_that_the_configuration_names_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("elsewhere/key");
    let secrets = Secrets::new(dir.path(), Some(&file));
    let error = secrets.set("KEY", VALUE).unwrap_err();
    assert!(matches!(error, SecretError::NoKey { configured: true, .. }), "{error}");
    assert!(error.advice().contains("openssl rand -hex 32 > "), "{error}");
    assert!(!file.exists());
    fs::create_dir(dir.path().join("elsewhere")).unwrap();
    fs::write(&file, "ab".repeat(32)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(secrets.key_is_exposed());
    secrets.set("KEY", VALUE).unwrap();
    assert_eq!(*secrets.get("KEY").unwrap(), VALUE);
    assert!(!dir.path().join("secret.key").exists());
}

#[test]
fn what_is_changed_or_moved_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), None);
    secrets.set("A", VALUE).unwrap();
    secrets.set("B", "of another name").unwrap();
    let path = |name: &str| dir.path().join("secrets").join(name);
    let good = fs::read_to_string(path("A")).unwrap();
    let sealed: serde_json::Value = serde_json::from_str(&good).unwrap();
    let changed = |field: &str, to: serde_json::Value| {
        let mut changed = sealed.clone();
        changed[field] = to;
        changed.to_string()
    };
    let flipped = |field: &str| {
        let text = sealed[field].as_str().unwrap();
        let last = if text.ends_with('0') { "1" } else { "0" };
        changed(field, format!("{}{last}", &text[..text.len() - 1]).into())
    };
    let other = fs::read_to_string(path("B")).unwrap();
    for text in [
        String::new(),
        "{}".to_owned(),
        good[..good.len() / 2].to_owned(),
        flipped("value"),
        flipped("nonce"),
        changed("set_at", "2020-01-01T00:00:00Z".into()),
        changed("value", "".into()),
        changed("nonce", "00".into()),
        changed("value", "zz".into()),
        other.clone(),
        other.replace("\"name\":\"B\"", "\"name\":\"A\""),
        "x".repeat(1 << 20),
    ] {
        fs::write(path("A"), &text).unwrap();
        let error = secrets.get("A").map(drop).unwrap_err();
        assert_eq!(error, SecretError::Damaged("A".to_owned()), "{}", &text[..text.len().min(300)]);
        let list = secrets.list().unwrap();
        assert_eq!((list[0].problem.is_some(), list[1].problem.is_some()), (true, false));
    }
    fs::write(path("A"), good).unwrap();
    assert_eq!(*secrets.get("A").unwrap(), VALUE);
}

#[test]
fn sealed_secrets_go_elsewhere_and_need_their_key_there() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let from = Secrets::new(here.path(), None);
    from.set("KEY", VALUE).unwrap();
    from.set("OWN", "of here").unwrap();
    let text = serde_json::to_string(&from.all_sealed().unwrap()).unwrap();
    assert!(!text.contains(VALUE));
    let sealed: Vec<Sealed> = serde_json::from_str(&text).unwrap();

    let to = Secrets::new(there.path(), None);
    to.set("OWN", "of there").unwrap();
    let added: Vec<bool> = sealed.iter().map(|one| to.adopt(one).unwrap()).collect();
    assert_eq!(added, [true, false], "what is there stays");
    assert_eq!(*to.get("OWN").unwrap(), "of there");
    assert!(matches!(to.get("KEY"), Err(SecretError::OtherKey { .. })));
    fs::copy(from.key_file(), to.key_file()).unwrap();
    assert_eq!(*to.get("KEY").unwrap(), VALUE);
    let mut bad = sealed[0].clone();
    bad.name = "../KEY".to_owned();
    assert_eq!(to.adopt(&bad), Err(SecretError::Name));
}

#[test]
fn of_many_at_once_each_finds_a_whole_value() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), None);
    secrets.set("KEY", "0").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let secrets = secrets.clone();
            scope.spawn(move || {
                for round in 0..8 {
                    secrets.set("KEY", &format!("{writer} {round}")).unwrap();
                    secrets.set(&format!("OF-{writer}"), "v").unwrap();
                }
            });
        }
        let reader = Secrets::new(dir.path(), None);
        for _ in 0..100 {
            reader.get("KEY").unwrap();
        }
    });
    assert_eq!(secrets.list().unwrap().len(), 5);
    assert!(secrets.list().unwrap().iter().all(|known| known.problem.is_none()));
    let files = fs::read_dir(dir.path().join("secrets")).unwrap().count();
    assert_eq!(files, 5, "nothing is left beside");
}
