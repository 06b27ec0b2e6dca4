//! How often wrong codes were shown for an identity, and whether the next one is looked at: in bounded memory.
//!
//! Whoever shows codes holds the password already, so that guessing must be slow, but must not lock the owner out either. Wrong codes are
//! therefore counted three times: by session, by source network, and in all. A session is cut off long before its network is, so that
//! another session from the same place is still heard; networks from which a right code came are not counted in all, so that strangers
//! cannot use up what their owner needs. Recovery codes are counted apart from one-time codes, except by session: each is one of a thousand
//! million, so that ten times as many can be looked at in all.

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
/// Of so many sessions, and so many networks, wrong codes of one identity are told apart.
const TOLD_APART: usize = 32;
/// So many recovery codes are looked at for each one-time code, in all.
const RECOVERY: usize = 10;

/// A code that somebody shows.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub code: String,
    /// The session in which it is shown.
    pub session: Id<ApiSession>,
    /// Where the request comes from.
    pub address: Option<IpAddr>,
}

impl Attempt {
    /// Whether it looks like a one-time code; anything else can only be a recovery code.
    fn is_one_time(&self) -> bool {
        self.code.len() == 6 && self.code.bytes().all(|byte| byte.is_ascii_digit())
    }
}

/// How many there were since the first of them, which begins a window of some length.
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

    /// A clock that was put back ends it as well.
    fn is_over(&self, length: Duration, now: Timestamp) -> bool {
        self.count == 0 || now.apart(self.since) >= length
    }

    /// How long it takes until another one is looked at, if that is not now.
    fn wait(&self, most: usize, length: Duration, now: Timestamp) -> Option<Duration> {
        (self.count >= most && !self.is_over(length, now)).then(|| length.saturating_sub(now.apart(self.since)))
    }
}

/// What one session showed.
struct OfSession {
    id: Id<ApiSession>,
    at: Timestamp,
    brief: Window,
    daily: Window,
}

/// What came from one network.
struct OfNetwork {
    network: Option<IpAddr>,
    at: Timestamp,
    /// A right code came from there.
    is_known: bool,
    /// One-time codes, recovery codes.
    daily: [Window; 2],
}

/// What was shown for one identity.
struct Shown {
    sessions: Vec<OfSession>,
    networks: Vec<OfNetwork>,
    /// From networks that are not known: one-time codes, recovery codes.
    strange: [Window; 2],
}

impl Default for Shown {
    fn default() -> Self {
        Self { sessions: Vec::new(), networks: Vec::new(), strange: [Window::NONE; 2] }
    }
}

/// Wrong codes.
pub struct WrongCodes {
    book: Mutex<FailureTable<Shown>>,
    limits: config::Codes,
}

impl WrongCodes {
    /// None so far.
    pub fn new(limits: &config::Codes) -> Self {
        Self { book: Mutex::new(FailureTable::new(limits.remembered)), limits: limits.clone() }
    }

    /// Judges a code of an identity, unless too many were wrong. `judge` says what the code proves and whether it does so for the first
    /// time. A code that is right for the first time makes up for what its session and its network showed before; one that was used before
    /// counts like a wrong one. One at a time, so that nobody gets more tries by making them at once.
    ///
    /// # Errors
    /// [`Error::Busy`] if it was not even looked at, and what `judge` says.
    pub fn judge<T>(
        &self,
        identity: &str,
        attempt: &Attempt,
        now: Timestamp,
        judge: impl FnOnce() -> Result<Option<(T, bool)>>,
    ) -> Result<Option<T>> {
        let mut book = self.lock();
        self.refuse(&book, identity, attempt, now)?;
        let judged = judge()?;
        let shown = book.note(identity, now);
        if matches!(judged, Some((_, true))) {
            shown.forgive(attempt, now)
        } else {
            shown.count(attempt, now)
        }
        Ok(judged.map(|(proof, _)| proof))
    }

    /// Refuses a code that would not be looked at, before anything is done for it.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn admit(&self, identity: &str, attempt: &Attempt, now: Timestamp) -> Result<()> {
        self.refuse(&self.lock(), identity, attempt, now)
    }

    /// Forgets an identity.
    pub fn forget(&self, identity: &str) {
        self.lock().forget(identity);
    }

    fn refuse(&self, book: &FailureTable<Shown>, identity: &str, attempt: &Attempt, now: Timestamp) -> Result<()> {
        match book.find(identity).and_then(|shown| shown.wait(attempt, &self.limits, now)) {
            Some(wait) => Err(Error::Busy { retry_after: u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).max(1) }),
            None => Ok(()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FailureTable<Shown>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    /// How long it takes until another code is looked at, if that is not now.
    fn wait(&self, attempt: &Attempt, limits: &config::Codes, now: Timestamp) -> Option<Duration> {
        let config::Codes { wrong_per_5_minutes, wrong_per_day, wrong_per_day_in_all, .. } = *limits;
        let own = self.sessions.iter().find(|session| session.id == attempt.session);
        let place = self.networks.iter().find(|place| place.network == attempt.address.map(network));
        let (shape, times) = if attempt.is_one_time() { (0, 1) } else { (1, RECOVERY) };
        let of = |windows: &[Window; 2], most| windows.get(shape).and_then(|window| window.wait(most, DAY, now));
        let waits = [
            own.and_then(|own| own.brief.wait(wrong_per_5_minutes, FIVE_MINUTES, now)),
            own.and_then(|own| own.daily.wait(wrong_per_day.div_ceil(2), DAY, now)),
            place.and_then(|place| of(&place.daily, wrong_per_day)),
            of(&self.strange, wrong_per_day_in_all.saturating_mul(times)).filter(|_| place.is_none_or(|place| !place.is_known)),
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
            self.strange.get_mut(shape).into_iter().for_each(|window| window.note(DAY, now));
        }
    }

    fn forgive(&mut self, attempt: &Attempt, now: Timestamp) {
        self.sessions.retain(|session| session.id != attempt.session);
        let place = self.network(attempt.address.map(network), now);
        (place.is_known, place.daily) = (true, [Window::NONE; 2]);
    }

    /// What a session showed, to be added to. Of too many the one that has been quiet longest is forgotten.
    fn session(&mut self, id: &Id<ApiSession>, now: Timestamp) -> &mut OfSession {
        let known = self.sessions.iter().position(|session| session.id == *id);
        let mut own = known.map(|at| self.sessions.swap_remove(at)).unwrap_or_else(|| OfSession {
            id: id.clone(),
            at: now,
            brief: Window::NONE,
            daily: Window::NONE,
        });
        own.at = now;
        if self.sessions.len() >= TOLD_APART {
            let quiet = self.sessions.iter().enumerate().min_by_key(|(_, session)| session.at).map(|(at, _)| at);
            quiet.map(|at| self.sessions.swap_remove(at));
        }
        self.sessions.push_mut(own)
    }

    /// What came from a network, to be added to. Of too many the one that has been quiet longest is forgotten, known ones last.
    fn network(&mut self, network: Option<IpAddr>, now: Timestamp) -> &mut OfNetwork {
        let known = self.networks.iter().position(|place| place.network == network);
        let mut own = known.map(|at| self.networks.swap_remove(at)).unwrap_or_else(|| OfNetwork {
            network,
            at: now,
            is_known: false,
            daily: [Window::NONE; 2],
        });
        own.at = now;
        if self.networks.len() >= TOLD_APART {
            let quiet = self.networks.iter().enumerate().min_by_key(|(_, place)| (place.is_known, place.at)).map(|(at, _)| at);
            quiet.map(|at| self.networks.swap_remove(at));
        }
        self.networks.push_mut(own)
    }
}
