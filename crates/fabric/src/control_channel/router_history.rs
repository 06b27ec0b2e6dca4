//! History rows of routers that connect and disconnect. A router that is back soon leaves none.

use std::sync::Arc;

use model::{
    entity::{Action, EdgeRouter, HistoryEntry, Id, TransitRouter, TypedLookup},
    error::Result,
};
use serde_json::{Map, Value as Json};
use store::Tx;
use tokio::time::sleep;

use super::{
    connection::{RouterConnection, RouterKind},
    control_core::ControlCore,
};

impl ControlCore {
    /// Writes a row about a router that has connected, unless its last row says so already.
    pub(crate) fn note_connected(self: &Arc<Self>, connection: &Arc<RouterConnection>) {
        if !self.noted.lock().insert(connection.router.clone()) {
            return;
        }
        let mut after = Map::new();
        after.extend(
            connection
                .address
                .map(|address| ("address".into(), address.to_string().into())),
        );
        after.insert(
            "version".into(),
            connection.link.lock().version.version.clone().into(),
        );
        tokio::spawn(note(
            self.clone(),
            connection.clone(),
            Action::Connect,
            after,
        ));
    }

    /// Writes a row about a router that has disconnected, if it is not back soon.
    pub(crate) async fn note_disconnected(
        self: &Arc<Self>,
        connection: &Arc<RouterConnection>,
        reason: &str,
    ) {
        let at = self.network.now();
        sleep(self.times.disconnected).await;
        if self.registry.find(&connection.router).is_some()
            || !self.noted.lock().remove(&connection.router)
        {
            return;
        }
        let after = [
            ("at".to_owned(), Json::from(at.to_string())),
            ("reason".into(), reason.into()),
        ];
        note(
            self.clone(),
            connection.clone(),
            Action::Disconnect,
            after.into_iter().collect(),
        )
        .await;
    }
}

async fn note(
    core: Arc<ControlCore>,
    connection: Arc<RouterConnection>,
    action: Action,
    after: Map<String, Json>,
) {
    let write = move |tx: &Tx<'_>| append_row(tx, &connection, action, after);
    if let Err(error) = core.network.store().write(write).await {
        tracing::warn!(%error, "the connection of a router could not be written into the history");
    }
}

fn append_row(
    tx: &Tx<'_>,
    connection: &RouterConnection,
    action: Action,
    after: Map<String, Json>,
) -> Result<()> {
    let id = connection.router.as_str();
    let (name, entry) = match connection.kind {
        RouterKind::Edge => {
            let found = tx.find(&Id::<EdgeRouter>::from_text(id))?;
            (
                found.map(|router| router.spec.name.clone()),
                HistoryEntry::to::<EdgeRouter>(action, id),
            )
        }
        RouterKind::Transit | RouterKind::BuiltIn => {
            let found = tx.find(&Id::<TransitRouter>::from_text(id))?;
            (
                found.map(|router| router.spec.name.clone()),
                HistoryEntry::to::<TransitRouter>(action, id),
            )
        }
    };
    // The row about its deletion is enough.
    if name.is_none() {
        return Ok(());
    }
    tx.append_history(HistoryEntry {
        name,
        after: Some(after),
        ..entry
    })
}
