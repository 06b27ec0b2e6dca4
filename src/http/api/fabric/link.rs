//! The links between routers.

use schemars::JsonSchema;
use serde::Serialize;

use super::in_memory_list::{self, Entry, Name};
use crate::{
    entity::{EntityRef, Facts, Id},
    error::{Error, Result},
    http::{
        answer::{Page, Shown},
        call::Call,
        extractor::Query,
        listing::Listing,
    },
    network::LinkInfo,
    query::{Type, Value},
};

/// A link between two routers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LinkDetail")]
pub struct Link {
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

impl Entry for Link {
    const NAMES: &'static [Name<Self>] = &[
        Name("id", Type::Text, |link| link.id.as_str().into()),
        Name("protocol", Type::Text, |link| link.protocol.as_str().into()),
        Name("state", Type::Text, |link| link.state.as_str().into()),
        Name("down", Type::Bool, |link| link.down.into()),
        Name("staticCost", Type::Number, |link| Value::Integer(link.static_cost)),
        Name("cost", Type::Number, |link| Value::Integer(link.cost)),
    ];
    fn id(&self) -> &str {
        &self.id
    }
}

fn see(link: LinkInfo, facts: &dyn Facts) -> Result<Link> {
    let latency = |latency: std::time::Duration| i64::try_from(latency.as_nanos()).unwrap_or(i64::MAX);
    Ok(Link {
        id: link.id,
        protocol: link.protocol,
        source_router: super::router::named(&link.source_id, facts)?,
        dest_router: super::router::named(&link.destination_id, facts)?,
        state: link.state.into(),
        down: link.is_down,
        static_cost: link.static_cost.into(),
        source_latency: latency(link.source_latency),
        dest_latency: latency(link.destination_latency),
        cost: link.cost.into(),
        iteration: link.iteration.into(),
    })
}

fn links(call: &Call) -> Result<Vec<Link>> {
    let links = call.router.links();
    call.store.read(|tx| links.into_iter().map(|link| see(link, tx)).collect())
}

/// GET /links
pub async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Page<Link>> {
    in_memory_list::page(links(&call)?, &listing)
}

/// GET /links/{id}
pub async fn detail(call: Call, id: Id<Link>) -> Result<Shown<Link>> {
    let found = links(&call)?.into_iter().find(|link| link.id == id.as_str());
    found.map(Shown).ok_or_else(|| Error::NotFound { kind: "link", id: id.into_text(), field: None })
}
