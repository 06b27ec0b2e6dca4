//! Service sessions: permission to dial or host one service, over routers that caller and service have in common.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    access::Access,
    entity::{EdgeRouter, Entity, EntityRef, Facts, FactsExt, Id, Record, ServicePolicy, Session, edge_router},
    error::{Error, Result},
    http::{
        answer::{Done, Page, Shown},
        argument::Query,
        call::Call,
        envelope::Detail,
        verbs::{Listing, page},
    },
    store::{Read, Scope},
};

/// At most this many routers are named in a session.
const ROUTERS: usize = 25;

/// A session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionDetail")]
pub struct View {
    #[serde(flatten)]
    of: <Session as Entity>::View,
    /// The routers to go over.
    edge_routers: Vec<SessionRouter>,
}

/// A session with the policies that allowed it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionManagementDetail")]
pub struct FullView {
    #[serde(flatten)]
    of: View,
    service_policies: Vec<EntityRef>,
}

/// A router as a session names it.
#[derive(Serialize, JsonSchema)]
pub struct SessionRouter {
    #[serde(flatten)]
    common: edge_router::Common,
    /// The same as `supportedProtocols`; older clients read it.
    urls: BTreeMap<String, String>,
}

/// How a session looks.
///
/// # Errors
/// A record cannot be read.
pub fn see(tx: &Read<'_>, access: &Access, record: &Record<Session>) -> Result<Detail<View>> {
    see_over(tx, record, in_common(access, record.spec.identity_id.as_str(), record.spec.service_id.as_str()))
}

/// The same, with these routers in common.
///
/// # Errors
/// A record cannot be read.
pub fn see_over(tx: &Read<'_>, record: &Record<Session>, routers: Vec<Id<EdgeRouter>>) -> Result<Detail<View>> {
    let view = View { of: Session::view(record, tx)?, edge_routers: named(tx, routers)? };
    Ok(Detail::new(record, view))
}

/// The routers over which an identity reaches a service.
pub fn in_common(access: &Access, identity: &str, service: &str) -> Vec<Id<EdgeRouter>> {
    access.ask(|engine| engine.common_edge_routers(identity, service).in_order().map(|(_, id)| Id::from_text(id.to_string())).collect())
}

fn see_full(tx: &Read<'_>, access: &Access, record: &Record<Session>) -> Result<Detail<FullView>> {
    let mut service_policies = Vec::new();
    for id in &record.spec.service_policies {
        if let Some(policy) = tx.find::<ServicePolicy>(id)? {
            service_policies.push(EntityRef::of(&policy, &policy.spec.name));
        }
    }
    let of = see(tx, access, record)?.view;
    Ok(Detail::new(record, FullView { of, service_policies }))
}

/// As many of these as a session names, connected ones first.
fn named(tx: &Read<'_>, routers: Vec<Id<EdgeRouter>>) -> Result<Vec<SessionRouter>> {
    // There may be hundreds, of which the records are not read.
    let (online, offline): (Vec<_>, Vec<_>) = routers.into_iter().partition(|id| tx.link(id.as_str()).is_some());
    let mut found = Vec::with_capacity(ROUTERS);
    for id in online.into_iter().chain(offline) {
        if found.len() == ROUTERS {
            break;
        }
        let Some(router) = tx.find(&id)? else { continue };
        let common = edge_router::Common::of(&router, tx);
        found.push(SessionRouter { urls: common.supported_protocols.clone(), common });
    }
    Ok(found)
}

/// What a caller may see: their own sessions, or everybody's for an administrator.
fn scope(call: &Call) -> Result<Option<String>> {
    let caller = call.caller()?;
    Ok(if caller.is_admin() { None } else { Some(caller.identity.id.to_string()) })
}

/// GET /sessions
pub async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Page<Detail<FullView>>> {
    let (access, own) = (call.access.clone(), scope(&call)?);
    call.store
        .scan(move |tx| {
            let scope = own.as_deref().map_or(Scope::All, |id| Scope::Having { field: "identity", value: id });
            page::<Session, _>(tx, &listing, scope, |record| see_full(tx, &access, record))
        })
        .await
}

/// A session that the caller may see.
fn visible(call: &Call, tx: &Read<'_>, id: &Id<Session>) -> Result<Record<Session>> {
    let record = tx.get(id)?;
    match scope(call)? {
        Some(own) if own != record.spec.identity_id.as_str() => {
            Err(Error::NotFound { kind: Session::KIND.name, id: id.to_string(), field: None })
        }
        _ => Ok(record),
    }
}

/// GET /sessions/{id}
pub async fn detail(call: Call, id: Id<Session>) -> Result<Shown<Detail<FullView>>> {
    call.store.read(|tx| see_full(tx, &call.access, &visible(&call, tx, &id)?)).map(Shown)
}

/// Over which routers a session's traffic goes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionRoutePathDetail")]
pub struct RoutePath {
    /// Ids of routers from one end to the other; empty while there is no traffic.
    route_path: Vec<String>,
}

/// GET /sessions/{id}/route-path; no router connects to this controller yet, so that no session has traffic.
pub async fn route_path(call: Call, id: Id<Session>) -> Result<Shown<RoutePath>> {
    call.store.read(|tx| visible(&call, tx, &id).map(|_| Shown(RoutePath { route_path: Vec::new() })))
}

/// DELETE /sessions/{id}
pub async fn delete(call: Call, id: Id<Session>) -> Result<Done> {
    call.store.read(|tx| visible(&call, tx, &id).map(|_| ()))?;
    call.changes.run(move |change| change.delete(&id)).await.map(|()| Done)
}
