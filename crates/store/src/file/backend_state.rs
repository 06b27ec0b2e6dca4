//! What the backend remembers of the file: the first page, what was written since the last flush,
//! and what failed.

use std::{collections::BTreeSet, io};

use redb::StorageBackend;

use super::{checksum::BLOCK, overlay::OverlayPages};

/// The size of a page in bytes. The first page says where the current state is.
pub(super) const PAGE: usize = BLOCK as usize;

#[derive(Debug, Default)]
pub(super) struct State {
    /// The first page, as far as it was ever written: the current content, and the flushed content.
    pub(super) head: Vec<u8>,
    pub(super) flushed: Vec<u8>,
    /// How often a first page with other content was flushed.
    pub(super) heads: u64,
    /// The writes (offset, size) and the requested file length since the last flush.
    pub(super) written: Vec<(u64, usize)>,
    pub(super) wanted: u64,
    /// What is written while the file is set aside.
    pub(super) memory: Option<OverlayPages>,
    pub(super) failure: Option<String>,
    /// Blocks that differed from what was written to them when they were read again.
    pub(super) lost: BTreeSet<u64>,
}

impl State {
    /// Tests whether the disk accepts what it may have refused, by writing the same bytes to the
    /// same places, which is harmless. Also writes the first page as it was flushed last: until
    /// that is on disk, the page on disk may lead to data that is about to be overwritten.
    pub(super) fn try_again(&self, backend: &dyn StorageBackend) -> io::Result<()> {
        backend.write(0, &self.flushed)?;
        let len = backend.len()?;
        if self.wanted > len {
            backend.set_len(self.wanted)?;
            backend.set_len(len)?;
        }
        for (offset, size) in self
            .written
            .iter()
            .filter(|(offset, size)| *offset > 0 && offset + *size as u64 <= len)
        {
            let mut bytes = vec![0; *size];
            backend.read(*offset, &mut bytes)?;
            backend.write(*offset, &bytes)?;
        }
        backend.sync_data()
    }

    pub(super) fn note_head(&mut self, offset: u64, data: &[u8]) {
        let end = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .saturating_add(data.len());
        if offset < PAGE as u64 && self.head.len() < end.min(PAGE) {
            self.head.resize(end.min(PAGE), 0);
        }
        lay(offset, data, 0, &mut self.head);
    }

    pub(super) fn note_failure<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.failure.get_or_insert_with(|| error.to_string());
        }
        result
    }
}

/// Copies the part of `bytes`, which lie at offset `from`, that overlaps `out`, which lies at
/// offset `to`.
pub(super) fn lay(from: u64, bytes: &[u8], to: u64, out: &mut [u8]) {
    let start = from.max(to);
    let behind = |at: u64| usize::try_from(start - at).unwrap_or(usize::MAX);
    let source = bytes.get(behind(from)..).unwrap_or_default();
    let target = out.get_mut(behind(to)..).unwrap_or_default();
    for (to, from) in target.iter_mut().zip(source) {
        *to = *from;
    }
}
