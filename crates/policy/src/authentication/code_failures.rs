//! Counts wrong codes per identity and limits the rate of attempts, in bounded memory.
//!
//! A caller who enters codes already has another credential, such as the password. Guessing must
//! therefore be slow, but must not lock the owner out. Wrong codes are counted per credential that
//! opened the sessions, so that the thief of one uses up no attempts of another; and for each
//! credential per session, per source network and in total. The limit of a session is lower than
//! that of its network, so that another session from the same network still gets attempts. A
//! network that has shown a correct code, or a certificate of the identity, is known: it is left
//! out of the total, and sessions that have sent few wrong codes have an allowance of their own
//! there, which sessions that guess do not use up. Where an allowance is used up all the same,
//! [`SERIES`] correct codes in succession in one session are accepted: guesses practically never
//! form such a series. Except per session, recovery codes are counted apart from one-time codes.
//! There are about 10^9 possible recovery codes, so their total may be ten times as high.

use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use model::{
    clock::Timestamp,
    config,
    entity::{ApiSession, Id},
    error::{Error, Result},
};

use super::{fair_queue::network, password_failures::FailureTable};

const FIVE_MINUTES: Duration = Duration::from_secs(5 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Wrong codes of one identity are counted separately for at most this many sessions and this many
/// networks.
const MAX_SOURCES: usize = 32;
/// The same for the credentials that opened the sessions.
const MAX_CREDENTIALS: usize = 8;
/// A session that has sent fewer wrong codes within a day has a part in the allowance of its own of
/// a known network.
const FEW: usize = 5;
/// This many correct one-time codes in succession are accepted where an allowance is used up.
const SERIES: u8 = 3;
/// The codes of a series must follow each other within this many steps of 30 seconds.
const SERIES_STEPS: u64 = 10;
/// The factor by which the total for recovery codes exceeds that for one-time codes.
const RECOVERY: usize = 10;

/// An attempt to authenticate with a code.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub code: String,
    /// The session of the attempt.
    pub session: Id<ApiSession>,
    /// What opened the session, as in its `authenticatorId`.
    pub credential: String,
    /// The source address of the request.
    pub address: Option<IpAddr>,
}

impl Attempt {
    /// Whether it has the form of a one-time code; otherwise it can only be a recovery code.
    fn is_one_time(&self) -> bool {
        self.code.len() == 6 && self.code.bytes().all(|byte| byte.is_ascii_digit())
    }
}

/// A correct code.
pub(crate) struct CorrectCode<T> {
    pub(crate) proof: T,
    /// Whether it was not used before; a reused code counts as wrong.
    pub(crate) is_first: bool,
    /// The step of a one-time code.
    pub(crate) step: Option<u64>,
}

/// A counter for a time window that begins with the first count.
#[derive(Debug, Clone, Copy)]
struct Window {
    since: Timestamp,
    count: usize,
}

impl Window {
    const NONE: Self = Self {
        since: Timestamp::from_millis(0),
        count: 0,
    };

    fn note(&mut self, length: Duration, now: Timestamp) {
        if self.is_over(length, now) {
            *self = Self {
                since: now,
                count: 0,
            };
        }
        self.count += 1;
    }

    /// Setting the clock back ends the window as well.
    fn is_over(&self, length: Duration, now: Timestamp) -> bool {
        self.count == 0 || now.apart(self.since) >= length
    }

    /// The time until another attempt is allowed; `None` if it is allowed now.
    fn wait(&self, limit: usize, length: Duration, now: Timestamp) -> Option<Duration> {
        (self.count >= limit && !self.is_over(length, now))
            .then(|| length.saturating_sub(now.apart(self.since)))
    }
}

/// Wrong codes of one session.
struct OfSession {
    id: Id<ApiSession>,
    at: Timestamp,
    brief: Window,
    daily: Window,
    /// How many correct codes it has sent in succession beyond a limit, and the step of the last
    /// one.
    series: (u8, u64),
}

/// Wrong codes from one network: one-time codes, recovery codes.
struct OfNetwork {
    network: Option<IpAddr>,
    at: Timestamp,
    daily: [Window; 2],
    /// The part of sessions that have sent few wrong codes, while the network is known.
    of_few: [Window; 2],
}

/// Wrong codes in sessions that one credential opened.
struct OfCredential {
    name: String,
    at: Timestamp,
    sessions: Vec<OfSession>,
    networks: Vec<OfNetwork>,
    /// Totals over networks that are not known: one-time codes, recovery codes.
    unknown_networks: [Window; 2],
}

/// Wrong codes for one identity.
#[derive(Default)]
struct IdentityFailures {
    credentials: Vec<OfCredential>,
    /// Networks from which a correct code or a certificate of the identity came.
    known: Vec<(Option<IpAddr>, Timestamp)>,
}

/// The wrong codes of all identities.
pub(crate) struct WrongCodes {
    failures: Mutex<FailureTable<IdentityFailures>>,
    limits: config::CodeConfig,
}

impl WrongCodes {
    /// Starts with no wrong codes.
    pub(crate) fn new(limits: &config::CodeConfig) -> Self {
        Self {
            failures: Mutex::new(FailureTable::new(limits.remembered)),
            limits: limits.clone(),
        }
    }

    /// Checks a code, unless too many were wrong. `check` returns what the code proves. A code that
    /// is correct for the first time resets the counts of its session and network. The lock allows
    /// one attempt at a time, so that parallel attempts do not exceed the limit.
    ///
    /// # Errors
    /// [`Error::Busy`] if the limit is reached, whether or not the code is correct; the errors of
    /// `check`.
    pub(crate) fn check<T>(
        &self,
        identity: &str,
        attempt: &Attempt,
        now: Timestamp,
        check: impl FnOnce() -> Result<Option<CorrectCode<T>>>,
    ) -> Result<Option<T>> {
        let mut failures = self.lock();
        self.refuse(&failures, identity, attempt, now)?;
        let wait = failures
            .find(identity)
            .and_then(|shown| shown.wait(attempt, &self.limits, now));
        let judged = check()?;
        let counts = failures.note(identity, now);
        let first = judged.as_ref().filter(|judged| judged.is_first);
        let is_accepted = match (&wait, first) {
            (None, first) => first.is_some(),
            (Some(_), first) => {
                counts.completes_series(attempt, first.and_then(|first| first.step), now)
            }
        };
        match (is_accepted, wait) {
            (true, _) => counts.reset(attempt, now),
            (false, None) => counts.count(attempt, now),
            (false, Some(wait)) => {
                if first.is_none() {
                    counts.count(attempt, now);
                }
                return Err(busy(wait));
            }
        }
        Ok(judged.map(|judged| judged.proof))
    }

    /// Rejects an attempt beyond the limit of its session before any work is done for it, and a
    /// recovery code beyond any limit. A one-time code beyond another limit may be part of a
    /// series.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub(crate) fn admit(&self, identity: &str, attempt: &Attempt, now: Timestamp) -> Result<()> {
        self.refuse(&self.lock(), identity, attempt, now)
    }

    /// Notes that an identity has shown a certificate from an address.
    pub(crate) fn know(&self, identity: &str, address: Option<IpAddr>, now: Timestamp) {
        self.lock()
            .note(identity, now)
            .know(address.map(network), now);
    }

    /// Forgets the wrong codes of an identity.
    pub(crate) fn forget(&self, identity: &str) {
        self.lock().forget(identity);
    }

    fn refuse(
        &self,
        failures: &FailureTable<IdentityFailures>,
        identity: &str,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Result<()> {
        let Some(shown) = failures.find(identity) else {
            return Ok(());
        };
        let of_session = shown.wait_of_session(attempt, &self.limits, now);
        let wait = if attempt.is_one_time() {
            of_session
        } else {
            of_session.max(shown.wait(attempt, &self.limits, now))
        };
        wait.map_or(Ok(()), |wait| Err(busy(wait)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FailureTable<IdentityFailures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy(wait: Duration) -> Error {
    Error::Busy {
        retry_after: u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).max(1),
    }
}

impl IdentityFailures {
    fn of(&self, attempt: &Attempt) -> Option<&OfCredential> {
        self.credentials
            .iter()
            .find(|of| of.name == attempt.credential)
    }

    fn knows(&self, attempt: &Attempt) -> bool {
        let from = attempt.address.map(network);
        self.known.iter().any(|(known, _)| *known == from)
    }

    /// The time until the session may attempt again; `None` if it may now.
    fn wait_of_session(
        &self,
        attempt: &Attempt,
        limits: &config::CodeConfig,
        now: Timestamp,
    ) -> Option<Duration> {
        let own = self
            .of(attempt)?
            .sessions
            .iter()
            .find(|session| session.id == attempt.session)?;
        let brief = own
            .brief
            .wait(limits.wrong_per_5_minutes, FIVE_MINUTES, now);
        brief.max(own.daily.wait(limits.wrong_per_day.div_ceil(2), DAY, now))
    }

    /// The time until another attempt from the network of this one is allowed; `None` if it is
    /// allowed now.
    fn wait(
        &self,
        attempt: &Attempt,
        limits: &config::CodeConfig,
        now: Timestamp,
    ) -> Option<Duration> {
        let of = self.of(attempt)?;
        let is_known = self.knows(attempt);
        let (shape, times) = if attempt.is_one_time() {
            (0, 1)
        } else {
            (1, RECOVERY)
        };
        let wait = |windows: &[Window; 2], limit| {
            windows
                .get(shape)
                .and_then(|window| window.wait(limit, DAY, now))
        };
        let place = of
            .networks
            .iter()
            .find(|place| place.network == attempt.address.map(network));
        let here = place.and_then(|place| {
            let counted = if is_known && of.has_sent_few(&attempt.session, now) {
                &place.of_few
            } else {
                &place.daily
            };
            wait(counted, limits.wrong_per_day)
        });
        let in_all = || {
            wait(
                &of.unknown_networks,
                limits.wrong_per_day_in_all.saturating_mul(times),
            )
        };
        if is_known { here } else { here.max(in_all()) }
    }

    fn count(&mut self, attempt: &Attempt, now: Timestamp) {
        let (is_known, shape) = (self.knows(attempt), usize::from(!attempt.is_one_time()));
        let of = self.credential(&attempt.credential, now);
        let has_sent_few = of.has_sent_few(&attempt.session, now);
        let own = of.session(&attempt.session, now);
        own.brief.note(FIVE_MINUTES, now);
        own.daily.note(DAY, now);
        own.series = (0, 0);
        let place = of.network(attempt.address.map(network), now);
        let counted = if is_known && has_sent_few {
            &mut place.of_few
        } else {
            &mut place.daily
        };
        counted
            .get_mut(shape)
            .into_iter()
            .for_each(|window| window.note(DAY, now));
        if !is_known {
            of.unknown_networks
                .get_mut(shape)
                .into_iter()
                .for_each(|window| window.note(DAY, now));
        }
    }

    /// Notes a correct one-time code beyond a limit, by its step. Whether it completes a series.
    fn completes_series(&mut self, attempt: &Attempt, step: Option<u64>, now: Timestamp) -> bool {
        let Some(step) = step else { return false };
        let (length, last) = &mut self
            .credential(&attempt.credential, now)
            .session(&attempt.session, now)
            .series;
        match step.checked_sub(*last) {
            Some(1..=SERIES_STEPS) => *length += 1,
            // The same code once more.
            Some(0) => {}
            _ => *length = 1,
        }
        *last = step;
        *length >= SERIES
    }

    fn reset(&mut self, attempt: &Attempt, now: Timestamp) {
        let from = attempt.address.map(network);
        let of = self.credential(&attempt.credential, now);
        of.sessions.retain(|session| session.id != attempt.session);
        of.networks.retain(|place| place.network != from);
        self.know(from, now);
    }

    /// Remembers a network as known. Beyond [`MAX_SOURCES`], the one that was known first is
    /// forgotten.
    fn know(&mut self, network: Option<IpAddr>, now: Timestamp) {
        self.known.retain(|(known, _)| *known != network);
        if self.known.len() >= MAX_SOURCES {
            let oldest = self
                .known
                .iter()
                .enumerate()
                .min_by_key(|(_, (_, at))| *at)
                .map(|(at, _)| at);
            oldest.map(|at| self.known.swap_remove(at));
        }
        self.known.push((network, now));
    }

    /// The counts of a credential. Beyond [`MAX_CREDENTIALS`], the one without an attempt for the
    /// longest time is forgotten.
    fn credential(&mut self, name: &str, now: Timestamp) -> &mut OfCredential {
        let known = |of: &OfCredential| of.name == name;
        let new = || OfCredential {
            name: name.to_owned(),
            at: now,
            sessions: Vec::new(),
            networks: Vec::new(),
            unknown_networks: [Window::NONE; 2],
        };
        let of = found(
            &mut self.credentials,
            known,
            |of| of.at,
            MAX_CREDENTIALS,
            new,
        );
        of.at = now;
        of
    }
}

impl OfCredential {
    fn has_sent_few(&self, session: &Id<ApiSession>, now: Timestamp) -> bool {
        let own = self.sessions.iter().find(|own| own.id == *session);
        own.is_none_or(|own| own.daily.is_over(DAY, now) || own.daily.count < FEW)
    }

    /// The counts of a session. Beyond [`MAX_SOURCES`], the session without an attempt for the
    /// longest time is forgotten, those in a series last.
    fn session(&mut self, id: &Id<ApiSession>, now: Timestamp) -> &mut OfSession {
        let new = || OfSession {
            id: id.clone(),
            at: now,
            brief: Window::NONE,
            daily: Window::NONE,
            series: (0, 0),
        };
        let own = found(
            &mut self.sessions,
            |own| own.id == *id,
            |own| (own.series.0, own.at),
            MAX_SOURCES,
            new,
        );
        own.at = now;
        own
    }

    /// The counts of a network. Beyond [`MAX_SOURCES`], the network without an attempt for the
    /// longest time is forgotten.
    fn network(&mut self, network: Option<IpAddr>, now: Timestamp) -> &mut OfNetwork {
        let new = || OfNetwork {
            network,
            at: now,
            daily: [Window::NONE; 2],
            of_few: [Window::NONE; 2],
        };
        let own = found(
            &mut self.networks,
            |place| place.network == network,
            |place| place.at,
            MAX_SOURCES,
            new,
        );
        own.at = now;
        own
    }
}

/// The item that is meant, or a new one. Beyond `limit` items, the first by `order` is removed.
fn found<I, O: Ord>(
    items: &mut Vec<I>,
    is_meant: impl Fn(&I) -> bool,
    order: impl Fn(&I) -> O,
    limit: usize,
    new: impl FnOnce() -> I,
) -> &mut I {
    let item = match items.iter().position(is_meant) {
        Some(at) => items.swap_remove(at),
        None => new(),
    };
    if items.len() >= limit {
        let first = items
            .iter()
            .enumerate()
            .min_by_key(|(_, item)| order(item))
            .map(|(at, _)| at);
        first.map(|at| items.swap_remove(at));
    }
    items.push_mut(item)
}
