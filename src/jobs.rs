//! Background jobs: they end sessions that idled too long or lost their right, write what is only in memory, renew the controller's
//! certificates, trim the history and delete enrollments that expired long ago.
//!
//! Jobs run periodically. Sessions that may have lost their right are also reviewed right after the commit that may have taken it, and when
//! it expires. Large numbers of records are processed in batches, so that neither other writes nor a stop wait for all of them. A damaged
//! record does not stop a job.
//! Invariant: nothing here decides whether a session is over; jobs only delete sessions that are.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    access::Access,
    authentication::{Refusals, Sessions, session_end},
    change::{Certificates, Changes},
    clock::{Clock, Timestamp},
    config,
    entity::{ApiSession, Enrollment, Id},
    error::Result,
    posture::{self, Expiry, Posture, Trigger},
    store::{OpenStore, Phase, Retention, Store},
};

/// The components that the jobs work on.
pub(crate) struct Jobs {
    pub store: Store,
    pub changes: Changes,
    pub sessions: Sessions,
    pub access: Access,
    pub posture: Posture,
    pub clock: Clock,
    pub settings: config::Sessions,
    pub enrollment: config::Enrollment,
    pub certificates: Arc<Certificates>,
    pub history: config::History,
    pub refusals: Refusals,
}

/// How often expired enrollments are looked for. They are kept for days, and each search reads all enrollments.
const RECLAIM: Duration = Duration::from_secs(3600);

/// The due time of a periodic job.
struct Period {
    interval: Duration,
    last: Instant,
}

impl Period {
    fn from_now(interval: Duration) -> Self {
        Self { interval, last: Instant::now() }
    }

    fn left(&self) -> Duration {
        self.interval.saturating_sub(self.last.elapsed())
    }

    /// Whether the job is due, by time or because `asked`; if so, the interval starts again.
    fn is_due(&mut self, asked: bool) -> bool {
        let due = asked || self.left().is_zero();
        if due {
            self.last = Instant::now();
        }
        due
    }
}

/// If the host's date is ahead of the time elapsed since the start, it is trusted after this long.
const DOUBTED: Duration = Duration::from_secs(24 * 60 * 60);

/// The date by which stored data ages. A host date that is wrong for a while must not delete data.
#[derive(Default)]
struct Calendar {
    /// Since when the host's date is ahead, by the clock that does not jump.
    ahead: Option<Timestamp>,
}

impl Calendar {
    fn today(&mut self, clock: &Clock) -> Timestamp {
        let (shown, steady) = (clock.now(), clock.steady());
        if shown <= steady {
            self.ahead = None;
            return shown;
        }
        let since = *self.ahead.get_or_insert(steady);
        if steady.since(since) < DOUBTED { steady } else { shown }
    }
}

/// A message that wakes the thread between its rounds.
enum JobMessage {
    /// Sessions may have lost their right.
    Review(Trigger),
    /// Very many records were tombstoned at once and are to be deleted.
    Ended,
    /// Run every job now; the sender is dropped when that is done.
    Round(Sender<()>),
    Stop,
}

/// The capacity of the queue. When it is full, every session is reviewed.
const WAITING: usize = 4096;

/// Wakes the jobs thread. Cheap to clone.
#[derive(Clone)]
pub(crate) struct JobTrigger {
    messages: SyncSender<JobMessage>,
    missed: Arc<AtomicBool>,
}

/// The receiving end of a [`JobTrigger`].
pub(crate) struct Inbox {
    messages: Receiver<JobMessage>,
    missed: Arc<AtomicBool>,
}

/// Makes a [`JobTrigger`] and its inbox.
pub(crate) fn job_trigger() -> (JobTrigger, Inbox) {
    let (sender, messages) = sync_channel(WAITING);
    let missed = Arc::<AtomicBool>::default();
    (JobTrigger { messages: sender, missed: missed.clone() }, Inbox { messages, missed })
}

impl JobTrigger {
    /// Requests a review of sessions. Never waits.
    pub(crate) fn review(&self, trigger: Trigger) {
        if self.messages.try_send(JobMessage::Review(trigger)).is_err() {
            self.missed.store(true, Ordering::Release);
        }
    }

    /// Wakes the jobs when records are ended, so that they are deleted soon.
    pub(crate) fn follow(&self, store: &OpenStore) {
        let messages = self.messages.clone();
        store.subscribe(Phase::React, move |events| {
            if events.iter().any(|event| event.tombstone.is_some()) {
                // With a full queue, the next round finds them.
                drop(messages.try_send(JobMessage::Ended));
            }
        });
    }
}

/// What woke the thread.
#[derive(Default)]
struct Woken {
    triggers: BTreeSet<Trigger>,
    rounds: Vec<Sender<()>>,
    /// Whether tombstoned records may be left to delete.
    left: bool,
}

/// Jobs that run until this is dropped.
pub(crate) struct Running {
    job_trigger: JobTrigger,
    thread: Option<JoinHandle<()>>,
}

impl Jobs {
    /// Starts a thread that runs the jobs and receives the messages of `job_trigger`.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub(crate) fn start(self, job_trigger: JobTrigger, inbox: Inbox) -> std::io::Result<Running> {
        let thread = thread::Builder::new().name("jobs".into()).spawn(move || self.run(&inbox))?;
        Ok(Running { job_trigger, thread: Some(thread) })
    }

    fn run(&self, inbox: &Inbox) {
        let mut round = Period::from_now(self.settings.sweep_interval.duration());
        let mut activity = Period::from_now(self.settings.activity_interval.duration());
        let mut reclaiming = Period::from_now(RECLAIM);
        let mut expiry = Expiry::new(self.store.clone(), self.posture.clone(), self.clock.clone());
        let (mut in_place, mut calendar) = (true, Calendar::default());
        // A failed review is repeated as a review of every session.
        let mut owed = false;
        // A restart loses what endpoints reported, so every session that depends on posture is reviewed.
        let mut woken = Woken { triggers: BTreeSet::from([Trigger::Everything]), rounds: Vec::new(), left: true };
        while waited(inbox, expiry.left().map_or(round.left(), |left| left.min(round.left())), &mut woken) {
            let Woken { mut triggers, rounds, mut left } = std::mem::take(&mut woken);
            let now = !rounds.is_empty();
            if round.is_due(now) {
                left = true;
                self.look_around(&mut in_place);
                tell("trimming the history", self.trim_history(calendar.today(&self.clock)));
                triggers.extend(owed.then_some(Trigger::Everything));
            }
            triggers.extend(tell("checking one-time codes for expiry", expiry.look()).unwrap_or_default());
            let reviewed = self.review(&triggers);
            owed = reviewed.is_err() || (owed && !triggers.contains(&Trigger::Everything));
            tell("ending sessions that lost their right", reviewed);
            woken.left = left && self.clear(now);
            if activity.is_due(now) {
                tell("writing activity", self.write_activity());
            }
            if reclaiming.is_due(now) {
                tell("dropping expired enrollments", self.drop_enrollments(calendar.today(&self.clock)));
            }
        }
        tell("writing activity", self.write_activity());
        self.refusals.write(&self.store, self.clock.now(), true);
    }

    /// The jobs of each round.
    fn look_around(&self, was_in_place: &mut bool) {
        self.look_for_file(was_in_place);
        tell("ending idle sessions", session_end::end_idle(&self.sessions, &self.changes, self.settings.sweep_batch));
        tell("renewing certificates", self.certificates.renew_due(self.clock.now()));
        self.refusals.write(&self.store, self.clock.now(), false);
    }

    /// Logs once that the data file is no longer at its path, and once that it is back.
    fn look_for_file(&self, was_in_place: &mut bool) {
        let is_in_place = self.store.is_in_place();
        if is_in_place != *was_in_place {
            *was_in_place = is_in_place;
            if is_in_place {
                tracing::info!("the data file is in its place again");
            } else {
                tracing::error!(
                    "the data file was moved, replaced or deleted; changes are still written to it, but the next start will not find it: \
                     make a snapshot, or move it back"
                );
            }
        }
    }

    /// Deletes one batch of tombstoned records, or all of them. Returns whether there may be more.
    fn clear(&self, everything: bool) -> bool {
        loop {
            let more = tell("deleting ended records", self.store.remove_deleted(self.settings.sweep_batch)).unwrap_or(false);
            if !(more && everything) {
                return more;
            }
        }
    }

    /// Deletes enrollments that expired longer ago than `keep_expired`, in batches.
    fn drop_enrollments(&self, today: Timestamp) -> Result<()> {
        let (before, mut old) = (today.minus(self.enrollment.keep_expired.duration()), Vec::new());
        self.store.read(|tx| {
            tx.each_readable::<Enrollment>(|enrollment| {
                old.extend((enrollment.spec.expires_at < before).then_some(enrollment.id));
                Ok(())
            })
        })?;
        for batch in old.chunks(self.settings.sweep_batch) {
            let batch = batch.to_vec();
            self.changes.run_blocking(move |change| {
                for id in batch {
                    // The enrollment may have been refreshed since it was read.
                    let old = change.find_readable(&id)?.filter(|enrollment| enrollment.spec.expires_at < before);
                    old.map_or(Ok(()), |enrollment| change.delete_record(enrollment))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Deletes history older than `max_age`, and the oldest beyond `max_mib`.
    fn trim_history(&self, today: Timestamp) -> Result<()> {
        let since = today.minus(self.history.max_age.duration());
        self.store.trim_history(Retention { since, bytes: self.history.max_mib << 20 }).map(|_| ())
    }

    /// Ends those sessions named by the triggers that no policy grants any more.
    fn review(&self, triggers: &BTreeSet<Trigger>) -> Result<()> {
        let everything = triggers.get(&Trigger::Everything);
        let one_by_one = triggers.iter().filter(|_| everything.is_none());
        for trigger in everything.into_iter().chain(one_by_one) {
            let lapsed = self.store.read(|tx| posture::lapsed(tx, &self.posture, trigger))?;
            for batch in lapsed.chunks(self.settings.sweep_batch) {
                let ended = batch.to_vec();
                self.changes.run_blocking(move |change| posture::end(change, &ended))?;
                let shut_out: BTreeSet<&str> = batch.iter().filter(|one| one.by_posture).map(|one| one.identity.as_str()).collect();
                shut_out.into_iter().for_each(|identity| self.access.touch_identity(identity));
            }
        }
        Ok(())
    }

    /// Writes the times at which sessions were last active, in batches.
    fn write_activity(&self) -> Result<()> {
        let unwritten = self.sessions.take_unwritten();
        let mut written = 0;
        let outcome = unwritten.chunks(self.settings.activity_batch).try_for_each(|batch| {
            self.write_batch(batch.to_vec())?;
            written += batch.len();
            Ok(())
        });
        self.sessions.owe(unwritten.iter().skip(written).map(|(id, _)| id));
        outcome
    }

    fn write_batch(&self, batch: Vec<(Id<ApiSession>, Timestamp)>) -> Result<()> {
        let ended = self.changes.run_blocking(move |change| {
            let mut ended = Vec::new();
            for (id, at) in batch {
                let Some(mut session) = change.find_readable(&id)? else {
                    ended.push(id);
                    continue;
                };
                session.spec.last_activity_at = at;
                change.put(session)?;
            }
            Ok(ended)
        })?;
        // A request may have touched its session's entry in memory while the session ended.
        ended.iter().for_each(|id| self.sessions.forget(id.as_str()));
        Ok(())
    }
}

fn tell<T>(what: &str, result: Result<T>) -> Option<T> {
    result.inspect_err(|error| tracing::warn!(%error, "{what} failed")).ok()
}

/// Waits for a message or for `time`, then takes all queued messages. Returns whether to go on.
fn waited(inbox: &Inbox, time: Duration, woken: &mut Woken) -> bool {
    let first = if woken.triggers.is_empty() && !woken.left { inbox.messages.recv_timeout(time) } else { Err(RecvTimeoutError::Timeout) };
    let messages = match first {
        Err(RecvTimeoutError::Disconnected) => return false,
        Err(RecvTimeoutError::Timeout) => None,
        Ok(message) => Some(message),
    };
    for message in messages.into_iter().chain(inbox.messages.try_iter().take(WAITING)) {
        match message {
            JobMessage::Stop => return false,
            JobMessage::Review(trigger) => drop(woken.triggers.insert(trigger)),
            JobMessage::Ended => woken.left = true,
            JobMessage::Round(asked) => woken.rounds.push(asked),
        }
    }
    if inbox.missed.swap(false, Ordering::AcqRel) {
        woken.triggers.insert(Trigger::Everything);
    }
    true
}

impl Running {
    /// Runs every job now and waits until that is done.
    pub(crate) fn round(&self) {
        let (asked, done) = mpsc::channel();
        drop(self.job_trigger.messages.send(JobMessage::Round(asked)));
        // Nothing is sent: `recv` returns when the jobs drop the sender.
        let _ = done.recv();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.job_trigger.messages.send(JobMessage::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
