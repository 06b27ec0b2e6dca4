//! The cache of edge routers as they appear in sessions.

use std::{collections::BTreeMap, sync::Arc};

use model::{
    entity::{EdgeRouter, Entity, Id, Lookup, Record, TypedLookup, edge_router::Common},
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Cache, CommitNumber, Dependency, OpenStore, Read};

use super::json_cache::CachedJson;

/// The maximum number of cached routers: about 7 MB of typical ones.
const ROUTERS: usize = 5_000;

/// A router in a session.
#[derive(Serialize, JsonSchema)]
pub struct SessionRouter {
    #[serde(flatten)]
    common: Common,
    /// Equal to `supportedProtocols`; for older clients.
    urls: BTreeMap<String, String>,
}

impl SessionRouter {
    fn of(common: Common) -> Self {
        Self {
            urls: common.supported_protocols.clone(),
            common,
        }
    }
}

struct CachedRouter {
    router: Record<EdgeRouter>,
    /// The router as shown while it is not connected.
    disconnected: CachedJson<SessionRouter>,
}

/// The cached routers. Cheap to clone.
#[derive(Clone)]
pub struct RouterCache(Cache<CachedRouter>);

impl RouterCache {
    /// An empty cache that follows the changes of a store.
    pub fn following(store: &OpenStore) -> Self {
        Self(Cache::following(
            store,
            |kind| kind == EdgeRouter::KIND,
            ROUTERS,
        ))
    }

    /// The present commit number. It must be taken before the transaction in which routers are
    /// read.
    pub fn now(&self) -> CommitNumber {
        self.0.now()
    }

    /// The routers with these ids, in order, without those that do not exist. The routers are
    /// cached.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn find(
        &self,
        ids: &[Arc<str>],
        tx: &Read<'_>,
        at: CommitNumber,
    ) -> Result<Vec<CachedJson<SessionRouter>>> {
        let mut found = Vec::with_capacity(ids.len());
        for (id, known) in ids.iter().zip(self.0.find_all(ids.iter().map(|id| &**id))) {
            let known = if known.is_some() {
                known
            } else {
                self.read(id, tx, at)?
            };
            let Some(known) = known else { continue };
            found.push(match tx.router_info(id) {
                None => known.disconnected.clone(),
                link => CachedJson::of(&SessionRouter::of(Common::with(&known.router, link)))?,
            });
        }
        Ok(found)
    }

    fn read(&self, id: &str, tx: &Read<'_>, at: CommitNumber) -> Result<Option<Arc<CachedRouter>>> {
        let Some(router) = tx.find(&Id::from_text(id))? else {
            return Ok(None);
        };
        let known = Arc::new(CachedRouter {
            disconnected: CachedJson::of(&SessionRouter::of(Common::with(&router, None)))?,
            router,
        });
        self.0.insert(
            id,
            known.clone(),
            vec![Dependency::of_record(EdgeRouter::KIND, id)],
            at,
        );
        Ok(Some(known))
    }
}
