//! The skills of a session: found when it begins, each at one revision, and kept beside the log, so that every turn and every
//! server that comes later has the same ones. The environment's come before the repository's.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use agent::skills::Skill;
use forge::{Mirror, Mirrors, Placed};
use protocol::{Code, PinnedSkill, Problem, SkillSource};
use sandbox::WORKSPACE;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
use crate::joint::{Joint, of};
use crate::problem;

/// The file in a session's directory.
pub(crate) const FILE: &str = "skills.json";
/// Where a repository has its skills, each in a folder of its own.
pub(crate) const FOLDERS: [&str; 3] = [".slipway/skills", ".agents/skills", ".claude/skills"];
/// Where the environment's are in a sandbox.
const PLACE: &str = "/run/slipway/skills";
/// The file that makes a folder a skill.
const NAME: &str = "SKILL.md";
/// Why a link is no skill.
const LINK: &str = "it is a link, and links are not followed";
/// Where a skill of the repository is from.
const REPOSITORY: &str = "repository";
/// Most files and bytes of one skill, most skills, and how deep a directory is looked into.
const FILES: usize = 200;
const BYTES: u64 = 2 * 1024 * 1024;
const SKILLS: usize = 100;
const DEPTH: usize = 8;

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SkillFile {
    /// From the skill's folder.
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) executable: bool,
    #[serde(with = "encoded")]
    pub(crate) bytes: Vec<u8>,
}

mod encoded {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text).map_err(D::Error::custom)
    }
}

/// The skills of a session with their files, as they are kept.
type Kept = BTreeMap<String, Vec<SkillFile>>;

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) skills: Vec<PinnedSkill>,
    /// What people should know of: files that cannot be used, and names that are there twice.
    pub(crate) remarks: Vec<String>,
    kept: Kept,
}

/// A folder that may be a skill.
struct Folder {
    source: String,
    folder: String,
    commit: Option<String>,
    tree: String,
    /// All its files for one of the environment, and only its text for one of the repository.
    files: Vec<SkillFile>,
}

/// Whether a repository has folders for skills at a commit.
pub(crate) async fn are_in(mirror: &Mirror, commit: &str) -> Result<bool, forge::Error> {
    Ok(!mirror.listed(commit, &FOLDERS).await?.is_empty())
}

/// Finds the skills of the sources, and of the repository at a commit. A source that cannot be had is an error: whoever named it
/// wants it.
pub(crate) async fn find(
    mirrors: &Mirrors,
    sources: &[SkillSource],
    repositories: Option<(&Joint, &str)>,
) -> Result<Found, Failure> {
    let mut found = Found::default();
    for source in sources {
        let before = found.skills.len();
        match (&source.url, &source.path) {
            (Some(url), _) => found.of_git(mirrors, url, source).await?,
            (None, path) => found.of_directory(path.as_deref().unwrap_or_default(), source).await?,
        }
        if found.skills.len() == before {
            let named = source.url.as_deref().or(source.path.as_deref()).unwrap_or_default();
            found.remarks.push(format!("The source of skills {named} has none that this session can use."));
        }
    }
    if let Some((joint, commit)) = repositories {
        for (number, (place, mirror)) in joint.parts().enumerate() {
            found.of_repository(place, mirror, of(commit, number)).await?;
        }
    }
    Ok(found)
}

impl Found {
    async fn of_git(&mut self, mirrors: &Mirrors, url: &str, source: &SkillSource) -> Result<(), Failure> {
        let revision = source.revision.as_deref();
        let trouble = |error: &forge::Error| {
            let known = problem::forge(error);
            let title = format!("the skills of {} cannot be had: {}", forge::public_url(url), known.title);
            Problem::new(Code::SetupFailed, title).hint(
                known.hint.unwrap_or_else(|| "correct the environment's `skills`, then try again".to_owned()),
            )
        };
        let existing = mirrors.existing(url);
        let there = match (&existing, revision) {
            // A commit does not change, so nobody has to be asked for it.
            (Some(mirror), Some(revision)) if is_commit(revision) => {
                mirror.pin_known(Some(revision)).await.ok()
            }
            _ => None,
        };
        let (mirror, commit) = match (there, existing) {
            (Some(commit), Some(mirror)) => (mirror, Ok(commit)),
            (_, existing) => match (mirrors.fetch(url).await, existing) {
                (Ok(mirror), _) => {
                    let commit = mirror.pin(revision).await;
                    (mirror, commit)
                }
                (Err(error), Some(mirror)) => {
                    let place = mirror.url();
                    self.remarks.push(format!(
                        "The skills of {place} are as they were when they were last fetched: {error}"
                    ));
                    let commit = mirror.pin_known(revision).await;
                    (mirror, commit)
                }
                (Err(error), None) => return Err(trouble(&error).into()),
            },
        };
        let commit = commit.map_err(|error| trouble(&error))?;
        let root = source.folder.as_deref().unwrap_or_default();
        let folders: Vec<&str> = Some(root).filter(|root| !root.is_empty()).into_iter().collect();
        let listed = mirror.listed(&commit, &folders).await.map_err(|error| trouble(&error))?;
        let (links, files): (Vec<Placed>, Vec<Placed>) = listed.into_iter().partition(|file| file.link);
        self.tell_unused(mirror.url(), &mirror, (&files, &links), root).await?;
        for folder in folders_of(&files, root) {
            let inside: Vec<&Placed> = files.iter().filter(|file| is_in(&file.path, &folder)).collect();
            let bytes = inside.iter().map(|file| file.bytes).sum();
            if !self.fits(mirror.url(), &folder, inside.len(), bytes) {
                continue;
            }
            let mut kept = Vec::new();
            for file in inside {
                let path = file.path[below(&folder)..].to_owned();
                kept.push(SkillFile { path, executable: file.executable, bytes: mirror.bytes(file).await? });
            }
            let tree = mirror.tree(&commit, &folder).await?.unwrap_or_default();
            let (source, commit) = (mirror.url().to_owned(), Some(commit.clone()));
            self.add(Folder { source, folder, commit, tree, files: kept });
        }
        Ok(())
    }

    async fn of_directory(&mut self, path: &str, source: &SkillSource) -> Result<(), Failure> {
        let mut root = PathBuf::from(path);
        root.extend(source.folder.as_deref());
        let read = tokio::task::spawn_blocking({
            let root = root.clone();
            move || walk(&root)
        });
        let read = read.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let files = read.map_err(|error| {
            Problem::new(
                Code::SetupFailed,
                format!("the skills in {} cannot be read: {error}", root.display()),
            )
            .hint("name a directory that the server can read in the environment's `skills`, then try again")
        })?;
        let (links, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|(file, _)| file.link);
        let places: Vec<Placed> = files.iter().map(|(placed, _)| placed.clone()).collect();
        for (link, at) in links {
            let is_place = link.path.rsplit('/').next().is_some_and(is_called_so) || at.join(NAME).is_file();
            // One that leads to another place in the same directory is there by itself.
            let inside = matches!((at.canonicalize(), root.canonicalize()), (Ok(at), Ok(root)) if at.starts_with(&root));
            if is_place && !inside {
                self.cannot_be_used(&link.path, path, LINK);
            }
        }
        self.tell_misnamed(path, &places, "");
        for folder in folders_of(&places, "") {
            let inside: Vec<&(Placed, PathBuf)> =
                files.iter().filter(|(file, _)| is_in(&file.path, &folder)).collect();
            let bytes = inside.iter().map(|(file, _)| file.bytes).sum();
            if !self.fits(path, &folder, inside.len(), bytes) {
                continue;
            }
            let mut kept = Vec::new();
            let mut sum = Sha256::new();
            for (file, place) in inside {
                let bytes = tokio::fs::read(place).await.map_err(|error| problem::file(place, &error))?;
                let path = file.path[below(&folder)..].to_owned();
                sum.update(format!("{path}\0{}\0{}\0", file.executable, bytes.len()));
                sum.update(&bytes);
                kept.push(SkillFile { path, executable: file.executable, bytes });
            }
            let tree = hex(&sum.finalize());
            self.add(Folder { source: path.to_owned(), folder, commit: None, tree, files: kept });
        }
        Ok(())
    }

    async fn of_repository(&mut self, place: &str, mirror: &Mirror, commit: &str) -> Result<(), Failure> {
        let listed = mirror.listed(commit, &FOLDERS).await?;
        let (links, files): (Vec<Placed>, Vec<Placed>) = listed.into_iter().partition(|file| file.link);
        for root in FOLDERS {
            self.tell_unused(REPOSITORY, mirror, (&files, &links), root).await?;
            let alone = format!("{root}/{NAME}");
            if files.iter().any(|file| file.path == alone) {
                self.cannot_be_used(&alone, REPOSITORY, "it needs a folder of its own");
            }
            for folder in folders_of(&files, root).into_iter().filter(|folder| folder != root) {
                let path = format!("{folder}/{NAME}");
                let Some(file) = files.iter().find(|file| file.path == path) else { continue };
                if !self.fits(REPOSITORY, &folder, 1, file.bytes) {
                    continue;
                }
                let text =
                    SkillFile { path: NAME.to_owned(), executable: false, bytes: mirror.bytes(file).await? };
                let tree = mirror.tree(commit, &folder).await?.unwrap_or_default();
                self.add(Folder {
                    source: REPOSITORY.to_owned(),
                    folder: forge::placed(place, &folder),
                    commit: Some(commit.to_owned()),
                    tree,
                    files: vec![text],
                });
            }
        }
        Ok(())
    }

    /// Tells of what is meant to be a skill of a git repository, and cannot be found as one.
    async fn tell_unused(
        &mut self,
        source: &str,
        mirror: &Mirror,
        (files, links): (&[Placed], &[Placed]),
        root: &str,
    ) -> Result<(), Failure> {
        let inside = if root.is_empty() { String::new() } else { format!("{root}/") };
        for link in links {
            let place = match link.path.strip_prefix(&inside) {
                // Of all the links of a whole repository few are skills.
                Some(name) if !name.contains('/') => {
                    is_called_so(name) || !root.is_empty() && !name.contains('.')
                }
                Some(rest) => rest.split_once('/').is_some_and(|(_, name)| is_called_so(name)),
                None => link.path == root,
            };
            if !place {
                continue;
            }
            let target = String::from_utf8(mirror.bytes(link).await?).unwrap_or_default();
            let there = led_to(&link.path, &target).is_some_and(|to| {
                let known = |file: &Placed| file.path == to || file.path == format!("{to}/{NAME}");
                FOLDERS.contains(&to.as_str()) || files.iter().any(known)
            });
            if !there {
                self.cannot_be_used(&link.path, source, LINK);
            }
        }
        self.tell_misnamed(source, files, root);
        Ok(())
    }

    /// Tells of files that would make a folder a skill if they were called so.
    fn tell_misnamed(&mut self, source: &str, files: &[Placed], root: &str) {
        let inside = if root.is_empty() { String::new() } else { format!("{root}/") };
        for file in files {
            let Some(rest) = file.path.strip_prefix(&inside) else { continue };
            let name = rest.split_once('/').map_or(rest, |(_, name)| name);
            let proper = format!("{}{NAME}", file.path.strip_suffix(name).unwrap_or_default());
            if name != NAME && is_called_so(name) && !files.iter().any(|file| file.path == proper) {
                self.cannot_be_used(&file.path, source, "its name must be SKILL.md, in capitals");
            }
        }
    }

    fn cannot_be_used(&mut self, file: &str, source: &str, why: &str) {
        self.remarks.push(format!("The skill {file} ({source}) cannot be used: {why}."));
    }

    /// Whether a skill is not too large, and not one too many; where it is, that is told.
    fn fits(&mut self, source: &str, folder: &str, files: usize, bytes: u64) -> bool {
        let place = if folder.is_empty() { source.to_owned() } else { format!("{folder} ({source})") };
        if files > FILES || bytes > BYTES {
            self.remarks.push(format!(
                "The skill in {place} is left out: it has {files} files with {bytes} bytes, and {FILES} with {BYTES} are taken."
            ));
            return false;
        }
        if self.skills.len() >= SKILLS {
            self.remarks.push(format!("The skill in {place} is left out: there are {SKILLS} already."));
            return false;
        }
        true
    }

    /// Takes a folder in, unless it is none that can be used, or has a name that is there.
    fn add(&mut self, found: Folder) {
        let Folder { source, folder, commit, tree, files } = found;
        let file = if folder.is_empty() { NAME.to_owned() } else { format!("{folder}/{NAME}") };
        let text = files.iter().find(|file| file.path == NAME).map(|file| std::str::from_utf8(&file.bytes));
        let parsed = match text {
            Some(Ok(text)) => agent::skills::parse(text),
            Some(Err(_)) => Err("it is not UTF-8".to_owned()),
            None => Err("it is not there".to_owned()),
        };
        let Skill { name, description, .. } = match parsed {
            Ok(skill) => skill,
            Err(why) => {
                self.cannot_be_used(&file, &source, &why);
                return;
            }
        };
        if let Some(first) = self.skills.iter().find(|skill| skill.name == name) {
            self.remarks.push(format!(
                "There are two skills \"{name}\": that of {} ({}) is used, and {file} ({source}) is not.",
                first.folder, first.source
            ));
            return;
        }
        let place = match source.as_str() {
            REPOSITORY => format!("{WORKSPACE}/{folder}"),
            _ => format!("{PLACE}/{name}"),
        };
        self.kept.insert(name.clone(), files);
        self.skills.push(PinnedSkill { name, description, source, folder, commit, tree, place });
    }

    /// Writes the files into a session's directory, before the log tells of them.
    pub(crate) fn keep(&self, dir: &Path) -> Result<(), Problem> {
        let path = dir.join(FILE);
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            file.write_all(&serde_json::to_vec(&self.kept)?)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error| problem::file(&path, &error))
    }
}

/// The files of a skill that a session has.
pub(crate) async fn files(dir: &Path, name: &str) -> Result<Vec<SkillFile>, Problem> {
    let path = dir.join(FILE);
    let read = async {
        let bytes = tokio::fs::read(&path).await?;
        let mut kept: Kept = serde_json::from_slice(&bytes)?;
        kept.remove(name).ok_or_else(|| std::io::Error::other(format!("it has no skill {name}")))
    };
    read.await.map_err(|error: std::io::Error| problem::file(&path, &error))
}

/// Whether a skill's files must be put into the sandbox: those of the repository are there.
pub(crate) fn is_brought(skill: &PinnedSkill) -> bool {
    skill.source != REPOSITORY
}

/// Where the skill is from, and at which revision.
pub(crate) fn origin(skill: &PinnedSkill) -> String {
    let revision = skill.commit.as_ref().map(|commit| format!(" at commit {}", short(commit)));
    format!("{} ({}{})", skill.folder, skill.source, revision.unwrap_or_default())
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// Bytes in letters.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_commit(revision: &str) -> bool {
    matches!(revision.len(), 40 | 64) && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a file is called as the one that makes a folder a skill, in capitals or not.
fn is_called_so(name: &str) -> bool {
    name.eq_ignore_ascii_case(NAME)
}

/// Where in its repository a link leads; None where that is outside.
fn led_to(link: &str, target: &str) -> Option<String> {
    let mut place: Vec<&str> = link.split('/').collect();
    place.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(place.pop()?),
            // From the root of some machine.
            "" => return None,
            name => place.push(name),
        }
    }
    Some(place.join("/"))
}

/// The folders right below `root` that have the file, and `root` itself if it has.
fn folders_of(files: &[Placed], root: &str) -> Vec<String> {
    let inside = if root.is_empty() { String::new() } else { format!("{root}/") };
    let folder = |file: &Placed| {
        let rest = file.path.strip_prefix(&inside)?;
        match rest.split_once('/') {
            None if rest == NAME => Some(root.to_owned()),
            Some((folder, NAME)) => Some(format!("{inside}{folder}")),
            _ => None,
        }
    };
    files.iter().filter_map(folder).collect()
}

/// Whether a file is in a folder; all are in the root.
fn is_in(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Where the part of a path begins that is below a folder.
fn below(folder: &str) -> usize {
    if folder.is_empty() { 0 } else { folder.len() + 1 }
}

/// The files and links below a directory, by name. Links are not followed: they could lead anywhere on this machine.
fn walk(root: &Path) -> std::io::Result<Vec<(Placed, PathBuf)>> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut files = Vec::new();
    let mut open = vec![(root.to_owned(), String::new(), 0)];
    while let Some((directory, inside, depth)) = open.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let (Ok(name), about) = (entry.file_name().into_string(), entry.metadata()?) else { continue };
            if name == ".git" {
                continue;
            }
            let path = format!("{inside}{name}");
            if about.is_dir() && depth < DEPTH {
                open.push((entry.path(), format!("{path}/"), depth + 1));
            } else if about.is_file() || about.is_symlink() {
                let executable = about.permissions().mode() & 0o111 != 0;
                let (object, link) = (String::new(), about.is_symlink());
                files.push((Placed { object, bytes: about.len(), path, executable, link }, entry.path()));
            }
            if files.len() > FILES * SKILLS {
                return Err(std::io::Error::other("it has too many files"));
            }
        }
    }
    files.sort_by(|one, other| one.0.path.cmp(&other.0.path));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    #[tokio::test]
    async fn a_directory_is_kept_as_it_was() {
        let (dir, session) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = dir.path();
        let text = "---\nname: ship\ndescription: Ships.\n---\nDo it.";
        write(root, "ship/SKILL.md", text);
        write(root, "ship/scripts/go.sh", "exit 0");
        write(root, "again/SKILL.md", text);
        write(root, "broken/SKILL.md", "no front matter");
        write(root, "deep/er/SKILL.md", text);
        std::os::unix::fs::symlink("/etc/hostname", root.join("ship/link")).unwrap();
        write(root, "small/skill.md", text);
        std::fs::create_dir(root.join("linked")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", root.join("linked/SKILL.md")).unwrap();
        std::os::unix::fs::symlink("ship", root.join("alias")).unwrap();
        let source = SkillSource { path: Some(root.display().to_string()), ..SkillSource::default() };
        let mirrors = Mirrors::new(&root.join("none"));
        let found = find(&mirrors, std::slice::from_ref(&source), None).await.map_err(Failure::into_problem);
        let found = found.unwrap();
        assert_eq!(found.skills.len(), 1, "{:?}", found.skills);
        assert_eq!(found.skills[0].place, "/run/slipway/skills/ship");
        let told = found.remarks.join("\n");
        assert!(told.contains("broken/SKILL.md") && told.contains("does not begin with"), "{told}");
        assert!(told.contains("two skills \"ship\"") && !told.contains("deep"), "{told}");
        assert!(told.contains("small/skill.md") && told.contains("must be SKILL.md"), "{told}");
        assert!(told.contains("linked/SKILL.md") && told.contains("it is a link"), "{told}");
        assert!(!told.contains("ship/link") && !told.contains("alias"), "{told}");
        found.keep(session.path()).unwrap();
        write(root, "again/SKILL.md", "changed");
        let files = files(session.path(), "ship").await.unwrap();
        assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["SKILL.md"]);
        assert_eq!(files[0].bytes, text.as_bytes());
        let later = find(&mirrors, &[source], None).await.map_err(Failure::into_problem).unwrap();
        assert_eq!(later.skills[0].folder, "ship");
        assert_ne!(later.skills[0].tree, found.skills[0].tree);
        let names: Vec<&str> = later.kept["ship"].iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["SKILL.md", "scripts/go.sh"], "links are left out");
    }

    #[tokio::test]
    async fn a_place_that_is_not_there_is_told_with_its_name() {
        let mirrors = Mirrors::new(Path::new("/nowhere/mirrors"));
        let nowhere = "/nowhere/at/all".to_owned();
        for source in [
            SkillSource { path: Some(nowhere.clone()), ..SkillSource::default() },
            SkillSource { url: Some(nowhere), ..SkillSource::default() },
        ] {
            let problem = find(&mirrors, &[source], None).await.err().unwrap().into_problem();
            assert!(problem.title.contains("/nowhere/at/all") && problem.hint.is_some(), "{problem}");
        }
    }
}
