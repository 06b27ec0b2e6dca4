//! Dials of a router for itself, in both forms of the request.

use std::sync::Arc;

use policy::access::Right;
use prost::Message;
use wire::{
    control::{NumberedBytes, TextEntry, content, tunnel},
    frame::{Builder, Frame},
};

use super::{
    connection::RouterConnection,
    control_core::ControlCore,
    dial::{self, RouterDial},
    replies::{body, error},
    sessions::FoundSession,
    tunnel::refuse,
    tunnel_session::{Answer, ensure_open, session, session_response, take_untold},
};
use crate::network::{Circuit, DialAnswer};

/// Dials a service.
pub(crate) fn create_circuit(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
) {
    let Some(asked) = body::<tunnel::CreateCircuit>(connection, &frame) else {
        return;
    };
    dial_as(core, connection, frame, asked, DialForm::V1);
}

/// Dials a service in a task of its own, and answers in the form of the request.
pub(crate) fn dial_as(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
    asked: tunnel::CreateCircuit,
    form: DialForm,
) {
    let Some(counted) = connection.begin_request(frame.len()) else {
        return connection.send(error(&frame, 1, "too many requests at the same time"));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        let dialed = async {
            ensure_open(&core, &connection).await?;
            let found = session(&core, &connection, &asked.service_name, Right::Dial).await?;
            circuit(&core, &connection, &frame, asked, found, form).await
        };
        if let Err(failure) = dialed.await {
            refuse(&core, &connection, &frame, &failure).await;
        }
        drop(counted);
    });
}

/// The form of a dial and of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialForm {
    V1,
    /// Of routers from version 1.7 on.
    V2,
}

/// Opens a circuit for a session of the router, and answers.
///
/// # Errors
/// The service cannot be reached.
async fn circuit(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: &Frame,
    asked: tunnel::CreateCircuit,
    found: FoundSession,
    form: DialForm,
) -> Answer<()> {
    let session = session_response(&found.session);
    let answer = |circuit: &Circuit, opened: &DialAnswer<'_>| {
        let (circuit_id, address) = (circuit.id.to_string(), opened.address.to_owned());
        let peer_data = dial::answered(opened)
            .into_iter()
            .map(|(key, value)| NumberedBytes::new(key, value))
            .collect();
        let tags = opened
            .tags
            .iter()
            .map(|(name, id)| TextEntry::new(*name, id.as_str()))
            .collect();
        let (kind, body) = match form {
            DialForm::V1 => {
                let (api_session, session) = (take_untold(connection), session.clone());
                let message = tunnel::CreateCircuitResponse {
                    api_session,
                    session,
                    circuit_id,
                    address,
                    peer_data,
                    tags,
                };
                (content::TUNNEL_CIRCUIT_RESPONSE, message.encode_to_vec())
            }
            DialForm::V2 => {
                let message = tunnel::CreateCircuitV2Response {
                    circuit_id,
                    address,
                    peer_data,
                    tags,
                };
                (content::TUNNEL_CIRCUIT_V2_RESPONSE, message.encode_to_vec())
            }
        };
        connection.send(Builder::reply(kind, frame).body(&body));
    };
    let passed_on = asked
        .peer_data
        .into_iter()
        .filter_map(|entry| Some((entry.key?, entry.value.unwrap_or_default())))
        .collect();
    let wanted = RouterDial {
        router: &connection.router,
        instance: &asked.terminator_instance_id,
        passed_on,
    };
    let circuit = dial::dial_for_session(core, found, wanted, &answer).await?;
    dial::end_unless_answered(core, connection, &circuit);
    Ok(())
}
