//! Slots for connections whose clients are not authenticated yet. While all are taken, the networks
//! of the waiting clients take turns (`fair_queue.rs`).
//!
//! Not here: how long a client may hold its slot (`accept.rs`). Invariant: no slot is free
//! while clients wait.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::fair_queue::{ClientPrefix, FairQueue};

/// All slots of one kind. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HandshakeSlots(Arc<Mutex<State>>);

struct State {
    free: usize,
    waiting: FairQueue<oneshot::Sender<HandshakeSlot>>,
}

/// A slot. Dropping it gives the slot to the next client.
pub(crate) struct HandshakeSlot(Option<HandshakeSlots>);

impl HandshakeSlots {
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            free: count,
            waiting: FairQueue::default(),
        })))
    }

    /// A free slot, if there is one.
    pub(crate) fn try_enter(&self) -> Option<HandshakeSlot> {
        let mut state = self.0.lock();
        state.free = state.free.checked_sub(1)?;
        Some(HandshakeSlot(Some(self.clone())))
    }

    /// Waits for a slot. `None` does not occur: a waiting client is forgotten only after it has a
    /// slot or has left.
    pub(crate) async fn enter(&self, network: ClientPrefix) -> Option<HandshakeSlot> {
        let handed_over = {
            let mut state = self.0.lock();
            if let Some(left) = state.free.checked_sub(1) {
                state.free = left;
                return Some(HandshakeSlot(Some(self.clone())));
            }
            state.join(network)
        };
        handed_over.await.ok()
    }
}

impl State {
    fn join(&mut self, network: ClientPrefix) -> oneshot::Receiver<HandshakeSlot> {
        let (hand_over, handed_over) = oneshot::channel();
        self.waiting.push(network, hand_over);
        handed_over
    }

    /// The client that is next, which may have left; `None` if nobody waits.
    fn next(&mut self) -> Option<oneshot::Sender<HandshakeSlot>> {
        self.waiting.pop(oneshot::Sender::is_closed)
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        let Some(slots) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = slots.0.lock();
                let next = state.next();
                state.free += usize::from(next.is_none());
                next
            };
            match next.map(|next| next.send(Self(Some(slots.clone())))) {
                // This client has left in the meantime: the next one gets the slot.
                Some(Err(mut returned)) => drop(returned.0.take()),
                Some(Ok(())) | None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures_util::FutureExt;

    use super::*;

    fn network(last: u8) -> ClientPrefix {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn networks_take_turns_for_slots() {
        let slots = HandshakeSlots::new(2);
        let mut held: Vec<_> = (0..2).map(|_| slots.try_enter().unwrap()).collect();
        assert!(slots.try_enter().is_none());
        let mut waiting: Vec<_> = [1, 1, 1, 1, 2, 3, 3]
            .into_iter()
            .map(|last| (last, Box::pin(slots.enter(network(last)))))
            .collect();
        for (_, slot) in &mut waiting {
            assert!(slot.now_or_never().is_none());
        }
        let mut served = Vec::new();
        while !waiting.is_empty() {
            drop(held.remove(0));
            let (at, slot) = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(at, (_, slot))| Some((at, slot.now_or_never()?)))
                .unwrap();
            held.push(slot.unwrap());
            served.push(waiting.remove(at).0);
        }
        assert_eq!(served, [1, 2, 3, 1, 3, 1, 1]);
        drop(held);
        let state = slots.0.lock();
        assert!(state.free == 2 && state.waiting.is_empty());
    }

    #[test]
    fn many_departed_networks_are_skipped() {
        let slots = HandshakeSlots::new(1);
        let held = slots.try_enter().unwrap();
        for number in 0..200_000_u32 {
            assert!(
                slots
                    .enter(Some(IpAddr::from(number.to_be_bytes())))
                    .now_or_never()
                    .is_none()
            );
        }
        drop(held);
        assert!(slots.try_enter().is_some() && slots.0.lock().waiting.is_empty());
    }

    #[test]
    fn clients_that_left_get_no_slot() {
        let slots = HandshakeSlots::new(1);
        let held = slots.try_enter().unwrap();
        let mut waiting: Vec<_> = [1, 1, 2, 3]
            .into_iter()
            .map(|last| Some(Box::pin(slots.enter(network(last)))))
            .collect();
        for slot in waiting.iter_mut().flatten() {
            assert!(slot.now_or_never().is_none());
        }
        (waiting[0], waiting[2]) = (None, None);
        drop(held);
        let second = waiting[1].as_mut().unwrap().now_or_never().unwrap();
        // This one leaves after it got the slot.
        drop(second);
        waiting[3] = None;
        assert!(slots.try_enter().is_some());
        assert!(slots.0.lock().waiting.is_empty());
    }
}
