//! The send queue of one channel: control messages, which are sent first, and a queue per circuit;
//! the queues take turns by bytes.
//!
//! A task with data reserves room first and waits until there is some ([`SendQueue::reserve`]);
//! messages that must not wait are pushed ([`SendQueue::push`], [`SendQueue::control`]). The limit
//! of a channel shrinks as all channels together fill up (half of the rest of the router's budget),
//! and so does the limit of a queue (half of the rest of the channel, an eighth of the rest of the
//! budget): unread data always leaves room for other channels. This is the dynamic threshold of
//! shared-memory switches (Choudhury and Hahne, 1998). An empty channel accepts one message as long
//! as its owner's account has room for it (`budget.rs`).
//!
//! Invariant: the account of the channel holds the bytes in the queues, and those that the writer
//! has taken and not yet written. The account of the sender holds reserved bytes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::frame::Frame;

use super::{
    budget::Account,
    fair_queues::{FairQueues, OVERHEAD, Queue, QueueBounds, QueueId, State},
};

/// The maximum bytes of queued control messages per channel.
const CONTROL: usize = 256 << 10;
/// Dials take at most this many bytes of [`CONTROL`], so that a host that gets many Dials still
/// gets answers.
const DIALS: usize = CONTROL / 2;
/// With more bytes of control messages queued, nothing that needs an answer is read from the peer.
const CONGESTED: usize = 16 << 10;

/// The channel or the queue is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

pub(crate) struct SendQueue {
    room: QueueBounds,
    pub account: Arc<Account>,
    inner: Mutex<FairQueues>,
    /// Notified when there is something to write.
    writer: Notify,
    /// Notified when few control messages are queued.
    uncongested: Notify,
    /// Notified when there may be room for a Dial. A task that has taken room notifies the next
    /// one.
    dialing: Notify,
}

/// Room in a queue for one message; given back on drop.
pub(crate) struct Reservation<'o> {
    outbox: &'o SendQueue,
    queue: QueueId,
    bytes: usize,
    /// The account of the sender, which holds the bytes until the message is complete.
    sender: &'o Account,
}

impl SendQueue {
    pub(crate) fn new(room: QueueBounds, account: Arc<Account>) -> Self {
        Self {
            room,
            account,
            inner: Mutex::default(),
            writer: Notify::new(),
            uncongested: Notify::new(),
            dialing: Notify::new(),
        }
    }

    /// Opens a queue. On a closed channel it accepts nothing.
    pub(crate) fn open(&self) -> QueueId {
        let mut inner = self.inner.lock();
        inner.next += 1;
        let id = inner.next;
        if inner.state == State::Open {
            inner.queues.insert(id, Queue::default());
        }
        id
    }

    /// Waits until a queue has room for a message of this many bytes, whose sender has this
    /// account. `waiter` belongs to the caller and is used only here.
    ///
    /// # Errors
    /// The channel or the queue is closed.
    pub(crate) async fn reserve<'o>(
        &'o self,
        queue: QueueId,
        bytes: usize,
        sender: &'o Account,
        waiter: &Arc<Notify>,
    ) -> Result<Reservation<'o>, Gone> {
        let bytes = bytes + OVERHEAD;
        let mut has_waited = false;
        loop {
            if self.try_reserve(queue, bytes, sender, waiter)? {
                if has_waited {
                    // There may be room for others as well.
                    self.account.budget.wake(1);
                }
                return Ok(Reservation {
                    outbox: self,
                    queue,
                    bytes,
                    sender,
                });
            }
            if !std::mem::replace(&mut has_waited, true) {
                self.account.budget.pauses.increment();
            }
            waiter.notified().await;
        }
    }

    fn try_reserve(
        &self,
        id: QueueId,
        bytes: usize,
        sender: &Account,
        waiter: &Arc<Notify>,
    ) -> Result<bool, Gone> {
        let mut inner = self.inner.lock();
        let FairQueues {
            queues,
            bytes: in_channel,
            waiting,
            ..
        } = &mut *inner;
        let queue = queues
            .get_mut(&id)
            .filter(|queue| !queue.is_finished)
            .ok_or(Gone)?;
        let (fits, limit) = self.fits(queue, *in_channel, bytes, self.room.queue);
        if fits && sender.try_take(bytes) {
            queue.bytes += bytes;
            queue.waiter = None;
            inner.count(bytes);
            inner.reserved += bytes;
            return Ok(true);
        }
        queue.waiter = Some(waiter.clone());
        queue.wake_at = limit.min(queue.bytes) / 2;
        if !waiting.contains(&id) {
            waiting.push(id);
        }
        if queue.bytes == 0 {
            self.account.budget.wait(waiter);
            if self.fits(queue, *in_channel, bytes, self.room.queue).0 && sender.has_room(bytes) {
                // Bytes were given back before this waiter was registered.
                waiter.notify_one();
            }
        }
        Ok(false)
    }

    /// Whether a queue has room for a message, and the maximum bytes in it at present. `room` is
    /// its maximum if nothing else is queued.
    fn fits(&self, queue: &Queue, in_channel: usize, bytes: usize, room: usize) -> (bool, usize) {
        let free = self.account.budget.free();
        let left = self.room.channel.min(free / 2).saturating_sub(in_channel);
        let limit = room.min(left / 2).min(free / 8);
        let has_room = queue.bytes + bytes <= limit
            || (queue.bytes == 0 && (bytes <= left || in_channel == 0));
        (has_room && self.account.has_room(bytes), limit)
    }

    /// Appends a message if its queue has room for it now; `room` is the maximum bytes of the
    /// queue. Returns whether it was appended.
    pub(crate) fn offer(&self, id: QueueId, frame: Frame, room: usize) -> bool {
        let bytes = frame.len() + OVERHEAD;
        {
            let mut inner = self.inner.lock();
            let FairQueues {
                queues,
                bytes: in_channel,
                ..
            } = &mut *inner;
            let Some(queue) = queues.get_mut(&id).filter(|queue| !queue.is_finished) else {
                return false;
            };
            if !self.fits(queue, *in_channel, bytes, room).0 || !self.account.try_take(bytes) {
                return false;
            }
            queue.bytes += bytes;
            inner.count(bytes);
            inner.append(id, frame);
        }
        self.writer.notify_one();
        true
    }

    /// Appends a message regardless of the limits. Each circuit sends few of them.
    pub(crate) fn push(&self, id: QueueId, frame: Frame) {
        let mut inner = self.inner.lock();
        let bytes = frame.len() + OVERHEAD;
        let Some(queue) = inner.queues.get_mut(&id) else {
            return;
        };
        queue.bytes += bytes;
        inner.count(bytes);
        self.account.take(bytes);
        inner.append(id, frame);
        drop(inner);
        self.writer.notify_one();
    }

    /// Ends a queue when its messages are written.
    pub(crate) fn finish(&self, id: QueueId) {
        self.inner.lock().finish(id);
    }

    /// Ends a queue and drops its messages.
    pub(crate) fn discard(&self, id: QueueId) {
        let freed = {
            let mut inner = self.inner.lock();
            let Some(queue) = inner.queues.remove(&id) else {
                return;
            };
            inner.turns.retain(|turn| *turn != id);
            let freed: usize = queue
                .messages
                .iter()
                .map(|message| message.len() + OVERHEAD)
                .sum();
            inner.bytes -= freed;
            queue.wake();
            inner.wake_waiting(self.room);
            freed
        };
        self.account.give_back(freed);
    }

    /// Sends a message before all data; drops it if nothing new is accepted any more. Returns false
    /// if the channel is closed or its peer does not read its control messages.
    pub(crate) fn control(&self, frame: Frame) -> bool {
        let bytes = frame.len() + OVERHEAD;
        let mut inner = self.inner.lock();
        if inner.state == State::Draining {
            return true;
        }
        if inner.state != State::Open || inner.control_bytes + bytes > CONTROL {
            return false;
        }
        inner.control_bytes += bytes;
        self.account.take(bytes);
        inner.control.push_back(frame);
        drop(inner);
        self.writer.notify_one();
        true
    }

    /// Waits until a Dial has room among the control messages, and sends it. Returns false if the
    /// channel is closed.
    pub(crate) async fn control_with_room(&self, frame: Frame) -> bool {
        let bytes = frame.len() + OVERHEAD;
        loop {
            {
                let mut inner = self.inner.lock();
                let is_open = inner.state == State::Open;
                if !is_open || inner.control_bytes + bytes <= DIALS {
                    if is_open {
                        inner.control_bytes += bytes;
                        self.account.take(bytes);
                        inner.control.push_back(frame);
                    }
                    drop(inner);
                    self.writer.notify_one();
                    self.dialing.notify_one();
                    return is_open;
                }
            }
            self.dialing.notified().await;
        }
    }

    /// Waits until few control messages are queued. For the reader of the channel only.
    pub(crate) async fn uncongested(&self) {
        let mut has_waited = false;
        loop {
            {
                let inner = self.inner.lock();
                if inner.control_bytes <= CONGESTED || inner.state == State::Closed {
                    return;
                }
            }
            if !std::mem::replace(&mut has_waited, true) {
                self.account.budget.pauses.increment();
            }
            self.uncongested.notified().await;
        }
    }

    /// The number of queued bytes.
    pub(crate) fn bytes(&self) -> usize {
        let inner = self.inner.lock();
        inner.bytes + inner.control_bytes
    }

    /// Waits for messages and takes some, in the order in which they are to be written. `number`
    /// numbers those without a sequence number. Returns their bytes for [`SendQueue::written`], or
    /// `None` when no more will come.
    pub(crate) async fn take(
        &self,
        batch: &mut Vec<Frame>,
        mut number: impl FnMut(&mut Frame),
    ) -> Option<usize> {
        loop {
            {
                let mut inner = self.inner.lock();
                if inner.state == State::Closed {
                    return None;
                }
                let taken = inner.take(batch, &mut number);
                if inner.control_bytes <= CONGESTED {
                    self.uncongested.notify_one();
                }
                if inner.control_bytes <= DIALS / 2 {
                    self.dialing.notify_one();
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

    /// Reports that taken bytes were written.
    pub(crate) fn written(&self, bytes: usize) {
        {
            let mut inner = self.inner.lock();
            if inner.state == State::Closed {
                return;
            }
            inner.bytes -= bytes;
            inner.moved = Some(Instant::now());
            inner.wake_waiting(self.room);
        }
        self.account.give_back(bytes);
    }

    /// How long nothing was written although bytes are queued.
    pub(crate) fn stalled(&self) -> Duration {
        let inner = self.inner.lock();
        inner
            .moved
            .filter(|_| inner.bytes > 0)
            .map_or(Duration::ZERO, |moved| moved.elapsed())
    }

    /// Accepts nothing new; the writer ends when all messages are written.
    pub(crate) fn drain(&self) {
        let mut inner = self.inner.lock();
        if inner.state == State::Open {
            inner.state = State::Draining;
        }
        drop(inner);
        self.writer.notify_one();
        self.dialing.notify_one();
    }

    /// Drops what is queued. The writer ends after the messages that it has begun, so that the peer
    /// gets complete messages only.
    pub(crate) fn drop_queued(&self) {
        let freed = {
            let mut inner = self.inner.lock();
            if inner.state == State::Closed {
                return;
            }
            inner.state = State::Draining;
            inner.drop_queued()
        };
        self.writer.notify_one();
        self.uncongested.notify_one();
        self.dialing.notify_one();
        self.account.give_back(freed);
    }

    /// Whether messages that were queued are still written, and no new ones are accepted.
    pub(crate) fn is_draining(&self) -> bool {
        self.inner.lock().state == State::Draining
    }

    /// Closes the queue and drops all messages.
    pub(crate) fn close(&self) {
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
            let held = std::mem::take(&mut inner.bytes) - std::mem::take(&mut inner.reserved);
            held + std::mem::take(&mut inner.control_bytes)
        };
        self.writer.notify_one();
        self.uncongested.notify_one();
        self.dialing.notify_one();
        self.account.give_back(freed);
    }
}

impl Reservation<'_> {
    /// Puts the message for which the room was reserved into the queue; drops it if the queue is
    /// closed.
    pub(crate) fn fill(self, frame: Frame) {
        let (outbox, id) = (self.outbox, self.queue);
        let mut inner = outbox.inner.lock();
        let is_open = inner
            .queues
            .get(&id)
            .is_some_and(|queue| !queue.is_finished);
        if is_open {
            inner.reserved -= self.bytes;
            self.sender.hand_over(&outbox.account, self.bytes);
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
            if inner.state != State::Closed {
                inner.release(self.queue, self.bytes, self.outbox.room);
            }
        }
        self.sender.give_back(self.bytes);
    }
}
