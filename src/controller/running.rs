//! A running controller.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, thread::JoinHandle};

use actix_web::rt::System;
use fabric::{built_in_router::Router, control_channel::Control};
use listener::SocketError;
use maintenance::{Background, Maintenance, Trials};
use model::{clock::Clock, error::Error};
use pki::{self, Keystore};
use policy::{access::AccessAudit, change, expiring::ExpiryNotice};
use rustls::pki_types::CertificateDer;
use store::{Progress, Store};

use super::{metrics::MetricsServer, reload::Reload};
use crate::{admin_socket::socket, jobs};

/// The user name of the administrator that the first start creates.
pub(super) const ADMINISTRATOR: &str = "admin";

/// Why a controller did not start, as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotStarted(pub(super) String);

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for NotStarted {
    fn from(error: Error) -> Self {
        let done = "overkeep restore replaces the file by a snapshot, overkeep repair --drop-unreadable deletes records that cannot be read";
        Self(if let Error::Damaged { .. } = error {
            format!("{error}; {done}")
        } else {
            error.to_string()
        })
    }
}

impl From<SocketError> for NotStarted {
    fn from(error: SocketError) -> Self {
        Self(error.to_string())
    }
}

impl From<pki::Error> for NotStarted {
    fn from(error: pki::Error) -> Self {
        Self(format!("keys and certificates: {error}"))
    }
}

/// The administrator's password, at the start that sets it.
pub(super) enum Password {
    MadeUp(String),
    /// Read from this file.
    Given(PathBuf),
}

/// A running controller. Dropping it stops it.
pub struct Controller {
    pub(super) bound: Vec<SocketAddr>,
    pub(super) reload: Reload,
    pub(super) advertised: String,
    pub(super) first_password: Option<Password>,
    pub(super) store: Store,
    pub(super) maintenance: Maintenance,
    pub(super) keystore: Arc<Keystore>,
    pub(super) trials: Trials,
    pub(super) readers: Arc<rest::HistoryReaders>,
    pub(super) server: listener::RunningListener,
    pub(super) thread: Option<JoinHandle<std::io::Result<()>>>,
    pub(super) jobs: Option<jobs::RunningJobs>,
    pub(super) background: Vec<Background>,
    pub(super) audit: AccessAudit,
    pub(super) expiry: ExpiryNotice,
    pub(super) commands: Option<socket::Listening>,
    pub(super) router: Router,
    pub(super) metrics_bound: Option<SocketAddr>,
    pub(super) control_bound: Option<SocketAddr>,
    pub(super) metrics_server: Option<MetricsServer>,
    pub(super) control: Control,
}

impl Controller {
    /// The first address it listens on, with its real port.
    pub fn bound(&self) -> SocketAddr {
        self.bound
            .first()
            .copied()
            .unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// Where metrics are served, with the real port.
    pub fn metrics_bound(&self) -> Option<SocketAddr> {
        self.metrics_bound
    }

    /// Where only remote routers connect, with the real port.
    pub fn control_bound(&self) -> Option<SocketAddr> {
        self.control_bound
    }

    /// All addresses it listens on, with their real ports.
    pub(crate) fn all_bound(&self) -> &[SocketAddr] {
        &self.bound
    }

    /// `host:port` under which clients reach it.
    pub fn advertised(&self) -> &str {
        &self.advertised
    }

    /// The administrator's password, if this start generated one. Every start generates another
    /// until [`Controller::password_was_seen`].
    pub fn generated_password(&self) -> Option<&str> {
        if let Some(Password::MadeUp(password)) = &self.first_password {
            Some(password)
        } else {
            None
        }
    }

    /// Records that the generated password was shown, so that later starts keep it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn password_was_seen(&self) -> Result<(), NotStarted> {
        Ok(change::note_seen(&self.store)?)
    }

    /// Runs the periodic work that is due now, instead of within seconds; for a caller that moved
    /// the clock.
    pub fn run_due_jobs(&self) {
        if let Some(jobs) = &self.jobs {
            jobs.round();
        }
        if let Err(error) = self.audit.catch_up() {
            tracing::warn!(%error, "the access audit failed");
        }
        self.expiry.run_once(&Progress::default());
        self.control.improve_paths();
    }

    /// The authorities that clients of this controller should trust.
    pub(super) fn authorities(&self) -> Vec<CertificateDer<'static>> {
        self.keystore.trusted_der(Clock::system().now().seconds())
    }

    /// The built-in edge router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Waits for open requests to end, then closes the file.
    pub fn stop(mut self) {
        self.close();
    }

    fn close(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.readers.close();
        // A controller may be dropped on an async runtime, where blocking is not allowed.
        let (router, server, control, jobs) =
            (&self.router, &self.server, &self.control, self.jobs.take());
        let stop = || {
            router.drain();
            System::new().block_on(server.stop());
            router.stop();
            // Jobs end access, of which routers are told.
            drop(jobs);
            control.stop();
        };
        std::thread::scope(|scope| drop(scope.spawn(stop).join()));
        drop(thread.join());
        drop(self.metrics_server.take());
        drop(self.commands.take());
        self.background.clear();
        self.trials.stop();
        self.maintenance.stop();
        self.store.close();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.close();
    }
}
