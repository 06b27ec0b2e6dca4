//! Opening a store: a file is opened, listeners of its commits are registered, and then the writer
//! starts. A handle that can write exists only after that.

use std::{
    ops::Deref,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicBool},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use redb::StorageBackend;

use super::{
    context::Context,
    event::{Event, Phase},
    file::{
        manifest::Manifest,
        open::{self, OpenedFile, OtherProcesses},
        open_error::OpenError,
    },
    handle::Store,
    list::scan_limit::ScanLimit,
    reader::{Inner, Reader},
    registry::{KindEntry, KindRegistry, table_names},
    store_core::StoreCore,
    tx::{read::Read, tables::Table, writer},
};
use crate::online::Online;
use model::{clock::Clock, metrics::StoreMetrics};

/// The settings of a store.
#[derive(Clone)]
pub struct Options {
    /// The size of the page cache, in bytes.
    pub cache_bytes: usize,
    /// The number of writes that may wait; more are rejected with
    /// [`Error::Busy`](model::error::Error::Busy).
    pub queue: usize,
    /// The greatest number of writes in one commit.
    pub group: usize,
    /// The number of scans that run at the same time.
    pub scans: usize,
    /// The number of scans that may wait; more are rejected with
    /// [`Error::Busy`](model::error::Error::Busy).
    pub scan_queue: usize,
    /// The interval between attempts to write again after a disk failure.
    pub retry: Duration,
    /// Whether opening compacts a file of which more than half is unused.
    pub compact: bool,
    pub clock: Clock,
    /// The connected identities and routers, for queries in a transaction.
    pub online: Online,
    pub metrics: StoreMetrics,
}

impl Default for Options {
    fn default() -> Self {
        let (clock, online) = (Clock::system(), Online::default());
        let (scan_queue, retry) = (32, Duration::from_secs(1));
        let metrics = StoreMetrics::default();
        Self {
            cache_bytes: 64 << 20,
            queue: 4096,
            group: 256,
            scans: 2,
            scan_queue,
            retry,
            compact: false,
            clock,
            online,
            metrics,
        }
    }
}

/// An open store that does not accept writes yet. Listeners of its commits register here. Dropping
/// it closes the store. It derefs to its [`Reader`] as a [`Store`] does.
pub struct OpenStore {
    reader: Reader,
    queue: usize,
    group: usize,
    retry: Duration,
}

impl Deref for OpenStore {
    type Target = Reader;
    fn deref(&self) -> &Reader {
        &self.reader
    }
}

impl OpenStore {
    fn of(
        (backend, database): OpenedFile,
        path: &Path,
        kinds: &'static [KindEntry],
        options: Options,
    ) -> Result<Self, OpenError> {
        let core = Arc::new(StoreCore {
            database: ArcSwapOption::from_pointee(database),
            backend,
            path: path.into(),
            opened: std::fs::metadata(path).ok(),
            cache: options.cache_bytes,
            context: Context::new(KindRegistry::new(kinds), options.online),
            names: table_names(kinds),
            clock: options.clock,
            metrics: options.metrics,
            listeners: RwLock::default(),
            failure: ArcSwapOption::empty(),
            writing: AtomicBool::new(false),
        });
        let content = |table: &Table| *table != Table::Meta && *table != Table::Index;
        let filled = |read: &Read<'_>| -> model::error::Result<u64> {
            Table::all(kinds.len())
                .filter(content)
                .map(|table| read.rows.len(table))
                .sum()
        };
        let new = core.read(None, filled).map_err(|e| OpenError::Damaged {
            path: path.into(),
            reason: e.to_string(),
        })? == 0;
        tracing::debug!(path = %path.display(), "opened the data file");
        let scan_limit = ScanLimit::new(options.scans, options.scan_queue);
        let inner = Inner {
            core,
            jobs: RwLock::default(),
            writer: Mutex::default(),
            scan_limit,
            new,
        };
        Ok(Self {
            reader: Reader(Arc::new(inner)),
            queue: options.queue,
            group: options.group,
            retry: options.retry,
        })
    }

    /// A reader for listeners that read the store.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Registers a listener, which is called with the changes of each transaction, in the order of
    /// commits, on the writer's thread. The listener must be quick and must not wait for a write.
    /// It is called for every commit, because there is none before [`OpenStore::start`].
    pub fn subscribe(&self, phase: Phase, listener: impl Fn(&[Event]) + Send + Sync + 'static) {
        let mut listeners = self
            .core()
            .listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.push((phase, Box::new(listener)));
        // The sort is stable, but no listener depends on the order within its phase.
        listeners.sort_by_key(|(phase, _)| *phase);
    }

    /// Starts the writer.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(self) -> Result<Store, OpenError> {
        let started = writer::start(self.core().clone(), self.queue, self.group, self.retry);
        let (jobs, writer) = started.map_err(|reason| OpenError::Io {
            path: self.core().path.clone(),
            reason,
        })?;
        *self
            .reader
            .0
            .jobs
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(jobs);
        *self
            .reader
            .0
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(writer);
        Ok(Store::of(self.reader))
    }
}

impl Store {
    /// Opens the file, or creates it, readable for its owner only. May take some time after a
    /// crash. Jobs are accepted from [`OpenStore::start`] on.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        path: &Path,
        kinds: &'static [KindEntry],
        options: Options,
    ) -> Result<OpenStore, OpenError> {
        let mut opened = open::file(path, options.cache_bytes, &table_names(kinds))?;
        if options.compact {
            open::shorten(&mut opened, path)?;
        }
        OpenStore::of(
            forget_manifest(opened, path, &options.clock)?,
            path,
            kinds,
            options,
        )
    }

    /// Like [`Store::open`], after every page of the file was checked and repaired where redb can.
    /// Returns whether anything was repaired.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_verified(
        path: &Path,
        kinds: &'static [KindEntry],
        options: Options,
    ) -> Result<(OpenStore, bool), OpenError> {
        let (opened, whole) = open::verified(path, options.cache_bytes, &table_names(kinds))?;
        Ok((
            OpenStore::of(
                forget_manifest(opened, path, &options.clock)?,
                path,
                kinds,
                options,
            )?,
            !whole,
        ))
    }

    /// Releases the unused space of a closed file.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn compact(path: &Path, kinds: &'static [KindEntry]) -> Result<(), OpenError> {
        open::compact(
            &mut open::file(path, Options::default().cache_bytes, &table_names(kinds))?.1,
            path,
        )
    }

    /// Opens a file read-only: it is unchanged, and what is written is lost when the store is
    /// closed. Every page is checked first. No controller can have the file open at the same time.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_read_only(
        path: &Path,
        kinds: &'static [KindEntry],
        options: Options,
    ) -> Result<OpenStore, OpenError> {
        Self::open_overlay(path, OtherProcesses::Readers, kinds, options)
    }

    /// Like [`Store::open_read_only`], but no other process may open the file, even read-only; for
    /// a caller that replaces the file.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_read_only_exclusively(
        path: &Path,
        kinds: &'static [KindEntry],
        options: Options,
    ) -> Result<OpenStore, OpenError> {
        Self::open_overlay(path, OtherProcesses::None, kinds, options)
    }

    fn open_overlay(
        path: &Path,
        others: OtherProcesses,
        kinds: &'static [KindEntry],
        options: Options,
    ) -> Result<OpenStore, OpenError> {
        let opened = open::open_overlay(path, others, options.cache_bytes, &table_names(kinds))?;
        OpenStore::of(opened, path, kinds, options)
    }

    /// Opens the database on a storage backend, such as a simulated disk.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_on(
        backend: impl StorageBackend,
        kinds: &'static [KindEntry],
        options: Options,
    ) -> Result<OpenStore, OpenError> {
        let path = Path::new("the storage backend");
        let opened = open::backend(backend, path, options.cache_bytes, &table_names(kinds))?;
        OpenStore::of(
            forget_manifest(opened, path, &options.clock)?,
            path,
            kinds,
            options,
        )
    }
}

/// Removes the manifest of a database that is about to be written to, because the manifest would no
/// longer match the content.
fn forget_manifest(
    opened: OpenedFile,
    path: &Path,
    clock: &Clock,
) -> Result<OpenedFile, OpenError> {
    let forgotten = Manifest::forget(&opened.1, clock.now());
    forgotten
        .map_err(|e| OpenError::Damaged {
            path: path.into(),
            reason: e.to_string(),
        })
        .map(|()| opened)
}
