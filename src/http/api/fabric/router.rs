//! Routers of either kind, as the fabric knows them: by their certificate, their cost and their connection.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    entity::{EdgeRouter, EntityRef, Facts, FactsExt, Id, Links, Record, TransitRouter, Words, filterable},
    error::{Error, Result},
    http::{
        answer::{Page, Shown},
        call::Call,
        envelope::{Detail, Pagination},
        extractor::Query,
        listing::Listing,
    },
    store::Read,
};

/// What the kind is called here.
const PATH: &str = "routers";

/// A router.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RouterDetail")]
pub struct View {
    name: String,
    /// Of the certificate that it connects with; none before it has enrolled.
    fingerprint: Option<String>,
    /// Whether it is connected to this controller.
    connected: bool,
    cost: u16,
    no_traversal: bool,
    disabled: bool,
    /// Where other routers reach it, while it is connected.
    listener_addresses: Vec<Listener>,
}

/// Where other routers reach a router.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RouterListener")]
struct Listener {
    /// Such as `tls:203.0.113.4:10080`.
    address: String,
    /// Such as `tls`.
    protocol: String,
}

/// A reference to a router of either kind. One that is deleted meanwhile has no name.
///
/// # Errors
/// Its record cannot be read.
pub fn named(id: &str, facts: &dyn Facts) -> Result<EntityRef> {
    let edge = facts.find(&Id::<EdgeRouter>::from_text(id))?.map(|router| router.spec.name);
    let transit = || Ok(facts.find(&Id::<TransitRouter>::from_text(id))?.map(|router| router.spec.name));
    let name = edge.map_or_else(transit, |name| Ok::<_, Error>(Some(name)))?;
    Ok(EntityRef { links: links(id), entity: PATH, id: id.into(), name: name.unwrap_or_default() })
}

fn links(id: &str) -> Links {
    Links::default().with("self", format_args!("{PATH}/{id}")).with("terminators", format_args!("{PATH}/{id}/terminators"))
}

fn see(record: &Record<TransitRouter>, facts: &dyn Facts) -> Detail<View> {
    let TransitRouter { name, cost, no_traversal, disabled } = record.spec.clone();
    let connected = facts.link(record.id.as_str()).is_some();
    let fingerprint = record.state.fingerprint.clone();
    let mut seen = Detail::new(record, View { name, fingerprint, connected, cost, no_traversal, disabled, listener_addresses: Vec::new() });
    seen.links = links(record.id.as_str());
    seen
}

/// GET /routers
pub async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Page<Detail<View>>> {
    let list = move |tx: &Read<'_>| {
        let (query, window) = listing.query(Words::<TransitRouter>::ALL)?;
        let mut routers = Vec::new();
        tx.each::<TransitRouter>(|router| {
            routers.push(router);
            Ok(())
        })?;
        tx.each::<EdgeRouter>(|router| {
            routers.push(TransitRouter::of_edge_router(router));
            Ok(())
        })?;
        let found = tx.select_from(routers, &query, window);
        let data = found.records.iter().map(|router| see(router, tx)).collect();
        Ok(Page { data, pagination: Pagination::of(window, found.total), fields: Some(filterable::<TransitRouter>().collect()) })
    };
    call.store.scan(list).await
}

/// GET /routers/{id}
pub async fn detail(call: Call, id: Id<TransitRouter>) -> Result<Shown<Detail<View>>> {
    call.store.read(|tx| {
        let edge = tx.find(&Id::<EdgeRouter>::from_text(id.as_str()))?.map(TransitRouter::of_edge_router);
        let router = edge.map_or_else(|| tx.get(&id), Ok)?;
        Ok(Shown(see(&router, tx)))
    })
}
