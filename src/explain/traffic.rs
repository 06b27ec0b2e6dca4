//! What keeps traffic from flowing where policies let it: routers that are not connected, and services that nobody hosts.
//!
//! Not here: rights (`policies.rs`, `routers.rs`). What is in the way here is removed by starting something, and by a request only where a
//! record is missing. Invariant: nothing of this is in the way of POST /sessions.

use std::fmt::Write as _;

use super::{Case, MOST, Obstacle, What, routers::Router};
use crate::{
    access::Right,
    entity::{EdgeRouter, Facts, FactsExt, Id, Identity, Terminator},
    error::Result,
    store::Read,
};

/// What is in the way of somebody who has the edge routers in common with the service that are given.
///
/// # Errors
/// The store cannot be read.
pub fn judge(tx: &Read<'_>, case: &Case<'_>, routers: &[Router]) -> Result<Vec<Obstacle>> {
    let mut obstacles = Vec::new();
    // Where there is none in common that is what is said.
    if !routers.is_empty() && !routers.iter().any(|router| router.is_online) {
        obstacles.push(not_connected(tx, case, routers)?);
    }
    if case.right == Right::Dial {
        obstacles.extend(not_hosted(tx, case)?);
    }
    Ok(obstacles)
}

fn not_connected(tx: &Read<'_>, case: &Case<'_>, routers: &[Router]) -> Result<Obstacle> {
    let names = listed(routers.iter().map(|router| router.router.name.as_str()));
    let (identity, service) = (&case.identity.spec.name, &case.service.spec.name);
    let text = format!("no edge router that {identity} and {service} have in common is connected: {names}");
    let mut remedy = "start one of them".to_owned();
    for Router { router, .. } in routers.iter().take(MOST) {
        let enrolled = tx.find(&Id::<EdgeRouter>::from_text(router.id.as_str()))?.is_some_and(|found| found.state.is_verified);
        if !enrolled {
            write!(remedy, "; {} has yet to enroll with its token", router.name).ok();
        }
    }
    Ok(Obstacle::new(What::RouterNotConnected, text, Vec::new()).with_remedy(remedy))
}

/// Somebody dials, and there must be somewhere to go to.
fn not_hosted(tx: &Read<'_>, case: &Case<'_>) -> Result<Option<Obstacle>> {
    let (id, name) = (case.service.id.as_str(), &case.service.spec.name);
    let terminators = tx.linked::<Terminator>("service", id)?;
    if terminators.iter().any(|terminator| tx.link(&terminator.spec.router).is_some()) {
        return Ok(None);
    }
    if !terminators.is_empty() {
        let text = format!("none of the routers that the terminators of {name} are on is connected");
        let routers: Vec<String> = terminators.iter().filter_map(|terminator| Some(terminator.spec.find_router(tx).ok()?.0)).collect();
        let remedy = format!("start one of these routers: {}", listed(routers.iter().map(String::as_str)));
        return Ok(Some(Obstacle::new(What::TerminatorNotReachable, text, Vec::new()).with_remedy(remedy)));
    }
    let hosts = case.access.ask(|engine| {
        let hosts = engine.identities(id, Right::Bind);
        hosts.in_order().take(MOST + 1).map(|(_, id)| id.to_string()).collect::<Vec<_>>()
    });
    if hosts.is_empty() {
        let text = format!("{name} has no terminator, and no identity may bind it");
        let remedy = format!("let an identity host it with a service policy of type Bind and have it bind, or add a terminator for {name}");
        return Ok(Some(Obstacle::new(What::NoTerminator, text, Vec::new()).with_remedy(remedy)));
    }
    let mut names = Vec::with_capacity(hosts.len());
    for host in &hosts {
        if let Some(found) = tx.find(&Id::<Identity>::from_text(host.as_str()))? {
            let state = if tx.is_connected(host) { " (connected, but does not bind it)" } else { " (not connected)" };
            names.push(format!("{}{state}", found.spec.name));
        }
    }
    let text = format!("no host binds {name} now");
    let remedy = format!("start the hosting program of one of {}", listed(names.iter().map(String::as_str)));
    Ok(Some(Obstacle::new(What::NoHost, text, Vec::new()).with_remedy(remedy)))
}

/// The first of them, with commas between.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let text = names.join(", ");
    if more > 0 { format!("{text} and more") } else { text }
}
