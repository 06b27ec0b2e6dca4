//! Messages waiting to be written to a connection, bounded in bytes.

use std::{collections::VecDeque, io};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use crate::frame::Frame;

/// Maximum bytes waiting. A router that leaves more unread is disconnected.
const MAX_BYTES: usize = 16 << 20;
/// Maximum bytes waiting before a sender that can wait adds another message.
const LOW_BYTES: usize = 1 << 20;

/// A queue of messages and its one writer.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    added: Notify,
    taken: Notify,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The sequence number of the last message.
    sequence: i32,
    is_closed: bool,
}

impl Outbox {
    /// Queues a message. Returns its sequence number; none if the outbox is closed or full.
    pub(crate) fn push(&self, mut frame: Frame) -> Option<i32> {
        let mut queue = self.queue.lock();
        if queue.is_closed || queue.bytes + frame.len() > MAX_BYTES {
            return None;
        }
        queue.sequence = queue.sequence.checked_add(1).unwrap_or(1);
        frame.set_sequence(queue.sequence);
        queue.bytes += frame.len();
        queue.frames.push_back(frame);
        let sequence = queue.sequence;
        drop(queue);
        self.added.notify_one();
        Some(sequence)
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().bytes == 0
    }

    /// Whether few bytes are queued.
    pub(crate) fn is_low(&self) -> bool {
        self.queue.lock().bytes <= LOW_BYTES
    }

    /// Like [`Outbox::push`], after waiting until few bytes are queued. For one task at a time.
    pub(crate) async fn push_when_low(&self, frame: Frame) -> Option<i32> {
        while !self.is_low() {
            self.taken.notified().await;
        }
        self.push(frame)
    }

    /// Closes the queue and drops its messages.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        *queue = Queue { is_closed: true, ..Queue::default() };
        drop(queue);
        self.added.notify_one();
        self.taken.notify_one();
    }

    /// Closes the queue to new messages. Those in it are still written.
    pub(crate) fn finish(&self) {
        self.queue.lock().is_closed = true;
        self.added.notify_one();
        self.taken.notify_one();
    }

    /// Waits for the next message. `None` if the queue is closed.
    pub(crate) async fn next(&self) -> Option<Frame> {
        loop {
            {
                let mut queue = self.queue.lock();
                if let Some(frame) = queue.frames.pop_front() {
                    queue.bytes -= frame.len();
                    return Some(frame);
                }
                if queue.is_closed {
                    return None;
                }
            }
            self.added.notified().await;
        }
    }

    /// Writes queued messages until the outbox is closed.
    ///
    /// # Errors
    /// The connection cannot be written.
    pub(crate) async fn write(&self, mut stream: impl AsyncWrite + Unpin) -> io::Result<()> {
        loop {
            let (frame, is_closed) = {
                let mut queue = self.queue.lock();
                let frame = queue.frames.pop_front();
                queue.bytes -= frame.as_ref().map_or(0, Frame::len);
                (frame, queue.is_closed)
            };
            match frame {
                Some(frame) => {
                    stream.write_all(frame.as_bytes()).await?;
                    self.taken.notify_one();
                }
                None if is_closed => return stream.flush().await,
                None => {
                    stream.flush().await?;
                    self.added.notified().await;
                }
            }
        }
    }
}
