//! Connections that wait for room in the memory of all connections.
//!
//! Waiting connections are notified in round-robin order over the networks of their clients, and
//! within a network in the order in which they began to wait (`listener/src/fair_queue.rs`). Not
//! here: how much room there is (`connection/memory_ledger.rs`).

use std::sync::Arc;

use listener::{ClientPrefix, FairQueue};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The waiting connections. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Waiters(Arc<Mutex<FairQueue<Arc<Notify>>>>);

impl Waiters {
    /// Adds a connection to those that wait.
    pub(crate) fn join(&self, network: ClientPrefix) -> Waiter {
        let notify = Arc::<Notify>::default();
        let number = self.0.lock().push(network, notify.clone());
        Waiter {
            waiters: self.clone(),
            network,
            number,
            notify,
        }
    }

    /// Notifies the next connection.
    pub(crate) fn call_next(&self) {
        let next = self.0.lock().pop(|_| false);
        if let Some(notify) = next {
            notify.notify_one();
        }
    }
}

/// A waiting connection. Dropping this notifies the next connection.
pub(crate) struct Waiter {
    waiters: Waiters,
    network: ClientPrefix,
    number: u64,
    notify: Arc<Notify>,
}

impl Waiter {
    /// Waits until the connection is notified.
    pub(crate) async fn called(&self) {
        self.notify.notified().await;
    }

    /// Waits again after a notification. The connection stays before those of its network that
    /// began to wait later.
    pub(crate) fn rejoin(&self) {
        self.waiters
            .0
            .lock()
            .put_back(self.network, self.number, self.notify.clone());
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters.0.lock().remove(self.network, self.number);
        self.waiters.call_next();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn network(last: u8) -> ClientPrefix {
        Some(std::net::IpAddr::from([192, 0, 2, last]))
    }

    /// The waiters that are called one after the other, by their place in the list.
    fn calls(waiters: &Waiters, waiting: &[Waiter]) -> Vec<usize> {
        let mut called = Vec::new();
        for _ in waiting {
            waiters.call_next();
            called.extend(
                (0..waiting.len()).filter(|n| waiting[*n].called().now_or_never().is_some()),
            );
        }
        called
    }

    #[test]
    fn networks_take_turns() {
        let waiters = Waiters::default();
        let waiting: Vec<Waiter> = [1, 1, 1, 2, 3, 3]
            .into_iter()
            .map(|last| waiters.join(network(last)))
            .collect();
        assert_eq!(calls(&waiters, &waiting), [0, 3, 4, 1, 5, 2]);
        waiting[2].rejoin();
        waiting[0].rejoin();
        assert_eq!(
            calls(&waiters, &waiting),
            [0, 2],
            "a connection keeps its place in its network"
        );
    }

    #[test]
    fn leaving_calls_the_next() {
        let waiters = Waiters::default();
        let [first, second, third] = [1, 1, 2].map(|last| waiters.join(network(last)));
        drop(first);
        assert!(
            second.called().now_or_never().is_some() && third.called().now_or_never().is_none()
        );
        drop(second);
        assert!(third.called().now_or_never().is_some());
        drop(third);
        waiters.call_next();
        assert!(waiters.0.lock().is_empty());
    }
}
