//! The dynamic cost of a terminator: what open circuits and failed dials add to its cost.

use std::sync::atomic::{AtomicU32, Ordering};

/// Added to the dynamic cost by each failed dial, up to `MAX_FAILED`.
const FAILED: u32 = 20;
const MAX_FAILED: u32 = 16_383;
/// Subtracted from the failures' cost by each successful dial.
const SUCCEEDED: u32 = 2;
/// Subtracted from the failures' cost each minute.
const REDUCTION: u32 = 5;
/// Added to the dynamic cost by each open circuit.
const CIRCUIT: u32 = 2;

/// The dynamic cost of one terminator.
#[derive(Debug, Default)]
pub(crate) struct DynamicCost {
    /// The cost of failed dials.
    failures: AtomicU32,
    /// Circuits that are open.
    circuits: AtomicU32,
}

impl DynamicCost {
    /// The current cost.
    pub(crate) fn value(&self) -> u16 {
        let circuits = self
            .circuits
            .load(Ordering::Relaxed)
            .saturating_mul(CIRCUIT);
        u16::try_from(circuits.saturating_add(self.failures.load(Ordering::Relaxed)))
            .unwrap_or(u16::MAX)
    }

    pub(crate) fn dial_failed(&self) {
        self.change_failures(|failures| failures.saturating_add(FAILED).min(MAX_FAILED));
    }

    pub(crate) fn dial_succeeded(&self) {
        self.change_failures(|failures| failures.saturating_sub(SUCCEEDED));
        self.circuits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn circuit_ended(&self) {
        self.circuits.fetch_sub(1, Ordering::Relaxed);
    }

    /// Reduces the cost of failures; called each minute. Returns whether there was any.
    pub(crate) fn reduce_failures(&self) -> bool {
        let had = self.failures.load(Ordering::Relaxed) > 0;
        self.change_failures(|failures| failures.saturating_sub(REDUCTION));
        had
    }

    fn change_failures(&self, change: impl Fn(u32) -> u32) {
        // Cannot fail: the closure always returns `Some`.
        let _ = self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |failures| {
                Some(change(failures))
            });
    }
}
