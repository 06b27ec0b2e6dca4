//! The rows of services in the client interface. Which services a list shows is in
//! `service_list.rs`.

use model::{
    clock::Timestamp,
    entity::{Entity, FilterNames, Id, Record, Service, TypedLookup, missing},
    error::Result,
};
use policy::authentication::Caller;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::Read;

use super::service_list::{self, ServiceListRequest};
use crate::{
    answer::{Data, Tagged},
    api::common::service::{ServiceDetail, ViewPlan, Viewer},
    call::Call,
    conditional::entity_tag,
    crud::RoleFilter,
    extractor::Query,
    list_body::StreamedList,
    listing::Listing,
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

/// The filterable names. `configs` filters by the id of a config. The data in `config` is not
/// filterable.
const FILTER_NAMES: FilterNames<Service> = FilterNames::only(&[
    "id",
    "createdAt",
    "updatedAt",
    "tags",
    "name",
    "terminatorStrategy",
    "roleAttributes",
    "configs",
]);

/// GET /services
pub(crate) async fn list(
    call: Call,
    Query(wanted): Query<ServiceListing>,
) -> Result<StreamedList<ServiceDetail>> {
    let ServiceListing {
        listing,
        roles,
        config_types,
    } = wanted;
    let types = if config_types.is_empty() {
        call.caller()?.config_types()
    } else {
        config_types
    };
    service_list::list(
        &call,
        ServiceListRequest {
            listing,
            roles,
            names: &FILTER_NAMES,
            types,
            as_identity: None,
            hides_usage: false,
        },
    )
    .await
}

/// A service that the caller may see.
///
/// # Errors
/// [`Error::NotFound`], also if the caller may neither dial nor bind it and is not an
/// administrator.
pub(crate) fn visible(
    call: &Call,
    caller: &Caller,
    tx: &Read<'_>,
    id: &Id<Service>,
) -> Result<Record<Service>> {
    let service = tx.get(id)?;
    let identity = caller.identity.id.as_str();
    let may = |right| {
        call.state
            .access
            .ask(|engine| engine.may(identity, id.as_str(), right))
    };
    let seen = caller.is_admin()
        || [policy::access::Right::Dial, policy::access::Right::Bind]
            .into_iter()
            .any(may);
    if seen {
        Ok(service)
    } else {
        Err(missing(Service::KIND, id))
    }
}

/// GET /services/{id}
pub(crate) async fn detail(call: Call, id: Id<Service>) -> Result<Tagged<ServiceDetail>> {
    let caller = call.caller()?;
    call.state.store.read(|tx| {
        let service = visible(&call, caller, tx, &id)?;
        let plan = ViewPlan::new(
            tx,
            &call.state.access,
            call.evidence()?,
            caller.identity.clone(),
            &caller.config_types(),
        )?;
        let data = Viewer::new(tx, &call.state.access, &plan).render(&service)?;
        Ok(Tagged {
            data,
            tag: entity_tag(&service)?,
        })
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
pub(crate) async fn updates(call: Call) -> Result<Data<Updates>> {
    let caller = call.caller()?;
    let since = caller.session.created_at.max(call.state.instance.started);
    let identity = caller.identity.id.as_str();
    let otherwise = u64::try_from(since.millis()).unwrap_or_default();
    let at = call
        .state
        .access
        .ask(|engine| engine.last_change_at(identity, otherwise));
    Ok(Data(Updates {
        last_change_at: Timestamp::from_millis(i64::try_from(at).unwrap_or(i64::MAX)),
    }))
}
