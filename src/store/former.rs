//! Rows of the index by fields that an earlier release looked records up by and this one does not. They are nobody's fault and of no use:
//! a check passes them over, and they go when the file is opened to be written.

use std::ops::{Bound, ControlFlow};

use super::{Read, Store, index, registry::Registry, select::flow, tables::Table};
use crate::error::Result;

/// Rows dropped in one transaction.
const BATCH: usize = 512;

impl Registry {
    /// Whether a field is one of a kind that this release knows, and in no index of its.
    pub(super) fn is_former(&self, kind: &str, field: &str) -> bool {
        self.entries().iter().any(|entry| entry.kind.name == kind && !(entry.is_indexed)(field))
    }
}

impl Read<'_> {
    /// The keys of such rows, at most so many. Of each field one row is read that stays.
    fn former_rows(&self, most: usize) -> Result<Vec<Vec<u8>>> {
        let (mut former, mut from) = (Vec::new(), Some(Vec::new()));
        while let Some(start) = from.take() {
            self.scan(Table::Index, (Bound::Included(&start), Bound::Unbounded), &mut |key, _| match index::field_of(key) {
                Some((kind, field, _)) if self.core.registry.is_former(kind, field) => {
                    former.push(key.to_vec());
                    Ok(flow(former.len() < most))
                }
                Some((_, _, length)) => {
                    from = key.get(..length).map(index::after);
                    Ok(ControlFlow::Break(()))
                }
                // For a check to tell.
                None => Ok(ControlFlow::Continue(())),
            })?;
        }
        Ok(former)
    }
}

impl Store {
    /// Drops them all. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written; those that are left go the next time.
    pub(super) fn drop_former(&self) -> Result<()> {
        while !self.read(|read| read.former_rows(1))?.is_empty() {
            self.write_blocking(|tx| tx.former_rows(BATCH)?.iter().try_for_each(|key| tx.rows.remove(Table::Index, key)))?;
        }
        Ok(())
    }
}
