//! The reports of endpoints in the data file: read when the store is opened, written in batches
//! while it runs.
//!
//! Each report belongs to the API session that it was given in, and goes with it. An identity's
//! answers are divided among its sessions, so that they take no more space in the file than in
//! memory. What was reported less than one interval before a crash is lost; its checks fail then,
//! until it is reported again. Times count on while the controller is stopped, by the host's clock.
//!
//! After a restore of the file, nothing from before counts ([`Restoration`]): the file may be older
//! than what clients believe to have reported. A one-time code counts if it was accepted in a file
//! that was never restored, or if a report written since then names it, and only as long as the
//! second factor that it belongs to is there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use model::{
    clock::{CalendarTime, Timestamp},
    entity::{
        ApiSession, EndpointReport, Id, Identity, Mfa, Record,
        endpoint_report::{Answered, Moment},
        tombstone,
    },
    error::{Error, Result},
};
use store::{Read, Restoration, Store, Tx};

use super::{IdentityPosture, Memory, Posture, SessionMfaState, evidence::ChangedSessions, with};
use crate::change::Change;

/// The bytes of reports that are written in one transaction.
const BATCH_BYTES: usize = 4 << 20;

impl Posture {
    /// Writes what endpoints have reported since the last call, at most `batch` API sessions in one
    /// transaction. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written; then the rest is written with the next call.
    pub fn write_reports(&self, store: &Store, batch: usize) -> Result<()> {
        let mut left: Vec<(Arc<str>, String)> = with(&self.memory, |memory| {
            std::mem::take(&mut memory.unwritten).into_iter().collect()
        });
        while !left.is_empty() {
            let (now, restorations) = (self.clock.calendar_now(), self.restorations());
            let (mut reports, mut bytes, mut taken) = (Vec::new(), 0, 0);
            for (session, identity) in left.iter().rev().take(batch) {
                let report = with(&self.memory, |memory| {
                    memory.report(identity, session, now, restorations)
                });
                bytes += report.bytes();
                reports.push(report);
                taken += 1;
                if bytes > BATCH_BYTES {
                    break;
                }
            }
            if let Err(error) = store.write_blocking(move |tx| {
                reports
                    .into_iter()
                    .try_for_each(|report| replace_report(tx, report))
            }) {
                with(&self.memory, |memory| {
                    left.into_iter().for_each(|(session, identity)| {
                        memory.unwritten.entry(session).or_insert(identity);
                    })
                });
                return Err(error);
            }
            left.truncate(left.len().saturating_sub(taken));
        }
        Ok(())
    }

    /// The report of an API session as it is to be stored now, for a transaction that takes away
    /// what it no longer allows.
    pub fn report(&self, identity: &Id<Identity>, session: &Id<ApiSession>) -> EndpointReport {
        let (now, restorations) = (self.clock.calendar_now(), self.restorations());
        with(&self.memory, |memory| {
            memory.report(identity.as_str(), session.as_str(), now, restorations)
        })
    }

    /// How often the file was restored.
    fn restorations(&self) -> u64 {
        self.restoration.map_or(0, |restoration| restoration.number)
    }
}

/// Replaces the report of an API session, unless the session has ended.
///
/// # Errors
/// The file cannot be read or written.
pub fn write_report(change: &Change<'_, '_>, report: EndpointReport) -> Result<()> {
    replace_report(change.tx(), report)
}

fn replace_report(tx: &Tx<'_>, report: EndpointReport) -> Result<()> {
    if tx.read().find_readable(&report.api_session_id)?.is_none() {
        return Ok(());
    }
    let id = Id::<EndpointReport>::from_text(report.api_session_id.as_str());
    let now = model::entity::Lookup::now(tx);
    match (tx.read().find_readable(&id)?, report.is_blank()) {
        (Some(old), true) => tx.delete_record(old),
        (Some(old), false) => tx.replace(
            old.clone(),
            Record {
                spec: report,
                updated_at: now,
                ..old
            },
        ),
        (None, true) => Ok(()),
        // A report that cannot be read keeps its id until it is repaired, and must not keep others
        // from being written.
        (None, false) => match tx.insert(Record::new(id, now, report)) {
            Err(Error::Duplicate { .. }) => Ok(()),
            written => written,
        },
    }
}

impl Memory {
    /// What is to be stored for an API session.
    fn report(
        &self,
        identity: &str,
        session: &str,
        now: CalendarTime,
        restorations: u64,
    ) -> EndpointReport {
        let blank = EndpointReport::blank(Id::from_text(session), restorations);
        let Some(endpoint) = self.endpoints.get(identity) else {
            return blank;
        };
        let SessionMfaState {
            passed_at,
            woken_at,
            unlocked_at,
        } = endpoint.sessions.get(session).copied().unwrap_or_default();
        let moment = |at: Option<CalendarTime>| {
            at.map(|at| Moment {
                shown: at.shown,
                at: at.dated(now),
            })
        };
        EndpointReport {
            os: own(&endpoint.os, session),
            domain: own(&endpoint.domain, session),
            addresses: own(&endpoint.addresses, session),
            processes: all_own(&endpoint.processes, session),
            paths: all_own(&endpoint.paths, session),
            passed: moment(passed_at),
            woken: moment(woken_at),
            unlocked: moment(unlocked_at),
            ..blank
        }
    }

    /// What is stored in the file, at the moment `now` of a start.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn stored(
        tx: &Read<'_>,
        restoration: Option<Restoration>,
        processes: usize,
        now: CalendarTime,
    ) -> Result<Self> {
        let restorations = restoration.map_or(0, |restoration| restoration.number);
        let (mut reports, mut factors) = (HashMap::new(), BTreeMap::new());
        tx.each_readable::<EndpointReport>(|report| {
            if report.spec.restorations == restorations {
                reports.insert(report.id.into_text(), report.spec);
            }
            Ok(())
        })?;
        tx.each_readable::<Mfa>(|factor| {
            if factor.spec.is_verified {
                factors.insert(factor.spec.identity_id.clone(), factor.created_at);
            }
            Ok(())
        })?;
        let mut of_identities = BTreeMap::<Id<Identity>, Vec<(Arc<str>, EndpointReport)>>::new();
        tx.each_readable::<ApiSession>(|session| {
            let report = reports.remove(session.id.as_str());
            let code = code(
                &session,
                report.as_ref(),
                restorations,
                factors.get(&session.spec.identity_id),
            );
            if (report.is_none() && code.is_none()) || !tombstone::stands(&session, tx)? {
                return Ok(());
            }
            let report =
                report.unwrap_or_else(|| EndpointReport::blank(session.id.clone(), restorations));
            let entry = (
                session.id.as_str().into(),
                EndpointReport {
                    passed: code,
                    ..report
                },
            );
            of_identities
                .entry(session.spec.identity_id)
                .or_default()
                .push(entry);
            Ok(())
        })?;
        let endpoints = of_identities.into_iter().map(|(identity, reports)| {
            (
                identity.into_text(),
                Arc::new(joined(reports, processes, now)),
            )
        });
        Ok(Self {
            endpoints: endpoints.collect(),
            has_new_checks: true,
            ..Self::default()
        })
    }
}

/// The answer, if it was given in an API session.
fn own<T: Clone>(answer: &Option<Answered<T>>, session: &str) -> Option<Answered<T>> {
    answer
        .as_ref()
        .filter(|answer| &*answer.session == session)
        .cloned()
}

/// The answers that were given in an API session.
fn all_own<T: Clone>(answers: &[Answered<T>], session: &str) -> Vec<Answered<T>> {
    answers
        .iter()
        .filter(|answer| &*answer.session == session)
        .cloned()
        .collect()
}

/// When a one-time code was last accepted in an API session, if it still counts. `factor` is the
/// time at which the second factor of the identity was set up.
fn code(
    session: &Record<ApiSession>,
    report: Option<&EndpointReport>,
    restorations: u64,
    factor: Option<&Timestamp>,
) -> Option<Moment> {
    let shown = session
        .state
        .passed_at
        .filter(|at| factor.is_some_and(|factor| factor <= at))?;
    let reported = report
        .and_then(|report| report.passed)
        .filter(|passed| passed.shown == shown);
    reported.or((restorations == 0).then_some(Moment { shown, at: shown }))
}

/// The reports of all sessions of an identity.
fn joined(
    reports: Vec<(Arc<str>, EndpointReport)>,
    limit: usize,
    now: CalendarTime,
) -> IdentityPosture {
    let (mut joined, mut processes, mut paths) =
        (IdentityPosture::default(), Vec::new(), Vec::new());
    for (session, report) in reports {
        newest(&mut joined.os, report.os, &session);
        newest(&mut joined.domain, report.domain, &session);
        newest(&mut joined.addresses, report.addresses, &session);
        processes.extend(report.processes.into_iter().map(|answer| Answered {
            session: session.clone(),
            ..answer
        }));
        paths.extend(report.paths.into_iter().map(|answer| Answered {
            session: session.clone(),
            ..answer
        }));
        let time = |moment: Option<Moment>| {
            moment.map(|moment| CalendarTime::of_earlier(moment.at, moment.shown, now))
        };
        let mfa_state = SessionMfaState {
            passed_at: time(report.passed),
            woken_at: time(report.woken),
            unlocked_at: time(report.unlocked),
        };
        joined.sessions.insert(session.to_string(), mfa_state);
    }
    // Of two answers about one subject, which a crash between two batches can leave, the last one
    // counts.
    processes.sort_by_key(|answer| answer.at);
    paths.sort_by_key(|answer| answer.at);
    let changed = &mut ChangedSessions::new();
    processes
        .into_iter()
        .for_each(|answer| joined.keep_process(answer, limit, changed));
    paths
        .into_iter()
        .for_each(|answer| joined.keep_path(answer, limit, changed));
    joined
}

fn newest<T>(slot: &mut Option<Answered<T>>, answer: Option<Answered<T>>, session: &Arc<str>) {
    if let Some(answer) =
        answer.filter(|answer| slot.as_ref().is_none_or(|before| answer.at >= before.at))
    {
        *slot = Some(Answered {
            session: session.clone(),
            ..answer
        });
    }
}
