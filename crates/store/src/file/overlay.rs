//! A file with changes that stay in memory. Opening a file this way changes nothing in it, even if
//! it was not closed properly.
//!
//! Invariant: the file itself is opened for reading only.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use redb::StorageBackend;

use super::checksum::BLOCK;

/// The storage backend that redb gets.
#[derive(Debug)]
pub(crate) struct Overlay {
    file: File,
    changes: RwLock<OverlayPages>,
}

/// Changes to a file, kept in memory.
#[derive(Debug)]
pub(crate) struct OverlayPages {
    length: u64,
    /// Up to this offset, unchanged bytes come from the file.
    of_file: u64,
    /// Whole blocks, by number.
    changed: BTreeMap<u64, Vec<u8>>,
}

/// Reads bytes of the file from an offset; the range must exist.
type Source<'s> = &'s dyn Fn(u64, &mut [u8]) -> io::Result<()>;

impl Overlay {
    /// An unchanged view of the file. Nobody may change the file as long as this lives.
    ///
    /// # Errors
    /// The length of the file cannot be read.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self {
            file,
            changes: RwLock::new(OverlayPages::none(length)),
        })
    }

    fn changes(&self) -> RwLockReadGuard<'_, OverlayPages> {
        self.changes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes_mut(&self) -> RwLockWriteGuard<'_, OverlayPages> {
        self.changes.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self) -> impl Fn(u64, &mut [u8]) -> io::Result<()> {
        |offset, out| self.file.read_exact_at(out, offset)
    }
}

impl OverlayPages {
    /// No changes yet, to a file of this length in bytes.
    pub(crate) fn none(length: u64) -> Self {
        Self {
            length,
            of_file: length,
            changed: BTreeMap::new(),
        }
    }

    /// The length of the changed file in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// The changed ranges: offset and content, cut at the end of the file.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let within = |at: u64, bytes: &[u8]| {
            bytes
                .len()
                .min(usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX))
        };
        self.changed
            .iter()
            .map(|(block, bytes)| (block * BLOCK, bytes))
            .map(move |(at, bytes)| {
                let (there, _) = bytes.split_at(within(at, bytes));
                (at, there)
            })
    }

    /// Reads the file from `offset` on, with zeros after its end.
    fn of_file(&self, source: Source<'_>, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(self.of_file.saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(out.len());
        let (known, rest) = out.split_at_mut(there);
        rest.fill(0);
        if known.is_empty() {
            Ok(())
        } else {
            source(offset, known)
        }
    }

    pub(crate) fn read(&self, source: Source<'_>, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset.saturating_add(out.len() as u64) > self.length {
            return Err(out_of_range());
        }
        self.of_file(source, offset, out)?;
        let mut rest = out;
        for (block, from, length) in parts(offset, rest.len()) {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(length);
            if let Some(bytes) = self
                .changed
                .get(&block)
                .and_then(|bytes| bytes.get(from..from + length))
            {
                part.copy_from_slice(bytes);
            }
            rest = behind;
        }
        Ok(())
    }

    pub(crate) fn set_len(&mut self, length: u64) {
        if length < self.length {
            self.of_file = self.of_file.min(length);
            self.changed.retain(|block, _| block * BLOCK < length);
            if let Some(last) = self.changed.get_mut(&(length / BLOCK)) {
                for byte in last.iter_mut().skip((length % BLOCK) as usize) {
                    *byte = 0;
                }
            }
        }
        self.length = length;
    }

    pub(crate) fn write(&mut self, source: Source<'_>, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset.saturating_add(data.len() as u64) > self.length {
            return Err(out_of_range());
        }
        let mut rest = data;
        for (block, from, length) in parts(offset, data.len()) {
            let (part, behind) = rest.split_at(length);
            if !self.changed.contains_key(&block) {
                let mut bytes = vec![0; BLOCK as usize];
                self.of_file(source, block * BLOCK, &mut bytes)?;
                self.changed.insert(block, bytes);
            }
            let changed = self
                .changed
                .get_mut(&block)
                .and_then(|bytes| bytes.get_mut(from..from + length));
            changed.ok_or_else(out_of_range)?.copy_from_slice(part);
            rest = behind;
        }
        Ok(())
    }
}

/// The parts of a range, each within one block: the block number, the offset in the block, and the
/// length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + length as u64;
    (offset / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
        let (from, to) = (offset.max(block * BLOCK), end.min((block + 1) * BLOCK));
        // Both numbers are at most the block size.
        (block, (from - block * BLOCK) as usize, (to - from) as usize)
    })
}

fn out_of_range() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.changes().read(&self.source(), offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.changes_mut().set_len(length);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.changes_mut().write(&self.source(), offset, data)
    }
}
