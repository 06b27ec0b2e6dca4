//! A file as it is, with changes that stay in memory: a look at a file changes nothing in it, not even in one that was never closed.
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

/// The unit in which changes are kept, in bytes.
const BLOCK: u64 = 4096;

/// What a database sees of the file.
#[derive(Debug)]
pub struct Aside {
    file: File,
    seen: RwLock<Seen>,
}

#[derive(Debug)]
struct Seen {
    length: u64,
    /// Up to here bytes come from the file, unless they are changed.
    of_file: u64,
    /// By number. Whole blocks.
    changed: BTreeMap<u64, Vec<u8>>,
}

impl Aside {
    /// The file as it is now. Nobody may change it as long as this lives.
    ///
    /// # Errors
    /// Its length cannot be read.
    pub fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, seen: RwLock::new(Seen { length, of_file: length, changed: BTreeMap::new() }) })
    }

    fn seen(&self) -> RwLockReadGuard<'_, Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen_mut(&self) -> RwLockWriteGuard<'_, Seen> {
        self.seen.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file has from `offset` on, and zeros behind its end.
    fn of_file(&self, seen: &Seen, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(seen.of_file.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (known, rest) = out.split_at_mut(there);
        rest.fill(0);
        self.file.read_exact_at(known, offset)
    }
}

/// The parts of a range, each within one block: the number of the block, where in it the part begins, and how long it is.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + length as u64;
    (offset / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
        let (from, to) = (offset.max(block * BLOCK), end.min((block + 1) * BLOCK));
        // Both are at most a block.
        (block, (from - block * BLOCK) as usize, (to - from) as usize)
    })
}

fn out_of_range() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

impl StorageBackend for Aside {
    fn len(&self) -> io::Result<u64> {
        Ok(self.seen().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let seen = self.seen();
        if offset.saturating_add(out.len() as u64) > seen.length {
            return Err(out_of_range());
        }
        self.of_file(&seen, offset, out)?;
        let mut rest = out;
        for (block, from, length) in parts(offset, rest.len()) {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(length);
            if let Some(bytes) = seen.changed.get(&block).and_then(|bytes| bytes.get(from..from + length)) {
                part.copy_from_slice(bytes);
            }
            rest = behind;
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut seen = self.seen_mut();
        if length < seen.length {
            seen.of_file = seen.of_file.min(length);
            seen.changed.retain(|block, _| block * BLOCK < length);
            if let Some(last) = seen.changed.get_mut(&(length / BLOCK)) {
                last.iter_mut().skip((length % BLOCK) as usize).for_each(|byte| *byte = 0);
            }
        }
        seen.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut seen = self.seen_mut();
        if offset.saturating_add(data.len() as u64) > seen.length {
            return Err(out_of_range());
        }
        let mut rest = data;
        for (block, from, length) in parts(offset, data.len()) {
            let (part, behind) = rest.split_at(length);
            if !seen.changed.contains_key(&block) {
                let mut bytes = vec![0; BLOCK as usize];
                self.of_file(&seen, block * BLOCK, &mut bytes)?;
                seen.changed.insert(block, bytes);
            }
            let changed = seen.changed.get_mut(&block).and_then(|bytes| bytes.get_mut(from..from + length));
            changed.ok_or_else(out_of_range)?.copy_from_slice(part);
            rest = behind;
        }
        Ok(())
    }
}
