//! Work on many records in bounded steps, so that nobody's write waits for all of it.

use super::{Store, Tx};
use crate::{
    clock::Timestamp,
    entity::{Entity, Id},
    error::Result,
    query::Value,
};

/// Records per transaction.
const BATCH: usize = 256;

impl Store {
    /// Does something to every item, some in each transaction; each step stands or falls by itself.
    ///
    /// # Errors
    /// The first; earlier steps stay.
    pub async fn in_batches<T: Send + 'static>(
        &self,
        items: Vec<T>,
        each: impl Fn(&Tx<'_>, T) -> Result<()> + Clone + Send + 'static,
    ) -> Result<()> {
        let mut items = items.into_iter();
        loop {
            let some: Vec<T> = items.by_ref().take(BATCH).collect();
            if some.is_empty() {
                return Ok(());
            }
            let each = each.clone();
            self.write(move |tx| some.into_iter().try_for_each(|item| each(tx, item))).await?;
        }
    }

    /// Deletes with `remove` the records whose date in the indexed `field` lies before a time, and says how many it was called for.
    /// What `remove` leaves in place does not keep it going.
    ///
    /// # Errors
    /// The first; earlier steps stay.
    pub async fn expire<E: Entity>(
        &self,
        field: &'static str,
        before: Timestamp,
        remove: impl Fn(&Tx<'_>, &Id<E>) -> Result<()> + Clone + Send + 'static,
    ) -> Result<usize> {
        let mut last = Vec::new();
        let mut removed = 0;
        loop {
            let remove = remove.clone();
            // Looked up in the same transaction: what was prolonged meanwhile is no longer among them.
            let step = move |tx: &Tx<'_>| {
                let ids = tx.ids_below::<E>(field, &Value::Date(before.millis()), BATCH)?;
                ids.iter().try_for_each(|id| remove(tx, id)).map(|()| ids)
            };
            let ids = self.write(step).await?;
            if ids == last {
                return Ok(removed);
            }
            removed += ids.len();
            last = ids;
        }
    }
}
