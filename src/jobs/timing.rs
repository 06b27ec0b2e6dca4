//! When a job is due, and which date decides what is old.

use std::time::{Duration, Instant};

use model::clock::{Clock, Timestamp};

/// The due time of a periodic job.
pub(super) struct Timer {
    interval: Duration,
    last: Instant,
}

impl Timer {
    pub(super) fn from_now(interval: Duration) -> Self {
        Self {
            interval,
            last: Instant::now(),
        }
    }

    pub(super) fn left(&self) -> Duration {
        self.interval.saturating_sub(self.last.elapsed())
    }

    /// Whether the job is due, by time or because it is `requested`; if so, the interval starts
    /// again.
    pub(super) fn is_due(&mut self, requested: bool) -> bool {
        let due = requested || self.left().is_zero();
        if due {
            self.last = Instant::now();
        }
        due
    }
}

/// A host date that is ahead of the time elapsed since the start is trusted after this long.
pub(super) const TRUST_DATE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The date that decides which stored data is old. A host date that is wrong for some hours must
/// not delete data.
#[derive(Default)]
pub(super) struct Calendar {
    /// When the host's date was first seen to be ahead, by the clock that does not jump.
    ahead: Option<Timestamp>,
}

impl Calendar {
    pub(super) fn date(&mut self, clock: &Clock) -> Timestamp {
        let (host_date, steady) = (clock.now(), clock.steady());
        if host_date <= steady {
            self.ahead = None;
            return host_date;
        }
        let since = *self.ahead.get_or_insert(steady);
        if steady.since(since) < TRUST_DATE_AFTER {
            steady
        } else {
            host_date
        }
    }
}
