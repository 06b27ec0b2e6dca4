//! Removal of the records under tombstones, in batches, each in a transaction of its own.

use std::ops::{Bound, ControlFlow};

use super::{
    delete,
    read::{Read, flow, text},
    tables::{ALL, Table},
    tombstone::PendingTombstone,
    write::Tx,
};
use crate::{handle::Store, index};
use model::error::Result;

/// The records of a tombstone that are removed in one step.
struct DeletionBatch {
    tombstone: PendingTombstone,
    ids: Vec<String>,
    /// Whether these are all remaining records of the tombstone.
    is_all: bool,
}

impl Read<'_> {
    /// The batches of one removal step: records of the first tombstones, up to the first with
    /// another author.
    fn batches(&self, limit: usize) -> Result<Vec<DeletionBatch>> {
        let (mut batches, mut left) = (Vec::<DeletionBatch>::new(), limit);
        self.scan(Table::Endings, ALL, &mut |prefix, row| {
            let tombstone = PendingTombstone::of(prefix, row)?;
            if batches
                .first()
                .is_some_and(|first| first.tombstone.note.by != tombstone.note.by)
            {
                return Ok(ControlFlow::Break(()));
            }
            let ids = self.remaining_ids(&tombstone, left)?;
            let is_all = ids.len() < left;
            left = left.saturating_sub(ids.len().max(1));
            batches.push(DeletionBatch {
                tombstone,
                ids,
                is_all,
            });
            Ok(flow(left > 0))
        })?;
        Ok(batches)
    }

    /// Up to `limit` records that a tombstone covers. A record that cannot be read is left out and
    /// kept, so that the damage stays visible.
    fn remaining_ids(&self, pending: &PendingTombstone, limit: usize) -> Result<Vec<String>> {
        let (mut left, end) = (Vec::new(), index::after(&pending.prefix));
        let Some((place, entry)) = pending.kind(self) else {
            return Ok(left);
        };
        self.scan(
            Table::Index,
            (Bound::Included(&pending.prefix), Bound::Excluded(&end)),
            &mut |key, _| {
                let id = text(key.get(pending.prefix.len()..).unwrap_or_default())?;
                let record = self.bytes(Table::Records(place), id.as_bytes())?;
                if record.is_some_and(|bytes| {
                    (entry.epoch)(id, &bytes).is_ok_and(|epoch| epoch < pending.epoch)
                }) {
                    left.push(id.to_owned());
                }
                Ok(flow(left.len() < limit))
            },
        )?;
        Ok(left)
    }
}

impl Tx<'_> {
    /// Removes the records of these batches, with their dependents, until about `limit` are
    /// removed. A tombstone without records left is removed, unless a newer one replaced it
    /// meanwhile.
    fn clear(&self, batches: &[DeletionBatch], limit: usize) -> Result<()> {
        for DeletionBatch {
            tombstone,
            ids,
            is_all,
        } in batches
        {
            if let Some((place, entry)) = tombstone.kind(self.read()) {
                for id in ids {
                    if self.events.borrow().len() >= limit {
                        return Ok(());
                    }
                    if self
                        .read()
                        .bytes(Table::Records(place), id.as_bytes())?
                        .is_some()
                    {
                        self.whole(|| delete::delete(self, entry.kind, id))?;
                    }
                }
            }
            if *is_all && self.read().tombstone_epoch(&tombstone.prefix)? == tombstone.epoch {
                self.rows.remove(Table::Endings, &tombstone.prefix)?;
            }
        }
        Ok(())
    }
}

impl Store {
    /// Removes records under tombstones, about `limit` in one transaction, with the author of the
    /// tombstone. Returns whether there was anything to remove; then there may be more. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remove_deleted(&self, limit: usize) -> Result<bool> {
        let batches = self.read(|read| read.batches(limit))?;
        let Some(first) = batches.first() else {
            return Ok(false);
        };
        let ender = self.by(first.tombstone.note.by.clone());
        ender
            .write_blocking(move |tx| tx.clear(&batches, limit))
            .map(|()| true)
    }
}
