//! The data plane: the edge router inside the controller. SDKs connect to it, host and dial services, and their data is relayed here.
//!
//! Not here: sockets and TLS (`listener/`), who may use what (`access/`, `posture/`), how messages look as bytes (`frame/`), which routers
//! and identities are connected (`online.rs`, which is told from here).
//!
//! A connection becomes a [`channel`] when its hello is accepted (`hello.rs`): a reader task (`receive.rs`) and a writer task (`writer.rs`,
//! which empties `send_queue.rs`, whose queues are in `fair_queues.rs`). A Connect becomes a [`circuit`] (`dial.rs`) between the client's channel and a [`binding`] (`bind.rs`), whose
//! terminator is a record (`terminators.rs`). `registry.rs` knows everything that is open and what it rests on, `review.rs` closes what has
//! lost its ground, `core.rs` says how each thing ends.
//!
//! Invariant: a circuit that stands is one that both of its identities may have now.

mod bind;
mod binding;
mod budget;
mod channel;
mod circuit;
mod core;
mod dial;
mod fair_queues;
mod hello;
mod housekeeping;
mod info;
mod message;
mod permission;
mod receive;
mod registry;
mod review;
mod select;
mod send_queue;
mod terminators;
mod trace;
mod writer;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{self, Runtime},
    task::JoinHandle,
};

use self::{core::Core, message::Failure};
pub use self::{
    core::{Parts, Times},
    hello::Peer,
    info::{ChannelInfo, CircuitInfo, EndInfo, LinkInfo},
    message::{key, kind},
};
use crate::entity::FactsExt;
use review::PendingReviews;

/// How long writers have to send what is left when the router stops.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The router of this process, or none where it is disabled. Cheap to clone.
#[derive(Clone, Default)]
pub struct Router(Option<Arc<Inner>>);

/// A router that runs, and the threads it runs on.
struct Inner {
    core: Arc<Core>,
    runtime: Mutex<Option<Runtime>>,
    handle: runtime::Handle,
}

impl Router {
    /// Starts a router. What earlier runs left of its terminators is deleted before. To be called after everything that its checks look at
    /// follows the store. Blocks.
    ///
    /// # Errors
    /// The store cannot be read or written, or the system gives no threads.
    pub fn start(parts: Parts) -> crate::error::Result<Self> {
        Self::start_with(parts, Times::default())
    }

    /// The same with other times, for tests.
    ///
    /// # Errors
    /// As in [`Router::start`].
    pub fn start_with(parts: Parts, times: Times) -> crate::error::Result<Self> {
        terminators::clear(&parts.changes, &parts.id)?;
        let is_disabled = parts.store.read(|tx| Ok(tx.find(&parts.id)?.is_none_or(|router| router.spec.disabled)))?;
        let (core, triggers) = (Arc::new(Core::new(parts, times)), Arc::<PendingReviews>::default());
        core.is_disabled.store(is_disabled, Ordering::Release);
        let runtime = threads().map_err(|e| crate::error::Error::Internal(format!("threads of the router: {e}")))?;
        let handle = runtime.handle().clone();
        let (told, noted) = (Arc::downgrade(&core), triggers.clone());
        core.parts.store.subscribe(move |events| {
            if let Some(core) = told.upgrade() {
                events.iter().for_each(|event| review::hear(&core, &noted, event));
            }
        });
        handle.spawn(review::run(core.clone(), triggers));
        handle.spawn(terminators::remove_ended(core.clone()));
        handle.spawn(housekeeping::run(core.clone()));
        Ok(Self(Some(Arc::new(Inner { core, runtime: Mutex::new(Some(runtime)), handle }))))
    }

    /// The id of the edge router record that stands for it; none where it is disabled.
    pub fn id(&self) -> Option<&str> {
        self.core().map(|core| core.parts.id.as_str())
    }

    /// Where its tasks run: a stream that it is to serve should be made there. None where it is disabled.
    pub fn handle(&self) -> Option<&runtime::Handle> {
        self.0.as_deref().map(|inner| &inner.handle)
    }

    /// Serves a connection on which an SDK speaks, until it ends. To be polled on the router's runtime. None where it is disabled.
    pub fn channel<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        stream: S,
        peer: Peer,
    ) -> Option<impl Future<Output = ()> + Send + use<S>> {
        Some(hello::serve(self.core()?.clone(), stream, peer))
    }

    /// Serves a connection in a task of the router's. None where it is disabled.
    pub fn serve(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, peer: Peer) -> Option<JoinHandle<()>> {
        Some(self.handle()?.spawn(self.channel(stream, peer)?))
    }

    /// The connections between routers, the oldest first. There are none while other routers cannot connect.
    pub fn links(&self) -> Vec<LinkInfo> {
        Vec::new()
    }

    /// All open circuits, the oldest first.
    pub fn circuits(&self) -> Vec<CircuitInfo> {
        let open = self.core().map(|core| core.registry.everything().circuits).unwrap_or_default();
        let mut circuits: Vec<_> = open.iter().filter_map(|circuit| circuit.info()).collect();
        circuits.sort_by(|one, other| (one.since, &one.id).cmp(&(other.since, &other.id)));
        circuits
    }

    /// An open circuit.
    pub fn circuit(&self, id: &str) -> Option<CircuitInfo> {
        self.core()?.registry.circuit(id)?.info()
    }

    /// Ends a circuit at both of its ends. Answers whether there was one.
    pub fn close_circuit(&self, id: &str) -> bool {
        let Some((core, circuit)) = self.core().and_then(|core| Some((core, core.registry.circuit(id)?))) else { return false };
        core.fail_circuit(&circuit, &Failure::internal("an administrator ended the circuit"));
        true
    }

    /// All open channels, the oldest first.
    pub fn channels(&self) -> Vec<ChannelInfo> {
        let mut open = self.core().map(|core| core.registry.everything().channels).unwrap_or_default();
        open.sort_by_key(|channel| channel.number);
        open.iter().map(|channel| channel.info()).collect()
    }

    /// Does what is done from time to time: for whoever moved the clock.
    pub fn look_after(&self) {
        if let Some(core) = self.core() {
            housekeeping::keep_active(core, &core.registry.everything());
        }
    }

    /// Bytes that wait in memory, of all channels.
    pub fn queued_bytes(&self) -> usize {
        self.core().map(|core| core.budget.used()).unwrap_or_default()
    }

    /// Ends what is open: nothing new is begun, open circuits have `drain-timeout` to end by themselves, then all is closed. Blocks.
    pub fn drain(&self) {
        if let Some(inner) = self.0.as_deref() {
            inner.handle.block_on(housekeeping::drain(&inner.core));
        }
    }

    /// Ends its threads, with whatever is still open. Blocks.
    pub fn stop(&self) {
        let runtime = self.0.as_deref().and_then(|inner| inner.runtime.lock().take());
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(LAST_WORDS);
        }
    }

    fn core(&self) -> Option<&Arc<Core>> {
        self.0.as_deref().map(|inner| &inner.core)
    }
}

/// Threads of the router's own: traffic must not keep requests over REST waiting.
fn threads() -> io::Result<Runtime> {
    let count = AtomicUsize::new(0);
    let name = move || format!("router-{}", count.fetch_add(1, Ordering::Relaxed));
    runtime::Builder::new_multi_thread().thread_name_fn(name).enable_all().build()
}
