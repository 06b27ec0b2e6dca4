//! The signals of `overkeep run`: SIGHUP reads the configuration again, SIGTERM and SIGINT end the
//! program.
//!
//! Not here: what a reload changes (`reload.rs`), and how a terminal that hung up is told from a
//! request for a reload (`terminal.rs`). Start at [`Signals::handle`].

use std::io;

use model::config::Reread;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    running::{Controller, NotStarted},
    service_manager,
    terminal::Terminal,
};

/// SIGHUP, and the terminal that sends it when it hangs up.
pub(super) struct Hangup {
    signal: Signal,
    terminal: Terminal,
}

impl Hangup {
    /// Takes SIGHUP from here on: one during the start is handled after it. The other signals end
    /// the process during the start, which is safe at any moment. Needs a runtime.
    ///
    /// # Errors
    /// The signal cannot be taken.
    pub(super) fn take() -> Result<Self, NotStarted> {
        let terminal = Terminal::of_start();
        let signal = signal(SignalKind::hangup()).map_err(not_taken)?;
        Ok(Self { signal, terminal })
    }
}

/// The signals that a running controller handles.
pub(super) struct Signals {
    hangup: Hangup,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes SIGTERM and SIGINT from here on, too. Needs a runtime.
    ///
    /// # Errors
    /// A signal cannot be taken.
    pub(super) fn take(hangup: Hangup) -> Result<Self, NotStarted> {
        Ok(Self {
            hangup,
            terminate: signal(SignalKind::terminate()).map_err(not_taken)?,
            interrupt: signal(SignalKind::interrupt()).map_err(not_taken)?,
        })
    }

    /// Reads the configuration again at each SIGHUP. Returns when the controller has to stop: at
    /// SIGTERM, at SIGINT, or when the terminal hung up. Meanwhile the service manager is told that
    /// the controller works.
    pub(super) async fn handle(self, controller: &Controller, again: &Reread) {
        let Self {
            hangup:
                Hangup {
                    signal: mut hangup,
                    terminal,
                },
            mut terminate,
            mut interrupt,
        } = self;
        let mut watchdog = tokio::time::interval(service_manager::watchdog_interval());
        loop {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = interrupt.recv() => return,
                _ = hangup.recv() => {
                    if terminal.hangs_up().await {
                        tracing::info!("the terminal hung up");
                        return;
                    }
                    service_manager::reloading();
                    controller.reload.read(again);
                    service_manager::ready(controller.advertised());
                }
                // Sent even if the controller cannot write at present: it recovers without a
                // restart.
                _ = watchdog.tick() => service_manager::watchdog(),
            }
        }
    }
}

fn not_taken(error: io::Error) -> NotStarted {
    NotStarted(format!("signals: {error}"))
}
