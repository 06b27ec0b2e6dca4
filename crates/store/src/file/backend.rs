//! A layer between redb and the file that lets the store continue after a disk failure.
//!
//! redb gives up a database at the first I/O error. After a failed flush it is unknown what is on
//! disk: the operating system may show pages that it never wrote. The only safe state to return to
//! is the one that was flushed last. redb never overwrites the pages of that state, and it finds
//! the state from the first page. So this layer remembers the first page as it was flushed. With
//! that page put back, everything written since is free space.
//!
//! After a failure the backend is *set aside*: the old [`BackendHandle`] becomes invalid, the first
//! page is put back, and a new handle writes to memory only. That is enough for redb to open the
//! file and for callers to read. When the disk accepts the writes that it refused, the memory is
//! written to disk and the same handle continues on the file ([`Backend::rejoin`]).
//!
//! [`Backend::reread`] checks at intervals that the disk still holds what was written to it.
//!
//! Invariant: only the newest handle reaches the file. A flush that it reports covers everything
//! the state consists of.

use std::{
    io,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use redb::{BackendError, StorageBackend};

use super::{
    backend_state::{PAGE, State},
    checksum::{BLOCK, Checksums, sum},
    overlay::OverlayPages,
};

/// The offset in the first page of the byte that selects one of two states, which is private to
/// redb. A single byte is written atomically. Without it, [`Backend::rejoin`] could not leave the
/// flushed state selected while it replaces the descriptions of both: redb itself replaces one at a
/// time, and its interface offers nothing that goes on with a database after a failure.
const CHOICE: usize = 9;

/// A file, or what a test uses instead of one.
#[derive(Debug)]
pub(crate) struct Backend {
    storage: Box<dyn StorageBackend>,
    /// The number of the newest handle.
    newest: AtomicU64,
    /// Whether writes stay in memory.
    uses_overlay: AtomicBool,
    /// Whether closing the newest handle releases the file.
    released: AtomicBool,
    checksums: Checksums,
    state: Mutex<State>,
}

/// The access of one database to the backend.
#[derive(Debug)]
pub(crate) struct BackendHandle {
    backend: Arc<Backend>,
    number: u64,
}

impl Backend {
    /// Wraps a storage backend that nobody else writes to, and returns its first handle.
    pub(crate) fn of(backend: impl StorageBackend) -> BackendHandle {
        let (newest, state) = (AtomicU64::new(1), Mutex::default());
        let backend = Self {
            storage: Box::new(backend),
            newest,
            uses_overlay: false.into(),
            released: false.into(),
            checksums: Checksums::default(),
            state,
        };
        BackendHandle {
            backend: Arc::new(backend),
            number: 1,
        }
    }

    /// The first error that the newest handle met, if any.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// A counter that grows with each state that is flushed.
    pub(crate) fn heads(&self) -> u64 {
        self.state().heads
    }

    /// Lets the newest handle close the file when it is closed.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Release);
    }

    /// Returns to the state that was flushed last, and leaves the file alone from now on. Gives the
    /// new handle.
    ///
    /// # Errors
    /// The disk fails, or nothing was flushed yet.
    pub(crate) fn set_overlay(self: &Arc<Self>) -> io::Result<BackendHandle> {
        let mut state = self.state();
        if state.flushed.is_empty() {
            return Err(io::Error::other("nothing was flushed yet"));
        }
        let number = self.newest.fetch_add(1, Ordering::AcqRel) + 1;
        let head = state.flushed.clone();
        // If the process ends now, the next one to open the file must not trust more than this one
        // does.
        drop(self.storage.write(0, &head));
        // Whether unflushed writes are on disk is unknown.
        for (offset, size) in &state.written {
            self.checksums.forget(*offset, *size);
        }
        let mut memory = OverlayPages::none(self.storage.len()?);
        memory.write(&self.source(), 0, &head)?;
        state.head = head;
        state.failure = None;
        state.memory = Some(memory);
        self.uses_overlay.store(true, Ordering::Release);
        Ok(BackendHandle {
            backend: self.clone(),
            number,
        })
    }

    /// Writes what the disk refused and what was kept in memory since, and continues with the file.
    ///
    /// # Errors
    /// The disk still fails; memory is kept and the backend stays set aside.
    pub(crate) fn rejoin(&self) -> io::Result<()> {
        let mut state = self.state();
        let Some(memory) = &state.memory else {
            return Ok(());
        };
        let backend = &self.storage;
        state.try_again(backend.as_ref())?;
        let len = backend.len()?;
        if memory.len() > len {
            backend.set_len(memory.len())?;
        }
        for (offset, bytes) in memory.each().filter(|(offset, _)| *offset > 0) {
            backend.write(offset, bytes)?;
            self.checksums.set(offset, bytes);
        }
        // The first page is written last, and its selecting byte in a second write, so that at no
        // moment, however a write is torn, the first page leads to data that is not on disk.
        let mut before = state.head.clone();
        if let (Some(chosen), Some(flushed)) = (before.get_mut(CHOICE), state.flushed.get(CHOICE)) {
            *chosen = *flushed;
        }
        for head in [&before, &state.head] {
            backend.sync_data()?;
            backend.write(0, head)?;
        }
        backend.sync_data()?;
        if memory.len() < len {
            backend.set_len(memory.len())?;
            self.checksums.truncate(memory.len());
        }
        state.flushed = state.head.clone();
        state.written.clear();
        state.wanted = 0;
        state.memory = None;
        self.uses_overlay.store(false, Ordering::Release);
        Ok(())
    }

    /// Reads `count` blocks from block `from` on again. Returns the offsets, in bytes, of those
    /// that cannot be read or differ from what was last written to or read from them, and the block
    /// to continue with. Finds nothing while the file is set aside.
    pub(crate) fn reread(&self, from: u64, count: u64) -> (Vec<u64>, Option<u64>) {
        let end = from.saturating_add(count).min(self.checksums.len());
        // The first pass takes no lock: usually there is nothing to find, and no writer has to
        // wait.
        let suspects = (from..end).filter(|block| !self.holds(*block, None));
        let damaged: Vec<u64> = suspects
            .filter(|block| !self.holds(*block, Some(&self.state())))
            .collect();
        self.state().lost.extend(&damaged);
        (
            damaged.into_iter().map(|block| block * BLOCK).collect(),
            (end < self.checksums.len()).then_some(end),
        )
    }

    /// The offsets of the blocks that [`Backend::reread`] ever found and that still differ.
    pub(crate) fn lost(&self) -> Vec<u64> {
        let found: Vec<u64> = self.state().lost.iter().copied().collect();
        let lost = found
            .into_iter()
            .filter(|block| !self.holds(*block, Some(&self.state())));
        lost.map(|block| block * BLOCK).collect()
    }

    /// Whether a block holds what it should. The answer is certain only with the state locked, when
    /// nobody writes to the block.
    fn holds(&self, block: u64, state: Option<&State>) -> bool {
        if self.uses_overlay.load(Ordering::Acquire) {
            return true;
        }
        let mut bytes = vec![0; PAGE];
        let read = |bytes: &mut [u8]| self.storage.read(block * BLOCK, bytes).is_ok();
        match (block, state) {
            // The first block is written in parts all the time: only the state knows its content.
            (0, None) => false,
            (0, Some(state)) => {
                state.head.is_empty() || (read(&mut bytes) && bytes.starts_with(&state.head))
            }
            _ => self
                .checksums
                .of(block)
                .is_none_or(|known| read(&mut bytes) && sum(&bytes) == known),
        }
    }

    /// How many bytes of the file are in use, and its length in bytes. Only correct right after it
    /// was opened and every page in use was read.
    ///
    /// # Errors
    /// The length of the file cannot be read.
    pub(crate) fn in_use(&self) -> io::Result<(u64, u64)> {
        Ok((self.checksums.known_blocks() * BLOCK, self.storage.len()?))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self) -> impl Fn(u64, &mut [u8]) -> io::Result<()> {
        |offset, out| self.storage.read(offset, out)
    }
}

impl BackendHandle {
    /// The backend that this handle belongs to.
    pub(crate) fn backend(&self) -> Arc<Backend> {
        self.backend.clone()
    }

    fn is_newest(&self) -> bool {
        self.backend.newest.load(Ordering::Acquire) == self.number
    }

    /// The state, if this handle is the newest.
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.backend.state();
        if self.is_newest() {
            Ok(state)
        } else {
            Err(io::Error::other("the file was reopened after a failure"))
        }
    }
}

impl StorageBackend for BackendHandle {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.state()?;
        match &state.memory {
            Some(memory) => Ok(memory.len()),
            None => state.note_failure(self.backend.storage.len()),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        // Readers wait neither for each other nor for a flush.
        if !self.backend.uses_overlay.load(Ordering::Acquire) && self.is_newest() {
            let read = self.backend.storage.read(offset, out);
            return match read {
                Ok(()) => {
                    self.backend.checksums.set_if_unknown(offset, out);
                    Ok(())
                }
                failed => self.state()?.note_failure(failed),
            };
        }
        let mut state = self.state()?;
        let read = match &state.memory {
            Some(memory) => memory.read(&self.backend.source(), offset, out),
            None => self.backend.storage.read(offset, out),
        };
        state.note_failure(read)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state()?;
        state.note_head(offset, data);
        if let Some(memory) = &mut state.memory {
            let kept = memory.write(&self.backend.source(), offset, data);
            return state.note_failure(kept);
        }
        state.written.push((offset, data.len()));
        let written = self.backend.storage.write(offset, data);
        match written {
            Ok(()) => self.backend.checksums.set(offset, data),
            Err(_) => self.backend.checksums.forget(offset, data.len()),
        }
        state.note_failure(written)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state()?;
        if let Some(memory) = &mut state.memory {
            memory.set_len(len);
            return Ok(());
        }
        state.wanted = len;
        let set = self.backend.storage.set_len(len);
        self.backend.checksums.truncate(len);
        state.note_failure(set)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state()?;
        if state.memory.is_some() {
            return Ok(());
        }
        state.note_failure(self.backend.storage.sync_data())?;
        state.written.clear();
        state.wanted = 0;
        if state.head != state.flushed {
            state.flushed = state.head.clone();
            state.heads += 1;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        // A handle that is replaced must leave the file locked for the next one.
        let last =
            self.is_newest() && (self.number == 1 || self.backend.released.load(Ordering::Acquire));
        if last {
            self.backend.storage.close()
        } else {
            Ok(())
        }
    }

    // The first handle locks the file for all handles.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if self.number == 1 {
            self.backend.storage.try_lock_range(start, end)
        } else {
            Ok(true)
        }
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.number == 1 {
            self.backend.storage.unlock_range(start, end)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::backend_state::lay, *};

    /// A file that records what is done to it; writes of the first page are recorded by their
    /// selecting byte.
    #[derive(Debug, Default)]
    struct Account {
        bytes: Mutex<Vec<u8>>,
        done: Arc<Mutex<Vec<String>>>,
    }

    impl Account {
        fn note(&self, what: String) {
            self.done.lock().unwrap().push(what);
        }
    }

    impl StorageBackend for Account {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.lock().unwrap().len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            lay(0, &self.bytes.lock().unwrap(), offset, out);
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.bytes.lock().unwrap().resize(len as usize, 0);
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            self.note("flush".into());
            Ok(())
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            lay(offset, data, 0, &mut self.bytes.lock().unwrap());
            self.note(if offset == 0 {
                format!("choose {}", data[CHOICE])
            } else {
                format!("write {offset}")
            });
            Ok(())
        }
    }

    #[test]
    fn pages_are_flushed_before_the_header() {
        let account = Account::default();
        let done = account.done.clone();
        let handle = Backend::of(account);
        let head = |choice: u8| {
            (0..PAGE)
                .map(|at| if at == CHOICE { choice } else { choice + 10 })
                .collect::<Vec<u8>>()
        };
        handle.set_len(4 * BLOCK).unwrap();
        handle.write(0, &head(0)).unwrap();
        handle.sync_data().unwrap();
        handle.write(BLOCK, &[1; PAGE]).unwrap();
        handle.write(0, &head(1)).unwrap();

        let overlay = handle.backend().set_overlay().unwrap();
        assert_eq!(
            done.lock().unwrap().last().unwrap(),
            "choose 0",
            "the first page on disk must not lead to data that was not flushed"
        );
        overlay.write(2 * BLOCK, &[2; PAGE]).unwrap();
        overlay.write(0, &head(1)).unwrap();
        overlay.sync_data().unwrap();
        done.lock().unwrap().clear();

        handle.backend().rejoin().unwrap();
        let expected = [
            "choose 0",
            "write 4096",
            "flush",
            "write 8192",
            "flush",
            "choose 0",
            "flush",
            "choose 1",
            "flush",
        ];
        assert_eq!(*done.lock().unwrap(), expected);
    }
}
