//! The open circuits.

use fabric::network::CircuitInfo;
use model::{
    entity::{Entity, EntityRef, HalLinks, Id, Lookup, Service, Tags, Terminator, TypedLookup},
    error::{Error, Result},
};
use query::{Type, Value};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use crate::{
    answer::{Data, NoData},
    api::common::in_memory_list::{self, Entry, Name},
    call::Call,
    envelope::Detail,
    extractor::Query,
    list_body::StreamedList,
    listing::Listing,
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
        Name("clientId", Type::Text, |circuit| {
            circuit.view.client_id.as_str().into()
        }),
        Name("createdAt", Type::Date, |circuit| {
            Value::Date(circuit.created_at.millis())
        }),
    ];
    fn id(&self) -> &str {
        &self.id
    }
}

fn render(circuit: CircuitInfo, lookup: &dyn Lookup) -> Result<Circuit> {
    let service = lookup.find(&Id::<Service>::from_text(circuit.service_id.as_str()))?;
    let name = service.map(|service| service.spec.name).unwrap_or_default();
    let nodes = circuit
        .routers
        .iter()
        .map(|id| super::router::named(id, lookup))
        .collect::<Result<_>>()?;
    Ok(Detail {
        links: HalLinks::default().with("self", format_args!("circuits/{}", circuit.id)),
        id: circuit.id,
        created_at: circuit.since,
        updated_at: circuit.since,
        tags: Tags::default(),
        view: View {
            client_id: circuit.client.session_id,
            service: EntityRef::new(Service::KIND, &circuit.service_id, &name),
            terminator: EntityRef::new(Terminator::KIND, &circuit.terminator_id, ""),
            path: Path {
                nodes,
                links: circuit
                    .links
                    .iter()
                    .map(|id| super::link::reference(id))
                    .collect(),
            },
        },
    })
}

/// GET /circuits
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Circuit>> {
    let (state, same) = (call.state.clone(), call.state.clone());
    let each = move |tx: &Read<'_>, found: &mut dyn FnMut(Circuit)| {
        state
            .network
            .control
            .each_circuit(|circuit| render(circuit, tx).map(&mut *found))
    };
    let one = move |tx: &Read<'_>, id: &str| {
        same.network
            .control
            .circuit(id)
            .map(|circuit| render(circuit, tx))
            .transpose()
    };
    in_memory_list::list(&call, listing, each, one).await
}

/// GET /circuits/{id}
pub(crate) async fn detail(call: Call, id: Id<View>) -> Result<Data<Circuit>> {
    let circuit = call
        .state
        .network
        .control
        .circuit(id.as_str())
        .ok_or_else(|| unknown(&id))?;
    call.state.store.read(|tx| render(circuit, tx).map(Data))
}

/// DELETE /circuits/{id}
pub(crate) async fn delete(call: Call, id: Id<View>) -> Result<NoData> {
    if call.state.network.control.close_circuit(id.as_str()) {
        Ok(NoData)
    } else {
        Err(unknown(&id))
    }
}

fn unknown(id: &Id<View>) -> Error {
    Error::NotFound {
        kind: "circuit",
        id: id.to_string(),
        field: None,
    }
}
