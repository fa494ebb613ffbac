//! Logins for registries, as `docker login` leaves them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oci_client::secrets::RegistryAuth;
use serde::Deserialize;

use super::progress::Progress;
use crate::Error;
use crate::base64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
    creds_store: Option<String>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// Where they usually are.
pub(super) fn usual_file() -> Option<PathBuf> {
    match std::env::var_os("DOCKER_CONFIG") {
        Some(dir) => Some(PathBuf::from(dir).join("config.json")),
        None => Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker/config.json")),
    }
}

/// How we show ourselves to a registry.
pub(super) fn login(
    file: Option<&Path>,
    registry: &str,
    progress: &Progress<'_>,
) -> Result<RegistryAuth, Error> {
    let Some(path) = file else { return Ok(RegistryAuth::Anonymous) };
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(RegistryAuth::Anonymous),
        Err(error) => {
            progress.say(format!("without a login: {} cannot be read: {error}", path.display()));
            return Ok(RegistryAuth::Anonymous);
        }
        Ok(bytes) => bytes,
    };
    // Neither the file's content nor where in it something is wrong belongs into a log.
    let file: File = serde_json::from_slice(&bytes).map_err(|_| Error::Build {
        message: format!("the logins in {} cannot be read", path.display()),
        hint: "remove the file and log in again with `docker login`".to_owned(),
    })?;
    let auth = file.auths.iter().find(|(key, _)| host(key) == host(registry)).map(|(_, auth)| auth);
    if let Some(login) = auth.and_then(of) {
        return Ok(login);
    }
    if file.creds_store.is_some() || file.cred_helpers.keys().any(|key| host(key) == host(registry)) {
        progress.say(format!(
            "without a login: {} keeps it with a helper program, which is not used",
            path.display()
        ));
    }
    Ok(RegistryAuth::Anonymous)
}

fn of(auth: &Auth) -> Option<RegistryAuth> {
    if let (Some(user), Some(password)) = (&auth.username, &auth.password) {
        return Some(RegistryAuth::Basic(user.clone(), password.clone()));
    }
    let plain = String::from_utf8(base64::decode(auth.auth.as_deref()?)?).ok()?;
    let (user, password) = plain.split_once(':')?;
    Some(RegistryAuth::Basic(user.to_owned(), password.trim_end_matches('\0').to_owned()))
}

/// The registry that an entry is for; the oldest one has several names.
fn host(key: &str) -> &str {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    match key.split('/').next().unwrap_or(key) {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login_of(text: &str, registry: &str) -> RegistryAuth {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        login(Some(&path), registry, &Progress::new(&|_| {})).unwrap()
    }

    #[test]
    fn a_login_is_for_its_registry_only() {
        let text =
            r#"{"auths":{"https://index.docker.io/v1/":{"auth":"dTpw"},"ghcr.io":{"auth":"Zzp4Onk="}}}"#;
        let basic = |user: &str, password: &str| RegistryAuth::Basic(user.to_owned(), password.to_owned());
        assert_eq!(login_of(text, "index.docker.io"), basic("u", "p"));
        assert_eq!(login_of(text, "ghcr.io"), basic("g", "x:y"));
        assert_eq!(login_of(text, "ghcr.io.example.com"), RegistryAuth::Anonymous);
        assert_eq!(login_of(r#"{"auths":{"a":{}},"credsStore":"x"}"#, "a"), RegistryAuth::Anonymous);
        let none = login(Some(Path::new("/nonexistent/x")), "a", &Progress::new(&|_| {})).unwrap();
        assert_eq!(none, RegistryAuth::Anonymous);
    }
}
