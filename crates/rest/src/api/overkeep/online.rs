//! Who is connected now: SDKs at the built-in router, and routers.

use fabric::{control_channel::Control, network::ChannelInfo};
use model::{
    clock::Timestamp,
    entity::{EdgeRouter, Id, RouterInfo, TransitRouter, TypedLookup},
    error::Result,
};
use query::{Type, Value};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::names::{Named, RecordNames};
use crate::{
    api::common::in_memory_list::{self, Entry, Name},
    call::Call,
    extractor::Query,
    list_body::StreamedList,
    listing::Listing,
};

/// A connected identity or router.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OnlineDetail")]
pub(crate) struct Online {
    /// The id of the channel of an identity, or of the router.
    id: String,
    /// The name of the identity or router.
    name: String,
    kind: OnlineKind,
    /// The id of the identity or router.
    record_id: String,
    /// The source `address:port` of an identity. The address that a router offers to SDKs, blank if
    /// it offers none.
    address: String,
    /// The SDK of the identity's last log-in, or the release of the router.
    version: String,
    /// When it connected; `null` for the built-in router.
    since: Option<Timestamp>,
    /// Only of a remote router that has reported its traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic: Option<RouterTraffic>,
}

/// What a router has moved since its start, as it reports once a minute.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OnlineTraffic")]
pub(crate) struct RouterTraffic {
    /// Data bytes received from clients.
    client_bytes: u64,
    /// Data bytes received from hosts.
    host_bytes: u64,
    /// Bytes sent over links.
    link_sent_bytes: u64,
    /// Bytes received over links.
    link_received_bytes: u64,
    /// Circuits over it at the moment.
    circuits: u64,
}

/// What is connected.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
enum OnlineKind {
    Identity,
    EdgeRouter,
    TransitRouter,
}

impl OnlineKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::EdgeRouter => "edge-router",
            Self::TransitRouter => "transit-router",
        }
    }
}

const NAMES: &[Name<Online>] = &[
    Name("id", Type::Text, |one| one.id.as_str().into()),
    Name("name", Type::Text, |one| one.name.as_str().into()),
    Name("kind", Type::Text, |one| one.kind.as_str().into()),
    Name("recordId", Type::Text, |one| one.record_id.as_str().into()),
    Name("address", Type::Text, |one| one.address.as_str().into()),
    Name("version", Type::Text, |one| one.version.as_str().into()),
    Name("since", Type::Date, |one| {
        one.since
            .map_or(Value::Null, |since| Value::Date(since.millis()))
    }),
];

impl Entry for Online {
    const NAMES: &'static [Name<Self>] = NAMES;
    fn id(&self) -> &str {
        &self.id
    }
}

impl Online {
    fn identity(info: ChannelInfo, names: &RecordNames<'_>) -> Result<Self> {
        let (
            Named {
                id: record_id,
                name,
            },
            sdk,
        ) = names.client(info.identity_id)?;
        Ok(Self {
            id: info.id,
            name,
            kind: OnlineKind::Identity,
            record_id,
            address: info
                .address
                .map(|address| address.to_string())
                .unwrap_or_default(),
            version: format!("{} {}", sdk.r#type, sdk.version).trim().to_owned(),
            since: Some(info.since),
            traffic: None,
        })
    }

    /// `None` if the router was deleted meanwhile.
    fn router(
        id: &str,
        link: RouterInfo,
        control: &Control,
        tx: &Read<'_>,
    ) -> Result<Option<Self>> {
        let edge = tx
            .find(&Id::<EdgeRouter>::from_text(id))?
            .map(|router| (OnlineKind::EdgeRouter, router.spec.name));
        let named = match edge {
            Some(named) => Some(named),
            None => tx
                .find(&Id::<TransitRouter>::from_text(id))?
                .map(|router| (OnlineKind::TransitRouter, router.spec.name)),
        };
        let Some((kind, name)) = named else {
            return Ok(None);
        };
        let address = link
            .protocols
            .get("tls")
            .map(|url| url.trim_start_matches("tls://").to_owned())
            .unwrap_or_default();
        let (version, since) = (link.version.version, link.since);
        let traffic = control
            .traffic_of(id)
            .map(|(bytes, circuits)| RouterTraffic {
                client_bytes: bytes.from_clients,
                host_bytes: bytes.from_hosts,
                link_sent_bytes: bytes.link_sent,
                link_received_bytes: bytes.link_received,
                circuits: circuits as u64,
            });
        Ok(Some(Self {
            id: id.into(),
            name,
            kind,
            record_id: id.into(),
            address,
            version,
            since,
            traffic,
        }))
    }
}

/// GET /online
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Online>> {
    let (channels, routers, control) = (
        call.state.network.router.clone(),
        call.state.store.online().clone(),
        call.state.network.control.clone(),
    );
    let each = move |tx: &Read<'_>, found: &mut dyn FnMut(Online)| {
        let names = RecordNames::of(tx);
        channels.each_channel(|info| Online::identity(info, &names).map(&mut *found))?;
        for (id, link) in routers.routers() {
            if let Some(online) = Online::router(&id, link, &control, tx)? {
                found(online);
            }
        }
        Ok(())
    };
    let (channels, routers, control) = (
        call.state.network.router.clone(),
        call.state.store.online().clone(),
        call.state.network.control.clone(),
    );
    let one = move |tx: &Read<'_>, id: &str| match channels.channel_info(id) {
        Some(info) => Online::identity(info, &RecordNames::of(tx)).map(Some),
        None => routers
            .router(id)
            .map_or(Ok(None), |link| Online::router(id, link, &control, tx)),
    };
    in_memory_list::list(&call, listing, each, one).await
}
