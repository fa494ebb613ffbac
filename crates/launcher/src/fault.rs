//! What went wrong while launching: the stage, the system's error, and words.

use rustix::io::Errno;

use crate::spec::Stage;

/// A failed launch on its way to the driver.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) stage: Stage,
    pub(crate) message: String,
    pub(crate) errno: i32,
}

impl Fault {
    pub(crate) fn new(stage: Stage, message: impl Into<String>) -> Self {
        Self { stage, message: message.into(), errno: 0 }
    }
}

/// Says what was being done when a system call failed.
pub(crate) trait Context<T> {
    fn at(self, stage: Stage, doing: &str) -> Result<T, Fault>;
}

impl<T> Context<T> for Result<T, Errno> {
    fn at(self, stage: Stage, doing: &str) -> Result<T, Fault> {
        self.map_err(|errno| Fault {
            stage,
            message: format!("{doing}: {}", std::io::Error::from(errno)),
            errno: errno.raw_os_error(),
        })
    }
}

impl<T> Context<T> for std::io::Result<T> {
    fn at(self, stage: Stage, doing: &str) -> Result<T, Fault> {
        self.map_err(|error| Fault {
            stage,
            message: format!("{doing}: {error}"),
            errno: error.raw_os_error().unwrap_or(0),
        })
    }
}

/// The result of a raw system call that gives -1 on error.
pub(crate) fn check(result: impl Into<i64>) -> std::io::Result<i64> {
    let value = result.into();
    if value < 0 { Err(std::io::Error::last_os_error()) } else { Ok(value) }
}
