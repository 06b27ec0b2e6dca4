//! The messages that wake the jobs between their rounds.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel},
    },
    time::Duration,
};

use policy::posture::Trigger;
use store::{OpenStore, Phase};

/// A message that wakes the thread between its rounds.
pub(super) enum JobMessage {
    /// Sessions may have lost their right.
    Review(Trigger),
    /// Very many records were tombstoned at once and are to be deleted.
    Ended,
    /// Run every job now; the sender is dropped when that is done.
    Round(Sender<()>),
    Stop,
}

/// The capacity of the queue. When it is full, every session is reviewed.
pub(super) const MAX_MESSAGES: usize = 4096;

/// Wakes the jobs thread. Cheap to clone.
#[derive(Clone)]
pub(crate) struct JobTrigger {
    pub(super) messages: SyncSender<JobMessage>,
    pub(super) missed: Arc<AtomicBool>,
}

/// The receiving end of a [`JobTrigger`].
pub(crate) struct Inbox {
    pub(super) messages: Receiver<JobMessage>,
    pub(super) missed: Arc<AtomicBool>,
}

/// Makes a [`JobTrigger`] and its inbox.
pub(crate) fn job_trigger() -> (JobTrigger, Inbox) {
    let (sender, messages) = sync_channel(MAX_MESSAGES);
    let missed = Arc::<AtomicBool>::default();
    (
        JobTrigger {
            messages: sender,
            missed: missed.clone(),
        },
        Inbox { messages, missed },
    )
}

impl JobTrigger {
    /// Requests a review of sessions. Never waits.
    pub(crate) fn review(&self, trigger: Trigger) {
        if self.messages.try_send(JobMessage::Review(trigger)).is_err() {
            self.missed.store(true, Ordering::Release);
        }
    }

    /// Wakes the jobs when a commit tombstones records, so that they are deleted soon.
    pub(crate) fn follow(&self, store: &OpenStore) {
        let messages = self.messages.clone();
        store.subscribe(Phase::React, move |events| {
            if events.iter().any(|event| event.tombstone.is_some()) {
                // If the queue is full, the next round deletes them.
                drop(messages.try_send(JobMessage::Ended));
            }
        });
    }
}

/// The messages that the thread has received and not handled yet.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) triggers: BTreeSet<Trigger>,
    pub(super) rounds: Vec<Sender<()>>,
    /// Whether there may be tombstoned records to delete.
    pub(super) has_tombstones: bool,
}

/// Waits for a message or for `time`, then takes all queued messages. Returns false if the thread
/// has to stop.
pub(super) fn wait(inbox: &Inbox, time: Duration, pending: &mut Pending) -> bool {
    let first = if pending.triggers.is_empty() && !pending.has_tombstones {
        inbox.messages.recv_timeout(time)
    } else {
        Err(RecvTimeoutError::Timeout)
    };
    let messages = match first {
        Err(RecvTimeoutError::Disconnected) => return false,
        Err(RecvTimeoutError::Timeout) => None,
        Ok(message) => Some(message),
    };
    for message in messages
        .into_iter()
        .chain(inbox.messages.try_iter().take(MAX_MESSAGES))
    {
        match message {
            JobMessage::Stop => return false,
            JobMessage::Review(trigger) => drop(pending.triggers.insert(trigger)),
            JobMessage::Ended => pending.has_tombstones = true,
            JobMessage::Round(done) => pending.rounds.push(done),
        }
    }
    if inbox.missed.swap(false, Ordering::AcqRel) {
        pending.triggers.insert(Trigger::Everything);
    }
    true
}
