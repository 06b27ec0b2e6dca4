//! Services in the fabric interface, with their terminator strategies.

use model::{
    entity::{FilterNames, HalLinks, Id, Record, Service, TypedLookup},
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
    list_body::{StreamedList, listed_with},
    listing::Listing,
};

/// A service.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ServiceDetail")]
pub(crate) struct View {
    name: String,
    terminator_strategy: String,
}

/// The filterable names.
const FILTER_NAMES: FilterNames<Service> = FilterNames::only(&[
    "id",
    "createdAt",
    "updatedAt",
    "tags",
    "name",
    "terminatorStrategy",
]);

/// The links of a service.
pub(crate) fn links(id: &str) -> HalLinks {
    HalLinks::default()
        .with("self", format_args!("services/{id}"))
        .with("terminators", format_args!("services/{id}/terminators"))
}

fn render(record: &Record<Service>) -> Detail<View> {
    let Service {
        name,
        terminator_strategy,
        ..
    } = record.spec.clone();
    let mut seen = Detail::new(
        record,
        View {
            name,
            terminator_strategy,
        },
    );
    seen.links = links(record.id.as_str());
    seen
}

/// GET /services
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<View>>> {
    listed_with(
        &call,
        listing,
        &FILTER_NAMES,
        FILTER_NAMES.names().collect(),
        |_| Ok(Scope::All),
        |_, record| Ok(render(record)),
    )
    .await
}

/// GET /services/{id}
pub(crate) async fn detail(call: Call, id: Id<Service>) -> Result<Data<Detail<View>>> {
    call.state.store.read(|tx| Ok(Data(render(&tx.get(&id)?))))
}
