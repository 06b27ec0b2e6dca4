//! Messages waiting to be written to a connection, bounded in bytes.

use std::{collections::VecDeque, io};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, BufWriter},
    sync::Notify,
};
use wire::frame::Frame;

/// Maximum bytes waiting. A router that leaves more unread is disconnected.
const MAX_BYTES: usize = 16 << 20;
/// Maximum bytes waiting before a sender that can wait adds another message.
const LOW_BYTES: usize = 128 << 10;

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
    /// Whether what was taken from it may not be written yet.
    is_writing: bool,
    /// The sequence number of the last message.
    sequence: i32,
    is_closed: bool,
    /// Whether the messages in it are still written although it is closed.
    is_finished: bool,
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

    /// Whether everything that was queued is written.
    pub(crate) fn is_empty(&self) -> bool {
        let queue = self.queue.lock();
        queue.bytes == 0 && !queue.is_writing
    }

    /// Whether few bytes are queued.
    pub(crate) fn is_low(&self) -> bool {
        self.queue.lock().bytes <= LOW_BYTES
    }

    /// Like [`Outbox::push`], after waiting until few bytes are queued.
    pub(crate) async fn push_when_low(&self, frame: Frame) -> Option<i32> {
        while !self.is_low() {
            self.taken.notified().await;
        }
        let pushed = self.push(frame);
        // One notification wakes one task: the next one looks for itself.
        self.taken.notify_one();
        pushed
    }

    /// Closes the queue and drops its messages.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        *queue = Queue {
            is_closed: true,
            ..Queue::default()
        };
        drop(queue);
        self.added.notify_one();
        self.taken.notify_one();
    }

    /// Closes the queue to new messages. Those in it are still written.
    pub(crate) fn finish(&self) {
        let mut queue = self.queue.lock();
        (queue.is_closed, queue.is_finished) = (true, true);
        drop(queue);
        self.added.notify_one();
        self.taken.notify_one();
    }

    /// Whether it is closed to new messages while those in it are still written.
    pub(crate) fn is_finished(&self) -> bool {
        self.queue.lock().is_finished
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
    pub(crate) async fn write(&self, stream: impl AsyncWrite + Unpin) -> io::Result<()> {
        // Small messages that wait together are encrypted and sent together.
        let mut stream = BufWriter::new(stream);
        loop {
            let (frame, is_closed) = {
                let mut queue = self.queue.lock();
                let frame = queue.frames.pop_front();
                queue.bytes -= frame.as_ref().map_or(0, Frame::len);
                queue.is_writing |= frame.is_some();
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
                    self.queue.lock().is_writing = false;
                    self.added.notified().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::frame::Builder;

    #[tokio::test]
    async fn waiting_senders_learn_of_the_end() {
        let outbox = Outbox::default();
        let large = || Builder::new(1).body(&vec![0; LOW_BYTES + 1]);
        outbox.push(large()).unwrap();
        let (one, two, ()) = tokio::join!(
            outbox.push_when_low(large()),
            outbox.push_when_low(large()),
            async { outbox.close() }
        );
        assert_eq!((one, two), (None, None));
    }

    #[tokio::test]
    async fn finished_outboxes_write_what_waits() {
        let outbox = Outbox::default();
        outbox.push(Builder::new(1).empty()).unwrap();
        outbox.finish();
        assert!(outbox.push(Builder::new(2).empty()).is_none() && outbox.is_finished());
        let mut written = Vec::new();
        outbox.write(&mut written).await.unwrap();
        assert!(!written.is_empty());
    }
}
