//! Writes list entries into memory until a part of the answer is full.

use model::error::{Error, Result};
use serde::Serialize;
use store::Ids;

/// The maximum bytes of entries in an answer that is sent as a whole; the last entry may exceed it.
pub(crate) const WHOLE: usize = 256 << 10;
/// The bytes of entries per part of a longer answer; the last entry may exceed it.
const PART: usize = 64 << 10;

/// A part of a list that is being written.
pub struct Part<'i> {
    ids: &'i Ids,
    pub at: usize,
    pub text: Vec<u8>,
    limit: usize,
    /// The entries of this part.
    written: usize,
    /// Whether an entry was written in this part or before.
    pub(crate) has_entries: bool,
}

impl<'i> Part<'i> {
    /// The first part of an answer, which may be its only one.
    pub fn first(ids: &'i Ids) -> Self {
        Self {
            ids,
            at: 0,
            text: Vec::new(),
            limit: WHOLE,
            written: 0,
            has_entries: false,
        }
    }

    /// A later part with the entries from `at` on.
    pub fn later(ids: &'i Ids, at: usize, has_entries: bool) -> Self {
        Self {
            ids,
            at,
            text: Vec::new(),
            limit: PART,
            written: 0,
            has_entries,
        }
    }

    /// The id of the next record to write; `None` if there is none or the part is full.
    pub fn next(&mut self) -> Option<&'i str> {
        let id = self
            .ids
            .get(self.at)
            .filter(|_| self.text.len() < self.limit)?;
        self.at += 1;
        Some(id)
    }

    /// The ids of the next records, for a lookup of several at once.
    pub fn ahead(&self, count: usize) -> Vec<&'i str> {
        if self.text.len() < self.limit {
            (self.at..)
                .take(count)
                .map_while(|at| self.ids.get(at))
                .collect()
        } else {
            Vec::new()
        }
    }

    /// How many more entries as long as those of this part fit into it, between 1 and `most`; 1 for
    /// an empty part.
    pub fn room(&self, most: usize) -> usize {
        let (written, left) = (
            self.written.max(1),
            self.limit.saturating_sub(self.text.len()),
        );
        (left * written)
            .checked_div(self.text.len())
            .unwrap_or(1)
            .clamp(1, most)
    }

    /// Adds a value as an entry.
    ///
    /// # Errors
    /// The value cannot be serialized, which is a defect.
    pub(crate) fn add_value(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(value)
            .map_err(|e| Error::Internal(format!("cannot write a record as JSON: {e}")))?;
        self.add(&[&text]);
        Ok(())
    }

    /// Adds an entry that consists of several texts.
    pub fn add(&mut self, parts: &[&[u8]]) {
        if std::mem::replace(&mut self.has_entries, true) {
            self.text.push(b',');
        }
        self.written += 1;
        for part in parts {
            self.text.extend_from_slice(part);
        }
    }
}
