//! The traffic of routers, as they report it once a minute (`metrics_reports.rs`).

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Bytes per second that no router moves. A report of more is rejected.
const MAX_RATE: u64 = 1 << 40;
/// For how long a rate holds without a new report.
const STALE: Duration = Duration::from_secs(150);

/// Data of a router, in bytes or in bytes per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouterTraffic {
    /// Received from clients at the router.
    pub from_clients: u64,
    /// Received from hosts at the router.
    pub from_hosts: u64,
    /// Sent over links.
    pub link_sent: u64,
    /// Received over links.
    pub link_received: u64,
}

impl RouterTraffic {
    fn zip(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            from_clients: of(self.from_clients, other.from_clients),
            from_hosts: of(self.from_hosts, other.from_hosts),
            link_sent: of(self.link_sent, other.link_sent),
            link_received: of(self.link_received, other.link_received),
        }
    }

    fn map(self, of: impl Fn(u64) -> u64) -> Self {
        self.zip(self, |value, _| of(value))
    }

    fn highest(self) -> u64 {
        self.from_clients
            .max(self.from_hosts)
            .max(self.link_sent)
            .max(self.link_received)
    }
}

/// The traffic of each router and of all together.
#[derive(Default)]
pub(crate) struct Measurements(Mutex<Measured>);

#[derive(Default)]
struct Measured {
    routers: HashMap<String, OfRouter>,
    /// Since the start of the controller.
    total: RouterTraffic,
}

struct OfRouter {
    /// Since the start of the router.
    count: RouterTraffic,
    has_reported: bool,
    rate: RouterTraffic,
    at: Instant,
}

impl Measurements {
    /// Records that a router was started: it has moved nothing yet.
    pub(crate) fn started(&self, router: &str) {
        self.0.lock().routers.insert(
            router.to_owned(),
            OfRouter::new(RouterTraffic::default(), false),
        );
    }

    /// Takes the counts of a router since its start. The first ones of a router that the controller
    /// did not see start only say where it stands. Returns whether they are accepted.
    pub(crate) fn report(&self, router: &str, count: RouterTraffic) -> bool {
        let mut measured = self.0.lock();
        let Measured { routers, total } = &mut *measured;
        let Some(before) = routers.get_mut(router) else {
            routers.insert(router.to_owned(), OfRouter::new(count, true));
            return true;
        };
        let (more, seconds) = (
            count.zip(before.count, u64::saturating_sub),
            before.at.elapsed().as_secs().max(1),
        );
        let rate = more.map(|more| more / seconds);
        if rate.highest() > MAX_RATE {
            return false;
        }
        *before = OfRouter {
            rate,
            ..OfRouter::new(count, true)
        };
        *total = total.zip(more, u64::saturating_add);
        true
    }

    /// Forgets a router.
    pub(crate) fn forget(&self, router: &str) {
        self.0.lock().routers.remove(router);
    }

    /// The bytes of a router since its start; `None` if it has not reported.
    pub(crate) fn of(&self, router: &str) -> Option<RouterTraffic> {
        self.0
            .lock()
            .routers
            .get(router)
            .filter(|router| router.has_reported)
            .map(|router| router.count)
    }

    /// The bytes of all routers since the start of the controller.
    pub(crate) fn total(&self) -> RouterTraffic {
        self.0.lock().total
    }

    /// The bytes per second of all routers, by their latest reports.
    pub(crate) fn rate(&self) -> RouterTraffic {
        let measured = self.0.lock();
        let current = measured
            .routers
            .values()
            .filter(|router| router.at.elapsed() < STALE);
        current.fold(RouterTraffic::default(), |sum, router| {
            sum.zip(router.rate, u64::saturating_add)
        })
    }
}

impl OfRouter {
    fn new(count: RouterTraffic, has_reported: bool) -> Self {
        Self {
            count,
            has_reported,
            rate: RouterTraffic::default(),
            at: Instant::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(from_clients: u64) -> RouterTraffic {
        RouterTraffic {
            from_clients,
            ..RouterTraffic::default()
        }
    }

    #[test]
    fn only_growth_counts() {
        let all = Measurements::default();
        assert!(
            all.report("came back", traffic(1000)) && all.total() == traffic(0),
            "counted by an earlier controller"
        );
        assert!(all.report("came back", traffic(1500)) && all.total() == traffic(500));
        all.started("new");
        assert!(all.report("new", traffic(70)) && all.total() == traffic(570));
        assert_eq!(
            (all.of("new"), all.rate()),
            (Some(traffic(70)), traffic(570))
        );
        // It was restarted, unnoticed.
        assert!(all.report("new", traffic(7)) && all.total() == traffic(570));
        all.forget("new");
        assert!(all.of("new").is_none() && all.total() == traffic(570));
    }

    #[test]
    fn impossible_rates_are_rejected() {
        let all = Measurements::default();
        all.started("liar");
        assert!(!all.report("liar", traffic(u64::MAX)));
        assert_eq!(
            (all.of("liar"), all.total(), all.rate()),
            (None, traffic(0), traffic(0))
        );
    }
}
