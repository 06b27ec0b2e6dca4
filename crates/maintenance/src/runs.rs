//! One run of some work at a time: its state, its progress, its result, and its cancellation.
//!
//! A run is on a thread of its own ([`Runs::begin`]) or on that of the caller ([`Runs::run`]).
//! Invariant: a panic of the work is a failed run, so that the next run can begin.

use std::{
    fmt::{Debug, Display},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

use model::{
    clock::{Clock, Timestamp},
    error::{Error, Refusal, Result},
};
use parking_lot::{Mutex, MutexGuard};
use store::Progress;

/// The state of the last or current run.
#[derive(Debug, Clone)]
pub struct RunState<W, T, E> {
    /// What is done.
    pub work: W,
    pub started_at: Timestamp,
    /// When it ended and its result. `None` while it is running.
    pub end: Option<(Timestamp, Result<T, E>)>,
    /// The rows done and the total.
    pub progress: (u64, u64),
}

/// Runs of work of the kind `W`. Cheap to clone.
#[derive(Clone)]
pub(super) struct Runs<W, T, E>(Arc<Inner<W, T, E>>);

struct Inner<W, T, E> {
    /// The name of the threads.
    name: &'static str,
    /// The error of a run that panicked.
    panicked: E,
    clock: Clock,
    run: Mutex<Option<Run<W, T, E>>>,
}

struct Run<W, T, E> {
    work: W,
    started_at: Timestamp,
    end: Option<(Timestamp, Result<T, E>)>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

impl<W: Clone + Debug, T: Clone, E: Clone + Display> Runs<W, T, E> {
    pub(super) fn new(name: &'static str, panicked: E, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            name,
            panicked,
            clock,
            run: Mutex::default(),
        }))
    }

    /// Starts a run on a thread of its own.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`] while another run is in progress.
    pub(super) fn begin(
        &self,
        work: W,
        task: impl FnOnce(&Arc<Progress>) -> Result<T, E> + Send + 'static,
    ) -> Result<()>
    where
        W: Send + 'static,
        T: Send + 'static,
        E: Send + Sync + 'static,
    {
        let mut run = self.0.free()?;
        let progress = Arc::new(Progress::default());
        let (inner, on_thread) = (self.0.clone(), progress.clone());
        // No result is lost: the new thread needs the lock that is held here before it stores its
        // result.
        let thread = thread::Builder::new()
            .name(self.0.name.into())
            .spawn(move || drop(inner.carry_out(&on_thread, task)));
        let thread =
            thread.map_err(|error| Error::Internal(format!("{}: {error}", self.0.name)))?;
        *run = Some(Run {
            work,
            started_at: self.0.clock.now(),
            end: None,
            progress,
            thread: Some(thread),
        });
        Ok(())
    }

    /// The state of the last or current run; `None` before the first.
    pub(super) fn state(&self) -> Option<RunState<W, T, E>> {
        self.0.run.lock().as_ref().map(
            |Run {
                 work,
                 started_at,
                 end,
                 progress,
                 ..
             }| RunState {
                work: work.clone(),
                started_at: *started_at,
                end: end.clone(),
                progress: progress.done_and_total(),
            },
        )
    }

    /// Whether a run is in progress.
    pub(super) fn is_running(&self) -> bool {
        self.0
            .run
            .lock()
            .as_ref()
            .is_some_and(|run| run.end.is_none())
    }

    /// Cancels the current run and waits for its end.
    pub(super) fn stop(&self) {
        let thread = self.0.run.lock().as_mut().and_then(|run| {
            run.progress.stop();
            run.thread.take()
        });
        if let Some(thread) = thread {
            drop(thread.join());
        }
    }
}

impl<W: Clone + Debug, T: Clone> Runs<W, T, Error> {
    /// Does a run on this thread. The caller may read its progress.
    ///
    /// # Errors
    /// As [`Runs::begin`], and the error of the run.
    pub(super) fn run(
        &self,
        work: W,
        progress: &Arc<Progress>,
        task: impl FnOnce(&Arc<Progress>) -> Result<T>,
    ) -> Result<T> {
        *self.0.free()? = Some(Run {
            work,
            started_at: self.0.clock.now(),
            end: None,
            progress: progress.clone(),
            thread: None,
        });
        self.0.carry_out(progress, task)
    }
}

impl<W: Debug, T: Clone, E: Clone + Display> Inner<W, T, E> {
    /// The place of the next run, if none is in progress.
    fn free(&self) -> Result<MutexGuard<'_, Option<Run<W, T, E>>>> {
        let run = self.run.lock();
        if run.as_ref().is_some_and(|run| run.end.is_none()) {
            return Err(Error::Refused(Refusal::RateLimited));
        }
        Ok(run)
    }

    fn carry_out(
        &self,
        progress: &Arc<Progress>,
        task: impl FnOnce(&Arc<Progress>) -> Result<T, E>,
    ) -> Result<T, E> {
        let result = catch_unwind(AssertUnwindSafe(|| task(progress)))
            .unwrap_or_else(|_| Err(self.panicked.clone()));
        if let Some(run) = self.run.lock().as_mut() {
            if let Err(error) = &result {
                tracing::error!(%error, work = ?run.work, "{} failed", self.name);
            }
            run.end = Some((self.clock.now(), result.clone()));
        }
        result
    }
}
