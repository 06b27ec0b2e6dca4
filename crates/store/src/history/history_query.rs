//! Reading the history: a page of rows, the rows after a sequence, and the rows about some kinds.
//! Rows of both classes are read as one history, in the order of their sequences.
//!
//! Not here: how rows are stored (`history/log.rs`), chained (`history/chain.rs`) and checked
//! (`history/verification.rs`).

use std::{
    borrow::Cow,
    collections::VecDeque,
    ops::{Bound, ControlFlow},
};

use query::{Query, Window};
use serde::Deserialize;

use super::{
    chain::{ChainPosition, text},
    log::{anchor, last_of_all, shown},
};
use crate::tx::{
    read::Read,
    tables::{ALL, Table},
};
use model::{
    entity::{HistoryClass, HistoryRow},
    error::Result,
};

/// The rows that are read of a class at a time, and their bytes.
const ROWS: usize = 256;
const BYTES: usize = 64 << 10;

impl Read<'_> {
    /// A page of the rows that match, ordered by sequence, and the number of all that match. A
    /// window without a limit gives no rows. A damaged row matches no predicate; a query for
    /// everything counts it but leaves it out of the page.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history(
        &self,
        query: &Query,
        descending: bool,
        window: Window,
    ) -> Result<(Vec<HistoryRow>, u64)> {
        let (wanted, total) = self.history_sequences(query, descending, window)?;
        let rows = wanted
            .iter()
            .filter_map(|sequence| self.history_row(*sequence).transpose())
            .collect::<Result<_>>()?;
        Ok((rows, total))
    }

    /// The sequences of the page that [`Read::history`] returns, and the number of all rows that
    /// match.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history_sequences(
        &self,
        query: &Query,
        descending: bool,
        window: Window,
    ) -> Result<(Vec<u64>, u64)> {
        let limit = window.limit.unwrap_or_default();
        if !query.predicate.lets_all_through() {
            let matching = self.matching_history(query)?;
            let page = |found: &mut dyn Iterator<Item = u64>| {
                found.skip(window.offset).take(limit).collect()
            };
            let mut found = matching.iter().copied();
            return Ok((
                if descending {
                    page(&mut found.rev())
                } else {
                    page(&mut found)
                },
                matching.len() as u64,
            ));
        }
        let (mut page, mut skipped) = (Vec::new(), 0);
        let way = if descending { Way::Down } else { Way::Up };
        if limit > 0 {
            self.scan_history(way, Bound::Unbounded, &mut |sequence, _| {
                if skipped < window.offset {
                    skipped += 1;
                } else {
                    page.push(sequence);
                }
                Ok(if page.len() < limit {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            })?;
        }
        let [changes, sessions] =
            HistoryClass::ALL.map(|class| self.rows.len(Table::History(class)));
        Ok((page, changes? + sessions?))
    }

    /// The rows after a sequence, oldest first, until they have at least so many bytes. Missing and
    /// damaged rows are skipped.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history_after(&self, sequence: u64, bytes: usize) -> Result<Vec<HistoryRow>> {
        let (mut rows, mut read) = (Vec::new(), 0);
        self.scan_history(Way::Up, Bound::Excluded(sequence), &mut |sequence, row| {
            rows.extend(self.unless_damaged(shown(&sequence.to_be_bytes(), row))?);
            read += row.len();
            Ok(if read < bytes {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        Ok(rows)
    }

    /// Calls `see` with the changes after a sequence that are about these kinds, oldest first,
    /// until it breaks. Returns the sequence of the last change before the break, whatever its
    /// kind.
    ///
    /// # Errors
    /// A row is damaged, the file cannot be read, or the first error of `see`.
    pub fn changes_of(
        &self,
        kinds: &[&str],
        sequence: u64,
        see: &mut dyn FnMut(HistoryRow) -> Result<ControlFlow<()>>,
    ) -> Result<u64> {
        let mut passed = sequence;
        let keys = (
            Bound::Excluded(&sequence.to_be_bytes()[..]),
            Bound::Unbounded,
        );
        self.scan(
            Table::History(HistoryClass::Changes),
            keys,
            &mut |key, row| {
                if is_of(kinds, row) && see(shown(key, row)?)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                passed = ChainPosition::of(key, row).map_or(passed, |position| position.sequence);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(passed)
    }

    /// Calls `see` with the rows of a class after a sequence that are about these kinds, newest
    /// first.
    ///
    /// # Errors
    /// As in [`Read::changes_of`].
    pub fn history_back(
        &self,
        class: HistoryClass,
        kinds: &[&str],
        sequence: u64,
        see: &mut dyn FnMut(HistoryRow) -> Result<()>,
    ) -> Result<()> {
        let keys = (
            Bound::Excluded(&sequence.to_be_bytes()[..]),
            Bound::Unbounded,
        );
        self.scan_back(Table::History(class), keys, &mut |key, row| {
            if is_of(kinds, row) {
                see(shown(key, row)?)?;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The sequence of the last change that was dropped, or zero.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn changes_gone(&self) -> Result<u64> {
        Ok(anchor(self, HistoryClass::Changes)?.sequence)
    }

    /// The sequence of the last row.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history_end(&self) -> Result<u64> {
        last_of_all(self)
    }

    /// The row of a sequence; `None` if it was dropped or is damaged.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history_row(&self, sequence: u64) -> Result<Option<HistoryRow>> {
        let key = sequence.to_be_bytes();
        for class in HistoryClass::ALL {
            if let Some(row) = self.bytes(Table::History(class), &key)? {
                return self.unless_damaged(shown(&key, &row));
            }
        }
        Ok(None)
    }

    /// The sequences of the rows that match, ascending.
    fn matching_history(&self, query: &Query) -> Result<Vec<u64>> {
        let mut matching = Vec::new();
        for class in HistoryClass::ALL {
            self.scan(Table::History(class), ALL, &mut |key, row| {
                let row = self.unless_damaged(shown(key, row))?;
                matching.extend(
                    row.filter(|row| query.predicate.matches(row))
                        .map(|row| row.sequence),
                );
                Ok(ControlFlow::Continue(()))
            })?;
        }
        matching.sort_unstable();
        Ok(matching)
    }

    /// Calls `see` with the sequence and the bytes of each row of both classes behind a sequence,
    /// until it breaks.
    fn scan_history(&self, way: Way, behind: Bound<u64>, see: RowVisitor<'_>) -> Result<()> {
        let [mut changes, mut sessions] = HistoryClass::ALL.map(|class| ClassRows {
            class,
            way,
            behind,
            rows: VecDeque::new(),
            is_complete: false,
        });
        loop {
            let next = match (changes.first(self)?, sessions.first(self)?) {
                (Some(change), Some(session)) if way.comes_first(session, change) => &mut sessions,
                (Some(_), _) => &mut changes,
                (None, Some(_)) => &mut sessions,
                (None, None) => return Ok(()),
            };
            let Some((sequence, row)) = next.rows.pop_front() else {
                return Ok(());
            };
            if see(sequence, &row)?.is_break() {
                return Ok(());
            }
        }
    }
}

/// Called with the sequence and the bytes of a row. The result says whether to continue.
type RowVisitor<'v> = &'v mut dyn FnMut(u64, &[u8]) -> Result<ControlFlow<()>>;

/// The direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl Way {
    fn comes_first(self, one: u64, other: u64) -> bool {
        if self == Self::Up {
            one < other
        } else {
            one > other
        }
    }
}

/// The rows of a class that are read next.
struct ClassRows {
    class: HistoryClass,
    way: Way,
    /// The rows behind this one are not read yet.
    behind: Bound<u64>,
    rows: VecDeque<(u64, Vec<u8>)>,
    /// Whether no others follow.
    is_complete: bool,
}

impl ClassRows {
    /// The sequence of the next row.
    fn first(&mut self, read: &Read<'_>) -> Result<Option<u64>> {
        if self.rows.is_empty() && !self.is_complete {
            self.fill(read)?;
        }
        Ok(self.rows.front().map(|(sequence, _)| *sequence))
    }

    fn fill(&mut self, read: &Read<'_>) -> Result<()> {
        let (table, key, mut bytes) = (
            Table::History(self.class),
            self.behind.map(u64::to_be_bytes),
            0,
        );
        let key = key.as_ref().map(|key| key.as_slice());
        let (rows, is_complete) = (&mut self.rows, &mut self.is_complete);
        *is_complete = true;
        let mut keep = |key: &[u8], row: &[u8]| {
            if rows.len() >= ROWS || bytes >= BYTES {
                *is_complete = false;
                return Ok(ControlFlow::Break(()));
            }
            bytes += row.len();
            rows.extend(
                key.try_into()
                    .ok()
                    .map(|key| (u64::from_be_bytes(key), row.to_vec())),
            );
            Ok(ControlFlow::Continue(()))
        };
        match self.way {
            Way::Up => read.scan(table, (key, Bound::Unbounded), &mut keep)?,
            Way::Down => read.scan_back(table, (Bound::Unbounded, key), &mut keep)?,
        }
        if let Some((last, _)) = self.rows.back() {
            self.behind = Bound::Excluded(*last);
        }
        Ok(())
    }
}

/// Whether a row is about one of these kinds, or cannot be read. Much cheaper than decoding the
/// whole row.
fn is_of(kinds: &[&str], row: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct About<'r> {
        #[serde(borrow)]
        kind: Cow<'r, str>,
    }
    let Some(text) = text(row) else { return true };
    serde_json::from_slice::<About<'_>>(&text)
        .ok()
        .is_none_or(|about| kinds.contains(&about.kind.as_ref()))
}
