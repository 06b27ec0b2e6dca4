//! The checksum of each block of the file: of what was last written to it, or else of what was
//! first read from it. They detect a disk that changes data, also in blocks that are no longer read
//! because they are cached in memory.

use std::sync::{
    PoisonError, RwLock, RwLockReadGuard,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// The size of a block in bytes; redb's page size.
pub(crate) const BLOCK: u64 = 4096;
/// The value for a block whose content is unknown.
const UNKNOWN: u32 = 0;

/// By block number; four bytes each.
#[derive(Debug, Default)]
pub(crate) struct Checksums(RwLock<Vec<AtomicU32>>);

impl Checksums {
    /// Records what was read, for blocks whose content is unknown.
    pub(crate) fn set_if_unknown(&self, offset: u64, bytes: &[u8]) {
        let checksums = self.known_up_to(offset + bytes.len() as u64);
        for (number, block) in whole(offset, bytes) {
            if let Some(known) = checksums
                .get(number)
                .filter(|known| known.load(Relaxed) == UNKNOWN)
            {
                known.store(sum(block), Relaxed);
            }
        }
    }

    /// Records what was written.
    pub(crate) fn set(&self, offset: u64, bytes: &[u8]) {
        self.forget(offset, bytes.len());
        self.set_if_unknown(offset, bytes);
    }

    /// Marks the blocks of a range as unknown.
    pub(crate) fn forget(&self, offset: u64, length: usize) {
        let end = (offset + length as u64).div_ceil(BLOCK);
        let checksums = self.read();
        for known in (offset / BLOCK..end).filter_map(|block| checksums.get(index(block))) {
            known.store(UNKNOWN, Relaxed);
        }
    }

    /// Records that the file was cut to this length.
    pub(crate) fn truncate(&self, length: u64) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .truncate(index(length.div_ceil(BLOCK)));
        self.forget(length, 1);
    }

    /// The checksum of a block, if it is known.
    pub(crate) fn of(&self, block: u64) -> Option<u32> {
        self.read()
            .get(index(block))
            .map(|known| known.load(Relaxed))
            .filter(|known| *known != UNKNOWN)
    }

    /// The number of blocks covered.
    pub(crate) fn len(&self) -> u64 {
        self.read().len() as u64
    }

    /// The number of blocks whose checksum is known.
    pub(crate) fn known_blocks(&self) -> u64 {
        self.read()
            .iter()
            .filter(|known| known.load(Relaxed) != UNKNOWN)
            .count() as u64
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<AtomicU32>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_up_to(&self, end: u64) -> RwLockReadGuard<'_, Vec<AtomicU32>> {
        let blocks = index(end / BLOCK);
        let checksums = self.read();
        if checksums.len() >= blocks {
            return checksums;
        }
        drop(checksums);
        let mut grown = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let blocks = blocks.max(grown.len());
        grown.resize_with(blocks, AtomicU32::default);
        drop(grown);
        self.read()
    }
}

fn index(block: u64) -> usize {
    usize::try_from(block).unwrap_or(usize::MAX)
}

/// The whole blocks in a range of the file, by number, without the first: it names the current
/// state, and parts of it are rewritten all the time.
fn whole(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let first = offset.div_ceil(BLOCK);
    let before = usize::try_from(first * BLOCK - offset).unwrap_or(usize::MAX);
    let blocks = bytes
        .get(before..)
        .unwrap_or_default()
        .chunks_exact(index(BLOCK));
    blocks
        .enumerate()
        .map(move |(n, block)| (index(first) + n, block))
        .filter(|(number, _)| *number > 0)
}

/// The checksum of a block's content; never the value for an unknown block.
pub(crate) fn sum(block: &[u8]) -> u32 {
    crc32fast::hash(block).max(1)
}
