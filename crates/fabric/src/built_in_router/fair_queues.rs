//! The queues of one channel and their order. Without locks and waiting, which are in
//! `send_queue.rs`.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use tokio::sync::Notify;
use wire::frame::Frame;

/// The cost in bytes of a queued message beside its content.
pub(crate) const OVERHEAD: usize = 128;

/// Identifies the queue of a circuit on this channel.
pub(crate) type QueueId = u64;

/// The maximum number of queued bytes, per queue and per channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueBounds {
    pub queue: usize,
    pub channel: usize,
}

/// The writer takes about this many bytes at a time.
const BATCH: usize = 64 << 10;
/// The number of bytes a queue may send per turn.
const BYTES_PER_TURN: usize = 32 << 10;

/// All messages queued for one channel.
#[derive(Default)]
pub(crate) struct FairQueues {
    pub control: VecDeque<Frame>,
    pub control_bytes: usize,
    pub queues: HashMap<QueueId, Queue>,
    pub next: QueueId,
    /// Non-empty queues, in the order of their turns.
    pub turns: VecDeque<QueueId>,
    /// Bytes queued, reserved, or taken by the writer.
    pub bytes: usize,
    /// Those that are reserved, which the accounts of the senders hold.
    pub reserved: usize,
    /// When bytes were last written, or when the first message was queued.
    pub moved: Option<Instant>,
    /// Queues with a task that waits because the channel is full.
    pub waiting: Vec<QueueId>,
    pub state: State,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Open,
    /// No new messages; the queued ones are still written.
    Draining,
    Closed,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub messages: VecDeque<Frame>,
    /// Bytes queued and reserved.
    pub bytes: usize,
    /// Bytes it may still send in this turn.
    pub credit: usize,
    /// Whether no more messages come: it is removed once it is empty.
    pub is_finished: bool,
    pub waiter: Option<Arc<Notify>>,
    /// The waiter is woken when at most this many bytes are queued.
    pub wake_at: usize,
}

impl FairQueues {
    /// Counts bytes that are queued.
    pub(crate) fn count(&mut self, bytes: usize) {
        if self.bytes == 0 {
            self.moved = Some(Instant::now());
        }
        self.bytes += bytes;
    }

    /// Appends a message to a queue.
    pub(crate) fn append(&mut self, id: QueueId, frame: Frame) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        if queue.messages.is_empty() {
            self.turns.push_back(id);
        }
        queue.messages.push_back(frame);
    }

    /// Finishes a queue: it is removed once it is empty.
    pub(crate) fn finish(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        queue.is_finished = true;
        queue.wake();
        if queue.messages.is_empty() {
            self.queues.remove(&id);
        }
    }

    /// Takes messages for about one write. `number` gives them their sequence numbers. Returns
    /// their bytes.
    pub(crate) fn take(
        &mut self,
        batch: &mut Vec<Frame>,
        number: &mut impl FnMut(&mut Frame),
    ) -> usize {
        let mut taken = 0;
        while taken < BATCH
            && let Some(mut frame) = self.control.pop_front()
        {
            let bytes = frame.len() + OVERHEAD;
            self.control_bytes -= bytes;
            // From here on these bytes are counted together with the data.
            self.count(bytes);
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
            let Some(queue) = self.queues.get_mut(&id) else {
                continue;
            };
            queue.credit = if is_alone {
                usize::MAX
            } else {
                queue.credit.saturating_add(BYTES_PER_TURN)
            };
            while taken < BATCH
                && let Some(mut frame) = queue
                    .messages
                    .pop_front_if(|frame| frame.len() <= queue.credit)
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

    /// Removes all messages and queues. Returns the bytes of the messages; those that are reserved
    /// or taken still count.
    pub(crate) fn drop_queued(&mut self) -> usize {
        self.control.clear();
        self.turns.clear();
        self.waiting.clear();
        let mut freed = 0;
        for queue in std::mem::take(&mut self.queues).into_values() {
            freed += queue
                .messages
                .iter()
                .map(|message| message.len() + OVERHEAD)
                .sum::<usize>();
            queue.wake();
        }
        self.bytes -= freed;
        freed + std::mem::take(&mut self.control_bytes)
    }

    /// Gives back the room that was reserved in a queue for a message that does not come.
    pub(crate) fn release(&mut self, id: QueueId, bytes: usize, room: QueueBounds) {
        self.bytes -= bytes;
        self.reserved -= bytes;
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.bytes -= bytes;
        }
        self.wake_waiting(room);
    }

    /// Wakes tasks that wait because the channel was full, once half of it is free.
    pub(crate) fn wake_waiting(&mut self, room: QueueBounds) {
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
    /// Wakes the task that waits for space in the queue.
    pub(crate) fn wake(&self) {
        if let Some(waiter) = &self.waiter {
            waiter.notify_one();
        }
    }

    fn wake_if_low(&self) {
        if self.bytes <= self.wake_at {
            self.wake();
        }
    }
}
