//! What waits to be written to one channel: control messages, which go first, and a queue for each circuit that ends here, which take turns
//! by bytes.
//!
//! Whoever has data for a queue reserves room first and waits until there is some ([`SendQueue::reserve`]); what must not wait is pushed
//! ([`SendQueue::push`], [`SendQueue::control`]). How much a channel may hold shrinks as all channels together fill up (half of what is left of the
//! router's budget), and so does how much a queue may hold (half of what is left to the channel, an eighth of what is left of the budget):
//! what nobody reads leaves room for the others, however much of it there is. This is the dynamic threshold of shared-memory switches
//! (Choudhury and Hahne, 1998). An empty channel takes one message as long as the budget has room for it.
//!
//! Invariant: the bytes that the budget counts are those in the queues, those reserved, and those the writer has taken and not yet written.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    budget::Budget,
    fair_queues::{FairQueues, OVERHEAD, Queue, QueueBounds, QueueId, State},
};
use crate::frame::Frame;

/// A channel takes no more control messages than this.
const CONTROL: usize = 256 << 10;
/// With more than this waiting nothing is read from the peer that would have to be answered.
const CONGESTED: usize = 16 << 10;

/// The channel is closed, or the queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

pub struct SendQueue {
    room: QueueBounds,
    budget: Arc<Budget>,
    inner: Mutex<FairQueues>,
    /// Woken when there is something to write.
    writer: Notify,
    /// Woken when few control messages wait.
    eased: Notify,
}

/// Room in a queue for one message. Given back if it is dropped.
pub struct Reservation<'o> {
    outbox: &'o SendQueue,
    queue: QueueId,
    bytes: usize,
}

impl SendQueue {
    pub fn new(room: QueueBounds, budget: Arc<Budget>) -> Self {
        Self { room, budget, inner: Mutex::default(), writer: Notify::new(), eased: Notify::new() }
    }

    /// A new queue. On a closed channel it takes nothing.
    pub fn open(&self) -> QueueId {
        let mut inner = self.inner.lock();
        inner.next += 1;
        let id = inner.next;
        if inner.state == State::Open {
            inner.queues.insert(id, Queue::default());
        }
        id
    }

    /// Waits until a queue has room for a message of so many bytes. `waiter` is the caller's own and used for nothing else.
    ///
    /// # Errors
    /// The channel or the queue is closed.
    pub async fn reserve(&self, queue: QueueId, bytes: usize, waiter: &Arc<Notify>) -> Result<Reservation<'_>, Gone> {
        let bytes = bytes + OVERHEAD;
        let mut has_waited = false;
        loop {
            if self.try_reserve(queue, bytes, waiter)? {
                if has_waited {
                    // There may be room for others as well.
                    self.budget.wake(1);
                }
                return Ok(Reservation { outbox: self, queue, bytes });
            }
            has_waited = true;
            waiter.notified().await;
        }
    }

    fn try_reserve(&self, id: QueueId, bytes: usize, waiter: &Arc<Notify>) -> Result<bool, Gone> {
        let mut inner = self.inner.lock();
        let FairQueues { queues, bytes: in_channel, waiting, .. } = &mut *inner;
        let queue = queues.get_mut(&id).filter(|queue| !queue.is_finished).ok_or(Gone)?;
        let free = self.budget.free();
        let left = self.room.channel.min(free / 2).saturating_sub(*in_channel);
        let most = self.room.queue.min(left / 2).min(free / 8);
        let fits = queue.bytes + bytes <= most || (queue.bytes == 0 && (bytes <= left || *in_channel == 0));
        if fits && self.budget.try_take(bytes) {
            queue.bytes += bytes;
            queue.waiter = None;
            inner.count(bytes);
            return Ok(true);
        }
        queue.waiter = Some(waiter.clone());
        queue.wake_at = most.min(queue.bytes) / 2;
        if !waiting.contains(&id) {
            waiting.push(id);
        }
        if queue.bytes == 0 {
            self.budget.wait(waiter);
            if fits && self.budget.free() >= bytes {
                // It was given back before we were known to wait.
                waiter.notify_one();
            }
        }
        Ok(false)
    }

    /// Puts a message behind a queue that goes through whatever there is room for. There are few of them for each circuit.
    pub fn push(&self, id: QueueId, frame: Frame) {
        let mut inner = self.inner.lock();
        let bytes = frame.len() + OVERHEAD;
        let Some(queue) = inner.queues.get_mut(&id) else { return };
        queue.bytes += bytes;
        inner.count(bytes);
        self.budget.take(bytes);
        inner.append(id, frame);
        drop(inner);
        self.writer.notify_one();
    }

    /// Ends a queue once it is written.
    pub fn finish(&self, id: QueueId) {
        self.inner.lock().finish(id);
    }

    /// Ends a queue with what is in it.
    pub fn discard(&self, id: QueueId) {
        let freed = {
            let mut inner = self.inner.lock();
            let Some(queue) = inner.queues.remove(&id) else { return };
            inner.turns.retain(|turn| *turn != id);
            let freed: usize = queue.messages.iter().map(|message| message.len() + OVERHEAD).sum();
            inner.bytes -= freed;
            queue.wake();
            inner.wake_waiting(self.room);
            freed
        };
        self.budget.give_back(freed);
    }

    /// Sends a message before all data. Answers whether the channel takes it; one whose peer does not read its control messages does not.
    pub fn control(&self, frame: Frame) -> bool {
        let bytes = frame.len() + OVERHEAD;
        let mut inner = self.inner.lock();
        if inner.state != State::Open || inner.control_bytes + bytes > CONTROL {
            return false;
        }
        inner.control_bytes += bytes;
        self.budget.take(bytes);
        inner.control.push_back(frame);
        drop(inner);
        self.writer.notify_one();
        true
    }

    /// Waits until few control messages wait. For the reader of the channel alone.
    pub async fn eased(&self) {
        loop {
            {
                let inner = self.inner.lock();
                if inner.control_bytes <= CONGESTED || inner.state == State::Closed {
                    return;
                }
            }
            self.eased.notified().await;
        }
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        let inner = self.inner.lock();
        inner.bytes + inner.control_bytes
    }

    /// Waits for messages and takes some, in the order in which they are to be written. `number` gives those a number that have none yet.
    /// Answers their bytes for [`SendQueue::written`], or `None` when there will be no more.
    pub async fn take(&self, batch: &mut Vec<Frame>, mut number: impl FnMut(&mut Frame)) -> Option<usize> {
        loop {
            {
                let mut inner = self.inner.lock();
                if inner.state == State::Closed {
                    return None;
                }
                let taken = inner.take(batch, &mut number);
                if inner.control_bytes <= CONGESTED {
                    self.eased.notify_one();
                }
                if taken > 0 {
                    return Some(taken);
                }
                if inner.state == State::Draining {
                    return None;
                }
            }
            self.writer.notified().await;
        }
    }

    /// Notes that bytes that were taken are written.
    pub fn written(&self, bytes: usize) {
        {
            let mut inner = self.inner.lock();
            if inner.state == State::Closed {
                return;
            }
            inner.bytes -= bytes;
            inner.moved = Some(Instant::now());
            inner.wake_waiting(self.room);
        }
        self.budget.give_back(bytes);
    }

    /// For how long nothing was written although something waits.
    pub fn stalled(&self) -> Duration {
        let inner = self.inner.lock();
        inner.moved.filter(|_| inner.bytes > 0).map_or(Duration::ZERO, |moved| moved.elapsed())
    }

    /// Takes nothing new from now on; the writer ends when all is written.
    pub fn drain(&self) {
        let mut inner = self.inner.lock();
        if inner.state == State::Open {
            inner.state = State::Draining;
        }
        drop(inner);
        self.writer.notify_one();
    }

    /// Drops everything.
    pub fn close(&self) {
        let freed = {
            let mut inner = self.inner.lock();
            if inner.state == State::Closed {
                return;
            }
            inner.state = State::Closed;
            inner.control.clear();
            inner.turns.clear();
            inner.waiting.clear();
            for queue in std::mem::take(&mut inner.queues).into_values() {
                queue.wake();
            }
            // What was reserved is given back by nobody else any more.
            std::mem::take(&mut inner.bytes) + std::mem::take(&mut inner.control_bytes)
        };
        self.writer.notify_one();
        self.eased.notify_one();
        self.budget.give_back(freed);
    }
}

impl Reservation<'_> {
    /// Puts the message for which the room was into the queue. Of a queue that is closed by now it goes nowhere.
    pub fn fill(self, frame: Frame) {
        let (outbox, id) = (self.outbox, self.queue);
        let mut inner = outbox.inner.lock();
        let is_open = inner.queues.get(&id).is_some_and(|queue| !queue.is_finished);
        if is_open {
            inner.append(id, frame);
            drop(inner);
            std::mem::forget(self);
            outbox.writer.notify_one();
        } else {
            drop(inner);
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        {
            let mut inner = self.outbox.inner.lock();
            if inner.state == State::Closed {
                return;
            }
            inner.bytes -= self.bytes;
            if let Some(queue) = inner.queues.get_mut(&self.queue) {
                queue.bytes -= self.bytes;
            }
            inner.wake_waiting(self.outbox.room);
        }
        self.outbox.budget.give_back(self.bytes);
    }
}
