//! Time: a moment (`Timestamp`) and the source of "now" (`Clock`).
//!
//! Not here: durations as text ("30m"), which belong to the configuration, and periodic work. Start
//! with `Clock`. Code that needs the time is given a `Clock`, so that a test can move the time.

mod timestamp;

pub use timestamp::Timestamp;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A moment by both readings of a clock: `shown` for display, `steady` for elapsed time. Ordered by
/// `steady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CalendarTime {
    steady: Timestamp,
    /// The date of the host's clock.
    pub shown: Timestamp,
}

impl CalendarTime {
    /// A moment of a clock that was never set to another date.
    pub const fn at(shown: Timestamp) -> CalendarTime {
        CalendarTime {
            steady: shown,
            shown,
        }
    }

    /// A moment before `now` that is known by its dates only: `at` by the host's clock as it is set
    /// now, `shown` as it was set then. A date after `now` counts as now.
    pub fn of_earlier(at: Timestamp, shown: Timestamp, now: CalendarTime) -> CalendarTime {
        CalendarTime {
            steady: now.steady.minus(now.shown.since(at)),
            shown,
        }
    }

    /// The same moment, shown with another date.
    pub const fn showing(self, shown: Timestamp) -> CalendarTime {
        CalendarTime { shown, ..self }
    }

    /// The date of this moment by the host's clock as it is set at `now`.
    pub fn dated(self, now: CalendarTime) -> Timestamp {
        now.shown.minus(now.since(self))
    }

    /// The same moment by the clock that never jumps ([`Clock::steady`]).
    pub const fn steady(self) -> Timestamp {
        self.steady
    }

    /// The time from `earlier` to this moment, by the steady clock; zero if `earlier` is not
    /// earlier.
    pub fn since(self, earlier: CalendarTime) -> Duration {
        self.steady.since(earlier.steady)
    }
}

/// The source of "now". Cheap to clone; clones show the same time.
///
/// A clock has two readings. [`now`](Self::now) is the date of the host's clock, for dates that are
/// stored or sent; the host's clock may be set forward or back at any moment.
/// [`steady`](Self::steady) only moves forward, for elapsed time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The two readings of the host's clocks when this clock was made.
    System(Instant, Timestamp),
    Manual(Arc<Manual>),
}

/// Milliseconds since 1970.
#[derive(Debug)]
struct Manual {
    shown: AtomicI64,
    steady: AtomicI64,
}

impl Clock {
    /// The host's clock.
    pub fn system() -> Clock {
        Clock(Source::System(Instant::now(), SystemTime::now().into()))
    }

    /// A clock for tests that moves only by `advance` and `set`.
    pub fn manual(at: Timestamp) -> Clock {
        Clock(Source::Manual(Arc::new(Manual {
            shown: AtomicI64::new(at.millis()),
            steady: AtomicI64::new(at.millis()),
        })))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System(..) => SystemTime::now().into(),
            Source::Manual(manual) => Timestamp::from_millis(manual.shown.load(Ordering::SeqCst)),
        }
    }

    /// The date when this clock was made plus the time elapsed since. Never jumps; stands still
    /// while the host sleeps.
    pub fn steady(&self) -> Timestamp {
        match &self.0 {
            Source::System(made, shown) => shown.plus(made.elapsed()),
            Source::Manual(manual) => Timestamp::from_millis(manual.steady.load(Ordering::SeqCst)),
        }
    }

    /// Both readings at this moment.
    pub fn calendar_now(&self) -> CalendarTime {
        CalendarTime {
            steady: self.steady(),
            shown: self.now(),
        }
    }

    /// Moves a manual clock and its clones forward. Does nothing on the host's clock.
    pub fn advance(&self, duration: Duration) {
        if let Source::Manual(manual) = &self.0 {
            for clock in [&manual.shown, &manual.steady] {
                // The closure always returns `Some`, so the update cannot fail.
                let _ = clock.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
                    Some(Timestamp::from_millis(now).plus(duration).millis())
                });
            }
        }
    }

    /// Sets the date of a manual clock, also backwards, as administrators do on hosts. `steady`
    /// does not move. Does nothing on the host's clock.
    pub fn set(&self, to: Timestamp) {
        if let Source::Manual(manual) = &self.0 {
            manual.shown.store(to.millis(), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_clones_move_together() {
        let clock = Clock::manual(Timestamp::ZERO_TIME);
        let clone = clock.clone();
        clock.advance(Duration::from_secs(60));
        assert_eq!(clone.now(), Timestamp::ZERO_TIME.plus_minutes(1));
        clone.set(Timestamp::MIN);
        assert_eq!(clock.now(), Timestamp::MIN);
        assert_eq!(
            clock.steady(),
            Timestamp::ZERO_TIME.plus_minutes(1),
            "only the shown date was set back"
        );

        let system = Clock::system();
        let before = system.now();
        system.advance(Duration::from_secs(3600));
        system.set(Timestamp::MAX);
        assert!(system.now().since(before) < Duration::from_secs(600));
        assert!(system.steady().since(before) < Duration::from_secs(600));
        assert!(before > "2024-01-01T00:00:00Z".parse().unwrap());
    }
}
