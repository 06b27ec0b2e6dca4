//! A check in one pass over each table, without lookups, of whether there is any fault. For a large
//! and sound file it is the whole check.
//!
//! The index has exactly the rows that the records require if both sides have the same sum of
//! hashes. References are sound if their targets are among the ids that were seen. Rows with the
//! same unique value are neighbours. The hashes have new random keys each time, so that nobody can
//! prepare collisions.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    ops::ControlFlow,
};

use super::scope::total;
use crate::{
    index,
    progress::Progress,
    registry::{KindEntry, RecordParts},
    tx::{
        read::{Read, text},
        tables::{ALL, Table},
    },
};
use model::{entity::HistoryClass, error::Result};

/// The sums so far.
pub(crate) struct Totals<'t> {
    read: &'t Read<'t>,
    watch: &'t Progress,
    hash: RandomState,
    /// The sum over the index rows that the records require, minus the sum over those that exist.
    index: u64,
    /// Hashes of records that others refer to.
    wanted: HashSet<u64>,
    /// Hashes of existing records, of kinds that are referred to.
    present: HashSet<u64>,
    /// Whether no fault was found yet.
    sound: bool,
}

impl<'t> Totals<'t> {
    /// Whether the file has no fault.
    ///
    /// # Errors
    /// The file cannot be read, or `watch` cancelled it.
    pub(crate) fn adds_up(read: &'t Read<'t>, watch: &'t Progress) -> Result<bool> {
        let (wanted, present) = (HashSet::new(), HashSet::new());
        let mut totals = Self {
            read,
            watch,
            hash: RandomState::new(),
            index: 0,
            wanted,
            present,
            sound: true,
        };
        watch.begin(total(read)?);
        totals.records()?;
        totals.index()?;
        totals.history()?;
        Ok(totals.sound && totals.index == 0 && totals.wanted.is_subset(&totals.present))
    }

    fn next(&self) -> Result<ControlFlow<()>> {
        self.watch.step()?;
        Ok(if self.sound {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    }

    fn records(&mut self) -> Result<()> {
        let (read, registry) = (self.read, &self.read.context.registry);
        for (place, entry) in registry.entries().iter().enumerate() {
            let is_target = registry.edges_to(entry.kind).next().is_some();
            read.scan(Table::Records(place), ALL, &mut |id, bytes| {
                if is_target {
                    self.present
                        .insert(self.hash.hash_one((entry.kind.name, id)));
                }
                self.sound = self.record(entry, id, bytes).is_some();
                self.next()
            })?;
        }
        Ok(())
    }

    /// Adds one record; `None` if it has a fault.
    fn record(&mut self, entry: &KindEntry, id: &[u8], bytes: &[u8]) -> Option<()> {
        let RecordParts {
            entries,
            targets,
            flaw,
        } = (entry.parts)(text(id).ok()?, bytes).ok()?;
        for own in entries {
            self.index = self
                .index
                .wrapping_add(self.hash.hash_one((own.key.as_slice(), own.row.as_slice())));
        }
        self.wanted.extend(
            targets
                .iter()
                .map(|target| self.hash.hash_one((target.kind.name, target.id.as_bytes()))),
        );
        if flaw.is_none() { Some(()) } else { None }
    }

    fn index(&mut self) -> Result<()> {
        let read = self.read;
        let mut unique = Unique::default();
        read.scan(Table::Index, ALL, &mut |key, row| {
            self.index = self.index.wrapping_sub(self.hash.hash_one((key, row)));
            self.sound &= unique.follows(read, key, row).is_some();
            self.next()
        })
    }

    fn history(&mut self) -> Result<()> {
        for class in HistoryClass::ALL {
            self.read.follow_history(class, None, &mut |row| {
                self.sound &= row.fault.is_none();
                self.next()
            })?;
        }
        Ok(())
    }
}

/// The check of unique values, fed with the index rows in order.
#[derive(Default)]
struct Unique {
    /// The code of the current field.
    field: Option<index::IndexCode>,
    values_are: bool,
    /// Code and value of the previous row.
    before: Vec<u8>,
}

impl Unique {
    /// Takes the next row; `None` if it is malformed or repeats a unique value.
    fn follows(&mut self, read: &Read<'_>, key: &[u8], row: &[u8]) -> Option<()> {
        let code = *key.first_chunk()?;
        if self.field != Some(code) {
            let (place, field) = read.context.registry.field(code)?;
            self.field = Some(code);
            self.values_are = (read.context.registry.entries().get(place)?.is_unique)(field);
        }
        if self.values_are {
            let (_, prefix) = index::value(key, row)?;
            let value = key.get(..prefix)?;
            if value == self.before {
                return None;
            }
            self.before.clear();
            self.before.extend_from_slice(value);
        }
        Some(())
    }
}
