//! The data plane: the edge router inside the controller. SDKs connect to it, host and dial
//! services, and it relays their data.
//!
//! Not here: sockets and TLS (the crate `listener`), rights (the crate `policy`), the encoding of
//! messages (the crate `wire`), the registry of connected routers and identities (`online` of the
//! crate `store`, which is updated from here).
//!
//! A connection becomes a [`channel`] when its hello is accepted (`hello.rs`). A channel has a
//! table of its connection ids (`connections.rs`), a reader task (`receive.rs`) and a writer task
//! (`writer.rs`), which empties its `send_queue.rs`; the queues themselves are in `fair_queues.rs`.
//! A Connect becomes a [`circuit`] (`dial.rs`, and `dial_answer.rs` for what the host answers)
//! between the client's channel and a [`binding`] (`bind.rs`), whose terminator is in `network/live_terminators.rs`. `registry.rs` holds
//! everything that is open here, `router_core.rs` defines how each ends, and `member.rs` is what
//! the network (`network/`) commands.
//!
//! Invariant: both identities of an open circuit have the right to it at present.

mod asked_traces;
mod backpressure;
mod bind;
mod binding;
mod budget;
mod channel;
mod circuit;
mod circuit_side;
mod connections;
mod counters;
mod dial;
mod dial_answer;
mod fair_queues;
mod hello;
mod housekeeping;
mod links;
mod member;
mod message;
mod pending_dial;
mod permission;
mod receive;
mod registry;
mod requests;
mod review;
mod router_core;
mod send_queue;
mod trace;
mod traffic;
mod writer;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use model::entity::TypedLookup;
use parking_lot::Mutex;
use policy::priority::lower_priority;
use store::CommitFeed;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{self, Runtime},
    task::JoinHandle,
};

pub use self::counters::TrafficInfo;
pub use self::router_core::RouterContext;
use self::{circuit::Circuit, member::Member, router_core::RouterCore};
use crate::network::{ChannelInfo, ChannelPeer, CircuitInfo, Network};

/// How long the runtime's threads may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The router of this process; empty if it is disabled. Cheap to clone.
#[derive(Clone, Default)]
pub struct Router(Option<Arc<Inner>>);

/// A running router and its threads.
struct Inner {
    core: Arc<RouterCore>,
    runtime: Mutex<Option<Runtime>>,
    handle: runtime::Handle,
}

impl Router {
    /// Starts a router. First deletes the terminators of earlier runs. Call it after everything
    /// that its checks read has subscribed to the store. Blocks.
    ///
    /// # Errors
    /// The store cannot be read or written, or the operating system cannot start threads.
    pub fn start(
        network: Arc<Network>,
        context: RouterContext,
        feed: &CommitFeed,
    ) -> model::error::Result<Self> {
        let core = Arc::new(RouterCore::new(network, context));
        core.network.records.clear(core.context.id.as_str())?;
        feed.attach(&core, review::on_commit);
        let own = core.network.store().read(|tx| tx.find(&core.context.id))?;
        let is_disabled = own.as_ref().is_none_or(|router| router.spec.disabled);
        core.is_disabled.store(is_disabled, Ordering::Release);
        if let Some(router) = own {
            *core.weight.lock() = (router.spec.cost, router.spec.no_traversal);
        }
        let runtime = threads()
            .map_err(|e| model::error::Error::Internal(format!("threads of the router: {e}")))?;
        let handle = runtime.handle().clone();
        handle.spawn(housekeeping::run(core.clone()));
        let member = Member {
            core: Arc::downgrade(&core),
            handle: handle.clone(),
        };
        core.network
            .routers
            .add(core.context.id.as_str(), Arc::new(member));
        core.network.paths.changed();
        Ok(Self(Some(Arc::new(Inner {
            core,
            runtime: Mutex::new(Some(runtime)),
            handle,
        }))))
    }

    /// The id of its edge router record; `None` if it is disabled.
    pub fn id(&self) -> Option<&str> {
        self.core().map(|core| core.context.id.as_str())
    }

    /// The runtime of its tasks; a stream that it is to serve should be created there. `None` if it
    /// is disabled.
    pub fn handle(&self) -> Option<&runtime::Handle> {
        self.0.as_deref().map(|inner| &inner.handle)
    }

    /// Serves the connection of an SDK until it ends. Poll it on the router's runtime. `place` is
    /// dropped as soon as the SDK is authenticated. `None` if the router is disabled.
    pub fn channel<S: AsyncRead + AsyncWrite + Send + Unpin + 'static, P: Send + 'static>(
        &self,
        stream: S,
        peer: ChannelPeer,
        place: P,
    ) -> Option<impl Future<Output = ()> + Send + use<S, P>> {
        Some(hello::serve(self.core()?.clone(), stream, peer, place))
    }

    /// Serves a connection of a link until it ends. Poll it on the router's runtime. `place` is
    /// dropped as soon as the router that dials is authenticated. `None` if the router is disabled.
    pub fn link<S: AsyncRead + AsyncWrite + Send + Unpin + 'static, P: Send + 'static>(
        &self,
        stream: S,
        peer: ChannelPeer,
        place: P,
    ) -> Option<impl Future<Output = ()> + Send + use<S, P>> {
        Some(links::accept::serve(
            self.core()?.clone(),
            stream,
            peer,
            place,
        ))
    }

    /// Serves a connection in a task on the router's runtime. `None` if it is disabled.
    pub fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: ChannelPeer,
    ) -> Option<JoinHandle<()>> {
        Some(self.handle()?.spawn(self.channel(stream, peer, ())?))
    }

    /// The open circuits that go over no other router, oldest first.
    pub fn circuits(&self) -> Vec<CircuitInfo> {
        let Some(core) = self.core() else {
            return Vec::new();
        };
        let open = core.registry.everything().circuits;
        let mut circuits: Vec<_> = open
            .iter()
            .filter_map(|circuit| shown(core, circuit))
            .collect();
        circuits.sort_by(|one, other| (one.since, &one.id).cmp(&(other.since, &other.id)));
        circuits
    }

    /// Passes the open channels to `each`, in no particular order.
    ///
    /// # Errors
    /// The first one of `each`.
    pub fn each_channel<E>(&self, each: impl FnMut(ChannelInfo) -> Result<(), E>) -> Result<(), E> {
        let open = self
            .core()
            .map(|core| core.registry.all_connections())
            .unwrap_or_default();
        open.iter()
            .map(|connections| connections.info())
            .try_for_each(each)
    }

    /// An open circuit that goes over no other router.
    pub fn circuit(&self, id: &str) -> Option<CircuitInfo> {
        let core = self.core()?;
        shown(core, core.registry.circuit(id)?.as_ref())
    }

    /// An open channel.
    pub fn channel_info(&self, id: &str) -> Option<ChannelInfo> {
        Some(self.core()?.registry.connections(id.parse().ok()?)?.info())
    }

    /// The counters and gauges for monitoring; all are 0 if the router is disabled.
    pub fn traffic(&self) -> TrafficInfo {
        let Some(core) = self.core() else {
            return TrafficInfo::default();
        };
        let (channels, circuits, binds) = core.registry.counts();
        TrafficInfo {
            reader_pauses: core.budget.pauses.get(),
            channels: channels as u64,
            circuits: circuits as u64,
            binds: binds as u64,
            queued_bytes: core.budget.used() as u64,
            ..core.counters.read()
        }
    }

    /// All open channels, oldest first.
    pub fn channels(&self) -> Vec<ChannelInfo> {
        let mut open = self
            .core()
            .map(|core| core.registry.all_connections())
            .unwrap_or_default();
        open.sort_by_key(|connections| connections.channel.login.number);
        open.iter().map(|connections| connections.info()).collect()
    }

    /// Marks the sessions of open channels as active, for tests that move the clock.
    pub fn mark_active(&self) {
        if let Some(core) = self.core() {
            housekeeping::keep_active(core, &core.registry.everything());
        }
    }

    /// Bytes queued in memory for all channels.
    pub fn queued_bytes(&self) -> usize {
        self.core()
            .map(|core| core.budget.used())
            .unwrap_or_default()
    }

    /// Shuts down: nothing new starts, open circuits have `drain-timeout` to end by themselves,
    /// then everything is closed. Blocks.
    pub fn drain(&self) {
        if let Some(inner) = self.0.as_deref() {
            inner.handle.block_on(housekeeping::drain(&inner.core));
        }
    }

    /// Stops its threads and closes everything that is still open. Blocks.
    pub fn stop(&self) {
        let runtime = self
            .0
            .as_deref()
            .and_then(|inner| inner.runtime.lock().take());
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(STOP_TIMEOUT);
        }
    }

    fn core(&self) -> Option<&Arc<RouterCore>> {
        self.0.as_deref().map(|inner| &inner.core)
    }
}

/// A circuit as administrators see it; `None` until its host has answered, and if it goes over
/// other routers.
fn shown(core: &RouterCore, circuit: &Circuit) -> Option<CircuitInfo> {
    let known = circuit.known().filter(|_| circuit.is_inside())?;
    core.network.describe(known)
}

/// The `nice` value of the router's threads. On a core that both want, a router thread gets a third
/// of the time that a REST thread gets.
const NICE: i32 = 5;

/// A runtime for the router only, so that its traffic does not delay REST requests.
fn threads() -> io::Result<Runtime> {
    let count = AtomicUsize::new(0);
    let name = move || format!("router-{}", count.fetch_add(1, Ordering::Relaxed));
    runtime::Builder::new_multi_thread()
        .thread_name_fn(name)
        .on_thread_start(|| lower_priority(NICE))
        .enable_all()
        .build()
}
