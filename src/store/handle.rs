//! The handle of a store: opening, writing, reading, scanning, listeners, closing.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use arc_swap::ArcSwapOption;
use redb::StorageBackend;
use tokio::sync::oneshot;

use super::{
    context::Context,
    core::Core,
    event::Event,
    file::{
        manifest::Manifest,
        open::{self, Opened, Others},
        open_error::OpenError,
    },
    list::scan_limit::{ScanLimit, ScanPermit},
    refusal::{RETRY_AFTER, closed},
    registry::{KindEntry, Registry, table_names},
    tx::{
        dry_run::DryRun,
        read::Read,
        tables::Table,
        write::Tx,
        writer::{self, Job},
    },
};
use crate::{
    clock::Clock,
    entity::Author,
    error::{Error, Result},
    online::Online,
};

/// How a store works.
#[derive(Clone)]
pub struct Options {
    /// Bytes of the file kept in memory.
    pub cache_bytes: usize,
    /// Writes that may wait before callers are sent away.
    pub queue: usize,
    /// Writes that share one commit at most.
    pub group: usize,
    /// Scans that run at the same time.
    pub scans: usize,
    /// Scans that may wait before callers are sent away.
    pub scan_queue: usize,
    /// After a failure of the disk it is tried this often whether it works again.
    pub retry: Duration,
    /// Whether opening a file of which more than half is not needed makes it shorter.
    pub compact: bool,
    pub clock: Clock,
    /// Who is connected, for whoever asks in a transaction.
    pub online: Online,
}

impl Default for Options {
    fn default() -> Self {
        let (clock, online) = (Clock::system(), Online::default());
        let (scan_queue, retry) = (32, Duration::from_secs(1));
        Self { cache_bytes: 64 << 20, queue: 4096, group: 256, scans: 2, scan_queue, retry, compact: false, clock, online }
    }
}

/// The store, and who is behind what is written through this handle: the controller itself, unless [`Store::by`] says otherwise.
/// Clones are the same store; it closes with the last of them, or by [`Store::close`].
#[derive(Clone)]
pub struct Store(pub(super) Arc<Inner>, Arc<Author>);

pub(super) struct Inner {
    pub(super) core: Arc<Core>,
    jobs: RwLock<Option<SyncSender<Job>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    turns: ScanLimit,
    new: bool,
}

impl Store {
    /// Opens the file, or makes it, readable for its owner alone. May take some time after a crash.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, kinds: &'static [KindEntry], options: Options) -> Result<Self, OpenError> {
        let mut opened = open::file(path, options.cache_bytes, &table_names(kinds))?;
        if options.compact {
            open::shorten(&mut opened, path)?;
        }
        Self::start(written(opened, path)?, path, kinds, options)
    }

    /// [`Store::open`] after every page of the file was checked, and what can be set right by that was. Says whether anything was.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_verified(path: &Path, kinds: &'static [KindEntry], options: Options) -> Result<(Self, bool), OpenError> {
        let (opened, whole) = open::verified(path, options.cache_bytes, &table_names(kinds))?;
        Ok((Self::start(written(opened, path)?, path, kinds, options)?, !whole))
    }

    /// Gives back what a closed file does not need.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn compact(path: &Path, kinds: &'static [KindEntry]) -> Result<(), OpenError> {
        open::compact(&mut open::file(path, Options::default().cache_bytes, &table_names(kinds))?.1, path)
    }

    /// Opens a file to look at it: it stays as it is, and what is written is gone when the store is closed. Every page of it is checked
    /// before. No controller can have it open meanwhile.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn look(path: &Path, kinds: &'static [KindEntry], options: Options) -> Result<Self, OpenError> {
        Self::open_overlay(path, Others::MayLook, kinds, options)
    }

    /// The same, and nobody else looks at it meanwhile: for whoever makes another file of it to take its place.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn look_alone(path: &Path, kinds: &'static [KindEntry], options: Options) -> Result<Self, OpenError> {
        Self::open_overlay(path, Others::Nobody, kinds, options)
    }

    fn open_overlay(path: &Path, others: Others, kinds: &'static [KindEntry], options: Options) -> Result<Self, OpenError> {
        let opened = open::open_overlay(path, others, options.cache_bytes, &table_names(kinds))?;
        Self::start(opened, path, kinds, options)
    }

    /// Opens what is on a storage backend, such as a simulated disk.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_on(backend: impl StorageBackend, kinds: &'static [KindEntry], options: Options) -> Result<Self, OpenError> {
        let path = Path::new("the storage backend");
        let opened = open::backend(backend, path, options.cache_bytes, &table_names(kinds))?;
        Self::start(written(opened, path)?, path, kinds, options)
    }

    fn start((backend, database): Opened, path: &Path, kinds: &'static [KindEntry], options: Options) -> Result<Self, OpenError> {
        let core = Arc::new(Core {
            database: ArcSwapOption::from_pointee(database),
            backend,
            path: path.into(),
            opened: std::fs::metadata(path).ok(),
            cache: options.cache_bytes,
            context: Context::new(Registry::new(kinds), options.online),
            names: table_names(kinds),
            clock: options.clock,
            listeners: RwLock::default(),
            failure: ArcSwapOption::empty(),
            writing: AtomicBool::new(false),
        });
        let content = |table: &Table| *table != Table::Meta && *table != Table::Index;
        let filled = |read: &Read<'_>| -> Result<u64> { Table::all(kinds.len()).filter(content).map(|table| read.rows.len(table)).sum() };
        let new = core.read(None, filled).map_err(|e| OpenError::Damaged { path: path.into(), reason: e.to_string() })? == 0;
        let started = writer::start(core.clone(), options.queue, options.group, options.retry);
        let (jobs, writer) = started.map_err(|reason| OpenError::Io { path: path.into(), reason })?;
        tracing::debug!(path = %path.display(), "opened; every page is as it was written");
        let inner = Inner {
            core,
            jobs: RwLock::new(Some(jobs)),
            writer: Mutex::new(Some(writer)),
            turns: ScanLimit::new(options.scans, options.scan_queue),
            new,
        };
        Ok(Self(Arc::new(inner), Arc::default()))
    }

    /// The same store, for what this author writes.
    #[must_use]
    pub fn by(&self, author: Author) -> Self {
        Self(self.0.clone(), Arc::new(author))
    }

    /// Who is behind what is written through this handle.
    pub fn author(&self) -> &Author {
        &self.1
    }

    /// Who is connected.
    pub fn online(&self) -> &Online {
        &self.0.core.context.online
    }

    /// Whether nothing had ever been stored when it was opened; also after a crash before the first write.
    pub fn is_new(&self) -> bool {
        self.0.new
    }

    /// Whether writes are taken.
    pub fn is_alive(&self) -> bool {
        self.0.core.writing.load(Ordering::Acquire)
    }

    /// Whether the file is still what its name leads to. Of one that was moved away or deleted nothing that is written will be there at the
    /// next start.
    pub fn is_in_place(&self) -> bool {
        self.0.core.is_in_place()
    }

    /// Whether it has not been closed.
    pub(super) fn is_open(&self) -> bool {
        self.0.core.database().is_ok()
    }

    /// Runs a job in a write transaction and waits until what it wrote is on disk and every listener knows.
    ///
    /// Whoever stops waiting does not stop the job.
    ///
    /// # Errors
    /// The job's own; [`Error::Busy`] if too many wait; [`Error::Storage`] if it could not be made durable: nobody will see it, unless
    /// the process ends before the disk works again, when it may or may not be there; [`Error::Internal`] if the job panicked.
    pub async fn write<T: Send + 'static>(&self, work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.submit(writer::job(self.1.clone(), work, move |result| drop(reply.send(result))))?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Runs a job on the store as it is now, and looks at what it would have changed. What it writes stays in memory: no write waits for it,
    /// and it takes its turn among the scans.
    ///
    /// # Errors
    /// The job's own or that of `look`; the file cannot be read; [`Error::Busy`] if too many wait; [`Error::Internal`] if it panicked.
    pub async fn rehearse<T, A: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
        look: impl FnOnce(&Read<'_>, Vec<Event>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let author = self.1.clone();
        let rehearsed = move |read: &Read<'_>| {
            let rows = DryRun::on(read.rows, read.turn);
            let tx = Tx::new(Read { rows: &rows, ..*read }, &rows, author);
            work(&tx)?;
            look(read, tx.events.into_inner())
        };
        self.scan(rehearsed).await
    }

    /// [`Store::write`] for threads that may block. Not for a listener or a job: these run on the thread it would wait for.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_blocking<T: Send + 'static>(&self, work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static) -> Result<T> {
        let (reply, answer) = sync_channel(1);
        self.submit(writer::job(self.1.clone(), work, move |result| drop(reply.send(result))))?;
        answer.recv().unwrap_or_else(|_| Err(closed()))
    }

    fn submit(&self, job: Job) -> Result<()> {
        if let Some(refusal) = self.0.core.refusal() {
            return Err(refusal);
        }
        let jobs = self.0.jobs.read().unwrap_or_else(PoisonError::into_inner);
        jobs.as_ref().ok_or_else(closed)?.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::Busy { retry_after: RETRY_AFTER },
            TrySendError::Disconnected(_) => closed(),
        })
    }

    /// Asks the store as it is now, on this thread; for a few records. Never waits for the writer.
    ///
    /// # Errors
    /// The question's own, or the file cannot be read.
    pub fn read<T>(&self, ask: impl FnOnce(&Read<'_>) -> Result<T>) -> Result<T> {
        self.0.core.read(None, ask)
    }

    /// Asks the store as it is now, on a thread that may block; for many records. Few that read more than about a thousand
    /// (`list/scan_limit.rs`) run at a time, the others wait. When nobody waits for the answer any more, it stops.
    ///
    /// # Errors
    /// The question's own; [`Error::Busy`] if too many wait; [`Error::Internal`] if it panicked.
    pub async fn scan<T: Send + 'static>(&self, ask: impl FnOnce(&Read<'_>) -> Result<T> + Send + 'static) -> Result<T> {
        let (core, turns) = (self.0.core.clone(), self.0.turns.clone());
        let waiting = Waiting(Arc::default());
        let abandoned = waiting.0.clone();
        let asked = tokio::task::spawn_blocking(move || core.read(Some(&ScanPermit::among(&turns, &abandoned)), ask));
        asked.await.unwrap_or_else(|e| Err(Error::Internal(format!("a scan: {e}"))))
    }

    /// [`Store::read`] for what is brief, [`Store::scan`] for what is not.
    ///
    /// # Errors
    /// As there.
    pub async fn ask<T: Send + 'static>(&self, brief: bool, ask: impl FnOnce(&Read<'_>) -> Result<T> + Send + 'static) -> Result<T> {
        if brief { self.read(ask) } else { self.scan(ask).await }
    }

    /// Has the changes of each transaction told to a listener, in order, on the writer's thread: it must be quick and must not wait for
    /// a write. Before anything is written, please: what was committed earlier is not told.
    pub fn subscribe(&self, listener: impl Fn(&[Event]) + Send + Sync + 'static) {
        self.0.core.listeners.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    /// Finishes the writes that wait, refuses others, and gives the file free once the last read is over. Blocks.
    pub fn close(&self) {
        self.0.close();
    }
}

impl Inner {
    fn close(&self) {
        drop(self.jobs.write().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last clone may go inside a job, on the writer itself.
        if let Some(writer) = writer.filter(|writer| writer.thread().id() != std::thread::current().id()) {
            drop(writer.join());
        }
        self.core.backend.release();
        self.core.database.store(None);
        // A listener may hold the store itself; dropped outside the lock, for that may bring us here again.
        let listeners = std::mem::take(&mut *self.core.listeners.write().unwrap_or_else(PoisonError::into_inner));
        drop(listeners);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Tells a scan when its caller is gone.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A database that is about to be written to: what it said of itself as a snapshot does not hold any more.
fn written(opened: Opened, path: &Path) -> Result<Opened, OpenError> {
    let forgotten = Manifest::forget(&opened.1);
    forgotten.map_err(|e| OpenError::Damaged { path: path.into(), reason: e.to_string() }).map(|()| opened)
}
