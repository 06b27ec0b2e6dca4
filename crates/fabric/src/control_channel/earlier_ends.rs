//! Ends circuits from before the start of the controller at the routers that still carry them
//! (`earlier_circuits.rs`).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use model::{
    entity::{ApiSession, EdgeRouter, Id, Session},
    error::Result,
};
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    channel_sessions::ChannelSession,
    connection::RouterConnection,
    control_core::ControlCore,
    earlier_circuits::Ended,
    replies::api_sessions_removed,
    sync_queue::{CHUNK, Notice},
};

/// Ends the earlier circuits at a router whose sessions have ended. A router where this fails is
/// disconnected; they end when it connects again.
pub(crate) async fn end(core: Arc<ControlCore>, connection: Arc<RouterConnection>) {
    let telling = connection.telling.lock().await;
    let (ended, count) = core.earlier.untold(&connection.router, connection.number);
    if ended.is_empty() {
        return;
    }
    let (reader, router) = (core.clone(), connection.router.clone());
    let api_sessions = match spawn_blocking(move || affected(&reader, &router, &ended)).await {
        Ok(Ok(api_sessions)) => api_sessions,
        failed => {
            tracing::warn!(router = %connection.router, ?failed, "API sessions cannot be read");
            return connection.close();
        }
    };
    for some in api_sessions.chunks(CHUNK) {
        connection.send(api_sessions_removed(
            some.iter().map(|(_, token)| token.clone()).collect(),
        ));
    }
    core.earlier
        .told(&connection.router, connection.number, count);
    drop(telling);
    if api_sessions.is_empty() {
        return;
    }
    tracing::info!(router = %connection.router, count = api_sessions.len(), "circuits from before the start end with their access");
    // Routers process messages about API sessions side by side.
    sleep(core.times.ending).await;
    let ids = api_sessions.into_iter().map(|(id, _)| Id::from_text(id));
    core.sync
        .record(Notice::AddedAgain(connection.number, ids.collect()));
}

/// Reads what there is from before the start. Blocks.
pub(crate) fn scan(core: &ControlCore) {
    let (mut routers, mut last) = (HashSet::new(), None);
    let read = core.network.store().read(|tx| {
        tx.each_readable::<EdgeRouter>(|router| {
            if !router.is_built_in() {
                routers.insert(router.id.into_text());
            }
            Ok(())
        })?;
        // Without routers nobody has circuits from before.
        if routers.is_empty() {
            return Ok(());
        }
        tx.each_readable::<Session>(|session| {
            last = last.max(Some(session.created_at));
            Ok(())
        })
    });
    match read {
        Ok(()) => core.earlier.scanned(routers, last),
        Err(error) => tracing::warn!(%error, "the sessions from before the start cannot be read"),
    }
}

/// The selected API sessions that still exist and that the router may know: ids and tokens. Routers
/// learn of those that have ended from the changes of the store.
fn affected(core: &ControlCore, router: &str, ended: &[Ended]) -> Result<Vec<(String, String)>> {
    let mut found: HashMap<String, ChannelSession> = HashMap::new();
    core.network.store().read(|tx| {
        for ended in ended {
            match ended {
                Ended::Of(id) if found.contains_key(id.as_str()) => {}
                Ended::Of(id) => found.extend(
                    ChannelSession::find(tx, id.as_str())?
                        .map(|session| (session.id.clone(), session)),
                ),
                Ended::Some => tx.each_readable::<ApiSession>(|session| {
                    if core.earlier.is_earlier(session.created_at)
                        && let Some(session) = ChannelSession::find(tx, session.id.as_str())?
                    {
                        found.insert(session.id.clone(), session);
                    }
                    Ok(())
                })?,
            }
        }
        Ok(())
    })?;
    let known = found
        .into_values()
        .filter(|session| core.may_know(router, session));
    Ok(known.map(|session| (session.id, session.token)).collect())
}
