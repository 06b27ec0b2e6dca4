//! What all routers of the network share, of whichever kind they are.

use std::{collections::HashMap, sync::Arc, time::Duration};

use model::{
    clock::Timestamp,
    config,
    entity::{EdgeRouter, Terminator},
};
use pki::Keystore;
use policy::{
    authentication::{Refusals, RejectedCaller},
    change::Changes,
    hosting::Hosting,
};
use store::{Event, Store, online::Online};
use tokio::{sync::RwLock, time::interval};

use super::{
    circuit::Circuit,
    circuit_quota::CircuitQuota,
    circuits::Circuits,
    id_generator::IdGenerator,
    info::CircuitInfo,
    links::{Loss, ReportedLink, ReportedLinks},
    live_terminators::{LiveTerminator, LiveTerminators},
    paths::{Edge, Graph, Path, Paths},
    removals::Removals,
    review_triggers::PendingReviews,
    router::Routers,
    session_authorizer::SessionAuthorizer,
    terminator_records::TerminatorRecords,
};

/// The interval at which the cost of failed dials is reduced.
const REDUCE_INTERVAL: Duration = Duration::from_secs(60);

/// Time limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NetworkTimes {
    /// Until a router answers a route.
    pub(crate) route: Duration,
    /// How long another path is looked for after a link was lost.
    pub(crate) reroute: Duration,
}

/// The network of routers.
pub struct Network {
    pub(super) keystore: Arc<Keystore>,
    pub(crate) authorizer: SessionAuthorizer,
    refusals: Refusals,
    pub(crate) hosting: Hosting,
    pub(crate) times: NetworkTimes,
    /// Counts the open circuits.
    pub(crate) circuit_quota: Arc<CircuitQuota>,
    pub(crate) circuits: Circuits,
    pub(crate) terminators: LiveTerminators,
    pub(crate) records: TerminatorRecords,
    pub(crate) ids: IdGenerator,
    pub(crate) routers: Routers,
    pub(crate) links: ReportedLinks,
    pub(crate) paths: Paths,
    /// What routers were told to remove and have not confirmed.
    pub(crate) removals: Arc<Removals>,
    pub(crate) reviews: PendingReviews,
    /// Held for reading by a review, until what it found has ended.
    pub(super) reviewing: Arc<RwLock<()>>,
}

impl Network {
    pub fn new(
        keystore: Arc<Keystore>,
        authorizer: SessionAuthorizer,
        changes: Changes,
        refusals: Refusals,
        hosting: Hosting,
        built_in: &config::RouterConfig,
        remote: &config::RemoteRoutersConfig,
    ) -> Self {
        Self {
            keystore,
            links: ReportedLinks::new(authorizer.store.online().clone()),
            authorizer,
            refusals,
            hosting,
            times: NetworkTimes {
                route: remote.times.route,
                reroute: remote.reroute_timeout.duration(),
            },
            circuit_quota: CircuitQuota::new(built_in),
            circuits: Circuits::default(),
            terminators: LiveTerminators::default(),
            records: TerminatorRecords::new(changes),
            ids: IdGenerator::default(),
            routers: Routers::default(),
            paths: Paths::default(),
            removals: Arc::default(),
            reviews: PendingReviews::default(),
            reviewing: Arc::default(),
        }
    }

    /// The cheapest paths from a router, by the router where each ends.
    pub(crate) fn paths_from(&self, router: &str) -> Arc<HashMap<String, Arc<Path>>> {
        self.paths.from(router, || {
            let edge = |link: ReportedLink| Edge {
                cost: link.cost(),
                link: link.id,
                ends: [link.source, link.destination],
            };
            let confirmed = self
                .links
                .all()
                .into_iter()
                .filter(|link| link.is_confirmed);
            Graph::new(self.routers.nodes(), confirmed.map(edge).collect())
        })
    }

    /// The costs of the links of a path; `None` for a link that is lost, or leads to another router
    /// than that of the path.
    fn link_costs(&self, path: &Path) -> impl Iterator<Item = Option<u32>> {
        let ends = path.routers.iter().zip(path.routers.iter().skip(1));
        path.links
            .iter()
            .zip(ends)
            .map(|(link, (one, other))| self.links.cost_between(link, [one, other]))
    }

    /// Whether all links of a path still connect its routers.
    pub(crate) fn has_links_of(&self, path: &Path) -> bool {
        self.link_costs(path).all(|cost| cost.is_some())
    }

    /// The present cost of a path; `None` if one of its links or routers is gone.
    pub(crate) fn cost_of(&self, path: &Path) -> Option<u32> {
        let links = self.link_costs(path);
        let routers = path
            .routers
            .iter()
            .skip(1)
            .map(|router| Some(self.routers.find(router)?.as_node().entry_cost()));
        links
            .chain(routers)
            .try_fold(0_u32, |total, cost| Some(total.saturating_add(cost?)))
    }

    /// A circuit as administrators see it, with what its routers know of it; `None` until it was
    /// established.
    pub(crate) fn describe(&self, circuit: &Circuit) -> Option<CircuitInfo> {
        let mut info = circuit.info()?;
        let routers: Vec<_> = info
            .routers
            .iter()
            .filter_map(|router| self.routers.find(router))
            .collect();
        for router in &routers {
            router.describe(&mut info);
        }
        Some(info)
    }

    /// The loss of a link at this moment.
    pub(crate) fn loss<'l>(&self, reason: &'l str) -> Loss<'l> {
        Loss {
            reason,
            at: self.now(),
        }
    }

    /// Counts a dial or bind that was refused for lack of a right, for the history.
    pub(crate) async fn note_refusal(&self, refused: RejectedCaller) {
        self.refusals.note(self.store(), refused, self.now()).await;
    }

    /// Removes a terminator and its record. Its circuits stay open.
    pub(crate) fn end_terminator(&self, terminator: &Arc<LiveTerminator>) {
        let router = &terminator.hosted.router;
        let found = self.routers.find(router);
        let is_here = found.is_some() && router == EdgeRouter::BUILT_IN;
        if found.is_some_and(|router| router.end_terminator(terminator)) || is_here {
            return;
        }
        let is_removed = self
            .terminators
            .remove(terminator, |id| self.records.remove(router, [id]));
        if is_removed {
            self.online().set_dynamic_cost(terminator.id().as_str(), 0);
        }
    }

    /// Publishes the dynamic cost of a terminator.
    pub(crate) fn show_cost(&self, terminator: &LiveTerminator) {
        if terminator.is_open() {
            let cost = terminator.load.value();
            self.online()
                .set_dynamic_cost(terminator.id().as_str(), cost);
        }
    }

    /// Records what to review after a committed change, and updates the terminator whose record has
    /// changed or was deleted. One without a record stays, and cannot be dialed until its host
    /// binds again.
    pub fn follow(&self, event: &Event) {
        self.reviews.on_commit(event);
        let Some((old, new)) = event.of::<Terminator>() else {
            return;
        };
        let Some(terminator) = new
            .or(old)
            .and_then(|record| self.terminators.find(record.id.as_str()))
        else {
            return;
        };
        match new {
            Some(record) => terminator.set_weight(record.spec.cost, record.spec.precedence),
            None => terminator.set_listed(false),
        }
    }

    /// Reduces the cost of failed dials periodically. Never ends.
    pub(crate) async fn reduce_failures(&self) {
        let mut ticks = interval(REDUCE_INTERVAL);
        loop {
            ticks.tick().await;
            for terminator in self
                .terminators
                .all()
                .iter()
                .filter(|terminator| terminator.load.reduce_failures())
            {
                self.show_cost(terminator);
            }
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.authorizer.store
    }

    pub(crate) fn online(&self) -> &Online {
        self.store().online()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.authorizer.clock.now()
    }
}
