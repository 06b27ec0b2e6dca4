//! The check of both chains of the history.
//!
//! The chains detect rows that were altered, removed or inserted by somebody who did not compute
//! all later hashes again. A full recomputation is only detected by comparison with a hash that was
//! noted elsewhere, which is what [`HistoryAnchor`] is for. Because rows are linked to the other
//! class, one noted row proves everything before it, in both classes.

use std::{
    fmt,
    ops::{Bound, ControlFlow},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use super::{
    chain::{ChainLink, ChainPosition, link},
    log::{anchor, end, written_at},
};
use crate::{
    handle::Store,
    tx::{
        read::Read,
        tables::{ALL, Table},
    },
};
use model::{clock::Timestamp, entity::HistoryClass, error::Result};

/// The greatest number of faults reported.
const MAX_FAULTS: usize = 100;

/// The sequence and hash (hex) of a row, as noted outside the file; as text `sequence:hash`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryAnchor {
    pub sequence: u64,
    pub hash: String,
}

impl HistoryAnchor {
    fn of(position: &ChainPosition) -> Self {
        Self {
            sequence: position.sequence,
            hash: position.shown_hash(),
        }
    }
}

impl fmt::Display for HistoryAnchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sequence, self.hash)
    }
}

impl FromStr for HistoryAnchor {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text
            .split_once(':')
            .and_then(|(sequence, hash)| Some((sequence.parse().ok()?, hash.to_ascii_lowercase())));
        let (sequence, hash) = parts.ok_or("must be a sequence, a colon and a hash")?;
        Ok(Self { sequence, hash })
    }
}

/// The result of a check of both chains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub rows: u64,
    /// The last row, to be noted elsewhere.
    pub last: HistoryAnchor,
    /// The faults, class by class in the order of the rows, at most a hundred.
    pub faults: Vec<String>,
    pub changes: Reach,
    pub sessions: Reach,
}

/// How far back the rows of a class reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The oldest row that is kept: its sequence and time. `None` if there is none, or it cannot be
    /// read.
    pub first: Option<(u64, Timestamp)>,
    /// The last row that is kept or was dropped.
    pub last: HistoryAnchor,
    /// Whether older rows were dropped.
    pub is_cut: bool,
}

/// A row that [`Read::follow_history`] came to.
pub(crate) struct FollowedRow<'r> {
    pub(crate) key: &'r [u8],
    /// What is wrong with it, if anything.
    pub(crate) fault: Option<String>,
    /// The position after it, or after the row before if it cannot be read.
    pub(crate) position: ChainPosition,
}

/// Called with each row.
pub(crate) type RowVisitor<'f> = &'f mut dyn FnMut(FollowedRow<'_>) -> Result<ControlFlow<()>>;

/// What a check of one chain knows of both.
struct Chains<'c> {
    read: &'c Read<'c>,
    class: HistoryClass,
    /// The position to which the first row of the other class is chained.
    other: ChainPosition,
    /// The sequence up to which rows may be missing because they were dropped.
    dropped: u64,
    /// The last link that was compared. Many rows in a row have the same one, which is a fault
    /// once.
    compared: ChainLink,
}

impl Chains<'_> {
    /// What is wrong with the row after this position, if anything.
    fn fault(
        &mut self,
        before: &ChainPosition,
        next: &ChainPosition,
        key: &[u8],
        row: &[u8],
    ) -> Result<Option<String>> {
        let sequence = next.sequence;
        if sequence > before.sequence.saturating_add(1) && sequence.saturating_sub(1) > self.dropped
        {
            let previous = self.last_other(sequence)?.max(before.sequence);
            if previous.saturating_add(1) != sequence {
                return Ok(Some(format!(
                    "row {sequence} of the history directly follows row {previous}"
                )));
            }
        }
        if !before.precedes(key, row) {
            return Ok(Some(match self.misses_any(before.sequence, sequence)? {
                true => format!(
                    "row {sequence} of the history was altered, or a row between row {} and it is missing",
                    before.sequence
                ),
                false => format!("row {sequence} of the history was altered"),
            }));
        }
        match link(row) {
            Some(link) if !self.stands(&link)? => Ok(Some(format!(
                "row {} of the history, after which row {sequence} was written, is missing or was altered",
                link.sequence
            ))),
            _ => Ok(None),
        }
    }

    /// The sequence of the last row of the other class before this one; zero if there is none.
    fn last_other(&self, before: u64) -> Result<u64> {
        let mut last = 0;
        let keys = (Bound::Unbounded, Bound::Excluded(&before.to_be_bytes()[..]));
        self.read
            .scan_back(Table::History(self.class.other()), keys, &mut |key, _| {
                last = key.try_into().map_or(0, u64::from_be_bytes);
                Ok(ControlFlow::Break(()))
            })?;
        Ok(last)
    }

    /// Whether a sequence between two rows of the class belongs to no row.
    fn misses_any(&self, after: u64, before: u64) -> Result<bool> {
        let mut left = before.saturating_sub(after).saturating_sub(1);
        let (after, before) = (after.to_be_bytes(), before.to_be_bytes());
        let keys = (
            Bound::Excluded(after.as_slice()),
            Bound::Excluded(before.as_slice()),
        );
        if after < before {
            self.read
                .scan(Table::History(self.class.other()), keys, &mut |_, _| {
                    left = left.saturating_sub(1);
                    Ok(ControlFlow::Continue(()))
                })?;
        }
        Ok(left > 0)
    }

    /// Whether the row of a link is there as it was, or was dropped, or was compared before.
    fn stands(&mut self, link: &ChainLink) -> Result<bool> {
        if std::mem::replace(&mut self.compared, *link) == *link {
            return Ok(true);
        }
        let found = match link.sequence.cmp(&self.other.sequence) {
            std::cmp::Ordering::Less => return Ok(true),
            std::cmp::Ordering::Equal => Some(self.other),
            std::cmp::Ordering::Greater => {
                let key = link.sequence.to_be_bytes();
                self.read
                    .bytes(Table::History(self.class.other()), &key)?
                    .and_then(|row| ChainPosition::of(&key, &row))
            }
        };
        Ok(found.is_some_and(|found| found.as_link() == *link))
    }
}

impl Read<'_> {
    /// Follows the chain of a class from its anchor, or from the row behind a key, to its end.
    ///
    /// # Errors
    /// The file cannot be read, or the first error of `see`.
    pub(crate) fn follow_history(
        &self,
        class: HistoryClass,
        behind: Option<&[u8]>,
        see: RowVisitor<'_>,
    ) -> Result<()> {
        let (mut before, other) = (anchor(self, class)?, anchor(self, class.other())?);
        let dropped = before.sequence.max(other.sequence);
        if let Some(key) = behind {
            // That row may have been dropped meanwhile, or cannot be read.
            self.scan_back(
                Table::History(class),
                (Bound::Unbounded, Bound::Included(key)),
                &mut |key, row| {
                    let known = ChainPosition::of(key, row);
                    before = known.unwrap_or(before);
                    Ok(if known.is_some() {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    })
                },
            )?;
        }
        let mut chains = Chains {
            read: self,
            class,
            other,
            dropped,
            compared: ChainLink::default(),
        };
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        self.scan(
            Table::History(class),
            (from, Bound::Unbounded),
            &mut |key, row| {
                let Some(position) = ChainPosition::of(key, row) else {
                    let fault = Some(format!(
                        "the history has an unreadable row after row {}",
                        before.sequence
                    ));
                    return see(FollowedRow {
                        key,
                        fault,
                        position: before,
                    });
                };
                let fault = chains.fault(&before, &position, key, row)?;
                before = position;
                see(FollowedRow {
                    key,
                    fault,
                    position,
                })
            },
        )
    }

    fn has_history_row(&self, sequence: u64) -> Result<bool> {
        let key = sequence.to_be_bytes();
        let [changes, sessions] = HistoryClass::ALL
            .map(|class| self.rows.get(Table::History(class), &key, &mut |_| Ok(())));
        Ok(changes? || sessions?)
    }

    /// How far back the rows of a class reach.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn history_reach(&self, class: HistoryClass) -> Result<Reach> {
        let start = anchor(self, class)?;
        let mut first = None;
        self.scan(Table::History(class), ALL, &mut |key, row| {
            first = key
                .try_into()
                .ok()
                .map(u64::from_be_bytes)
                .zip(written_at(row));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(Reach {
            first,
            last: HistoryAnchor::of(&end(self, class).unwrap_or(start)),
            is_cut: start.sequence > 0,
        })
    }
}

impl Store {
    /// Checks both chains; if a row was noted elsewhere, also that it is still there unchanged.
    /// Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn verify_history(&self, noted: Option<&HistoryAnchor>) -> Result<Verified> {
        self.read(|read| {
            let (mut rows, mut faults, mut met, mut dropped) = (0, Vec::new(), noted.is_none(), 0);
            let mut last = ChainPosition::default();
            for class in HistoryClass::ALL {
                let start = anchor(read, class)?;
                let mut check = |position: ChainPosition| {
                    met |= noted.is_some_and(|noted| HistoryAnchor::of(&position) == *noted);
                    last = if position.sequence >= last.sequence {
                        position
                    } else {
                        last
                    };
                };
                check(start);
                dropped = start.sequence.max(dropped);
                read.follow_history(class, None, &mut |row| {
                    rows += 1;
                    faults.extend(row.fault.filter(|_| faults.len() < MAX_FAULTS));
                    check(row.position);
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            if let Some(HistoryAnchor { sequence, .. }) = noted.filter(|_| !met) {
                let is_dropped = *sequence < dropped && !read.has_history_row(*sequence)?;
                let how = if is_dropped {
                    "was dropped and cannot be compared"
                } else {
                    "differs from the noted one"
                };
                faults.push(format!("row {sequence} of the history {how}"));
            }
            let [changes, sessions] = [HistoryClass::Changes, HistoryClass::Sessions]
                .map(|class| read.history_reach(class));
            Ok(Verified {
                rows,
                last: HistoryAnchor::of(&last),
                faults,
                changes: changes?,
                sessions: sessions?,
            })
        })
    }
}
