//! Limits on work over many records. A scan that reads more than a few rows waits for a permit,
//! yields its core at intervals, and stops if its caller is gone. A read on the thread of its
//! caller stops when it has read few rows.

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

use crate::refusal::{RETRY_AFTER, closed};
use model::error::{Error, Result};

/// The number of rows that need no permit.
const ROWS_WITHOUT_PERMIT: u64 = 1_000;

/// The number of rows that a read on the thread of its caller may read: they delay the other
/// requests of the thread by a fraction of a millisecond.
const ROWS_HERE: u64 = 256;

/// A scan yields after this many rows; otherwise other threads may wait for this core as long as a
/// short scan takes.
const ROWS_BEFORE_YIELD: u64 = 64;

/// The permits for scans.
#[derive(Clone)]
pub(crate) struct ScanLimit {
    running: Arc<Semaphore>,
    /// Permits for scans that run or wait.
    admitted: Arc<Semaphore>,
}

impl ScanLimit {
    /// Permits for `scans` scans that run and `queue` that wait.
    pub(crate) fn new(scans: usize, queue: usize) -> Self {
        let scans = scans.max(1);
        Self {
            running: Arc::new(Semaphore::new(scans)),
            admitted: Arc::new(Semaphore::new(scans + queue)),
        }
    }
}

/// One scan on a thread that may block, or one read on the thread of its caller.
pub(crate) struct ScanPermit<'t> {
    /// Set when the caller is gone; `None` on the thread of the caller.
    abandoned: Option<&'t AtomicBool>,
    /// `None` for a scan that never waits.
    scan_limit: Option<&'t ScanLimit>,
    rows: Cell<u64>,
    held: RefCell<Option<[OwnedSemaphorePermit; 2]>>,
    /// Whether the work is too long for the thread of its caller.
    is_too_long: Cell<bool>,
}

impl<'t> ScanPermit<'t> {
    /// A scan that may have to wait.
    pub(crate) fn limited(scan_limit: &'t ScanLimit, abandoned: &'t AtomicBool) -> Self {
        Self {
            scan_limit: Some(scan_limit),
            ..Self::free(abandoned)
        }
    }

    /// A scan that never waits.
    pub(crate) fn free(abandoned: &'t AtomicBool) -> Self {
        Self {
            abandoned: Some(abandoned),
            ..Self::here()
        }
    }

    /// A read on the thread of its caller, which ends with an error when it becomes too long for
    /// it.
    pub(crate) fn here() -> Self {
        Self {
            abandoned: None,
            scan_limit: None,
            rows: Cell::new(0),
            held: RefCell::default(),
            is_too_long: Cell::new(false),
        }
    }

    /// Whether the read on the thread of its caller was too long for it. Its result is void then.
    pub(crate) fn is_too_long(&self) -> bool {
        self.is_too_long.get()
    }

    /// Called before work that takes long although it reads few rows.
    ///
    /// # Errors
    /// It would delay the thread of its caller.
    pub(crate) fn leave(&self) -> Result<()> {
        if self.abandoned.is_some() {
            return Ok(());
        }
        self.is_too_long.set(true);
        Err(Error::Busy {
            retry_after: RETRY_AFTER,
        })
    }

    /// Called before each row is read or written. After the first thousand rows it waits for a
    /// permit.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many scans wait, or the work is too long for the thread of its
    /// caller; [`Error::Internal`] if the caller is gone.
    pub(crate) fn step(&self) -> Result<()> {
        self.admit(1)?;
        let rows = self.rows.get().saturating_add(1);
        self.rows.set(rows);
        if rows.is_multiple_of(ROWS_BEFORE_YIELD) && self.abandoned.is_some() {
            yield_now();
        }
        Ok(())
    }

    /// Called before work that reads or writes about `rows` rows; [`ScanPermit::step`] is called
    /// for each of them as well. Yields the core. If the work needs a permit, waits for the permit
    /// before the work begins, when a rejection costs nothing.
    ///
    /// # Errors
    /// As in [`ScanPermit::step`].
    pub(crate) fn before(&self, rows: u64) -> Result<()> {
        if self.abandoned.is_some() {
            yield_now();
        }
        self.admit(rows)
    }

    fn admit(&self, rows: u64) -> Result<()> {
        let known = self.rows.get();
        let Some(abandoned) = self.abandoned else {
            return if known.saturating_add(rows) > ROWS_HERE {
                self.leave()
            } else {
                Ok(())
            };
        };
        if abandoned.load(Ordering::Relaxed) {
            return Err(Error::Internal("the caller is gone".into()));
        }
        if known > ROWS_WITHOUT_PERMIT || known.saturating_add(rows) <= ROWS_WITHOUT_PERMIT {
            return Ok(());
        }
        self.rows.set(ROWS_WITHOUT_PERMIT + 1);
        self.scan_limit
            .map_or(Ok(()), |scan_limit| self.wait(scan_limit))
    }

    fn wait(&self, scan_limit: &ScanLimit) -> Result<()> {
        let admitted = scan_limit
            .admitted
            .clone()
            .try_acquire_owned()
            .map_err(|_| Error::Busy {
                retry_after: RETRY_AFTER,
            })?;
        let running = Handle::current()
            .block_on(scan_limit.running.clone().acquire_owned())
            .map_err(|_| closed())?;
        *self.held.borrow_mut() = Some([admitted, running]);
        Ok(())
    }
}
