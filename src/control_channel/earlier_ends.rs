//! Ends circuits from before the start of the controller at the routers that still carry them (`earlier_circuits.rs`).

use std::{collections::HashMap, sync::Arc};

use tokio::time::sleep;

use super::{
    answers::api_sessions_removed,
    connection::RouterConnection,
    core::Core,
    earlier_circuits::Ended,
    sync_queue::{CHUNK, Notice},
};
use crate::{
    entity::{ApiSession, FactsExt, Id},
    error::Result,
};

/// Ends the earlier circuits at a router whose sessions have ended.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn end(core: &Arc<Core>, connection: &Arc<RouterConnection>) -> Result<()> {
    let ended = core.earlier.untold(&connection.router);
    if ended.is_empty() {
        return Ok(());
    }
    let api_sessions = affected(core, &ended)?;
    tracing::info!(router = %connection.router, count = api_sessions.len(), "circuits from before the start end with their access");
    for some in api_sessions.chunks(CHUNK) {
        connection.send(api_sessions_removed(some.iter().map(|(_, token)| token.clone()).collect()));
    }
    core.earlier.told(&connection.router, ended.len());
    // Routers process messages about API sessions side by side.
    let core = core.clone();
    tokio::spawn(async move {
        sleep(core.times.ending).await;
        api_sessions.into_iter().for_each(|(id, _)| core.sync.record(Notice::Added(Id::from_text(id))));
    });
    Ok(())
}

/// The ids of the API sessions that are meant and still exist, with their tokens. Routers are told elsewhere of those that have ended.
fn affected(core: &Core, ended: &[Ended]) -> Result<Vec<(String, String)>> {
    let mut found: HashMap<String, String> = HashMap::new();
    core.parts.rights.store.read(|tx| {
        for ended in ended {
            match ended {
                Ended::Of(id) if found.contains_key(id.as_str()) => {}
                Ended::Of(id) => found.extend(tx.find(id)?.map(|session| (session.id.into_text(), session.spec.token))),
                Ended::Some => tx.each_readable::<ApiSession>(|session| {
                    if session.created_at <= core.earlier.start && tx.find_readable(&session.id)?.is_some() {
                        found.insert(session.id.into_text(), session.spec.token);
                    }
                    Ok(())
                })?,
            }
        }
        Ok(())
    })?;
    Ok(found.into_iter().collect())
}
