//! Circuits: who dialed which service, who hosts it, over which routers, and the traffic in each
//! direction.

use fabric::network::{ChannelEndInfo, CircuitInfo, EndInfo, SentInfo};
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
    api::common::in_memory_list::{self, Entry, Name, number},
    call::Call,
    extractor::Query,
    list_body::StreamedList,
    listing::Listing,
};

/// A circuit from a client to a host of a service.
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
    /// The end that hosts the service; absent for a terminator that an administrator made.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<End>,
    /// The routers that it crosses, from the client to the host.
    routers: Vec<Named>,
    /// The ids of the links between these routers; one fewer.
    links: Vec<String>,
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
    #[serde(flatten)]
    channel: Option<ChannelEnd>,
    #[serde(flatten)]
    sent: Option<Sent>,
}

/// The end on a channel of the built-in router; absent at other routers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CircuitChannelEnd")]
pub(crate) struct ChannelEnd {
    /// The id of its channel.
    channel_id: String,
    /// The connection id on its channel.
    connection: u32,
}

/// The traffic of an end; absent if the circuit does not cross the built-in router and the router
/// of the end has not reported it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CircuitTraffic")]
pub(crate) struct Sent {
    /// Data bytes that the built-in router has received from this end. Where the circuit only
    /// passes through it, this includes data that a router has sent again. Of a circuit that does
    /// not cross it: what the router of the end reports, once a minute and about two minutes later.
    sent_bytes: u64,
    /// Data bytes received per second, over the last 10 seconds; absent if the bytes are those that
    /// a router reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_bytes_per_second: Option<u64>,
}

const NAMES: &[Name<Circuit>] = &[
    Name("id", Type::Text, |c| c.id.as_str().into()),
    Name("service.id", Type::Text, |c| c.service.id.as_str().into()),
    Name("service.name", Type::Text, |c| {
        c.service.name.as_str().into()
    }),
    Name("terminatorId", Type::Text, |c| {
        c.terminator_id.as_str().into()
    }),
    Name("since", Type::Date, |c| Value::Date(c.since.millis())),
    Name("client.id", Type::Text, |c| {
        c.client.identity.id.as_str().into()
    }),
    Name("client.name", Type::Text, |c| {
        c.client.identity.name.as_str().into()
    }),
    Name("client.channelId", Type::Text, |c| {
        of_channel(Some(&c.client), |end| end.channel_id.as_str().into())
    }),
    Name("client.sentBytes", Type::Number, |c| {
        sent_by(Some(&c.client), |sent| number(sent.sent_bytes))
    }),
    Name("client.sentBytesPerSecond", Type::Number, |c| {
        sent_by(Some(&c.client), |sent| {
            sent.sent_bytes_per_second.map_or(Value::Null, number)
        })
    }),
    Name("host.id", Type::Text, |c| {
        c.host
            .as_ref()
            .map_or(Value::Null, |host| host.identity.id.as_str().into())
    }),
    Name("host.name", Type::Text, |c| {
        c.host
            .as_ref()
            .map_or(Value::Null, |host| host.identity.name.as_str().into())
    }),
    Name("host.channelId", Type::Text, |c| {
        of_channel(c.host.as_ref(), |end| end.channel_id.as_str().into())
    }),
    Name("host.sentBytes", Type::Number, |c| {
        sent_by(c.host.as_ref(), |sent| number(sent.sent_bytes))
    }),
    Name("host.sentBytesPerSecond", Type::Number, |c| {
        sent_by(c.host.as_ref(), |sent| {
            sent.sent_bytes_per_second.map_or(Value::Null, number)
        })
    }),
];

fn of_channel<'e>(
    end: Option<&'e End>,
    value: impl FnOnce(&'e ChannelEnd) -> Value<'e>,
) -> Value<'e> {
    end.and_then(|end| end.channel.as_ref())
        .map_or(Value::Null, value)
}

fn sent_by<'e>(end: Option<&'e End>, value: impl FnOnce(&'e Sent) -> Value<'e>) -> Value<'e> {
    end.and_then(|end| end.sent.as_ref())
        .map_or(Value::Null, value)
}

impl Entry for Circuit {
    const NAMES: &'static [Name<Self>] = NAMES;
    fn id(&self) -> &str {
        &self.id
    }
}

impl Circuit {
    fn of(info: CircuitInfo, names: &RecordNames<'_>) -> Result<Self> {
        Ok(Self {
            id: info.id,
            service: names.service(info.service_id)?,
            terminator_id: info.terminator_id,
            since: info.since,
            client: End::of(info.client, names)?,
            host: info.host.map(|host| End::of(host, names)).transpose()?,
            routers: info
                .routers
                .into_iter()
                .map(|router| names.router(router))
                .collect::<Result<_>>()?,
            links: info.links,
        })
    }
}

impl End {
    fn of(info: EndInfo, names: &RecordNames<'_>) -> Result<Self> {
        Ok(Self {
            identity: names.identity(info.identity_id)?,
            api_session_id: info.api_session_id,
            session_id: info.session_id,
            channel: info.channel.map(
                |ChannelEndInfo {
                     channel_id,
                     connection,
                 }| ChannelEnd {
                    channel_id,
                    connection,
                },
            ),
            sent: info.sent.map(
                |SentInfo {
                     bytes,
                     bytes_per_second,
                 }| Sent {
                    sent_bytes: bytes,
                    sent_bytes_per_second: bytes_per_second,
                },
            ),
        })
    }
}

/// GET /circuits
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Circuit>> {
    let (state, same) = (call.state.clone(), call.state.clone());
    let each = move |tx: &Read<'_>, found: &mut dyn FnMut(Circuit)| {
        let names = RecordNames::of(tx);
        state
            .network
            .control
            .each_circuit(|info| Circuit::of(info, &names).map(&mut *found))
    };
    let one = move |tx: &Read<'_>, id: &str| {
        same.network
            .control
            .circuit(id)
            .map(|info| Circuit::of(info, &RecordNames::of(tx)))
            .transpose()
    };
    in_memory_list::list(&call, listing, each, one).await
}

/// GET /circuits/{id}
pub(crate) async fn detail(call: Call, id: Id<Circuit>) -> Result<Data<Circuit>> {
    let open = call
        .state
        .network
        .control
        .circuit(id.as_str())
        .ok_or_else(|| unknown(&id))?;
    call.state
        .store
        .read(|tx| Circuit::of(open, &RecordNames::of(tx)).map(Data))
}

/// DELETE /circuits/{id}
pub(crate) async fn end(call: Call, id: Id<Circuit>) -> Result<NoData> {
    if call.state.network.control.close_circuit(id.as_str()) {
        Ok(NoData)
    } else {
        Err(unknown(&id))
    }
}

fn unknown(id: &Id<Circuit>) -> Error {
    Error::NotFound {
        kind: "circuit",
        id: id.to_string(),
        field: None,
    }
}
