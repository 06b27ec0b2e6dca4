//! Whether everything adds up, found out in one pass over each table, without looking anything up: of a large and sound file that is all
//! that a check does.
//!
//! The index has exactly the rows that the records say if both sides come to the same sum of hashes. Everything that is referred to is
//! there if it is among the ids that were met. Rows that share a unique value are neighbours. The hashes have keys of their own each time,
//! so that nobody can make two things look alike.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    ops::ControlFlow,
};

use super::scope::total;
use crate::{
    error::Result,
    store::{
        index,
        progress::Progress,
        registry::{KindEntry, Parts},
        tx::{
            read::{Read, text},
            tables::{ALL, Table},
        },
    },
};

/// The sums so far.
pub struct Totals<'t> {
    read: &'t Read<'t>,
    watch: &'t Progress,
    hash: RandomState,
    /// Over what the records say the index has, less what it has.
    index: u64,
    /// Records that others refer to, of any kind.
    wanted: HashSet<u64>,
    /// Records that there are, of kinds that are referred to.
    present: HashSet<u64>,
    /// Nothing was found as yet.
    sound: bool,
}

impl<'t> Totals<'t> {
    /// Whether there is nothing to be found.
    ///
    /// # Errors
    /// The file cannot be read, or the watcher stopped it.
    pub fn adds_up(read: &'t Read<'t>, watch: &'t Progress) -> Result<bool> {
        let (wanted, present) = (HashSet::new(), HashSet::new());
        let mut totals = Self { read, watch, hash: RandomState::new(), index: 0, wanted, present, sound: true };
        watch.begin(total(read)?);
        totals.records()?;
        totals.index()?;
        totals.history()?;
        Ok(totals.sound && totals.index == 0 && totals.wanted.is_subset(&totals.present))
    }

    fn next(&self) -> Result<ControlFlow<()>> {
        self.watch.step()?;
        Ok(if self.sound { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    fn records(&mut self) -> Result<()> {
        let (read, registry) = (self.read, &self.read.context.registry);
        for (place, entry) in registry.entries().iter().enumerate() {
            let is_target = registry.edges_to(entry.kind).next().is_some();
            read.scan(Table::Records(place), ALL, &mut |id, bytes| {
                if is_target {
                    self.present.insert(self.hash.hash_one((entry.kind.name, id)));
                }
                self.sound = self.record(entry, id, bytes).is_some();
                self.next()
            })?;
        }
        Ok(())
    }

    /// Adds one record; nothing if something is wrong with it.
    fn record(&mut self, entry: &KindEntry, id: &[u8], bytes: &[u8]) -> Option<()> {
        let Parts { entries, targets, flaw } = (entry.parts)(text(id).ok()?, bytes).ok()?;
        for own in entries {
            self.index = self.index.wrapping_add(self.hash.hash_one((own.key.as_slice(), own.row.as_slice())));
        }
        self.wanted.extend(targets.iter().map(|target| self.hash.hash_one((target.kind.name, target.id.as_bytes()))));
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
        self.read.follow_history(None, &mut |_, fault, _| {
            self.sound &= fault.is_none();
            self.next()
        })
    }
}

/// What must be unique, told from the rows of the index one after the other.
#[derive(Default)]
struct Unique {
    /// The code of the field, and whether its values are unique.
    field: Option<index::Code>,
    values_are: bool,
    /// Code and value of the row before.
    before: Vec<u8>,
}

impl Unique {
    /// Takes the next row; nothing if it is none of ours, or has the value of the one before although it must not.
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
