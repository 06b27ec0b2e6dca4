//! Metrics of this process in the OpenMetrics format: the definitions and the names.
//!
//! Other modules increment the counters and histograms; gauges are set at each request for the
//! metrics (`controller/metrics.rs`). Not here: the listener (`rest/src/metrics_listener.rs`).
//! Start with [`Metrics`].
//!
//! Invariant: the values of labels come from tables of this program and never from a request, so
//! that no client can add a series.

use std::sync::{Arc, atomic::AtomicU64};

pub use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    registry::{Registry, Unit},
};

/// Upper bounds of durations, in seconds.
const DURATIONS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// The operation of a request: a row of a route table. All labels are blank for a request that
/// matches no row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperationLabels {
    pub interface: &'static str,
    pub method: &'static str,
    pub path: String,
}

/// An operation and the status of the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    pub interface: &'static str,
    pub method: &'static str,
    pub path: String,
    pub status: u16,
}

/// The method of a log-in, or what was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabel {
    method: &'static str,
}

/// Counts by method, and all together. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct MethodCounter {
    by_method: Family<MethodLabel, Counter>,
    total: Counter,
}

impl MethodCounter {
    pub fn count(&self, method: &'static str) {
        self.by_method.get_or_create(&MethodLabel { method }).inc();
        self.total.inc();
    }

    /// The count of all methods.
    pub fn total(&self) -> u64 {
        self.total.get()
    }
}

/// The kind of what is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabel {
    pub kind: &'static str,
}

/// A release of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabel {
    version: &'static str,
}

/// Counters and histograms, and gauges. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    pub requests: Family<RequestLabels, Counter>,
    pub request_duration: Family<OperationLabels, Histogram>,
    pub logins: MethodCounter,
    pub refusals: MethodCounter,
    pub router_events: Family<KindLabel, Counter>,
    pub router_bytes: Family<KindLabel, Counter>,
    pub remote_bytes: Family<KindLabel, Counter>,
    dial_failures: Family<KindLabel, Counter>,
    pub store: StoreMetrics,
    pub maintenance: MaintenanceMetrics,
    pub gauges: Gauges,
}

/// The metrics of the store's writer.
#[derive(Clone)]
pub struct StoreMetrics {
    pub queue: Gauge,
    pub commit_duration: Histogram,
    pub jobs: Counter,
    pub failures: Counter,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            queue: Gauge::default(),
            commit_duration: durations(),
            jobs: Counter::default(),
            failures: Counter::default(),
        }
    }
}

/// The metrics of scheduled snapshots and scrubs. Times are in seconds since 1970, 0 for never.
#[derive(Clone, Default)]
pub struct MaintenanceMetrics {
    pub snapshot_at: Gauge,
    pub snapshot_failures: Counter,
    pub after_failures: Counter,
    pub scrub_at: Gauge,
    pub scrub_faults: Gauge,
}

/// Gauges that are set at each request for the metrics.
#[derive(Clone, Default)]
pub struct Gauges {
    pub started: Gauge,
    pub api_sessions: Gauge,
    pub service_sessions: Gauge,
    pub data_bytes: Gauge,
    pub free_bytes: Gauge,
    pub writable: Gauge,
    pub in_place: Gauge,
    /// By the role of the certificate.
    pub certificates: Family<KindLabel, Gauge>,
    pub expiring: Family<KindLabel, Gauge>,
    pub routers: Family<KindLabel, Gauge>,
    /// By whether they are hosted.
    pub services: Family<KindLabel, Gauge>,
    pub circuits: Gauge,
    /// Circuits over remote routers.
    pub remote_circuits: Gauge,
    /// By whether they are usable.
    pub links: Family<KindLabel, Gauge>,
    /// The mean and the highest one, of the ends that have measured it.
    pub link_latency: Family<KindLabel, Gauge<f64, AtomicU64>>,
    pub channels: Gauge,
    pub binds: Gauge,
    pub queued_bytes: Gauge,
    /// From when on the rows of a class of the history are complete, in seconds since 1970; 0 while
    /// nothing was dropped.
    pub history_from: Family<KindLabel, Gauge>,
}

fn durations() -> Histogram {
    Histogram::new(DURATIONS)
}

impl Metrics {
    /// All metrics; those of the store, of maintenance, of rejections and of failed dials are
    /// counted elsewhere already.
    pub fn new(
        store: StoreMetrics,
        maintenance: MaintenanceMetrics,
        refusals: MethodCounter,
        dial_failures: Family<KindLabel, Counter>,
    ) -> Self {
        let mut metrics = Self {
            registry: Arc::default(),
            requests: Family::default(),
            request_duration: Family::new_with_constructor(durations),
            logins: MethodCounter::default(),
            refusals,
            router_events: Family::default(),
            router_bytes: Family::default(),
            remote_bytes: Family::default(),
            dial_failures,
            store,
            maintenance,
            gauges: Gauges::default(),
        };
        let mut registry = Registry::with_prefix("overkeep");
        let build = Family::<BuildLabel, Gauge>::default();
        build
            .get_or_create(&BuildLabel {
                version: env!("CARGO_PKG_VERSION"),
            })
            .set(1);
        registry.register("build_info", "The running release", build);
        metrics.register_counters(&mut registry);
        metrics.gauges.register(&mut registry);
        metrics.registry = Arc::new(registry);
        metrics
    }

    fn register_counters(&self, registry: &mut Registry) {
        registry.register(
            "http_requests",
            "Requests by operation and status of the response",
            self.requests.clone(),
        );
        let help = "Time from the head of a request to the head of its response";
        registry.register_with_unit(
            "http_request_duration",
            help,
            Unit::Seconds,
            self.request_duration.clone(),
        );
        registry.register(
            "logins",
            "Opened API sessions by method of the log-in",
            self.logins.by_method.clone(),
        );
        registry.register(
            "refusals",
            "Refused log-ins, requests, dials and binds, by what was refused",
            self.refusals.by_method.clone(),
        );
        registry.register(
            "router_events",
            "Events of the built-in router by kind",
            self.router_events.clone(),
        );
        let help = "Data forwarded by the built-in router, by direction";
        registry.register_with_unit("router_data", help, Unit::Bytes, self.router_bytes.clone());
        let help = "Data reported by remote routers, by where it came from";
        registry.register_with_unit(
            "remote_routers_data",
            help,
            Unit::Bytes,
            self.remote_bytes.clone(),
        );
        let help = "Failed attempts to reach a host of a service, through any router, by reason";
        registry.register("dial_failures", help, self.dial_failures.clone());
        registry.register(
            "store_queue_jobs",
            "Writes in the queue or in progress",
            self.store.queue.clone(),
        );
        let help = "Duration of a commit, with its writes and the flush to disk";
        registry.register_with_unit(
            "store_commit_duration",
            help,
            Unit::Seconds,
            self.store.commit_duration.clone(),
        );
        registry.register(
            "store_jobs",
            "Completed or refused writes",
            self.store.jobs.clone(),
        );
        registry.register(
            "store_commit_failures",
            "Failed commits",
            self.store.failures.clone(),
        );
        let maintenance = &self.maintenance;
        let help =
            "Time of the last scheduled snapshot, which was verified; 0: none since the start";
        registry.register_with_unit(
            "snapshot_timestamp",
            help,
            Unit::Seconds,
            maintenance.snapshot_at.clone(),
        );
        registry.register(
            "snapshot_failures",
            "Failed scheduled snapshots",
            maintenance.snapshot_failures.clone(),
        );
        let help = "Failed commands after a scheduled snapshot (snapshots.after)";
        registry.register(
            "snapshot_after_failures",
            help,
            maintenance.after_failures.clone(),
        );
        let help = "Time when the last complete scrub ended; 0: none since the start";
        registry.register_with_unit(
            "scrub_timestamp",
            help,
            Unit::Seconds,
            maintenance.scrub_at.clone(),
        );
        registry.register(
            "scrub_faults",
            "Faults found by the last complete scrub",
            maintenance.scrub_faults.clone(),
        );
    }

    /// Everything in the OpenMetrics text format, version 1.0.0.
    pub fn openmetrics(&self) -> String {
        let mut text = String::new();
        if let Err(error) = text::encode(&mut text, &self.registry) {
            tracing::warn!(%error, "metrics could not be written");
        }
        text
    }

    /// Everything in the Prometheus text format, version 0.0.4.
    pub fn prometheus(&self) -> String {
        prometheus(&self.openmetrics())
    }
}

impl Gauges {
    fn register(&self, registry: &mut Registry) {
        let mut seconds = |name, help, gauge: &Gauge| {
            registry.register_with_unit(name, help, Unit::Seconds, gauge.clone())
        };
        seconds(
            "start_timestamp",
            "Time when the controller was started",
            &self.started,
        );
        let help = "Latency of links between routers as measured by their ends: the mean and the highest one";
        registry.register_with_unit(
            "link_latency",
            help,
            Unit::Seconds,
            self.link_latency.clone(),
        );
        let help = "Time when the certificates of the controller expire, by role";
        registry.register_with_unit(
            "certificate_end_timestamp",
            help,
            Unit::Seconds,
            self.certificates.clone(),
        );
        let help =
            "Time from which on the history is complete, by kind of row; 0: no row was dropped";
        registry.register_with_unit(
            "history_from_timestamp",
            help,
            Unit::Seconds,
            self.history_from.clone(),
        );
        let mut bytes = |name, help, gauge: &Gauge| {
            registry.register_with_unit(name, help, Unit::Bytes, gauge.clone())
        };
        bytes("data_file", "Size of the data file", &self.data_bytes);
        bytes(
            "data_free",
            "Free space of the file system of the data file",
            &self.free_bytes,
        );
        bytes(
            "router_queued",
            "Data queued in the built-in router for clients",
            &self.queued_bytes,
        );
        let mut plain = |name, help, gauge: &Gauge| registry.register(name, help, gauge.clone());
        plain("api_sessions", "Open API sessions", &self.api_sessions);
        plain(
            "service_sessions",
            "Open service sessions",
            &self.service_sessions,
        );
        plain(
            "store_writable",
            "1 if the store accepts writes",
            &self.writable,
        );
        plain(
            "data_file_in_place",
            "1 if the path of the data file still leads to the open file",
            &self.in_place,
        );
        plain(
            "router_circuits",
            "Open circuits of the built-in router",
            &self.circuits,
        );
        plain(
            "remote_routers_circuits",
            "Open circuits over remote routers",
            &self.remote_circuits,
        );
        plain(
            "router_channels",
            "Open channels of the built-in router",
            &self.channels,
        );
        registry.register(
            "router_binds",
            "Services hosted through the built-in router, by terminator",
            self.binds.clone(),
        );
        registry.register(
            "expiring",
            "What expires within 30 days or has expired, by kind",
            self.expiring.clone(),
        );
        registry.register(
            "links",
            "Links between routers by state",
            self.links.clone(),
        );
        registry.register(
            "edge_routers",
            "Edge routers by state",
            self.routers.clone(),
        );
        let help = "Services by whether they are hosted: hosted, failing (the last dial of each host failed), unhosted, never-hosted";
        registry.register("services", help, self.services.clone());
    }
}

/// Converts OpenMetrics text to Prometheus text: counters are named with their `_total`, and units
/// and the end are omitted.
fn prometheus(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take() {
                text += &format!("# HELP {name}{suffix} {words}\n");
            }
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
