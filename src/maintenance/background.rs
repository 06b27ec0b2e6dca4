//! Work that is done again and again on a thread of its own, which gives way to those that somebody waits for.

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

/// How far its threads give way: they get a tenth of what others do.
const GIVING_WAY: i32 = 10;

/// Work that goes on until this is dropped.
pub struct Background {
    watch: Arc<Progress>,
    bell: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Does a piece of work, rests for as long as it says, and begins again. The watch stops a piece that takes long.
    ///
    /// # Errors
    /// The system gives no thread.
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
