//! Finds the host's toolchains from PATH by looking at files, without running anything.
//!
//! System directories are visible as a whole. What is elsewhere is visible only when it is recognised as a toolchain by
//! its marks, and then only its programs and libraries: never a home, nor the places where keys and tokens are kept.

use std::path::{Path, PathBuf};

/// What the sandbox's PATH and mounts are made of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Toolchains {
    /// Directories to show, at the same place as on the host: programs have their own places built in.
    pub(super) dirs: Vec<PathBuf>,
    /// The sandbox's PATH.
    pub(super) path: Vec<PathBuf>,
    /// Variables that the toolchains need.
    pub(super) env: Vec<(String, String)>,
}

/// Shown as a whole, so nothing below them needs a mount.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store"];

/// Below `<prefix>`: all of the first and any of the second make it a toolchain.
const MARKS: [(&str, &[&str]); 6] = [
    ("bin/rustc", &["lib/rustlib"]),
    ("bin/node", &["include/node", "lib/node_modules"]),
    ("bin/go", &["pkg/tool", "src/runtime"]),
    ("bin/java", &["lib/modules", "jre", "lib/rt.jar"]),
    ("bin/ruby", &["lib/ruby"]),
    ("bin/python3", &["lib"]),
];

/// Parts of a toolchain that are shown. Its `etc` and the files beside them are not: npm and pip keep tokens there.
const PARTS: [&str; 11] =
    ["bin", "conf", "include", "jre", "lib", "lib64", "libexec", "pkg", "share", "src", "ssl"];

impl Toolchains {
    /// Looks at the directories of a PATH. Nothing that holds one of the `private` directories is ever shown.
    pub(super) fn find(path: &[PathBuf], private: &[PathBuf]) -> Self {
        let mut found = Self::default();
        for dir in path {
            found.consider(dir, private);
        }
        for dir in ["/usr/local/bin", "/usr/bin", "/bin"] {
            found.add_path(Path::new(dir));
        }
        found
    }

    fn consider(&mut self, dir: &Path, private: &[PathBuf]) {
        // Links are resolved first, so that a link cannot make a home look like something else.
        let Ok(real) = dir.canonicalize() else { return };
        if !dir.is_absolute() || !real.is_dir() {
            return;
        }
        if SYSTEM.iter().any(|system| real.starts_with(system)) {
            self.add_path(dir);
            return;
        }
        if real.ends_with(".cargo/bin") {
            self.rustup(&real);
        } else if real.ends_with(".pyenv/shims") {
            self.pyenv(&real, private);
        } else if real.ends_with("bin")
            && let Some(prefix) = real.parent()
        {
            self.add_toolchain(prefix, private);
        }
    }

    /// rustup's proxies choose a toolchain by the repository's own wish. `~/.cargo` itself may hold a registry token, so
    /// only its programs are shown.
    fn rustup(&mut self, bin: &Path) {
        let Some(home) = bin.parent().and_then(Path::parent) else { return };
        let rustup = home.join(".rustup");
        self.add_dir(bin);
        self.add_path(bin);
        if rustup.join("toolchains").is_dir() {
            self.add_dir(&rustup.join("toolchains"));
            self.add_dir(&rustup.join("settings.toml"));
            self.env.push(("RUSTUP_HOME".to_owned(), rustup.display().to_string()));
            // There is no network to install a toolchain from; say so at once instead of trying.
            self.env.push(("RUSTUP_AUTO_INSTALL".to_owned(), "0".to_owned()));
        }
    }

    /// pyenv's shims are slow scripts that need pyenv itself; the chosen versions are put on PATH instead.
    fn pyenv(&mut self, shims: &Path, private: &[PathBuf]) {
        let Some(root) = shims.parent() else { return };
        let chosen = std::fs::read_to_string(root.join("version")).unwrap_or_default();
        for version in chosen.split_whitespace() {
            // A version is a name, not a path that could lead elsewhere.
            if !version.contains('/') && !version.starts_with('.') {
                self.add_toolchain(&root.join("versions").join(version), private);
            }
        }
    }

    fn add_toolchain(&mut self, prefix: &Path, private: &[PathBuf]) {
        let holds_private = private.iter().any(|dir| dir.starts_with(prefix) || prefix.starts_with(dir));
        // `~/.local` has programs and libraries, and everybody's keys and data beside them.
        if holds_private
            || prefix.ends_with(".local")
            || prefix.components().count() < 3
            || !is_toolchain(prefix)
        {
            return;
        }
        for part in PARTS {
            self.add_dir(&prefix.join(part));
        }
        self.add_path(&prefix.join("bin"));
    }

    fn add_dir(&mut self, dir: &Path) {
        // A part that is a link would show what it leads to.
        if !dir.symlink_metadata().is_ok_and(|data| !data.is_symlink()) {
            return;
        }
        if !self.dirs.iter().any(|have| dir.starts_with(have)) {
            self.dirs.push(dir.to_owned());
        }
    }

    fn add_path(&mut self, dir: &Path) {
        if !self.path.iter().any(|have| have == dir) {
            self.path.push(dir.to_owned());
        }
    }
}

fn is_toolchain(prefix: &Path) -> bool {
    let has = |name: &str| prefix.join(name).exists();
    // A prefix with someone's configuration in it is somebody's, not a toolchain's.
    let private =
        [".ssh", ".config", ".gnupg", ".netrc", ".git-credentials", "share/keyrings"].into_iter().any(has);
    !private && MARKS.iter().any(|(program, others)| has(program) && others.iter().any(|other| has(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: PathBuf) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn a_home_is_never_shown_but_toolchains_in_it_are() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("ana");
        touch(home.join(".cargo/bin/cargo"));
        touch(home.join(".cargo/credentials.toml"));
        touch(home.join(".rustup/toolchains/stable/bin/rustc"));
        touch(home.join(".pyenv/shims/python3"));
        touch(home.join(".pyenv/versions/3.11.7/bin/python3"));
        std::fs::create_dir_all(home.join(".pyenv/versions/3.11.7/lib")).unwrap();
        std::fs::write(home.join(".pyenv/version"), "3.11.7\n").unwrap();
        touch(home.join(".local/bin/tool"));
        touch(home.join(".local/share/keyrings/login"));
        touch(home.join("bin/script"));
        // A link that makes it look like a toolchain.
        std::os::unix::fs::symlink("/usr/bin/python3", home.join(".local/bin/python3")).unwrap();
        std::fs::create_dir_all(home.join(".local/lib")).unwrap();
        touch(home.join("node/bin/node"));
        touch(home.join("node/etc/npmrc"));
        std::fs::create_dir_all(home.join("node/lib/node_modules")).unwrap();
        touch(home.join(".rustup/settings.toml"));
        let path =
            [".cargo/bin", ".pyenv/shims", ".local/bin", "bin", "node/bin"].map(|part| home.join(part));
        let found = Toolchains::find(&path, &[]);
        let below = |part: &str| home.join(part);
        let shown = [
            ".cargo/bin",
            ".rustup/toolchains",
            ".rustup/settings.toml",
            ".pyenv/versions/3.11.7/bin",
            ".pyenv/versions/3.11.7/lib",
            "node/bin",
            "node/lib",
        ];
        assert_eq!(found.dirs, shown.map(below));
        assert!(found.path.contains(&below(".pyenv/versions/3.11.7/bin")));
        assert!(!found.path.contains(&below(".local/bin")) && !found.path.contains(&below("bin")));
    }

    #[test]
    fn a_link_to_a_home_shows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let home = root.join("ana");
        touch(home.join("bin/tool"));
        std::os::unix::fs::symlink(&home, root.join("innocent")).unwrap();
        let found = Toolchains::find(&[root.join("innocent/bin")], &[]);
        assert!(found.dirs.is_empty(), "{found:?}");
    }

    #[test]
    fn what_holds_the_data_directory_is_not_shown_whatever_it_looks_like() {
        let dir = tempfile::tempdir().unwrap();
        let app = dir.path().canonicalize().unwrap().join("app");
        touch(app.join("bin/node"));
        std::fs::create_dir_all(app.join("lib/node_modules")).unwrap();
        let path = [app.join("bin")];
        assert!(!Toolchains::find(&path, &[]).dirs.is_empty());
        let found = Toolchains::find(&path, &[app.join("lib/data")]);
        assert!(found.dirs.is_empty(), "{found:?}");
    }
}
