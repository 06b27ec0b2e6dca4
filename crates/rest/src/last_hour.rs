//! The last hour in memory: traffic, circuits, log-ins and refusals, in steps of ten seconds.
//!
//! The page for administrators draws charts of these steps, so that no metrics server is needed.
//! The list is empty when the process starts, and holds at most [`STEPS`] steps of a fixed size,
//! about 30 KiB.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fabric::{built_in_router::Router, control_channel::Control};
use maintenance::Background;
use model::{
    clock::{Clock, Timestamp},
    metrics::Metrics,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The length of a step.
pub(crate) const STEP: Duration = Duration::from_secs(10);
/// The number of steps of an hour.
const STEPS: usize = 360;

/// What happened within a step. Rates are means over the step; `circuits` and `channels` are those
/// open at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HourStep")]
pub struct TrafficSample {
    /// The end of the step.
    pub at: Timestamp,
    /// Data bytes per second from clients to hosts through the built-in router.
    pub client_bytes_per_second: u64,
    /// Data bytes per second from hosts to clients through the built-in router.
    pub host_bytes_per_second: u64,
    /// Data bytes per second from clients at remote routers, which report once a minute: the mean
    /// of the minute before the last report.
    pub remote_routers_client_bytes_per_second: u64,
    /// The same from hosts at remote routers.
    pub remote_routers_host_bytes_per_second: u64,
    /// Circuits, through any router.
    pub circuits: u64,
    /// Connections of SDKs to the built-in router.
    pub channels: u64,
    /// Log-ins that opened a session.
    pub logins: u64,
    /// Rejected log-ins, requests, dials and binds.
    pub refusals: u64,
}

/// Totals since the start of the process.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    client_bytes: u64,
    host_bytes: u64,
    logins: u64,
    refusals: u64,
}

/// The steps of the last hour, the oldest first.
pub struct LastHour {
    router: Router,
    control: Control,
    metrics: Metrics,
    steps: Mutex<(VecDeque<TrafficSample>, Totals)>,
}

impl LastHour {
    pub fn new(router: Router, control: Control, metrics: Metrics) -> Self {
        Self {
            router,
            control,
            metrics,
            steps: Mutex::new((VecDeque::with_capacity(STEPS), Totals::default())),
        }
    }

    /// Adds a step at every interval of [`STEP`] until the result is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(self: Arc<Self>, clock: Clock) -> io::Result<Background> {
        Background::start("last hour", move |_| {
            self.note(clock.now());
            STEP
        })
    }

    /// Adds the step that ends now.
    fn note(&self, at: Timestamp) {
        let (traffic, remote) = (self.router.traffic(), self.control.traffic_per_second());
        let now = Totals {
            client_bytes: traffic.client_bytes,
            host_bytes: traffic.host_bytes,
            logins: self.metrics.logins.total(),
            refusals: self.metrics.refusals.total(),
        };
        let mut held = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let (steps, before) = &mut *held;
        let seconds = steps
            .back()
            .map_or(STEP, |last| at.since(last.at))
            .as_secs()
            .max(1);
        let step = TrafficSample {
            at,
            client_bytes_per_second: now.client_bytes.saturating_sub(before.client_bytes) / seconds,
            host_bytes_per_second: now.host_bytes.saturating_sub(before.host_bytes) / seconds,
            remote_routers_client_bytes_per_second: remote.from_clients,
            remote_routers_host_bytes_per_second: remote.from_hosts,
            circuits: self.control.circuit_count(),
            channels: traffic.channels,
            logins: now.logins.saturating_sub(before.logins),
            refusals: now.refusals.saturating_sub(before.refusals),
        };
        *before = now;
        if steps.len() >= STEPS {
            steps.pop_front();
        }
        steps.push_back(step);
    }

    /// The steps, the oldest first.
    pub fn steps(&self) -> Vec<TrafficSample> {
        self.steps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .iter()
            .copied()
            .collect()
    }
}
