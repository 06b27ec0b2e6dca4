//! The payloads of one circuit that arrived and were not delivered yet: put in order, without
//! repetitions, bounded in bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::link::Payload;

/// Maximum bytes that wait.
const MAX: usize = 4 << 20;
/// The cost in bytes of a payload beside its data and headers.
const OVERHEAD: usize = 128;

/// The state of one direction at its receiver.
#[derive(Default)]
pub(crate) struct ReceiveBuffer {
    waiting: BTreeMap<u32, Payload>,
    /// The bytes of the payloads that wait.
    bytes: usize,
    /// The next sequence number to deliver.
    next: u32,
    /// The waiting bytes that the last acknowledgement reported.
    reported: usize,
}

/// What happens to a payload that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The payload waits and takes this many bytes.
    Kept(usize),
    /// The payload had arrived before. It is acknowledged again, because the first acknowledgement
    /// may be lost.
    Repeated,
    /// There is no room: its sender sends it again.
    Dropped,
}

impl ReceiveBuffer {
    /// Stores a payload if all waiting payloads have at most `room` bytes with it. The payload that
    /// is delivered next is always stored.
    pub(crate) fn insert(&mut self, payload: Payload, room: usize) -> Arrival {
        if payload.sequence < self.next || self.waiting.contains_key(&payload.sequence) {
            return Arrival::Repeated;
        }
        let cost = cost(&payload);
        let is_next = payload.sequence == self.next;
        if !is_next && self.bytes + cost > room.min(MAX) {
            return Arrival::Dropped;
        }
        self.bytes += cost;
        self.waiting.insert(payload.sequence, payload);
        Arrival::Kept(cost)
    }

    /// Takes the next payload in order and the bytes that it took.
    pub(crate) fn take(&mut self) -> Option<(Payload, usize)> {
        let payload = self.waiting.remove(&self.next)?;
        let cost = cost(&payload);
        self.next = self.next.saturating_add(1);
        self.bytes -= cost;
        Some((payload, cost))
    }

    /// Whether the end of the circuit has arrived and waits.
    pub(crate) fn has_end(&self) -> bool {
        self.waiting
            .values()
            .next_back()
            .is_some_and(Payload::is_end)
    }

    /// The bytes that wait, for an acknowledgement.
    pub(crate) fn report(&mut self) -> u32 {
        self.reported = self.bytes;
        u32::try_from(self.bytes).unwrap_or(u32::MAX)
    }

    /// Whether so much was delivered since the last report that the sender should know.
    pub(crate) fn has_emptied(&self) -> bool {
        self.reported > 10_000 && self.reported / 2 > self.bytes
    }

    /// Forgets everything. Returns its bytes.
    pub(crate) fn clear(&mut self) -> usize {
        self.waiting.clear();
        std::mem::take(&mut self.bytes)
    }
}

fn cost(payload: &Payload) -> usize {
    let headers = [&payload.uuid, &payload.data_flags];
    payload.data.len() + headers.into_iter().flatten().map(Bytes::len).sum::<usize>() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(sequence: u32, bytes: usize) -> Payload {
        Payload {
            sequence,
            flags: 0,
            clock: 0,
            uuid: None,
            data_flags: None,
            data: Bytes::from(vec![0; bytes]),
        }
    }

    fn taken(buffer: &mut ReceiveBuffer) -> Vec<u32> {
        std::iter::from_fn(|| buffer.take())
            .map(|(payload, _)| payload.sequence)
            .collect()
    }

    #[test]
    fn payloads_are_put_in_order() {
        let mut buffer = ReceiveBuffer::default();
        for sequence in [2, 0, 3, 2] {
            buffer.insert(payload(sequence, 10), MAX);
        }
        assert_eq!(taken(&mut buffer), [0]);
        assert_eq!(
            buffer.insert(payload(0, 10), MAX),
            Arrival::Repeated,
            "delivered before"
        );
        assert_eq!(
            buffer.insert(payload(3, 10), MAX),
            Arrival::Repeated,
            "waiting"
        );
        assert_eq!(
            buffer.insert(payload(1, 10), MAX),
            Arrival::Kept(10 + OVERHEAD)
        );
        assert_eq!(taken(&mut buffer), [1, 2, 3]);
        assert_eq!(buffer.clear(), 0);
    }

    #[test]
    fn waiting_payloads_are_bounded() {
        let mut buffer = ReceiveBuffer::default();
        let big = 1 << 20;
        assert_eq!(
            (1..=5)
                .filter(|number| matches!(
                    buffer.insert(payload(*number, big), MAX),
                    Arrival::Kept(_)
                ))
                .count(),
            3
        );
        assert_eq!(
            buffer.insert(payload(9, 0), 1 << 10),
            Arrival::Dropped,
            "the room of all circuits is smaller"
        );
        assert!(
            matches!(buffer.insert(payload(0, 4 * big), 0), Arrival::Kept(_)),
            "the others wait for this one"
        );
        assert!(buffer.report() > 7 << 20);
        assert_eq!(taken(&mut buffer), [0, 1, 2, 3]);
        assert!(buffer.has_emptied());
        assert_eq!(buffer.report(), 0);
        assert!(!buffer.has_emptied());
        let with_headers = Payload {
            uuid: Some(Bytes::from(vec![0; 1000])),
            data_flags: Some(Bytes::from(vec![0; 4])),
            ..payload(5, 10)
        };
        assert_eq!(
            buffer.insert(with_headers, MAX),
            Arrival::Kept(1014 + OVERHEAD),
            "headers take room too"
        );
    }
}
