//! Circuits that routers were told to remove. A message on a connection that is dead is lost,
//! therefore a router is told again on its next connection, unless it has answered a heartbeat that
//! was sent after the message.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

/// Maximum circuits remembered for one router. The oldest ones are forgotten first.
const MAX: usize = 10_000;

/// The removals of all routers.
#[derive(Default)]
pub(crate) struct Removals(Mutex<HashMap<String, OfRouter>>);

#[derive(Default)]
struct OfRouter {
    /// The number of removals up to now.
    count: u64,
    unconfirmed: VecDeque<Unconfirmed>,
    /// The connection and the clock of a heartbeat that is not answered yet, and the number of
    /// removals before it.
    asked: Option<(u64, u64, u64)>,
}

/// A removal that is not confirmed.
struct Unconfirmed {
    number: u64,
    circuit: String,
    /// Whether it is removed at once, and not after its queued data was delivered.
    now: bool,
}

impl Removals {
    /// Remembers that a router is told to remove a circuit, at once if `now`, and calls `send`,
    /// which sends the message. The lock is held meanwhile, so that no heartbeat is sent between
    /// the two.
    pub(crate) fn add(&self, router: &str, circuit: &str, now: bool, send: impl FnOnce()) {
        let mut all = self.0.lock();
        let of_router = all.entry(router.to_owned()).or_default();
        of_router.count += 1;
        if of_router.unconfirmed.len() >= MAX {
            of_router.unconfirmed.pop_front();
        }
        of_router.unconfirmed.push_back(Unconfirmed {
            number: of_router.count,
            circuit: circuit.to_owned(),
            now,
        });
        send();
    }

    /// Sends a heartbeat with this clock by `send`.
    pub(crate) fn heartbeat(&self, router: &str, connection: u64, clock: u64, send: impl FnOnce()) {
        let mut all = self.0.lock();
        if let Some(of_router) = all.get_mut(router)
            && of_router
                .asked
                .is_none_or(|(asked, ..)| asked != connection)
        {
            of_router.asked = Some((connection, clock, of_router.count));
        }
        send();
    }

    /// Confirms what was sent before a heartbeat that a router has answered. Messages are in order,
    /// so that the answer to a later heartbeat confirms it, too: a router may answer only the last
    /// of several that arrive together.
    pub(crate) fn answered(&self, router: &str, connection: u64, clock: u64) {
        let mut all = self.0.lock();
        let Some(of_router) = all.get_mut(router) else {
            return;
        };
        let Some((_, _, count)) = of_router
            .asked
            .take_if(|(asked, at, _)| *asked == connection && *at <= clock)
        else {
            return;
        };
        while of_router
            .unconfirmed
            .pop_front_if(|removal| removal.number <= count)
            .is_some()
        {}
        if of_router.unconfirmed.is_empty() {
            all.remove(router);
        }
    }

    /// The circuits whose removal a router has not confirmed, each with whether it is removed at
    /// once. They stay unconfirmed.
    pub(crate) fn unconfirmed(&self, router: &str) -> Vec<(String, bool)> {
        let all = self.0.lock();
        let of_router = all
            .get(router)
            .into_iter()
            .flat_map(|of_router| &of_router.unconfirmed);
        of_router
            .map(|removal| (removal.circuit.clone(), removal.now))
            .collect()
    }

    /// Forgets the removals of a router that has no circuits.
    pub(crate) fn forget(&self, router: &str) {
        self.0.lock().remove(router);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answered_heartbeats_confirm_removals() {
        let removals = Removals::default();
        let add = |circuit: &str| removals.add("router", circuit, true, || ());
        let unconfirmed = || {
            removals
                .unconfirmed("router")
                .into_iter()
                .map(|(circuit, _)| circuit)
                .collect::<Vec<_>>()
        };
        add("a");
        removals.heartbeat("router", 1, 10, || ());
        add("b");
        // A later heartbeat does not replace the one that is awaited.
        removals.heartbeat("router", 1, 20, || ());
        removals.answered("router", 2, 10);
        removals.answered("router", 1, 9);
        removals.answered("other", 1, 10);
        assert_eq!(unconfirmed(), ["a", "b"]);
        removals.answered("router", 1, 10);
        assert_eq!(unconfirmed(), ["b"], "sent after the heartbeat");
        removals.heartbeat("router", 1, 30, || ());
        removals.heartbeat("router", 2, 40, || ());
        removals.answered("router", 1, 30);
        assert_eq!(unconfirmed(), ["b"], "the answer of an earlier connection");
        // The answer to a later heartbeat confirms what an earlier one asked.
        removals.answered("router", 2, 50);
        assert!(removals.0.lock().is_empty());
        (0..=MAX).for_each(|circuit| add(&circuit.to_string()));
        assert_eq!((unconfirmed().len(), unconfirmed()[0].as_str()), (MAX, "1"));
        removals.forget("router");
        assert!(unconfirmed().is_empty());
    }
}
