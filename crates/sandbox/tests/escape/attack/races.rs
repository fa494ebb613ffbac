//! Files that change under the eyes of whoever reads them: links planted, and directories swapped for links.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::sys::{HERE, sys};
use super::{Case, Verdict, case, fact};

const EXCHANGE: u64 = 2;

/// Plants links that lead out, if anybody outside follows them.
pub(super) fn plant_cases() -> Vec<Case> {
    vec![case("links that lead out", || {
        let outside = fact("OUTSIDE");
        let home = Path::new("/workspace/planted");
        std::fs::create_dir_all(home.join("dir/below")).unwrap();
        std::fs::write(home.join("dir/below/file"), "inside").unwrap();
        for (name, target) in [
            ("file", format!("{outside}/canary")),
            ("directory", outside.clone()),
            ("up", format!("{}{outside}/canary", "../".repeat(40))),
            ("through-proc", format!("/proc/1/root{outside}/canary")),
            ("through-self", format!("/proc/self/root{outside}/canary")),
            ("new", format!("{outside}/made-from-inside")),
            ("environment", "/proc/self/environ".to_owned()),
            ("descriptor", "/proc/self/fd/3".to_owned()),
        ] {
            symlink(target, home.join(name)).unwrap();
        }
        Verdict::Held
    })]
}

/// Swaps a directory and a link to one outside, as fast as it can, until it is ended.
pub(super) fn swap_cases() -> Vec<Case> {
    vec![
        case("swap a directory and a link", || {
            let outside = fact("OUTSIDE");
            let home = Path::new("/workspace/race");
            std::fs::create_dir_all(home.join("here")).unwrap();
            std::fs::write(home.join("here/canary"), "inside").unwrap();
            symlink(&outside, home.join("there")).unwrap();
            std::fs::write(home.join("file"), "inside").unwrap();
            symlink(format!("{outside}/canary"), home.join("link")).unwrap();
            std::fs::write("/workspace/swapping", "x").unwrap();
            let pairs = [
                (c"/workspace/race/here", c"/workspace/race/there"),
                (c"/workspace/race/file", c"/workspace/race/link"),
            ];
            loop {
                for (one, other) in pairs {
                    // What is not there any more was removed by the test; it is put back.
                    let swapped = sys(
                        libc::SYS_renameat2,
                        [HERE, one.as_ptr() as u64, HERE, other.as_ptr() as u64, EXCHANGE],
                    );
                    if swapped.is_err() {
                        // Whatever of this fails, another round follows.
                        drop(std::fs::create_dir_all(home.join("here")));
                        drop(std::fs::write(home.join("here/canary"), "inside"));
                        drop(symlink(&outside, home.join("there")));
                        drop(std::fs::write(home.join("file"), "inside"));
                        drop(symlink(format!("{outside}/canary"), home.join("link")));
                    }
                }
                if Path::new("/workspace/stop").exists() {
                    return Verdict::Held;
                }
            }
        })
        .ends_by(&[libc::SIGALRM, libc::SIGKILL]),
    ]
}
