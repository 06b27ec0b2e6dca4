//! The open circuits.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    entity::{Entity, EntityRef, Facts, FactsExt, Id, Links, Service, Tags, Terminator},
    error::{Error, Result},
    http::{
        answer::Shown,
        api::common::in_memory_list::{self, Entry, Name},
        call::Call,
        envelope::Detail,
        extractor::Query,
        list_body::Joined,
        listing::Listing,
    },
    network::CircuitInfo,
    query::{Type, Value},
    store::Read,
};

/// A circuit from a client to a host.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CircuitDetail")]
pub(crate) struct View {
    /// The id of the session that dialed.
    client_id: String,
    service: EntityRef,
    /// The terminator of the host.
    terminator: EntityRef,
    path: Path,
}

/// The routers of a circuit in order, and the links between them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Path")]
struct Path {
    /// The routers.
    nodes: Vec<EntityRef>,
    /// The links between the routers; one fewer.
    links: Vec<EntityRef>,
}

type Circuit = Detail<View>;

impl Entry for Circuit {
    const NAMES: &'static [Name<Self>] = &[
        Name("id", Type::Text, |circuit| circuit.id.as_str().into()),
        Name("clientId", Type::Text, |circuit| circuit.view.client_id.as_str().into()),
        Name("createdAt", Type::Date, |circuit| Value::Date(circuit.created_at.millis())),
    ];
    fn id(&self) -> &str {
        &self.id
    }
}

fn see(circuit: CircuitInfo, router: Option<&str>, facts: &dyn Facts) -> Result<Circuit> {
    let service = facts.find(&Id::<Service>::from_text(circuit.service_id.as_str()))?;
    let name = service.map(|service| service.spec.name).unwrap_or_default();
    // Client and host are connected to the same router, so there is no link.
    let nodes = router.map(|id| super::router::named(id, facts)).transpose()?;
    Ok(Detail {
        links: Links::default().with("self", format_args!("circuits/{}", circuit.id)),
        id: circuit.id,
        created_at: circuit.since,
        updated_at: circuit.since,
        tags: Tags::default(),
        view: View {
            client_id: circuit.client.session_id,
            service: EntityRef::new(Service::KIND, &circuit.service_id, &name),
            terminator: EntityRef::new(Terminator::KIND, &circuit.terminator_id, ""),
            path: Path { nodes: nodes.into_iter().collect(), links: Vec::new() },
        },
    })
}

/// GET /circuits
pub(crate) async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Joined<Circuit>> {
    let (router, same) = (call.router.clone(), call.router.clone());
    let each =
        move |tx: &Read<'_>, found: &mut dyn FnMut(Circuit)| router.each_circuit(|circuit| see(circuit, router.id(), tx).map(&mut *found));
    let one = move |tx: &Read<'_>, id: &str| same.circuit(id).map(|circuit| see(circuit, same.id(), tx)).transpose();
    in_memory_list::list(&call, listing, each, one).await
}

/// GET /circuits/{id}
pub(crate) async fn detail(call: Call, id: Id<View>) -> Result<Shown<Circuit>> {
    let Some(circuit) = call.router.circuit(id.as_str()) else {
        return Err(Error::NotFound { kind: "circuit", id: id.into_text(), field: None });
    };
    call.store.read(|tx| see(circuit, call.router.id(), tx).map(Shown))
}
