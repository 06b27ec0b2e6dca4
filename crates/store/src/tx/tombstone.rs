//! Deletion of very many records at once: one row, a tombstone, marks them all as deleted. They are
//! removed in batches later.
//!
//! A tombstone covers all records of a kind with one value in one of its [`Entity::ENDS_BY`] fields
//! and begins an epoch: records of an earlier epoch are deleted (`entity/tombstone.rs`). Its key is
//! the prefix of their index keys. Its value is `[epoch u64, little endian][JSON of
//! [`TombstoneRecord`]]`.
//!
//! Invariant: the tombstone stays as long as one of its records is stored, so that a crash changes
//! nothing. Until a record is removed, its unique values are taken.

use serde::{Deserialize, Serialize};

use super::{
    read::{Read, flow},
    tables::Table,
    write::Tx,
};
use crate::{
    event::{Event, Tombstone},
    index,
    registry::KindEntry,
};
use model::{
    entity::{Author, Entity, Epoch, Id, Kind, Record},
    error::{Error, Result},
};

/// Up to this many records with one value are deleted in the transaction itself.
pub(crate) const MAX_PER_VALUE: usize = 200;
/// Once this many records are deleted in a transaction, over all values, tombstones are written for
/// the rest.
pub(crate) const MAX_PER_TRANSACTION: usize = 3 * MAX_PER_VALUE;
/// The setting that counts tombstones.
const EPOCH: &str = "era";

/// The content of a tombstone besides its epoch.
#[derive(Serialize, Deserialize)]
pub(super) struct TombstoneRecord {
    /// The kind's name.
    kind: String,
    /// Who deleted them.
    pub(super) by: Author,
}

/// A tombstone whose records are not all removed yet.
pub(super) struct PendingTombstone {
    /// The prefix of their index keys.
    pub(super) prefix: Vec<u8>,
    pub(super) epoch: Epoch,
    pub(super) note: TombstoneRecord,
}

impl PendingTombstone {
    pub(super) fn of(prefix: &[u8], row: &[u8]) -> Result<Self> {
        let (epoch, note) = row.split_first_chunk().ok_or_else(unreadable)?;
        let note = serde_json::from_slice(note).map_err(|_| unreadable())?;
        Ok(Self {
            prefix: prefix.to_vec(),
            epoch: Epoch::from_le_bytes(*epoch),
            note,
        })
    }

    /// The place of the kind in the registry, and the kind.
    pub(super) fn kind(&self, read: &Read<'_>) -> Option<(usize, &'static KindEntry)> {
        read.context
            .registry
            .entries()
            .iter()
            .enumerate()
            .find(|(_, entry)| entry.kind.name == self.note.kind)
    }
}

fn unreadable() -> Error {
    Error::Storage("a tombstone is damaged".into())
}

impl Read<'_> {
    /// The current epoch, which is the number of tombstones ever written. New records belong to it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn epoch(&self) -> Result<Epoch> {
        let Some(bytes) = self.setting(EPOCH)? else {
            return Ok(0);
        };
        bytes
            .try_into()
            .map(Epoch::from_le_bytes)
            .map_err(|_| unreadable())
    }

    /// The epoch of the tombstone for the records whose index keys have this prefix; zero if there
    /// is none.
    pub(crate) fn tombstone_epoch(&self, prefix: &[u8]) -> Result<Epoch> {
        let mut epoch = 0;
        self.rows.get(Table::Endings, prefix, &mut |row| {
            epoch = row
                .first_chunk()
                .map(|epoch| Epoch::from_le_bytes(*epoch))
                .ok_or_else(unreadable)?;
            Ok(())
        })?;
        Ok(epoch)
    }

    /// The ids of a kind's records with a value, unless there are more than `limit`.
    pub(crate) fn few_ids(
        &self,
        kind: Kind,
        field: &str,
        value: &str,
        limit: usize,
    ) -> Result<Option<Vec<String>>> {
        let mut ids = Vec::new();
        self.visit_ids(kind, field, value.as_bytes(), &mut |id| {
            ids.push(id.to_owned());
            Ok(flow(ids.len() <= limit))
        })?;
        Ok((ids.len() <= limit).then_some(ids))
    }
}

impl Tx<'_> {
    /// The records of a kind with a value, for the caller to delete one by one. If they are more
    /// than `MAX_PER_VALUE` and the field is one of [`Entity::ENDS_BY`], a tombstone is written and
    /// none is returned. Records under an earlier tombstone are never returned.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn few_or_tombstone<E: Entity>(
        &self,
        field: &'static str,
        value: &str,
    ) -> Result<Vec<Record<E>>> {
        match self.few::<E>(field, value)? {
            Some(few) => few
                .into_iter()
                .filter_map(|id| self.read().find_readable(&Id::from_text(id)).transpose())
                .collect(),
            None => self
                .write_tombstone(E::KIND, field, value)
                .map(|()| Vec::new()),
        }
    }

    /// Whether [`Tx::few_or_tombstone`] would write a tombstone. A record that must survive the
    /// tombstone has to belong to the epoch that the tombstone begins, which is the next one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn would_write_tombstone<E: Entity>(
        &self,
        field: &'static str,
        value: &str,
    ) -> Result<bool> {
        Ok(self.few::<E>(field, value)?.is_none())
    }

    fn few<E: Entity>(&self, field: &'static str, value: &str) -> Result<Option<Vec<String>>> {
        let limit = if E::ENDS_BY.contains(&field) {
            MAX_PER_VALUE
        } else {
            usize::MAX
        };
        self.read().few_ids(E::KIND, field, value, limit)
    }

    pub(crate) fn write_tombstone(
        &self,
        kind: Kind,
        field: &'static str,
        value: &str,
    ) -> Result<()> {
        let epoch = self.read().epoch()?.saturating_add(1);
        self.set_setting(EPOCH, Some(&epoch.to_le_bytes()))?;
        let note = TombstoneRecord {
            kind: kind.name.into(),
            by: Author::clone(&self.author.borrow()),
        };
        let note =
            serde_json::to_vec(&note).map_err(|e| Error::Internal(format!("a tombstone: {e}")))?;
        let row = [epoch.to_le_bytes().as_slice(), &note].concat();
        self.rows.insert(
            Table::Endings,
            &index::prefix(kind, field, value.as_bytes()),
            &row,
        )?;
        self.events.borrow_mut().push(Event::ended(
            kind,
            Tombstone {
                field,
                value: value.to_owned(),
                epoch,
            },
        ));
        Ok(())
    }
}
