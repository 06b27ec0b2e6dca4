//! Reading the history: a page of rows, the rows after a sequence, and the rows about some kinds.
//!
//! Not here: how rows are stored and chained (`history/log.rs`).

use std::{
    borrow::Cow,
    ops::{Bound, ControlFlow, RangeInclusive},
};

use serde::Deserialize;

use super::log::{ChainPosition, anchor, end, shown, text};
use crate::store::tx::{
    read::Read,
    tables::{ALL, Table},
};
use crate::{
    entity::HistoryRow,
    error::Result,
    query::{Query, Window},
};

impl Read<'_> {
    /// A page of the rows that match, ordered by sequence, and the number of all that match. A window without a limit
    /// gives no rows. A damaged row matches no predicate; a query for everything counts it but leaves it out of the
    /// page.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history(&self, query: &Query, descending: bool, window: Window) -> Result<(Vec<HistoryRow>, u64)> {
        let (wanted, total) = self.history_sequences(query, descending, window)?;
        let rows = wanted.iter().filter_map(|sequence| self.history_row(*sequence).transpose()).collect::<Result<_>>()?;
        Ok((rows, total))
    }

    /// The sequences of the page that [`Read::history`] returns, and the number of all rows that match.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn history_sequences(&self, query: &Query, descending: bool, window: Window) -> Result<(Vec<u64>, u64)> {
        let sequences = if query.predicate.lets_all_through() {
            Sequences::All(anchor(self)?.sequence + 1..=end(self)?.sequence)
        } else {
            Sequences::Some(self.matching_history(query)?)
        };
        Ok((sequences.part(descending, window), sequences.count()))
    }

    /// The rows after a sequence, oldest first, until they have at least so many bytes. Missing and damaged rows are
    /// skipped.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history_after(&self, sequence: u64, bytes: usize) -> Result<Vec<HistoryRow>> {
        let (mut rows, mut read) = (Vec::new(), 0);
        self.scan(Table::History, (Bound::Excluded(&sequence.to_be_bytes()), Bound::Unbounded), &mut |key, row| {
            rows.extend(self.unless_damaged(shown(key, row))?);
            read += row.len();
            Ok(if read < bytes { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(rows)
    }

    /// Calls `see` with the rows after a sequence that are about these kinds, oldest first, until it breaks. Returns
    /// the sequence of the last row before the break, whatever its kind.
    ///
    /// # Errors
    /// A row is damaged, the file cannot be read, or the first error of `see`.
    pub(crate) fn history_of(
        &self,
        kinds: &[&str],
        sequence: u64,
        see: &mut dyn FnMut(HistoryRow) -> Result<ControlFlow<()>>,
    ) -> Result<u64> {
        let mut passed = sequence;
        self.scan(Table::History, (Bound::Excluded(&sequence.to_be_bytes()), Bound::Unbounded), &mut |key, row| {
            if is_of(kinds, row) && see(shown(key, row)?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            passed = ChainPosition::of(key, row).map_or(passed, |link| link.sequence);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(passed)
    }

    /// Calls `see` with the rows after a sequence that are about these kinds, newest first.
    ///
    /// # Errors
    /// As in [`Read::history_of`].
    pub fn history_back(&self, kinds: &[&str], sequence: u64, see: &mut dyn FnMut(HistoryRow) -> Result<()>) -> Result<()> {
        self.scan_back(Table::History, (Bound::Excluded(&sequence.to_be_bytes()), Bound::Unbounded), &mut |key, row| {
            if is_of(kinds, row) {
                see(shown(key, row)?)?;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The sequence of the last row that was dropped, or zero.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn history_gone(&self) -> Result<u64> {
        Ok(anchor(self)?.sequence)
    }

    /// The sequence of the last row.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history_end(&self) -> Result<u64> {
        Ok(end(self)?.sequence)
    }

    /// The row of a sequence; `None` if it was dropped or is damaged.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn history_row(&self, sequence: u64) -> Result<Option<HistoryRow>> {
        let key = sequence.to_be_bytes();
        let Some(row) = self.bytes(Table::History, &key)? else { return Ok(None) };
        self.unless_damaged(shown(&key, &row))
    }

    fn matching_history(&self, query: &Query) -> Result<Vec<u64>> {
        let mut matching = Vec::new();
        self.scan(Table::History, ALL, &mut |key, row| {
            let row = self.unless_damaged(shown(key, row))?;
            matching.extend(row.filter(|row| query.predicate.matches(row)).map(|row| row.sequence));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(matching)
    }
}

/// Whether a row is about one of these kinds, or cannot be read. Much cheaper than decoding the whole row.
fn is_of(kinds: &[&str], row: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct About<'r> {
        #[serde(borrow)]
        kind: Cow<'r, str>,
    }
    let Some(text) = text(row) else { return true };
    serde_json::from_slice::<About<'_>>(&text).ok().is_none_or(|about| kinds.contains(&about.kind.as_ref()))
}

/// Sequences found: ascending, without duplicates.
enum Sequences {
    All(RangeInclusive<u64>),
    Some(Vec<u64>),
}

impl Sequences {
    fn count(&self) -> u64 {
        match self {
            Self::All(range) => (range.end() + 1).saturating_sub(*range.start()),
            Self::Some(found) => found.len() as u64,
        }
    }

    fn part(&self, descending: bool, window: Window) -> Vec<u64> {
        fn cut(found: impl DoubleEndedIterator<Item = u64>, descending: bool, window: Window) -> Vec<u64> {
            let limit = window.limit.unwrap_or_default();
            if descending { found.rev().skip(window.offset).take(limit).collect() } else { found.skip(window.offset).take(limit).collect() }
        }
        match self {
            Self::All(range) => cut(range.clone(), descending, window),
            Self::Some(found) => cut(found.iter().copied(), descending, window),
        }
    }
}
