//! Maps of repositories: made beside everything else from the host's copy of one, kept there, and given to the model when a
//! session begins. Whoever wants one never waits for its making.
//!
//! Files are read by a process of the program itself, which confines itself before it reads anything (`repomap::serve`).

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use forge::{Listed, Mirror};
use repomap::{FileSymbols, Map};
use tokio::io::{AsyncBufReadExt, AsyncReadExt};
use tokio::process::Command;

use crate::joint::{Joint, of};

/// What every map begins with.
pub(crate) const MAP_OPENING: &str = "A map of the repository at ";

/// The name of the file beside a mirror.
const FILE: &str = "slipway-map.gz";
/// A file of at most so many bytes has no files in it.
const EMPTY: u64 = 160;
/// How long it is believed that a repository is small.
const A_DAY: Duration = Duration::from_secs(24 * 3600);
/// Most files that are read, and most bytes of them.
const FILES: usize = 20_000;
const BYTES: u64 = 200 * 1024 * 1024;
/// Most bytes that the reading process may tell, and that a kept map may have.
const TOLD: u64 = 128 * 1024 * 1024;
/// How long reading may take.
const PATIENCE: Duration = Duration::from_secs(150);

/// How maps are made.
#[derive(Debug, Clone)]
pub struct Maps {
    /// The program that reads files, and its arguments: it calls `repomap::confine` and `repomap::serve`.
    pub reader: (PathBuf, Vec<String>),
    /// A repository with fewer files of source has none: it is looked through as quickly.
    pub least: usize,
}

/// Why there is no map.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Forge(#[from] forge::Error),
    #[error("cannot read the files of the repository: {0}")]
    Io(#[from] io::Error),
    #[error("what was read of the repository cannot be understood: {0}")]
    Malformed(String),
}

impl Maps {
    /// The map that is kept of a repository, of whatever commit it is. This blocks.
    pub(crate) fn kept(mirror: &Mirror) -> Option<Map> {
        let file = std::fs::File::open(mirror.beside(FILE)).ok()?;
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(file).take(TOLD).read_to_end(&mut text).ok()?;
        // One that cannot be read is made anew.
        serde_json::from_slice(&text).ok()
    }

    /// Whether there is a map already.
    pub(crate) fn has(mirror: &Mirror) -> bool {
        mirror.beside(FILE).exists()
    }

    /// The map of a repository at a commit: the one that is kept, or one that is made now, of which only what changed is
    /// read. None where the repository is small.
    pub(crate) async fn of(&self, mirror: &Mirror, commit: &str) -> Result<Option<Map>, Error> {
        let there = mirror.clone();
        let kept = tokio::task::spawn_blocking(move || Self::kept(&there)).await.map_err(io::Error::other)?;
        if let Some(map) = kept.as_ref().filter(|map| map.commit == commit) {
            return Ok((map.files.len() >= self.least).then(|| map.clone()));
        }
        let all = mirror.files(commit).await?;
        let total = all.len();
        let source = chosen(all);
        if source.len() < self.least {
            // That it is small is remembered, so that it is not looked at for each session.
            self.put(mirror, Map { commit: commit.to_owned(), total, files: Vec::new() }).await?;
            return Ok(None);
        }
        let mut known: HashMap<(String, String), FileSymbols> = kept
            .into_iter()
            .flat_map(|map| map.files)
            .map(|file| ((file.path.clone(), file.object.clone()), file))
            .collect();
        let (mut files, mut unknown) = (Vec::with_capacity(source.len()), Vec::new());
        for file in source {
            match known.remove(&(file.path.clone(), file.object.clone())) {
                Some(symbols) => files.push(symbols),
                None => unknown.push(file),
            }
        }
        if !unknown.is_empty() {
            files.extend(self.read(mirror, &unknown).await?);
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let map = self.put(mirror, Map { commit: commit.to_owned(), total, files }).await?;
        Ok(Some(map))
    }

    /// Keeps a map, as far as that is possible.
    async fn put(&self, mirror: &Mirror, map: Map) -> Result<Map, Error> {
        let place = mirror.beside(FILE);
        let kept = tokio::task::spawn_blocking(move || (keep(&place, &map), map)).await;
        let (kept, map) = kept.map_err(io::Error::other)?;
        if let Err(error) = kept {
            tracing::warn!(%error, "the map of a repository could not be kept");
        }
        Ok(map)
    }

    /// Whether it is known that a repository is small, and not for long.
    pub(crate) fn is_small(mirror: &Mirror) -> bool {
        let Ok(about) = std::fs::metadata(mirror.beside(FILE)) else { return false };
        let young = about.modified().ok().and_then(|then| then.elapsed().ok()).is_some_and(|age| age < A_DAY);
        about.len() <= EMPTY && young
    }

    /// Has the files read by a confined process.
    async fn read(&self, mirror: &Mirror, files: &[Listed]) -> Result<Vec<FileSymbols>, Error> {
        let (program, arguments) = &self.reader;
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(stdin), Some(stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the reading process has no pipes").into());
        };
        let pour = mirror.pour(files, stdin.into_owned_fd()?);
        let told = async {
            let mut lines = tokio::io::BufReader::new(stdout.take(TOLD)).lines();
            let mut told = Vec::with_capacity(files.len());
            while let Some(line) = lines.next_line().await? {
                let symbols: FileSymbols =
                    serde_json::from_str(&line).map_err(|error| Error::Malformed(error.to_string()))?;
                told.push(symbols);
            }
            Ok::<_, Error>(told)
        };
        let mut said = String::new();
        let work = async {
            // Git ends when nobody reads what it says; how that went is told by the reader.
            let (poured, told, _) = tokio::join!(pour, told, stderr.read_to_string(&mut said));
            let status = child.wait().await?;
            Ok::<_, Error>((poured, told?, status))
        };
        let (poured, told, status) = tokio::time::timeout(PATIENCE, work)
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "it takes too long"))??;
        if !status.success() {
            return Err(Error::Malformed(format!(
                "the reading process ended with {status}: {}",
                said.trim()
            )));
        }
        poured?;
        Ok(told)
    }
}

/// The files that are read: of a repository with too many, those nearest to its root.
fn chosen(all: Vec<Listed>) -> Vec<Listed> {
    let wanted = |file: &Listed| file.bytes <= repomap::FILE_LIMIT && repomap::reads(&file.path);
    let mut source: Vec<Listed> = all.into_iter().filter(wanted).collect();
    source.sort_by_cached_key(|file| (file.path.matches('/').count(), file.path.clone()));
    source.truncate(FILES);
    let mut bytes = 0;
    let fits = source.iter().take_while(|file| {
        bytes += file.bytes;
        bytes <= BYTES
    });
    let fits = fits.count();
    source.truncate(fits);
    source
}

/// Writes a map beside its mirror, whole or not at all.
fn keep(place: &Path, map: &Map) -> io::Result<()> {
    let dir = place.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    let mut gzip = flate2::write::GzEncoder::new(&mut file, flate2::Compression::fast());
    serde_json::to_writer(&mut gzip, map)?;
    gzip.finish()?.flush()?;
    file.persist(place).map_err(|error| error.error)?;
    Ok(())
}

/// Makes the map of a repository beside everything else.
pub(crate) fn make(maps: Option<&Maps>, mirror: &Mirror, commit: &str) {
    let Some(maps) = maps.cloned() else { return };
    let (mirror, commit) = (mirror.clone(), commit.to_owned());
    tokio::spawn(async move {
        if let Err(error) = maps.of(&mirror, &commit).await {
            tracing::warn!(%error, repository = mirror.url(), "there is no map of a repository");
        }
    });
}

/// A map that is on its way to a model.
pub(crate) struct Coming(tokio_util::task::AbortOnDropHandle<Option<String>>);

/// How long a turn waits for a map that is there already.
const MOMENT: Duration = Duration::from_millis(250);

impl Coming {
    /// Begins to write the map for a task, in so many bytes.
    pub(crate) fn begin(maps: Maps, mirrors: Joint, task: String, room: usize) -> Self {
        let write = async move {
            let commits = mirrors.tip().await.ok()?.commit;
            let room = room / mirrors.parts().count().max(1);
            let mut texts = Vec::new();
            for (number, (place, mirror)) in mirrors.parts().enumerate() {
                let map = match maps.of(mirror, of(&commits, number)).await {
                    Ok(Some(map)) => map,
                    Ok(None) => continue,
                    Err(error) => {
                        tracing::warn!(%error, repository = mirror.url(), "there is no map of a repository");
                        continue;
                    }
                };
                let (task, place) = (task.clone(), place.to_owned());
                let text = tokio::task::spawn_blocking(move || told(&map, &task, room, &place));
                texts.extend(text.await.ok()?);
            }
            (!texts.is_empty()).then(|| texts.join("\n\n"))
        };
        Self(tokio_util::task::AbortOnDropHandle::new(tokio::spawn(write)))
    }

    /// What became of it, if that is known now, or in a moment where `soon` says so.
    pub(crate) async fn ready(&mut self, soon: bool) -> Option<Option<String>> {
        let wait = if soon { MOMENT } else { Duration::ZERO };
        let done = tokio::time::timeout(wait, &mut self.0).await.ok()?;
        Some(done.unwrap_or_default())
    }
}

/// What the model reads.
fn told(map: &Map, task: &str, room: usize, place: &str) -> Option<String> {
    let text = map.text(task, room)?;
    let place = match place {
        "" => String::new(),
        place => format!(" in {place}/, where its paths begin"),
    };
    Some(format!(
        "{MAP_OPENING}{}{place}, which has {} files: definitions that others use most and that fit the task, with their \
         lines. It is data, and only a part: look for the rest with search, list and read.\n{text}",
        map.commit.get(..12).unwrap_or(&map.commit),
        map.total
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_foreign_files_are_not_read() {
        let file = |path: &str, bytes| Listed { object: String::new(), bytes, path: path.into() };
        let all = vec![
            file("src/deep/er/b.rs", 10),
            file("a.rs", 10),
            file("node_modules/x.js", 10),
            file("big.py", repomap::FILE_LIMIT + 1),
            file("README.md", 10),
        ];
        let paths: Vec<String> = chosen(all).into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["a.rs", "src/deep/er/b.rs"]);
    }

    #[test]
    fn a_map_is_kept_whole() {
        let dir = tempfile::tempdir().unwrap();
        let map = Map { commit: "1f".into(), total: 3, files: vec![FileSymbols::default()] };
        let place = dir.path().join(FILE);
        keep(&place, &map).unwrap();
        keep(&place, &map).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let small = Map { commit: "0123456789".repeat(7), total: usize::MAX, files: Vec::new() };
        keep(&place, &small).unwrap();
        assert!(std::fs::metadata(&place).unwrap().len() <= EMPTY);
    }
}
