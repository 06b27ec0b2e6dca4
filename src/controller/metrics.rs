//! Sets the gauges at each request for the metrics, and runs the metrics listener.

use std::{
    io,
    net::TcpListener,
    sync::{Arc, atomic::Ordering, mpsc},
    thread::JoinHandle,
};

use actix_web::{dev::ServerHandle, rt::System};
use fabric::{built_in_router::Router, control_channel::Control};
use model::{
    clock::Clock,
    entity::{ApiSession, EdgeRouter, HistoryClass, Lookup, Service, Session},
    metrics::{KindLabel, Metrics},
};
use pki::Role;
use policy::{
    change::Certificates,
    hosting::{Hosting, ServiceCounts},
};
use rest::{MetricsFormat, metrics_listener};
use store::Store;

/// What the gauges are read from.
pub(super) struct Sources {
    pub metrics: Metrics,
    pub store: Store,
    pub router: Router,
    pub control: Control,
    pub hosting: Hosting,
    pub certificates: Arc<Certificates>,
    pub clock: Clock,
}

/// The listener, until it is dropped.
pub(super) struct MetricsServer {
    handle: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl Sources {
    /// All metrics as text. Blocks.
    fn text(&self, format: MetricsFormat) -> String {
        self.read();
        match format {
            MetricsFormat::OpenMetrics => self.metrics.openmetrics(),
            MetricsFormat::Prometheus => self.metrics.prometheus(),
        }
    }

    /// Reads the gauges. A gauge that cannot be read keeps its value.
    fn read(&self) {
        let gauges = &self.metrics.gauges;
        gauges.writable.set(self.store.is_alive().into());
        gauges.in_place.set(self.store.is_in_place().into());
        if let Some(space) = self.store.space() {
            gauges.data_bytes.set(signed(space.file));
            gauges.free_bytes.set(signed(space.free));
        }
        for (role, certificate) in self.certificates.keystore().certificates() {
            gauges
                .certificates
                .get_or_create(&KindLabel {
                    kind: role_name(role),
                })
                .set(certificate.not_after());
        }
        self.read_router();
        self.read_remote_routers();
        if let Err(error) = self.read_records() {
            tracing::warn!(%error, "records could not be counted for the metrics");
        }
    }

    fn read_records(&self) -> model::error::Result<()> {
        let gauges = &self.metrics.gauges;
        self.store.read(|tx| {
            gauges.api_sessions.set(signed(tx.count::<ApiSession>()?));
            gauges.service_sessions.set(signed(tx.count::<Session>()?));
            for class in HistoryClass::ALL {
                let reach = tx.history_reach(class)?;
                let from = if reach.is_cut {
                    reach.first.map_or(tx.now.seconds(), |(_, at)| at.seconds())
                } else {
                    0
                };
                gauges
                    .history_from
                    .get_or_create(&KindLabel { kind: class.name() })
                    .set(from);
            }
            let (mut online, mut offline) = (0, 0);
            tx.each_readable::<EdgeRouter>(|router| {
                let is_online = tx.router_info(router.id.as_str()).is_some();
                *(if is_online { &mut online } else { &mut offline }) += 1;
                Ok(())
            })?;
            let ServiceCounts {
                hosted,
                failing,
                unhosted,
            } = self.hosting.counts();
            let others = tx
                .count::<Service>()?
                .saturating_sub(hosted + failing + unhosted);
            for (kind, count) in [
                ("hosted", hosted),
                ("failing", failing),
                ("unhosted", unhosted),
                ("never-hosted", others),
            ] {
                gauges
                    .services
                    .get_or_create(&KindLabel { kind })
                    .set(signed(count));
            }
            gauges
                .routers
                .get_or_create(&KindLabel { kind: "online" })
                .set(online);
            gauges
                .routers
                .get_or_create(&KindLabel { kind: "offline" })
                .set(offline);
            Ok(())
        })
    }

    fn read_router(&self) {
        let (traffic, gauges) = (self.router.traffic(), &self.metrics.gauges);
        gauges.channels.set(signed(traffic.channels));
        gauges.circuits.set(signed(traffic.circuits));
        gauges.binds.set(signed(traffic.binds));
        gauges.queued_bytes.set(signed(traffic.queued_bytes));
        let events = [
            ("channels-opened", traffic.channels_opened),
            ("channels-closed", traffic.channels_closed),
            ("channels-cut-off", traffic.cut_off),
            ("hellos-refused", traffic.hellos_refused),
            ("hellos-missing", traffic.hellos_missing),
            ("messages-malformed", traffic.malformed),
            ("binds-accepted", traffic.binds_accepted),
            ("binds-refused", traffic.binds_refused),
            ("binds-ended", traffic.binds_ended),
            ("circuits-opened", traffic.circuits_opened),
            ("circuits-closed", traffic.circuits_closed),
            ("dials-refused", traffic.dials_refused),
            ("dials-failed", traffic.dials_failed),
            ("reader-pauses", traffic.reader_pauses),
        ];
        for (kind, count) in events {
            self.metrics
                .router_events
                .get_or_create(&KindLabel { kind })
                .inner()
                .store(count, Ordering::Relaxed);
        }
        for (kind, bytes) in [
            ("from-clients", traffic.client_bytes),
            ("from-hosts", traffic.host_bytes),
        ] {
            self.metrics
                .router_bytes
                .get_or_create(&KindLabel { kind })
                .inner()
                .store(bytes, Ordering::Relaxed);
        }
    }

    fn read_remote_routers(&self) {
        let (traffic, metrics) = (self.control.traffic(), &self.metrics);
        for (kind, bytes) in [
            ("from-clients", traffic.from_clients),
            ("from-hosts", traffic.from_hosts),
            ("from-links", traffic.link_received),
        ] {
            metrics
                .remote_bytes
                .get_or_create(&KindLabel { kind })
                .inner()
                .store(bytes, Ordering::Relaxed);
        }
        metrics
            .gauges
            .remote_circuits
            .set(signed(self.control.remote_circuit_count()));
        let links = self.control.links();
        let usable = links.iter().filter(|link| link.is_usable).count() as u64;
        for (kind, count) in [
            ("usable", usable),
            ("unusable", links.len() as u64 - usable),
        ] {
            metrics
                .gauges
                .links
                .get_or_create(&KindLabel { kind })
                .set(signed(count));
        }
        let latencies: Vec<f64> = links
            .iter()
            .flat_map(|link| link.measured)
            .flatten()
            .map(|latency| latency.as_secs_f64())
            .collect();
        let mean = latencies.iter().sum::<f64>() / latencies.len().max(1) as f64;
        for (kind, latency) in [
            ("mean", mean),
            ("highest", latencies.into_iter().fold(0.0, f64::max)),
        ] {
            metrics
                .gauges
                .link_latency
                .get_or_create(&KindLabel { kind })
                .set(latency);
        }
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Root => "root",
        Role::Intermediate => "intermediate",
        Role::OldIntermediate => "old-intermediate",
        Role::Server => "server",
        Role::External => "external",
        Role::ExternalIssuer => "external-issuer",
    }
}

/// Serves metrics on a bound socket, on a thread of its own.
///
/// # Errors
/// The socket cannot be used, or the thread cannot be started.
pub(super) fn serve(socket: TcpListener, sources: Sources) -> io::Result<MetricsServer> {
    sources
        .metrics
        .gauges
        .started
        .set(sources.clock.now().seconds());
    let (started, starting) = mpsc::channel();
    let source = Arc::new(move |format| sources.text(format));
    let run = move || {
        System::new().block_on(async move {
            match metrics_listener::serve(socket, source) {
                Ok((server, handle)) => {
                    drop(started.send(Ok(handle)));
                    drop(server.await);
                }
                Err(error) => drop(started.send(Err(error))),
            }
        });
    };
    let thread = std::thread::Builder::new()
        .name("metrics".into())
        .spawn(run)?;
    match starting.recv() {
        Ok(Ok(handle)) => Ok(MetricsServer {
            handle,
            thread: Some(thread),
        }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the listener ended before it started")),
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // The dropping thread may run an async runtime, where blocking is not allowed, so another
        // thread waits.
        let handle = &self.handle;
        std::thread::scope(|scope| {
            drop(
                scope
                    .spawn(|| System::new().block_on(handle.stop(false)))
                    .join(),
            )
        });
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
