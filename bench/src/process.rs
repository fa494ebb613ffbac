//! What the kernel tells of processes: their children, memory and processor time.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;
use tokio::process::Command;

/// How often the memory of a tree is looked at.
const EVERY: Duration = Duration::from_millis(5);

/// Runs a program to its end; gives the most resident memory that it and everything it started had at one time, in MiB.
/// Pages that processes share count for each of them.
pub(crate) async fn peak_mib(command: &mut Command) -> anyhow::Result<(std::process::Output, f64)> {
    let child = command.spawn().context("starting a program")?;
    let root = child.id().context("it ended at once")?;
    let end = child.wait_with_output();
    tokio::pin!(end);
    let (mut tree, mut peak) = (BTreeSet::from([root]), 0_u64);
    loop {
        tokio::select! {
            output = &mut end => return Ok((output?, peak as f64 / f64::from(1 << 20))),
            () = tokio::time::sleep(EVERY) => {
                // Who was once in the tree stays: its parent may end before it does.
                let found: Vec<u32> = tree.iter().flat_map(|pid| descendants(*pid)).collect();
                tree.extend(found);
                tree.retain(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists());
                peak = peak.max(tree.iter().map(|pid| resident_bytes(*pid)).sum());
            }
        }
    }
}

/// Everything that a process started and that still has a parent in the tree.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>())
        .collect();
    children.iter().flat_map(|child| std::iter::once(*child).chain(descendants(*child))).collect()
}

/// 0 for a process that is gone.
fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Processor time of a process so far.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may have blanks.
    let rest = stat.rsplit_once(')').context("no name")?.1;
    let ticks: f64 =
        rest.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap_or(0.0)).sum();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_memory_of_what_a_program_starts_counts() {
        let script = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 0.3; echo ${#x}";
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c \"$1\"; true", "sh", script]).stdout(std::process::Stdio::piped());
        let (output, peak) = peak_mib(&mut command).await.unwrap();
        assert_eq!(output.stdout, b"30000000\n");
        assert!(peak > 25.0, "{peak}");
    }
}
