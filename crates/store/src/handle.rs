//! The handle of a running store: writing, previews, closing. Reading is in `reader.rs`, opening a
//! file in `opening.rs`.

use std::{
    ops::Deref,
    sync::{
        Arc, PoisonError,
        mpsc::{TrySendError, sync_channel},
    },
};

use tokio::sync::oneshot;

use super::{
    event::Event,
    reader::Reader,
    refusal::{RETRY_AFTER, closed},
    tx::{
        dry_run::DryRun,
        read::Read,
        write::Tx,
        writer::{self, Job},
    },
};
use model::{
    entity::Author,
    error::{Error, Result},
};

/// A handle of the store with an author, who is recorded for what is written through the handle.
/// The author is the controller itself, unless [`Store::by`] sets another. Clones are handles of
/// the same store. The store closes when the last handle and the last [`Reader`] are dropped, or by
/// [`Store::close`].
///
/// It derefs to its [`Reader`], which is the pointer to the store: both are handles of the same
/// thing, a reader has no rule that a write could pass by, and a second list of its questions here
/// would only pass them on.
#[derive(Clone)]
pub struct Store(Reader, Arc<Author>);

impl Deref for Store {
    type Target = Reader;
    fn deref(&self) -> &Reader {
        &self.0
    }
}

impl Store {
    /// The store of a reader. Its writer must be running.
    pub(super) fn of(reader: Reader) -> Self {
        Self(reader, Arc::default())
    }

    /// The same store for callers that only read.
    pub fn reader(&self) -> &Reader {
        &self.0
    }

    /// The same store with another author.
    #[must_use]
    pub fn by(&self, author: Author) -> Self {
        Self(self.0.clone(), Arc::new(author))
    }

    /// The author of what is written through this handle.
    pub fn author(&self) -> &Author {
        &self.1
    }

    /// Runs a job in a write transaction and waits until its changes are on disk and every listener
    /// was called.
    ///
    /// Dropping the future does not stop the job.
    ///
    /// # Errors
    /// The job's own; [`Error::Busy`] if too many wait; [`Error::Storage`] if the commit failed:
    /// nobody sees the changes, but if the process ends before the disk works again, they may be on
    /// disk; [`Error::Internal`] if the job panicked.
    pub async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.submit(writer::job(self.1.clone(), work, move |result| {
            drop(reply.send(result))
        }))?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Runs a job on the current state and passes the result to `look`. What the job writes stays
    /// in memory. No write waits for it; it is limited like a scan.
    ///
    /// # Errors
    /// The job's own or that of `look`; the file cannot be read; [`Error::Busy`] if too many wait;
    /// [`Error::Internal`] if the job panicked.
    pub async fn dry_run<T, A: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
        look: impl FnOnce(&Read<'_>, Vec<Event>, T) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let author = self.1.clone();
        let run = move |read: &Read<'_>| {
            let rows = DryRun::on(read.rows, read.permit);
            let tx = Tx::new(
                Read {
                    rows: &rows,
                    ..*read
                },
                &rows,
                author,
            );
            let done = work(&tx)?;
            look(read, tx.events.into_inner(), done)
        };
        self.scan(run).await
    }

    /// [`Store::write`] for threads that may block. Must not be called by a listener or a job,
    /// because these run on the writer thread.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = sync_channel(1);
        self.submit(writer::job(self.1.clone(), work, move |result| {
            drop(reply.send(result))
        }))?;
        answer.recv().unwrap_or_else(|_| Err(closed()))
    }

    fn submit(&self, job: Job) -> Result<()> {
        if let Some(refusal) = self.core().refusal() {
            return Err(refusal);
        }
        let jobs = self.0.0.jobs.read().unwrap_or_else(PoisonError::into_inner);
        let jobs = jobs.as_ref().ok_or_else(closed)?;
        let queue = &self.core().metrics.queue;
        // The job is counted before it is sent, because the writer subtracts it when it takes it
        // from the queue.
        queue.inc();
        jobs.try_send(job).map_err(|refused| {
            queue.dec();
            match refused {
                TrySendError::Full(_) => Error::Busy {
                    retry_after: RETRY_AFTER,
                },
                TrySendError::Disconnected(_) => closed(),
            }
        })
    }

    /// Finishes the waiting writes, rejects new ones, and closes the file once the last read has
    /// ended. Blocks.
    pub fn close(&self) {
        self.0.0.close();
    }
}
