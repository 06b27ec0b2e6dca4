//! What each block of the file is known to hold, as a checksum: of what was last written to it, or else first read. So a disk that changes
//! what it was given is noticed, also where nobody reads any more because memory has it.

use std::sync::{
    PoisonError, RwLock, RwLockReadGuard,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// The unit of what is known of a file and what is changed in it, in bytes; that of the library's pages.
pub const BLOCK: u64 = 4096;
/// In the place of a checksum: nothing is known.
const UNKNOWN: u32 = 0;

/// By number of the block; four bytes each.
#[derive(Debug, Default)]
pub struct Checksums(RwLock<Vec<AtomicU32>>);

impl Checksums {
    /// Takes what was read, where nothing is known yet.
    pub fn learn(&self, offset: u64, bytes: &[u8]) {
        let checksums = self.known_up_to(offset + bytes.len() as u64);
        for (number, block) in whole(offset, bytes) {
            if let Some(known) = checksums.get(number).filter(|known| known.load(Relaxed) == UNKNOWN) {
                known.store(sum(block), Relaxed);
            }
        }
    }

    /// Takes what was written.
    pub fn set(&self, offset: u64, bytes: &[u8]) {
        self.forget(offset, bytes.len());
        self.learn(offset, bytes);
    }

    /// What is there now nobody can say.
    pub fn forget(&self, offset: u64, length: usize) {
        let end = (offset + length as u64).div_ceil(BLOCK);
        let checksums = self.read();
        (offset / BLOCK..end).filter_map(|block| checksums.get(index(block))).for_each(|known| known.store(UNKNOWN, Relaxed));
    }

    /// The file ends there now.
    pub fn truncate(&self, length: u64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).truncate(index(length.div_ceil(BLOCK)));
        self.forget(length, 1);
    }

    /// The checksum of what a block holds, if that is known.
    pub fn of(&self, block: u64) -> Option<u32> {
        self.read().get(index(block)).map(|known| known.load(Relaxed)).filter(|known| *known != UNKNOWN)
    }

    /// How many blocks have been told of.
    pub fn len(&self) -> u64 {
        self.read().len() as u64
    }

    /// How many blocks something is known of.
    pub fn known(&self) -> u64 {
        self.read().iter().filter(|known| known.load(Relaxed) != UNKNOWN).count() as u64
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

/// The whole blocks in a stretch of the file, by number. Not the first: where the current state begins, parts of it are written anew.
fn whole(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let first = offset.div_ceil(BLOCK);
    let before = usize::try_from(first * BLOCK - offset).unwrap_or(usize::MAX);
    let blocks = bytes.get(before..).unwrap_or_default().chunks_exact(index(BLOCK));
    blocks.enumerate().map(move |(n, block)| (index(first) + n, block)).filter(|(number, _)| *number > 0)
}

/// The checksum of what a block holds; never the one that means that nothing is known.
pub fn sum(block: &[u8]) -> u32 {
    crc32fast::hash(block).max(1)
}
