//! Circuits through the built-in router: who dialed which service, who hosts it, and the traffic in each direction.

use schemars::JsonSchema;
use serde::Serialize;

use super::names::{Named, Names};
use crate::{
    clock::Timestamp,
    entity::Id,
    error::{Error, Result},
    http::{
        answer::{Done, Shown},
        api::common::in_memory_list::{self, Entry, Name, number},
        call::Call,
        extractor::Query,
        list_body::Joined,
        listing::Listing,
    },
    network::{CircuitInfo, EndInfo},
    query::{Type, Value},
    store::Read,
};

/// A circuit from a client to a host of a service, through the built-in router.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CircuitDetail")]
pub(crate) struct Circuit {
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
pub(crate) struct End {
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

const NAMES: &[Name<Circuit>] = &[
    Name("id", Type::Text, |c| c.id.as_str().into()),
    Name("service.id", Type::Text, |c| c.service.id.as_str().into()),
    Name("service.name", Type::Text, |c| c.service.name.as_str().into()),
    Name("terminatorId", Type::Text, |c| c.terminator_id.as_str().into()),
    Name("since", Type::Date, |c| Value::Date(c.since.millis())),
    Name("client.id", Type::Text, |c| c.client.identity.id.as_str().into()),
    Name("client.name", Type::Text, |c| c.client.identity.name.as_str().into()),
    Name("client.channelId", Type::Text, |c| c.client.channel_id.as_str().into()),
    Name("client.sentBytes", Type::Number, |c| number(c.client.sent_bytes)),
    Name("client.sentBytesPerSecond", Type::Number, |c| number(c.client.sent_bytes_per_second)),
    Name("host.id", Type::Text, |c| c.host.identity.id.as_str().into()),
    Name("host.name", Type::Text, |c| c.host.identity.name.as_str().into()),
    Name("host.channelId", Type::Text, |c| c.host.channel_id.as_str().into()),
    Name("host.sentBytes", Type::Number, |c| number(c.host.sent_bytes)),
    Name("host.sentBytesPerSecond", Type::Number, |c| number(c.host.sent_bytes_per_second)),
];

impl Entry for Circuit {
    const NAMES: &'static [Name<Self>] = NAMES;
    fn id(&self) -> &str {
        &self.id
    }
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
pub(crate) async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Joined<Circuit>> {
    let (router, same) = (call.router.clone(), call.router.clone());
    let each = move |tx: &Read<'_>, found: &mut dyn FnMut(Circuit)| {
        let names = Names::of(tx);
        router.each_circuit(|info| Circuit::of(info, &names).map(&mut *found))
    };
    let one = move |tx: &Read<'_>, id: &str| same.circuit(id).map(|info| Circuit::of(info, &Names::of(tx))).transpose();
    in_memory_list::list(&call, listing, each, one).await
}

/// GET /circuits/{id}
pub(crate) async fn detail(call: Call, id: Id<Circuit>) -> Result<Shown<Circuit>> {
    let open = call.router.circuit(id.as_str()).ok_or_else(|| unknown(&id))?;
    call.store.read(|tx| Circuit::of(open, &Names::of(tx)).map(Shown))
}

/// DELETE /circuits/{id}
pub(crate) async fn end(call: Call, id: Id<Circuit>) -> Result<Done> {
    if call.router.close_circuit(id.as_str()) { Ok(Done) } else { Err(unknown(&id)) }
}

fn unknown(id: &Id<Circuit>) -> Error {
    Error::NotFound { kind: "circuit", id: id.to_string(), field: None }
}
