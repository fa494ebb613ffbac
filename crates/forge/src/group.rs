//! The processes of a group, as `/proc` shows them.

use std::time::Duration;

use rustix::process::Pid;

/// Waits until no process of a group lives. One that has ended and that nobody has waited for does not live.
pub(crate) async fn ended(group: Pid, look: Duration) {
    while is_alive(group) {
        tokio::time::sleep(look).await;
    }
}

fn is_alive(group: Pid) -> bool {
    // Where the processes cannot be seen, they are taken to live, and are killed then.
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    processes.flatten().any(|process| {
        let is_process = process.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
        // One that ends while we look is simply not there.
        let stat = is_process.then(|| std::fs::read(process.path().join("stat")).ok()).flatten();
        stat.is_some_and(|stat| living_group(&stat) == Some(group.as_raw_nonzero().get()))
    })
}

/// The group in `pid (name) state ppid pgrp …`, if the process lives; the name may hold anything, so it ends at the last
/// parenthesis.
fn living_group(stat: &[u8]) -> Option<i32> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_the_living_is_read() {
        assert_eq!(living_group(b"12 (a) b ) (c) S 3 4 5 0 -1"), Some(4));
        assert_eq!(living_group(b"12 (a) Z 3 4 5 0 -1"), None);
        assert_eq!(living_group(b"rubbish"), None);
    }
}
