//! How long work on many records is kept from taking the machine: a scan that reads more than a few rows waits for its turn, lets threads
//! that wait for its core go first now and then, and stops if nobody waits for it.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::yield_now,
};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::error::{Error, Result};
use crate::store::refusal::{RETRY_AFTER, closed};

/// Rows that anybody may read at once.
const FEW: u64 = 1_000;

/// After so many rows, threads that wait for this core go first: the system may let them wait for as long as a short scan takes.
const TOGETHER: u64 = 64;

/// The turns there are.
#[derive(Clone)]
pub struct ScanLimit {
    running: Arc<Semaphore>,
    /// Those that run or wait.
    admitted: Arc<Semaphore>,
}

impl ScanLimit {
    /// So many at the same time, and so many that may wait.
    pub fn new(scans: usize, queue: usize) -> Self {
        let scans = scans.max(1);
        Self { running: Arc::new(Semaphore::new(scans)), admitted: Arc::new(Semaphore::new(scans + queue)) }
    }
}

/// Work on many records, on a thread that may block.
pub struct ScanPermit<'t> {
    /// Set when nobody waits for it any more.
    abandoned: &'t AtomicBool,
    /// Nothing for what is never kept waiting.
    turns: Option<&'t ScanLimit>,
    rows: Cell<u64>,
    held: RefCell<Option<[OwnedSemaphorePermit; 2]>>,
}

impl<'t> ScanPermit<'t> {
    /// Work that may have to wait.
    pub fn among(turns: &'t ScanLimit, abandoned: &'t AtomicBool) -> Self {
        Self { turns: Some(turns), ..Self::free(abandoned) }
    }

    /// Work that waits for nobody.
    pub fn free(abandoned: &'t AtomicBool) -> Self {
        Self { abandoned, turns: None, rows: Cell::new(0), held: RefCell::default() }
    }

    /// Before each row, read or written. Past the first few it waits until others are done.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many wait; or nobody waits for this one any more.
    pub fn step(&self) -> Result<()> {
        self.go_on(1)?;
        let rows = self.rows.get().saturating_add(1);
        self.rows.set(rows);
        if rows.is_multiple_of(TOGETHER) {
            yield_now();
        }
        Ok(())
    }

    /// Before so many more rows, each of which is still a step, or before one piece of a work that is like so many: threads that wait for this
    /// core go first, and if it is more than a few it waits now, for being sent away has cost nothing yet.
    ///
    /// # Errors
    /// As in [`ScanPermit::step`].
    pub fn before(&self, rows: u64) -> Result<()> {
        yield_now();
        self.go_on(rows)
    }

    fn go_on(&self, rows: u64) -> Result<()> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(Error::Internal("nobody waits for this any more".into()));
        }
        let known = self.rows.get();
        if known > FEW || known.saturating_add(rows) <= FEW {
            return Ok(());
        }
        self.rows.set(FEW + 1);
        self.turns.map_or(Ok(()), |turns| self.wait(turns))
    }

    fn wait(&self, turns: &ScanLimit) -> Result<()> {
        let admitted = turns.admitted.clone().try_acquire_owned().map_err(|_| Error::Busy { retry_after: RETRY_AFTER })?;
        let running = Handle::current().block_on(turns.running.clone().acquire_owned()).map_err(|_| closed())?;
        *self.held.borrow_mut() = Some([admitted, running]);
        Ok(())
    }
}
