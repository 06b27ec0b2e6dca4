//! Terminators in the fabric interface, with their hosts.

use model::{
    entity::{
        Entity, EntityRef, FilterNames, HalLinks, Id, Lookup, Precedence, Record, Service,
        Terminator, TransitRouter, TypedLookup,
    },
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Scope;

use crate::{
    answer::Data,
    call::Call,
    envelope::Detail,
    extractor::Query,
    list_body::{self, StreamedList},
    listing::Listing,
};

/// A terminator.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TerminatorDetail")]
pub(crate) struct View {
    service_id: Id<Service>,
    service: EntityRef,
    router_id: String,
    router: EntityRef,
    binding: String,
    address: String,
    /// The instance id, by which one of several hosts can be dialed; blank for none.
    instance_id: String,
    cost: u16,
    precedence: Precedence,
    /// The cost that load and failures add at present.
    dynamic_cost: u16,
    /// The session or identity that created it; blank if an administrator did.
    host_id: String,
}

fn render(record: &Record<Terminator>, lookup: &dyn Lookup) -> Result<Detail<View>> {
    let Terminator {
        service,
        router,
        binding,
        address,
        identity,
        cost,
        precedence,
        ..
    } = record.spec.clone();
    let service_name = lookup.get(&service)?.spec.name;
    let mut of_service = EntityRef::new(Service::KIND, service.as_str(), &service_name);
    of_service.links = super::service::links(service.as_str());
    let view = View {
        service: of_service,
        service_id: service,
        router: super::router::named(&router, lookup)?,
        router_id: router,
        binding,
        address,
        instance_id: identity,
        cost,
        precedence,
        dynamic_cost: lookup.dynamic_cost(record.id.as_str()),
        host_id: record.state.host_id.clone(),
    };
    let mut seen = Detail::new(record, view);
    seen.links = HalLinks::default().with(
        "self",
        format_args!("{}/{}", Terminator::KIND.path, record.id),
    );
    Ok(seen)
}

async fn listed(call: Call, listing: Listing, wanted: Scope) -> Result<StreamedList<Detail<View>>> {
    list_body::listed(
        &call,
        listing,
        FilterNames::<Terminator>::ALL,
        |_| Ok(wanted),
        |tx, record| render(record, tx),
    )
    .await
}

/// GET /terminators
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<View>>> {
    listed(call, listing, Scope::All).await
}

/// GET /services/{id}/terminators; empty for an unknown service.
pub(crate) async fn of_service(
    call: Call,
    id: Id<Service>,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<View>>> {
    listed(
        call,
        listing,
        Scope::Having {
            field: "service",
            value: id.into_text(),
        },
    )
    .await
}

/// GET /routers/{id}/terminators; empty for an unknown router.
pub(crate) async fn of_router(
    call: Call,
    id: Id<TransitRouter>,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<View>>> {
    listed(
        call,
        listing,
        Scope::Having {
            field: "router",
            value: id.into_text(),
        },
    )
    .await
}

/// GET /terminators/{id}
pub(crate) async fn detail(call: Call, id: Id<Terminator>) -> Result<Data<Detail<View>>> {
    call.state
        .store
        .read(|tx| render(&tx.get(&id)?, tx).map(Data))
}
