//! The reports of one router that may wait for the disk or for locks: they are processed one after
//! the other, in the order in which they came.
//!
//! A router that floods the controller with them waits for itself: its next message is read when
//! there is room, and after each report it is left out for as long as that took, so that the disk
//! and the locks are free for others at least half of the time.

use std::{
    collections::VecDeque,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::sleep,
};

/// Maximum bytes of reports that wait. The longest message fits.
const ROOM: usize = 8 << 20;
/// Bytes that each report counts beyond its length.
const OVERHEAD: usize = 1024;
/// Maximum pause after a report.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Shorter pauses add up to one of this length, because timers are no finer.
const MIN_PAUSE: Duration = Duration::from_millis(2);

/// Processes a report.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// The reports of one router.
pub(crate) struct ReportQueue {
    room: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    reports: VecDeque<(Work, OwnedSemaphorePermit)>,
    /// Whether a task processes them.
    is_processing: bool,
}

impl Default for ReportQueue {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(ROOM)),
            waiting: Mutex::default(),
        }
    }
}

impl ReportQueue {
    /// Adds a report of this length to those that are processed. Waits while there is no room.
    pub(crate) async fn add(self: &Arc<Self>, bytes: usize, work: Work) {
        let cost = u32::try_from((bytes + OVERHEAD).min(ROOM)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let Ok(room) = self.room.clone().acquire_many_owned(cost).await else {
            return;
        };
        let mut waiting = self.waiting.lock();
        waiting.reports.push_back((work, room));
        if !mem::replace(&mut waiting.is_processing, true) {
            tokio::spawn(process(self.clone()));
        }
    }

    fn next(&self) -> Option<(Work, OwnedSemaphorePermit)> {
        let mut waiting = self.waiting.lock();
        let next = waiting.reports.pop_front();
        waiting.is_processing = next.is_some();
        next
    }
}

async fn process(queue: Arc<ReportQueue>) {
    let mut pause = Duration::ZERO;
    while let Some((work, room)) = queue.next() {
        let began = Instant::now();
        drop(spawn_blocking(work).await);
        drop(room);
        pause += began.elapsed();
        if pause >= MIN_PAUSE {
            sleep(mem::take(&mut pause).min(MAX_PAUSE)).await;
        }
    }
}
