//! Bounds for a git that reads what came out of a sandbox. What is packed in a few bytes can take any amount of memory once
//! it is unfolded; the kernel ends a git that takes more than this, whatever it was made to read.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Memory that one process of git may take. Files that it only maps do not count, so that a large mirror stays readable.
pub(crate) const MEMORY: u64 = 2 * 1024 * 1024 * 1024;

/// Each thread takes as much memory as another process would.
pub(crate) const ONE_THREAD: &str = "pack.threads=1";

/// What git says when it gets no more memory.
const SIGNS: [&str; 2] = ["ut of memory", "annot allocate memory"];

/// Bounds this process and everything it starts. For between fork and exec: it makes system calls and nothing else. The
/// time is that of a processor; it also ends a git whose server is gone.
pub(crate) fn confine(time: Duration) -> io::Result<()> {
    lower(Resource::Data, MEMORY)?;
    lower(Resource::Cpu, time.as_secs().max(1))
}

fn lower(resource: Resource, most: u64) -> io::Result<()> {
    // Whoever runs us may have set less, and raising it is not ours to do.
    let most = getrlimit(resource).maximum.map_or(most, |now| now.min(most));
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// Whether git ended for want of memory.
pub(crate) fn outgrown(said: &str) -> bool {
    SIGNS.iter().any(|sign| said.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Git;

    #[tokio::test]
    async fn a_confined_git_and_what_it_starts_are_bounded() {
        let git = || Git::remote("limits").setting("alias.limits=!ulimit -d; ulimit -t");
        let output = git().limit(Duration::from_secs(77)).confined().run().await.unwrap();
        assert_eq!(output.text(), format!("{}\n77", MEMORY >> 10), "{}", output.stderr);
        assert_ne!(git().run().await.unwrap().text(), output.text());
    }

    #[test]
    fn want_of_memory_is_known_by_its_words() {
        assert!(outgrown("fatal: Out of memory, malloc failed (tried to allocate 536870881 bytes)"));
        assert!(outgrown("fatal: mmap failed: Cannot allocate memory"));
        assert!(!outgrown("fatal: early EOF"));
    }
}
