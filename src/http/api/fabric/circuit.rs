//! The open circuits.

use schemars::JsonSchema;
use serde::Serialize;

use super::in_memory_list::{self, Entry, Name};
use crate::{
    entity::{Entity, EntityRef, Facts, FactsExt, Id, Links, Service, Tags, Terminator},
    error::{Error, Result},
    http::{
        answer::{Page, Shown},
        call::Call,
        envelope::Detail,
        extractor::Query,
        listing::Listing,
    },
    network::CircuitInfo,
    query::{Type, Value},
};

/// A circuit from a client to a host.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CircuitDetail")]
pub struct View {
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
pub async fn list(call: Call, Query(listing): Query<Listing>) -> Result<Page<Circuit>> {
    let circuits = call.router.circuits();
    let seen = call.store.read(|tx| circuits.into_iter().map(|circuit| see(circuit, call.router.id(), tx)).collect::<Result<_>>())?;
    in_memory_list::page(seen, &listing)
}

/// GET /circuits/{id}
pub async fn detail(call: Call, id: Id<View>) -> Result<Shown<Circuit>> {
    let Some(circuit) = call.router.circuit(id.as_str()) else {
        return Err(Error::NotFound { kind: "circuit", id: id.into_text(), field: None });
    };
    call.store.read(|tx| see(circuit, call.router.id(), tx).map(Shown))
}
