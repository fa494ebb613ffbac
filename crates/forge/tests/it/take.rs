//! What a sandbox hands back, honest and hostile.

use std::io::Write;
use std::path::Path;

use forge::Error;
use testkit::repo::git_in;

use super::World;

/// Takes the clone's work, which must be refused with this in the sentence, and must leave nothing behind.
pub(super) async fn refused(world: &World, clone: &Path, because: &str) {
    let error = world.take(clone).await.unwrap_err();
    left_nothing(world, error, because).await;
}

async fn left_nothing(world: &World, error: Error, because: &str) {
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    assert!(error.to_string().contains(because), "{error}");
    assert_eq!(world.mirror.kept("ses_1").await.unwrap(), None);
    let refs = git_in(&world.mirror_dir(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs.trim(), "refs/remotes/origin/main");
}

/// Commits an index entry that no work tree would have.
pub(super) fn commit_entry(clone: &Path, mode: &str, object: &str, path: &str) {
    git_in(clone, &["update-index", "--add", "--cacheinfo", &format!("{mode},{object},{path}")]);
    git_in(clone, &["commit", "--quiet", "-m", "Add an entry"]);
}

pub(super) fn blob(clone: &Path, text: &str) -> String {
    let file = clone.join("blob.tmp");
    std::fs::write(&file, text).unwrap();
    let object = git_in(clone, &["hash-object", "-w", "blob.tmp"]).trim().to_owned();
    std::fs::remove_file(file).unwrap();
    object
}

#[tokio::test]
async fn good_work_is_taken_and_kept() {
    let world = World::new().await;
    let first = world.mended().await;
    assert_eq!(world.mirror.kept("ses_1").await.unwrap().as_deref(), Some(first.as_str()));
    assert_eq!(world.mirror.kept("ses_2").await.unwrap(), None);
    assert_eq!(world.mirror.read(&first, "answer.txt").await.unwrap().unwrap(), b"42\n");

    // A second turn goes on from the first, with a link that stays inside, and a bundle of only what is new.
    let clone = world.directory.path().join("clone");
    std::os::unix::fs::symlink("../answer.txt", clone.join("notes/answer")).unwrap();
    git_in(&clone, &["add", "."]);
    git_in(&clone, &["commit", "--quiet", "-m", "Link to the answer"]);
    let bundle = world.bundle_from(&clone, &["HEAD", "work", &format!("^{first}")]);
    let second = world.mirror.take(&bundle, "work", &world.base, ("ses_1", None), None).await.unwrap().commit;
    assert_eq!(second, git_in(&clone, &["rev-parse", "work"]).trim());
    assert_eq!(world.mirror.kept("ses_1").await.unwrap(), Some(second));

    // A bundle with the whole history is as good.
    let bundle = world.bundle_from(&clone, &["work"]);
    world.mirror.take(&bundle, "work", &world.base, ("ses_3", None), None).await.unwrap();
    world.mirror_dir();
}

#[tokio::test]
async fn other_refs_are_refused() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    git_in(&clone, &["commit", "--quiet", "--allow-empty", "-m", "Nothing"]);
    git_in(&clone, &["branch", "main2"]);
    let bundle = world.bundle_from(&clone, &["work", "main2"]);
    let error = world.mirror.take(&bundle, "work", &world.base, ("ses_1", None), None).await.unwrap_err();
    left_nothing(&world, error, "refs/heads/main2").await;
    let error = world.mirror.take(&bundle, "main", &world.base, ("ses_1", None), None).await.unwrap_err();
    left_nothing(&world, error, "only refs/heads/main is expected").await;
}

#[tokio::test]
async fn a_history_of_its_own_is_refused() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    git_in(&clone, &["checkout", "--quiet", "--orphan", "fresh"]);
    git_in(&clone, &["commit", "--quiet", "-m", "Begin anew"]);
    git_in(&clone, &["branch", "-M", "work"]);
    let bundle = world.bundle_from(&clone, &["work"]);
    let error = world.mirror.take(&bundle, "work", &world.base, ("ses_1", None), None).await.unwrap_err();
    left_nothing(&world, error, "no longer descends").await;
}

#[tokio::test]
async fn links_out_of_the_repository_are_refused() {
    for (path, target) in [("out", "/etc/passwd"), ("notes/up", "../../x"), ("hooks", ".git/hooks")] {
        let world = World::new().await;
        let clone = world.clone_in_sandbox().await;
        std::os::unix::fs::symlink("answer.txt", clone.join("aaa-good")).unwrap();
        std::os::unix::fs::symlink(target, clone.join(path)).unwrap();
        git_in(&clone, &["add", "."]);
        git_in(&clone, &["commit", "--quiet", "-m", "Add a link"]);
        refused(&world, &clone, &format!("{path:?} is a link")).await;
    }
}

#[tokio::test]
async fn a_submodule_is_refused() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    commit_entry(&clone, "160000", &world.base, "vendor/lib");
    refused(&world, &clone, "\"vendor/lib\" adds a submodule").await;
}

/// Puts a commit on the branch with the tree that this shell script leaves in `$tree`; for trees that no index lets
/// through.
pub(super) fn commit_tree(clone: &Path, script: &str) {
    let file = clone.join("tree.sh");
    let commit = "git update-ref refs/heads/work $(git commit-tree -p HEAD -m 'Add a tree' $tree)";
    std::fs::write(&file, format!("set -e\n{script}\n{commit}\n")).unwrap();
    git_in(clone, &["-c", "alias.make=!sh ./tree.sh", "make"]);
    std::fs::remove_file(file).unwrap();
}

pub(super) fn commit_dot_git(clone: &Path, name: &str) {
    let config = blob(clone, "[core]\n\tfsmonitor = touch /tmp/x\n");
    let script = format!(
        "inner=$(printf '100644 blob {config}\\tconfig\\n' | git mktree)\n\
         tree=$( (git ls-tree HEAD; printf \"040000 tree $inner\\t{name}\\n\") | git mktree)"
    );
    commit_tree(clone, &script);
}

#[tokio::test]
async fn a_tree_that_unfolds_without_end_is_refused() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    let file = blob(&clone, "boom\n");
    let script = format!(
        "ten() {{ for n in 0 1 2 3 4 5 6 7 8 9; do printf \"$1 $2\\t$n\\n\"; done | git mktree; }}\n\
         tree=$(ten '100644 blob' {file})\n\
         for level in 1 2 3 4 5 6 7 8 9; do tree=$(ten '040000 tree' $tree); done"
    );
    commit_tree(&clone, &script);
    refused(&world, &clone, "more files than can be looked at").await;
}

#[tokio::test]
async fn a_path_in_dot_git_is_refused() {
    for name in [".git", ".GIT"] {
        let world = World::new().await;
        let clone = world.clone_in_sandbox().await;
        commit_dot_git(&clone, name);
        refused(&world, &clone, &format!("\"{name}/config\" is inside a .git directory")).await;
    }
}

#[tokio::test]
async fn a_faulty_tree_in_the_middle_of_the_history_is_refused() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    let tree = git_in(&clone, &["rev-parse", "HEAD^{tree}"]).trim().to_owned();
    commit_dot_git(&clone, ".git");
    // The last commit has the base's tree again, so that the difference to the base is empty.
    let last = git_in(&clone, &["commit-tree", "-p", "work", "-m", "Put it back", &tree]).trim().to_owned();
    git_in(&clone, &["update-ref", "refs/heads/work", &last]);
    for _ in 0..2 {
        refused(&world, &clone, "fault in its objects").await;
    }
}

#[tokio::test]
async fn what_is_no_bundle_is_refused() {
    let world = World::new().await;
    let file = world.directory.path().join("rubbish");
    std::fs::write(&file, "rubbish\n").unwrap();
    let error = world.mirror.take(&file, "work", &world.base, ("ses_1", None), None).await.unwrap_err();
    left_nothing(&world, error, "bundle cannot be read").await;

    let clone = world.clone_in_sandbox().await;
    git_in(&clone, &["commit", "--quiet", "--allow-empty", "-m", "Nothing"]);
    let whole = std::fs::read(world.bundle_from(&clone, &["work"])).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 30]).unwrap();
    let error = world.mirror.take(&file, "work", &world.base, ("ses_1", None), None).await.unwrap_err();
    left_nothing(&world, error, "bundle cannot be unpacked").await;

    // What is not a file is refused at once, also a link to a bundle that would be taken, and a pipe that nobody writes to.
    let (link, pipe) = (world.directory.path().join("link"), world.directory.path().join("pipe"));
    std::os::unix::fs::symlink(world.bundle_from(&clone, &["work"]), &link).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let socket = world.directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for other in [link.as_path(), &pipe, &socket, world.directory.path()] {
        let error = world.mirror.take(other, "work", &world.base, ("ses_1", None), None).await.unwrap_err();
        left_nothing(&world, error, "not a regular file").await;
    }

    std::fs::File::create(&file).unwrap().set_len(forge::BUNDLE_LIMIT + 1).unwrap();
    let error = world.mirror.take(&file, "work", &world.base, ("ses_1", None), None).await.unwrap_err();
    left_nothing(&world, error, "larger than 256 MiB").await;
}

/// A pack of a few bytes with a file of zeros and one that is that file many times over; gives its two objects.
fn bomb(clone: &Path, times: usize) -> (String, String) {
    const BASE: usize = 1 << 20;
    let number = |mut number: usize, first: &mut Vec<u8>| {
        while number > 0x7f {
            first.push(number as u8 | 0x80);
            number >>= 7;
        }
        first.push(number as u8);
    };
    let deflate = |bytes: &[u8], pack: &mut Vec<u8>| {
        let mut encoder = flate2::write::ZlibEncoder::new(pack, flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap();
    };
    let entry = |kind: u8, size: usize, pack: &mut Vec<u8>| {
        pack.push(0x80 | kind << 4 | (size & 15) as u8);
        number(size >> 4, pack);
    };
    let mut pack = b"PACK\0\0\0\x02\0\0\0\x02".to_vec();
    let first = pack.len();
    entry(3, BASE, &mut pack);
    deflate(&vec![0; BASE], &mut pack);
    // Each of these takes all of the other file.
    let mut difference = Vec::new();
    number(BASE, &mut difference);
    number(BASE * times, &mut difference);
    (0..times).for_each(|_| difference.extend([0xc0, 0x10]));
    let mut back = pack.len() - first;
    entry(6, difference.len(), &mut pack);
    let mut offset = vec![(back & 0x7f) as u8];
    while back > 0x7f {
        back = (back >> 7) - 1;
        offset.insert(0, 0x80 | (back & 0x7f) as u8);
    }
    pack.extend(offset);
    deflate(&difference, &mut pack);

    let path = clone.join(".git/objects/pack/pack-0123456789012345678901234567890123456789.pack");
    std::fs::write(&path, &pack).unwrap();
    let sum = std::process::Command::new("sha1sum").arg(&path).output().unwrap().stdout;
    let hex = |at: usize| u8::from_str_radix(std::str::from_utf8(&sum[at..at + 2]).unwrap(), 16).unwrap();
    pack.extend((0..40).step_by(2).map(hex));
    std::fs::write(&path, &pack).unwrap();
    git_in(clone, &["index-pack", path.to_str().unwrap()]);
    let show = format!("alias.show-pack=!git show-index < {}", path.with_extension("idx").display());
    let listing = git_in(clone, &["-c", &show, "show-pack"]);
    let lines = listing.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>());
    let (zeros, many): (Vec<_>, Vec<_>) = lines.partition(|line| line[0] == first.to_string());
    (zeros[0][1].to_owned(), many[0][1].to_owned())
}

#[tokio::test]
async fn a_few_bytes_that_unfold_to_very_many_are_refused() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    let (zeros, many) = bomb(&clone, (forge::OBJECT_LIMIT >> 20) as usize + 1);
    let script = format!(
        "tree=$( (git ls-tree HEAD; printf '100644 blob {zeros}\\tbase\\n100644 blob {many}\\tmany\\n') | git mktree)"
    );
    commit_tree(&clone, &script);
    let bundle = world.bundle_from(&clone, &[&format!("{}..work", world.base)]);
    assert!(std::fs::metadata(&bundle).unwrap().len() < 16 * 1024);
    refused(&world, &clone, "unfolds to 257 MiB or more, and no file of more than 256 MiB is taken").await;
    // Nor is it taken when the last commit does not have it any more.
    let last =
        git_in(&clone, &["commit-tree", "-p", "work", "-m", "Back", &format!("{}^{{tree}}", world.base)]);
    git_in(&clone, &["update-ref", "refs/heads/work", last.trim()]);
    refused(&world, &clone, "unfolds to 257 MiB").await;
}
