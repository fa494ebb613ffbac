//! Memory that was used for a while goes back to the system. The allocator keeps it otherwise, in pieces between what is
//! still used: a server that once had many logs open would be as large for ever.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How often.
const INTERVAL: Duration = Duration::from_secs(15);

/// Gives back what is free, until the server ends.
pub(crate) fn give_back_now_and_then(ended: CancellationToken) {
    drop(tokio::spawn(async move {
        loop {
            tokio::select! {
                () = ended.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            if let Err(error) = tokio::task::spawn_blocking(give_back).await {
                tracing::debug!(%error, "free memory was not given back");
            }
        }
    }));
}

fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointers and may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
