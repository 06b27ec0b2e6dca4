//! Clearing away records that were ended together: some at a time, each part in a transaction of its own.

use std::ops::{Bound, ControlFlow};

use super::{
    delete,
    read::{Read, flow, text},
    tables::{ALL, Table},
    tombstone::Pending,
    write::Tx,
};
use crate::{
    error::Result,
    store::{handle::Store, index},
};

/// Records of an ending that are deleted in one step.
struct DeletionBatch {
    ending: Pending,
    ids: Vec<String>,
    /// Whether there are no others.
    is_all: bool,
}

impl Read<'_> {
    /// What one step of clearing away takes: records of the first endings, as far as one author is behind them.
    fn shares(&self, most: usize) -> Result<Vec<DeletionBatch>> {
        let (mut shares, mut left) = (Vec::<DeletionBatch>::new(), most);
        self.scan(Table::Endings, ALL, &mut |prefix, row| {
            let ending = Pending::of(prefix, row)?;
            if shares.first().is_some_and(|first| first.ending.note.by != ending.note.by) {
                return Ok(ControlFlow::Break(()));
            }
            let ids = self.left_of(&ending, left)?;
            let is_all = ids.len() < left;
            left = left.saturating_sub(ids.len().max(1));
            shares.push(DeletionBatch { ending, ids, is_all });
            Ok(flow(left > 0))
        })?;
        Ok(shares)
    }

    /// Some of the records that an ending is about, at most so many. One that cannot be read is not among them: it stays, for somebody to
    /// see.
    fn left_of(&self, pending: &Pending, most: usize) -> Result<Vec<String>> {
        let (mut left, end) = (Vec::new(), index::after(&pending.prefix));
        let Some((place, entry)) = pending.kind(self) else { return Ok(left) };
        self.scan(Table::Index, (Bound::Included(&pending.prefix), Bound::Excluded(&end)), &mut |key, _| {
            let id = text(key.get(pending.prefix.len()..).unwrap_or_default())?;
            let record = self.bytes(Table::Records(place), id.as_bytes())?;
            if record.is_some_and(|bytes| (entry.era)(id, &bytes).is_ok_and(|era| era < pending.era)) {
                left.push(id.to_owned());
            }
            Ok(flow(left.len() < most))
        })?;
        Ok(left)
    }
}

impl Tx<'_> {
    /// Deletes the records of some shares, one after the other until `most` are gone with what goes with them. An ending that nothing is
    /// left of is forgotten, unless there was another one meanwhile.
    fn clear(&self, shares: &[DeletionBatch], most: usize) -> Result<()> {
        for DeletionBatch { ending, ids, is_all } in shares {
            if let Some((place, entry)) = ending.kind(self) {
                for id in ids {
                    if self.events.borrow().len() >= most {
                        return Ok(());
                    }
                    if self.bytes(Table::Records(place), id.as_bytes())?.is_some() {
                        self.whole(|| delete::delete(self, entry.kind, id))?;
                    }
                }
            }
            if *is_all && self.ended_behind(&ending.prefix)? == ending.era {
                self.rows.remove(Table::Endings, &ending.prefix)?;
            }
        }
        Ok(())
    }
}

impl Store {
    /// Deletes some of the records that were ended, about `most` in one transaction and in the name of whoever ended them. Says whether
    /// there was anything to do; then there may be more. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn clear_ended(&self, most: usize) -> Result<bool> {
        let shares = self.read(|read| read.shares(most))?;
        let Some(first) = shares.first() else { return Ok(false) };
        let ender = self.by(first.ending.note.by.clone());
        ender.write_blocking(move |tx| tx.clear(&shares, most)).map(|()| true)
    }
}
