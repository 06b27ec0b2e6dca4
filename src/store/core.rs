//! What the store's threads share.

use std::sync::{
    Arc, OnceLock, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use arc_swap::ArcSwapOption;
use redb::{Database, ReadableDatabase};

use super::{
    Event, Links, Listener, Read, Tx,
    registry::Registry,
    tables::{Reading, Writing},
};
use crate::{
    clock::Clock,
    entity::Author,
    error::{Error, Result},
};

pub struct Core {
    /// Nothing once the store is closed.
    pub database: ArcSwapOption<Database>,
    pub registry: Registry,
    /// The tables' names, by slot.
    pub names: Vec<String>,
    pub clock: Clock,
    pub links: Arc<Links>,
    pub listeners: RwLock<Vec<Listener>>,
    /// Why nothing more is written.
    pub failure: OnceLock<String>,
    /// Whether the writer takes jobs.
    pub writing: AtomicBool,
}

impl Core {
    pub fn read<T>(&self, abandoned: Option<&AtomicBool>, ask: impl FnOnce(&Read<'_>) -> Result<T>) -> Result<T> {
        let database = self.database()?;
        let transaction = database.begin_read().map_err(|e| Error::Storage(e.to_string()))?;
        let rows = Reading::new(transaction, &self.names);
        ask(&Read { rows: &rows, core: self, now: self.clock.now(), abandoned })
    }

    pub fn database(&self) -> Result<Arc<Database>> {
        self.database.load_full().ok_or_else(closed)
    }

    /// A job's view of the group's transaction.
    pub fn job<'t>(&'t self, rows: &'t Writing<'_>, author: Arc<Author>) -> Tx<'t> {
        let read = Read { rows, core: self, now: self.clock.now(), abandoned: None };
        Tx { read, rows, events: std::cell::RefCell::default(), author }
    }

    /// Refuses every write from now on.
    pub fn fail(&self, error: &Error) {
        if self.failure.set(error.to_string()).is_ok() {
            tracing::error!(%error, "the data file cannot be written; writes are refused until a restart");
        }
        self.writing.store(false, Ordering::Release);
    }

    /// The refusal, after a failure.
    pub fn refusal(&self) -> Option<Error> {
        self.failure.get().map(|reason| Error::Storage(format!("writes are refused since an earlier failure: {reason}")))
    }

    pub fn publish(&self, events: &[Event]) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        for listener in listeners.iter() {
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| listener(events)));
            if told.is_err() {
                tracing::error!("a listener to changes panicked; what it keeps may be stale");
            }
        }
    }
}

pub fn closed() -> Error {
    Error::Storage("the store is closed".into())
}
