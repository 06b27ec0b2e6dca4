//! What edge routers report about API sessions and sessions: which are in use, and which they still
//! know. A router affects only those of identities that may use it.

use std::sync::Arc;

use model::{
    entity::{ApiSession, Id, Session, TypedLookup},
    error::Result,
};
use wire::{control::edge, frame::Frame};

use super::{
    channel_sessions::ChannelSession,
    connection::RouterConnection,
    control_core::ControlCore,
    replies::{IsComplete, Lists, api_sessions_removed, decoded},
    router_rights::MAX_ASKED,
    sync_follower::sessions_removed,
    sync_queue::{CHUNK, EndedSession},
};
use crate::peer_lines::may_log;

/// Maximum sessions and identities in one message of a router.
const MAX_TOKENS: usize = 20_000;

/// Marks API sessions in use at a router as active. Those that have ended, or that the router may
/// not know, are reported as ended.
pub(crate) fn heartbeat(core: &ControlCore, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(report) = Lists::of(connection, frame) else {
        return;
    };
    let tokens: Vec<&str> = report.texts(1).take(MAX_TOKENS).collect();
    for some in tokens.chunks(CHUNK) {
        let found = core.network.store().read(|tx| {
            let found = some.iter().map(|token| {
                let session = tx.linked::<ApiSession>("token", token)?.pop();
                session.map_or(Ok(None), |session| ChannelSession::of(tx, &session))
            });
            found.collect::<Result<Vec<_>>>()
        });
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                if may_log(&connection.router) {
                    tracing::warn!(router = %connection.router, %error, "API sessions cannot be read");
                }
                return;
            }
        };
        let is_ended = |(_, session): &(&&str, Option<ChannelSession>)| {
            !session.as_ref().is_some_and(|session| {
                core.may_know(&connection.router, session) && is_active(core, connection, session)
            })
        };
        let ended: Vec<String> = some
            .iter()
            .zip(found)
            .filter(is_ended)
            .map(|(token, _)| (*token).to_owned())
            .collect();
        if !ended.is_empty() {
            connection.send(api_sessions_removed(ended));
        }
    }
}

/// Marks an API session as active. Returns whether it goes on; also if it cannot be read.
fn is_active(core: &ControlCore, connection: &RouterConnection, session: &ChannelSession) -> bool {
    let authorizer = &core.network.authorizer;
    match authorizer
        .sessions
        .resolve(&authorizer.store, &session.token, authorizer.clock.now())
    {
        Ok(Some(caller)) => {
            connection
                .connected
                .seen(&caller.session.id, &caller.identity.id, core.online());
            true
        }
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Takes a report of the identities whose SDKs are connected. Those that may not use the router are
/// ignored.
pub(crate) fn connect_events(
    core: &ControlCore,
    connection: &Arc<RouterConnection>,
    frame: &Frame,
) {
    let Some((report, full)) =
        Lists::of(connection, frame).zip(decoded::<IsComplete>(connection, frame))
    else {
        return;
    };
    let events: Vec<(String, bool)> = report
        .messages::<edge::ConnectEvent>(1)
        .take(MAX_TOKENS)
        .map(|event| (event.identity_id, event.is_connected))
        .collect();
    let mut identities = Vec::new();
    for some in events.chunks(MAX_ASKED) {
        let may = core.may_use(
            &connection.router,
            &some
                .iter()
                .map(|(identity, _)| identity.as_str())
                .collect::<Vec<_>>(),
        );
        identities.extend(
            some.iter()
                .zip(may)
                .filter(|((_, is_connected), may)| !is_connected || *may)
                .map(|(event, _)| event.clone()),
        );
    }
    connection
        .connected
        .report(&identities, full.is_complete, core.online());
}

/// Reports to a router that was disconnected which of its sessions have ended.
pub(crate) fn validate(core: &ControlCore, connection: &Arc<RouterConnection>, frame: &Frame) {
    let Some(request) = Lists::of(connection, frame) else {
        return;
    };
    let asked: Vec<&str> = request.texts(1).take(MAX_TOKENS).collect();
    for some in asked.chunks(CHUNK) {
        match ended(core, &connection.router, some) {
            Ok(ended) if ended.is_empty() => {}
            Ok(ended) => connection.send(sessions_removed(ended.into_iter())),
            Err(error) => {
                if may_log(&connection.router) {
                    tracing::warn!(router = %connection.router, %error, "sessions cannot be looked up");
                }
                return;
            }
        }
    }
}

/// The tokens and ids of the sessions among these, given by token or id, that do not exist or are
/// not of an identity that may use the router.
fn ended(core: &ControlCore, router: &str, asked: &[&str]) -> Result<Vec<(String, String)>> {
    let identities = core.network.store().read(|tx| {
        let identity = |text: &&str| {
            let id = Session::named_by(text).unwrap_or_else(|| (*text).to_owned());
            Ok(tx
                .find_readable(&Id::<Session>::from_text(id))?
                .map(|session| session.spec.identity_id.to_string()))
        };
        asked.iter().map(identity).collect::<Result<Vec<_>>>()
    })?;
    let may = core.may_use(
        router,
        &identities
            .iter()
            .map(|identity| identity.as_deref().unwrap_or_default())
            .collect::<Vec<_>>(),
    );
    Ok(asked
        .iter()
        .zip(may)
        .filter(|(_, may)| !may)
        .map(|(text, _)| EndedSession::named(text))
        .collect())
}
