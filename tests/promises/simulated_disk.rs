//! A deterministic disk for tests: after a power loss, unflushed writes are lost, torn or out of
//! order, and any operation can be made to fail.
//!
//! Assumptions, as every database makes them: a byte is written completely or not at all, and
//! flushed data stays.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use redb::StorageBackend;

const SECTOR: usize = 512;
const PAGE: u64 = 4096;

/// Reproducible random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % bound as u64).unwrap()
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, of: usize) -> bool {
        self.below(100) < of
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// How the disk fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DiskFault {
    #[default]
    None,
    Reads,
    /// Writes fail after an arbitrary part of the data.
    Writes,
    /// Flushes fail after an arbitrary part; the rest is dropped although it can still be read, as
    /// Linux does.
    Flushes,
    /// The same, and afterwards reads fail.
    FlushesThenReads,
    /// The length of the file cannot be changed.
    Lengths,
    /// No space: pages that were never written cannot be.
    Full,
}

/// The disk. Clones share its state.
#[derive(Debug, Clone)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Debug, Clone)]
struct State {
    rng: Rng,
    /// What survives a power loss.
    platter: Vec<u8>,
    /// What reads return.
    cache: Vec<u8>,
    /// Changes that are only in the cache, in order.
    pending: Vec<Change>,
    /// Pages with space on the platter.
    pages: BTreeSet<u64>,
    /// Operations until the power is lost.
    left: u64,
    fault: DiskFault,
    /// Operations that failed because of `trouble`.
    failed: u64,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Length(len) => to.resize(*len, 0),
            // A write beyond the end of the file is cut off.
            Self::Write(at, bytes) => {
                let end = to.len().min(at + bytes.len());
                if *at < end {
                    to[*at..end].copy_from_slice(&bytes[..end - at]);
                }
            }
        }
    }
}

impl SimulatedDisk {
    /// A disk with this content.
    pub fn holding(content: Vec<u8>, seed: u64) -> Self {
        let pages = (0..content.len() as u64).step_by(4096).collect();
        let (cache, pending, fault) = (content.clone(), Vec::new(), DiskFault::None);
        let rng = Rng(seed);
        Self(Arc::new(Mutex::new(State {
            rng,
            platter: content,
            cache,
            pending,
            pages,
            left: u64::MAX,
            fault,
            failed: 0,
        })))
    }

    /// Power is lost after this many more operations.
    pub fn power_for(&self, operations: u64) {
        self.state().left = operations;
    }

    pub fn has_power(&self) -> bool {
        self.state().left > 0
    }

    /// The number of operations that failed because of a fault.
    pub fn failed(&self) -> u64 {
        self.state().failed
    }

    pub fn fault(&self, fault: DiskFault) {
        self.state().fault = fault;
    }

    /// The disk after a power loss now. A separate disk, because the old process still writes to
    /// this one.
    pub fn after_power_loss(&self) -> Self {
        let mut state = self.state();
        state.left = 0;
        state.apply_some(50);
        let seed = state.rng.number();
        Self::holding(state.platter.clone(), seed)
    }

    /// The disk as the next process finds it if this one is killed now: the system keeps its cache
    /// without the writes it dropped. A separate disk, because the old process still writes to this
    /// one.
    pub fn after_kill(&self) -> Self {
        let mut state = self.state();
        state.left = 0;
        let rng = Rng(state.rng.number());
        Self(Arc::new(Mutex::new(State {
            rng,
            left: u64::MAX,
            fault: DiskFault::None,
            failed: 0,
            ..state.clone()
        })))
    }

    /// The content that reads return now.
    pub fn content(&self) -> Vec<u8> {
        self.state().cache.clone()
    }

    /// Changes stored bytes without the store's knowledge.
    pub fn corrupt(&self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.state().cache);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The state, for an operation that does not fail.
    fn operate(&self, fails: impl FnOnce(&State) -> bool) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.left == 0 {
            return Err(io::Error::other("the power is off"));
        }
        if fails(&state) {
            state.failed += 1;
            return Err(io::Error::other("the disk fails"));
        }
        state.left -= 1;
        Ok(state)
    }
}

impl State {
    /// Some pending changes reach the platter, the others are lost. Length changes have their own
    /// probability: file systems journal them.
    fn apply_some(&mut self, lengths: usize) {
        let rng = *self.rng.pick(&[0, 10, 50, 90, 100]);
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Length(_) => {
                    if self.rng.percent(lengths) {
                        change.apply(&mut self.platter);
                    }
                }
                Change::Write(at, bytes) => self.tear(at, &bytes, rng),
            }
        }
    }

    fn tear(&mut self, mut at: usize, mut bytes: &[u8], rng: usize) {
        while !bytes.is_empty() {
            let (sector, rest) = bytes.split_at(bytes.len().min(SECTOR - at % SECTOR));
            if self.rng.percent(rng) {
                let torn = self.rng.percent(10);
                let length = if torn {
                    self.rng.below(sector.len() + 1)
                } else {
                    sector.len()
                };
                Change::Write(at, sector[..length].to_vec()).apply(&mut self.platter);
            }
            (at, bytes) = (at + sector.len(), rest);
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.cache);
        self.pending.push(change);
    }
}

impl StorageBackend for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.operate(|_| false)?.cache.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.operate(|state| state.fault == DiskFault::Reads)?;
        let at = usize::try_from(offset).unwrap();
        let found = state
            .cache
            .get(at..at + out.len())
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.operate(|state| state.fault == DiskFault::Lengths)?;
        state.change(Change::Length(usize::try_from(len).unwrap()));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = match self.operate(|state| {
            matches!(
                state.fault,
                DiskFault::Flushes | DiskFault::FlushesThenReads
            )
        }) {
            Ok(state) => state,
            Err(error) => {
                let mut state = self.state();
                if state.left > 0 {
                    if state.fault == DiskFault::FlushesThenReads {
                        state.fault = DiskFault::Reads;
                    }
                    state.apply_some(100);
                    // Dropped data may be readable for a while, or not.
                    if state.rng.percent(50) {
                        state.cache = state.platter.clone();
                    }
                }
                return Err(error);
            }
        };
        let State {
            platter, pending, ..
        } = &mut *state;
        pending.drain(..).for_each(|change| change.apply(platter));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        let pages: Vec<u64> = (offset / PAGE..(offset + data.len() as u64).div_ceil(PAGE))
            .map(|page| page * PAGE)
            .collect();
        let has_room = |state: &State| {
            state.fault != DiskFault::Full || pages.iter().all(|page| state.pages.contains(page))
        };
        match self.operate(|state| state.fault == DiskFault::Writes || !has_room(state)) {
            Ok(mut state) => {
                state.pages.extend(pages);
                state.change(Change::Write(at, data.to_vec()));
                Ok(())
            }
            Err(error) => {
                let mut state = self.state();
                if state.left > 0 {
                    let some = state.rng.below(data.len() + 1);
                    state.change(Change::Write(at, data[..some].to_vec()));
                }
                Err(error)
            }
        }
    }
}
