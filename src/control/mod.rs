//! Routers elsewhere: the control channel that unmodified Go routers connect to, and what is told to them and taken from them on it.
//!
//! Not here: sockets and TLS (`listener/`), how messages look as bytes (`frame/`), the router inside (`network/`), enrollment of routers
//! (`enrollment/`). Who may use what is asked of the same functions as at the router inside (`network/rights.rs`).
//!
//! A connection begins with a hello ([`hello`]) and is then a [`RouterConnection`](connection::RouterConnection) in the [`registry`].
//! `receive.rs` reads its messages and hands each to whoever answers it: `sync.rs` tells it of API sessions, `bind.rs` makes terminators of
//! SDKs that host, `dial.rs` makes circuits, `fault.rs` ends them, `review.rs` ends what has lost its right.
//!
//! Invariants: the router that acts is always the one of the connection, and touches only what is its own. Whatever it sends is bounded in
//! bytes and cannot make a task panic. A circuit that is listed is one that both of its identities may have now.

mod answers;
mod bind;
mod circuit;
mod connection;
mod core;
mod dial;
mod ends;
mod fault;
mod hello;
mod hosted;
pub mod message;
mod outbox;
mod receive;
mod registry;
mod review;
mod session_tokens;
mod sessions;
mod sync;
mod sync_queue;

use std::{
    io,
    sync::{Arc, atomic::AtomicUsize, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{self, Runtime},
};

use self::core::Core;
pub use self::core::{Parts, Times};
use crate::{
    network::{Basis, PendingReviews},
    store::CommitFeed,
};

/// How long tasks have to end when the controller stops.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The controller's side of all control channels. Cheap to clone.
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    runtime: Mutex<Option<Runtime>>,
    handle: runtime::Handle,
}

impl Control {
    /// Starts it. What earlier runs left of terminators of connections to routers elsewhere is deleted: routers report again what they host.
    /// Is to be called when everything that its checks look at follows the store. Blocks.
    ///
    /// # Errors
    /// The store cannot be read or written, or the system gives no threads.
    pub fn start(parts: Parts, feed: &CommitFeed) -> crate::error::Result<Self> {
        Self::start_with(parts, Times::default(), feed)
    }

    /// The same with other times, for tests.
    ///
    /// # Errors
    /// As in [`Control::start`].
    pub fn start_with(parts: Parts, times: Times, feed: &CommitFeed) -> crate::error::Result<Self> {
        let core = Arc::new(Core::new(parts, times));
        ends::clear(&core)?;
        let runtime = threads().map_err(|e| crate::error::Error::Internal(format!("threads of the control channel: {e}")))?;
        let handle = runtime.handle().clone();
        let reviews = Arc::<PendingReviews>::default();
        let noted = reviews.clone();
        feed.attach(&core, move |core, event| review::hear(core, &noted, event));
        handle.spawn(review::run(core.clone(), reviews));
        handle.spawn(sync::run(core.clone()));
        let removing = core.clone();
        handle.spawn(async move { removing.records.remove_ended(removing.times.refusal).await });
        handle.spawn(ends::forgive(core.clone()));
        Ok(Self(Arc::new(Inner { core, runtime: Mutex::new(Some(runtime)), handle })))
    }

    /// Where its tasks run: a stream that it is to serve should be made there.
    pub fn handle(&self) -> &runtime::Handle {
        &self.0.handle
    }

    /// Serves a connection of a router until it ends. Poll it on the runtime of [`Control::handle`]. `place` is dropped as soon as the router is
    /// authenticated.
    pub fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static, P: Send + 'static>(
        &self,
        stream: S,
        peer: crate::network::Peer,
        place: P,
    ) -> impl Future<Output = ()> + Send + use<S, P> {
        hello::serve(self.0.core.clone(), stream, peer, place)
    }

    /// Ids of the routers of a circuit that a session dialled; none where it has no circuit over routers elsewhere.
    pub fn path_of_session(&self, session: &str) -> Option<Vec<String>> {
        let circuits = self.0.core.circuits.resting_on(&Basis::Session(session.to_owned()));
        let dialled = circuits.into_iter().find(|circuit| circuit.session.id.as_str() == session);
        dialled.map(|circuit| vec![circuit.router.clone()])
    }

    /// Ends its threads, with all connections. Blocks.
    pub fn stop(&self) {
        if let Some(runtime) = self.0.runtime.lock().take() {
            runtime.shutdown_timeout(LAST_WORDS);
        }
    }
}

/// Threads of its own: a storm of routers must not keep requests over REST or traffic waiting.
fn threads() -> io::Result<Runtime> {
    let count = AtomicUsize::new(0);
    let name = move || format!("control-{}", count.fetch_add(1, Ordering::Relaxed));
    runtime::Builder::new_multi_thread().worker_threads(2).thread_name_fn(name).enable_all().build()
}
