//! Edge routers as sessions name them, kept in memory: every session names some.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;

use super::json_cache::CachedJson;
use crate::{
    entity::{EdgeRouter, Entity, Facts, FactsExt, Id, Record, edge_router::Common},
    error::Result,
    store::{Cache, CommitNumber, Dependency, Read, Store},
};

/// More than this are not kept: about 7 MB of usual ones.
const ROUTERS: usize = 5_000;

/// A router as a session names it.
#[derive(Serialize, JsonSchema)]
pub struct SessionRouter {
    #[serde(flatten)]
    common: Common,
    /// The same as `supportedProtocols`; older clients read it.
    urls: BTreeMap<String, String>,
}

impl SessionRouter {
    fn of(common: Common) -> Self {
        Self { urls: common.supported_protocols.clone(), common }
    }
}

struct Known {
    router: Record<EdgeRouter>,
    /// How it looks while it is not connected.
    apart: CachedJson<SessionRouter>,
}

/// The routers kept. Cheap to clone.
#[derive(Clone)]
pub struct Routers(Cache<Known>);

impl Routers {
    /// No routers yet, and told of every change in a store from now on.
    pub fn following(store: &Store) -> Self {
        Self(Cache::following(store, |kind| kind == EdgeRouter::KIND, ROUTERS))
    }

    /// The present; to be taken before the transaction begins that routers are read in.
    pub fn now(&self) -> CommitNumber {
        self.0.now()
    }

    /// Those of these routers that exist, in their order, kept from now on.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn find(&self, ids: &[Arc<str>], tx: &Read<'_>, at: CommitNumber) -> Result<Vec<CachedJson<SessionRouter>>> {
        let mut found = Vec::with_capacity(ids.len());
        for (id, known) in ids.iter().zip(self.0.find_all(ids.iter().map(|id| &**id))) {
            let known = if known.is_some() { known } else { self.read(id, tx, at)? };
            let Some(known) = known else { continue };
            found.push(match tx.link(id) {
                None => known.apart.clone(),
                link => CachedJson::of(&SessionRouter::of(Common::with(&known.router, link)))?,
            });
        }
        Ok(found)
    }

    fn read(&self, id: &str, tx: &Read<'_>, at: CommitNumber) -> Result<Option<Arc<Known>>> {
        let Some(router) = tx.find(&Id::from_text(id))? else { return Ok(None) };
        let known = Arc::new(Known { apart: CachedJson::of(&SessionRouter::of(Common::with(&router, None)))?, router });
        self.0.keep(id, known.clone(), vec![Dependency::of_record(EdgeRouter::KIND, id)], at);
        Ok(Some(known))
    }
}
