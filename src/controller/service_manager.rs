//! Notifications to the service manager (`sd_notify`). Without one (no `NOTIFY_SOCKET`) nothing
//! happens.

use std::time::Duration;

use sd_notify::NotifyState;

/// The controller is ready, at this address.
pub(crate) fn ready(address: &str) {
    notify(&[
        NotifyState::Ready,
        NotifyState::Status(&format!("reached at https://{address}")),
    ]);
}

/// The configuration is being read again. [`ready`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "the service manager was not notified of a reload"),
    }
}

/// The controller stops.
pub(crate) fn stopping() {
    notify(&[
        NotifyState::Stopping,
        NotifyState::Status("answering open requests"),
    ]);
}

/// The controller works.
pub(crate) fn watchdog() {
    notify(&[NotifyState::Watchdog]);
}

/// How often the service manager is notified that the controller works: half of the time that the
/// service manager waits. Without a watchdog, one day.
pub(crate) fn watchdog_interval() -> Duration {
    sd_notify::watchdog_enabled()
        .map_or(Duration::from_secs(86_400), |most| most / 2)
        .max(Duration::from_millis(1))
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be notified");
    }
}
