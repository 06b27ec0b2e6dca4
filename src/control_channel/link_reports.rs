//! What routers report about links: new ones, lost ones, latencies; and the certificates of the router at the other end.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use prost::Message;

use super::{
    answers::{body, result},
    connection::RouterConnection,
    core::Core,
    links::{Link, Reported},
    message::{content, fabric, fabric::FaultSubject, metrics},
    reroute,
};
use crate::{
    entity::{EdgeRouter, FactsExt, Id, TransitRouter, edge_router::State},
    error::Result,
    frame::{Builder, Frame},
};

/// Maximum links in one report.
const MAX_LINKS: usize = 2000;
/// A longer latency counts as this one.
const MAX_LATENCY: Duration = Duration::from_secs(3600);

/// Links that a router has dialled.
pub(crate) fn links(core: &Arc<Core>, connection: &RouterConnection, frame: &Frame) {
    let Some(report) = body::<fabric::RouterLinks>(connection, frame) else { return };
    if report.full_refresh {
        let ids: HashSet<&str> = report.links.iter().map(|link| link.id.as_str()).collect();
        let reason = "its router no longer has the link";
        let lost = core.links.remove_dialled(&connection.router, &ids, core.loss(reason));
        lost.iter().for_each(|link| gone(core, link, reason));
    }
    for link in report.links.into_iter().take(MAX_LINKS) {
        let (id, destination) = (link.id.clone(), link.destination_router_id.clone());
        match core.links.report(&connection.router, link, core.parts.rights.clock.now()) {
            Reported::Added => {
                tracing::info!(link = id, source = %connection.router, destination, "link");
                core.paths.changed();
            }
            Reported::Known => {}
            Reported::Refused => tracing::warn!(router = %connection.router, "a link that a router reports is ignored"),
        }
    }
}

/// Handles the report of a router that a link is lost or is a duplicate. The router must be at an end of the link.
pub(crate) fn lost(core: &Arc<Core>, connection: &RouterConnection, fault: &fabric::Fault) {
    let reason = "a router at its end reports the loss of the link";
    let Some(link) = core.links.remove(&fault.id, &connection.router, fault.iteration, core.loss(reason)) else { return };
    send_link_fault(core, link.other_end(&connection.router), &link);
    gone(core, &link, reason);
}

/// Tells a router that a link is no longer used.
pub(crate) fn send_link_fault(core: &Core, router: &str, link: &Link) {
    let fault = fabric::Fault { subject: FaultSubject::Link.into(), id: link.id.clone(), iteration: link.iteration };
    core.send(router, Builder::new(content::FAULT).body(&fault.encode_to_vec()));
}

/// Moves the circuits of a link that was removed.
pub(crate) fn gone(core: &Arc<Core>, link: &Link, reason: &str) {
    tracing::info!(link = %link.id, source = %link.source, destination = %link.destination, reason, "link lost");
    core.paths.changed();
    reroute::begin(core, core.circuits.of_link(&link.id), reason);
}

/// Handles the latencies of links: the latency of a link is the mean time on the way plus the mean time in the queue.
pub(crate) fn metrics(core: &Core, connection: &RouterConnection, frame: &Frame) {
    let Some(measured) = body::<metrics::Metrics>(connection, frame) else { return };
    let means = measured.histograms.iter().filter_map(|entry| Some((entry.key.as_deref()?, entry.value.as_ref()?.mean)));
    let means: HashMap<&str, f64> = means.filter(|(name, _)| name.starts_with("link.")).collect();
    let mean = |name: &str| means.get(name).and_then(|nanos| Duration::try_from_secs_f64(nanos / 1e9).ok());
    let ids = means.keys().filter_map(|name| name.strip_prefix("link.")?.strip_suffix(".latency"));
    let mut is_changed = false;
    for id in ids.take(MAX_LINKS) {
        let Some(latency) = mean(&format!("link.{id}.latency")) else { continue };
        let latency = latency.saturating_add(mean(&format!("link.{id}.queue_time")).unwrap_or_default()).min(MAX_LATENCY);
        is_changed |= core.links.measured(id, &connection.router, latency);
    }
    if is_changed {
        core.paths.changed();
    }
}

/// Answers whether certificates belong to a router. The router at the other end of a link asks this.
pub(crate) fn verify(core: &Core, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(asked) = body::<fabric::VerifyRouter>(connection, frame) else { return };
    let (is_verified, text) = match enrolled(core, &asked.router_id) {
        Ok(Some(state)) if asked.fingerprints.iter().any(|shown| state.has_fingerprint(shown)) => (true, "router verified"),
        Ok(Some(_)) => (false, "the certificates are not those of the router"),
        Ok(None) => (false, "there is no such router, it is disabled or it is not enrolled"),
        Err(error) => {
            tracing::warn!(%error, "a router cannot be looked up");
            (false, "the router cannot be looked up at the moment")
        }
    };
    connection.send(result(frame, is_verified, text));
}

/// The certificates of a router; `None` if it may not connect.
pub(crate) fn enrolled(core: &Core, id: &str) -> Result<Option<State>> {
    core.parts.rights.store.read(|tx| {
        let edge = tx.find(&Id::<EdgeRouter>::from_text(id))?.map(|router| (router.spec.disabled, router.state));
        let found: Option<(bool, State)> = match edge {
            Some(edge) => Some(edge),
            None => tx.find(&Id::<TransitRouter>::from_text(id))?.map(|router| (router.spec.disabled, router.state)),
        };
        Ok(found.filter(|(is_disabled, state)| !is_disabled && state.is_verified).map(|(_, state)| state))
    })
}
