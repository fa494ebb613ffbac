//! Runs the embedded launcher and turns its report into a result that says what to do.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use launcher::spec::{Launch, Life, Report, Stage};
use rustix::fs::{MemfdFlags, SealFlags};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};

use crate::Error;

/// The launcher, built as a static program by `build.rs`.
const PROGRAM: &[u8] = include_bytes!(env!("SLIPWAY_LAUNCHER"));

/// A launch takes milliseconds; one that takes this long never ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// Holding it keeps a tied sandbox alive.
pub(super) type Owner = ChildStdin;

/// The embedded launcher in a sealed memory file: no sandbox, and no other user, can change what runs next time.
pub(super) struct Launcher {
    program: OwnedFd,
}

impl Launcher {
    pub(super) fn load() -> Result<Self, Error> {
        Self::seal().map(|program| Self { program }).map_err(|error| Error::Unsupported {
            message: format!("the sandbox launcher cannot be loaded: {error}"),
            hint: "it needs memory files (memfd_create, Linux 3.17 or later)".to_owned(),
        })
    }

    fn seal() -> std::io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Hosts can make memory files not executable unless this is said; older kernels do not know it.
        let program = rustix::fs::memfd_create("slipway-launcher", flags | MemfdFlags::EXEC)
            .or_else(|_| rustix::fs::memfd_create("slipway-launcher", flags))?;
        let mut file = std::fs::File::from(program);
        file.write_all(PROGRAM)?;
        let program = OwnedFd::from(file);
        rustix::fs::fcntl_add_seals(
            &program,
            SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE,
        )?;
        Ok(program)
    }

    /// Launches; the sandbox takes commands when this returns.
    pub(super) async fn launch(&self, launch: &Launch) -> Result<Option<Owner>, Error> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| Error::Start(format!("{doing}: {error}"));
        let mut line = serde_json::to_vec(launch).map_err(|error| failed("describing it", &error))?;
        line.push(b'\n');
        let mut child = Command::new(format!("/proc/self/fd/{}", self.program.as_raw_fd()))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed("running the launcher", &error))?;
        let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Start("the launcher has no input or output".to_owned()));
        };
        // The monitor is our child while we live; waiting for it leaves no zombie.
        let monitor = tokio::spawn(async move { child.wait().await });
        let exchange = async {
            stdin.write_all(&line).await?;
            let mut answer = Vec::new();
            stdout.read_to_end(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let answer = match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(answer) => answer.map_err(|error| failed("talking to the launcher", &error))?,
            Err(_) => {
                return Err(Error::Start(format!("the launcher gave no answer in {} s", PATIENCE.as_secs())));
            }
        };
        match serde_json::from_slice(&answer) {
            Ok(Report::Ready { .. }) => Ok((launch.life == Life::Tied).then_some(stdin)),
            Ok(Report::Failed { stage, message, errno }) => {
                // It has cleaned up before it ends.
                let _status = monitor.await;
                Err(explain(stage, message, errno))
            }
            Err(_) => {
                let status = monitor.await.map_err(std::io::Error::other).and_then(|status| status);
                Err(Error::Start(match status {
                    Ok(status) => format!("the launcher ended without a word ({status})"),
                    Err(error) => format!("the launcher ended without a word ({error})"),
                }))
            }
        }
    }
}

/// Says what to do about a failed launch.
fn explain(stage: Stage, message: String, errno: i32) -> Error {
    let unsupported = |message: String, hint: &str| Error::Unsupported { message, hint: hint.to_owned() };
    match stage {
        Stage::UserNamespace if errno == libc::ENOSPC => unsupported(
            "this machine does not allow (more) user namespaces, so there can be no sandbox".to_owned(),
            "raise the limit: sudo sysctl user.max_user_namespaces=65536 (and see: slipway doctor)",
        ),
        Stage::UserNamespace => unsupported(
            format!("this machine does not allow user namespaces, so there can be no sandbox ({message})"),
            "allow them: sudo sysctl kernel.unprivileged_userns_clone=1 (Debian) or \
             sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or run slipway as root; see: slipway doctor",
        ),
        Stage::Namespaces | Stage::Network => unsupported(
            format!("this machine does not allow the namespaces that a sandbox is made of ({message})"),
            "run slipway as root, or outside of a container; see: slipway doctor",
        ),
        Stage::Cgroup => {
            unsupported(format!("the sandbox's limits could not be set ({message})"), "see: slipway doctor")
        }
        Stage::Storage => unsupported(
            message,
            "put the data directory on ext4, xfs or btrfs (data_dir in [server]), with Linux 5.19 or later",
        ),
        Stage::Overlay if errno == libc::EINVAL => unsupported(
            message,
            "put the data directory on a local file system such as ext4, xfs or btrfs: data_dir in [server]",
        ),
        Stage::Overlay => unsupported(
            message,
            "overlayfs is needed (Linux 5.11 or later for an ordinary user); see: slipway doctor",
        ),
        Stage::Mount if errno == libc::EPERM => unsupported(
            format!("this machine does not allow the mounts that a sandbox is made of ({message})"),
            "in a container, give it an unmasked /proc, or run slipway on the host; see: slipway doctor",
        ),
        Stage::Seccomp => unsupported(
            format!("system calls cannot be filtered on this machine ({message})"),
            "a kernel with CONFIG_SECCOMP_FILTER is needed",
        ),
        Stage::Landlock => unsupported(
            format!("what a sandbox may do with files cannot be restricted ({message})"),
            "this is a fault in slipway or an unusual kernel: please report it with the output of: slipway doctor",
        ),
        Stage::Verify => unsupported(
            format!("the sandbox refused to start, because a wall is missing: {message}"),
            "this is a fault in slipway or an unusual kernel: please report it with the output of: slipway doctor",
        ),
        Stage::Spec | Stage::Directory | Stage::Mount | Stage::Privileges | Stage::Guest => match errno {
            libc::ENOSPC | libc::EDQUOT => {
                Error::Start(format!("{message} (the disk is full: free some space)"))
            }
            _ => Error::Start(message),
        },
    }
}
