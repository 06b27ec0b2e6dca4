//! Whether routers reach each other over links, and what is missing if they do not.

use model::{
    clock::Timestamp,
    entity::{EdgeRouter, Id, Lookup, TransitRouter, TypedLookup},
    error::Result,
};
use store::Read;

use super::{
    case::{Case, MAX_LISTED},
    obstacle::{Obstacle, ObstacleKind},
    routers::CommonRouter,
    traffic::{Host, named_router},
};

/// The obstacle if no path leads from a connected router in common to the router of a host.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn missing(
    tx: &Read<'_>,
    case: &Case<'_>,
    routers: &[CommonRouter],
    hosts: &[Host],
) -> Result<Option<Obstacle>> {
    let connected = || {
        routers
            .iter()
            .filter(|router| router.is_online)
            .map(|router| &router.router)
    };
    // A session that names the built-in router names another router only if that one has a link to
    // the built-in router.
    let is_here = |id: &str| id == EdgeRouter::BUILT_IN;
    let has_here = connected().any(|router| is_here(&router.id));
    let linked = tx.online().neighbours(EdgeRouter::BUILT_IN);
    let begins: Vec<_> = connected()
        .filter(|router| !has_here || is_here(&router.id) || linked.contains(&router.id))
        .collect();
    let (Some(first), Some(last)) = (begins.first(), hosts.first()) else {
        return Ok(None);
    };
    let mut unread = Ok(());
    let may_pass = |id: &str| {
        may_pass(tx, id).unwrap_or_else(|error| {
            unread = Err(error);
            false
        })
    };
    let reached = tx
        .online()
        .reached_from(begins.iter().map(|router| router.id.as_str()), may_pass);
    unread?;
    if hosts.iter().any(|host| reached.contains(&host.router.id)) {
        return Ok(None);
    }
    let mut text = format!(
        "no path from router {} to router {}",
        first.name, last.router.name
    );
    let causes = causes(tx)?;
    if !causes.is_empty() {
        text = format!("{text}: {}", causes.join(", "));
    }
    let remedy = if is_here(&first.id) || is_here(&last.router.id) {
        "let the other router reach the port of the built-in router, which it dials for a link"
    } else {
        "start the routers that are offline, and let one of the routers reach a link listener of the other one"
    };
    let obstacle = Obstacle::new(ObstacleKind::NoPath, text, Vec::new());
    Ok(Some(obstacle.with_remedy(format!(
        "{remedy}, so that {} can reach a host of {}",
        case.identity.spec.name, case.service.spec.name
    ))))
}

/// Whether a path may lead through a router.
fn may_pass(tx: &Read<'_>, id: &str) -> Result<bool> {
    if let Some(router) = tx.find(&Id::<EdgeRouter>::from_text(id))? {
        return Ok(!router.spec.no_traversal);
    }
    Ok(tx
        .find(&Id::<TransitRouter>::from_text(id))?
        .is_some_and(|router| !router.spec.no_traversal))
}

/// Routers that have disconnected and links that were lost, newest first.
fn causes(tx: &Read<'_>) -> Result<Vec<String>> {
    let online = tx.online();
    let name =
        |id: &str| Ok(named_router(tx, id)?.map_or_else(|| id.to_owned(), |router| router.name));
    let mut causes: Vec<(Timestamp, String)> = Vec::new();
    for (id, at) in online.disconnected() {
        if tx.router_info(&id).is_none() && named_router(tx, &id)?.is_some() {
            causes.push((at, format!("router {} is offline since {at}", name(&id)?)));
        }
    }
    for link in online.lost_links() {
        let [one, other] = &link.ends;
        if !online.are_linked(one, other) {
            causes.push((
                link.at,
                format!(
                    "link {}-{} was lost at {}: {}",
                    name(one)?,
                    name(other)?,
                    link.at,
                    link.reason
                ),
            ));
        }
    }
    causes.sort_by(|one, other| other.cmp(one));
    causes.truncate(MAX_LISTED);
    Ok(causes.into_iter().map(|(_, text)| text).collect())
}
