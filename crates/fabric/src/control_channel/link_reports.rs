//! What routers report about links: new ones and lost ones; and the certificates of the router at
//! the other end.

use std::{collections::HashSet, sync::Arc};

use model::error::Result;
use store::Read;
use wire::{
    control::fabric::{self, FaultSubject},
    frame::Frame,
};

use super::{
    announcements,
    connection::RouterConnection,
    control_core::ControlCore,
    link_questions,
    replies::{IsComplete, Lists, body, decoded, result},
};
use crate::{
    network::{MOVED, Reported, ReportedLink, is_text, record_of},
    peer_lines::may_log,
};

/// Maximum links in one report.
const MAX_LINKS: usize = 2000;

/// Links that a router has dialed.
pub(crate) fn links(core: &Arc<ControlCore>, connection: &RouterConnection, frame: &Frame) {
    let Some((lists, full)) =
        Lists::of(connection, frame).zip(decoded::<IsComplete>(connection, frame))
    else {
        return;
    };
    let lean = |link| fabric::RouterLink {
        cost_tags: Vec::new(),
        connection_state: None,
        ..link
    };
    let links: Vec<_> = lists
        .messages::<fabric::RouterLink>(1)
        .take(MAX_LINKS)
        .map(lean)
        .collect();
    if full.is_complete {
        let ids: HashSet<&str> = links.iter().map(|link| link.id.as_str()).collect();
        let reason = "its router no longer has the link";
        let lost =
            core.network
                .links
                .remove_dialed(&connection.router, &ids, core.network.loss(reason));
        for link in &lost {
            core.network.link_gone(link, reason);
        }
    }
    let deleted = deleted_destinations(core, &links);
    for link in links {
        let (id, destination) = (link.id.clone(), link.destination_router_id.clone());
        if is_text(&id) && deleted.contains(&destination) {
            if may_log(&connection.router) {
                tracing::info!(link = id, source = %connection.router, destination, "a link to a router that does not exist is ignored");
            }
            connection.send(announcements::removed(&destination));
            continue;
        }
        match core
            .network
            .links
            .report(&connection.router, link, core.network.now())
        {
            Reported::Added => {
                if may_log(&connection.router) {
                    tracing::info!(link = id, source = %connection.router, destination, "link added");
                }
                if let Some(router) = core.network.routers.find(&destination) {
                    core.network.links.confirm(&destination, |link| {
                        link.id == id && router.has_accepted(link)
                    });
                }
                core.network.paths.changed();
                link_questions::ask(core, &destination);
            }
            Reported::Confirmed => core.network.paths.changed(),
            Reported::Known => {}
            Reported::Moved(before) => {
                if may_log(&connection.router) {
                    tracing::info!(link = id, source = %connection.router, destination, "link leads to another router");
                }
                core.network.close_link_at(&before.destination, &before);
                core.network.link_gone(&before, MOVED);
                link_questions::ask(core, &destination);
            }
            Reported::Refused if may_log(&connection.router) => {
                tracing::warn!(router = %connection.router, "a link that a router reports is ignored");
            }
            Reported::Refused => {}
        }
    }
}

/// The destinations of links that are not routers. Those that are not connected are looked up
/// together: after a restart of the controller most of them are away. Other tasks of this thread go
/// on meanwhile on another one.
fn deleted_destinations(core: &ControlCore, links: &[fabric::RouterLink]) -> HashSet<String> {
    let reported: HashSet<&str> = links
        .iter()
        .filter(|link| is_text(&link.id))
        .map(|link| link.destination_router_id.as_str())
        .collect();
    let absent: Vec<&str> = reported
        .into_iter()
        .filter(|id| is_text(id) && !core.is_connected(id))
        .collect();
    if absent.is_empty() {
        return HashSet::new();
    }
    let deleted = |tx: &Read<'_>| {
        let missing = absent.iter().filter_map(|id| {
            record_of(tx, id)
                .map(|found| found.is_none().then(|| (*id).to_owned()))
                .transpose()
        });
        missing.collect::<Result<HashSet<String>>>()
    };
    let found = tokio::task::block_in_place(|| core.network.store().read(deleted));
    found.unwrap_or_else(|error| {
        tracing::warn!(%error, "the routers at the ends of links cannot be looked up");
        HashSet::new()
    })
}

/// Handles the report of a router that a link is lost or is a duplicate. The router must be at an
/// end of the link.
///
/// A report without an iteration follows a route over a link that the router does not know. The
/// router that has accepted a new link may only not know it yet: closing the link would cost five
/// seconds, until it is dialed again.
pub(crate) fn lost(core: &Arc<ControlCore>, connection: &RouterConnection, fault: &fabric::Fault) {
    let is_of_route = fault.subject() == FaultSubject::Link && fault.iteration == 0;
    let is_new_here = |link: ReportedLink| link.destination == connection.router && link.is_new();
    if is_of_route && core.network.links.find(&fault.id).is_some_and(is_new_here) {
        return tracing::debug!(router = %connection.router, link = fault.id, "a router does not know a new link yet");
    }
    core.network
        .lose_link(&fault.id, &connection.router, fault.iteration);
}

/// Answers whether certificates belong to a router. A router asks this about one that dials a link
/// to it.
pub(crate) fn verify(core: &ControlCore, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(asked) = body::<fabric::VerifyRouter>(connection, frame) else {
        return;
    };
    let (is_verified, text) = match core.network.enrolled(&asked.router_id) {
        Ok(Some(state))
            if asked
                .fingerprints
                .iter()
                .any(|shown| state.has_fingerprint(shown)) =>
        {
            (true, "router verified")
        }
        Ok(Some(_)) => (false, "the certificates are not those of the router"),
        Ok(None) => (
            false,
            "there is no such router, it is disabled or it is not enrolled",
        ),
        Err(error) => {
            if may_log(&connection.router) {
                tracing::warn!(%error, "a router cannot be looked up");
            }
            (false, "the router cannot be looked up at the moment")
        }
    };
    if is_verified
        && core
            .network
            .links
            .accepted(&connection.router, &asked.router_id)
    {
        core.network.paths.changed();
    }
    connection.send(result(frame, is_verified, text));
}
