//! Links between routers: which routers they connect, and what they cost in a path.

use std::time::Duration;

use fabric::{control_channel::Control, network::LinkInfo};
use model::{
    clock::Timestamp,
    entity::Id,
    error::{Error, Result},
};
use query::{Type, Value};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::names::{Named, RecordNames};
use crate::{
    answer::{Data, NoData},
    api::common::in_memory_list::{self, Entry, Name},
    call::Call,
    extractor::Query,
    list_body::StreamedList,
    listing::Listing,
};

/// A link between two routers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LinkDetail")]
pub(crate) struct LinkDetail {
    id: String,
    /// The protocol, such as `tls`.
    protocol: String,
    /// The router that dialed it.
    source: Named,
    /// The router that accepted it.
    destination: Named,
    /// Whether both routers are connected to the controller, and the destination has confirmed it.
    /// Otherwise no new circuit uses it.
    is_usable: bool,
    /// When the controller heard of it.
    since: Timestamp,
    /// The latency in milliseconds that the source measured; absent before its first measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_latency_millis: Option<f64>,
    /// The latency in milliseconds that the destination measured; absent before its first
    /// measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_latency_millis: Option<f64>,
    /// The cost in a path.
    cost: u32,
    /// The bytes that the source has sent over it, as the router at either end reports once a
    /// minute; absent before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_sent_bytes: Option<u64>,
    /// The same for the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_sent_bytes: Option<u64>,
    /// The number of open circuits over it.
    circuits: u64,
}

fn millis(latency: Option<f64>) -> Value<'static> {
    latency.map_or(Value::Null, Value::Float)
}

impl Entry for LinkDetail {
    const NAMES: &'static [Name<Self>] = &[
        Name("id", Type::Text, |link| link.id.as_str().into()),
        Name("protocol", Type::Text, |link| link.protocol.as_str().into()),
        Name("source.id", Type::Text, |link| {
            link.source.id.as_str().into()
        }),
        Name("source.name", Type::Text, |link| {
            link.source.name.as_str().into()
        }),
        Name("destination.id", Type::Text, |link| {
            link.destination.id.as_str().into()
        }),
        Name("destination.name", Type::Text, |link| {
            link.destination.name.as_str().into()
        }),
        Name("isUsable", Type::Bool, |link| link.is_usable.into()),
        Name("since", Type::Date, |link| Value::Date(link.since.millis())),
        Name("sourceLatencyMillis", Type::Number, |link| {
            millis(link.source_latency_millis)
        }),
        Name("destinationLatencyMillis", Type::Number, |link| {
            millis(link.destination_latency_millis)
        }),
        Name("cost", Type::Number, |link| {
            Value::Integer(link.cost.into())
        }),
        Name("sourceSentBytes", Type::Number, |link| {
            link.source_sent_bytes
                .map_or(Value::Null, in_memory_list::number)
        }),
        Name("destinationSentBytes", Type::Number, |link| {
            link.destination_sent_bytes
                .map_or(Value::Null, in_memory_list::number)
        }),
        Name("circuits", Type::Number, |link| {
            in_memory_list::number(link.circuits)
        }),
    ];
    fn id(&self) -> &str {
        &self.id
    }
}

impl LinkDetail {
    fn of(info: LinkInfo, names: &RecordNames<'_>) -> Result<Self> {
        let millis =
            |latency: Option<Duration>| latency.map(|latency| latency.as_secs_f64() * 1000.0);
        let [source, destination] = info.measured.map(millis);
        let [source_sent_bytes, destination_sent_bytes] = info.sent_bytes;
        Ok(Self {
            id: info.id,
            protocol: info.protocol,
            source: names.router(info.source_id)?,
            destination: names.router(info.destination_id)?,
            is_usable: info.is_usable,
            since: info.since,
            source_latency_millis: source,
            destination_latency_millis: destination,
            cost: info.cost,
            source_sent_bytes,
            destination_sent_bytes,
            circuits: info.circuits as u64,
        })
    }
}

fn find(control: &Control, id: &str, tx: &Read<'_>) -> Result<Option<LinkDetail>> {
    control
        .link(id)
        .map(|link| LinkDetail::of(link, &RecordNames::of(tx)))
        .transpose()
}

/// GET /links
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<LinkDetail>> {
    let (control, same) = (
        call.state.network.control.clone(),
        call.state.network.control.clone(),
    );
    let each = move |tx: &Read<'_>, found: &mut dyn FnMut(LinkDetail)| {
        let names = RecordNames::of(tx);
        control
            .links()
            .into_iter()
            .try_for_each(|link| LinkDetail::of(link, &names).map(&mut *found))
    };
    in_memory_list::list(&call, listing, each, move |tx: &Read<'_>, id: &str| {
        find(&same, id, tx)
    })
    .await
}

/// GET /links/{id}
pub(crate) async fn detail(call: Call, id: Id<LinkDetail>) -> Result<Data<LinkDetail>> {
    let found = call
        .state
        .store
        .read(|tx| find(&call.state.network.control, id.as_str(), tx))?;
    found.map(Data).ok_or_else(|| unknown(&id))
}

/// DELETE /links/{id}
pub(crate) async fn close(call: Call, id: Id<LinkDetail>) -> Result<NoData> {
    if call.state.network.control.close_link(id.as_str()) {
        Ok(NoData)
    } else {
        Err(unknown(&id))
    }
}

fn unknown(id: &Id<LinkDetail>) -> Error {
    Error::NotFound {
        kind: "link",
        id: id.to_string(),
        field: None,
    }
}
