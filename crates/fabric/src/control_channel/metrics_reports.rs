//! What routers measure and report once a minute: data of clients and hosts, bytes and latencies of
//! links, data of circuits.
//!
//! Only the names in [`Report::read`] are read; all others are skipped without being decoded. A
//! report affects the router that sends it, the links that it is an end of, and the circuits that
//! begin or end at it. Negative values and latencies that are not finite are ignored, and so is
//! traffic of a router that has grown impossibly fast. Bytes of links and circuits are shown as
//! they are reported.

use std::{collections::HashMap, time::Duration};

use prost::Message;
use wire::{
    control::{members, metrics},
    frame::Frame,
};

use super::{connection::RouterConnection, control_core::ControlCore, measurements::RouterTraffic};

/// Maximum links in one report.
const MAX_LINKS: usize = 2000;
/// A longer entry of a report is skipped. Entries of routers have a few hundred bytes.
const MAX_ENTRY: usize = 4096;
/// A longer latency counts as this one.
const MAX_LATENCY: Duration = Duration::from_secs(3600);

/// The members of `metrics_pb.MetricsMessage` and of its usage counters.
mod number {
    pub(super) const METERS: usize = 7;
    pub(super) const HISTOGRAMS: usize = 8;
    pub(super) const USAGE_COUNTERS: usize = 11;
    pub(super) const BUCKETS: usize = 3;
}

/// What one end of a link has measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct OfLink {
    /// Nanoseconds on the way and in the queue.
    latency: Option<f64>,
    queue_time: f64,
    sent: Option<u64>,
    received: Option<u64>,
}

impl OfLink {
    fn latency(&self) -> Option<Duration> {
        let duration = |nanos: f64| Duration::try_from_secs_f64(nanos / 1e9).ok();
        let on_the_way = duration(self.latency?)?;
        Some(
            on_the_way
                .saturating_add(duration(self.queue_time).unwrap_or_default())
                .min(MAX_LATENCY),
        )
    }
}

/// What is used of a report.
#[derive(Debug, Default)]
struct Report {
    /// None if it has no meters of it, as some reports of routers have none.
    traffic: Option<RouterTraffic>,
    links: HashMap<String, OfLink>,
}

impl Report {
    /// Reads a report, and passes the data of circuits to `of_circuit`: the id of a circuit, and
    /// bytes from its client and from its host since the report before.
    fn read(body: &[u8], mut of_circuit: impl FnMut(&str, [u64; 2])) -> Self {
        let mut report = Self::default();
        for (number, entry) in members(body) {
            match number {
                number::METERS => report.meter(entry),
                number::HISTOGRAMS => report.histogram(entry),
                number::USAGE_COUNTERS => {
                    let buckets = members(entry).filter(|(number, _)| *number == number::BUCKETS);
                    let buckets = buckets
                        .filter_map(|(_, bucket)| decode::<metrics::UsageBucketEntry>(bucket));
                    for (circuit, bucket) in
                        buckets.filter_map(|bucket| bucket.key.zip(bucket.value))
                    {
                        let of = |name| {
                            bucket
                                .values
                                .iter()
                                .find(|entry| entry.key.as_deref() == Some(name))
                                .and_then(|entry| entry.value)
                        };
                        of_circuit(
                            &circuit,
                            ["ingress.rx", "egress.rx"].map(|name| of(name).unwrap_or_default()),
                        );
                    }
                }
                _ => {}
            }
        }
        report
    }

    fn meter(&mut self, entry: &[u8]) {
        let Some((name, meter)) =
            decode::<metrics::MeterEntry>(entry).and_then(|entry| entry.key.zip(entry.value))
        else {
            return;
        };
        let Some((name, count)) = name
            .strip_suffix(".bytesrate")
            .zip(u64::try_from(meter.count).ok())
        else {
            return;
        };
        let set: fn(&mut RouterTraffic, u64) = match name {
            "ingress.rx" => |traffic, count| traffic.from_clients = count,
            "egress.rx" => |traffic, count| traffic.from_hosts = count,
            "fabric.tx" => |traffic, count| traffic.link_sent = count,
            "fabric.rx" => |traffic, count| traffic.link_received = count,
            other => {
                if let Some(link) = other.strip_suffix(".tx").and_then(|name| self.link(name)) {
                    link.sent = Some(count);
                } else if let Some(link) =
                    other.strip_suffix(".rx").and_then(|name| self.link(name))
                {
                    link.received = Some(count);
                }
                return;
            }
        };
        set(self.traffic.get_or_insert_default(), count);
    }

    fn histogram(&mut self, entry: &[u8]) {
        let Some((name, histogram)) =
            decode::<metrics::HistogramEntry>(entry).and_then(|entry| entry.key.zip(entry.value))
        else {
            return;
        };
        if let Some(link) = name
            .strip_suffix(".latency")
            .and_then(|name| self.link(name))
        {
            link.latency = Some(histogram.mean);
        } else if let Some(link) = name
            .strip_suffix(".queue_time")
            .and_then(|name| self.link(name))
        {
            link.queue_time = histogram.mean;
        }
    }

    /// The link of a name such as `link.ID`.
    fn link(&mut self, name: &str) -> Option<&mut OfLink> {
        let id = name.strip_prefix("link.")?;
        let is_known = self.links.contains_key(id);
        (is_known || self.links.len() < MAX_LINKS)
            .then(|| self.links.entry(id.to_owned()).or_default())
    }
}

fn decode<M: Message + Default>(entry: &[u8]) -> Option<M> {
    if entry.len() <= MAX_ENTRY {
        M::decode(entry).ok()
    } else {
        None
    }
}

/// Takes a report of a router.
pub(crate) fn take(core: &ControlCore, connection: &RouterConnection, frame: &Frame) {
    let router = connection.router.as_str();
    let report = Report::read(frame.body(), |id, [from_client, from_host]| {
        let Some(circuit) = core.network.circuits.find(id) else {
            return;
        };
        let path = circuit.path();
        let at = |end: Option<&String>| end.is_some_and(|end| end == router);
        circuit.count_bytes([
            at(path.routers.first()).then_some(from_client),
            at(path.routers.last()).then_some(from_host),
        ]);
    });
    if let Some(traffic) = report
        .traffic
        .filter(|traffic| !core.measurements.report(router, *traffic))
    {
        tracing::debug!(
            router,
            ?traffic,
            "a report of more traffic than possible is rejected"
        );
    }
    let mut is_changed = false;
    for (id, of_link) in report.links {
        core.network
            .links
            .counted(&id, router, [of_link.sent, of_link.received]);
        if let Some(latency) = of_link.latency() {
            is_changed |= core.network.links.measured(&id, router, latency);
        }
    }
    if is_changed {
        core.network.paths.changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_reports_are_bounded() {
        let mut report = Report::default();
        for number in 0..=MAX_LINKS {
            let histogram = metrics::Histogram {
                mean: 1e6,
                ..Default::default()
            };
            let entry = metrics::HistogramEntry {
                key: Some(format!("link.{number}.latency")),
                value: Some(histogram),
            };
            report.histogram(&entry.encode_to_vec());
        }
        assert_eq!(report.links.len(), MAX_LINKS);
        assert_eq!(report.links["0"].latency(), Some(Duration::from_millis(1)));
        let long = metrics::MeterEntry {
            key: Some("x".repeat(MAX_ENTRY)),
            value: Some(metrics::Meter::default()),
        };
        assert!(decode::<metrics::MeterEntry>(&long.encode_to_vec()).is_none());
    }

    #[test]
    fn reports_without_meters_count_nothing() {
        let entry = metrics::MeterEntry {
            key: Some("ingress.rx.bytesrate".into()),
            value: Some(metrics::Meter {
                count: 7,
                ..Default::default()
            }),
        };
        let mut report = Report::default();
        assert!(report.traffic.is_none());
        report.meter(&entry.encode_to_vec());
        assert_eq!(
            report.traffic,
            Some(RouterTraffic {
                from_clients: 7,
                ..RouterTraffic::default()
            })
        );
    }

    #[test]
    fn latencies_are_finite() {
        let of = |latency, queue_time| {
            OfLink {
                latency: Some(latency),
                queue_time,
                ..OfLink::default()
            }
            .latency()
        };
        assert_eq!(of(2e6, 1e6), Some(Duration::from_millis(3)));
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::MAX] {
            assert_eq!(
                (of(wrong, 0.0), of(2e6, wrong)),
                (None, Some(Duration::from_millis(2)))
            );
        }
        assert_eq!(of(1e18, 0.0), Some(MAX_LATENCY));
    }
}
