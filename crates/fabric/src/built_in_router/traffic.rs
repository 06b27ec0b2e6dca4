//! The data of a circuit: how much each of its sides has sent.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::circuit_side::CircuitSide;
use crate::network::SentInfo;

/// Counters of the data that passed this router, by the side that has sent them.
#[derive(Default)]
pub(crate) struct Traffic {
    /// Bytes from the client and from the host.
    bytes: [AtomicU64; 2],
    /// The byte counts and rates at the last measurement.
    measured: Mutex<[SentInfo; 2]>,
}

impl Traffic {
    /// Counts data bytes received from a side.
    pub(crate) fn count(&self, from: CircuitSide, bytes: usize) {
        let [client, host] = &self.bytes;
        let counter = if from == CircuitSide::Client {
            client
        } else {
            host
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Updates the rates; the last measurement was `seconds` ago.
    pub(crate) fn measure(&self, seconds: u64) {
        let mut measured = self.measured.lock();
        for (before, bytes) in measured.iter_mut().zip(&self.bytes) {
            let bytes = bytes.load(Ordering::Relaxed);
            *before = SentInfo {
                bytes,
                bytes_per_second: Some((bytes - before.bytes) / seconds.max(1)),
            };
        }
    }

    /// What the client and the host have sent.
    pub(crate) fn info(&self) -> [SentInfo; 2] {
        let [client, host] = *self.measured.lock();
        let [from_client, from_host] = self
            .bytes
            .each_ref()
            .map(|bytes| bytes.load(Ordering::Relaxed));
        let sent = |bytes, before: SentInfo| SentInfo {
            bytes,
            bytes_per_second: before.bytes_per_second.or(Some(0)),
        };
        [sent(from_client, client), sent(from_host, host)]
    }
}
