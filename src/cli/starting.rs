//! Commands of the host that come while a controller starts or stops: they wait until it answers,
//! or until nobody holds its data file.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use store::is_held;

use super::failure::print_error;
use crate::admin_socket::socket;

/// How long a command waits. A controller with a million records starts in less.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long it waits without a word.
const SILENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(50);

/// Waits while another process holds the data file and no controller answers on the socket beside
/// it. Returns at once if nobody holds the file.
pub(super) fn await_controller(data: &Path) {
    let (socket, begun) = (socket::beside(data), Instant::now());
    let mut is_told = false;
    while !socket::answers(&socket) && is_held(data) && begun.elapsed() < PATIENCE {
        if !is_told && begun.elapsed() >= SILENCE {
            print_error(&format!(
                "waiting for the process that has {} open, which does not answer yet",
                data.display()
            ));
            is_told = true;
        }
        thread::sleep(STEP);
    }
}
