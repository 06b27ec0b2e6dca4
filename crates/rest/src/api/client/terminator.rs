//! Terminators as shown to users of their service.

use model::{
    entity::{EntityRef, FilterNames, Id, Record, Service, Terminator, TypedLookup},
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Read, Scope};

use super::service::visible;
use crate::{
    call::Call,
    envelope::Detail,
    extractor::Query,
    list_body::{StreamedList, listed},
    listing::Listing,
};

/// A terminator as shown to users of its service.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TerminatorClientDetail")]
pub(crate) struct View {
    /// The instance id of the host, which a caller may ask for.
    identity: String,
    router_id: String,
    service: EntityRef,
    service_id: Id<Service>,
}

/// The filterable names. Clients also sort by address, which is not shown.
const FILTER_NAMES: FilterNames<Terminator> = FilterNames::only(&[
    "id",
    "createdAt",
    "updatedAt",
    "tags",
    "instanceId",
    "router",
    "service",
    "service.name",
])
.ordered_by(&["address"]);

fn render(tx: &Read<'_>, record: &Record<Terminator>) -> Result<Detail<View>> {
    let service = tx.get(&record.spec.service)?;
    let view = View {
        identity: record.spec.identity.clone(),
        router_id: record.spec.router.clone(),
        service: EntityRef::of(&service, &service.spec.name),
        service_id: service.id,
    };
    Ok(Detail::new(record, view))
}

/// GET /services/{id}/terminators
pub(crate) async fn of_service(
    call: Call,
    id: Id<Service>,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<View>>> {
    let caller = call.caller()?;
    call.state
        .store
        .read(|tx| visible(&call, caller, tx, &id).map(|_| ()))?;
    let wanted = Scope::Having {
        field: "service",
        value: id.into_text(),
    };
    listed(&call, listing, &FILTER_NAMES, |_| Ok(wanted), render).await
}
