//! Sequential numbers, random numbers, and circuit ids.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Generates numbers.
#[derive(Debug)]
pub(crate) struct IdGenerator {
    next: AtomicU64,
    hasher: RandomState,
}

impl Default for IdGenerator {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(1),
            hasher: RandomState::new(),
        }
    }
}

impl IdGenerator {
    /// A number that was not returned before.
    pub(crate) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A random number.
    pub(crate) fn random(&self) -> u64 {
        self.hasher.hash_one(self.next())
    }

    /// The id of a new circuit: at most 11 letters and digits, because links between routers carry
    /// circuit ids of at most 15 characters.
    pub(crate) fn circuit_id(&self) -> Arc<str> {
        const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        // The sequential number makes it unique; 24 random bits make it hard to guess.
        let (mut rest, mut id) = (
            (u128::from(self.next()) << 24) | u128::from(self.random() >> 40),
            String::new(),
        );
        while rest > 0 || id.is_empty() {
            let digit = usize::try_from(rest % DIGITS.len() as u128)
                .ok()
                .and_then(|digit| DIGITS.get(digit));
            id.insert(0, digit.map_or('0', |digit| char::from(*digit)));
            rest /= DIGITS.len() as u128;
        }
        id.into()
    }
}
