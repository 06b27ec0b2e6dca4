//! A router of the network, as the network commands it: in this process, or at the other end of a
//! control channel.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use model::error::Result;
use parking_lot::Mutex;

use super::{
    circuit::Circuit,
    info::CircuitInfo,
    links::ReportedLink,
    live_terminators::LiveTerminator,
    paths::{Node, Path},
    request_failure::RequestFailure,
    review_triggers::PendingSet,
    route_answer::{PassedOn, RouteFailure},
    session_authorizer::Grant,
};

/// A router. Only [`Router::connect`] waits.
pub(crate) trait Router: Send + Sync {
    /// As a node of paths.
    fn as_node(&self) -> Node;

    /// Whether it can be commanded.
    fn is_connected(&self) -> bool;

    /// Takes its part of a route, and passes the outcome to [`Circuit::answered`].
    fn route(&self, order: RouteOrder<'_>);

    /// Connects a client and a host that are both at this router, if it is in this process; others
    /// need a route.
    fn connect<'c>(&'c self, dial: LocalDial<'c>) -> Connecting<'c>;

    /// Removes a circuit: at once if `now`, else after its queued data was delivered. `failure`
    /// says why, if both ends are at this router.
    fn unroute(&self, circuit: &str, now: bool, failure: &RequestFailure);

    /// Tells its end of a circuit why it ends, and ends it. Over links the other end learns of it
    /// after the data before it. Returns false if it has none, or is in another process.
    fn fail(&self, circuit: &str, failure: &RequestFailure) -> bool;

    /// Ends a terminator whose host has lost the right, and tells the host. Returns false if the
    /// router does not have it, or is in another process.
    fn end_terminator(&self, terminator: &LiveTerminator) -> bool;

    /// Ends the channels of SDKs that are no longer logged in, if the router is in this process.
    ///
    /// # Errors
    /// The store cannot be read.
    fn end_lost_channels(&self, pending: &PendingSet) -> Result<()>;

    /// Closes a link that is no longer used.
    fn close_link(&self, link: &ReportedLink);

    /// Closes its links of a router that may no longer connect. Others close them by themselves.
    fn close_links_of(&self, router: &str);

    /// Whether it is known to have accepted a link.
    fn has_accepted(&self, link: &ReportedLink) -> bool;

    /// Completes what administrators see of a circuit by what the router knows of it.
    fn describe(&self, circuit: &mut CircuitInfo);
}

/// The attempt to connect two ends at one router.
pub(crate) type Connecting<'c> =
    Pin<Box<dyn Future<Output = std::result::Result<(), RouteFailure>> + Send + 'c>>;

/// The part of one router in the route of a circuit.
pub(crate) struct RouteOrder<'o> {
    pub circuit: &'o Arc<Circuit>,
    pub attempt: u32,
    pub path: &'o Path,
    /// The place of the router in the path.
    pub place: usize,
    /// The host's end, for the last router of a path, unless it has it already.
    pub egress: Option<Egress>,
    /// Until the router has to answer.
    pub timeout: Duration,
    pub tags: &'o [(&'static str, String)],
}

/// The end of a circuit at its host.
#[derive(Clone)]
pub(crate) struct Egress {
    /// The binding of the terminator.
    pub binding: String,
    /// The address of the terminator.
    pub destination: String,
    pub passed_on: PassedOn,
    pub grant: Arc<Grant>,
}

impl RouteOrder<'_> {
    /// The links to the routers before and after it in the path; `None` at an end.
    pub(crate) fn links(&self) -> [Option<&String>; 2] {
        let before = self.place.checked_sub(1);
        [
            before.and_then(|before| self.path.links.get(before)),
            self.path.links.get(self.place),
        ]
    }
}

/// A dial whose client and host are at the same router.
pub(crate) struct LocalDial<'d> {
    pub circuit: &'d Arc<Circuit>,
    pub grant: &'d Grant,
    pub host: &'d Arc<LiveTerminator>,
    pub passed_on: &'d PassedOn,
}

/// The connected routers.
#[derive(Default)]
pub(crate) struct Routers {
    connected: Mutex<HashMap<String, Arc<dyn Router>>>,
    count: AtomicUsize,
}

impl Routers {
    /// Adds a router, in the place of an earlier connection of it.
    pub(crate) fn add(&self, id: &str, router: Arc<dyn Router>) {
        let mut connected = self.connected.lock();
        connected.insert(id.to_owned(), router);
        self.count.store(connected.len(), Ordering::SeqCst);
    }

    pub(crate) fn remove(&self, id: &str) {
        let mut connected = self.connected.lock();
        connected.remove(id);
        self.count.store(connected.len(), Ordering::SeqCst);
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<dyn Router>> {
        let connected = self.connected.lock();
        connected
            .get(id)
            .filter(|router| router.is_connected())
            .cloned()
    }

    /// Whether there is at most one router. Does not lock.
    pub(crate) fn is_single(&self) -> bool {
        self.count.load(Ordering::SeqCst) <= 1
    }

    /// The connected routers as nodes of paths.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let connected = self.connected.lock();
        connected
            .values()
            .filter(|router| router.is_connected())
            .map(|router| router.as_node())
            .collect()
    }
}
