//! What is known of the endpoints of one identity.

use std::{collections::BTreeMap, sync::Arc};

use super::Response;
use crate::{
    clock::{CalendarTime, Timestamp},
    entity::{SdkInfo, Version, posture_demand::hexadecimal},
};

/// An answer and what it was an answer to.
#[derive(Debug, Clone)]
pub struct Answered<T> {
    /// The id it was given under, whether or not such a check exists.
    pub check: String,
    pub at: Timestamp,
    pub what: T,
}

/// An operating system, in its own words.
#[derive(Debug, Clone)]
pub struct Os {
    pub os_type: String,
    pub version: String,
    pub build: String,
}

/// A process that was looked for. Digits are in lower case, with nothing between them.
#[derive(Debug, Clone, Default)]
pub struct Process {
    pub is_running: bool,
    pub hash: String,
    pub signers: Vec<String>,
}

/// What all the endpoints of one identity said last. They share it: who uses two devices answers for both.
#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    pub os: Option<Answered<Os>>,
    pub domain: Option<Answered<String>>,
    pub addresses: Option<Answered<Vec<String>>>,
    /// By check, in the order of the first answers.
    pub processes: Vec<Answered<Process>>,
    /// By path, in the order of the first answers.
    paths: Vec<(String, Process)>,
    /// What belongs to one API session alone, by its id.
    pub sessions: BTreeMap<String, Presence>,
}

/// What is known of one API session.
#[derive(Debug, Clone, Copy, Default)]
pub struct Presence {
    /// When a one-time code was last given in it.
    pub passed_at: Option<CalendarTime>,
    pub woken_at: Option<CalendarTime>,
    pub unlocked_at: Option<CalendarTime>,
}

impl Endpoint {
    /// Takes an answer that was given in an API session. Of answers about processes so many are kept; then the oldest go.
    pub fn take(&mut self, api_session: &str, response: Response, moment: CalendarTime, processes: usize) {
        let at = moment.shown;
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
                let presence = self.sessions.entry(api_session.to_owned()).or_default();
                presence.woken_at = if woken { Some(moment) } else { presence.woken_at };
                presence.unlocked_at = if unlocked { Some(moment) } else { presence.unlocked_at };
            }
        }
    }

    /// What was answered about a process to a check.
    pub fn process_for(&self, check: &str) -> Option<&Process> {
        self.processes.iter().find(|answer| answer.check == check).map(|answer| &answer.what)
    }

    /// What was last said about the process at exactly this path.
    pub fn process_at(&self, path: &str) -> Option<&Process> {
        self.paths.iter().find(|(at, _)| at == path).map(|(_, process)| process)
    }
}

/// Puts an entry in place of the one that is about the same, or behind all, of which there are no more than `most`.
fn keep<T>(entries: &mut Vec<T>, entry: T, most: usize, is_same: impl Fn(&T, &T) -> bool) {
    match entries.iter_mut().find(|other| is_same(other, &entry)) {
        Some(other) => *other = entry,
        None => {
            if entries.len() >= most {
                entries.remove(0);
            }
            entries.push(entry);
        }
    }
}

/// What posture checks are judged by: all that is known at one moment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The moment.
    pub now: CalendarTime,
    pub endpoint: Arc<Endpoint>,
    /// Of the API session in question; nothing if there is none.
    pub presence: Presence,
    /// Whether the client understands that a code counts for a time only.
    pub knows_timeouts: bool,
}

impl Evidence {
    /// Nothing.
    pub fn none(now: CalendarTime) -> Self {
        Self { now, endpoint: Arc::default(), presence: Presence::default(), knows_timeouts: false }
    }

    /// The same, seen by a client that uses this software.
    #[must_use]
    pub fn seen_by(self, sdk: &SdkInfo) -> Self {
        Self { knows_timeouts: knows_timeouts(sdk), ..self }
    }
}

/// The SDK for C understands timeouts from 0.25.0 on; no other client was known to.
fn knows_timeouts(sdk: &SdkInfo) -> bool {
    let version = Version::parse(sdk.version.trim_start_matches('v'));
    sdk.r#type == "ziti-sdk-c" && version.zip(Version::parse("0.25.0")).is_some_and(|(version, first)| version >= first)
}
