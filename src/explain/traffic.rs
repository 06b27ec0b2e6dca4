//! The current hosts of a service, and what prevents traffic although policies allow it: routers that are not
//! connected, and services without a host.
//!
//! Not here: rights (`policies.rs`, `routers.rs`). Obstacles here are removed by starting a program; a request helps
//! only where a record is missing or disabled. Invariant: none of them prevents POST /sessions.

use std::{collections::BTreeMap, fmt::Write as _};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{
    case::{Case, MAX_LISTED, NamedRecord},
    obstacle::{Obstacle, ObstacleKind, SuggestedEdit},
    routers::CommonRouter,
};
use crate::{
    access::Right,
    entity::{EdgeRouter, Id, Identity, Lookup, Record, Terminator, TransitRouter, TypedLookup},
    error::Result,
    store::Read,
};

/// A host of a service and where it can be reached.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedHost")]
pub(crate) struct Host {
    /// The identity that hosts it. Absent for terminators that an administrator made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<NamedRecord>,
    /// The router of its terminators.
    pub router: NamedRecord,
    /// The number of its terminators on this router.
    pub terminators: usize,
}

/// The hosts of a service with a terminator on a connected router, sorted by identity, then router. Terminators made by
/// a connection count only while their identity is connected.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn hosts(tx: &Read<'_>, case: &Case<'_>) -> Result<Vec<Host>> {
    let mut counts = BTreeMap::<(String, String), usize>::new();
    for terminator in tx.linked::<Terminator>("service", case.service.id.as_str())? {
        if is_live(tx, &terminator) {
            *counts.entry((terminator.state.host_id, terminator.spec.router)).or_default() += 1;
        }
    }
    let mut hosts = Vec::with_capacity(counts.len());
    for ((identity, router), terminators) in counts {
        let identity = tx.find::<Identity>(&Id::from_text(identity))?.map(|found| NamedRecord::new(&found, &found.spec.name));
        if let Some(router) = named_router(tx, &router)? {
            hosts.push(Host { identity, router, terminators });
        }
    }
    let name = |host: &Host| (host.identity.as_ref().map(|identity| identity.name.clone()), host.router.name.clone());
    hosts.sort_by_cached_key(name);
    Ok(hosts)
}

/// Whether a terminator can be reached: its router is connected, and so is the identity whose connection made it.
fn is_live(tx: &Read<'_>, terminator: &Record<Terminator>) -> bool {
    let is_router_connected = tx.router_info(&terminator.spec.router).is_some();
    is_router_connected && (!terminator.is_of_a_connection() || tx.is_connected(&terminator.state.host_id))
}

pub(super) fn named_router(tx: &Read<'_>, id: &str) -> Result<Option<NamedRecord>> {
    if let Some(found) = tx.find::<EdgeRouter>(&Id::from_text(id))? {
        return Ok(Some(NamedRecord::new(&found, &found.spec.name)));
    }
    Ok(tx.find::<TransitRouter>(&Id::from_text(id))?.map(|found| NamedRecord::new(&found, &found.spec.name)))
}

/// The hosts as text, such as `connected, hosted by bob`; `None` if there are none.
pub(crate) fn hosted_by(hosts: &[Host], count: usize, is_connected: bool) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for host in hosts {
        let name = match &host.identity {
            Some(identity) => identity.name.clone(),
            None => format!("a terminator on {}", host.router.name),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = if count > hosts.len() { " and more" } else { "" };
    let connected = if is_connected { "connected, " } else { "" };
    (!names.is_empty()).then(|| format!("{connected}hosted by {}{more}", names.join(", ")))
}

/// The obstacles to traffic, given the common edge routers and the hosts of the service.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn obstacles(tx: &Read<'_>, case: &Case<'_>, routers: &[CommonRouter], hosts: &[Host]) -> Result<Vec<Obstacle>> {
    let mut obstacles = Vec::new();
    // Without a common router, that is reported as an obstacle to the right.
    if !routers.is_empty() && !routers.iter().any(|router| router.is_online) {
        obstacles.push(not_connected(tx, case, routers)?);
    }
    if case.right == Right::Dial && hosts.is_empty() {
        obstacles.push(not_hosted(tx, case)?);
    }
    Ok(obstacles)
}

fn not_connected(tx: &Read<'_>, case: &Case<'_>, routers: &[CommonRouter]) -> Result<Obstacle> {
    let names = listed(routers.iter().map(|router| router.router.name.as_str()));
    let (identity, service) = (&case.identity.spec.name, &case.service.spec.name);
    let text = format!("no edge router that {identity} and {service} have in common is connected: {names}");
    let mut remedy = "start one of them".to_owned();
    let mut edits = Vec::new();
    for CommonRouter { router, is_disabled, .. } in routers.iter().take(MAX_LISTED) {
        if *is_disabled {
            write!(remedy, "; {} is disabled and cannot connect", router.name).ok();
            edits.push(SuggestedEdit {
                method: "PATCH",
                path: format!("/edge-routers/{}", router.id),
                body: json!({ "disabled": false }),
                text: format!("enable the edge router {}", router.name),
            });
        }
        let enrolled = tx.find(&Id::<EdgeRouter>::from_text(router.id.as_str()))?.is_some_and(|found| found.state.is_verified);
        if !enrolled {
            write!(remedy, "; {} has not enrolled yet", router.name).ok();
        }
    }
    Ok(Obstacle::new(ObstacleKind::RouterNotConnected, text, edits).with_remedy(remedy))
}

/// The obstacle if an identity dials and no host can be reached.
fn not_hosted(tx: &Read<'_>, case: &Case<'_>) -> Result<Obstacle> {
    let (id, name) = (case.service.id.as_str(), &case.service.spec.name);
    let mut terminators = tx.linked::<Terminator>("service", id)?;
    // Terminators of a lost connection on a connected router are deleted soon.
    terminators.retain(|terminator| tx.router_info(&terminator.spec.router).is_none());
    if !terminators.is_empty() {
        let text = format!("none of the routers that the terminators of {name} are on is connected");
        let routers: Vec<String> = terminators.iter().filter_map(|terminator| Some(terminator.spec.find_router(tx).ok()?.0)).collect();
        let remedy = format!("start one of these routers: {}", listed(routers.iter().map(String::as_str)));
        return Ok(Obstacle::new(ObstacleKind::TerminatorNotReachable, text, Vec::new()).with_remedy(remedy));
    }
    let hosts = case.access.ask(|engine| {
        let hosts = engine.identities(id, Right::Bind);
        hosts.in_order().take(MAX_LISTED + 1).map(|(_, id)| id.to_string()).collect::<Vec<_>>()
    });
    if hosts.is_empty() {
        let text = format!("{name} has no terminator, and no identity may bind it");
        let remedy = format!("let an identity host it with a service policy of type Bind and have it bind, or add a terminator for {name}");
        return Ok(Obstacle::new(ObstacleKind::NoTerminator, text, Vec::new()).with_remedy(remedy));
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
    Ok(Obstacle::new(ObstacleKind::NoHost, text, Vec::new()).with_remedy(remedy))
}

/// The first names, separated by commas.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
    let text = names.join(", ");
    if more > 0 { format!("{text} and more") } else { text }
}
