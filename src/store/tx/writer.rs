//! The one thread that writes, and its group commit.
//!
//! It takes whatever jobs wait, runs them one after the other in one redb transaction, commits that with one fsync, tells the
//! listeners, then answers the callers. A job that fails or panics is taken back row by row; the others do not notice.
//! After a failed commit nobody can say what is on disk: the store goes back to what it was before the group (`file/recovery.rs`), everyone in
//! it is told so, and nothing more is written until the disk works again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{Builder, JoinHandle, yield_now},
    time::Duration,
};

use redb::{Durability, WriteTransaction};

use super::tables::{RowsMut, Writing, broken};
use crate::store::{core::Core, event::Event, file::recovery::Recovery, refusal::panicked, tx::write::Tx};
use crate::{
    entity::Author,
    error::{Error, Result},
};

/// Where so many share a commit, it costs each of them little.
const ENOUGH: usize = 16;

/// After so many commits in a row that nobody shared, none is kept open for others.
const ALONE: usize = 8;

/// What waits in the queue: it is run with a transaction, or refused.
pub struct Job {
    author: Arc<Author>,
    run: Run,
}

type Run = Box<dyn FnOnce(Result<&Tx<'_>>) -> Outcome + Send>;

/// A job that was run.
pub struct Outcome {
    /// Whether what it wrote is to stay.
    kept: bool,
    /// Answers the caller, once it is known whether the group is on disk.
    answer: Answer,
}

type Answer = Box<dyn FnOnce(Result<()>) + Send>;

/// Makes a job of somebody's work.
pub fn job<T: Send + 'static>(
    author: Arc<Author>,
    work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    reply: impl FnOnce(Result<T>) + Send + 'static,
) -> Job {
    let run = Box::new(move |tx: Result<&Tx<'_>>| {
        let guarded = |tx: &Tx<'_>| catch_unwind(AssertUnwindSafe(|| work(tx))).unwrap_or_else(|panic| Err(panicked("a write", &*panic)));
        let result = tx.and_then(guarded);
        Outcome { kept: result.is_ok(), answer: Box::new(move |committed: Result<()>| reply(committed.and(result))) }
    });
    Job { author, run }
}

/// Starts the writer. It ends when every sender is gone and the queue is empty.
pub fn start(core: Arc<Core>, queue: usize, group: usize, retry: Duration) -> std::io::Result<(SyncSender<Job>, JoinHandle<()>)> {
    let (sender, jobs) = sync_channel(queue);
    core.writing.store(true, Ordering::Release);
    let thread = Builder::new().name("store writer".into()).spawn(move || {
        let mut recovery = Recovery::new(&core, retry);
        // How many commits in a row nobody shared.
        let mut alone = ALONE;
        loop {
            match jobs.recv_timeout(retry) {
                Ok(first) => {
                    let (answers, told) = (Vec::new(), Vec::new());
                    let mut group = Group { core: &core, jobs: &jobs, limit: group.max(1), open: alone < ALONE, answers, told };
                    let shared = group.run(first, &mut recovery) > 1;
                    alone = if shared { 0 } else { ALONE.min(alone + 1) };
                }
                Err(RecvTimeoutError::Timeout) => recovery.look(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        core.writing.store(false, Ordering::Release);
    })?;
    Ok((sender, thread))
}

/// The jobs that share a commit.
struct Group<'w> {
    core: &'w Core,
    jobs: &'w Receiver<Job>,
    limit: usize,
    /// Whether it is kept open for others while it is small.
    open: bool,
    answers: Vec<Answer>,
    /// The events of each job that is kept.
    told: Vec<Vec<Event>>,
}

impl Group<'_> {
    /// Says how many jobs there were.
    fn run(&mut self, first: Job, recovery: &mut Recovery<'_>) -> usize {
        let mut first = Some(first);
        let committed = match self.core.refusal() {
            Some(refusal) => Err(refusal),
            None => self.commit_or_recover(&mut first, recovery),
        };
        match &committed {
            Ok(()) => self.told.iter().for_each(|events| self.core.publish(events)),
            Err(e) => self.answers.extend(first.map(|job| (job.run)(Err(e.clone())).answer)),
        }
        let jobs = self.answers.len();
        for answer in self.answers.drain(..) {
            answer(committed.clone());
        }
        jobs
    }

    fn commit_or_recover(&mut self, first: &mut Option<Job>, recovery: &mut Recovery<'_>) -> Result<()> {
        let before = self.core.backend.heads();
        // A panic here is redb's: the transaction is gone, and so is our trust.
        let committed = catch_unwind(AssertUnwindSafe(|| self.commit(first))).unwrap_or_else(|panic| Err(panicked("a commit", &*panic)));
        committed.or_else(|error| {
            // It may fail over what it does after the flush: then the group is on disk.
            let on_disk = self.core.backend.heads() > before;
            recovery.begin(&error);
            if on_disk { Ok(()) } else { Err(error) }
        })
    }

    fn commit(&mut self, first: &mut Option<Job>) -> Result<()> {
        let database = self.core.database()?;
        let mut transaction = database.begin_write().map_err(broken)?;
        transaction.set_durability(Durability::Immediate).map_err(broken)?;
        if self.fill(&transaction, first)? { transaction.commit().map_err(broken) } else { transaction.abort().map_err(broken) }
    }

    /// The next job. Where none waits and the commit is kept open, threads that wait for this core get it: they may bring one. Beside
    /// somebody who computes for long that takes milliseconds, which a lone writer is to be spared.
    fn next(&self) -> Option<Job> {
        let waiting = self.jobs.try_recv().ok();
        if waiting.is_some() || !self.open || self.answers.len() >= ENOUGH {
            return waiting;
        }
        yield_now();
        self.jobs.try_recv().ok()
    }

    /// Runs jobs until none waits. Says whether there is anything to commit.
    fn fill(&mut self, transaction: &WriteTransaction, first: &mut Option<Job>) -> Result<bool> {
        let rows = Writing::new(transaction, &self.core.names);
        let mut written = false;
        while let Some(job) = first.take().or_else(|| self.next()) {
            let tx = self.core.job(&rows, job.author);
            let Outcome { kept, answer } = (job.run)(Ok(&tx));
            self.answers.push(answer);
            if kept {
                written |= rows.keep();
                self.told.push(tx.events.into_inner());
            } else {
                rows.rollback(0)?;
            }
            if rows.torn() {
                return Err(Error::Storage("a change stopped half-way".into()));
            }
            if self.answers.len() >= self.limit {
                break;
            }
        }
        Ok(written)
    }
}
