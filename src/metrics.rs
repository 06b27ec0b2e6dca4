//! Metrics of this process in the OpenMetrics format: what is counted, and under which name.
//!
//! The rooms above count with the counters and histograms here; gauges are set when somebody asks (`controller/metrics.rs`). Not here: the
//! listener (`http/metrics_listener.rs`). Start with [`Metrics`].
//!
//! Invariant: the values of labels come from tables of this program and never from a request, so that no client can add a series.

use std::sync::Arc;

pub use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    registry::{Registry, Unit},
};

/// Upper bounds of durations, in seconds.
const DURATIONS: [f64; 12] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// A row of a route table. All are blank for a request that belongs to none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperationLabels {
    pub interface: &'static str,
    pub method: &'static str,
    pub path: String,
}

/// A row, and the status of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    pub interface: &'static str,
    pub method: &'static str,
    pub path: String,
    pub status: u16,
}

/// How somebody logs in, or what is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MethodLabel {
    pub method: &'static str,
}

/// A kind of things.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabel {
    pub kind: &'static str,
}

/// A release.
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
    pub logins: Family<MethodLabel, Counter>,
    pub refusals: Family<MethodLabel, Counter>,
    pub router_events: Family<KindLabel, Counter>,
    pub router_bytes: Family<KindLabel, Counter>,
    pub store: StoreMetrics,
    pub maintenance: MaintenanceMetrics,
    pub gauges: Gauges,
}

/// What the writer of the store counts.
#[derive(Clone)]
pub struct StoreMetrics {
    pub queue: Gauge,
    pub commit_duration: Histogram,
    pub jobs: Counter,
    pub failures: Counter,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self { queue: Gauge::default(), commit_duration: durations(), jobs: Counter::default(), failures: Counter::default() }
    }
}

/// What is known of snapshots and of looks for damage. Times are in seconds since 1970, 0 for never.
#[derive(Clone, Default)]
pub struct MaintenanceMetrics {
    pub snapshot_at: Gauge,
    pub snapshot_failures: Counter,
    pub scrub_at: Gauge,
    pub scrub_faults: Gauge,
}

/// What is found out when somebody asks.
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
    pub circuits: Gauge,
    pub channels: Gauge,
    pub binds: Gauge,
    pub queued_bytes: Gauge,
}

fn durations() -> Histogram {
    Histogram::new(DURATIONS)
}

impl Metrics {
    /// All metrics; those of the store, of maintenance and of rejections are counted elsewhere already.
    pub fn new(store: StoreMetrics, maintenance: MaintenanceMetrics, refusals: Family<MethodLabel, Counter>) -> Self {
        let mut metrics = Self {
            registry: Arc::default(),
            requests: Family::default(),
            request_duration: Family::new_with_constructor(durations),
            logins: Family::default(),
            refusals,
            router_events: Family::default(),
            router_bytes: Family::default(),
            store,
            maintenance,
            gauges: Gauges::default(),
        };
        let mut registry = Registry::with_prefix("overkeep");
        let build = Family::<BuildLabel, Gauge>::default();
        build.get_or_create(&BuildLabel { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("build_info", "The release that runs", build);
        metrics.register_counters(&mut registry);
        metrics.gauges.register(&mut registry);
        metrics.registry = Arc::new(registry);
        metrics
    }

    fn register_counters(&self, registry: &mut Registry) {
        registry.register("http_requests", "Answered requests by operation and status", self.requests.clone());
        let help = "Time from the head of a request to that of its answer";
        registry.register_with_unit("http_request_duration", help, Unit::Seconds, self.request_duration.clone());
        registry.register("logins", "Sessions that were opened, by method", self.logins.clone());
        registry.register("refusals", "Refused log-ins, requests, dials and binds, by what was refused", self.refusals.clone());
        registry.register("router_events", "Events of the built-in router, by kind", self.router_events.clone());
        let help = "Data through the built-in router, by direction";
        registry.register_with_unit("router_data", help, Unit::Bytes, self.router_bytes.clone());
        registry.register("store_queue_jobs", "Writes that wait or are being done", self.store.queue.clone());
        let help = "Time of a commit, with the jobs in it and the write to disk";
        registry.register_with_unit("store_commit_duration", help, Unit::Seconds, self.store.commit_duration.clone());
        registry.register("store_jobs", "Writes that were done or refused", self.store.jobs.clone());
        registry.register("store_commit_failures", "Commits that failed", self.store.failures.clone());
        let kept = &self.maintenance;
        let help = "When the last snapshot on schedule was made, which was read again and found whole; 0: none since the start";
        registry.register_with_unit("snapshot_timestamp", help, Unit::Seconds, kept.snapshot_at.clone());
        registry.register("snapshot_failures", "Snapshots on schedule that failed", kept.snapshot_failures.clone());
        let help = "When the last look for damage of everything ended; 0: none since the start";
        registry.register_with_unit("scrub_timestamp", help, Unit::Seconds, kept.scrub_at.clone());
        registry.register("scrub_faults", "What the last look for damage found", kept.scrub_faults.clone());
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
        let mut seconds = |name, help, gauge: &Gauge| registry.register_with_unit(name, help, Unit::Seconds, gauge.clone());
        seconds("start_timestamp", "When the controller was started", &self.started);
        let help = "When the certificates of the controller end, by role";
        registry.register_with_unit("certificate_end_timestamp", help, Unit::Seconds, self.certificates.clone());
        let mut bytes = |name, help, gauge: &Gauge| registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
        bytes("data_file", "Size of the data file", &self.data_bytes);
        bytes("data_free", "Free space where the data file is", &self.free_bytes);
        bytes("router_queued", "What waits in the built-in router for clients to read it", &self.queued_bytes);
        let mut plain = |name, help, gauge: &Gauge| registry.register(name, help, gauge.clone());
        plain("api_sessions", "Open API sessions", &self.api_sessions);
        plain("service_sessions", "Open service sessions", &self.service_sessions);
        plain("store_writable", "1 if writes are taken", &self.writable);
        plain("data_file_in_place", "1 if the data file is where its name leads", &self.in_place);
        plain("router_circuits", "Open circuits through the built-in router", &self.circuits);
        plain("router_channels", "Open connections of clients to the built-in router", &self.channels);
        registry.register("router_binds", "Services hosted through the built-in router, by terminator", self.binds.clone());
        registry.register("expiring", "What ends within 30 days or has ended, by kind", self.expiring.clone());
        registry.register("edge_routers", "Edge routers by state", self.routers.clone());
    }
}

/// OpenMetrics text as Prometheus text: counters are called with their `_total`, and units and the end are not told.
fn prometheus(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(told) = line.strip_prefix("# HELP ") {
            help = told.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|told| told.split_once(' ')) {
            let end = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take() {
                text += &format!("# HELP {name}{end} {words}\n");
            }
            text += &format!("# TYPE {name}{end} {kind}\n");
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
