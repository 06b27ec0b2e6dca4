//! The commands of an endpoint of the network: `enroll`, `forward`, `host`, `test` and `status`. They need no
//! controller on this machine.

mod code;
mod enroll;
mod forward;
mod host;
mod identities;
mod sessions;
mod status;
mod test;

use model::config::{Format, Log};
use tokio::runtime::{Builder, Runtime};

pub(crate) use enroll::Enroll;
pub(crate) use forward::Forward;
pub(crate) use host::Host;
pub(crate) use status::Status;
pub(crate) use test::Test;

use super::failure::CommandError;
use crate::logging;

/// Starts the log on stderr.
fn start_log(level: &str) -> Result<(), CommandError> {
    let log = Log {
        level: level.to_owned(),
        format: Format::Auto,
    };
    logging::start(&log).map_err(CommandError::of)
}

fn runtime() -> Result<Runtime, CommandError> {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CommandError::of)
}

/// Waits for SIGTERM or SIGINT.
async fn stopped() -> Result<(), CommandError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(CommandError::of)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CommandError::of)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
