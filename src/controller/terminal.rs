//! The terminal that a controller was started on. When it hangs up, because its window was closed
//! or the connection to its host was lost, nobody can see or stop the controller there any more.

use std::{
    io::{IsTerminal, stderr, stdin, stdout},
    time::Duration,
};

use tokio::time::sleep;

/// How often, and how long in all, a terminal is looked at after a signal: a shell may send it
/// before the terminal goes.
const INTERVAL: Duration = Duration::from_millis(50);
const LOOKS: usize = 10;

/// Which of the standard streams were a terminal at the start.
pub(super) struct Terminal([bool; 3]);

impl Terminal {
    /// The terminal that the standard streams lead to now, if any.
    pub(super) fn of_start() -> Self {
        Self(terminals())
    }

    /// After SIGHUP: whether the terminal hung up. Without a terminal, or while it is there, the
    /// signal asks for the configuration to be read again.
    pub(super) async fn hangs_up(&self) -> bool {
        for _ in 0..LOOKS {
            if self.is_gone() {
                return true;
            }
            if !self.0.contains(&true) {
                return false;
            }
            sleep(INTERVAL).await;
        }
        false
    }

    fn is_gone(&self) -> bool {
        self.0
            .into_iter()
            .zip(terminals())
            .any(|(was, is)| was && !is)
    }
}

/// A stream whose terminal hung up is no terminal any more.
fn terminals() -> [bool; 3] {
    [
        stdin().is_terminal(),
        stdout().is_terminal(),
        stderr().is_terminal(),
    ]
}
