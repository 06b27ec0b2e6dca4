//! Services as their users see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    access::Subject,
    authentication::Caller,
    clock::Timestamp,
    entity::{Entity, FactsExt, Id, Record, Service, filterable, missing},
    error::Result,
    http::{
        answer::{Joined, Shown, Tagged},
        argument::{Query, entity_tag},
        call::Call,
        common::service::{ServiceDetail, Viewer},
        envelope::Pagination,
        verbs::{Listing, RoleFilter, of_ids, select},
    },
    store::{Read, Scope},
};

/// Which services.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceListing {
    #[serde(flatten)]
    listing: Listing,
    #[serde(flatten)]
    roles: RoleFilter,
    /// Types of settings to show, by id or name; `all` for every one.
    #[serde(default)]
    config_types: Vec<String>,
}

/// GET /services
pub async fn list(call: Call, Query(wanted): Query<ServiceListing>) -> Result<Joined<ServiceDetail>> {
    let (access, texts, caller) = (call.access.clone(), call.texts.clone(), call.caller()?.clone());
    let (at, evidence) = (texts.now(), call.evidence()?);
    call.store
        .scan(move |tx| {
            let types = if wanted.config_types.is_empty() { caller.config_types() } else { wanted.config_types };
            let viewer = Viewer::new(tx, &access, evidence, &caller.identity, &types)?;
            let by_roles = wanted.roles.ids(&access, Subject::Service)?;
            let fields = filterable::<Service>().collect();
            if !caller.is_admin() && by_roles.is_none() && wanted.listing.is_of_all() {
                let (_, window) = wanted.listing.query::<Service>()?;
                let (entries, total) = viewer.see_usable(window, &texts, at)?;
                return Ok(Joined::new(entries, Pagination::of(window, total), fields));
            }
            let usable = (!caller.is_admin()).then(|| viewer.usable());
            let ids = match (usable, by_roles) {
                (Some(usable), Some(ids)) => Some(ids.into_iter().filter(|id| usable.binary_search(id).is_ok()).collect()),
                (Some(ids), None) | (None, Some(ids)) => Some(ids),
                (None, None) => None,
            };
            let (services, pagination) = select::<Service>(tx, &wanted.listing, ids.as_deref().map_or(Scope::All, of_ids))?;
            Ok(Joined::new(viewer.see_all(&services)?, pagination, fields))
        })
        .await
}

/// A service that the caller may see.
///
/// # Errors
/// There is none, or the caller may neither dial nor bind it and is no administrator.
pub fn visible(call: &Call, caller: &Caller, tx: &Read<'_>, id: &Id<Service>) -> Result<Record<Service>> {
    let service = tx.get(id)?;
    let identity = caller.identity.id.as_str();
    let may = |right| call.access.ask(|engine| engine.may(identity, id.as_str(), right));
    let seen = caller.is_admin() || [crate::access::Right::Dial, crate::access::Right::Bind].into_iter().any(may);
    if seen { Ok(service) } else { Err(missing(Service::KIND, id)) }
}

/// GET /services/{id}
pub async fn detail(call: Call, id: Id<Service>) -> Result<Tagged<ServiceDetail>> {
    let caller = call.caller()?;
    call.store.read(|tx| {
        let service = visible(&call, caller, tx, &id)?;
        let types = caller.config_types();
        let data = Viewer::new(tx, &call.access, call.evidence()?, &caller.identity, &types)?.see(&service)?;
        Ok(Tagged { data, tag: entity_tag(&service)? })
    })
}

/// When something changed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ServiceUpdates")]
pub struct Updates {
    last_change_at: Timestamp,
}

/// GET /current-api-session/service-updates
pub async fn updates(call: Call) -> Result<Shown<Updates>> {
    let caller = call.caller()?;
    let since = caller.session.created_at.max(call.started);
    let identity = caller.identity.id.as_str();
    let otherwise = u64::try_from(since.millis()).unwrap_or_default();
    let at = call.access.ask(|engine| engine.last_change_at(identity, otherwise));
    Ok(Shown(Updates { last_change_at: Timestamp::from_millis(i64::try_from(at).unwrap_or(i64::MAX)) }))
}
