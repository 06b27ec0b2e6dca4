//! The history in the file: rows that are only appended, in the same transaction as the change that
//! they describe.
//!
//! There are two classes of rows ([`HistoryClass`]), each in a table of its own with a chain
//! (`history/chain.rs`) and bounds of its own. Sequences are common to both: each row has the next
//! one. The oldest rows of a class are dropped first. The position of the last dropped row is kept
//! as the anchor to which the first row of the class is chained. Invariant: every sequence after
//! both anchors belongs to a row.

use std::ops::ControlFlow;

use data_encoding::HEXLOWER;
use serde::Deserialize;

use super::chain::{ChainPosition, text};
use crate::{
    handle::Store,
    tx::{
        read::Read,
        tables::{ALL, Table},
        write::Tx,
    },
};
use model::{
    clock::Timestamp,
    entity::{Action, Author, HistoryClass, HistoryEntry, HistoryRow},
    error::{Error, Result},
};

/// The number of rows dropped or written in one transaction.
const BATCH: usize = 512;

/// How much of a class of rows is kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Rows older than this are dropped.
    pub since: Timestamp,
    /// The oldest rows are dropped until the others have at most this many bytes.
    pub bytes: u64,
}

/// The key of the anchor of a class in the table about the file itself.
pub(crate) fn anchor_key(class: HistoryClass) -> &'static [u8] {
    match class {
        HistoryClass::Changes => b"history",
        HistoryClass::Sessions => b"history.sessions",
    }
}

/// The position to which the first row of a class is chained.
pub(crate) fn anchor(read: &Read<'_>, class: HistoryClass) -> Result<ChainPosition> {
    let Some(bytes) = read.bytes(Table::Meta, anchor_key(class))? else {
        return Ok(ChainPosition::default());
    };
    ChainPosition::from_bytes(&bytes).ok_or_else(|| Error::Damaged {
        kind: "history",
        id: "anchor".into(),
        reason: "it cannot be read".into(),
    })
}

/// The position to which the next row of a class is chained.
pub(crate) fn end(read: &Read<'_>, class: HistoryClass) -> Result<ChainPosition> {
    let mut last = None;
    let any = read.rows.last(Table::History(class), &mut |key, row| {
        last = ChainPosition::of(key, row);
        Ok(())
    })?;
    if any {
        last.ok_or_else(|| damaged_end("it cannot be read"))
    } else {
        anchor(read, class)
    }
}

/// The sequence of the last row of both classes.
pub(super) fn last_of_all(read: &Read<'_>) -> Result<u64> {
    HistoryClass::ALL
        .into_iter()
        .try_fold(0, |last, class| Ok(last.max(end(read, class)?.sequence)))
}

/// No row can be chained to the last one.
fn damaged_end(reason: &str) -> Error {
    Error::Damaged {
        kind: "history",
        id: "end".into(),
        reason: format!("{reason}; overkeep history verify says where"),
    }
}

/// The key of the last row of a class if it cannot be read, in which case no row can be chained to
/// it.
pub(crate) fn unreadable_end(read: &Read<'_>, class: HistoryClass) -> Result<Option<Vec<u8>>> {
    let mut end = None;
    read.rows.last(Table::History(class), &mut |key, row| {
        end = ChainPosition::of(key, row).is_none().then(|| key.to_vec());
        Ok(())
    })?;
    Ok(end)
}

/// Drops the last row of a class if it cannot be read.
pub(crate) fn drop_unreadable_end(tx: &Tx<'_>, class: HistoryClass) -> Result<()> {
    unreadable_end(tx.read(), class)?
        .map_or(Ok(()), |key| tx.rows.remove(Table::History(class), &key))
}

/// Decodes a row for output.
pub(crate) fn shown(key: &[u8], row: &[u8]) -> Result<HistoryRow> {
    let damaged = || Error::Damaged {
        kind: "history",
        id: HEXLOWER.encode(key),
        reason: "the row cannot be read".into(),
    };
    let (position, text) = ChainPosition::of(key, row)
        .zip(text(row))
        .ok_or_else(damaged)?;
    let row: HistoryRow = serde_json::from_slice(&text).map_err(|_| damaged())?;
    Ok(HistoryRow {
        hash: position.shown_hash(),
        ..row
    })
}

impl Tx<'_> {
    /// Appends to the history what the author of this transaction did besides changing records. A
    /// log-in that follows another one of its identity is only counted (`history/visits.rs`).
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append_history(&self, entry: HistoryEntry) -> Result<()> {
        // Deleted sessions that share a transaction are otherwise unrelated, so that each is a
        // change of its own.
        let is_part = matches!(
            entry.action,
            Action::Create | Action::Update | Action::Delete
        );
        let author = Author::clone(&self.author.borrow());
        if self.visits.borrow_mut().counts(
            &self.read().context.visits,
            &entry,
            &author,
            self.read.now,
        ) {
            return Ok(());
        }
        self.add(author, entry, |sequence| {
            // After a rollback, the next row has the sequence of the row that was rolled back.
            let first = self.first_row.get().unwrap_or(sequence);
            self.first_row.set(Some(first));
            if is_part { first } else { sequence }
        })
    }

    /// Appends to the history what another author did.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append_history_of(&self, author: Author, entry: HistoryEntry) -> Result<()> {
        let about = entry
            .access
            .as_ref()
            .filter(|access| access.changes == 1)
            .map(|access| access.first);
        self.add(author, entry, |sequence| about.unwrap_or(sequence))
    }

    /// `change` maps the sequence of the row to that of the change that it is part of.
    fn add(
        &self,
        author: Author,
        entry: HistoryEntry,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<()> {
        let class = entry.action.class(author.is_client);
        let (own, other) = (end(self.read(), class)?, end(self.read(), class.other())?);
        let last = own.sequence.max(other.sequence);
        let sequence = last
            .checked_add(1)
            .ok_or_else(|| damaged_end("its last row has the greatest possible sequence"))?;
        let row = HistoryRow::new(
            sequence,
            model::entity::Lookup::now(self),
            author,
            entry,
            change(sequence),
        );
        let text = serde_json::to_vec(&row)
            .map_err(|e| Error::Internal(format!("a row of the history: {e}")))?;
        let row = own.next(sequence, &other, &text)?;
        self.rows
            .insert(Table::History(class), &sequence.to_be_bytes(), &row)
    }

    /// Drops up to [`BATCH`] rows of a class that need not be kept, oldest first. Returns their
    /// number.
    fn delete_old_rows(&self, class: HistoryClass, keep: Retention) -> Result<usize> {
        let (mut anchor, end) = (anchor(self.read(), class)?, end(self.read(), class)?);
        let mut old = Vec::new();
        self.read()
            .scan(Table::History(class), ALL, &mut |key, row| {
                let goes =
                    old.len() < BATCH && is_old(row, keep, end.total.wrapping_sub(anchor.total));
                let Some(position) = ChainPosition::of(key, row).filter(|_| goes) else {
                    return Ok(ControlFlow::Break(()));
                };
                anchor = position;
                old.push(key.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
        old.iter()
            .try_for_each(|key| self.rows.remove(Table::History(class), key))?;
        if !old.is_empty() {
            self.rows
                .insert(Table::Meta, anchor_key(class), &anchor.to_bytes())?;
        }
        Ok(old.len())
    }
}

/// Whether the first row of a class is to be dropped.
fn is_oldest_expired(read: &Read<'_>, class: HistoryClass, keep: Retention) -> Result<bool> {
    let bytes = end(read, class)?
        .total
        .wrapping_sub(anchor(read, class)?.total);
    let mut any = false;
    read.scan(Table::History(class), ALL, &mut |key, row| {
        any = ChainPosition::of(key, row).is_some() && is_old(row, keep, bytes);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(any)
}

/// Whether the oldest row is to be dropped, given the total size of all rows. A row whose time
/// cannot be read is kept unless the size is exceeded.
fn is_old(row: &[u8], keep: Retention, bytes: u64) -> bool {
    bytes > keep.bytes || written_at(row).is_some_and(|at| at < keep.since)
}

/// The time of a row; `None` if it cannot be read.
pub(super) fn written_at(row: &[u8]) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct RowTime {
        at: Timestamp,
    }
    serde_json::from_slice::<RowTime>(&text(row)?)
        .ok()
        .map(|row| row.at)
}

impl Store {
    /// Drops rows of a class that need not be kept, in bounded transactions, and returns their
    /// number. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written; what was dropped until then stays dropped.
    pub fn trim_history(&self, class: HistoryClass, keep: Retention) -> Result<usize> {
        let mut dropped = 0;
        while self.read(|read| is_oldest_expired(read, class, keep))? {
            dropped += self.write_blocking(move |tx| tx.delete_old_rows(class, keep))?;
        }
        Ok(dropped)
    }

    /// Writes the log-ins that were counted in a minute that is over; if `is_over`, all of them.
    /// Blocks.
    ///
    /// # Errors
    /// The file cannot be written; then they are written with the next call.
    pub fn write_visits(&self, now: Timestamp, is_over: bool) -> Result<()> {
        let visits = self.core().context.visits.clone();
        let mut due = visits.due(now, is_over);
        while !due.is_empty() {
            let batch = due.split_off(due.len().saturating_sub(BATCH));
            let rows: Vec<_> = batch.iter().map(|(_, _, counted)| counted.row()).collect();
            let written = self.write_blocking(move |tx| {
                rows.into_iter()
                    .try_for_each(|(author, entry)| tx.append_history_of(author, entry))
            });
            if let Err(error) = written {
                due.extend(batch);
                visits.give_back(due);
                return Err(error);
            }
        }
        Ok(())
    }
}
