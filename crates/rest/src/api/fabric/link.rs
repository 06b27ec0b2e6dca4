//! The links between routers.

use std::time::Duration;

use fabric::{
    control_channel::Control,
    network::{LinkInfo, UNMEASURED},
};
use model::{
    entity::{EntityRef, HalLinks, Id, Lookup},
    error::{Error, Result},
};
use query::{Type, Value};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use crate::{
    answer::{Data, NoData},
    api::common::in_memory_list::{self, Entry, Name},
    call::Call,
    extractor::Query,
    list_body::StreamedList,
    listing::Listing,
};

/// A link between two routers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LinkDetail")]
pub(crate) struct FabricLink {
    id: String,
    /// The protocol, such as `tls`.
    protocol: String,
    /// The router that opened the link.
    source_router: EntityRef,
    /// The router that accepted the link.
    dest_router: EntityRef,
    /// The state, such as `Connected`.
    state: String,
    /// Whether an administrator excludes it from paths.
    down: bool,
    /// The cost that an administrator set.
    static_cost: i64,
    /// Latency from source to destination in nanoseconds, measured by the source.
    source_latency: i64,
    /// Latency from destination to source in nanoseconds.
    dest_latency: i64,
    /// The cost in a path, including latencies.
    cost: i64,
    /// How often it was established.
    iteration: i64,
}

impl Entry for FabricLink {
    const NAMES: &'static [Name<Self>] = &[
        Name("id", Type::Text, |link| link.id.as_str().into()),
        Name("protocol", Type::Text, |link| link.protocol.as_str().into()),
        Name("state", Type::Text, |link| link.state.as_str().into()),
        Name("down", Type::Bool, |link| link.down.into()),
        Name("staticCost", Type::Number, |link| {
            Value::Integer(link.static_cost)
        }),
        Name("cost", Type::Number, |link| Value::Integer(link.cost)),
    ];
    fn id(&self) -> &str {
        &self.id
    }
}

fn render(link: LinkInfo, lookup: &dyn Lookup) -> Result<FabricLink> {
    let nanos = |latency: Option<Duration>| {
        i64::try_from(latency.unwrap_or(UNMEASURED).as_nanos()).unwrap_or(i64::MAX)
    };
    let [source_latency, dest_latency] = link.measured.map(nanos);
    Ok(FabricLink {
        id: link.id,
        protocol: link.protocol,
        source_router: super::router::named(&link.source_id, lookup)?,
        dest_router: super::router::named(&link.destination_id, lookup)?,
        state: if link.is_usable {
            "Connected"
        } else {
            "Pending"
        }
        .into(),
        down: false,
        static_cost: link.static_cost.into(),
        source_latency,
        dest_latency,
        cost: link.cost.into(),
        iteration: link.iteration.into(),
    })
}

/// A reference to a link. Links have no names.
pub(crate) fn reference(id: &str) -> EntityRef {
    EntityRef {
        links: HalLinks::default().with("self", format_args!("links/{id}")),
        entity: "links",
        id: id.into(),
        name: id.into(),
    }
}

fn find(control: &Control, id: &str, lookup: &dyn Lookup) -> Result<Option<FabricLink>> {
    control
        .link(id)
        .map(|link| render(link, lookup))
        .transpose()
}

/// GET /links
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<FabricLink>> {
    let (control, same) = (
        call.state.network.control.clone(),
        call.state.network.control.clone(),
    );
    let each = move |tx: &Read<'_>, found: &mut dyn FnMut(FabricLink)| {
        control
            .links()
            .into_iter()
            .try_for_each(|link| render(link, tx).map(&mut *found))
    };
    in_memory_list::list(&call, listing, each, move |tx: &Read<'_>, id: &str| {
        find(&same, id, tx)
    })
    .await
}

/// GET /links/{id}
pub(crate) async fn detail(call: Call, id: Id<FabricLink>) -> Result<Data<FabricLink>> {
    let found = call
        .state
        .store
        .read(|tx| find(&call.state.network.control, id.as_str(), tx))?;
    found.map(Data).ok_or_else(|| Error::NotFound {
        kind: "link",
        id: id.into_text(),
        field: None,
    })
}

/// DELETE /links/{id}
pub(crate) async fn delete(call: Call, id: Id<FabricLink>) -> Result<NoData> {
    if call.state.network.control.close_link(id.as_str()) {
        Ok(NoData)
    } else {
        Err(Error::NotFound {
            kind: "link",
            id: id.into_text(),
            field: None,
        })
    }
}
