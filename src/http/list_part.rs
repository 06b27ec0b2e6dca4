//! Entries of a list, written into memory until a part of the answer is full.

use serde::Serialize;

use crate::{
    error::{Error, Result},
    store::Ids,
};

/// What an answer with entries begins with.
const OPEN: &[u8] = br#"{"data":["#;
/// Bytes of entries in an answer that is sent whole, up to its last entry.
pub const WHOLE: usize = 256 << 10;
/// Bytes of entries that are written at a time of a longer one, up to the last entry.
const PART: usize = 64 << 10;

/// Entries of a list that are being written.
pub struct Part<'i> {
    ids: &'i Ids,
    pub at: usize,
    pub text: Vec<u8>,
    most: usize,
    /// Whether there is an entry in this part or before it.
    pub has_entries: bool,
}

impl<'i> Part<'i> {
    /// The beginning of an answer.
    pub fn first(ids: &'i Ids) -> Self {
        Self { ids, at: 0, text: OPEN.to_vec(), most: WHOLE, has_entries: false }
    }

    /// Entries from `at` on.
    pub fn later(ids: &'i Ids, at: usize, has_entries: bool) -> Self {
        Self { ids, at, text: Vec::new(), most: PART, has_entries }
    }

    /// The next record to be written, if there is one and room for it.
    pub fn next(&mut self) -> Option<&'i str> {
        let id = self.ids.get(self.at).filter(|_| self.text.len() < self.most)?;
        self.at += 1;
        Some(id)
    }

    /// Some of the next records, to look something up for all of them at once.
    pub fn ahead(&self, count: usize) -> Vec<&'i str> {
        if self.text.len() < self.most { (self.at..).take(count).map_while(|at| self.ids.get(at)).collect() } else { Vec::new() }
    }

    /// Adds a value as an entry.
    ///
    /// # Errors
    /// It has no JSON form, which is a defect.
    pub fn add_value(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(value).map_err(|e| Error::Internal(format!("a record as JSON: {e}")))?;
        self.add(&[&text]);
        Ok(())
    }

    /// Adds an entry that comes in parts.
    pub fn add(&mut self, parts: &[&[u8]]) {
        if std::mem::replace(&mut self.has_entries, true) {
            self.text.push(b',');
        }
        parts.iter().for_each(|part| self.text.extend_from_slice(part));
    }
}
