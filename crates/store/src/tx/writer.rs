//! The writer thread and its group commit.
//!
//! The thread takes the waiting jobs, runs them one after the other in one redb transaction,
//! commits with one fsync, calls the listeners, then answers the callers. A job that fails or
//! panics is rolled back row by row, without effect on the others. After a failed commit it is
//! unknown what is on disk: the store returns to the state before the group (`file/recovery.rs`),
//! every caller of the group gets the error, and writes are rejected until the disk works again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{Builder, JoinHandle, yield_now},
    time::{Duration, Instant},
};

use redb::{Durability, WriteTransaction};

use super::tables::{RowsMut, Writing, broken};
use crate::{
    event::Event, file::recovery::Recovery, refusal::panicked, store_core::StoreCore, tx::write::Tx,
};
use model::{
    entity::Author,
    error::{Error, Result},
};

/// A group of this size is not kept open for more jobs: the commit costs each of them little.
const FULL_GROUP: usize = 16;

/// After this many commits in a row with a single job, no group is kept open for others.
const SINGLE_JOBS: usize = 8;

/// A job in the queue: it is run with a transaction, or rejected with an error.
pub(crate) struct Job {
    author: Arc<Author>,
    run: Run,
}

type Run = Box<dyn FnOnce(Result<&Tx<'_>>) -> JobOutcome + Send>;

/// The outcome of a job that was run.
pub(crate) struct JobOutcome {
    /// Whether its writes stay.
    kept: bool,
    /// Answers the caller, once it is known whether the group is on disk.
    answer: Answer,
}

type Answer = Box<dyn FnOnce(Result<()>) + Send>;

/// Makes a job that runs `work` and passes its result to `reply`.
pub(crate) fn job<T: Send + 'static>(
    author: Arc<Author>,
    work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    reply: impl FnOnce(Result<T>) + Send + 'static,
) -> Job {
    let run = Box::new(move |tx: Result<&Tx<'_>>| {
        let guarded = |tx: &Tx<'_>| {
            catch_unwind(AssertUnwindSafe(|| work(tx)))
                .unwrap_or_else(|panic| Err(panicked("a write", &*panic)))
        };
        let result = tx.and_then(guarded);
        JobOutcome {
            kept: result.is_ok(),
            answer: Box::new(move |committed: Result<()>| reply(committed.and(result))),
        }
    });
    Job { author, run }
}

/// Starts the writer. It ends when every sender is dropped and the queue is empty.
pub(crate) fn start(
    core: Arc<StoreCore>,
    queue: usize,
    group: usize,
    retry: Duration,
) -> std::io::Result<(SyncSender<Job>, JoinHandle<()>)> {
    let (sender, jobs) = sync_channel(queue);
    core.writing.store(true, Ordering::Release);
    let thread = Builder::new().name("store writer".into()).spawn(move || {
        let mut recovery = Recovery::new(&core, retry);
        // The number of commits in a row with a single job.
        let mut alone = SINGLE_JOBS;
        loop {
            match jobs.recv_timeout(retry) {
                Ok(first) => {
                    let (answers, events) = (Vec::new(), Vec::new());
                    let mut group = Group {
                        core: &core,
                        jobs: &jobs,
                        limit: group.max(1),
                        open: alone < SINGLE_JOBS,
                        answers,
                        events,
                    };
                    let shared = group.run(first, &mut recovery) > 1;
                    alone = if shared {
                        0
                    } else {
                        SINGLE_JOBS.min(alone + 1)
                    };
                }
                Err(RecvTimeoutError::Timeout) => recovery.check(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        core.writing.store(false, Ordering::Release);
    })?;
    Ok((sender, thread))
}

/// The jobs that share a commit.
struct Group<'w> {
    core: &'w StoreCore,
    jobs: &'w Receiver<Job>,
    limit: usize,
    /// Whether a small group waits for more jobs.
    open: bool,
    answers: Vec<Answer>,
    /// The events of each job whose writes stay.
    events: Vec<Vec<Event>>,
}

impl Group<'_> {
    /// Runs and commits the group. Returns the number of jobs.
    fn run(&mut self, first: Job, recovery: &mut Recovery<'_>) -> usize {
        let mut first = Some(first);
        let committed = match self.core.refusal() {
            Some(refusal) => Err(refusal),
            None => {
                let begun = Instant::now();
                let committed = self.commit_or_recover(&mut first, recovery);
                self.core
                    .metrics
                    .commit_duration
                    .observe(begun.elapsed().as_secs_f64());
                committed
            }
        };
        if committed.is_err() {
            self.core.metrics.failures.inc();
        }
        match &committed {
            Ok(()) => {
                for events in &self.events {
                    self.core.publish(events);
                }
            }
            Err(e) => self
                .answers
                .extend(first.map(|job| (job.run)(Err(e.clone())).answer)),
        }
        let jobs = self.answers.len();
        self.core.metrics.jobs.inc_by(jobs as u64);
        self.core
            .metrics
            .queue
            .dec_by(i64::try_from(jobs).unwrap_or_default());
        for answer in self.answers.drain(..) {
            answer(committed.clone());
        }
        jobs
    }

    fn commit_or_recover(
        &mut self,
        first: &mut Option<Job>,
        recovery: &mut Recovery<'_>,
    ) -> Result<()> {
        let before = self.core.backend.heads();
        // A panic here comes from redb: the transaction is lost, and the database is no longer
        // trusted.
        let committed = catch_unwind(AssertUnwindSafe(|| self.commit(first)))
            .unwrap_or_else(|panic| Err(panicked("a commit", &*panic)));
        committed.or_else(|error| {
            // The commit may fail in a step after the flush: then the group is on disk.
            let on_disk = self.core.backend.heads() > before;
            recovery.begin(&error);
            if on_disk { Ok(()) } else { Err(error) }
        })
    }

    fn commit(&mut self, first: &mut Option<Job>) -> Result<()> {
        let database = self.core.database()?;
        let mut transaction = database.begin_write().map_err(broken)?;
        transaction
            .set_durability(Durability::Immediate)
            .map_err(broken)?;
        if self.fill(&transaction, first)? {
            transaction.commit().map_err(broken)
        } else {
            transaction.abort().map_err(broken)
        }
    }

    /// The next job. If none waits and the group is kept open, the thread yields once, so that
    /// other threads on this core may submit one. Next to a thread that computes for long the yield
    /// takes milliseconds. It is therefore skipped after [`SINGLE_JOBS`] commits in a row with a
    /// single job.
    fn next(&self) -> Option<Job> {
        let waiting = self.jobs.try_recv().ok();
        if waiting.is_some() || !self.open || self.answers.len() >= FULL_GROUP {
            return waiting;
        }
        yield_now();
        self.jobs.try_recv().ok()
    }

    /// Runs jobs until none waits or the group is full. Returns whether there is anything to
    /// commit.
    fn fill(&mut self, transaction: &WriteTransaction, first: &mut Option<Job>) -> Result<bool> {
        let rows = Writing::new(transaction, &self.core.names);
        let mut written = false;
        while let Some(job) = first.take().or_else(|| self.next()) {
            let tx = self.core.job(&rows, job.author);
            let JobOutcome { kept, answer } = (job.run)(Ok(&tx));
            self.answers.push(answer);
            if kept {
                written |= rows.keep();
                // If the commit fails, the log-ins were refused, and at most their count is too
                // high.
                self.core.context.visits.take(tx.visits.into_inner());
                self.events.push(tx.events.into_inner());
            } else {
                rows.rollback(0)?;
            }
            if rows.is_incomplete() {
                return Err(Error::Storage("a change failed in the middle".into()));
            }
            if self.answers.len() >= self.limit {
                break;
            }
        }
        Ok(written)
    }
}
