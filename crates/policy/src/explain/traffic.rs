//! The current hosts of a service, and what prevents traffic although policies allow it: routers
//! that are not connected, and services without a host.
//!
//! Not here: rights (`policies.rs`, `routers.rs`). Obstacles here are removed by starting a
//! program; a request helps only where a record is missing or disabled. Invariant: none of them
//! prevents POST /sessions.

use std::{collections::BTreeMap, fmt::Write as _};

use model::{
    entity::{EdgeRouter, Id, Identity, Lookup, Terminator, TransitRouter, TypedLookup},
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use store::Read;

use super::{
    case::{Case, MAX_LISTED, NamedRecord},
    host_failures::HostFailures,
    obstacle::{Obstacle, ObstacleKind, SuggestedEdit},
    routers::CommonRouter,
};
use crate::{
    access::Right,
    hosting::{self, HostKey, LiveHost, Standing},
};

/// A host of a service and where it can be reached.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedHost")]
pub(crate) struct Host {
    /// The identity that hosts it. Absent for terminators that an administrator made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<NamedRecord>,
    /// The router of its terminators.
    pub(crate) router: NamedRecord,
    /// The number of its terminators on this router.
    pub(crate) terminators: usize,
    /// The dials of this host that failed since the last one that succeeded; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failures: Option<HostFailures>,
}

/// The hosts of a service with a terminator on a connected router, sorted by identity, then router.
/// Terminators made by a connection count only while their identity is connected. Terminators that
/// an administrator made on one router are one host.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn hosts(tx: &Read<'_>, case: &Case<'_>) -> Result<Vec<Host>> {
    let mut live = BTreeMap::<(Option<String>, String), (usize, Vec<HostKey>)>::new();
    for LiveHost {
        host,
        router,
        terminators,
    } in hosting::live_hosts(tx, case.service.id.as_str())?
    {
        let entry = live
            .entry((host.identity().map(str::to_owned), router))
            .or_default();
        entry.0 += terminators;
        entry.1.push(host);
    }
    let mut hosts = Vec::with_capacity(live.len());
    for ((identity, router), (terminators, keys)) in live {
        let identity = identity
            .map(Id::<Identity>::from_text)
            .map(|id| tx.find(&id))
            .transpose()?
            .flatten();
        let identity = identity.map(|found| NamedRecord::new(&found, &found.spec.name));
        if let Some(router) = named_router(tx, &router)? {
            hosts.push(Host {
                identity,
                router,
                terminators,
                failures: HostFailures::of(case, &keys),
            });
        }
    }
    let name = |host: &Host| {
        (
            host.identity.as_ref().map(|identity| identity.name.clone()),
            host.router.name.clone(),
        )
    };
    hosts.sort_by_cached_key(name);
    Ok(hosts)
}

pub(super) fn named_router(tx: &Read<'_>, id: &str) -> Result<Option<NamedRecord>> {
    if let Some(found) = tx.find::<EdgeRouter>(&Id::from_text(id))? {
        return Ok(Some(NamedRecord::new(&found, &found.spec.name)));
    }
    Ok(tx
        .find::<TransitRouter>(&Id::from_text(id))?
        .map(|found| NamedRecord::new(&found, &found.spec.name)))
}

impl Host {
    /// The name of the identity, or where the terminator is.
    pub(super) fn name(&self) -> String {
        match &self.identity {
            Some(identity) => identity.name.clone(),
            None => format!("a terminator on {}", self.router.name),
        }
    }
}

/// The hosts as text, such as `connected, hosted by bob`; `None` if there are none.
pub(crate) fn hosted_by(hosts: &[Host], count: usize, is_connected: bool) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for host in hosts {
        let name = host.name();
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
pub(crate) fn obstacles(
    tx: &Read<'_>,
    case: &Case<'_>,
    routers: &[CommonRouter],
    hosts: &[Host],
) -> Result<Vec<Obstacle>> {
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
    let text = format!(
        "no edge router that {identity} and {service} have in common is connected: {names}"
    );
    let mut remedy = "start one of them".to_owned();
    let mut edits = Vec::new();
    for CommonRouter {
        router,
        is_disabled,
        ..
    } in routers.iter().take(MAX_LISTED)
    {
        if *is_disabled {
            write!(remedy, "; {} is disabled and cannot connect", router.name).ok();
            edits.push(SuggestedEdit {
                method: "PATCH",
                path: format!("/edge-routers/{}", router.id),
                body: json!({ "disabled": false }),
                text: format!("enable the edge router {}", router.name),
            });
        }
        let enrolled = tx
            .find(&Id::<EdgeRouter>::from_text(router.id.as_str()))?
            .is_some_and(|found| found.state.is_verified);
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
        let text = format!(
            "none of the routers that the terminators of {name} are on is connected{}",
            absence(tx, case)?
        );
        let routers: Vec<String> = terminators
            .iter()
            .filter_map(|terminator| Some(terminator.spec.find_router(tx).ok()?.0))
            .collect();
        let remedy = format!(
            "start one of these routers: {}",
            listed(routers.iter().map(String::as_str))
        );
        return Ok(
            Obstacle::new(ObstacleKind::TerminatorNotReachable, text, Vec::new())
                .with_remedy(remedy),
        );
    }
    let hosts = case.access.ask(|engine| {
        let hosts = engine.identities(id, Right::Bind);
        hosts
            .in_order()
            .take(MAX_LISTED + 1)
            .map(|(_, id)| id.to_string())
            .collect::<Vec<_>>()
    });
    if hosts.is_empty() {
        let text = format!("{name} has no terminator, and no identity may bind it");
        let remedy = format!(
            "let an identity host it with a service policy of type Bind and have it bind, or add a terminator for {name}"
        );
        return Ok(Obstacle::new(ObstacleKind::NoTerminator, text, Vec::new()).with_remedy(remedy));
    }
    let mut names = Vec::with_capacity(hosts.len());
    for host in &hosts {
        if let Some(found) = tx.find(&Id::<Identity>::from_text(host.as_str()))? {
            let state = if tx.is_connected(host) {
                " (connected, but does not bind it)"
            } else {
                " (not connected)"
            };
            names.push(format!("{}{state}", found.spec.name));
        }
    }
    let text = format!("no host binds {name} now{}", absence(tx, case)?);
    let remedy = format!(
        "start the hosting program of one of {}",
        listed(names.iter().map(String::as_str))
    );
    Ok(Obstacle::new(ObstacleKind::NoHost, text, Vec::new()).with_remedy(remedy))
}

/// Since when nobody hosts the service, and who did last, as the end of a sentence; empty if that
/// is not known.
fn absence(tx: &Read<'_>, case: &Case<'_>) -> Result<String> {
    let Some(hosting) = case.hosting else {
        return Ok(String::new());
    };
    let standing = hosting.standing(&case.service);
    let Some(text) = hosting.absence_text(&standing, "it") else {
        return Ok(String::new());
    };
    let last = match &standing {
        Standing::Unhosted(_, Some(last)) => match last.identity() {
            Some(identity) => tx
                .find(&Id::<Identity>::from_text(identity))?
                .map(|identity| identity.spec.name),
            None => None,
        },
        _ => None,
    };
    Ok(last.map_or_else(
        || format!(": {text}"),
        |last| format!(": {text}, the last host was {last}"),
    ))
}

/// The first names, separated by commas.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
    let text = names.join(", ");
    if more > 0 {
        format!("{text} and more")
    } else {
        text
    }
}
