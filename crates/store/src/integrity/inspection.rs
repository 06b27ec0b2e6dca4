//! The check of each single record and row: what is wrong with it, as text, and the remedy.

use std::{
    collections::HashMap,
    ops::{Bound, ControlFlow},
};

use super::{
    owner::{Owner, holder, rules},
    remedy::Remedy,
    scope::{tables, total},
};
use crate::{
    history::log,
    progress::Progress,
    registry::{DeleteRule, KindEntry, RecordParts},
    tx::{
        read::{Read, text},
        tables::Table,
    },
};
use model::{
    entity::Lookup,
    error::{Error, Result},
};

/// One fault and its remedy.
pub(crate) struct Fault {
    pub description: String,
    pub remedy: Remedy,
}

impl Fault {
    /// The text for the report once the fault is repaired.
    pub(crate) fn repaired(self) -> String {
        match self.remedy {
            Remedy::End(_) | Remedy::Record { .. } => {
                format!("{}; it is deleted", self.description)
            }
            _ => self.description,
        }
    }

    /// The text for the report if the fault is left, with the reason if its remedy is among those
    /// that failed.
    pub(crate) fn left(self, failed: &HashMap<Remedy, Error>) -> String {
        match failed.get(&self.remedy) {
            Some(reason) => format!("{}; it cannot be repaired: {reason}", self.description),
            None => self.description,
        }
    }
}

/// One check of the whole file or a part of it.
pub(crate) struct Inspection<'i> {
    read: &'i Read<'i>,
    watch: &'i Progress,
    /// The check ends after this many faults, or after `rows` rows.
    limit: usize,
    rows: usize,
    faults: Vec<Fault>,
}

/// The position of a check in small steps: the table, and the last row that was checked.
#[derive(Debug, Clone, Default)]
pub struct Position {
    table: usize,
    behind: Option<Vec<u8>>,
}

impl Position {
    /// The kind of the table, if it is a table of records.
    pub(crate) fn kind(&self, kinds: &[KindEntry]) -> Option<&'static str> {
        kinds.get(self.table).map(|entry| entry.kind.name)
    }

    /// The start of the next table.
    pub(crate) fn next_table(&self) -> Self {
        Self {
            table: self.table + 1,
            behind: None,
        }
    }
}

impl<'i> Inspection<'i> {
    /// Checks everything and returns up to `limit` faults.
    ///
    /// # Errors
    /// The file cannot be read, or `watch` cancelled it.
    pub(crate) fn run(read: &'i Read<'i>, watch: &'i Progress, limit: usize) -> Result<Vec<Fault>> {
        let mut inspection = Self {
            read,
            watch,
            limit,
            rows: usize::MAX,
            faults: Vec::new(),
        };
        watch.begin(total(read)?);
        for table in tables(read) {
            if inspection.table(table, None)?.is_some() {
                break;
            }
        }
        Ok(inspection.faults)
    }

    /// Checks the next `rows` rows of a table. Returns the faults, and the position to continue
    /// from; `None` after the last table.
    ///
    /// # Errors
    /// As [`Inspection::run`].
    pub(crate) fn some(
        read: &'i Read<'i>,
        watch: &'i Progress,
        place: &Position,
        rows: usize,
    ) -> Result<(Vec<Fault>, Option<Position>)> {
        let Some(table) = tables(read).nth(place.table) else {
            return Ok((Vec::new(), None));
        };
        let mut inspection = Self {
            read,
            watch,
            limit: usize::MAX,
            rows,
            faults: Vec::new(),
        };
        let stopped = inspection.table(table, place.behind.as_deref())?;
        let next = stopped.map_or_else(
            || place.next_table(),
            |behind| Position {
                behind: Some(behind),
                ..*place
            },
        );
        Ok((inspection.faults, Some(next)))
    }

    /// Checks a table from the row after `behind` on. Returns the key of the last row, if it
    /// stopped before the end.
    fn table(&mut self, table: Table, behind: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut stopped = None;
        let read = self.read;
        let mut step = |inspection: &mut Self, key: &[u8]| {
            let next = inspection.next()?;
            stopped = next.is_break().then(|| key.to_vec());
            Ok(next)
        };
        if let Table::History(class) = table {
            let end = log::unreadable_end(read, class)?;
            read.follow_history(class, behind, &mut |row| {
                let remedy = if end.as_deref() == Some(row.key) {
                    Remedy::End(class)
                } else {
                    Remedy::None
                };
                if let Some(fault) = row.fault {
                    self.add_fault(remedy, fault);
                }
                step(self, row.key)
            })?;
            return Ok(stopped);
        }
        let kind = if let Table::Records(place) = table {
            Some((place, read.context.registry.entry(place)?))
        } else {
            None
        };
        read.scan(
            table,
            (
                behind.map_or(Bound::Unbounded, Bound::Excluded),
                Bound::Unbounded,
            ),
            &mut |key, row| {
                match kind {
                    Some((place, entry)) => self.record(place, entry, key, row)?,
                    None => self.row(key, row)?,
                }
                step(self, key)
            },
        )?;
        Ok(stopped)
    }

    fn next(&mut self) -> Result<ControlFlow<()>> {
        self.watch.step()?;
        self.rows -= 1;
        Ok(if self.rows > 0 && self.faults.len() < self.limit {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    }

    fn add_fault(&mut self, remedy: Remedy, description: String) {
        self.faults.push(Fault {
            description,
            remedy,
        });
    }

    /// Checks one stored record: its content, its index entries and its references.
    fn record(&mut self, place: usize, entry: &KindEntry, id: &[u8], bytes: &[u8]) -> Result<()> {
        let kind = entry.kind.name;
        let unreadable = || Remedy::Record {
            place,
            key: id.to_vec(),
        };
        let Ok(id) = text(id) else {
            self.add_fault(unreadable(), format!("a {kind} has an id that is not text"));
            return Ok(());
        };
        let RecordParts {
            entries,
            targets,
            flaw,
        } = match (entry.parts)(id, bytes) {
            Ok(parts) => parts,
            Err(reason) => {
                self.add_fault(unreadable(), reason.to_string());
                return Ok(());
            }
        };
        if let Some(flaw) = flaw {
            self.add_fault(Remedy::None, format!("the {kind} {id} {flaw}"));
        }
        for own in &entries {
            let present = self.read.bytes(Table::Index, &own.key)?.as_ref() == Some(&own.row);
            match holder(self.read, entry, place, id, own)? {
                Some(other) if !present || other.as_str() < id => {
                    self.add_fault(
                        Remedy::None,
                        format!("the {kind} {id} has the same {} as {other}", own.field),
                    );
                }
                None if !present => {
                    self.add_fault(
                        Remedy::Entries {
                            place,
                            id: id.into(),
                        },
                        format!("the index of {} lacks the {kind} {id}", own.field),
                    );
                }
                _ => {}
            }
        }
        for target in targets {
            if !self.read.exists(target.kind, &target.id)?
                && Lookup::ended_before(self.read, entry.kind, target.field, &target.id)? == 0
            {
                let held = rules(entry, target.field, target.kind)
                    .any(|rule| rule == DeleteRule::Restrict);
                let remedy = if held {
                    Remedy::None
                } else {
                    Remedy::Target {
                        place,
                        id: id.into(),
                    }
                };
                let description = format!(
                    "the {kind} {id} refers by {} to the {} {}, which does not exist",
                    target.field, target.kind.name, target.id
                );
                self.add_fault(remedy, description);
            }
        }
        Ok(())
    }

    /// Checks one row of the index.
    fn row(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        match Owner::of(self.read, key, row)? {
            Owner::Record => {}
            Owner::Nobody(description) => self.add_fault(Remedy::Row(key.to_vec()), description),
        }
        Ok(())
    }
}
