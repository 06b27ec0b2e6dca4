//! Counts wrong codes per identity and limits the rate of attempts, in bounded memory.
//!
//! A caller who enters codes already has the password. Guessing must therefore be slow, but must not lock the owner out. Wrong codes are
//! counted per session, per source network and in total. The limit of a session is lower than that of its network, so that another session
//! from the same network still gets attempts. Networks from which a correct code came are left out of the total, so that attackers cannot
//! use up the owner's attempts. Except per session, recovery codes are counted apart from one-time codes. There are about 10^9 possible
//! recovery codes, so their total may be ten times as high.

use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{fair_queue::network, password_failures::FailureTable};
use crate::{
    clock::Timestamp,
    config,
    entity::{ApiSession, Id},
    error::{Error, Result},
};

const FIVE_MINUTES: Duration = Duration::from_secs(5 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Wrong codes of one identity are counted separately for at most this many sessions and this many networks.
const MAX_SOURCES: usize = 32;
/// The factor by which the total for recovery codes exceeds that for one-time codes.
const RECOVERY: usize = 10;

/// An attempt to authenticate with a code.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub code: String,
    /// The session of the attempt.
    pub session: Id<ApiSession>,
    /// The source address of the request.
    pub address: Option<IpAddr>,
}

impl Attempt {
    /// Whether it has the form of a one-time code; otherwise it can only be a recovery code.
    fn is_one_time(&self) -> bool {
        self.code.len() == 6 && self.code.bytes().all(|byte| byte.is_ascii_digit())
    }
}

/// A counter for a time window that begins with the first count.
#[derive(Debug, Clone, Copy)]
struct Window {
    since: Timestamp,
    count: usize,
}

impl Window {
    const NONE: Self = Self { since: Timestamp::from_millis(0), count: 0 };

    fn note(&mut self, length: Duration, now: Timestamp) {
        if self.is_over(length, now) {
            *self = Self { since: now, count: 0 };
        }
        self.count += 1;
    }

    /// Setting the clock back ends the window as well.
    fn is_over(&self, length: Duration, now: Timestamp) -> bool {
        self.count == 0 || now.apart(self.since) >= length
    }

    /// The time until another attempt is allowed; `None` if it is allowed now.
    fn wait(&self, limit: usize, length: Duration, now: Timestamp) -> Option<Duration> {
        (self.count >= limit && !self.is_over(length, now)).then(|| length.saturating_sub(now.apart(self.since)))
    }
}

/// Wrong codes of one session.
struct OfSession {
    id: Id<ApiSession>,
    at: Timestamp,
    brief: Window,
    daily: Window,
}

/// Wrong codes from one network.
struct OfNetwork {
    network: Option<IpAddr>,
    at: Timestamp,
    /// A correct code came from this network.
    is_known: bool,
    /// One-time codes, recovery codes.
    daily: [Window; 2],
}

/// Wrong codes for one identity.
struct IdentityFailures {
    sessions: Vec<OfSession>,
    networks: Vec<OfNetwork>,
    /// Totals over networks that are not known: one-time codes, recovery codes.
    unknown_networks: [Window; 2],
}

impl Default for IdentityFailures {
    fn default() -> Self {
        Self { sessions: Vec::new(), networks: Vec::new(), unknown_networks: [Window::NONE; 2] }
    }
}

/// The wrong codes of all identities.
pub(crate) struct WrongCodes {
    failures: Mutex<FailureTable<IdentityFailures>>,
    limits: config::CodeConfig,
}

impl WrongCodes {
    /// Starts with no wrong codes.
    pub(crate) fn new(limits: &config::CodeConfig) -> Self {
        Self { failures: Mutex::new(FailureTable::new(limits.remembered)), limits: limits.clone() }
    }

    /// Checks a code, unless too many were wrong. `check` returns what the code proves and whether for the first time. A code that is
    /// correct for the first time resets the counts of its session and network; a reused one counts as wrong. The lock allows one attempt
    /// at a time, so that parallel attempts do not exceed the limit.
    ///
    /// # Errors
    /// [`Error::Busy`] if the limit is reached, before the code is checked; the errors of `check`.
    pub(crate) fn check<T>(
        &self,
        identity: &str,
        attempt: &Attempt,
        now: Timestamp,
        check: impl FnOnce() -> Result<Option<(T, bool)>>,
    ) -> Result<Option<T>> {
        let mut failures = self.lock();
        self.refuse(&failures, identity, attempt, now)?;
        let judged = check()?;
        let counts = failures.note(identity, now);
        if matches!(judged, Some((_, true))) {
            counts.reset(attempt, now)
        } else {
            counts.count(attempt, now)
        }
        Ok(judged.map(|(proof, _)| proof))
    }

    /// Rejects an attempt beyond the limit before any work is done for it.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub(crate) fn admit(&self, identity: &str, attempt: &Attempt, now: Timestamp) -> Result<()> {
        self.refuse(&self.lock(), identity, attempt, now)
    }

    /// Forgets the wrong codes of an identity.
    pub(crate) fn forget(&self, identity: &str) {
        self.lock().forget(identity);
    }

    fn refuse(&self, failures: &FailureTable<IdentityFailures>, identity: &str, attempt: &Attempt, now: Timestamp) -> Result<()> {
        match failures.find(identity).and_then(|shown| shown.wait(attempt, &self.limits, now)) {
            Some(wait) => Err(Error::Busy { retry_after: u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).max(1) }),
            None => Ok(()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FailureTable<IdentityFailures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdentityFailures {
    /// The time until another attempt is allowed; `None` if it is allowed now.
    fn wait(&self, attempt: &Attempt, limits: &config::CodeConfig, now: Timestamp) -> Option<Duration> {
        let config::CodeConfig { wrong_per_5_minutes, wrong_per_day, wrong_per_day_in_all, .. } = *limits;
        let own = self.sessions.iter().find(|session| session.id == attempt.session);
        let place = self.networks.iter().find(|place| place.network == attempt.address.map(network));
        let (shape, times) = if attempt.is_one_time() { (0, 1) } else { (1, RECOVERY) };
        let of = |windows: &[Window; 2], limit| windows.get(shape).and_then(|window| window.wait(limit, DAY, now));
        let waits = [
            own.and_then(|own| own.brief.wait(wrong_per_5_minutes, FIVE_MINUTES, now)),
            own.and_then(|own| own.daily.wait(wrong_per_day.div_ceil(2), DAY, now)),
            place.and_then(|place| of(&place.daily, wrong_per_day)),
            of(&self.unknown_networks, wrong_per_day_in_all.saturating_mul(times)).filter(|_| place.is_none_or(|place| !place.is_known)),
        ];
        waits.into_iter().flatten().max()
    }

    fn count(&mut self, attempt: &Attempt, now: Timestamp) {
        let own = self.session(&attempt.session, now);
        own.brief.note(FIVE_MINUTES, now);
        own.daily.note(DAY, now);
        let shape = usize::from(!attempt.is_one_time());
        let place = self.network(attempt.address.map(network), now);
        let is_known = place.is_known;
        place.daily.get_mut(shape).into_iter().for_each(|window| window.note(DAY, now));
        if !is_known {
            self.unknown_networks.get_mut(shape).into_iter().for_each(|window| window.note(DAY, now));
        }
    }

    fn reset(&mut self, attempt: &Attempt, now: Timestamp) {
        self.sessions.retain(|session| session.id != attempt.session);
        let place = self.network(attempt.address.map(network), now);
        (place.is_known, place.daily) = (true, [Window::NONE; 2]);
    }

    /// The counts of a session. Beyond [`MAX_SOURCES`], the session without an attempt for the longest time is forgotten.
    fn session(&mut self, id: &Id<ApiSession>, now: Timestamp) -> &mut OfSession {
        let known = self.sessions.iter().position(|session| session.id == *id);
        let mut own = known.map(|at| self.sessions.swap_remove(at)).unwrap_or_else(|| OfSession {
            id: id.clone(),
            at: now,
            brief: Window::NONE,
            daily: Window::NONE,
        });
        own.at = now;
        if self.sessions.len() >= MAX_SOURCES {
            let quiet = self.sessions.iter().enumerate().min_by_key(|(_, session)| session.at).map(|(at, _)| at);
            quiet.map(|at| self.sessions.swap_remove(at));
        }
        self.sessions.push_mut(own)
    }

    /// The counts of a network. Beyond [`MAX_SOURCES`], the network without an attempt for the longest time is forgotten, known ones last.
    fn network(&mut self, network: Option<IpAddr>, now: Timestamp) -> &mut OfNetwork {
        let known = self.networks.iter().position(|place| place.network == network);
        let mut own = known.map(|at| self.networks.swap_remove(at)).unwrap_or_else(|| OfNetwork {
            network,
            at: now,
            is_known: false,
            daily: [Window::NONE; 2],
        });
        own.at = now;
        if self.networks.len() >= MAX_SOURCES {
            let quiet = self.networks.iter().enumerate().min_by_key(|(_, place)| (place.is_known, place.at)).map(|(at, _)| at);
            quiet.map(|at| self.networks.swap_remove(at));
        }
        self.networks.push_mut(own)
    }
}
