//! Background jobs: they end sessions that idled too long or lost their right, write activity that
//! is only in memory, renew the controller's certificates, trim the history, write hosts that come
//! and go into it, and delete enrollments that expired long ago.
//!
//! Jobs run periodically. Sessions that may have lost their right are also reviewed right after the
//! commit that may have taken it, and when it expires. Large numbers of records are processed in
//! batches, so that neither other writes nor a stop wait for all of them. A damaged record does not
//! stop a job. Invariant: nothing here decides whether a session is over; jobs only delete sessions
//! that are.

mod inbox;
mod timing;

use std::{
    collections::BTreeSet,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use model::{
    clock::{Clock, Timestamp},
    config,
    entity::{ApiSession, Enrollment, HistoryClass, Id},
    error::Result,
};
use policy::{
    access::Access,
    authentication::{Refusals, Sessions, session_end},
    change::{Certificates, Changes},
    hosting::Hosting,
    posture::{self, Expiry, Posture, Trigger},
};
use store::{Retention, Store};

pub(crate) use inbox::{Inbox, JobTrigger, job_trigger};
use inbox::{JobMessage, Pending, wait};
use timing::{Calendar, Timer};

/// The components that the jobs work on.
pub(crate) struct Jobs {
    pub store: Store,
    pub changes: Changes,
    pub sessions: Sessions,
    pub access: Access,
    pub posture: Posture,
    pub hosting: Hosting,
    pub clock: Clock,
    pub settings: config::SessionConfig,
    /// How often reports of endpoints are written.
    pub report_interval: config::Span,
    pub enrollment: config::EnrollmentConfig,
    pub certificates: Arc<Certificates>,
    pub history: config::HistoryConfig,
    pub refusals: Refusals,
}

/// The interval between two searches for expired enrollments. They are kept for days, and each
/// search reads all enrollments.
const ENROLLMENT_INTERVAL: Duration = Duration::from_secs(3600);

/// Jobs that run until this is dropped.
pub(crate) struct RunningJobs {
    job_trigger: JobTrigger,
    thread: Option<JoinHandle<()>>,
}

impl Jobs {
    /// Starts a thread that runs the jobs and receives the messages of `job_trigger`.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub(crate) fn start(
        self,
        job_trigger: JobTrigger,
        inbox: Inbox,
    ) -> std::io::Result<RunningJobs> {
        let thread = thread::Builder::new()
            .name("jobs".into())
            .spawn(move || self.run(&inbox))?;
        Ok(RunningJobs {
            job_trigger,
            thread: Some(thread),
        })
    }

    fn run(&self, inbox: &Inbox) {
        let mut round = Timer::from_now(self.settings.sweep_interval.duration());
        let mut activity = Timer::from_now(self.settings.activity_interval.duration());
        let mut reports = Timer::from_now(self.report_interval.duration());
        let mut enrollments = Timer::from_now(ENROLLMENT_INTERVAL);
        let mut expiry = Expiry::new(self.store.clone(), self.posture.clone(), self.clock.clone());
        self.hosting.recall(&self.store);
        let (mut in_place, mut calendar) = (true, Calendar::default());
        // A failed review is repeated as a review of every session.
        let mut has_failed_review = false;
        // Time has passed since the last start, and the last reports may be lost, so every session
        // that depends on posture is reviewed.
        let mut pending = Pending {
            triggers: BTreeSet::from([Trigger::Everything]),
            rounds: Vec::new(),
            has_tombstones: true,
        };
        let next = |timers: [&Timer; 2], expiry: &Expiry| {
            timers
                .map(Timer::left)
                .into_iter()
                .chain(expiry.time_left())
                .min()
                .unwrap_or_default()
        };
        while wait(inbox, next([&round, &reports], &expiry), &mut pending) {
            let Pending {
                mut triggers,
                rounds,
                mut has_tombstones,
            } = std::mem::take(&mut pending);
            let now = !rounds.is_empty();
            if round.is_due(now) {
                has_tombstones = true;
                self.run_each_round(&mut in_place);
                log_failure(
                    "trimming the history",
                    self.trim_history(calendar.date(&self.clock)),
                );
                triggers.extend(has_failed_review.then_some(Trigger::Everything));
            }
            triggers.extend(
                log_failure("checking one-time codes for expiry", expiry.take_expired())
                    .unwrap_or_default(),
            );
            let reviewed = self.review(&triggers);
            has_failed_review = reviewed.is_err()
                || (has_failed_review && !triggers.contains(&Trigger::Everything));
            log_failure("ending sessions that lost their right", reviewed);
            pending.has_tombstones = has_tombstones && self.delete_tombstoned(now);
            if activity.is_due(now) {
                log_failure("writing activity", self.write_activity());
            }
            if reports.is_due(now) {
                self.write_reports();
            }
            if enrollments.is_due(now) {
                log_failure(
                    "deleting expired enrollments",
                    self.delete_expired_enrollments(calendar.date(&self.clock)),
                );
            }
        }
        log_failure("writing activity", self.write_activity());
        self.write_reports();
        log_failure(
            "writing log-ins into the history",
            self.store.write_visits(self.clock.now(), true),
        );
        self.refusals.write(&self.store, self.clock.now(), true);
    }

    /// The jobs of each round.
    fn run_each_round(&self, was_in_place: &mut bool) {
        self.check_file_in_place(was_in_place);
        log_failure(
            "ending idle sessions",
            session_end::end_idle(&self.sessions, &self.changes, self.settings.sweep_batch),
        );
        log_failure(
            "renewing certificates",
            self.certificates.renew_due(self.clock.now()),
        );
        log_failure(
            "writing log-ins into the history",
            self.store.write_visits(self.clock.now(), false),
        );
        self.refusals.write(&self.store, self.clock.now(), false);
        self.hosting.write_rows(&self.store);
    }

    /// Logs once that the data file is no longer at its path, and once that it is back.
    fn check_file_in_place(&self, was_in_place: &mut bool) {
        let is_in_place = self.store.is_in_place();
        if is_in_place != *was_in_place {
            *was_in_place = is_in_place;
            if is_in_place {
                tracing::info!("the data file is at its path again");
            } else {
                tracing::error!(
                    "the data file was moved, replaced or deleted; changes are still written to it, but the next start will not find it: \
                     make a snapshot, or move it back"
                );
            }
        }
    }

    /// Deletes one batch of tombstoned records, or all of them. Returns whether there may be more.
    fn delete_tombstoned(&self, everything: bool) -> bool {
        loop {
            let more = log_failure(
                "deleting tombstoned records",
                self.store.remove_deleted(self.settings.sweep_batch),
            )
            .unwrap_or(false);
            if !(more && everything) {
                return more;
            }
        }
    }

    /// Deletes enrollments that expired longer ago than `keep_expired`, in batches.
    fn delete_expired_enrollments(&self, date: Timestamp) -> Result<()> {
        let (before, mut old) = (
            date.minus(self.enrollment.keep_expired.duration()),
            Vec::new(),
        );
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
                    let old = change
                        .read()
                        .find_readable(&id)?
                        .filter(|enrollment| enrollment.spec.expires_at < before);
                    old.map_or(Ok(()), |enrollment| change.delete_record(enrollment))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Deletes rows of the history older than the maximum age of their class, and the oldest beyond
    /// its maximum size.
    fn trim_history(&self, date: Timestamp) -> Result<()> {
        HistoryClass::ALL.into_iter().try_for_each(|class| {
            let (age, mib) = match class {
                HistoryClass::Changes => (self.history.max_age, self.history.max_mib),
                HistoryClass::Sessions => self.history.of_sessions(),
            };
            self.store
                .trim_history(
                    class,
                    Retention {
                        since: date.minus(age.duration()),
                        bytes: mib << 20,
                    },
                )
                .map(|_| ())
        })
    }

    /// Ends those sessions named by the triggers that no policy grants any more.
    fn review(&self, triggers: &BTreeSet<Trigger>) -> Result<()> {
        let everything = triggers.get(&Trigger::Everything);
        let one_by_one = triggers.iter().filter(|_| everything.is_none());
        for trigger in everything.into_iter().chain(one_by_one) {
            let sessions_to_end = self
                .store
                .read(|tx| posture::sessions_to_end(tx, &self.posture, trigger))?;
            for batch in sessions_to_end.chunks(self.settings.sweep_batch) {
                let ended = batch.to_vec();
                self.changes
                    .run_blocking(move |change| posture::end(change, &ended))?;
                let affected: BTreeSet<&str> = batch
                    .iter()
                    .filter(|one| one.by_posture)
                    .map(|one| one.identity.as_str())
                    .collect();
                for identity in affected {
                    self.access.identity_changed(identity);
                }
            }
        }
        Ok(())
    }

    /// Writes what endpoints have reported, in batches.
    fn write_reports(&self) {
        log_failure(
            "writing reports of endpoints",
            self.posture
                .write_reports(&self.store, self.settings.activity_batch),
        );
    }

    /// Writes the times at which sessions were last active, in batches.
    fn write_activity(&self) -> Result<()> {
        let unwritten = self.sessions.take_unwritten();
        let mut written = 0;
        let outcome = unwritten
            .chunks(self.settings.activity_batch)
            .try_for_each(|batch| {
                self.write_batch(batch.to_vec())?;
                written += batch.len();
                Ok(())
            });
        self.sessions
            .mark_unwritten(unwritten.iter().skip(written).map(|(id, _)| id));
        outcome
    }

    fn write_batch(&self, batch: Vec<(Id<ApiSession>, Timestamp)>) -> Result<()> {
        let ended = self.changes.run_blocking(move |change| {
            let mut ended = Vec::new();
            for (id, at) in batch {
                let Some(mut session) = change.read().find_readable(&id)? else {
                    ended.push(id);
                    continue;
                };
                session.spec.last_activity_at = at;
                change.put(session)?;
            }
            Ok(ended)
        })?;
        // A request may have entered the session in memory again while the session ended.
        for id in &ended {
            self.sessions.forget(id.as_str());
        }
        Ok(())
    }
}

/// Logs a failure of a job. Returns the result of a job that succeeded.
fn log_failure<T>(what: &str, result: Result<T>) -> Option<T> {
    result
        .inspect_err(|error| tracing::warn!(%error, "{what} failed"))
        .ok()
}

impl RunningJobs {
    /// Runs every job now and waits until that is done.
    pub(crate) fn round(&self) {
        let (sender, done) = mpsc::channel();
        drop(self.job_trigger.messages.send(JobMessage::Round(sender)));
        // Nothing is sent: `recv` returns when the jobs drop the sender.
        let _ = done.recv();
    }
}

impl Drop for RunningJobs {
    fn drop(&mut self) {
        drop(self.job_trigger.messages.send(JobMessage::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
