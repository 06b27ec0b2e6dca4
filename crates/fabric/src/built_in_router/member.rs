//! The router as a member of the network: it gets its part of routes in this process, without
//! messages.

use std::sync::Weak;

use model::{entity::EdgeRouter, error::Result};
use policy::hosting::DialFault;
use tokio::runtime;

use super::{
    circuit::CircuitEnd,
    dial,
    links::route::{self, LinkRoute},
    review,
    router_core::RouterCore,
};
use crate::network::{
    ChannelEndInfo, CircuitInfo, Connecting, EDGE, LiveTerminator, LocalDial, Node, PassedOn,
    PendingSet, RefusalCause, ReportedLink, RequestFailure, RouteFailure, RouteOrder, RouteRefusal,
    Router,
};

/// The router, as the network knows it. The network does not keep it alive.
pub(crate) struct Member {
    pub core: Weak<RouterCore>,
    /// Where its tasks run.
    pub handle: runtime::Handle,
}

impl Router for Member {
    fn as_node(&self) -> Node {
        let core = self.core.upgrade();
        let (cost, is_end_only) = core.map_or((0, false), |core| *core.weight.lock());
        Node {
            id: EdgeRouter::BUILT_IN.into(),
            cost: cost.into(),
            is_end_only,
        }
    }

    fn is_connected(&self) -> bool {
        self.core.strong_count() > 0
    }

    fn route(&self, order: RouteOrder<'_>) {
        let (circuit, attempt) = (order.circuit.clone(), order.attempt);
        let id = EdgeRouter::BUILT_IN;
        let refuse = |text: &str, cause| {
            let text = text.to_owned();
            circuit.answered(id, attempt, Err(RouteRefusal { text, cause }));
        };
        let Some(core) = self.core.upgrade() else {
            return refuse(
                "the router has stopped",
                RefusalCause::Other(DialFault::Busy),
            );
        };
        // What it opens for a circuit that has ended would stay.
        if core.network.circuits.find(&circuit.id).is_none() {
            return refuse("the circuit has ended in the meantime", RefusalCause::Link);
        }
        let (link, is_of_host) = match order.links() {
            [Some(to_client), Some(to_host)] => {
                let passed = route::pass_through(&core, &circuit.id, [to_client, to_host]);
                return circuit.answered(id, attempt, passed.map(|()| PassedOn::new()));
            }
            [Some(link), None] => (link, true),
            [None, Some(link)] => (link, false),
            [None, None] => return refuse("the route has no link", RefusalCause::Link),
        };
        let binding = order.egress.as_ref().map(|egress| egress.binding.as_str());
        if binding.is_some_and(|binding| binding != EDGE) {
            let text = format!(
                "the built-in router does not serve terminators of binding {}",
                binding.unwrap_or_default()
            );
            return refuse(&text, RefusalCause::Other(DialFault::Other));
        }
        let prepared = route::prepare(
            &core,
            LinkRoute {
                circuit: &circuit,
                link,
                is_of_host,
            },
        );
        match (prepared, order.egress) {
            (Ok(Some(endpoint)), Some(egress)) => drop(self.handle.spawn(async move {
                let answer = route::dial_host_of_route(&core, endpoint, egress).await;
                circuit.answered(id, attempt, answer);
            })),
            (Ok(_), _) => circuit.answered(id, attempt, Ok(PassedOn::new())),
            (Err(refusal), _) => circuit.answered(id, attempt, Err(refusal)),
        }
    }

    fn connect<'c>(&'c self, dial: LocalDial<'c>) -> Connecting<'c> {
        Box::pin(async move {
            let Some(core) = self.core.upgrade() else {
                let stopped = RequestFailure::busy("the router has stopped");
                return Err(RouteFailure::of_path(stopped));
            };
            dial::dial_host_here(&core, dial).await
        })
    }

    fn unroute(&self, circuit: &str, now: bool, failure: &RequestFailure) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let _guard = self.handle.enter();
        match core.registry.circuit(circuit) {
            // Not over a link, or not yet.
            Some(open) if core.endpoints.find(circuit).is_none() && !open.is_over_routers() => {
                // A client whose dial is in progress waits for the next attempt, unless its circuit
                // has ended.
                if core.network.circuits.find(circuit).is_none() {
                    core.fail_circuit(&open, failure);
                }
            }
            _ => route::unroute(&core, circuit, now),
        }
    }

    fn fail(&self, circuit: &str, failure: &RequestFailure) -> bool {
        let core = self.core.upgrade();
        let found = core.and_then(|core| Some((core.registry.circuit(circuit)?, core)));
        found
            .inspect(|(circuit, core)| core.fail_circuit(circuit, failure))
            .is_some()
    }

    fn end_terminator(&self, terminator: &LiveTerminator) -> bool {
        let Some(core) = self.core.upgrade() else {
            return false;
        };
        let found = core
            .registry
            .binding(terminator.id().as_str())
            .filter(|binding| std::ptr::eq(&*binding.terminator, terminator));
        let ended = RequestFailure::access_denied("session ended");
        found
            .inspect(|binding| core.end_binding(binding, Some(&ended)))
            .is_some()
    }

    fn end_lost_channels(&self, pending: &PendingSet) -> Result<()> {
        match self.core.upgrade() {
            Some(core) => review::end_lost_channels(&core, pending),
            None => Ok(()),
        }
    }

    fn close_link(&self, link: &ReportedLink) {
        let core = self.core.upgrade();
        if let Some(link) = core.and_then(|core| core.links.find(&link.id)) {
            link.close();
        }
    }

    fn close_links_of(&self, router: &str) {
        let core = self.core.upgrade();
        for link in core.iter().flat_map(|core| core.links.of(router)) {
            link.close();
        }
    }

    fn has_accepted(&self, link: &ReportedLink) -> bool {
        let core = self.core.upgrade();
        core.and_then(|core| core.links.find(&link.id))
            .is_some_and(|known| known.router == link.source)
    }

    fn describe(&self, info: &mut CircuitInfo) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let open = core.registry.circuit(&info.id);
        let sent = match &open {
            Some(circuit) => Some(circuit.traffic.info()),
            None => core
                .transits
                .find(&info.id)
                .map(|transit| transit.traffic.info()),
        };
        if let Some([client, host]) = sent {
            info.client.sent = Some(client);
            if let Some(end) = &mut info.host {
                end.sent = Some(host);
            }
        }
        if let Some((circuit, host)) = open
            .as_ref()
            .filter(|circuit| circuit.is_inside())
            .and_then(|circuit| Some((circuit, circuit.host()?)))
        {
            let on_channel = |end: &CircuitEnd| {
                Some(ChannelEndInfo {
                    channel_id: end.channel()?.login.number.to_string(),
                    connection: end.connection(),
                })
            };
            info.client.channel = on_channel(&circuit.client);
            if let Some(end) = &mut info.host {
                end.channel = on_channel(&host.end);
            }
        }
    }
}
