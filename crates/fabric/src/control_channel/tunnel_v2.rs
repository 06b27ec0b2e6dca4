//! Requests of routers from version 1.7 on that dial and host services themselves. Such a router
//! opens no API session; it is opened at its first request.

use std::sync::Arc;

use model::entity::{Id, Service, TypedLookup};
use policy::access::Right;
use prost::Message;
use wire::{
    control::{
        content,
        edge::{self, CreateTerminatorResult as Outcome},
        tunnel,
    },
    frame::{Builder, Frame},
};

use super::{
    bind::{self, BindRefusal, MAX_ID},
    connection::RouterConnection,
    control_core::ControlCore,
    replies::body,
    sessions::FoundSession,
    tunnel::BINDING,
    tunnel_dial::{DialForm, dial_as},
    tunnel_session::{self, ensure_open},
};
use crate::network::{RequestFailure, unreadable};

/// The session of the router for a service, in an API session that is opened if there is none.
async fn session(
    core: &ControlCore,
    connection: &RouterConnection,
    service: &str,
    right: Right,
) -> Result<FoundSession, RequestFailure> {
    ensure_open(core, connection).await?;
    tunnel_session::session(core, connection, service, right).await
}

/// Creates a terminator at the router itself.
pub(crate) fn host(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(asked) = body::<tunnel::CreateTerminatorV2>(connection, &frame) else {
        return;
    };
    let asked = Arc::new(asked);
    let hosting = {
        let (core, connection, asked) = (core.clone(), connection.clone(), asked.clone());
        async move { create(&core, &connection, &asked).await }
    };
    bind::answer_with(
        core,
        connection,
        frame.len(),
        hosting,
        move |outcome, text| answer(&frame, &asked, outcome, text),
    );
}

fn answer(to: &Frame, asked: &tunnel::CreateTerminatorV2, outcome: Outcome, text: &str) -> Frame {
    let answer = tunnel::CreateTerminatorV2Response {
        terminator_id: asked.address.chars().take(MAX_ID).collect(),
        start_time: asked.start_time,
        result: outcome.into(),
        text: text.to_owned(),
    };
    Builder::reply(content::TUNNEL_TERMINATOR_V2_RESPONSE, to).body(&answer.encode_to_vec())
}

async fn create(
    core: &ControlCore,
    connection: &RouterConnection,
    asked: &tunnel::CreateTerminatorV2,
) -> Result<(), BindRefusal> {
    let service = core
        .network
        .store()
        .read(|tx| tx.find(&Id::<Service>::from_text(asked.service_id.as_str())));
    let service = service
        .map_err(unreadable)
        .and_then(|found| found.ok_or_else(RequestFailure::no_service))
        .map_err(BindRefusal::of)?;
    let found = session(core, connection, &service.spec.name, Right::Bind)
        .await
        .map_err(BindRefusal::of)?;
    let wanted = edge::CreateTerminator {
        address: asked.address.clone(),
        peer_data: asked.peer_data.clone(),
        cost: asked.cost,
        precedence: asked.precedence,
        instance_id: asked.instance_id.clone(),
        instance_secret: asked.instance_secret.clone(),
        ..Default::default()
    };
    bind::host_for(core, connection, &wanted, &found, BINDING).await
}

/// Dials a service.
pub(crate) fn create_circuit(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
) {
    let Some(asked) = body::<tunnel::CreateCircuitV2>(connection, &frame) else {
        return;
    };
    let tunnel::CreateCircuitV2 {
        service_name,
        terminator_instance_id,
        peer_data,
    } = asked;
    let asked = tunnel::CreateCircuit {
        session_id: String::new(),
        service_name,
        terminator_instance_id,
        peer_data,
    };
    dial_as(core, connection, frame, asked, DialForm::V2);
}
