//! The payloads of one circuit that its other end has not acknowledged: how many there may be, and
//! when they are sent again.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use wire::link::{Acknowledgement, Payload};

/// Maximum bytes that are not acknowledged. The window begins with this size.
const MAX: usize = 4 << 20;
/// The minimum size of the window, in bytes.
const MIN: usize = 16 << 10;
/// After this many acknowledged payloads the window grows by their bytes.
const GROW_AFTER: u32 = 28;
/// After this many payloads sent again the window shrinks to three quarters.
const SHRINK_AFTER: u32 = 64;
/// Before a round trip was measured, a payload is sent again after this time.
const FIRST_TIMEOUT: Duration = Duration::from_millis(200);
/// A payload is not sent again earlier.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);
/// A payload is sent again at the latest after this time.
const MAX_TIMEOUT: Duration = Duration::from_secs(5);

/// A payload that is not acknowledged.
struct Sent {
    payload: Payload,
    /// The bytes that the payload counts in the memory budget.
    cost: usize,
    at: Instant,
}

/// The state of one direction at its sender.
pub(crate) struct SendWindow {
    sent: BTreeMap<u32, Sent>,
    /// Bytes that are not acknowledged.
    bytes: usize,
    /// Bytes that wait at the receiver.
    buffered: usize,
    limit: usize,
    next: u32,
    acknowledged: u32,
    acknowledged_bytes: usize,
    repeated: u32,
    round_trip: Option<Duration>,
    /// The start of the clock in payloads.
    began: Instant,
}

impl SendWindow {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            sent: BTreeMap::new(),
            bytes: 0,
            buffered: 0,
            limit: MAX,
            next: 0,
            acknowledged: 0,
            acknowledged_bytes: 0,
            repeated: 0,
            round_trip: None,
            began: now,
        }
    }

    /// Whether another payload may be sent. One is always allowed.
    pub(crate) fn is_open(&self) -> bool {
        self.sent.is_empty() || (self.bytes < self.limit && self.buffered <= MAX)
    }

    /// Whether everything was acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The clock for a payload that is sent now; never 0, which means none.
    pub(crate) fn clock(&self, now: Instant) -> u16 {
        let millis = now.saturating_duration_since(self.began).as_millis();
        u16::try_from(millis & 0xffff).unwrap_or_default().max(1)
    }

    /// Numbers a payload and stores it until it is acknowledged; the acknowledgement returns
    /// `cost`. `None` after 2^31 payloads.
    pub(crate) fn add(
        &mut self,
        mut payload: Payload,
        cost: usize,
        now: Instant,
    ) -> Option<Payload> {
        i32::try_from(self.next).ok()?;
        payload.sequence = self.next;
        self.next += 1;
        self.bytes += payload.data.len();
        self.sent.insert(
            payload.sequence,
            Sent {
                payload: payload.clone(),
                cost,
                at: now,
            },
        );
        Some(payload)
    }

    /// Handles an acknowledgement. Returns the cost of the acknowledged payloads.
    pub(crate) fn acknowledge(&mut self, acknowledgement: &Acknowledgement, now: Instant) -> usize {
        let mut cost = 0;
        for sequence in &acknowledgement.sequences {
            let Some(sent) = self.sent.remove(sequence) else {
                continue;
            };
            cost += sent.cost;
            self.bytes -= sent.payload.data.len();
            self.acknowledged += 1;
            self.acknowledged_bytes += sent.payload.data.len();
            if self.acknowledged >= GROW_AFTER {
                self.limit = self.limit.saturating_add(self.acknowledged_bytes).min(MAX);
                (self.acknowledged, self.acknowledged_bytes) = (0, 0);
            }
        }
        self.buffered = usize::try_from(acknowledgement.buffered).unwrap_or(usize::MAX);
        if acknowledgement.clock != 0 {
            let sample =
                Duration::from_millis(self.clock(now).wrapping_sub(acknowledgement.clock).into());
            self.round_trip = Some(
                self.round_trip
                    .map_or(sample, |known| (known * 7 + sample) / 8),
            );
        }
        cost
    }

    /// The payloads to send again now, in their order, at most `limit`.
    pub(crate) fn overdue(&mut self, now: Instant, limit: usize) -> Vec<Payload> {
        let timeout = self.timeout();
        let is_overdue = |sent: &&mut Sent| now.saturating_duration_since(sent.at) >= timeout;
        let mut again = Vec::new();
        for sent in self.sent.values_mut().filter(is_overdue).take(limit) {
            sent.at = now;
            again.push(sent.payload.clone());
            self.repeated += 1;
            if self.repeated >= SHRINK_AFTER {
                self.limit = (self.limit / 4 * 3).max(MIN);
                (self.repeated, self.acknowledged, self.acknowledged_bytes) = (0, 0, 0);
            }
        }
        again
    }

    fn timeout(&self) -> Duration {
        self.round_trip.map_or(FIRST_TIMEOUT, |round_trip| {
            (round_trip * 3 / 2).clamp(MIN_TIMEOUT, MAX_TIMEOUT)
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn payload(bytes: usize) -> Payload {
        Payload {
            sequence: 0,
            flags: 0,
            clock: 0,
            uuid: None,
            data_flags: None,
            data: Bytes::from(vec![0; bytes]),
        }
    }

    fn of(sequences: &[u32], buffered: u32, clock: u16) -> Acknowledgement {
        Acknowledgement {
            flags: 0,
            buffered,
            clock,
            sequences: sequences.to_vec(),
        }
    }

    #[test]
    fn window_closes_and_opens_again() {
        let now = Instant::now();
        let mut window = SendWindow::new(now);
        for number in 0..4 {
            assert!(window.is_open(), "{number}");
            assert_eq!(
                window.add(payload(1 << 20), 10, now).unwrap().sequence,
                number
            );
        }
        assert!(!window.is_open());
        assert_eq!(window.acknowledge(&of(&[2, 2, 9], 0, 0), now), 10);
        assert!(window.is_open());
        assert_eq!(window.acknowledge(&of(&[], u32::MAX, 0), now), 0);
        assert!(!window.is_open(), "the receiver has too much");
        assert_eq!(window.acknowledge(&of(&[0, 1, 3], u32::MAX, 0), now), 30);
        assert!(
            window.is_open() && window.is_empty(),
            "one payload is always allowed"
        );
    }

    #[test]
    fn payloads_are_repeated_until_acknowledged() {
        let began = Instant::now();
        let after = |millis| began + Duration::from_millis(millis);
        let mut window = SendWindow::new(began);
        for _ in 0..3 {
            window.add(payload(1), 1, began);
        }
        let numbers = |again: Vec<Payload>| {
            again
                .iter()
                .map(|payload| payload.sequence)
                .collect::<Vec<_>>()
        };
        assert!(window.overdue(after(199), 9).is_empty());
        assert_eq!(numbers(window.overdue(after(200), 2)), [0, 1]);
        assert_eq!(numbers(window.overdue(after(200), 9)), [2]);
        assert!(
            window.overdue(after(200), 9).is_empty(),
            "they were just sent"
        );
        // A round trip of 400 ms was measured.
        window.acknowledge(&of(&[1], 0, window.clock(after(0))), after(401));
        assert!(window.overdue(after(799), 9).is_empty());
        assert_eq!(numbers(window.overdue(after(800), 9)), [0, 2]);
    }

    #[test]
    fn window_shrinks_with_losses() {
        let began = Instant::now();
        let mut window = SendWindow::new(began);
        for _ in 0..64 {
            window.add(payload(60 << 10), 1, began);
        }
        assert!(window.is_open());
        assert_eq!(window.overdue(began + FIRST_TIMEOUT, 64).len(), 64);
        assert!(
            !window.is_open(),
            "3.75 MiB are more than three quarters of the window"
        );
        let all: Vec<u32> = (0..64).collect();
        window.acknowledge(&of(&all, 0, 0), began);
        assert_eq!(window.limit, MAX, "acknowledged bytes let it grow again");
    }
}
