//! Repairs of faults. Each remedy checks again that its fault is still there, because other writes
//! may have happened since.

use std::collections::HashSet;

use super::{
    owner::{Owner, holder, rules},
    report::Unreadable,
};
use crate::{
    event::Event,
    history::log,
    index,
    registry::DeleteRule,
    tx::{delete, read::text, tables::Table, write::Tx},
};
use model::{
    entity::{Action, HistoryClass, HistoryEntry},
    error::{Error, Result},
};

/// The repair of a fault.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Remedy {
    /// No repair: there is not one right answer.
    None,
    /// Drop the last row of a class of the history, which cannot be read.
    End(HistoryClass),
    /// Delete this record, which cannot be read.
    Record { place: usize, key: Vec<u8> },
    /// Write the missing index entries of this record.
    Entries { place: usize, id: String },
    /// Delete this row of the index.
    Row(Vec<u8>),
    /// Treat the missing records that this record refers to as deleted.
    Target { place: usize, id: String },
}

impl Remedy {
    /// The order of application; `None` if it is not applied. The end of the history comes first,
    /// because every other repair appends to it.
    pub(crate) fn order(&self, unreadable: Unreadable) -> Option<u8> {
        match self {
            Self::None => None,
            Self::End(_) | Self::Record { .. } if unreadable == Unreadable::Stays => None,
            Self::End(_) => Some(0),
            Self::Record { .. } => Some(1),
            Self::Entries { .. } | Self::Row(_) => Some(2),
            Self::Target { .. } => Some(3),
        }
    }

    /// Applies the remedy if the fault is still there. Returns why it could not be applied, if so;
    /// then nothing was changed.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn apply(&self, tx: &Tx<'_>) -> Result<Option<Error>> {
        let done = tx.whole(|| match self {
            Self::None => Err(Error::Internal("there is no automatic repair".into())),
            Self::End(class) => log::drop_unreadable_end(tx, *class),
            Self::Record { place, key } => drop_record(tx, *place, key),
            Self::Entries { place, id } => write_entries(tx, *place, id),
            Self::Row(key) => drop_row(tx, key),
            Self::Target { place, id } => forget_targets(tx, *place, id),
        });
        match done {
            Ok(()) => Ok(None),
            Err(Error::Storage(reason)) => Err(Error::Storage(reason)),
            Err(reason) => Ok(Some(reason)),
        }
    }
}

/// Deletes a record that cannot be read. Its index rows and the references to it become faults,
/// which later passes repair.
fn drop_record(tx: &Tx<'_>, place: usize, key: &[u8]) -> Result<()> {
    let entry = tx.read().context.registry.entry(place)?;
    let Some(bytes) = tx.read().bytes(Table::Records(place), key)? else {
        return Ok(());
    };
    if text(key).is_ok_and(|id| (entry.parts)(id, &bytes).is_ok()) {
        return Ok(());
    }
    tx.rows.remove(Table::Records(place), key)?;
    let id = String::from_utf8_lossy(key).into_owned();
    tx.append_history(HistoryEntry {
        action: Action::Delete,
        kind: entry.kind.name,
        id,
        name: None,
        before: None,
        after: None,
        access: None,
    })
}

fn write_entries(tx: &Tx<'_>, place: usize, id: &str) -> Result<()> {
    let entry = tx.read().context.registry.entry(place)?;
    let Some(bytes) = tx.read().bytes(Table::Records(place), id.as_bytes())? else {
        return Ok(());
    };
    for own in (entry.parts)(id, &bytes)?.entries {
        let missing = tx.read().bytes(Table::Index, &own.key)?.as_ref() != Some(&own.row);
        if missing && holder(tx.read(), entry, place, id, &own)?.is_none() {
            tx.rows.insert(Table::Index, &own.key, &own.row)?;
            tx.events.borrow_mut().extend(
                own.key
                    .get(..own.prefix)
                    .map(|prefix| Event::repaired(entry.kind, id, prefix)),
            );
        }
    }
    Ok(())
}

fn drop_row(tx: &Tx<'_>, key: &[u8]) -> Result<()> {
    let Some(row) = tx.read().bytes(Table::Index, key)? else {
        return Ok(());
    };
    if let Owner::Nobody(_) = Owner::of(tx.read(), key, &row)? {
        tx.rows.remove(Table::Index, key)?;
        let known = index::parts(key, &row).and_then(|(code, id)| {
            let (place, _) = tx.read().context.registry.field(code)?;
            Some(Event::repaired(
                tx.read().context.registry.entry(place).ok()?.kind,
                id,
                key.get(..key.len() - id.len())?,
            ))
        });
        tx.events.borrow_mut().extend(known);
    }
    Ok(())
}

fn forget_targets(tx: &Tx<'_>, place: usize, id: &str) -> Result<()> {
    let entry = tx.read().context.registry.entry(place)?;
    let mut cleared = HashSet::new();
    loop {
        let Some(bytes) = tx.read().bytes(Table::Records(place), id.as_bytes())? else {
            return Ok(());
        };
        let mut gone = None;
        for target in (entry.parts)(id, &bytes)?.targets {
            // A record under a tombstone counts as missing. Its removal would have the same effect
            // later.
            if !tx.read().exists(target.kind, &target.id)? {
                gone = Some(target);
                break;
            }
        }
        let Some(target) = gone else { return Ok(()) };
        if rules(entry, target.field, target.kind).any(|rule| rule == DeleteRule::Cascade) {
            return delete::delete(tx, entry.kind, id);
        }
        tx.clear_reference(place, id, target.kind, &target.id)?;
        if !cleared.insert(target.id) {
            return Err(Error::Internal(
                "the reference to a missing record could not be removed".into(),
            ));
        }
    }
}
