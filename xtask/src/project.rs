//! What the checks look at, read once: the files of the repository, its crates, and the packages they are built from.
//! The checks themselves are pure, so their tests need no directory, only a [`Project`] made of literals.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// Directories that hold nothing of ours.
const SKIPPED: [&str; 6] = [".git", ".cache", "__pycache__", "dist", "node_modules", "target"];

/// The platforms that we build for.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// The repository.
#[derive(Debug, Default)]
pub(crate) struct Project {
    /// Every file by its path from the root; None for a file that is not text.
    pub(crate) files: BTreeMap<String, Option<String>>,
    /// Our own crates.
    pub(crate) crates: Vec<Crate>,
    /// Packages of others that end up in a build for Linux.
    pub(crate) packages: Vec<Package>,
}

/// A crate of the workspace.
#[derive(Debug, Default, Clone)]
pub(crate) struct Crate {
    /// Its name.
    pub(crate) name: String,
    /// Path of its Cargo.toml.
    pub(crate) manifest: String,
    /// Its one-line reason.
    pub(crate) description: Option<String>,
    /// Paths of its lib.rs and main.rs files.
    pub(crate) roots: Vec<String>,
    /// Names of what it is built from: direct dependencies without those of its tests.
    pub(crate) dependencies: BTreeSet<String>,
    /// The same with everything that these are built from in turn.
    pub(crate) reaches: BTreeSet<String>,
}

/// A package of others.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Its licence expression.
    pub(crate) license: Option<String>,
}

impl Project {
    /// Reads the repository around this program.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let mut project = Self::default();
        for platform in PLATFORMS {
            let metadata = MetadataCommand::new()
                .other_options(["--locked", "--filter-platform", platform].map(str::to_owned))
                .exec()
                .context("reading the crates (if Cargo.lock is out of date: cargo check)")?;
            if project.crates.is_empty() {
                let root = metadata.workspace_root.as_std_path();
                read_files(root, root, &mut project.files)?;
                project.crates = crates(&metadata);
            }
            for package in packages(&metadata) {
                let known = |have: &Package| have.name == package.name && have.version == package.version;
                if !project.packages.iter().any(known) {
                    project.packages.push(package);
                }
            }
        }
        Ok(project)
    }

    /// The text files whose path is wanted.
    pub(crate) fn texts(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| wanted(path))
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// The folder of a crate, with a slash at its end.
    pub(crate) fn folder(&self, name: &str) -> Option<&str> {
        self.crates.iter().find(|krate| krate.name == name)?.manifest.strip_suffix("Cargo.toml")
    }
}

#[cfg(test)]
impl Project {
    /// A project of these text files.
    pub(crate) fn of_files(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned()))).collect();
        Self { files, ..Self::default() }
    }

    /// Adds a crate in `crates/<name>` with these dependencies.
    pub(crate) fn with_crate(mut self, name: &str, dependencies: &[&str]) -> Self {
        let dependencies: BTreeSet<String> = dependencies.iter().map(|name| (*name).to_owned()).collect();
        self.crates.push(Crate {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            description: Some("What it is for.".to_owned()),
            roots: vec![format!("crates/{name}/src/lib.rs")],
            reaches: dependencies.clone(),
            dependencies,
        });
        self
    }
}

fn read_files(root: &Path, dir: &Path, files: &mut BTreeMap<String, Option<String>>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let path = entry.path();
        if kind.is_dir() {
            if !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                read_files(root, &path, files)?;
            }
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            files.insert(relative(root, &path), String::from_utf8(bytes).ok());
        }
    }
    Ok(())
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn crates(metadata: &Metadata) -> Vec<Crate> {
    let root = metadata.workspace_root.as_std_path();
    let built_from = |id: &PackageId| -> Vec<&PackageId> {
        let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
        nodes
            .filter(|node| node.id == *id)
            .flat_map(|node| &node.deps)
            .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development))
            .map(|dep| &dep.pkg)
            .collect()
    };
    let name = |id: &PackageId| metadata[id].name.to_string();
    metadata
        .workspace_packages()
        .into_iter()
        .map(|package| {
            let mut seen = BTreeSet::new();
            let mut left = built_from(&package.id);
            while let Some(id) = left.pop() {
                if seen.insert(id) {
                    left.extend(built_from(id));
                }
            }
            let roots = package.targets.iter().filter(|target| target.is_lib() || target.is_bin());
            Crate {
                name: package.name.to_string(),
                manifest: relative(root, package.manifest_path.as_std_path()),
                description: package.description.clone(),
                roots: roots.map(|target| relative(root, target.src_path.as_std_path())).collect(),
                // From the manifest and not from the graph, so that optional dependencies that are off count too.
                dependencies: package
                    .dependencies
                    .iter()
                    .filter(|dependency| dependency.kind != DependencyKind::Development)
                    .map(|dependency| dependency.name.clone())
                    .collect(),
                reaches: seen.into_iter().map(name).collect(),
            }
        })
        .collect()
}

fn packages(metadata: &Metadata) -> Vec<Package> {
    metadata
        .packages
        .iter()
        .filter(|package| !metadata.workspace_members.contains(&package.id))
        .map(|package| Package {
            name: package.name.to_string(),
            version: package.version.to_string(),
            license: package.license.clone(),
        })
        .collect()
}
