//! Very many records that end at once: it is written down that they are over, which costs one row, and they are deleted some at a time
//! while nobody waits.
//!
//! A row holds for all records of a kind with one value in one of its [`Entity::ENDS_BY`], and begins an era: those made in an earlier one
//! are over (`entity/tombstone.rs`). Its key is what the keys of their index entries begin with. Key to value: `[era u64, little endian][JSON
//! of [`TombstoneRecord`]]`. Invariant: as long as one of the records is left, so is the row; a crash in between changes nothing.
//! Until a record is deleted, what it has that must be unique is taken.

use std::ops::{Bound, ControlFlow};

use serde::{Deserialize, Serialize};

use super::{
    delete,
    read::text,
    tables::{ALL, Table},
};
use crate::store::{Event, KindEntry, Read, Store, Tombstone, Tx, index, list::plan::flow};
use crate::{
    entity::{Author, Entity, Epoch, Id, Kind, Record},
    error::{Error, Result},
};

/// Up to this many records with one value are deleted at once, in the transaction that ends them.
pub const AT_ONCE: usize = 200;
/// Once so many are, with all values together, the rest is ended.
pub const IN_ALL: usize = 3 * AT_ONCE;
/// The setting that counts endings.
const ERA: &str = "era";

/// What is noted of an ending beside its era.
#[derive(Serialize, Deserialize)]
struct TombstoneRecord {
    /// The kind's name.
    kind: String,
    /// Who ended them.
    by: Author,
}

/// An ending whose records are still to be deleted.
struct Pending {
    /// What the keys of their index entries begin with.
    prefix: Vec<u8>,
    era: Epoch,
    note: TombstoneRecord,
}

impl Pending {
    fn of(prefix: &[u8], row: &[u8]) -> Result<Self> {
        let (era, note) = row.split_first_chunk().ok_or_else(unreadable)?;
        let note = serde_json::from_slice(note).map_err(|_| unreadable())?;
        Ok(Self { prefix: prefix.to_vec(), era: Epoch::from_le_bytes(*era), note })
    }

    /// The kind of its records, and the kind's place in the registry.
    fn kind(&self, read: &Read<'_>) -> Option<(usize, &'static KindEntry)> {
        read.core.registry.entries().iter().enumerate().find(|(_, entry)| entry.kind.name == self.note.kind)
    }
}

/// Records of an ending that are deleted in one step.
struct DeletionBatch {
    ending: Pending,
    ids: Vec<String>,
    /// Whether there are no others.
    is_all: bool,
}

fn unreadable() -> Error {
    Error::Storage("a row of the endings is damaged".into())
}

impl Read<'_> {
    /// How many endings there have been: what is made now belongs to this era.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn era(&self) -> Result<Epoch> {
        let Some(bytes) = self.setting(ERA)? else { return Ok(0) };
        bytes.try_into().map(Epoch::from_le_bytes).map_err(|_| unreadable())
    }

    /// The era that began when the records were last ended whose index entries have keys with this prefix.
    pub(crate) fn ended_behind(&self, prefix: &[u8]) -> Result<Epoch> {
        let mut era = 0;
        self.rows.get(Table::Endings, prefix, &mut |row| {
            era = row.first_chunk().map(|era| Epoch::from_le_bytes(*era)).ok_or_else(unreadable)?;
            Ok(())
        })?;
        Ok(era)
    }

    /// The ids of a kind's records with a value, unless they are more than so many.
    pub(crate) fn few_ids(&self, kind: Kind, field: &str, value: &str, most: usize) -> Result<Option<Vec<String>>> {
        let mut ids = Vec::new();
        self.visit_ids(kind, field, value.as_bytes(), &mut |id| {
            ids.push(id.to_owned());
            Ok(flow(ids.len() <= most))
        })?;
        Ok((ids.len() <= most).then_some(ids))
    }

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
    /// The records of a kind that have a value, to be deleted one by one. If they are more than can be while others wait, and the field is
    /// one of [`Entity::ENDS_BY`], they are ended and none of them is answered; neither is one that was ended before.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn few_or_end<E: Entity>(&self, field: &'static str, value: &str) -> Result<Vec<Record<E>>> {
        match self.few::<E>(field, value)? {
            Some(few) => few.into_iter().filter_map(|id| self.find_readable(&Id::from_text(id)).transpose()).collect(),
            None => self.end(E::KIND, field, value).map(|()| Vec::new()),
        }
    }

    /// Whether [`Tx::few_or_end`] would end the records. One that is to go on must be of the era that this begins, which is the next one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn would_end<E: Entity>(&self, field: &'static str, value: &str) -> Result<bool> {
        Ok(self.few::<E>(field, value)?.is_none())
    }

    fn few<E: Entity>(&self, field: &'static str, value: &str) -> Result<Option<Vec<String>>> {
        let most = if E::ENDS_BY.contains(&field) { AT_ONCE } else { usize::MAX };
        self.few_ids(E::KIND, field, value, most)
    }

    pub(crate) fn end(&self, kind: Kind, field: &'static str, value: &str) -> Result<()> {
        let era = self.era()?.saturating_add(1);
        self.set_setting(ERA, Some(&era.to_le_bytes()))?;
        let note = TombstoneRecord { kind: kind.name.into(), by: (*self.author).clone() };
        let note = serde_json::to_vec(&note).map_err(|e| Error::Internal(format!("the row of an ending: {e}")))?;
        let row = [era.to_le_bytes().as_slice(), &note].concat();
        self.rows.insert(Table::Endings, &index::prefix(kind, field, value.as_bytes()), &row)?;
        self.events.borrow_mut().push(Event::ended(kind, Tombstone { field, value: value.to_owned(), era }));
        Ok(())
    }

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
