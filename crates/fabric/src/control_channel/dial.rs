//! Dials of clients at a router in another process, and the answers to them.

use std::sync::Arc;

use policy::authentication::{DIAL, RejectedCaller};
use wire::{
    control::{content, key},
    frame::{Builder, Frame, value},
    sdk::Retry,
};

use super::{
    connection::RouterConnection,
    control_core::ControlCore,
    replies::error,
    sessions::{FoundSession, SdkCredentials},
};
use crate::network::{
    self, Circuit, DialAnswer, DialFailure, DialRequest, NewCircuit, PassedOn, RequestFailure,
};

/// Maximum bytes of the data of an SDK that are passed on to the host with a route.
const MAX_PEER_DATA: usize = 32 << 10;
/// The bytes that the key and the length of each entry add to this data.
const PEER_DATA_HEAD: usize = 8;
/// Highest code that routers of every version know.
const MAX_CODE: u32 = 11;

/// The dial of an SDK, as its router passes it on.
struct SdkDial<'f> {
    credentials: SdkCredentials<'f>,
    instance: &'f str,
    passed_on: PassedOn,
}

impl<'f> SdkDial<'f> {
    fn of(frame: &'f Frame) -> Result<Self, RequestFailure> {
        let malformed =
            |what: &str| RequestFailure::internal(format!("{what}: the header cannot be read"));
        let text = |key, what| match frame.header(key) {
            Some(value) => std::str::from_utf8(value)
                .map(Some)
                .map_err(|_| malformed(what)),
            None => Ok(None),
        };
        let token =
            text(key::SESSION_TOKEN, "session token")?.ok_or_else(|| malformed("session token"))?;
        let fingerprints = value::texts(frame.header(key::FINGERPRINTS).unwrap_or_default())
            .map_err(|_| malformed("fingerprints"))?;
        let api_session_token =
            text(key::API_SESSION_TOKEN, "API session token")?.filter(|token| !token.is_empty());
        let passed_on = value::bytes_by_number(frame.header(key::PEER_DATA).unwrap_or_default())
            .map_err(|_| malformed("peer data"))?;
        Ok(Self {
            credentials: SdkCredentials {
                token,
                api_session_token,
                fingerprints,
            },
            instance: text(key::INSTANCE, "instance id")?.unwrap_or_default(),
            passed_on: passed_on
                .into_iter()
                .map(|(number, bytes)| (number, bytes.to_vec()))
                .collect(),
        })
    }
}

/// Handles a dial.
pub(crate) fn create(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(counted) = connection.begin_request(frame.len()) else {
        return connection.send(error(&frame, 1, "too many requests at the same time"));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        if let Err(failure) = establish(&core, &connection, &frame).await {
            tracing::debug!(router = %connection.router, reason = %failure.text, "dial failed");
            connection.send(error(
                &frame,
                if failure.code <= MAX_CODE {
                    failure.code
                } else {
                    1
                },
                &failure.text,
            ));
        }
        drop(counted);
    });
}

/// Opens a circuit and answers the dial, unless it fails.
async fn establish(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: &Frame,
) -> Result<(), RequestFailure> {
    let SdkDial {
        credentials,
        instance,
        passed_on,
    } = SdkDial::of(frame)?;
    let found = core.session_of(&credentials)?;
    core.seen(connection, &found.api_session);
    let answer = |circuit: &Circuit, opened: &DialAnswer<'_>| {
        connection.send(answer(frame, circuit, opened))
    };
    let wanted = RouterDial {
        router: &connection.router,
        instance,
        passed_on,
    };
    let circuit = dial_for_session(core, found, wanted, &answer).await?;
    end_unless_answered(core, connection, &circuit);
    Ok(())
}

/// Ends a circuit whose dial was answered on a connection that has ended.
pub(crate) fn end_unless_answered(
    core: &ControlCore,
    connection: &RouterConnection,
    circuit: &Arc<Circuit>,
) {
    if connection.is_closed() {
        core.network
            .end_circuit(circuit, true, "its router could not be answered");
    }
}

/// The instance that the client of a router asks for, and what is passed on to the host.
pub(crate) struct RouterDial<'f> {
    pub router: &'f str,
    /// The instance id; empty for none.
    pub instance: &'f str,
    pub passed_on: PassedOn,
}

/// Dials for a session of a client at a router, and answers by `answer` unless it fails. Returns
/// the circuit.
///
/// # Errors
/// The session has no right to it, its data for the host are too long, or no host can be reached.
pub(crate) async fn dial_for_session(
    core: &Arc<ControlCore>,
    found: FoundSession,
    wanted: RouterDial<'_>,
    answer: &(dyn Fn(&Circuit, &DialAnswer<'_>) + Sync),
) -> Result<Arc<Circuit>, RequestFailure> {
    let bytes: usize = wanted
        .passed_on
        .iter()
        .map(|(_, value)| PEER_DATA_HEAD + value.len())
        .sum();
    if bytes > MAX_PEER_DATA {
        let text = format!(
            "the data for the host has {bytes} bytes; at most {MAX_PEER_DATA} are passed on"
        );
        return Err(RequestFailure::new(1, Retry::Never, text));
    }
    let circuit = Arc::new(Circuit::new(NewCircuit {
        id: core.network.ids.circuit_id(),
        router: wanted.router.to_owned(),
        api_session: found.api_session.id,
        token: found.api_session.spec.token,
        session: found.session,
    }));
    let sticky = wanted
        .passed_on
        .iter()
        .find(|(key, _)| *key == key::STICKINESS)
        .map(|(_, terminator)| terminator.clone());
    let request = DialRequest {
        instance: wanted.instance,
        sticky: sticky.as_deref(),
        passed_on: wanted.passed_on,
        adds_caller: false,
        is_wanted: &|| true,
        answer: &|circuit, opened| {
            answer(circuit, opened);
            true
        },
    };
    match network::connect_circuit(&core.network, &circuit, &request).await {
        Ok(()) => Ok(circuit),
        Err(DialFailure { failure, attempts }) => {
            count_refusal(core, &circuit, &failure).await;
            Err(match attempts {
                Some(attempts) => RequestFailure::internal(format!(
                    "exceeded maximum [{attempts}] retries creating circuit [c/{}]: {}",
                    circuit.id, failure.text
                )),
                None => failure,
            })
        }
    }
}

/// What the answer to a dial passes on to the client.
pub(crate) fn answered(opened: &DialAnswer<'_>) -> PassedOn {
    let sticky = opened
        .sticky
        .map(|terminator| (key::STICKINESS, terminator.as_str().into()));
    opened.passed_on.iter().cloned().chain(sticky).collect()
}

fn answer(to: &Frame, circuit: &Circuit, opened: &DialAnswer<'_>) -> Frame {
    Builder::reply(content::CREATE_CIRCUIT_RESPONSE, to)
        .text(key::CIRCUIT_ID, &circuit.id)
        .text(key::INGRESS_ADDRESS, opened.address)
        .bytes(
            key::PEER_DATA,
            &value::of_bytes_by_number(&answered(opened)),
        )
        .bytes(key::TAGS, &value::of_texts_by_text(&opened.tags))
        .empty()
}

/// Counts a dial that was refused for lack of a right or of encryption, for the history.
async fn count_refusal(core: &ControlCore, circuit: &Circuit, failure: &RequestFailure) {
    let Some(reason) = failure.reason.text() else {
        return;
    };
    let (identity, service) = (
        Some(circuit.client.to_string()),
        Some(circuit.service.to_string()),
    );
    let refused = RejectedCaller {
        what: DIAL,
        identity,
        address: None,
        service,
        reason,
    };
    core.network.note_refusal(refused).await;
}
