//! Periodic work on a thread of its own with low priority.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use policy::priority::lower_priority;
use store::Progress;

/// The `nice` value of the threads: on a busy processor each gets about a tenth of the time of a
/// normal thread.
const NICE: i32 = 10;

/// Work that repeats until this is dropped.
pub struct Background {
    progress: Arc<Progress>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs `work`, waits for as long as it returns, and repeats. Dropping this cancels work in
    /// progress through its [`Progress`].
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        name: &str,
        mut work: impl FnMut(&Progress) -> Duration + Send + 'static,
    ) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let (stop, stopped) = channel::<()>();
        let for_thread = progress.clone();
        let run = move || {
            lower_priority(NICE);
            while stopped.recv_timeout(work(&for_thread)) == Err(RecvTimeoutError::Timeout) {}
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self {
            progress,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.progress.stop();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
