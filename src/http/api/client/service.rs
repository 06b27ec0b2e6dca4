//! Services as shown to their users.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    access::{Access, Subject},
    authentication::Caller,
    clock::Timestamp,
    entity::{Entity, FactsExt, Id, Record, Service, Words, filterable, missing},
    error::Result,
    http::{
        answer::{Shown, Tagged},
        api::common::service::{ServiceDetail, Viewer},
        call::Call,
        crud::RoleFilter,
        envelope::Pagination,
        extractor::{Query, entity_tag},
        list_body::{Joined, found, joined},
        list_part::Part,
        listing::Listing,
    },
    posture::Evidence,
    store::{Read, Scope},
};

/// The parameters of a list of services.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceListing {
    #[serde(flatten)]
    listing: Listing,
    #[serde(flatten)]
    roles: RoleFilter,
    /// The config types to show, by id or name; `all` for every type.
    #[serde(default)]
    config_types: Vec<String>,
}

/// The filterable names. Configs are filtered by id; the data in `config` cannot be filtered.
const WORDS: Words<Service> =
    Words::only(&["id", "createdAt", "updatedAt", "tags", "name", "terminatorStrategy", "roleAttributes", "configs"]);

/// GET /services
pub(crate) async fn list(call: Call, Query(wanted): Query<ServiceListing>) -> Result<Joined<ServiceDetail>> {
    let (access, texts, caller, evidence) = (call.access.clone(), call.texts.clone(), call.caller()?.clone(), call.evidence()?);
    let ServiceListing { listing, roles, config_types } = wanted;
    let types = if config_types.is_empty() { caller.config_types() } else { config_types };
    let viewers = Arc::new(Viewers { access, caller, evidence, types });
    let writers = viewers.clone();
    let find = move |tx: &Read<'_>| {
        let Viewers { access, caller, .. } = &*viewers;
        let by_roles = roles.ids(access, Subject::Service)?;
        let viewer = viewers.viewer(tx)?;
        if !caller.is_admin() && by_roles.is_none() && listing.is_of_all() {
            let (_, window) = listing.query(&WORDS)?;
            let (ids, total) = viewer.some_usable(window);
            return Ok((ids, Pagination::of(window, total)));
        }
        let usable = (!caller.is_admin()).then(|| viewer.usable());
        let ids = match (usable, by_roles) {
            (Some(usable), Some(ids)) => Some(ids.into_iter().filter(|id| usable.binary_search(id).is_ok()).collect()),
            (some, others) => some.or(others),
        };
        found(tx, &listing, &WORDS, ids.map_or(Scope::All, Scope::Ids))
    };
    let write = move |tx: &Read<'_>, at, part: &mut Part<'_>| writers.viewer(tx)?.write(&texts, at, part);
    joined(&call, false, filterable::<Service>().collect(), find, write).await
}

/// The caller as a viewer of services over several transactions.
struct Viewers {
    access: Access,
    caller: Arc<Caller>,
    evidence: Evidence,
    types: Vec<String>,
}

impl Viewers {
    fn viewer<'v>(&'v self, tx: &'v Read<'v>) -> Result<Viewer<'v>> {
        Viewer::new(tx, &self.access, self.evidence.clone(), &self.caller.identity, &self.types)
    }
}

/// A service that the caller may see.
///
/// # Errors
/// [`Error::NotFound`], also if the caller may neither dial nor bind it and is not an administrator.
pub(crate) fn visible(call: &Call, caller: &Caller, tx: &Read<'_>, id: &Id<Service>) -> Result<Record<Service>> {
    let service = tx.get(id)?;
    let identity = caller.identity.id.as_str();
    let may = |right| call.access.ask(|engine| engine.may(identity, id.as_str(), right));
    let seen = caller.is_admin() || [crate::access::Right::Dial, crate::access::Right::Bind].into_iter().any(may);
    if seen { Ok(service) } else { Err(missing(Service::KIND, id)) }
}

/// GET /services/{id}
pub(crate) async fn detail(call: Call, id: Id<Service>) -> Result<Tagged<ServiceDetail>> {
    let caller = call.caller()?;
    call.store.read(|tx| {
        let service = visible(&call, caller, tx, &id)?;
        let types = caller.config_types();
        let data = Viewer::new(tx, &call.access, call.evidence()?, &caller.identity, &types)?.see(&service)?;
        Ok(Tagged { data, tag: entity_tag(&service)? })
    })
}

/// The time of the last change.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ServiceUpdates")]
pub(crate) struct Updates {
    last_change_at: Timestamp,
}

/// GET /current-api-session/service-updates
pub(crate) async fn updates(call: Call) -> Result<Shown<Updates>> {
    let caller = call.caller()?;
    let since = caller.session.created_at.max(call.started);
    let identity = caller.identity.id.as_str();
    let otherwise = u64::try_from(since.millis()).unwrap_or_default();
    let at = call.access.ask(|engine| engine.last_change_at(identity, otherwise));
    Ok(Shown(Updates { last_change_at: Timestamp::from_millis(i64::try_from(at).unwrap_or(i64::MAX)) }))
}
