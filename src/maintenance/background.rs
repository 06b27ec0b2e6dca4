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

use crate::{priority::give_way, store::Progress};

/// The niceness of its threads: they get a tenth of the processor time of others.
const GIVING_WAY: i32 = 10;

/// Work that repeats until this is dropped.
pub struct Background {
    watch: Arc<Progress>,
    bell: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs `work`, waits for as long as it returns, and repeats. Dropping this cancels a running piece by its
    /// [`Progress`].
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(name: &str, mut work: impl FnMut(&Progress) -> Duration + Send + 'static) -> io::Result<Self> {
        let watch = Arc::new(Progress::default());
        let (bell, inbox) = channel::<()>();
        let watched = watch.clone();
        let work_and_rest = move || {
            give_way(GIVING_WAY);
            while inbox.recv_timeout(work(&watched)) == Err(RecvTimeoutError::Timeout) {}
        };
        let thread = thread::Builder::new().name(name.into()).spawn(work_and_rest)?;
        Ok(Self { watch, bell: Some(bell), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.watch.stop();
        drop(self.bell.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
