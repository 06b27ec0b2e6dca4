//! Requests of routers that dial and host services themselves, as the identity that has the id and
//! the name of the router.

use std::sync::Arc;

use model::entity::ConfigType;
use parking_lot::Mutex;
use policy::{access::Right, authentication::login};
use prost::Message;
use tokio::{task::spawn_blocking, time::sleep};
use wire::{
    control::{content, edge, tunnel},
    frame::{Builder, Frame},
};

use super::{
    bind,
    connection::RouterConnection,
    control_core::ControlCore,
    replies::{body, error},
    terminator_changes, tunnel_services,
    tunnel_session::{
        Answer, ensure_open, opened, session, session_of_router, session_response, take_untold,
    },
    tunneler::Tunneler,
};
use crate::{
    network::{RequestFailure, unreadable},
    peer_lines::may_log,
};

/// The `binding` of the terminators of such a router.
pub(crate) const BINDING: &str = "tunnel";
/// The code of a refusal because there is no such terminator.
const INVALID_TERMINATOR: u32 = 8;
/// Maximum config types that a router asks for.
const MAX_CONFIG_TYPES: usize = 1000;

/// Answers a request in a task of its own, with the body that `work` returns or with an error.
fn answer<M, W>(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
    kind: i32,
    work: W,
) where
    M: Message,
    W: Future<Output = Answer<M>> + Send + 'static,
{
    let Some(request) = connection.begin_request(frame.len()) else {
        return connection.send(error(&frame, 1, "too many requests at the same time"));
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        match work.await {
            Ok(message) => {
                connection.send(Builder::reply(kind, &frame).body(&message.encode_to_vec()))
            }
            Err(failure) => refuse(&core, &connection, &frame, &failure).await,
        }
        drop(request);
    });
}

/// Answers with an error after a pause, because routers repeat refused requests at once.
pub(crate) async fn refuse(
    core: &ControlCore,
    connection: &RouterConnection,
    frame: &Frame,
    failure: &RequestFailure,
) {
    tracing::debug!(router = %connection.router, reason = %failure.text, "a request of a tunneler is refused");
    sleep(core.times.refusal).await;
    connection.send(error(frame, failure.code, &failure.text));
}

/// Opens an API session of the router, or finds the one that it has.
pub(crate) fn open(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(mut asked) = body::<tunnel::CreateApiSession>(connection, &frame) else {
        return;
    };
    asked.config_types.truncate(MAX_CONFIG_TYPES);
    // Routers from version 1.4 on ask for every type; no name means the same.
    if asked.config_types.is_empty() {
        asked.config_types.push(ConfigType::ALL.into());
    }
    let (at, of) = (core.clone(), connection.clone());
    answer(
        core,
        connection,
        frame,
        content::TUNNEL_API_SESSION_RESPONSE,
        async move {
            let _opening = of.opening.lock().await;
            let (identity, api_session) = session_of_router(&at, &of, &asked).await?;
            let config_types = at
                .network
                .store()
                .read(|tx| login::config_types(tx, &asked.config_types))
                .map_err(unreadable)?;
            let opened = opened(&at, &identity, &api_session);
            of.connected
                .seen(&api_session.id, &identity.id, at.online());
            let untold = Mutex::new(None);
            *of.tunneler.lock() = Some(Arc::new(Tunneler {
                identity: identity.id,
                api_session,
                config_types,
                untold,
            }));
            Ok(opened)
        },
    );
}

/// Sends the services of the router if they differ from those that it knows. Counts as activity of
/// its API session.
pub(crate) fn list_services(
    core: &Arc<ControlCore>,
    connection: &Arc<RouterConnection>,
    frame: Frame,
) {
    let Some(request) = connection.begin_request(frame.len()) else {
        return;
    };
    let (core, connection) = (core.clone(), connection.clone());
    tokio::spawn(async move {
        match ensure_open(&core, &connection).await {
            Ok(()) => drop(spawn_blocking(move || send_services(&core, &connection, &frame)).await),
            Err(refusal) => {
                tracing::debug!(router = %connection.router, reason = %refusal.text, "a tunneler gets no services")
            }
        }
        drop(request);
    });
}

fn send_services(core: &ControlCore, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(tunneler) = connection.tunneler.lock().clone() else {
        return;
    };
    match tunnel_services::list(core, &tunneler) {
        Ok(list) if list.last_update == frame.body() => {}
        Ok(list) => {
            connection.send(Builder::new(content::TUNNEL_SERVICES).body(&list.encode_to_vec()))
        }
        Err(error) if may_log(&connection.router) => {
            tracing::warn!(router = %connection.router, %error, "the services of a tunneler cannot be listed");
        }
        Err(_) => {}
    }
}

/// Creates a terminator at the router itself.
pub(crate) fn host(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(asked) = body::<tunnel::CreateTerminator>(connection, &frame) else {
        return;
    };
    let (at, of) = (core.clone(), connection.clone());
    answer(
        core,
        connection,
        frame,
        content::TUNNEL_TERMINATOR_RESPONSE,
        async move {
            let tunnel::CreateTerminator {
                service_name,
                address,
                peer_data,
                cost,
                precedence,
                start_time,
                ..
            } = asked;
            let tunnel::CreateTerminator {
                instance_id,
                instance_secret,
                ..
            } = asked;
            ensure_open(&at, &of).await?;
            let found = session(&at, &of, &service_name, Right::Bind).await?;
            let wanted = edge::CreateTerminator {
                address,
                peer_data,
                cost,
                precedence,
                instance_id,
                instance_secret,
                ..Default::default()
            };
            if let Err(refusal) = bind::host_for(&at, &of, &wanted, &found, BINDING).await {
                let failure = refusal.failure.clone();
                bind::count_refusal(&at, refusal).await;
                return Err(failure);
            }
            let (api_session, session) = (take_untold(&of), session_response(&found.session));
            Ok(tunnel::CreateTerminatorResponse {
                api_session,
                session,
                terminator_id: wanted.address,
                start_time,
            })
        },
    );
}

/// Changes cost or precedence of a terminator.
pub(crate) fn update(core: &Arc<ControlCore>, connection: &Arc<RouterConnection>, frame: Frame) {
    let Some(asked) = body::<tunnel::UpdateTerminator>(connection, &frame) else {
        return;
    };
    let tunnel::UpdateTerminator {
        terminator_id,
        cost,
        precedence,
        update_precedence,
        update_cost,
    } = asked;
    let wanted = edge::UpdateTerminator {
        terminator_id,
        cost,
        precedence,
        update_precedence,
        update_cost,
        ..Default::default()
    };
    terminator_changes::change(
        core,
        connection,
        frame,
        &wanted,
        content::TUNNEL_UPDATE_TERMINATOR_RESPONSE,
    );
}

/// Removes a terminator.
pub(crate) fn unhost(core: &ControlCore, connection: &RouterConnection, frame: &Frame) {
    let id = String::from_utf8_lossy(frame.body());
    match core
        .network
        .terminators
        .find(&id)
        .filter(|known| known.hosted.router == connection.router)
    {
        Some(hosted) => {
            core.network.end_terminator(&hosted);
            connection
                .send(Builder::reply(content::TUNNEL_REMOVE_TERMINATOR_RESPONSE, frame).empty());
        }
        None => connection.send(error(
            frame,
            INVALID_TERMINATOR,
            "invalid terminator: not found",
        )),
    }
}
