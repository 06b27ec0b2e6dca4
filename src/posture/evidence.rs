//! The evidence about the endpoints of one identity.

use std::{collections::BTreeMap, sync::Arc};

use super::Response;
use crate::{
    clock::{CalendarTime, Timestamp},
    entity::{SdkInfo, Version, posture_requirement::hexadecimal},
};

/// An answer and the check that it answers.
#[derive(Debug, Clone)]
pub struct Answered<T> {
    /// The id given in the answer; the check need not exist.
    pub check: String,
    pub at: Timestamp,
    pub what: T,
}

/// An operating system, as the endpoint names it.
#[derive(Debug, Clone)]
pub struct Os {
    pub(crate) os_type: String,
    pub version: String,
    pub build: String,
}

/// The state of a process. Digits are lower-case hexadecimal without separators.
#[derive(Debug, Clone, Default)]
pub struct Process {
    pub is_running: bool,
    pub hash: String,
    pub signers: Vec<String>,
}

/// The last answers of all endpoints of one identity. They share one state: a user with two devices answers for both.
#[derive(Debug, Clone, Default)]
pub struct IdentityPosture {
    pub os: Option<Answered<Os>>,
    pub domain: Option<Answered<String>>,
    pub addresses: Option<Answered<Vec<String>>>,
    /// By check id, in the order of the first answers.
    pub processes: Vec<Answered<Process>>,
    /// By path, in the order of the first answers.
    paths: Vec<(String, Process)>,
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

impl IdentityPosture {
    /// Stores an answer given in an API session. At most `processes` answers about processes are kept; then the oldest are dropped.
    pub fn take(&mut self, api_session: &str, response: Response, time: CalendarTime, processes: usize) {
        let at = time.shown;
        match response {
            Response::Os { id, os_type, version, build } => {
                self.os = Some(Answered { check: id, at, what: Os { os_type, version, build } });
            }
            Response::Domain { id, domain } => self.domain = Some(Answered { check: id, at, what: domain }),
            Response::Mac { id, mac_addresses } => {
                let what = mac_addresses.iter().map(|address| hexadecimal(address)).collect();
                self.addresses = Some(Answered { check: id, at, what });
            }
            Response::Process { id, path, is_running, hash, signer_fingerprints } => {
                let signers = signer_fingerprints.iter().map(|signer| hexadecimal(signer)).collect();
                let what = Process { is_running, hash: hexadecimal(&hash), signers };
                keep(&mut self.paths, (path, what.clone()), processes, |one, other| one.0 == other.0);
                keep(&mut self.processes, Answered { check: id, at, what }, processes, |one, other| one.check == other.check);
            }
            Response::EndpointState { woken, unlocked, .. } => {
                let mfa_state = self.sessions.entry(api_session.to_owned()).or_default();
                mfa_state.woken_at = if woken { Some(time) } else { mfa_state.woken_at };
                mfa_state.unlocked_at = if unlocked { Some(time) } else { mfa_state.unlocked_at };
            }
        }
    }

    /// The answer about a process to this check.
    pub fn process_for(&self, check: &str) -> Option<&Process> {
        self.processes.iter().find(|answer| answer.check == check).map(|answer| &answer.what)
    }

    /// The last answer about the process at exactly this path.
    pub fn process_at(&self, path: &str) -> Option<&Process> {
        self.paths.iter().find(|(at, _)| at == path).map(|(_, process)| process)
    }
}

/// Replaces the entry about the same subject, or appends; at most `limit` entries are kept, then the oldest is dropped.
fn keep<T>(entries: &mut Vec<T>, entry: T, limit: usize, is_same: impl Fn(&T, &T) -> bool) {
    match entries.iter_mut().find(|other| is_same(other, &entry)) {
        Some(other) => *other = entry,
        None => {
            if entries.len() >= limit {
                entries.remove(0);
            }
            entries.push(entry);
        }
    }
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
        Self { now, endpoint: Arc::default(), mfa_state: SessionMfaState::default(), knows_timeouts: false }
    }

    /// The same evidence, for a client with this SDK.
    #[must_use]
    pub fn seen_by(self, sdk: &SdkInfo) -> Self {
        Self { knows_timeouts: knows_timeouts(sdk), ..self }
    }
}

/// The C SDK understands timeouts from 0.25.0 on; no other client is known to.
fn knows_timeouts(sdk: &SdkInfo) -> bool {
    let version = Version::parse(sdk.version.trim_start_matches('v'));
    sdk.r#type == "ziti-sdk-c" && version.zip(Version::parse("0.25.0")).is_some_and(|(version, first)| version >= first)
}
