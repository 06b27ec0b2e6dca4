//! Service sessions: the right to dial or host one service, over routers that the identity and the
//! service share.

use std::sync::Arc;

use model::{
    entity::{
        Entity, EntityRef, FilterNames, Id, Identity, Lookup, Record, Service, ServicePolicy,
        Session, TypedLookup, missing,
    },
    error::Result,
};
use policy::change::Change;
use schemars::JsonSchema;
use serde::Serialize;
use store::{CommitNumber, Read, Scope};

use crate::cache::{json_cache::CachedJson, routers::SessionRouter};
use crate::{
    answer::{Data, NoData, Tagged},
    call::Call,
    conditional::entity_tag,
    envelope::Detail,
    extractor::{IfMatch, Query},
    list_body::{StreamedList, listed},
    listing::Listing,
    state::AppState,
};

/// The maximum number of routers listed in a session.
const ROUTERS: usize = 25;

/// A session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionDetail")]
pub(crate) struct View {
    #[serde(flatten)]
    of: <Session as Entity>::View,
    /// The routers to connect to.
    edge_routers: Vec<CachedJson<SessionRouter>>,
}

/// A session with the policies that grant it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionManagementDetail")]
pub(crate) struct FullView {
    #[serde(flatten)]
    of: View,
    service_policies: Vec<EntityRef>,
}

/// Shows sessions within one transaction.
pub(crate) struct SessionViewer<'a> {
    state: &'a AppState,
    tx: &'a Read<'a>,
    /// The commit number at a moment before the transaction.
    at: CommitNumber,
}

impl<'a> SessionViewer<'a> {
    /// A viewer for a transaction that began after `at`.
    fn new(state: &'a AppState, tx: &'a Read<'a>, at: CommitNumber) -> Self {
        Self { state, tx, at }
    }

    /// Runs `look` with a viewer in a new transaction.
    ///
    /// # Errors
    /// A record cannot be read; the errors of `look`.
    pub(crate) fn read<T>(
        state: &AppState,
        look: impl FnOnce(&SessionViewer<'_>) -> Result<T>,
    ) -> Result<T> {
        let at = state.caches.routers.now();
        state
            .store
            .read(|tx| look(&SessionViewer::new(state, tx, at)))
    }

    /// A session as shown.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn render(&self, record: &Record<Session>) -> Result<Detail<View>> {
        self.render_with_routers(
            record,
            &self.in_common(&record.spec.identity_id, &record.spec.service_id),
        )
    }

    /// Like [`SessionViewer::render`], with the common routers already known.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn render_with_routers(
        &self,
        record: &Record<Session>,
        routers: &[Arc<str>],
    ) -> Result<Detail<View>> {
        let edge_routers = self.state.caches.routers.find(routers, self.tx, self.at)?;
        Ok(Detail::new(
            record,
            View {
                of: Session::view(record, self.tx)?,
                edge_routers,
            },
        ))
    }

    /// The routers that a session offers an identity for a service, at most [`ROUTERS`], connected
    /// ones first.
    pub(crate) fn in_common(
        &self,
        identity: &Id<Identity>,
        service: &Id<Service>,
    ) -> Vec<Arc<str>> {
        let linked = self.tx.online().linked_to_built_in();
        self.state.access.ask(|engine| {
            let common =
                engine.session_edge_routers(identity.as_str(), service.as_str(), linked.as_ref());
            // The connection state is read once: it may change at any moment.
            let mut named: Vec<&Arc<str>> = common
                .ids()
                .filter(|id| self.tx.router_info(id).is_some())
                .collect();
            named.sort_unstable();
            named.truncate(ROUTERS);
            let others = common
                .in_order()
                .map(|(_, id)| id)
                .filter(|id| !named.contains(id));
            let others: Vec<&Arc<str>> = others.take(ROUTERS - named.len()).collect();
            named.into_iter().chain(others).cloned().collect()
        })
    }

    fn render_full(&self, record: &Record<Session>) -> Result<Detail<FullView>> {
        let mut service_policies = Vec::new();
        for id in &record.spec.service_policies {
            if let Some(policy) = self.tx.find::<ServicePolicy>(id)? {
                service_policies.push(EntityRef::of(&policy, &policy.spec.name));
            }
        }
        let of = self.render(record)?.view;
        Ok(Detail::new(
            record,
            FullView {
                of,
                service_policies,
            },
        ))
    }
}

/// The identity whose sessions a caller may see; `None` for an administrator, who may see all.
fn scope(call: &Call) -> Result<Option<String>> {
    let caller = call.caller()?;
    Ok(if caller.is_admin() {
        None
    } else {
        Some(caller.identity.id.to_string())
    })
}

/// GET /sessions
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<FullView>>> {
    let (state, own) = (call.state.clone(), scope(&call)?);
    let names = FilterNames::of_whole(own.is_none());
    let wanted = move |tx: &Read<'_>| {
        Ok(own
            .map(|identity| Session::ids_of(&identity, tx))
            .transpose()?
            .map_or(Scope::All, Scope::Ids))
    };
    // The number must be taken before the transaction: a later one would keep outdated cache
    // entries.
    let at = call.state.caches.routers.now();
    listed(&call, listing, names, wanted, move |tx, record| {
        SessionViewer::new(&state, tx, at).render_full(record)
    })
    .await
}

/// A session that the caller may see.
fn visible(call: &Call, tx: &Read<'_>, id: &Id<Session>) -> Result<Record<Session>> {
    let record = tx.get(id)?;
    match scope(call)? {
        Some(own) if own != record.spec.identity_id.as_str() => Err(missing(Session::KIND, id)),
        _ => Ok(record),
    }
}

/// GET /sessions/{id}
pub(crate) async fn detail(call: Call, id: Id<Session>) -> Result<Tagged<Detail<FullView>>> {
    SessionViewer::read(&call.state, |sight| {
        let session = visible(&call, sight.tx, &id)?;
        Ok(Tagged {
            data: sight.render_full(&session)?,
            tag: entity_tag(&session)?,
        })
    })
}

/// The path of a session's traffic.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionRoutePathDetail")]
pub(crate) struct RoutePath {
    /// Router ids from one end to the other; empty without traffic.
    route_path: Vec<String>,
}

/// GET /sessions/{id}/route-path: the routers of one of its circuits.
pub(crate) async fn route_path(call: Call, id: Id<Session>) -> Result<Data<RoutePath>> {
    call.state
        .store
        .read(|tx| visible(&call, tx, &id).map(|_| ()))?;
    let route_path = call
        .state
        .network
        .control
        .path_of_session(id.as_str())
        .unwrap_or_default();
    Ok(Data(RoutePath { route_path }))
}

/// DELETE /sessions/{id}
pub(crate) async fn delete(call: Call, id: Id<Session>, known: IfMatch) -> Result<NoData> {
    call.state
        .store
        .read(|tx| visible(&call, tx, &id).map(|_| ()))?;
    let delete = move |change: &Change<'_, '_>| {
        let session = change.get(&id)?;
        known.check(&session)?;
        change.delete_record(session)
    };
    call.changes.run(delete).await.map(|()| NoData)
}
