//! Rows of the index by fields that an earlier release looked records up by and this one does not ([`Entity::FORMER`]). They are of no use
//! and no fault: a check passes them over, and nobody keeps them up to date.
//!
//! [`Entity::FORMER`]: crate::entity::Entity::FORMER

use std::ops::{Bound, ControlFlow};

use super::{Read, Store, index, registry::Registry, tables::Table};
use crate::error::Result;

/// Rows dropped in one transaction.
const BATCH: usize = 16_384;

impl Registry {
    /// Whether a row of the index is one of these.
    pub(super) fn is_former(&self, key: &[u8]) -> bool {
        self.former().iter().any(|field| key.starts_with(field))
    }
}

impl Read<'_> {
    /// The keys of some of them.
    fn former_rows(&self) -> Result<Vec<Vec<u8>>> {
        let mut rows = Vec::new();
        for field in self.core.registry.former() {
            let end = index::after(field);
            self.scan(Table::Index, (Bound::Included(field), Bound::Excluded(&end)), &mut |key, _| {
                rows.push(key.to_vec());
                Ok(if rows.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
        }
        Ok(rows)
    }
}

impl Store {
    /// Drops them all. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written; what is left goes the next time.
    pub fn drop_former(&self) -> Result<()> {
        let mut dropped = 0;
        loop {
            let rows = self.read(|read| read.former_rows())?;
            if rows.is_empty() {
                break;
            }
            dropped += rows.len();
            self.write_blocking(move |tx| rows.iter().try_for_each(|key| tx.rows.remove(Table::Index, key)))?;
        }
        if dropped > 0 {
            tracing::info!(rows = dropped, "dropped rows of the index that only an earlier release used");
        }
        Ok(())
    }
}
