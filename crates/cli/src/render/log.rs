//! Diagnostics of the program itself, on standard error: warnings, and more with `-v`.

use tracing_subscriber::EnvFilter;

/// Starts logging. `SLIPWAY_LOG` overrides the number of `-v`.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("SLIPWAY_LOG").unwrap_or_else(|_| {
        EnvFilter::new(format!("{level},hyper=warn,reqwest=warn,rustls=warn,tungstenite=warn"))
    });
    let ansi = super::style::stderr().is_coloured();
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(ansi)
        .without_time()
        .with_target(false)
        .try_init();
    // Only tests start it twice.
    drop(started);
}
