//! Edge routers as they are stored, kept in memory: every session names some of them.

use std::sync::Arc;

use crate::{
    entity::{EdgeRouter, Entity, FactsExt, Id, Record},
    error::Result,
    store::{Kept, Mark, Moment, Read, Store},
};

/// More than this are not kept: about 5 MB of usual ones.
const ROUTERS: usize = 5_000;

/// The routers kept. Cheap to clone.
#[derive(Clone)]
pub struct Routers(Kept<Record<EdgeRouter>>);

impl Routers {
    /// No routers yet, and told of every change in a store from now on.
    pub fn following(store: &Store) -> Self {
        Self(Kept::following(store, |kind| kind == EdgeRouter::KIND, ROUTERS))
    }

    /// The present; to be taken before the transaction begins that routers are read in.
    pub fn now(&self) -> Moment {
        self.0.now()
    }

    /// Those of these routers that exist, in their order, kept from now on.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn find(&self, ids: &[Arc<str>], tx: &Read<'_>, at: Moment) -> Result<Vec<Arc<Record<EdgeRouter>>>> {
        let mut found = Vec::with_capacity(ids.len());
        for (id, known) in ids.iter().zip(self.0.find_all(ids.iter().map(|id| &**id))) {
            found.extend(if known.is_some() { known } else { self.read(id, tx, at)? });
        }
        Ok(found)
    }

    fn read(&self, id: &str, tx: &Read<'_>, at: Moment) -> Result<Option<Arc<Record<EdgeRouter>>>> {
        let router = tx.find(&Id::from_text(id))?.map(Arc::new);
        if let Some(router) = &router {
            self.0.keep(id, router.clone(), vec![Mark::of_record(EdgeRouter::KIND, id)], at);
        }
        Ok(router)
    }
}
