//! What waits to be written to one channel: control messages, which go first, and a queue for each circuit that ends here, which take turns
//! by bytes.
//!
//! Whoever has data for a queue reserves room first and waits until there is some ([`Outbox::reserve`]); what must not wait is pushed
//! ([`Outbox::push`], [`Outbox::control`]). How much a queue may hold shrinks as the channel and all channels together fill up, so that queues
//! that nobody reads leave room for the others: half of what the channel, and an eighth of what the whole router, has left. An empty queue
//! takes one message as long as the router has room for it at all.
//!
//! Invariant: the bytes that the budget counts are those in the queues, those reserved, and those the writer has taken and not yet written.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::budget::Budget;
use crate::frame::Frame;

/// The writer takes about so many bytes at a time.
const BATCH: usize = 64 << 10;
/// How many bytes a queue may send when it is its turn.
const TURN: usize = 32 << 10;
/// What a message costs beside its bytes.
const OVERHEAD: usize = 128;
/// A channel takes no more control messages than this.
const CONTROL: usize = 256 << 10;
/// With more than this waiting nothing is read from the peer that would have to be answered.
const CONGESTED: usize = 16 << 10;
/// A queue of a circuit of this channel.
pub type QueueId = u64;

/// How much may wait, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    pub queue: usize,
    pub channel: usize,
}

/// The channel is closed, or the queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

pub struct Outbox {
    room: Room,
    budget: Arc<Budget>,
    inner: Mutex<Inner>,
    /// Woken when there is something to write.
    writer: Notify,
    /// Woken when few control messages wait.
    eased: Notify,
}

#[derive(Default)]
struct Inner {
    control: VecDeque<Frame>,
    control_bytes: usize,
    queues: HashMap<QueueId, Queue>,
    next: QueueId,
    /// Queues that have messages, in the order of their turns.
    turns: VecDeque<QueueId>,
    /// Bytes in queues, reserved or taken by the writer.
    bytes: usize,
    /// Queues that somebody waits for because the channel is full.
    waiting: Vec<QueueId>,
    state: State,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// Nothing new comes; what is there is still written.
    Draining,
    Closed,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Frame>,
    /// Bytes in it and reserved.
    bytes: usize,
    /// Bytes it may still send in its turn.
    credit: usize,
    /// Whether nothing more comes: it goes once it is empty.
    is_finished: bool,
    waiter: Option<Arc<Notify>>,
    /// Whoever waits is woken when there are no more bytes than this.
    wake_at: usize,
}

/// Room in a queue for one message. Given back if it is dropped.
pub struct Reservation<'o> {
    outbox: &'o Outbox,
    queue: QueueId,
    bytes: usize,
}

impl Outbox {
    pub fn new(room: Room, budget: Arc<Budget>) -> Self {
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
        let Inner { queues, bytes: in_channel, waiting, .. } = &mut *inner;
        let queue = queues.get_mut(&id).ok_or(Gone)?;
        let (free, left) = (self.budget.free(), self.room.channel.saturating_sub(*in_channel));
        let most = self.room.queue.min(left / 2).min(free / 8);
        let fits = queue.bytes + bytes <= most || (queue.bytes == 0 && (bytes <= left || *in_channel == 0));
        if fits && self.budget.try_take(bytes) {
            queue.bytes += bytes;
            queue.waiter = None;
            *in_channel += bytes;
            return Ok(true);
        }
        queue.waiter = Some(waiter.clone());
        queue.wake_at = most.min(queue.bytes) / 2;
        if !waiting.contains(&id) {
            waiting.push(id);
        }
        if queue.bytes == 0 {
            self.budget.wait(waiter);
            if self.budget.free() >= bytes {
                // It was given back before we were known to wait; and if the channel is what is full, this costs one more look.
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
        inner.bytes += bytes;
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
    /// Answers their bytes for [`Outbox::written`], or `None` when there will be no more.
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
            inner.wake_waiting(self.room);
        }
        self.budget.give_back(bytes);
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

impl Inner {
    fn append(&mut self, id: QueueId, frame: Frame) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.messages.is_empty() {
            self.turns.push_back(id);
        }
        queue.messages.push_back(frame);
    }

    fn finish(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.is_finished = true;
        queue.wake();
        if queue.messages.is_empty() {
            self.queues.remove(&id);
        }
    }

    fn take(&mut self, batch: &mut Vec<Frame>, number: &mut impl FnMut(&mut Frame)) -> usize {
        let mut taken = 0;
        while taken < BATCH
            && let Some(mut frame) = self.control.pop_front()
        {
            let bytes = frame.len() + OVERHEAD;
            self.control_bytes -= bytes;
            // From here on counted like the rest.
            self.bytes += bytes;
            taken += bytes;
            if frame.sequence() == 0 {
                number(&mut frame);
            }
            batch.push(frame);
        }
        while taken < BATCH
            && let Some(id) = self.turns.pop_front()
        {
            let is_alone = self.turns.is_empty();
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            queue.credit = if is_alone { usize::MAX } else { queue.credit.saturating_add(TURN) };
            while taken < BATCH
                && let Some(mut frame) = queue.messages.pop_front_if(|frame| frame.len() <= queue.credit)
            {
                let bytes = frame.len() + OVERHEAD;
                queue.credit -= frame.len();
                queue.bytes -= bytes;
                taken += bytes;
                number(&mut frame);
                batch.push(frame);
            }
            queue.wake_if_low();
            if !queue.messages.is_empty() {
                queue.credit = if is_alone { 0 } else { queue.credit };
                self.turns.push_back(id);
            } else if queue.is_finished {
                self.queues.remove(&id);
            } else {
                queue.credit = 0;
            }
        }
        taken
    }

    /// Wakes those who wait because the channel was full, once half of it is free.
    fn wake_waiting(&mut self, room: Room) {
        if self.waiting.is_empty() || self.bytes > room.channel / 2 {
            return;
        }
        for id in std::mem::take(&mut self.waiting) {
            if let Some(queue) = self.queues.get(&id)
                && queue.bytes <= queue.wake_at
            {
                queue.wake();
            }
        }
    }
}

impl Queue {
    fn wake(&self) {
        self.waiter.iter().for_each(|waiter| waiter.notify_one());
    }

    fn wake_if_low(&self) {
        if self.bytes <= self.wake_at {
            self.wake();
        }
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
