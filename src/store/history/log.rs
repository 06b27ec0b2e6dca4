//! The history in the file: rows that are only appended, each chained to the one before, in the same transaction as the
//! change that they describe.
//!
//! Key: the sequence, eight bytes, big endian. Row: `[hash 32][total u64, little endian][JSON, packed]`
//! (`history/packing.rs`). The hash is SHA-256 over the previous hash, the key, the total and the JSON. The total
//! counts the bytes of all rows ever written, so that the size of the stored rows is a subtraction. The oldest rows are
//! dropped first. The sequence, hash and total of the last dropped row are kept as the anchor to which the first row is
//! chained. Invariant: sequences have no gaps.
//!
//! The chain detects rows that were altered, removed or inserted by somebody who did not recompute all later hashes. A
//! full recomputation is only detected by comparison with a hash that was noted elsewhere, which is what [`HistoryAnchor`] is
//! for.

use std::{
    borrow::Cow,
    fmt,
    ops::{Bound, ControlFlow},
    str::FromStr,
};

use data_encoding::HEXLOWER;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::packing::{pack, unpack};
use crate::store::{
    handle::Store,
    tx::{
        read::Read,
        tables::{ALL, Table},
        write::Tx,
    },
};
use crate::{
    clock::Timestamp,
    entity::{Action, Author, HistoryEntry, HistoryRow},
    error::{Error, Result},
};

const HASH: usize = 32;
/// The length of hash and total in bytes.
const HEAD: usize = HASH + 8;
/// The key of the anchor in the table about the file itself.
pub(crate) const ANCHOR: &[u8] = b"history";
/// The number of rows dropped in one transaction.
const BATCH: usize = 512;
/// The greatest number of faults reported.
const MAX_FAULTS: usize = 100;

/// How much of the history is kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Rows older than this are dropped.
    pub since: Timestamp,
    /// The oldest rows are dropped until the others have at most this many bytes.
    pub bytes: u64,
}

/// The sequence and hash (hex) of a row, as noted outside the file; as text `sequence:hash`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryAnchor {
    pub sequence: u64,
    pub hash: String,
}

impl fmt::Display for HistoryAnchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sequence, self.hash)
    }
}

impl FromStr for HistoryAnchor {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once(':').and_then(|(sequence, hash)| Some((sequence.parse().ok()?, hash.to_ascii_lowercase())));
        let (sequence, hash) = parts.ok_or("must be a sequence, a colon and a hash")?;
        Ok(Self { sequence, hash })
    }
}

/// The result of a check of the whole chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub rows: u64,
    /// The last row, to be noted elsewhere.
    pub last: HistoryAnchor,
    /// The faults in the order of the rows, at most a hundred.
    pub faults: Vec<String>,
}

/// The chain's position after a row: the last row, or the anchor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChainPosition {
    pub(crate) sequence: u64,
    hash: [u8; HASH],
    total: u64,
}

impl ChainPosition {
    /// The position after this row; `None` if it cannot be read.
    pub(crate) fn of(key: &[u8], row: &[u8]) -> Option<Self> {
        let (hash, rest) = row.split_first_chunk()?;
        let total = rest.first_chunk()?;
        let sequence = u64::from_be_bytes(key.try_into().ok()?);
        Some(Self { sequence, hash: *hash, total: u64::from_le_bytes(*total) })
    }

    /// The row for this text after this position, and the position after it.
    fn next(&self, text: &[u8]) -> Result<(Self, Vec<u8>)> {
        let sequence = self.sequence.checked_add(1).ok_or_else(|| damaged_end("its last row has the greatest possible sequence"))?;
        let packed = pack(text)?;
        let total = self.total.wrapping_add((8 + HEAD + packed.len()) as u64);
        let hash = self.sum(sequence, total, text);
        let row = [hash.as_slice(), &total.to_le_bytes(), &packed].concat();
        Ok((Self { sequence, hash, total }, row))
    }

    /// What is wrong with the row after this position, if anything.
    fn fault(&self, next: &Self, row: &[u8]) -> Option<String> {
        let sequence = next.sequence;
        if self.sequence.checked_add(1) != Some(sequence) {
            return Some(format!("row {sequence} of the history directly follows row {}", self.sequence));
        }
        let fits = text(row).is_some_and(|text| self.sum(sequence, next.total, &text) == next.hash);
        (!fits).then(|| format!("row {sequence} of the history was altered"))
    }

    fn sum(&self, sequence: u64, total: u64, text: &[u8]) -> [u8; HASH] {
        let mut sum = Context::new(&SHA256);
        sum.update(&self.hash);
        sum.update(&sequence.to_be_bytes());
        sum.update(&total.to_le_bytes());
        sum.update(text);
        let mut hash = [0; HASH];
        hash.copy_from_slice(sum.finish().as_ref());
        hash
    }

    fn noted(&self) -> HistoryAnchor {
        HistoryAnchor { sequence: self.sequence, hash: HEXLOWER.encode(&self.hash) }
    }

    /// Whether it is the row that was noted.
    fn is(&self, noted: &HistoryAnchor) -> bool {
        self.sequence == noted.sequence && HEXLOWER.encode(&self.hash) == noted.hash
    }

    fn to_bytes(self) -> Vec<u8> {
        [self.hash.as_slice(), &self.total.to_le_bytes(), &self.sequence.to_be_bytes()].concat()
    }

    /// Reads what [`ChainPosition::to_bytes`] wrote.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, key) = bytes.split_at_checked(HEAD)?;
        Self::of(key, head)
    }
}

/// The JSON of a row; `None` if it is damaged.
pub(crate) fn text(row: &[u8]) -> Option<Cow<'_, [u8]>> {
    unpack(row.get(HEAD..)?)
}

/// The position to which the first row is chained.
pub(crate) fn anchor(read: &Read<'_>) -> Result<ChainPosition> {
    let Some(bytes) = read.bytes(Table::Meta, ANCHOR)? else { return Ok(ChainPosition::default()) };
    ChainPosition::from_bytes(&bytes).ok_or_else(|| Error::Damaged {
        kind: "history",
        id: "anchor".into(),
        reason: "it cannot be read".into(),
    })
}

/// The position to which the next row is chained.
pub(crate) fn end(read: &Read<'_>) -> Result<ChainPosition> {
    let mut last = None;
    let any = read.rows.last(Table::History, &mut |key, row| {
        last = ChainPosition::of(key, row);
        Ok(())
    })?;
    if any { last.ok_or_else(|| damaged_end("it cannot be read")) } else { anchor(read) }
}

/// No row can be chained to the last one.
fn damaged_end(reason: &str) -> Error {
    Error::Damaged { kind: "history", id: "end".into(), reason: format!("{reason}; overkeep history verify says where") }
}

/// The key of the last row if it cannot be read, in which case no row can be chained to it.
pub(crate) fn unreadable_end(read: &Read<'_>) -> Result<Option<Vec<u8>>> {
    let mut end = None;
    read.rows.last(Table::History, &mut |key, row| {
        end = ChainPosition::of(key, row).is_none().then(|| key.to_vec());
        Ok(())
    })?;
    Ok(end)
}

/// Drops the last row if it cannot be read. The next row takes its sequence.
pub(crate) fn drop_unreadable_end(tx: &Tx<'_>) -> Result<()> {
    unreadable_end(tx)?.map_or(Ok(()), |key| tx.rows.remove(Table::History, &key))
}

/// Decodes a row for output.
pub(crate) fn shown(key: &[u8], row: &[u8]) -> Result<HistoryRow> {
    let damaged = || Error::Damaged { kind: "history", id: HEXLOWER.encode(key), reason: "the row cannot be read".into() };
    let (link, text) = ChainPosition::of(key, row).zip(text(row)).ok_or_else(damaged)?;
    let row: HistoryRow = serde_json::from_slice(&text).map_err(|_| damaged())?;
    Ok(HistoryRow { hash: HEXLOWER.encode(&link.hash), ..row })
}

impl Tx<'_> {
    /// Appends to the history what the author of this transaction did besides changing records.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn append_history(&self, entry: HistoryEntry) -> Result<()> {
        // Deleted sessions that share a transaction are otherwise unrelated, so that each is a change of its own.
        let is_part = matches!(entry.action, Action::Create | Action::Update | Action::Delete);
        let author = Author::clone(&self.author.borrow());
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
    pub(crate) fn append_history_of(&self, author: Author, entry: HistoryEntry) -> Result<()> {
        let about = entry.access.as_ref().filter(|access| access.changes == 1).map(|access| access.first);
        self.add(author, entry, |sequence| about.unwrap_or(sequence))
    }

    /// `change` maps the sequence of the row to that of the change that it is part of.
    fn add(&self, author: Author, entry: HistoryEntry, change: impl FnOnce(u64) -> u64) -> Result<()> {
        let end = end(self)?;
        let sequence = end.sequence.wrapping_add(1);
        let row = HistoryRow::new(sequence, crate::entity::Lookup::now(self), author, entry, change(sequence));
        let text = serde_json::to_vec(&row).map_err(|e| Error::Internal(format!("a row of the history: {e}")))?;
        let (link, row) = end.next(&text)?;
        self.rows.insert(Table::History, &link.sequence.to_be_bytes(), &row)
    }

    /// Drops up to [`BATCH`] rows that need not be kept, oldest first. Returns their number.
    fn delete_old_rows(&self, keep: Retention) -> Result<usize> {
        let (mut anchor, end) = (anchor(self)?, end(self)?);
        let mut old = Vec::new();
        self.scan(Table::History, ALL, &mut |key, row| {
            let goes = old.len() < BATCH && is_old(row, keep, end.total.wrapping_sub(anchor.total));
            let Some(link) = ChainPosition::of(key, row).filter(|_| goes) else { return Ok(ControlFlow::Break(())) };
            anchor = link;
            old.push(key.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
        old.iter().try_for_each(|key| self.rows.remove(Table::History, key))?;
        if !old.is_empty() {
            self.rows.insert(Table::Meta, ANCHOR, &anchor.to_bytes())?;
        }
        Ok(old.len())
    }
}

/// Whether the first row is to be dropped.
fn is_oldest_expired(read: &Read<'_>, keep: Retention) -> Result<bool> {
    let bytes = end(read)?.total.wrapping_sub(anchor(read)?.total);
    let mut any = false;
    read.scan(Table::History, ALL, &mut |key, row| {
        any = ChainPosition::of(key, row).is_some() && is_old(row, keep, bytes);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(any)
}

/// Whether the oldest row is to be dropped, given the total size of all rows. A row whose time cannot be read is kept
/// unless the size is exceeded.
fn is_old(row: &[u8], keep: Retention, bytes: u64) -> bool {
    #[derive(Deserialize)]
    struct RowTime {
        at: Timestamp,
    }
    let when = || serde_json::from_slice::<RowTime>(&text(row)?).ok();
    bytes > keep.bytes || when().is_some_and(|when| when.at < keep.since)
}

impl Read<'_> {
    /// Follows the chain from its anchor, or from the row with a key, to its end. Passes to `see` the key of each row, its fault if any,
    /// and its position.
    pub(crate) fn follow_history(&self, behind: Option<&[u8]>, see: RowVisitor<'_>) -> Result<()> {
        let known = match behind {
            Some(key) => self.bytes(Table::History, key)?.and_then(|row| ChainPosition::of(key, &row)),
            None => None,
        };
        let (mut before, from) = match (known, behind) {
            (Some(link), _) => (link, Bound::Excluded(link.sequence.to_be_bytes())),
            // The row was dropped meanwhile, with all rows before it.
            (None, Some(_)) => (anchor(self)?, Bound::Excluded(anchor(self)?.sequence.to_be_bytes())),
            (None, None) => (anchor(self)?, Bound::Unbounded),
        };
        self.scan(Table::History, (from.as_ref().map(|key| key.as_slice()), Bound::Unbounded), &mut |key, row| {
            let Some(link) = ChainPosition::of(key, row) else {
                let fault = format!("the history has an unreadable row after row {}", before.sequence);
                return see(key, Some(fault), before);
            };
            let fault = before.fault(&link, row);
            before = link;
            see(key, fault, link)
        })
    }
}

/// Called with a row of the history: its key, its fault if any, its position in the chain.
type RowVisitor<'f> = &'f mut dyn FnMut(&[u8], Option<String>, ChainPosition) -> Result<ControlFlow<()>>;

impl Store {
    /// Checks the whole chain; if a row was noted elsewhere, also that it is still there unchanged. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn verify_history(&self, noted: Option<&HistoryAnchor>) -> Result<Verified> {
        self.read(|read| {
            let start = anchor(read)?;
            let (mut rows, mut last, mut faults) = (0, start, Vec::new());
            let mut met = noted.is_none_or(|noted| start.is(noted));
            read.follow_history(None, &mut |_, fault, link| {
                rows += 1;
                faults.extend(fault.filter(|_| faults.len() < MAX_FAULTS));
                met |= noted.is_some_and(|noted| link.is(noted));
                last = link;
                Ok(ControlFlow::Continue(()))
            })?;
            if let Some(HistoryAnchor { sequence, .. }) = noted.filter(|_| !met) {
                let gone = *sequence < start.sequence;
                let how = if gone { "was dropped and cannot be compared" } else { "differs from the noted one" };
                faults.push(format!("row {sequence} of the history {how}"));
            }
            Ok(Verified { rows, last: last.noted(), faults })
        })
    }

    /// Drops rows that need not be kept, in bounded transactions, and returns their number. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written; what was dropped until then stays dropped.
    pub fn trim_history(&self, keep: Retention) -> Result<usize> {
        let mut dropped = 0;
        while self.read(|read| is_oldest_expired(read, keep))? {
            dropped += self.write_blocking(move |tx| tx.delete_old_rows(keep))?;
        }
        Ok(dropped)
    }
}
