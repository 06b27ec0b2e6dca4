//! Where services are hosted, as their users see it.

use schemars::JsonSchema;
use serde::Serialize;

use super::service::visible;
use crate::{
    entity::{EntityRef, FactsExt, Id, Record, Service, Terminator, Words},
    error::Result,
    http::{
        call::Call,
        envelope::Detail,
        extractor::Query,
        list_body::{Joined, Wanted, listed},
        listing::Listing,
    },
    store::Read,
};

/// A terminator as users of its service see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TerminatorClientDetail")]
pub struct View {
    /// The name of the instance behind it, which a caller may ask for.
    identity: String,
    router_id: String,
    service: EntityRef,
    service_id: Id<Service>,
}

/// What is shown of it. Clients know the list in the order of addresses too, which are not.
const WORDS: Words<Terminator> =
    Words::only(&["id", "createdAt", "updatedAt", "tags", "instanceId", "router", "service", "service.name"]).ordered_by(&["address"]);

fn see(tx: &Read<'_>, record: &Record<Terminator>) -> Result<Detail<View>> {
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
pub async fn of_service(call: Call, id: Id<Service>, Query(listing): Query<Listing>) -> Result<Joined<Detail<View>>> {
    let caller = call.caller()?;
    call.store.read(|tx| visible(&call, caller, tx, &id).map(|_| ()))?;
    let wanted = Wanted::Having { field: "service", value: id.into_text() };
    listed(&call, listing, &WORDS, |_| Ok(wanted), see).await
}
