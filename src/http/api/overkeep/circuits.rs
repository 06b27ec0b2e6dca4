//! Circuits through the built-in router: who dialed which service, who hosts it, and the traffic in each direction.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    live::{self, ColumnName, Live, number},
    names::{Named, Names},
};
use crate::{
    clock::Timestamp,
    entity::Id,
    error::{Error, Result},
    http::{
        answer::{Done, Page, Shown},
        call::Call,
        extractor::Query,
        listing::Listing,
    },
    network::{CircuitInfo, EndInfo},
    query::{Type, Value},
};

/// A circuit from a client to a host of a service, through the built-in router.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CircuitDetail")]
pub struct Circuit {
    id: String,
    service: Named,
    /// The id of the host's terminator.
    terminator_id: String,
    /// When both ends were connected.
    since: Timestamp,
    /// The end that dialed.
    client: End,
    /// The end that hosts the service.
    host: End,
}

/// One end of a circuit.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CircuitEnd")]
pub struct End {
    identity: Named,
    api_session_id: String,
    /// The id of the session with which it dialed or hosts.
    session_id: String,
    /// The id of its channel.
    channel_id: String,
    /// The connection id on its channel.
    connection: u32,
    /// Data bytes received from this end.
    sent_bytes: u64,
    /// Data bytes received per second, over the last 10 seconds.
    sent_bytes_per_second: u64,
}

const WORDS: &[ColumnName<Circuit>] = &[
    ("id", Type::Text, |c| c.id.as_str().into()),
    ("service.id", Type::Text, |c| c.service.id.as_str().into()),
    ("service.name", Type::Text, |c| c.service.name.as_str().into()),
    ("terminatorId", Type::Text, |c| c.terminator_id.as_str().into()),
    ("since", Type::Date, |c| Value::Date(c.since.millis())),
    ("client.id", Type::Text, |c| c.client.identity.id.as_str().into()),
    ("client.name", Type::Text, |c| c.client.identity.name.as_str().into()),
    ("client.channelId", Type::Text, |c| c.client.channel_id.as_str().into()),
    ("client.sentBytes", Type::Number, |c| number(c.client.sent_bytes)),
    ("client.sentBytesPerSecond", Type::Number, |c| number(c.client.sent_bytes_per_second)),
    ("host.id", Type::Text, |c| c.host.identity.id.as_str().into()),
    ("host.name", Type::Text, |c| c.host.identity.name.as_str().into()),
    ("host.channelId", Type::Text, |c| c.host.channel_id.as_str().into()),
    ("host.sentBytes", Type::Number, |c| number(c.host.sent_bytes)),
    ("host.sentBytesPerSecond", Type::Number, |c| number(c.host.sent_bytes_per_second)),
];

impl Live for Circuit {
    const WORDS: &'static [ColumnName<Self>] = WORDS;
}

impl Circuit {
    fn of(info: CircuitInfo, names: &Names<'_>) -> Result<Self> {
        Ok(Self {
            id: info.id,
            service: names.service(info.service_id)?,
            terminator_id: info.terminator_id,
            since: info.since,
            client: End::of(info.client, names)?,
            host: End::of(info.host, names)?,
        })
    }
}

impl End {
    fn of(info: EndInfo, names: &Names<'_>) -> Result<Self> {
        Ok(Self {
            identity: names.identity(info.identity_id)?,
            api_session_id: info.api_session_id,
            session_id: info.session_id,
            channel_id: info.channel_id,
            connection: info.connection,
            sent_bytes: info.bytes,
            sent_bytes_per_second: info.bytes_per_second,
        })
    }
}

/// GET /circuits
pub async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Page<Circuit>> {
    let open = call.router.circuits();
    call.store
        .scan(move |tx| {
            let names = Names::of(tx);
            live::page(open.into_iter().map(|info| Circuit::of(info, &names)).collect::<Result<_>>()?, &listing)
        })
        .await
}

/// GET /circuits/{id}
pub async fn detail(call: Call, id: Id<Circuit>) -> Result<Shown<Circuit>> {
    let open = call.router.circuit(id.as_str()).ok_or_else(|| unknown(&id))?;
    call.store.read(|tx| Circuit::of(open, &Names::of(tx)).map(Shown))
}

/// DELETE /circuits/{id}
pub async fn end(call: Call, id: Id<Circuit>) -> Result<Done> {
    if call.router.close_circuit(id.as_str()) { Ok(Done) } else { Err(unknown(&id)) }
}

fn unknown(id: &Id<Circuit>) -> Error {
    Error::NotFound { kind: "circuit", id: id.to_string(), field: None }
}
