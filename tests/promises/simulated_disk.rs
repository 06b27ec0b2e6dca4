//! A disk made for tests, deterministic: what was not flushed is lost, torn or out of order when the power goes, and any operation fails
//! when told to.
//!
//! What is taken from it as given, as every database does: a byte is written whole or not at all, and what was flushed stays.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use redb::StorageBackend;

const SECTOR: usize = 512;
const PAGE: u64 = 4096;

/// Numbers that are the same for the same seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % bound as u64).unwrap()
    }

    /// Yes, so many times in a hundred.
    pub fn percent(&mut self, of: usize) -> bool {
        self.below(100) < of
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trouble {
    #[default]
    None,
    Reads,
    /// Some of what is to be written is.
    Writes,
    /// Some of what is to be flushed is, and the rest is forgotten although it can be read: as Linux does.
    Flushes,
    /// The same, and from then on nothing can be read.
    FlushesThenReads,
    /// The file neither grows nor shrinks.
    Lengths,
    /// What was never written has no room.
    Full,
}

/// The disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Debug, Clone)]
struct State {
    chance: Chance,
    /// What stays when the power goes.
    platter: Vec<u8>,
    /// What is read.
    cache: Vec<u8>,
    /// What is only in the cache, in the order it came.
    pending: Vec<Change>,
    /// Pages that have room on the platter.
    pages: BTreeSet<u64>,
    /// Operations until the power goes.
    left: u64,
    trouble: Trouble,
    /// Operations that failed for that.
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
            // What was written behind the end of the file is not in it.
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
    /// With something on it.
    pub fn holding(content: Vec<u8>, seed: u64) -> Self {
        let pages = (0..content.len() as u64).step_by(4096).collect();
        let (cache, pending, trouble) = (content.clone(), Vec::new(), Trouble::None);
        let chance = Chance(seed);
        Self(Arc::new(Mutex::new(State { chance, platter: content, cache, pending, pages, left: u64::MAX, trouble, failed: 0 })))
    }

    /// The power goes after so many more operations.
    pub fn power_for(&self, operations: u64) {
        self.state().left = operations;
    }

    pub fn has_power(&self) -> bool {
        self.state().left > 0
    }

    /// How many operations failed for trouble.
    pub fn failed(&self) -> u64 {
        self.state().failed
    }

    pub fn trouble(&self, trouble: Trouble) {
        self.state().trouble = trouble;
    }

    /// What is on it when the power goes now and comes back: another disk, for whoever holds this one still writes to it.
    pub fn after_power_loss(&self) -> Self {
        let mut state = self.state();
        state.left = 0;
        state.lose(50);
        let seed = state.chance.number();
        Self::holding(state.platter.clone(), seed)
    }

    /// What the next process finds when this one is killed now: the system keeps what it was given, and has forgotten what it forgot.
    /// Another disk, for whoever holds this one still writes to it.
    pub fn after_kill(&self) -> Self {
        let mut state = self.state();
        state.left = 0;
        let chance = Chance(state.chance.number());
        Self(Arc::new(Mutex::new(State { chance, left: u64::MAX, trouble: Trouble::None, failed: 0, ..state.clone() })))
    }

    /// What can be read from it now.
    pub fn content(&self) -> Vec<u8> {
        self.state().cache.clone()
    }

    /// Changes what is on it, behind everybody's back.
    pub fn spoil(&self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.state().cache);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The state, for an operation that nothing hinders.
    fn operate(&self, fails: impl FnOnce(&State) -> bool) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.left == 0 {
            return Err(io::Error::other("there is no power"));
        }
        if fails(&state) {
            state.failed += 1;
            return Err(io::Error::other("the disk does not work"));
        }
        state.left -= 1;
        Ok(state)
    }
}

impl State {
    /// Some of what is pending reaches the platter, the rest never will. Lengths have another chance: they are kept in a journal.
    fn lose(&mut self, lengths: usize) {
        let chance = *self.chance.pick(&[0, 10, 50, 90, 100]);
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Length(_) => {
                    if self.chance.percent(lengths) {
                        change.apply(&mut self.platter);
                    }
                }
                Change::Write(at, bytes) => self.tear(at, &bytes, chance),
            }
        }
    }

    fn tear(&mut self, mut at: usize, mut bytes: &[u8], chance: usize) {
        while !bytes.is_empty() {
            let (sector, rest) = bytes.split_at(bytes.len().min(SECTOR - at % SECTOR));
            if self.chance.percent(chance) {
                let torn = self.chance.percent(10);
                let kept = if torn { self.chance.below(sector.len() + 1) } else { sector.len() };
                Change::Write(at, sector[..kept].to_vec()).apply(&mut self.platter);
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
        let state = self.operate(|state| state.trouble == Trouble::Reads)?;
        let at = usize::try_from(offset).unwrap();
        let found = state.cache.get(at..at + out.len()).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.operate(|state| state.trouble == Trouble::Lengths)?;
        state.change(Change::Length(usize::try_from(len).unwrap()));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = match self.operate(|state| matches!(state.trouble, Trouble::Flushes | Trouble::FlushesThenReads)) {
            Ok(state) => state,
            Err(error) => {
                let mut state = self.state();
                if state.left > 0 {
                    if state.trouble == Trouble::FlushesThenReads {
                        state.trouble = Trouble::Reads;
                    }
                    state.lose(100);
                    // What was forgotten may be read for a while, or never again.
                    if state.chance.percent(50) {
                        state.cache = state.platter.clone();
                    }
                }
                return Err(error);
            }
        };
        let State { platter, pending, .. } = &mut *state;
        pending.drain(..).for_each(|change| change.apply(platter));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        let pages: Vec<u64> = (offset / PAGE..(offset + data.len() as u64).div_ceil(PAGE)).map(|page| page * PAGE).collect();
        let has_room = |state: &State| state.trouble != Trouble::Full || pages.iter().all(|page| state.pages.contains(page));
        match self.operate(|state| state.trouble == Trouble::Writes || !has_room(state)) {
            Ok(mut state) => {
                state.pages.extend(pages);
                state.change(Change::Write(at, data.to_vec()));
                Ok(())
            }
            Err(error) => {
                let mut state = self.state();
                if state.left > 0 {
                    let some = state.chance.below(data.len() + 1);
                    state.change(Change::Write(at, data[..some].to_vec()));
                }
                Err(error)
            }
        }
    }
}
