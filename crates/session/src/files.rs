//! The files of a workspace, for people who look at them: in the sandbox while there is one, else in what the host keeps.

use bytes::Bytes;
use guest::FileKind;
use protocol::{
    Code, ENTRIES_LIMIT, EntryKind, FileEntry, FileList, FileState, FilesSource, Problem, SessionId,
};
use sandbox::WORKSPACE;

use crate::actor::Handle;
use crate::failure::Failure;
use crate::{Sessions, problem};

/// Larger files are not shown.
const LARGEST: u64 = forge::READ_LIMIT;

impl Sessions {
    /// The entries of a directory.
    pub async fn files(&self, id: SessionId, path: &str, at: FileState) -> Result<FileList, Problem> {
        let handle = self.registry.open(id).await?;
        let path = plain(path)?;
        let inside = if at == FileState::Now { listed_inside(&handle, &path).await? } else { None };
        let (source, mut entries) = match inside {
            Some(entries) => (FilesSource::Sandbox, entries),
            None => listed_outside(&handle, &path, at).await?,
        };
        entries.sort_by(|one, other| {
            let files = |entry: &FileEntry| entry.kind != EntryKind::Directory;
            files(one).cmp(&files(other)).then_with(|| one.name.cmp(&other.name))
        });
        let truncated = entries.len() > ENTRIES_LIMIT;
        entries.truncate(ENTRIES_LIMIT);
        Ok(FileList { path, source, entries, truncated })
    }

    /// The bytes of a file.
    pub async fn file(&self, id: SessionId, path: &str, at: FileState) -> Result<Bytes, Problem> {
        let handle = self.registry.open(id).await?;
        let path = plain(path)?;
        if path.is_empty() {
            return Err(missing("file", &path));
        }
        if at == FileState::Now
            && let Some(bytes) = read_inside(&handle, &path).await?
        {
            return Ok(bytes);
        }
        let workspace = &handle.context().workspace;
        let Some((commit, _)) = commit(&handle, at) else { return Err(missing("file", &path)) };
        let mirrors = workspace.mirrors().await.map_err(Failure::into_problem)?;
        match mirrors.read(&commit, &path).await {
            Ok(Some(bytes)) => Ok(bytes.into()),
            Ok(None) => Err(missing("file", &path)),
            Err(forge::Error::Io(detail)) if detail.contains("bytes, which is more than") => {
                Err(large(&path))
            }
            Err(error) => Err(problem::forge(&error)),
        }
    }
}

/// The path without a slash at its ends; nothing in it leads out of the workspace.
fn plain(path: &str) -> Result<String, Problem> {
    let path = path.trim_matches('/');
    let odd = path.contains('\0') || path.split('/').any(|part| matches!(part, "." | ".."));
    if odd || (!path.is_empty() && path.split('/').any(str::is_empty)) {
        return Err(Problem::new(Code::BadRequest, "this is no path in the workspace")
            .hint("give it from the root of the workspace, such as src/main.rs"));
    }
    Ok(path.to_owned())
}

fn missing(what: &str, path: &str) -> Problem {
    Problem::new(Code::NotFound, format!("there is no {what} \"{path}\""))
        .hint("it may have been removed, or not have been kept yet")
}

fn large(path: &str) -> Problem {
    Problem::new(Code::TooLarge, format!("{path} is larger than {} KiB", LARGEST / 1024))
        .hint("look at it in the terminal")
}

async fn listed_inside(handle: &Handle, path: &str) -> Result<Option<Vec<FileEntry>>, Problem> {
    let Some(held) = handle.context().workspace.attached(handle.recorder()).await else { return Ok(None) };
    let listed = match held.sandbox.guest().list(&format!("{WORKSPACE}/{path}")).await {
        Ok(listed) => listed,
        // Between a sandbox's death and the moment somebody learns of it, the kept work is the answer.
        Err(guest::Error::Unavailable(_)) => return Ok(None),
        Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => return Err(missing("directory", path)),
    };
    let entry = |stat: guest::Stat| {
        let kind = match stat.kind {
            FileKind::File => EntryKind::File,
            FileKind::Directory => EntryKind::Directory,
            FileKind::Symlink => EntryKind::Symlink,
            FileKind::Other => EntryKind::Other,
        };
        FileEntry { name: stat.name, kind, size: (kind == EntryKind::File).then_some(stat.size) }
    };
    Ok(Some(listed.into_iter().map(entry).collect()))
}

async fn read_inside(handle: &Handle, path: &str) -> Result<Option<Bytes>, Problem> {
    let Some(held) = handle.context().workspace.attached(handle.recorder()).await else { return Ok(None) };
    match held.sandbox.guest().read_file(&format!("{WORKSPACE}/{path}"), 0, LARGEST).await {
        Ok((_, size)) if size > LARGEST => Err(large(path)),
        Ok((bytes, _)) => Ok(Some(bytes)),
        Err(guest::Error::Unavailable(_)) => Ok(None),
        Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => Err(missing("file", path)),
    }
}

/// The commit that has the files, and what it is.
fn commit(handle: &Handle, at: FileState) -> Option<(String, FilesSource)> {
    let saved = handle.context().workspace.saved()?;
    match saved.kept {
        Some(kept) if at == FileState::Now => Some((kept, FilesSource::Kept)),
        _ => Some((saved.base, FilesSource::Base)),
    }
}

async fn listed_outside(
    handle: &Handle,
    path: &str,
    at: FileState,
) -> Result<(FilesSource, Vec<FileEntry>), Problem> {
    let Some((commit, source)) = commit(handle, at) else {
        return Err(Problem::new(Code::NotFound, "the session has no workspace yet")
            .hint("it has one when its first turn has begun"));
    };
    let mirrors = handle.context().workspace.mirrors().await.map_err(Failure::into_problem)?;
    let listed = mirrors.entries(&commit, path).await.map_err(|error| problem::forge(&error))?;
    let listed = listed.ok_or_else(|| missing("directory", path))?;
    let entry = |entry: forge::Entry| {
        let kind = match entry.mode.as_str() {
            "040000" => EntryKind::Directory,
            "120000" => EntryKind::Symlink,
            "160000" => EntryKind::Submodule,
            _ => EntryKind::File,
        };
        FileEntry { name: entry.name, kind, size: entry.size.filter(|_| kind == EntryKind::File) }
    };
    Ok((source, listed.into_iter().map(entry).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_workspace() {
        assert_eq!(plain("/src/a b/").unwrap(), "src/a b");
        assert_eq!(plain("").unwrap(), "");
        for odd in ["..", "a/../../b", "./a", "a//b", "a\0b"] {
            assert_eq!(plain(odd).unwrap_err().code, Code::BadRequest, "{odd:?}");
        }
    }
}
