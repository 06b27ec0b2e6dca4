//! Very many records that end at once: it is written down that they are over, which costs one row, and they are deleted some at a time
//! while nobody waits.
//!
//! A row holds for all records of a kind with one value in one of its [`Entity::ENDS_BY`], and begins an era: those made in an earlier one
//! are over (`entity/tombstone.rs`). Its key is what the keys of their index entries begin with. Key to value: `[era u64, little endian][JSON
//! of [`TombstoneRecord`]]`. Invariant: as long as one of the records is left, so is the row; a crash in between changes nothing.
//! Until a record is deleted, what it has that must be unique is taken.

use serde::{Deserialize, Serialize};

use super::{
    read::{Read, flow},
    tables::Table,
    write::Tx,
};
use crate::store::{
    event::{Event, Tombstone},
    index,
    registry::KindEntry,
};
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
pub(super) struct TombstoneRecord {
    /// The kind's name.
    kind: String,
    /// Who ended them.
    pub(super) by: Author,
}

/// An ending whose records are still to be deleted.
pub(super) struct Pending {
    /// What the keys of their index entries begin with.
    pub(super) prefix: Vec<u8>,
    pub(super) era: Epoch,
    pub(super) note: TombstoneRecord,
}

impl Pending {
    pub(super) fn of(prefix: &[u8], row: &[u8]) -> Result<Self> {
        let (era, note) = row.split_first_chunk().ok_or_else(unreadable)?;
        let note = serde_json::from_slice(note).map_err(|_| unreadable())?;
        Ok(Self { prefix: prefix.to_vec(), era: Epoch::from_le_bytes(*era), note })
    }

    /// The kind of its records, and the kind's place in the registry.
    pub(super) fn kind(&self, read: &Read<'_>) -> Option<(usize, &'static KindEntry)> {
        read.context.registry.entries().iter().enumerate().find(|(_, entry)| entry.kind.name == self.note.kind)
    }
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
}
