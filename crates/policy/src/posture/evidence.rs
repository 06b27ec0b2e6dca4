//! The evidence about the endpoints of one identity.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::{
    clock::CalendarTime,
    entity::{
        SdkInfo, Version,
        endpoint_report::{Answered, Os, Process},
        posture_requirement::hexadecimal,
    },
};

use super::Response;

/// The bytes that answers about processes may have, for each that is kept; more than the paths,
/// hashes and signers of real ones.
const BYTES_EACH: usize = 1 << 10;
/// The bytes that all of them may have.
const MAX_BYTES: usize = 4 << 20;

/// The last answers of all endpoints of one identity. They share one state: a user with two devices
/// answers for both.
#[derive(Debug, Clone, Default)]
pub struct IdentityPosture {
    pub os: Option<Answered<Os>>,
    pub domain: Option<Answered<String>>,
    pub addresses: Option<Answered<Vec<String>>>,
    /// By check id, in the order of the first answers.
    pub processes: Vec<Answered<Process>>,
    /// By path, in the order of the first answers.
    pub(super) paths: Vec<Answered<(String, Process)>>,
    /// Per API session, by its id.
    pub sessions: BTreeMap<String, SessionMfaState>,
}

/// The state of one API session.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionMfaState {
    /// When a one-time code was last accepted in it.
    pub passed_at: Option<CalendarTime>,
    pub woken_at: Option<CalendarTime>,
    pub unlocked_at: Option<CalendarTime>,
}

/// API sessions whose last answers are others than before.
pub(super) type ChangedSessions = BTreeSet<Arc<str>>;

impl IdentityPosture {
    /// Stores an answer given in an API session. At most `processes` answers about processes are
    /// kept; then the oldest are dropped. Returns the API sessions that have other answers now.
    pub fn take(
        &mut self,
        api_session: &str,
        response: Response,
        time: CalendarTime,
        processes: usize,
    ) -> BTreeSet<Arc<str>> {
        let (at, session, mut changed) = (
            time.shown,
            Arc::<str>::from(api_session),
            ChangedSessions::new(),
        );
        match response {
            Response::Os {
                id: check,
                os_type,
                version,
                build,
            } => {
                put(
                    &mut self.os,
                    Answered {
                        check,
                        at,
                        what: Os {
                            os_type,
                            version,
                            build,
                        },
                        session,
                    },
                    &mut changed,
                );
            }
            Response::Domain {
                id: check,
                domain: what,
            } => put(
                &mut self.domain,
                Answered {
                    check,
                    at,
                    what,
                    session,
                },
                &mut changed,
            ),
            Response::Mac {
                id: check,
                mac_addresses,
            } => {
                let what = mac_addresses
                    .iter()
                    .map(|address| hexadecimal(address))
                    .collect();
                put(
                    &mut self.addresses,
                    Answered {
                        check,
                        at,
                        what,
                        session,
                    },
                    &mut changed,
                );
            }
            Response::Process {
                id: check,
                path,
                is_running,
                hash,
                signer_fingerprints,
            } => {
                let signers = signer_fingerprints
                    .iter()
                    .map(|signer| hexadecimal(signer))
                    .collect();
                let what = Process {
                    is_running,
                    hash: hexadecimal(&hash),
                    signers,
                };
                let by_path = Answered {
                    check: check.clone(),
                    at,
                    what: (path, what.clone()),
                    session: session.clone(),
                };
                self.keep_path(by_path, processes, &mut changed);
                self.keep_process(
                    Answered {
                        check,
                        at,
                        what,
                        session,
                    },
                    processes,
                    &mut changed,
                );
            }
            Response::EndpointState {
                woken, unlocked, ..
            } => {
                let mfa_state = self.sessions.entry(api_session.to_owned()).or_default();
                mfa_state.woken_at = if woken {
                    Some(time)
                } else {
                    mfa_state.woken_at
                };
                mfa_state.unlocked_at = if unlocked {
                    Some(time)
                } else {
                    mfa_state.unlocked_at
                };
                changed.extend((woken || unlocked).then_some(session));
            }
        }
        changed
    }

    pub(super) fn keep_process(
        &mut self,
        answer: Answered<Process>,
        limit: usize,
        changed: &mut ChangedSessions,
    ) {
        keep(
            &mut self.processes,
            answer,
            limit,
            |one, other| one.check == other.check,
            Process::bytes,
            changed,
        );
    }

    pub(super) fn keep_path(
        &mut self,
        answer: Answered<(String, Process)>,
        limit: usize,
        changed: &mut ChangedSessions,
    ) {
        let bytes = |(path, process): &(String, Process)| path.len() + process.bytes();
        keep(
            &mut self.paths,
            answer,
            limit,
            |one, other| one.what.0 == other.what.0,
            bytes,
            changed,
        );
    }

    /// The answer about a process to this check.
    pub fn process_for(&self, check: &str) -> Option<&Process> {
        self.processes
            .iter()
            .find(|answer| answer.check == check)
            .map(|answer| &answer.what)
    }

    /// The last answer about the process at exactly this path.
    pub fn process_at(&self, path: &str) -> Option<&Process> {
        self.paths
            .iter()
            .find(|answer| answer.what.0 == path)
            .map(|answer| &answer.what.1)
    }
}

/// Notes whose answers change if an answer replaces another. The time alone is no change: clients
/// may repeat an answer every few seconds.
fn note_change<T: PartialEq>(
    answer: &Answered<T>,
    before: &Answered<T>,
    changed: &mut ChangedSessions,
) {
    if (&answer.check, &answer.what, &answer.session)
        != (&before.check, &before.what, &before.session)
    {
        changed.extend([before.session.clone(), answer.session.clone()]);
    }
}

/// Replaces the only answer of its kind.
fn put<T: PartialEq>(
    slot: &mut Option<Answered<T>>,
    answer: Answered<T>,
    changed: &mut ChangedSessions,
) {
    match slot {
        Some(before) => note_change(&answer, before, changed),
        None => drop(changed.insert(answer.session.clone())),
    }
    *slot = Some(answer);
}

/// Replaces the answer about the same subject, or appends; then the oldest are dropped until there
/// are at most `limit`, and they fit into the bytes for these.
fn keep<T: PartialEq>(
    answers: &mut Vec<Answered<T>>,
    answer: Answered<T>,
    limit: usize,
    is_same: impl Fn(&Answered<T>, &Answered<T>) -> bool,
    bytes: impl Fn(&T) -> usize,
    changed: &mut ChangedSessions,
) {
    match answers.iter_mut().find(|other| is_same(other, &answer)) {
        Some(other) => {
            note_change(&answer, other, changed);
            *other = answer;
        }
        None => {
            changed.insert(answer.session.clone());
            answers.push(answer);
        }
    }
    let bytes_of = |answer: &Answered<T>| answer.check.len() + bytes(&answer.what);
    let (most, mut all) = (
        limit.saturating_mul(BYTES_EACH).min(MAX_BYTES),
        answers.iter().map(bytes_of).sum::<usize>(),
    );
    let mut count = answers.len();
    let goes = answers.iter().take_while(|answer| {
        let goes = count > limit || all > most;
        (count, all) = (
            count.saturating_sub(1),
            all.saturating_sub(bytes_of(answer)),
        );
        goes
    });
    let goes = goes.count();
    changed.extend(answers.drain(..goes).map(|answer| answer.session));
}

/// The evidence by which posture checks are judged, at one moment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The moment of the judgement.
    pub now: CalendarTime,
    pub endpoint: Arc<IdentityPosture>,
    /// Of the API session in question; empty without one.
    pub mfa_state: SessionMfaState,
    /// Whether the client understands that a code is valid for a limited time.
    pub knows_timeouts: bool,
}

impl Evidence {
    /// No evidence.
    pub fn none(now: CalendarTime) -> Self {
        Self {
            now,
            endpoint: Arc::default(),
            mfa_state: SessionMfaState::default(),
            knows_timeouts: false,
        }
    }

    /// The same evidence, for a client with this SDK.
    #[must_use]
    pub fn seen_by(self, sdk: &SdkInfo) -> Self {
        Self {
            knows_timeouts: knows_timeouts(sdk),
            ..self
        }
    }
}

/// The C SDK understands timeouts from 0.25.0 on; no other client is known to.
fn knows_timeouts(sdk: &SdkInfo) -> bool {
    let version = Version::parse(sdk.version.trim_start_matches('v'));
    sdk.r#type == "ziti-sdk-c"
        && version
            .zip(Version::parse("0.25.0"))
            .is_some_and(|(version, first)| version >= first)
}
