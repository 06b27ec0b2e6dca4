//! Routers of both kinds in the fabric interface: certificate, cost and connection.

use model::{
    clock::Timestamp,
    entity::{
        EdgeRouter, Entity, EntityRef, HalLinks, Id, Lookup, Record, TransitRouter, TypedLookup,
        VersionInfo, missing,
    },
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use crate::{
    answer::Data, api::management::transit_router, call::Call, envelope::Detail, extractor::Query,
    list_body::StreamedList, listing::Listing,
};

/// The path of routers in this interface.
const PATH: &str = "routers";

/// A router.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RouterDetail")]
pub(crate) struct View {
    name: String,
    /// The fingerprint of its client certificate; null before it has enrolled.
    fingerprint: Option<String>,
    /// Whether it is connected to this controller.
    connected: bool,
    /// When it connected; absent while it is not connected, and for the built-in router.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_joined_at: Option<Timestamp>,
    /// The version that it reports; absent while it is not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    version_info: Option<VersionInfo>,
    cost: u16,
    no_traversal: bool,
    disabled: bool,
    /// The addresses at which other routers reach it, while it is connected.
    listener_addresses: Vec<RouterListener>,
}

/// An address at which other routers reach a router.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RouterListener")]
struct RouterListener {
    /// For example `tls:203.0.113.4:10080`.
    address: String,
    /// For example `tls`.
    protocol: String,
}

/// A reference to a router of either kind. The name is blank if it was deleted meanwhile.
///
/// # Errors
/// Its record cannot be read.
pub(crate) fn named(id: &str, lookup: &dyn Lookup) -> Result<EntityRef> {
    let edge = lookup
        .find(&Id::<EdgeRouter>::from_text(id))?
        .map(|router| router.spec.name);
    let transit = || {
        Ok(lookup
            .find(&Id::<TransitRouter>::from_text(id))?
            .map(|router| router.spec.name))
    };
    let name = edge.map_or_else(transit, |name| Ok::<_, Error>(Some(name)))?;
    Ok(EntityRef {
        links: links(id),
        entity: PATH,
        id: id.into(),
        name: name.unwrap_or_default(),
    })
}

fn links(id: &str) -> HalLinks {
    HalLinks::default()
        .with("self", format_args!("{PATH}/{id}"))
        .with("terminators", format_args!("{PATH}/{id}/terminators"))
}

fn render(record: &Record<TransitRouter>, lookup: &dyn Lookup) -> Detail<View> {
    let TransitRouter {
        name,
        cost,
        no_traversal,
        disabled,
    } = record.spec.clone();
    let link = lookup.router_info(record.id.as_str());
    let listeners = link.iter().flat_map(|link| link.listeners.clone());
    let view = View {
        name,
        fingerprint: record.state.fingerprint.clone(),
        connected: link.is_some(),
        last_joined_at: link.as_ref().and_then(|link| link.since),
        listener_addresses: listeners
            .map(|(address, protocol)| RouterListener { address, protocol })
            .collect(),
        version_info: link.map(|link| link.version),
        cost,
        no_traversal,
        disabled,
    };
    let mut seen = Detail::new(record, view);
    seen.links = links(record.id.as_str());
    seen
}

/// GET /routers
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<View>>> {
    transit_router::listed(&call, listing, |tx, id| {
        Ok(find(tx, id)?.map(|router| render(&router, tx)))
    })
    .await
}

fn find(tx: &Read<'_>, id: &Id<TransitRouter>) -> Result<Option<Record<TransitRouter>>> {
    let edge = tx
        .find(&Id::<EdgeRouter>::from_text(id.as_str()))?
        .map(TransitRouter::of_edge_router);
    edge.map_or_else(|| tx.find(id), |router| Ok(Some(router)))
}

/// GET /routers/{id}
pub(crate) async fn detail(call: Call, id: Id<TransitRouter>) -> Result<Data<Detail<View>>> {
    call.state.store.read(|tx| {
        let router = find(tx, &id)?.ok_or_else(|| missing(TransitRouter::KIND, &id))?;
        Ok(Data(render(&router, tx)))
    })
}
