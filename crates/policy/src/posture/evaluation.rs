//! Whether an endpoint satisfies a posture check: pure functions of the demand, the evidence and
//! the time.

use model::{
    clock::CalendarTime,
    entity::{
        OperatingSystem, PostureRequirement, Semantic, Version, VersionRange,
        endpoint_report::{Os, Process},
        posture_requirement::{self, ProcessMulti, hexadecimal},
    },
};

use super::{Evidence, evidence::SessionMfaState};

/// Seconds after waking up or being unlocked during which an endpoint may go on before it must give
/// a code.
pub(crate) const GRACE: i64 = 300;
/// Means an unlimited number of seconds.
pub(crate) const FOREVER: i64 = -1;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub passes: bool,
    /// Seconds for which an answer is valid; -1: without limit.
    pub timeout: i64,
    /// Seconds for which the last answer is still valid; -1: without limit, 0: not any more.
    pub remaining: i64,
}

/// Judges one check; `check` is its id.
pub fn evaluate(demand: &PostureRequirement, check: &str, evidence: &Evidence) -> Verdict {
    let endpoint = &evidence.endpoint;
    let passes = match demand {
        PostureRequirement::Os { operating_systems } => endpoint
            .os
            .as_ref()
            .is_some_and(|os| runs_one(operating_systems, &os.what)),
        PostureRequirement::Domain { domains } => endpoint
            .domain
            .as_ref()
            .is_some_and(|domain| domains.iter().any(|wanted| same(wanted, &domain.what))),
        PostureRequirement::Mac { mac_addresses } => {
            let has = |wanted: &String| {
                endpoint
                    .addresses
                    .as_ref()
                    .is_some_and(|addresses| addresses.what.contains(wanted))
            };
            mac_addresses
                .iter()
                .any(|wanted| !wanted.is_empty() && has(wanted))
        }
        PostureRequirement::Process { process } => endpoint
            .process_for(check)
            .is_some_and(|seen| is_wanted(process, seen)),
        PostureRequirement::ProcessMulti {
            semantic,
            processes,
        } => {
            let mut found = processes.iter().map(|wanted| {
                endpoint
                    .process_at(&wanted.path)
                    .is_some_and(|seen| is_one_of(wanted, seen))
            });
            match semantic {
                Semantic::AllOf => found.all(|is| is),
                Semantic::AnyOf => found.any(|is| is),
            }
        }
        PostureRequirement::Mfa {
            timeout_seconds, ..
        } => {
            let state = CodeState::of(demand, evidence);
            let remaining = remaining(demand, evidence);
            return Verdict {
                passes: state.passes(),
                timeout: *timeout_seconds,
                remaining,
            };
        }
    };
    Verdict {
        passes,
        timeout: FOREVER,
        remaining: FOREVER,
    }
}

/// Whether the endpoint has reported nothing that a check is judged by.
pub(crate) fn is_unreported(demand: &PostureRequirement, check: &str, evidence: &Evidence) -> bool {
    let endpoint = &evidence.endpoint;
    match demand {
        PostureRequirement::Os { .. } => endpoint.os.is_none(),
        PostureRequirement::Domain { .. } => endpoint.domain.is_none(),
        PostureRequirement::Mac { .. } => endpoint.addresses.is_none(),
        PostureRequirement::Process { .. } => endpoint.process_for(check).is_none(),
        PostureRequirement::ProcessMulti { processes, .. } => processes
            .iter()
            .any(|wanted| endpoint.process_at(&wanted.path).is_none()),
        PostureRequirement::Mfa { .. } => evidence.mfa_state.passed_at.is_none(),
    }
}

fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

fn runs_one(wanted: &[OperatingSystem], os: &Os) -> bool {
    wanted.iter().any(|wanted| {
        let fits = |version: &Version| {
            wanted
                .versions
                .iter()
                .filter_map(|range| VersionRange::parse(range))
                .any(|range| range.contains(version))
        };
        same(wanted.os_type.as_str(), &os.os_type)
            && (wanted.versions.is_empty()
                || Version::parse(&os.version).as_ref().is_some_and(fits))
    })
}

fn is_wanted(wanted: &posture_requirement::Process, seen: &Process) -> bool {
    let signed = wanted.signer_fingerprint.is_empty()
        || seen
            .signers
            .iter()
            .any(|signer| same_digits(&wanted.signer_fingerprint, signer));
    seen.is_running && signed && has_hash(&wanted.hashes, seen)
}

fn is_one_of(wanted: &ProcessMulti, seen: &Process) -> bool {
    let signers = &wanted.signer_fingerprints;
    let signed = signers.is_empty()
        || signers.iter().any(|wanted| {
            seen.signers
                .iter()
                .any(|signer| same_digits(wanted, signer))
        });
    seen.is_running && signed && has_hash(&wanted.hashes, seen)
}

fn has_hash(hashes: &[String], seen: &Process) -> bool {
    hashes.is_empty() || hashes.iter().any(|hash| same_digits(hash, &seen.hash))
}

/// Whether `wanted`, in any notation, has these hexadecimal digits. Never matches empty digits.
fn same_digits(wanted: &str, digits: &str) -> bool {
    !digits.is_empty() && hexadecimal(wanted) == digits
}

/// How the last one-time code satisfies a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeState {
    pub(crate) passed: bool,
    /// Too old, or never given.
    pub(crate) timed_out: bool,
    /// Whether no code is overdue because the endpoint woke up. True if the check demands none
    /// then; otherwise false if no code was ever given.
    pub(crate) since_wake: bool,
    /// Whether no code is overdue because the endpoint was unlocked. True if the check demands none
    /// then; otherwise false if no code was ever given.
    pub(crate) since_unlock: bool,
}

impl CodeState {
    /// Evaluates a demand; other demands than MFA count as MFA without conditions.
    pub(crate) fn of(
        demand: &PostureRequirement,
        Evidence { mfa_state, now, .. }: &Evidence,
    ) -> Self {
        let (timeout, on_wake, on_unlock) = conditions(demand);
        let age = mfa_state.passed_at.map(|at| now.since(at).as_millis());
        let timed_out = age.is_none_or(|age| {
            u128::try_from(timeout).is_ok_and(|timeout| timeout > 0 && age > timeout * 1000)
        });
        let overdue = |event: Option<CalendarTime>| {
            event.is_some_and(|at| {
                mfa_state.passed_at.is_none_or(|passed| at > passed)
                    && seconds_left(GRACE, at, *now) == 0
            })
        };
        let since =
            |asked: bool, event| !asked || (mfa_state.passed_at.is_some() && !overdue(event));
        Self {
            passed: mfa_state.passed_at.is_some(),
            timed_out,
            since_wake: since(on_wake, mfa_state.woken_at),
            since_unlock: since(on_unlock, mfa_state.unlocked_at),
        }
    }

    /// Whether the check passes.
    pub(crate) fn passes(self) -> bool {
        self.passed && !self.timed_out && self.since_wake && self.since_unlock
    }
}

fn conditions(demand: &PostureRequirement) -> (i64, bool, bool) {
    match demand {
        PostureRequirement::Mfa {
            timeout_seconds,
            prompt_on_wake,
            prompt_on_unlock,
            ..
        } => (*timeout_seconds, *prompt_on_wake, *prompt_on_unlock),
        _ => (FOREVER, false, false),
    }
}

/// Seconds for which a code is still valid, as reported to the client.
fn remaining(demand: &PostureRequirement, evidence: &Evidence) -> i64 {
    let now = evidence.now;
    let (timeout, on_wake, on_unlock) = conditions(demand);
    let SessionMfaState {
        passed_at,
        woken_at,
        unlocked_at,
    } = evidence.mfa_state;
    let is_spared = matches!(
        demand,
        PostureRequirement::Mfa {
            ignore_legacy_endpoints: true,
            ..
        }
    ) && !evidence.knows_timeouts;
    match passed_at {
        _ if timeout <= 0 => FOREVER,
        None => 0,
        Some(_) if is_spared => FOREVER,
        Some(passed) => {
            let events = [(on_wake, woken_at), (on_unlock, unlocked_at)];
            let later = events
                .into_iter()
                .filter_map(|(asked, at)| at.filter(|at| asked && *at > passed));
            later
                .map(|at| seconds_left(GRACE, at, now))
                .fold(seconds_left(timeout, passed, now), i64::min)
        }
    }
}

/// The seconds left of a period of `seconds` that began at `since`, rounded up to whole seconds; at
/// least zero.
pub(crate) fn seconds_left(seconds: i64, since: CalendarTime, now: CalendarTime) -> i64 {
    seconds
        .saturating_sub(i64::try_from(now.since(since).as_secs()).unwrap_or(i64::MAX))
        .max(0)
}
