//! Reading a store. Listeners of commits get a [`Reader`] before anything can be written.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::SyncSender,
    },
    thread::JoinHandle,
};

use super::{
    list::scan_limit::{ScanLimit, ScanPermit},
    store_core::StoreCore,
    tx::{read::Read, writer::Job},
};
use crate::online::Online;
use model::error::{Error, Result};

/// Reads a store. All clones read the same store.
#[derive(Clone)]
pub struct Reader(pub(super) Arc<Inner>);

/// A [`Reader`] that does not keep its store open. A listener of commits holds this type instead of
/// a [`Reader`], because the store holds the listener.
pub struct WeakReader(Weak<Inner>);

impl WeakReader {
    /// The reader, unless the store is closed.
    pub fn upgrade(&self) -> Option<Reader> {
        self.0.upgrade().map(Reader)
    }
}

/// A store, and the thread that writes to it once it was started.
pub(super) struct Inner {
    pub(super) core: Arc<StoreCore>,
    pub(super) jobs: RwLock<Option<SyncSender<Job>>>,
    pub(super) writer: Mutex<Option<JoinHandle<()>>>,
    pub(super) scan_limit: ScanLimit,
    pub(super) new: bool,
}

impl Reader {
    pub(super) fn core(&self) -> &Arc<StoreCore> {
        &self.0.core
    }

    /// A reader that does not keep the store open.
    pub fn downgrade(&self) -> WeakReader {
        WeakReader(Arc::downgrade(&self.0))
    }

    /// Who is connected.
    pub fn online(&self) -> &Online {
        &self.0.core.context.online
    }

    /// Whether the store was empty when it was opened; also after a crash before the first write.
    pub fn is_new(&self) -> bool {
        self.0.new
    }

    /// Whether writes are accepted.
    pub fn is_alive(&self) -> bool {
        self.0.core.writing.load(Ordering::Acquire)
    }

    /// Whether the path still leads to the file that was opened. If the file was moved or deleted,
    /// what is written is lost at the next start.
    pub fn is_in_place(&self) -> bool {
        self.0.core.is_in_place()
    }

    /// Whether the store is not closed.
    pub(super) fn is_open(&self) -> bool {
        self.0.core.database().is_ok()
    }

    /// Reads the current state on this thread; for a few records. Never waits for the writer.
    ///
    /// # Errors
    /// The error of `ask`, or the file cannot be read.
    pub fn read<T>(&self, ask: impl FnOnce(&Read<'_>) -> Result<T>) -> Result<T> {
        self.0.core.read(None, ask)
    }

    /// Reads the current state on a thread that may block; for many records. Only a limited number
    /// of scans that read more than about a thousand rows run at the same time
    /// (`list/scan_limit.rs`). A scan stops when its future is dropped.
    ///
    /// # Errors
    /// The error of `ask`; [`Error::Busy`] if too many wait; [`Error::Internal`] if `ask` panicked.
    pub async fn scan<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (core, scan_limit) = (self.0.core.clone(), self.0.scan_limit.clone());
        let waiting = AbandonOnDrop(Arc::default());
        let abandoned = waiting.0.clone();
        let asked = tokio::task::spawn_blocking(move || {
            core.read(Some(&ScanPermit::limited(&scan_limit, &abandoned)), ask)
        });
        asked
            .await
            .unwrap_or_else(|e| Err(Error::Internal(format!("a scan: {e}"))))
    }

    /// Reads the current state on this thread, because a hand-over to another thread costs more
    /// than a short read. Work that reads more than a few rows, or calls [`Read::leave`], begins
    /// again as a [`Reader::scan`].
    ///
    /// # Errors
    /// As in [`Reader::read`] and [`Reader::scan`].
    pub async fn ask<T: Send + 'static>(
        &self,
        ask: impl Fn(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let answer = {
            let permit = ScanPermit::here();
            let answer = self.0.core.read(Some(&permit), &ask);
            Some(answer).filter(|_| !permit.is_too_long())
        };
        match answer {
            Some(answer) => answer,
            None => self.scan(ask).await,
        }
    }
}

impl Inner {
    pub(super) fn close(&self) {
        drop(
            self.jobs
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // The last clone may be dropped inside a job, on the writer thread itself.
        if let Some(writer) =
            writer.filter(|writer| writer.thread().id() != std::thread::current().id())
        {
            drop(writer.join());
        }
        self.core.backend.release();
        self.core.database.store(None);
        // A listener may hold the store, so that dropping it can call this function again; it is
        // dropped outside the lock.
        let listeners = std::mem::take(
            &mut *self
                .core
                .listeners
                .write()
                .unwrap_or_else(PoisonError::into_inner),
        );
        drop(listeners);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Marks a scan as abandoned when its caller is dropped.
struct AbandonOnDrop(Arc<AtomicBool>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
