//! Channels: connections of SDKs to the built-in router.

use fabric::network::ChannelInfo;
use model::{clock::Timestamp, error::Result};
use query::{Type, Value};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::names::{Named, RecordNames};
use crate::{
    api::common::in_memory_list::{self, Entry, Name, number},
    call::Call,
    extractor::Query,
    list_body::StreamedList,
    listing::Listing,
};

/// A connection of an SDK to the built-in router.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ChannelDetail")]
pub(crate) struct Channel {
    id: String,
    identity: Named,
    api_session_id: String,
    /// The source address, as `address:port`.
    address: String,
    /// The SDK of the identity's last login, such as `ziti-sdk-golang`.
    sdk: String,
    /// The version of that SDK.
    sdk_version: String,
    /// The text that the SDK sent in its hello.
    hello: String,
    /// When the channel was accepted.
    since: Timestamp,
    /// The number of circuits that have an end on the channel.
    circuits: u64,
    /// The number of terminators that it hosts.
    terminators: u64,
    /// Bytes queued for the client.
    queued_bytes: u64,
}

const NAMES: &[Name<Channel>] = &[
    Name("id", Type::Text, |c| c.id.as_str().into()),
    Name("identity.id", Type::Text, |c| c.identity.id.as_str().into()),
    Name("identity.name", Type::Text, |c| {
        c.identity.name.as_str().into()
    }),
    Name("apiSessionId", Type::Text, |c| {
        c.api_session_id.as_str().into()
    }),
    Name("address", Type::Text, |c| c.address.as_str().into()),
    Name("sdk", Type::Text, |c| c.sdk.as_str().into()),
    Name("sdkVersion", Type::Text, |c| c.sdk_version.as_str().into()),
    Name("since", Type::Date, |c| Value::Date(c.since.millis())),
    Name("circuits", Type::Number, |c| number(c.circuits)),
    Name("terminators", Type::Number, |c| number(c.terminators)),
    Name("queuedBytes", Type::Number, |c| number(c.queued_bytes)),
];

impl Entry for Channel {
    const NAMES: &'static [Name<Self>] = NAMES;
    fn id(&self) -> &str {
        &self.id
    }
}

impl Channel {
    fn of(info: ChannelInfo, names: &RecordNames<'_>) -> Result<Self> {
        let (identity, sdk) = names.client(info.identity_id)?;
        Ok(Self {
            id: info.id,
            identity,
            api_session_id: info.api_session_id,
            address: info
                .address
                .map(|address| address.to_string())
                .unwrap_or_default(),
            sdk: sdk.r#type,
            sdk_version: sdk.version,
            hello: info.hello,
            since: info.since,
            circuits: info.circuits as u64,
            terminators: info.terminators as u64,
            queued_bytes: info.queued_bytes as u64,
        })
    }
}

/// GET /channels
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Channel>> {
    let (router, same) = (
        call.state.network.router.clone(),
        call.state.network.router.clone(),
    );
    let each = move |tx: &Read<'_>, found: &mut dyn FnMut(Channel)| {
        let names = RecordNames::of(tx);
        router.each_channel(|info| Channel::of(info, &names).map(&mut *found))
    };
    let one = move |tx: &Read<'_>, id: &str| {
        same.channel_info(id)
            .map(|info| Channel::of(info, &RecordNames::of(tx)))
            .transpose()
    };
    in_memory_list::list(&call, listing, each, one).await
}
