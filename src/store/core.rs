//! What the store's threads share.

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
    event::{Event, Listener, Phase},
    file::{backend::Backend, open, open_error::OpenError, private_file::is_one},
    list::scan_limit::ScanPermit,
    refusal::{closed, panicked},
    tx::{
        read::Read,
        tables::{Reading, Writing},
        write::Tx,
    },
};
use crate::{
    clock::Clock,
    entity::Author,
    error::{Error, Result},
};

pub struct Core {
    /// Nothing once the store is closed.
    pub database: ArcSwapOption<Database>,
    /// What it lies on.
    pub backend: Arc<Backend>,
    /// How that is called in errors.
    pub path: PathBuf,
    /// What was there when it was opened; nothing if it is no file.
    pub opened: Option<Metadata>,
    /// Bytes of it kept in memory.
    pub cache: usize,
    pub context: Context,
    /// The tables' names, by slot.
    pub names: Vec<String>,
    pub clock: Clock,
    /// In the order in which they hear of a commit.
    pub listeners: RwLock<Vec<(Phase, Listener)>>,
    /// Why nothing is written at the moment.
    pub failure: ArcSwapOption<String>,
    /// Whether the writer takes jobs.
    pub writing: AtomicBool,
}

impl Core {
    pub fn read<T>(&self, turn: Option<&ScanPermit<'_>>, ask: impl FnOnce(&Read<'_>) -> Result<T>) -> Result<T> {
        let asked = || {
            let database = self.database()?;
            let transaction = database.begin_read().map_err(|e| Error::Storage(e.to_string()))?;
            let rows = Reading::new(transaction, &self.names);
            ask(&Read { rows: &rows, context: &self.context, now: self.clock.now(), turn })
        };
        // Of a page that was damaged since the file was opened redb may panic.
        catch_unwind(AssertUnwindSafe(asked)).unwrap_or_else(|panic| Err(panicked("a read", &*panic)))
    }

    pub fn database(&self) -> Result<Arc<Database>> {
        self.database.load_full().ok_or_else(closed)
    }

    /// Whether the file still has its name.
    pub fn is_in_place(&self) -> bool {
        self.opened.as_ref().is_none_or(|opened| fs::metadata(&self.path).is_ok_and(|there| is_one(&there, opened)))
    }

    /// Opens the state that was flushed last in place of a database that failed. For reading: what it writes stays in memory.
    pub fn reopen(&self) -> Result<(), OpenError> {
        let aside = self.backend.set_overlay().map_err(|reason| OpenError::Io { path: self.path.clone(), reason })?;
        let database = open::again(aside, &self.path, self.cache, &self.names)?;
        let old = self.database.swap(Some(Arc::new(database)));
        // Of what it was doing when it failed, anything may be left.
        drop(catch_unwind(AssertUnwindSafe(|| drop(old))));
        Ok(())
    }

    /// A job's view of the group's transaction.
    pub fn job<'t>(&'t self, rows: &'t Writing<'_>, author: Arc<Author>) -> Tx<'t> {
        let read = Read { rows, context: &self.context, now: self.clock.now(), turn: None };
        Tx::new(read, rows, author)
    }

    /// Refuses every write until [`Core::recovered`].
    pub fn fail(&self, reason: String) {
        self.writing.store(false, Ordering::Release);
        if self.failure.load().is_none() {
            tracing::error!(reason, "the data file cannot be written; writes are refused until it can");
            self.failure.store(Some(Arc::new(reason)));
        }
    }

    /// Takes writes again.
    pub fn recovered(&self) {
        tracing::info!("the data file can be written again");
        self.failure.store(None);
        self.writing.store(true, Ordering::Release);
    }

    /// The refusal, after a failure.
    pub fn refusal(&self) -> Option<Error> {
        self.failure.load().as_ref().map(|reason| Error::Storage(format!("writes are refused since a failure: {reason}")))
    }

    pub fn publish(&self, events: &[Event]) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        for (_, listener) in listeners.iter() {
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| listener(events)));
            if told.is_err() {
                tracing::error!("a listener to changes panicked; what it keeps may be stale");
            }
        }
    }
}
