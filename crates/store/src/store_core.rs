//! The state shared by the threads of the store.

use std::{
    fs::{self, Metadata},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use redb::{Database, ReadableDatabase};

use super::{
    context::Context,
    event::{Event, EventHandler, Phase},
    file::{backend::Backend, open, open_error::OpenError, private_file::is_one},
    list::scan_limit::ScanPermit,
    refusal::{closed, panicked},
    tx::{
        read::Read,
        tables::{Reading, Writing},
        write::Tx,
    },
};
use model::{
    clock::Clock,
    entity::Author,
    error::{Error, Result},
    metrics::StoreMetrics,
};

pub(crate) struct StoreCore {
    /// `None` once the store is closed.
    pub database: ArcSwapOption<Database>,
    /// The backend of the database.
    pub backend: Arc<Backend>,
    /// The path named in errors.
    pub path: PathBuf,
    /// The metadata of the file when it was opened; `None` if the store is not a file.
    pub opened: Option<Metadata>,
    /// The size of the page cache, in bytes.
    pub cache: usize,
    pub context: Context,
    /// The names of the tables, by slot.
    pub names: Vec<String>,
    pub clock: Clock,
    pub metrics: StoreMetrics,
    /// In the order in which they are called for a commit.
    pub listeners: RwLock<Vec<(Phase, EventHandler)>>,
    /// Why writes are rejected at the moment; `None` while they are accepted.
    pub failure: ArcSwapOption<String>,
    /// Whether the writer accepts jobs.
    pub writing: AtomicBool,
}

impl StoreCore {
    pub(crate) fn read<T>(
        &self,
        permit: Option<&ScanPermit<'_>>,
        ask: impl FnOnce(&Read<'_>) -> Result<T>,
    ) -> Result<T> {
        let asked = || {
            let database = self.database()?;
            let transaction = database
                .begin_read()
                .map_err(|e| Error::Storage(e.to_string()))?;
            let rows = Reading::new(transaction, &self.names);
            ask(&Read {
                rows: &rows,
                context: &self.context,
                now: self.clock.now(),
                permit,
            })
        };
        // redb may panic on a page that was damaged after the file was opened.
        catch_unwind(AssertUnwindSafe(asked))
            .unwrap_or_else(|panic| Err(panicked("a read", &*panic)))
    }

    pub(crate) fn database(&self) -> Result<Arc<Database>> {
        self.database.load_full().ok_or_else(closed)
    }

    /// Whether the path still leads to the file that was opened.
    pub(crate) fn is_in_place(&self) -> bool {
        self.opened
            .as_ref()
            .is_none_or(|opened| fs::metadata(&self.path).is_ok_and(|there| is_one(&there, opened)))
    }

    /// Replaces a failed database with one that has the state that was flushed last. The new
    /// database is for reading: what is written to it stays in memory until [`Backend::rejoin`].
    pub(crate) fn reopen(&self) -> Result<(), OpenError> {
        let overlay = self.backend.set_overlay().map_err(|reason| OpenError::Io {
            path: self.path.clone(),
            reason,
        })?;
        let database = open::again(overlay, &self.path, self.cache, &self.names)?;
        let old = self.database.swap(Some(Arc::new(database)));
        // The failed database may be in any state, so that dropping it may panic.
        drop(catch_unwind(AssertUnwindSafe(|| drop(old))));
        Ok(())
    }

    /// The view that a job has of the transaction of its group.
    pub(crate) fn job<'t>(&'t self, rows: &'t Writing<'_>, author: Arc<Author>) -> Tx<'t> {
        let read = Read {
            rows,
            context: &self.context,
            now: self.clock.now(),
            permit: None,
        };
        Tx::new(read, rows, author)
    }

    /// Rejects every write until [`StoreCore::accept_writes`] is called.
    pub(crate) fn fail(&self, reason: String) {
        self.writing.store(false, Ordering::Release);
        if self.failure.load().is_none() {
            tracing::error!(
                reason,
                "the data file cannot be written; writes are rejected until it works again"
            );
            self.failure.store(Some(Arc::new(reason)));
        }
    }

    /// Accepts writes again.
    pub(crate) fn accept_writes(&self) {
        tracing::info!("the data file can be written again");
        self.failure.store(None);
        self.writing.store(true, Ordering::Release);
    }

    /// The error for a write after a failure; `None` while writes are accepted.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.failure.load().as_ref().map(|reason| {
            Error::Storage(format!(
                "writes are rejected because of a failure: {reason}"
            ))
        })
    }

    pub(crate) fn publish(&self, events: &[Event]) {
        let listeners = self
            .listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for (_, listener) in listeners.iter() {
            let result =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| listener(events)));
            if result.is_err() {
                tracing::error!(
                    "a listener for changes panicked; its state may be stale until the controller is restarted"
                );
            }
        }
    }
}
