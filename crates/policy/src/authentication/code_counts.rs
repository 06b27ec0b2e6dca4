//! The wrong codes of one identity, by credential, session and network, each within a window of
//! time. Why they are counted so: `code_failures.rs`.

use std::{net::IpAddr, time::Duration};

use model::{
    clock::Timestamp,
    config,
    entity::{ApiSession, Id},
};

use super::{code_attempt::Attempt, fair_queue::network};

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
pub(super) struct IdentityFailures {
    credentials: Vec<OfCredential>,
    /// Networks from which a correct code or a certificate of the identity came.
    known: Vec<(Option<IpAddr>, Timestamp)>,
}

impl IdentityFailures {
    fn counted(&self, attempt: &Attempt) -> Option<&OfCredential> {
        self.credentials
            .iter()
            .find(|of| of.name == attempt.credential)
    }

    fn knows(&self, attempt: &Attempt) -> bool {
        let from = attempt.address.map(network);
        self.known.iter().any(|(known, _)| *known == from)
    }

    /// The time until the session may attempt again; `None` if it may now.
    pub(super) fn wait_of_session(
        &self,
        attempt: &Attempt,
        limits: &config::CodeConfig,
        now: Timestamp,
    ) -> Option<Duration> {
        let own = self
            .counted(attempt)?
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
    pub(super) fn wait(
        &self,
        attempt: &Attempt,
        limits: &config::CodeConfig,
        now: Timestamp,
    ) -> Option<Duration> {
        let of = self.counted(attempt)?;
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

    pub(super) fn count(&mut self, attempt: &Attempt, now: Timestamp) {
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
    pub(super) fn completes_series(
        &mut self,
        attempt: &Attempt,
        step: Option<u64>,
        now: Timestamp,
    ) -> bool {
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

    pub(super) fn reset(&mut self, attempt: &Attempt, now: Timestamp) {
        let from = attempt.address.map(network);
        let of = self.credential(&attempt.credential, now);
        of.sessions.retain(|session| session.id != attempt.session);
        of.networks.retain(|place| place.network != from);
        self.know(from, now);
    }

    /// Remembers a network as known. Beyond [`MAX_SOURCES`], the one that was known first is
    /// forgotten.
    pub(super) fn know(&mut self, network: Option<IpAddr>, now: Timestamp) {
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
        let of = find_or_add(
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
        let own = find_or_add(
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
        let own = find_or_add(
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
fn find_or_add<I, O: Ord>(
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
