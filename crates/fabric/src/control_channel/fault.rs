//! The end of circuits as routers report it, and circuits whose existence they ask about.

use std::{collections::HashMap, sync::Arc};

use model::entity::TypedLookup;
use wire::{
    control::fabric::{self, FaultSubject},
    frame::Frame,
};

use super::{
    connection::RouterConnection,
    control_core::ControlCore,
    link_reports,
    replies::{Lists, decoded, unroute},
};
use crate::network::{Circuit, begin_reroute};

/// Maximum circuits in one report.
const MAX_CIRCUITS: usize = 10_000;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// A circuit over this router.
fn own(core: &ControlCore, connection: &RouterConnection, id: &str) -> Option<Arc<Circuit>> {
    core.network
        .circuits
        .find(id)
        .filter(|circuit| circuit.path().has_router(&connection.router))
}

/// Handles a fault message of a router.
pub(crate) fn fault(core: &Arc<ControlCore>, connection: &RouterConnection, frame: &Frame) {
    if let Some(fault) = decoded::<fabric::Fault>(connection, frame) {
        take(core, connection, &fault);
    }
}

/// Handles a fault at a router: the end of a circuit, data that cannot be forwarded, or the loss of
/// a link.
pub(crate) fn take(core: &Arc<ControlCore>, connection: &RouterConnection, fault: &fabric::Fault) {
    match FaultSubject::try_from(fault.subject) {
        Ok(FaultSubject::Ingress | FaultSubject::Egress) => {
            core.network.end_closed(&fault.id, &connection.router);
        }
        // Data that the router cannot forward: it no longer has the circuit, or a table that a
        // reroute has replaced.
        Ok(subject @ (FaultSubject::Forward | FaultSubject::UnknownOwnerForward)) => {
            for id in fault
                .id
                .split(' ')
                .filter(|id| !id.is_empty())
                .take(MAX_CIRCUITS)
            {
                match own(core, connection, id) {
                    Some(circuit) if circuit.path().links.is_empty() => {
                        core.network
                            .end_circuit(&circuit, true, "its router cannot forward it")
                    }
                    Some(circuit) => begin_reroute(
                        &core.network,
                        vec![circuit],
                        "a router of its path cannot forward it",
                    ),
                    None if subject == FaultSubject::Forward => connection.send(unroute(id, true)),
                    None => {}
                }
            }
        }
        Ok(FaultSubject::Link | FaultSubject::LinkDuplicate) => {
            link_reports::lost(core, connection, fault)
        }
        Err(_) => {}
    }
}

/// Idle circuits that a router asks about: unknown circuits are removed there, and circuits that
/// were idle for longer than their service allows are ended.
pub(crate) fn confirm(core: &ControlCore, connection: &RouterConnection, frame: &Frame) {
    let Some(report) = Lists::of(connection, frame) else {
        return;
    };
    let entries = report.messages(2).take(MAX_CIRCUITS);
    let idle_times: HashMap<String, i64> = entries
        .filter_map(|entry: fabric::IdleTime| entry.key.zip(entry.value))
        .collect();
    for id in report.texts(1).take(MAX_CIRCUITS) {
        let Some(circuit) = own(core, connection, id) else {
            connection.send(unroute(id, true));
            continue;
        };
        let idle = idle_times.get(id).copied();
        let service = core
            .network
            .store()
            .read(|tx| tx.find(&circuit.service))
            .ok()
            .flatten();
        let max_idle = service.map_or(0, |service| service.spec.max_idle_time_millis);
        if max_idle > 0 && idle.is_some_and(|idle| idle / NANOS_PER_MILLI > max_idle) {
            core.network
                .end_circuit(&circuit, true, "it was idle for too long");
        }
    }
}
