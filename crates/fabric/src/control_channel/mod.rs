//! Routers in other processes: the control channel that unmodified Go routers connect to, and its
//! messages.
//!
//! Not here: sockets and TLS (the crate `listener`), the encoding of messages (the crate `wire`),
//! the built-in router (`built_in_router/`), enrollment of routers (the crate `policy`). Rights are
//! checked by the same functions as for the built-in router (`network/session_authorizer.rs`).
//!
//! A connection begins with a hello ([`hello`]) and is then a
//! [`RouterConnection`](connection::RouterConnection) in the [`registry`]. `receive.rs` reads its
//! messages and dispatches them: `sync.rs` tells it of API sessions, `bind.rs` creates terminators
//! of SDKs that host and `terminator_changes.rs` changes them, `dial.rs` passes their dials to the
//! network, `tunnel.rs` does both for tunnelers, `route.rs` tells it its part of routes, `fault.rs`
//! takes the ends of circuits, `certificates.rs` renews its certificates, `metrics_reports.rs` takes
//! its metrics. The network itself is in `network/`.
//!
//! Invariants: the acting router is always the one of the connection, and it affects only its own
//! circuits and terminators. All its input is bounded in bytes and cannot make a task panic. Both
//! identities of a listed circuit have the right to it at present.

mod announced_sessions;
mod announcements;
mod asked_routers;
mod bind;
mod built_in;
mod certificates;
mod changed_models;
mod channel_sessions;
mod connected_identities;
mod connection;
mod control_core;
mod data_model;
mod dial;
mod disconnected_routers;
mod earlier_circuits;
mod earlier_ends;
mod fault;
mod group;
mod hello;
mod hello_values;
mod hosting_defaults;
mod inspect;
mod link_questions;
mod link_reports;
mod measurements;
mod metrics_reports;
mod outbox;
mod public_keys;
mod receive;
mod registry;
mod replies;
mod report_queue;
mod revoked_routers;
mod route;
mod router_changes;
mod router_history;
mod router_rights;
mod session_reports;
mod sessions;
mod sync;
mod sync_follower;
mod sync_notices;
mod sync_queue;
mod termination;
mod terminator_changes;
mod told_identities;
mod tunnel;
mod tunnel_dial;
mod tunnel_services;
mod tunnel_session;
mod tunnel_v2;
mod tunneler;
mod unfit_tokens;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use model::entity::EdgeRouter;
use parking_lot::Mutex;
use store::CommitFeed;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{self, Runtime},
};

pub use self::{control_core::ControlContext, measurements::RouterTraffic};
use self::{
    control_core::{ControlCore, Times},
    inspect::RouterInspection,
};
use crate::network::{
    AuthorizingRecord, ChannelPeer, CircuitInfo, LinkInfo, Network, Path, ReportedLink,
    RequestFailure, STATIC_COST, finish_reviews, improve, improve_paths, review_access,
};

/// How long tasks may take to end when the controller stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Minimum pause between two messages to a router about other routers.
const ANNOUNCEMENT_PAUSE: Duration = Duration::from_millis(100);
/// The pause lasts at least this long for each connected router, so that the controller sends at
/// most 500 of these messages per second.
const ANNOUNCEMENT_PAUSE_PER_ROUTER: Duration = Duration::from_millis(2);
/// The reason for the loss of a link that an administrator closes.
const CLOSED: &str = "an administrator closed the link";

/// The controller's side of all control channels. Cheap to clone.
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    core: Arc<ControlCore>,
    runtime: Mutex<Option<Runtime>>,
    handle: runtime::Handle,
}

impl Control {
    /// Starts it. Deletes terminators that earlier runs created for connections to routers: routers
    /// report again what they host. Call it after everything that its checks read has subscribed to
    /// the store. Blocks.
    ///
    /// # Errors
    /// The store cannot be read or written, or the system provides no threads.
    pub fn start(
        network: Arc<Network>,
        context: ControlContext,
        feed: &CommitFeed,
    ) -> model::error::Result<Self> {
        let times = Times::of(&context.routers);
        let core = Arc::new(ControlCore::new(network, context, times));
        termination::clear(&core)?;
        let runtime = threads().map_err(|e| {
            model::error::Error::Internal(format!("threads of the control channel: {e}"))
        })?;
        let handle = runtime.handle().clone();
        feed.attach(&core, router_changes::on_commit);
        handle.spawn(review_access(core.network.clone()));
        handle.spawn(announce_changes(core.clone()));
        handle.spawn(disconnected_routers::end_revoked(core.clone()));
        handle.spawn(sync::run(core.clone()));
        handle.spawn(unfit_tokens::run(core.clone()));
        handle.spawn(data_model::run(core.clone()));
        let removing = core.clone();
        handle.spawn(async move {
            removing
                .network
                .records
                .remove_ended(removing.times.refusal)
                .await
        });
        let scanned = core.clone();
        handle.spawn_blocking(move || earlier_ends::scan(&scanned));
        let network = core.network.clone();
        handle.spawn(async move { network.reduce_failures().await });
        handle.spawn(improve_paths(core.network.clone()));
        Ok(Self(Arc::new(Inner {
            core,
            runtime: Mutex::new(Some(runtime)),
            handle,
        })))
    }

    /// Tells the other routers of the built-in router, which takes links at `address`.
    pub fn join(&self, address: &str) {
        built_in::join(&self.0.core, address, &self.0.handle);
    }

    /// The runtime of its tasks. A stream that it serves should be created there.
    pub fn handle(&self) -> &runtime::Handle {
        &self.0.handle
    }

    /// Serves a connection of a router until it ends. Poll it on the runtime of
    /// [`Control::handle`]. Drops `place` as soon as the router is authenticated.
    pub fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static, P: Send + 'static>(
        &self,
        stream: S,
        peer: ChannelPeer,
        place: P,
    ) -> impl Future<Output = ()> + Send + use<S, P> {
        hello::serve(self.0.core.clone(), stream, peer, place)
    }

    /// The ids of the routers of a circuit that a session dialed; none if it has no circuit.
    pub fn path_of_session(&self, session: &str) -> Option<Vec<String>> {
        let record = AuthorizingRecord::Session(session.to_owned());
        let circuits = self.network().circuits.depending_on(&record);
        let dialed = circuits
            .into_iter()
            .find(|circuit| circuit.session.id.as_str() == session);
        dialed.map(|circuit| circuit.path().routers.clone())
    }

    /// The number of open circuits.
    pub fn circuit_count(&self) -> u64 {
        self.network().circuits.open_count(|_| true)
    }

    /// The number of open circuits over routers in other processes.
    pub fn remote_circuit_count(&self) -> u64 {
        let is_remote = |path: &Path| {
            path.routers
                .iter()
                .any(|router| router != EdgeRouter::BUILT_IN)
        };
        self.network().circuits.open_count(is_remote)
    }

    /// What a router has moved since its start, as it reports, and the number of circuits over it.
    /// `None` if it has not reported.
    pub fn traffic_of(&self, router: &str) -> Option<(RouterTraffic, usize)> {
        Some((
            self.0.core.measurements.of(router)?,
            self.network().circuits.count_of_router(router),
        ))
    }

    /// What all remote routers have moved since the start of the controller, in bytes.
    pub fn traffic(&self) -> RouterTraffic {
        self.0.core.measurements.total()
    }

    /// The same in bytes per second, by the latest reports.
    pub fn traffic_per_second(&self) -> RouterTraffic {
        self.0.core.measurements.rate()
    }

    /// Passes the open circuits to `each`, in no particular order.
    ///
    /// # Errors
    /// The first one of `each`.
    pub fn each_circuit<E>(&self, each: impl FnMut(CircuitInfo) -> Result<(), E>) -> Result<(), E> {
        let network = self.network();
        let open = network.circuits.all();
        open.iter()
            .filter_map(|circuit| network.describe(circuit))
            .try_for_each(each)
    }

    /// An open circuit.
    pub fn circuit(&self, id: &str) -> Option<CircuitInfo> {
        let network = self.network();
        network.describe(network.circuits.find(id)?.as_ref())
    }

    /// Ends a circuit at all its routers. Returns whether it existed.
    pub fn close_circuit(&self, id: &str) -> bool {
        let network = self.network();
        let Some(circuit) = network.circuits.find(id) else {
            return false;
        };
        let _guard = self.0.handle.enter();
        let failure = RequestFailure::internal("an administrator ended the circuit");
        network.close_circuit(&circuit, &failure);
        true
    }

    fn network(&self) -> &Arc<Network> {
        &self.0.core.network
    }

    /// Asks the connected routers that `is_meant` selects by their id for values by name; each has
    /// `limit` to answer.
    pub async fn inspect(
        &self,
        is_meant: impl Fn(&str) -> bool,
        names: &[String],
        limit: Duration,
    ) -> RouterInspection {
        inspect::inspect(&self.0.core, is_meant, names, limit).await
    }

    /// The links between routers, sorted by id.
    pub fn links(&self) -> Vec<LinkInfo> {
        let core = &self.0.core;
        let mut links = core.network.links.all();
        links.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        links.into_iter().map(|link| shown(core, link)).collect()
    }

    /// A link.
    pub fn link(&self, id: &str) -> Option<LinkInfo> {
        self.0
            .core
            .network
            .links
            .find(id)
            .map(|link| shown(&self.0.core, link))
    }

    /// Tells both routers of a link to close it; they dial it again. Returns whether it existed.
    pub fn close_link(&self, id: &str) -> bool {
        let core = &self.0.core;
        let Some(link) = core.network.links.find(id).and_then(|link| {
            core.network
                .links
                .remove(id, &link.source, 0, core.network.loss(CLOSED))
        }) else {
            return false;
        };
        for router in [&link.source, &link.destination] {
            core.network.close_link_at(router, &link);
        }
        let _guard = self.0.handle.enter();
        core.network.link_gone(&link, CLOSED);
        true
    }

    /// Moves a few circuits to cheaper paths now, instead of within a minute.
    pub fn improve_paths(&self) {
        let _guard = self.0.handle.enter();
        improve(self.network());
    }

    /// Ends what has lost its access, stops its threads and closes all connections. Blocks.
    pub fn stop(&self) {
        if let Some(runtime) = self.0.runtime.lock().take() {
            runtime.block_on(async {
                finish_reviews(&self.0.core.network).await;
                self.0.core.flush().await;
            });
            runtime.shutdown_timeout(STOP_TIMEOUT);
        }
    }
}

fn shown(core: &ControlCore, link: ReportedLink) -> LinkInfo {
    let sent_bytes = link.sent_bytes();
    LinkInfo {
        is_usable: link.is_confirmed
            && core.is_connected(&link.source)
            && core.is_connected(&link.destination),
        circuits: core.network.circuits.count_of_link(&link.id),
        cost: link.cost(),
        id: link.id,
        protocol: link.protocol,
        source_id: link.source,
        destination_id: link.destination,
        since: link.since,
        static_cost: STATIC_COST,
        measured: link.measured,
        sent_bytes,
        iteration: link.iteration,
    }
}

/// Its own threads, so that many routers connecting at once do not delay REST requests or traffic.
fn threads() -> io::Result<Runtime> {
    let count = AtomicUsize::new(0);
    let name = move || format!("control-{}", count.fetch_add(1, Ordering::Relaxed));
    runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name_fn(name)
        .enable_all()
        .build()
}

/// Tells routers what has changed at others (`announcements.rs`). Never ends.
async fn announce_changes(core: Arc<ControlCore>) {
    loop {
        core.registry.announcements.changed().await;
        loop {
            let (is_behind, count) = core.registry.announce();
            tokio::time::sleep(
                ANNOUNCEMENT_PAUSE.max(ANNOUNCEMENT_PAUSE_PER_ROUTER.saturating_mul(count)),
            )
            .await;
            if !is_behind {
                break;
            }
        }
    }
}
