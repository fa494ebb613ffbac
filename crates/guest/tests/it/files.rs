//! Files through the daemon, checked from outside.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use bytes::Bytes;
use guest::{Error, FileKind};

use crate::Daemon;

fn bytes(length: usize) -> Bytes {
    (0..length).map(|index| (index * 7 / 5) as u8).collect()
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, reason: &str) {
    assert!(
        matches!(&result, Err(Error::Refused(message)) if message.contains(reason)),
        "{reason}: {result:?}"
    );
}

#[tokio::test]
async fn any_bytes_are_written_and_read_back_whole_and_in_ranges() {
    let daemon = Daemon::start();
    let data = bytes(3_000_001);
    let path = daemon.path("new/deep/ü & ?%.bin");
    daemon.client.write_file(&path, data.clone()).await.unwrap();
    assert!(fs::read(&path).unwrap() == data);
    let (read, size) = daemon.client.read_file(&path, 0, u64::MAX).await.unwrap();
    assert!(read == data && size == data.len() as u64);
    let (read, size) = daemon.client.read_file(&path, 100_000, 70_000).await.unwrap();
    assert!(read == data[100_000..170_000] && size == data.len() as u64);
    assert_eq!(daemon.client.read_file(&path, 3_000_000, 10).await.unwrap().0.len(), 1);
    assert_eq!(daemon.client.read_file(&path, 9_000_000, 10).await.unwrap().0.len(), 0);
    assert_eq!(daemon.client.read_file(&path, 5, 0).await.unwrap(), (Bytes::new(), data.len() as u64));
    daemon.client.write_file("empty", Bytes::new()).await.unwrap();
    assert_eq!(
        fs::read(daemon.path("empty")).unwrap(),
        b"",
        "a relative path begins in the working directory"
    );
    let (status, _) = daemon.client.read_file("/proc/self/status", 0, 100_000).await.unwrap();
    assert!(status.starts_with(b"Name:"), "files that claim to be empty are read to their end");
}

#[tokio::test]
async fn writing_replaces_the_file_and_keeps_its_mode_and_its_links() {
    let daemon = Daemon::start();
    let path = daemon.path("script");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let reader = fs::File::open(&path).unwrap();
    fs::create_dir(daemon.path("sub")).unwrap();
    symlink("../script", daemon.path("sub/link")).unwrap();
    symlink("sub/link", daemon.path("link")).unwrap();
    daemon.client.write_file(&daemon.path("link"), "new".into()).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o750);
    assert!(fs::symlink_metadata(daemon.path("link")).unwrap().is_symlink());
    assert!(fs::symlink_metadata(daemon.path("sub/link")).unwrap().is_symlink());
    assert_eq!(std::io::read_to_string(reader).unwrap(), "old", "who had it open still reads the old one");
    symlink("made/later", daemon.path("dangling")).unwrap();
    daemon.client.write_file(&daemon.path("dangling"), "there".into()).await.unwrap();
    assert_eq!(fs::read(daemon.path("made/later")).unwrap(), b"there");
    assert_eq!(fs::metadata(daemon.path("made/later")).unwrap().permissions().mode() & 0o7777, 0o644);
}

#[tokio::test]
async fn a_write_that_breaks_off_leaves_the_old_file_and_nothing_else() {
    use std::io::{Read, Write};

    let daemon = Daemon::start();
    fs::write(daemon.path("file"), "old").unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(daemon.path("guest.sock")).unwrap();
    let target = daemon.path("file");
    write!(stream, "PUT /files?path={target} HTTP/1.1\r\nhost: guest\r\ncontent-length: 1000\r\n\r\npartial")
        .unwrap();
    // It is under way once the temporary file is there.
    let names = || fs::read_dir(daemon.directory.path()).unwrap().count();
    while names() != 3 {
        tokio::task::yield_now().await;
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    while names() != 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fs::read(daemon.path("file")).unwrap(), b"old");
}

#[tokio::test]
async fn directories_are_listed_by_name() {
    let daemon = Daemon::start();
    fs::create_dir(daemon.path("d")).unwrap();
    fs::write(daemon.path("d/b"), "12345").unwrap();
    fs::set_permissions(daemon.path("d/b"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(daemon.path("d/a")).unwrap();
    symlink("/nowhere", daemon.path("d/c")).unwrap();
    let entries = daemon.client.list(&daemon.path("d")).await.unwrap();
    let entries: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    assert_eq!(entries, [("a", FileKind::Directory), ("b", FileKind::File), ("c", FileKind::Symlink)]);
    let stat = daemon.client.stat(&daemon.path("d/b")).await.unwrap();
    assert_eq!((stat.kind, stat.size, stat.mode), (FileKind::File, 5, 0o600));
    assert_eq!(daemon.client.stat("/dev/null").await.unwrap().kind, FileKind::Other);
}

#[tokio::test]
async fn what_cannot_be_done_says_why() {
    let daemon = Daemon::start();
    let client = &daemon.client;
    fs::write(daemon.path("file"), "x").unwrap();
    symlink("ring", daemon.path("ring")).unwrap();
    let pipe = std::ffi::CString::new(daemon.path("pipe")).unwrap();
    // SAFETY: the path is a valid C string.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    for path in ["nothing", "no/thing"] {
        let path = daemon.path(path);
        assert!(matches!(client.read_file(&path, 0, 1).await, Err(Error::NotFound(_))));
        assert!(matches!(client.list(&path).await, Err(Error::NotFound(_))));
        assert!(matches!(client.stat(&path).await, Err(Error::NotFound(_))));
    }
    refused(client.read_file(&daemon.path(""), 0, 1).await, "is a directory");
    refused(client.read_file(&daemon.path("pipe"), 0, 1).await, "not a regular file");
    refused(client.read_file("/dev/zero", 0, u64::MAX).await, "not a regular file");
    refused(client.list(&daemon.path("file")).await, "not a directory");
    // Larger than what is in flight, so the answer must survive that most of the body was not asked for.
    let much = bytes(5_000_000);
    refused(client.write_file("/", much.clone()).await, "directory");
    refused(
        client.write_file(daemon.directory.path().to_str().unwrap(), much.clone()).await,
        "is a directory",
    );
    refused(client.write_file(&daemon.path("file/below"), much.clone()).await, "not a directory");
    refused(client.write_file(&daemon.path("pipe"), much.clone()).await, "not a regular file");
    refused(client.write_file(&daemon.path("ring"), much.clone()).await, "symbolic links");
    refused(client.write_file("", much).await, "empty");
}

#[tokio::test]
async fn a_directory_with_too_many_entries_is_not_listed() {
    let daemon = Daemon::start();
    fs::create_dir(daemon.path("many")).unwrap();
    for number in 0..=10_000 {
        fs::write(daemon.path(&format!("many/{number}")), "").unwrap();
    }
    refused(daemon.client.list(&daemon.path("many")).await, "more than 10000 entries");
    fs::remove_file(daemon.path("many/10000")).unwrap();
    assert_eq!(daemon.client.list(&daemon.path("many")).await.unwrap().len(), 10_000);
}

#[tokio::test]
async fn exact_paths_have_no_links_in_them() {
    let daemon = Daemon::start();
    // The directory of the test may be behind a link itself.
    let root = fs::canonicalize(daemon.path(".")).unwrap();
    let at = |path: &str| root.join(path).to_str().unwrap().to_owned();
    fs::create_dir_all(at("dir/sub")).unwrap();
    fs::write(at("dir/file"), "inside").unwrap();
    fs::write(at("secret"), "outside").unwrap();
    symlink("dir", at("alias")).unwrap();
    symlink("../secret", at("dir/link")).unwrap();
    let exact = daemon.client.exact();
    assert_eq!(exact.read_file(&at("dir/file"), 0, 100).await.unwrap().0, "inside");
    assert_eq!(exact.stat(&at("dir/sub/../file")).await.unwrap().kind, FileKind::File);
    assert_eq!(exact.stat(&at("dir/link")).await.unwrap().kind, FileKind::Symlink);
    assert_eq!(exact.list(&at("dir")).await.unwrap().len(), 3);
    exact.write_file(&at("dir/new/deep/file"), "made".into()).await.unwrap();
    assert_eq!(fs::read(at("dir/new/deep/file")).unwrap(), b"made");
    exact.write_file(&at("dir/file"), "changed".into()).await.unwrap();
    assert_eq!(fs::read(at("dir/file")).unwrap(), b"changed");

    for path in ["alias/file", "dir/link"] {
        assert!(matches!(exact.read_file(&at(path), 0, 100).await, Err(Error::Refused(_))), "{path}");
        assert!(matches!(exact.write_file(&at(path), "x".into()).await, Err(Error::Refused(_))), "{path}");
    }
    assert!(matches!(exact.write_file(&at("alias/new/file"), "x".into()).await, Err(Error::Refused(_))));
    assert!(matches!(exact.list(&at("alias")).await, Err(Error::Refused(_))));
    assert!(matches!(exact.stat(&at("alias/file")).await, Err(Error::Refused(_))));
    assert!(matches!(exact.read_file(&at("dir/none"), 0, 1).await, Err(Error::NotFound(_))));
    assert_eq!(fs::read(at("secret")).unwrap(), b"outside");
    assert_eq!(fs::read(at("dir/file")).unwrap(), b"changed");
    assert_eq!(
        daemon.client.read_file(&at("alias/link"), 0, 100).await.unwrap().0,
        "outside",
        "others follow them"
    );
}
